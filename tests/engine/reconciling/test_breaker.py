"""So much trouble at once that the loop stops, and trouble that is none of that kind."""

import dataclasses
import datetime

import pytest

from tests import builders
from tests.engine.reconciling import stage
from tpuctl.engine import reconciling as engine
from tpuctl.engine.reconciling import breaker
from tpuctl.model import declared, operations, reconciling

Kind = reconciling.ActionKind
State = reconciling.GuardState
CUBES = stage.cubes(8)
TRAIN = builders.slice_of("train", "4x8x8", *(cube.id for cube in CUBES[:4]))


@pytest.mark.parametrize(
    ("percent", "cubes", "minimum", "group", "trips_at"),
    [
        # percent only: rounded up, and never below the minimum
        (20.0, 999, 1, 0, 1),
        (20.0, 999, 1, 1, 1),
        (20.0, 999, 1, 2, 1),
        (20.0, 999, 1, 4, 1),
        (20.0, 999, 1, 5, 1),
        (20.0, 999, 1, 6, 2),
        (20.0, 999, 1, 100, 20),
        (20.0, 999, 2, 1, 2),
        (20.0, 999, 2, 2, 2),
        (20.0, 999, 2, 4, 2),
        (20.0, 999, 2, 5, 2),
        (20.0, 999, 2, 100, 20),
        # an absolute number goes first if it is smaller
        (25.0, 16, 2, 4, 2),
        (25.0, 16, 2, 12, 3),
        (25.0, 16, 2, 64, 16),
        (25.0, 16, 2, 100, 16),
        (25.0, 16, 2, 6250, 16),
        (100.0, 3, 2, 100, 3),
        (100.0, 3, 2, 2, 2),
        (0.1, 16, 2, 100, 2),
        (33.3, 999, 2, 1000, 333),
    ],
)
def test_the_breaker_acts_in_groups_of_any_size(percent, cubes, minimum, group, trips_at):
    """karpenter #3192, #2321, #2811: 20 % that never acted in groups of less than five."""
    settings = declared.Breaker(percent=percent, cubes=cubes, minimum_cubes=minimum)
    assert breaker.threshold(settings, group) == trips_at


def broken(*numbers, wanted=None, slices=(), **more):
    spec = wanted or stage.spec(stage.want("new", "4x4x4"), breaker=declared.Breaker(percent=50.0))
    made = [stage.sick(cube) if number in numbers else cube for number, cube in enumerate(CUBES)]
    return stage.view(builders.fleet_of(*made, slices=slices), spec, **more)


class TestBreaker:
    def test_below_its_limit_nothing_is_stopped(self):
        found = engine.decide(broken(0, 1, 2))
        assert stage.lines(found) == ["form/new"]
        assert stage.guard(found, "breaker").says == "3 of 8 cubes in trouble, it trips at 4"

    def test_at_its_limit_everything_is(self):
        found = engine.decide(broken(0, 1, 2, 3))
        assert found.to_do == ()
        assert found.memory.tripped == reconciling.Tripped(
            stage.NOW, "4 cubes of 8 in trouble at once, it trips at 4: b1-c00, b1-c01, b1-c02 and 1 more"
        )
        guard = stage.guard(found, "breaker")
        assert (guard.state, guard.says.split("; ")[-1]) == (State.STOPS_ALL, breaker.RESET)

    def test_it_stays_tripped_when_all_is_well_again(self):
        seen = broken(0, 1, 2, 3)
        tripped = engine.decide(seen)
        well = dataclasses.replace(stage.later(seen, tripped), snapshot=builders.fleet_of(*CUBES))
        found = engine.decide(well)
        assert found.to_do == ()
        reset = dataclasses.replace(well, memory=engine.reset_breaker(found.memory))
        assert stage.lines(engine.decide(reset)) == ["form/new"]

    def test_what_a_person_has_seen_does_not_trip_it_again(self):
        seen = broken(0, 1, 2, 3)
        reset = engine.reset_breaker(engine.decide(seen).memory)
        again = dataclasses.replace(seen, memory=reset)
        assert stage.lines(engine.decide(again)) == ["form/new"]
        worse = dataclasses.replace(broken(0, 1, 2, 3, 4, 5, 6, 7), memory=reset)
        assert engine.decide(worse).memory.tripped is not None

    def test_unknown_counts_as_trouble(self):
        made = [stage.unknown(cube) if number < 4 else cube for number, cube in enumerate(CUBES)]
        seen = dataclasses.replace(broken(), snapshot=builders.fleet_of(*made))
        assert engine.decide(seen).memory.tripped is not None

    def test_a_slice_that_is_away_is_made_again_all_the_same(self):
        entry = stage.operation(TRAIN, operations.Kind.SWAP, operations.Intent.DELETING)
        other = stage.operation(
            builders.slice_of("b", "4x4x4", "b1-c06"), operations.Kind.SWAP, operations.Intent.PLANNED
        )
        found = engine.decide(broken(0, 1, 2, 3, operations=(entry, other)))
        assert stage.lines(found) == [f"finish/{entry.id}"]
        assert next(action for action in found.actions if action.target == other.id).stopped_by.startswith(
            "breaker: "
        )

    def test_it_counts_no_cube_that_is_on_hold(self):
        seen = broken(0, 1, 2, 3)
        claims = (operations.Claim("b1-c00", "hold by jo: hardware change"),)
        seen = dataclasses.replace(seen, snapshot=dataclasses.replace(seen.snapshot, claims=claims))
        assert engine.decide(seen).memory.tripped is None

    def test_hosts_in_repair_are_normal(self):
        """Free cubes that lack nodes, with the reservation saying why, for as long as a repair takes."""
        made = [
            stage.with_pool(number, hosts=15, healthy_hosts=15, degraded_hosts=1, health="DEGRADED")
            if number < 6
            else stage.with_pool(number)
            for number in range(8)
        ]
        found = engine.decide(dataclasses.replace(broken(), snapshot=stage.hardware(*made)))
        assert found.memory.tripped is None
        silent = [
            dataclasses.replace(cube, sub_block=None) if number < 6 else cube
            for number, cube in enumerate(made)
        ]
        tripped = engine.decide(dataclasses.replace(broken(), snapshot=stage.hardware(*silent)))
        assert tripped.memory.tripped is not None

    def test_two_hosts_that_die_in_a_small_fleet_do_not_stop_the_loop(self):
        """The defaults, 12 cubes, one spare: the first was swapped out, for the second there is no spare."""
        healthy = [stage.with_pool(number) for number in range(12)]

        def dead(number):
            return stage.sick(stage.with_pool(number, healthy_hosts=15, degraded_hosts=1, health="DEGRADED"))

        parts = [cube.id for cube in healthy[:11]]
        train = builders.slice_of("train", "4x4x44", *parts)
        wanted = stage.spec(stage.want("train", "4x4x44"), breaker=declared.Breaker())
        made = [dead(0), *healthy[1:]]
        seen = stage.view(stage.hardware(*made, slices=(stage.failed(train),)), wanted)
        first = engine.decide(seen)
        assert stage.lines(first) == ["swap/train"]
        after = stage.carried_out(seen, first)
        worse = stage.with_slices(
            stage.with_cubes(after.snapshot, dead(5), dead(6)),
            stage.failed(after.snapshot.slices_by_name["train"], 60.0),
        )
        second = engine.decide(dataclasses.replace(after, snapshot=worse))
        assert second.memory.tripped is None
        assert stage.guard(second, "breaker").says == "2 of 12 cubes in trouble, it trips at 3"

    def test_what_waits_for_a_spare_for_more_than_an_hour_is_no_news(self):
        """Two cubes in repair under a slice, then two more: never four at once."""
        made = [
            stage.sick(stage.with_pool(number, healthy_hosts=15, degraded_hosts=1))
            if number < 2
            else stage.with_pool(number)
            for number in range(8)
        ]
        train = stage.failed(builders.slice_of("train", "8x8x8", *(cube.id for cube in made)))
        wanted = stage.spec(stage.want("train", "8x8x8"), breaker=declared.Breaker())
        seen = stage.view(stage.hardware(*made, slices=(train,)), wanted)
        first = engine.decide(seen)
        early = stage.later(seen, first, 3599.0)
        assert stage.guard(engine.decide(early), "breaker").says.startswith("2 of 8 cubes")
        late = stage.later(seen, first, 3600.0)
        assert stage.guard(engine.decide(late), "breaker").says.startswith("0 of 8 cubes")
        # What the reservation does not confirm counts for as long as it is so.
        silent = [dataclasses.replace(cube, sub_block=None) for cube in made]
        still = dataclasses.replace(
            late, snapshot=dataclasses.replace(stage.hardware(*silent, slices=(train,)), observed_at=late.now)
        )
        assert stage.guard(engine.decide(still), "breaker").says.startswith("2 of 8 cubes")

    def test_sub_slices_on_what_is_left_of_a_broken_cube_are_no_trouble(self):
        made = [
            stage.with_pool(number, hosts=15, healthy_hosts=15, degraded_hosts=1)
            if number < 3
            else stage.with_pool(number)
            for number in range(8)
        ]
        parts = tuple(
            builders.slice_of(f"s-{number}", "2x2x2", f"b1-c{number:02}.222.0") for number in range(3)
        )
        wanted = stage.spec(stage.want("s", "2x2x2", count=3), breaker=declared.Breaker())
        seen = stage.view(stage.hardware(*made, slices=parts), wanted)
        seen = dataclasses.replace(
            seen,
            memory=dataclasses.replace(
                seen.memory,
                sightings=tuple(
                    reconciling.Sighting("trouble", cube.id, stage.NOW - datetime.timedelta(hours=2), 2)
                    for cube in made[:3]
                ),
            ),
        )
        assert engine.decide(seen).memory.tripped is None

    def test_a_pool_that_is_being_made_is_no_trouble(self):
        made = [
            stage.with_pool(number, hosts=5, status="PROVISIONING") if number < 6 else stage.with_pool(number)
            for number in range(8)
        ]
        found = engine.decide(dataclasses.replace(broken(), snapshot=stage.hardware(*made)))
        assert found.memory.tripped is None

    def test_no_cube_at_all_stops_everything_but_a_beginning(self):
        """A share of nothing means nothing."""
        made = [dataclasses.replace(stage.bare(number)) for number in range(4)]
        wanted = stage.spec(stage.want("a", "4x4x4"), blocks=(declared.BlockSpec(name="b1"),))
        seen = stage.view(stage.hardware(*made), wanted, blocks=stage.reserved(*made))
        assert len(engine.decide(seen).to_do) == 4
        lost = dataclasses.replace(seen, memory=stage.memory(TRAIN))
        assert engine.decide(lost).to_do == ()
        assert "the view may be wrong" in engine.decide(lost).actions[0].stopped_by
