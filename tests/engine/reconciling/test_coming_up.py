"""Cubes that are coming up: nothing is put onto them, and what they will make room for is waited for."""

import dataclasses
import datetime

from tests import builders
from tests.engine.reconciling import stage
from tpuctl.engine import reconciling as engine
from tpuctl.engine.reconciling import arriving
from tpuctl.model import declared, reconciling

Kind = reconciling.ActionKind
BLOCKS = (declared.BlockSpec(name=stage.BLOCK),)


def coming(number, hosts=5, **more):
    """Its node pool is being made, and some nodes are there already."""
    return stage.with_pool(number, hosts=hosts, status="PROVISIONING", **more)


def young(number, minutes):
    """Its pool is made, its last node has been there for so long, and another one is not there yet."""
    made = stage.with_pool(number, hosts=15)
    return builders.changed(made, 14, created_at=stage.NOW - datetime.timedelta(minutes=minutes))


def on(*cubes, wanted, **more):
    return stage.view(stage.hardware(*cubes), wanted, **more)


def up(*numbers):
    return [stage.with_pool(number) for number in numbers]


class TestSubSlices:
    PARTS = stage.spec(stage.want("s", "2x2x2", count=2))

    def test_they_do_not_go_onto_a_cube_that_is_coming_up(self):
        found = engine.decide(on(coming(0, 12), coming(1, 12), wanted=self.PARTS))
        assert found.actions == ()
        assert set(dict(found.waiting)) == {"s-0", "s-1"}

    def test_nor_onto_one_whose_nodes_are_new(self):
        assert engine.decide(on(young(0, 14), wanted=self.PARTS)).actions == ()
        [first, second] = engine.decide(on(young(0, 16), wanted=self.PARTS)).to_do
        assert first.forming[0].partition_ids != second.forming[0].partition_ids

    def test_they_share_the_cube_that_is_partly_broken(self):
        short = stage.with_pool(2, hosts=15, healthy_hosts=15, degraded_hosts=1)
        found = engine.decide(on(*up(0, 1), short, coming(3, 9), coming(4, 9), wanted=self.PARTS))
        ids = [action.forming[0].partition_ids[0] for action in found.to_do]
        assert ids == ["b1-c02.222.6", "b1-c02.222.4"]

    def test_one_in_use_is_not_called_coming_up_because_a_host_of_it_is_new(self):
        """Auto-repair made a node anew under a sub-slice; the others of its kind still go beside it."""
        there = builders.slice_of("s-0", "2x2x2", "b1-c00.222.0")
        snapshot = stage.hardware(young(0, 1), *up(1), slices=(there,))
        [action] = engine.decide(stage.view(snapshot, self.PARTS)).to_do
        assert action.forming[0].partition_ids == ("b1-c00.222.1",)


class TestWaiting:
    """Six cubes, of which two are coming up, for a slice of six and one of two."""

    WANTED = stage.spec(
        stage.want("big", "4x4x24", "4x8x8", priority=5), stage.want("low", "4x4x8"), blocks=BLOCKS
    )

    def seen(self, *more, wanted=WANTED, **others):
        return on(*up(0, 1, 2, 3), *(more or (coming(4), coming(5))), wanted=wanted, **others)

    def test_it_does_not_fall_back_while_cubes_come_up_that_make_it_fit(self):
        found = engine.decide(self.seen())
        assert found.actions == ()
        assert dict(found.waiting)["big"] == (
            "4x4x24 does not fit yet: 2 cubes of its block are coming up; "
            "it waits for that until 2026-01-05 08:45:00 UTC at the latest"
        )

    def test_the_less_urgent_do_not_take_what_it_waits_for(self):
        found = engine.decide(self.seen())
        assert dict(found.waiting)["low"].startswith("4x4x8 does not fit now: 2 cubes of one block needed")
        once_up = dataclasses.replace(
            stage.later(self.seen(), found), snapshot=stage.hardware(*up(*range(6)))
        )
        assert stage.lines(engine.decide(once_up)) == ["form/big"]

    def test_they_take_what_it_cannot_use(self):
        anywhere = stage.spec(*self.WANTED.slices)
        found = engine.decide(self.seen(coming(4), coming(5), *stage.cubes(2, "b2"), wanted=anywhere))
        [action] = found.to_do
        assert (action.id, action.forming[0].partition_ids) == ("form/low", ("b2-c00", "b2-c01"))

    def test_who_fits_is_formed_and_the_next_one_waits(self):
        found = engine.decide(self.seen(*up(6, 7), coming(4), coming(5)))
        assert stage.lines(found) == ["form/big"]
        assert "2 cubes of its block are coming up" in dict(found.waiting)["low"]

    def test_equals_and_the_more_urgent_need_not_wait_for_it(self):
        wanted = dataclasses.replace(
            self.WANTED,
            slices=(
                self.WANTED.slices[0],
                stage.want("high", "4x4x8", priority=9),
                stage.want("low", "4x4x8"),
            ),
        )
        found = engine.decide(self.seen(coming(4), coming(5), coming(6), coming(7), wanted=wanted))
        assert stage.lines(found) == ["form/high"]
        assert found.to_do[0].forming[0].partition_ids == ("b1-c00", "b1-c01")

    def test_not_for_ever(self):
        seen = self.seen()
        first = engine.decide(seen)
        early = stage.later(seen, first, arriving.WAIT_S - 1)
        assert engine.decide(early).actions == ()
        late = stage.later(seen, first, arriving.WAIT_S)
        found = engine.decide(late)
        assert stage.lines(found) == ["form/big"]
        assert str(found.to_do[0].forming[0].topology) == "4x8x8"
        stopped = dataclasses.replace(late, pause=reconciling.Pause("jo", "look", stage.NOW))
        again = engine.decide(stage.later(late, engine.decide(stopped)))
        assert stage.lines(again) == ["form/big"]  # its patience does not begin anew

    def test_only_if_they_make_it_fit(self):
        found = engine.decide(self.seen(coming(4)))
        assert str(stage.one(found, Kind.FORM).forming[0].topology) == "4x8x8"

    def test_pools_that_this_cycle_creates_count(self):
        bare = [stage.bare(4), stage.bare(5)]
        seen = self.seen(*bare, blocks=stage.reserved(*up(*range(4)), *bare))
        found = engine.decide(seen)
        assert [action.kind for action in found.to_do] == [Kind.CREATE_POOL, Kind.CREATE_POOL]
        assert "2 cubes of its block are coming up" in dict(found.waiting)["big"]

    def test_pools_whose_turn_comes_later_count_as_long_as_another_is_under_way(self):
        bare = [stage.bare(4), stage.bare(5)]
        one = dataclasses.replace(self.WANTED, budgets=declared.Budgets(pool_operations_in_flight=1))
        blocks = stage.reserved(*up(*range(4)), *bare)
        found = engine.decide(self.seen(*bare, wanted=one, blocks=blocks))
        assert [action.kind for action in found.to_do] == [Kind.CREATE_POOL]
        assert "2 cubes" in dict(found.waiting)["big"]
        others = self.seen(*bare, wanted=one, blocks=blocks, pool_operations=1)
        busy = engine.decide(others)
        assert busy.to_do == ()
        assert "2 cubes" in dict(busy.waiting)["big"]
        # An operation that never ends holds up nobody for longer than a pool may take.
        hangs = engine.decide(stage.later(others, busy, arriving.WAIT_S))
        assert [action.kind for action in hangs.to_do] == [Kind.FORM]

    def test_whose_turn_comes_later_is_waited_for_longer(self):
        """A block is set up over hours; a flagship that is begun small would have to be ended to grow."""
        bare = [stage.bare(number) for number in range(4, 12)]
        two = dataclasses.replace(self.WANTED, budgets=declared.Budgets(pool_operations_in_flight=2))
        wanted = dataclasses.replace(two, slices=(stage.want("big", "8x8x12", "4x8x8"),))
        blocks = stage.reserved(*up(*range(4)), *bare)
        seen = self.seen(*bare, wanted=wanted, blocks=blocks)
        first = engine.decide(seen)
        assert {*stage.lines(first)} == {"create-pool/cube-sb04", "create-pool/cube-sb05"}
        # Each time some have come up, patience begins anew: eight to make, two at a time.
        for done in (2, 4, 6):
            now = [*up(*range(4 + done)), *bare[done:]]
            late = self.seen(*now[4:], wanted=wanted, blocks=stage.reserved(*now))
            seen = dataclasses.replace(
                late,
                memory=stage.later(seen, first).memory,
                snapshot=dataclasses.replace(
                    late.snapshot, observed_at=seen.now + datetime.timedelta(seconds=1800.0)
                ),
            )
            first = engine.decide(seen)
            assert "does not fit yet" in dict(first.waiting)["big"]
        # None has come for as long as one may take.
        given_up = engine.decide(stage.later(seen, first, arriving.WAIT_S))
        assert str(stage.one(given_up, Kind.FORM).forming[0].topology) == "4x8x8"

    def test_nobody_is_disturbed_for_it(self):
        there = builders.slice_of("low", "4x4x8", "b1-c00", "b1-c01")
        wanted = dataclasses.replace(
            self.WANTED, slices=(self.WANTED.slices[0], stage.want("low", "4x4x8", preemptible=True))
        )
        cubes = (*up(*range(4)), *(coming(number) for number in range(4, 8)))
        snapshot = stage.hardware(*cubes, slices=(there,))
        found = engine.decide(stage.view(snapshot, wanted))
        assert found.actions == ()
        assert "are coming up" in dict(found.waiting)["big"]

    def test_what_is_down_waits_for_a_spare_that_comes_up(self):
        parts = [f"b1-c{number:02}" for number in range(4)]
        down = stage.failed(builders.slice_of("train", "4x8x8", *parts), 700.0)
        wanted = stage.spec(stage.want("train", "4x8x8", "4x4x8"))
        cubes = [stage.sick(cube) if number == 0 else cube for number, cube in enumerate(up(*range(4)))]
        seen = stage.view(stage.hardware(*cubes, coming(4), slices=(down,)), wanted)
        again, found = stage.second_look(seen)
        assert found.actions == ()
        late = stage.later(again, found, arriving.WAIT_S)
        assert stage.lines(engine.decide(late)) == ["deform/train"]
        without = stage.view(stage.hardware(*cubes, slices=(down,)), wanted)
        assert stage.lines(stage.second_look(without)[1]) == ["deform/train"]
