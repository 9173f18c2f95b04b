"""Better places for what runs, only where that pays."""

import dataclasses
import datetime

import pytest

from tests import builders
from tests.engine.reconciling import stage
from tpuctl.engine import reconciling as engine
from tpuctl.model import declared, fleet, operations, reconciling, states

Kind = reconciling.ActionKind
SETTLED_S = 900.0
SMALL = builders.slice_of("train", "4x4x8", "b1-c00", "b1-c01", created_at=stage.LONG_AGO)
WANTED = stage.spec(stage.want("train", "4x8x8", "4x4x8"))


def on(*cubes, slices=(SMALL,), wanted=WANTED, **more):
    return stage.view(builders.fleet_of(*(cubes or stage.cubes(6)), slices=slices), wanted, **more)


def settled(seen):
    return stage.second_look(seen, SETTLED_S)[1]


class TestGrowth:
    def test_a_slice_that_had_to_fall_back_grows_into_room_that_has_settled(self):
        seen = on()
        first = engine.decide(seen)
        assert first.actions == ()
        assert engine.decide(stage.later(seen, first, SETTLED_S - 1)).actions == ()
        action = stage.one(engine.decide(stage.later(seen, first, SETTLED_S)), Kind.GROW)
        [forming] = action.forming
        assert (str(forming.topology), len(forming.partition_ids)) == ("4x8x8", 4)
        assert (action.voluntary, action.chips, action.stopped_by) == (True, 128, "")
        assert (action.gain_chip_h, action.cost_chip_h) == (128 * 24.0, 128 * 0.5)
        assert "128 chips more fit now, worth 3,072 chip-hours for 64 lost" in action.reason

    def test_room_that_comes_and_goes_is_not_room(self):
        seen = on()
        gone = on(*stage.cubes(2), memory=engine.decide(seen).memory)
        back = dataclasses.replace(
            seen,
            memory=engine.decide(gone).memory,
            snapshot=dataclasses.replace(
                seen.snapshot, observed_at=stage.NOW + datetime.timedelta(seconds=SETTLED_S)
            ),
        )
        assert engine.decide(back).actions == ()

    @pytest.mark.parametrize(
        "settings",
        [
            declared.Consolidation(enabled=False),
            declared.Consolidation(horizon_s=1800.0),  # gain equals cost
            declared.Consolidation(move_cost_s=86_400.0),
        ],
    )
    def test_only_if_it_pays(self, settings):
        found = settled(on(wanted=dataclasses.replace(WANTED, consolidation=settings)))
        assert (found.actions, found.memory.sightings) == ((), ())

    def test_only_in_a_window(self):
        never = declared.Window(name="w", days=(), start_minute=0, length_s=60.0)
        found = settled(on(wanted=dataclasses.replace(WANTED, windows=(never,))))
        assert stage.one(found, Kind.GROW).stopped_by.startswith("window: ")

    def test_only_after_its_minimum_run(self):
        wanted = stage.spec(stage.want("train", "4x8x8", "4x4x8", min_run_s=2 * 86_400.0))
        assert settled(on(wanted=wanted)).actions == ()

    def test_not_before_others_who_wait(self):
        wanted = stage.spec(stage.want("train", "4x8x8", "4x4x8"), stage.want("big", "8x8x8", priority=3))
        assert settled(on(*stage.cubes(8), wanted=wanted)).actions == ()

    def test_what_can_never_fit_holds_up_nobody(self):
        """One line too large in the fleet file, and no other slice would ever grow again."""
        wanted = stage.spec(stage.want("train", "4x8x8", "4x4x8"), stage.want("big", "8x8x8", priority=3))
        found = settled(on(*stage.cubes(6), wanted=wanted))
        assert stage.lines(found) == ["grow/train"]
        assert dict(found.waiting)["big"].startswith("8x8x8 never fits")

    def test_not_onto_a_suspected_cube_if_there_are_others(self):
        known = (reconciling.Suspect("b1-c02", 5, stage.NOW - datetime.timedelta(hours=1)),)
        seen = on(memory=stage.memory(SMALL, suspects=known))
        [forming] = stage.one(settled(seen), Kind.GROW).forming
        assert set(forming.partition_ids) == {"b1-c00", "b1-c01", "b1-c03", "b1-c04"}

    def test_not_while_something_is_wrong_with_it(self):
        cubes = [stage.unknown(cube) if cube.id == "b1-c01" else cube for cube in stage.cubes(6)]
        assert settled(on(*cubes)).actions == ()

    def test_not_into_the_spares(self):
        wanted = stage.spec(
            stage.want("train", "4x8x8", "4x4x8"), blocks=(declared.BlockSpec(name="b1", spares=3),)
        )
        assert settled(on(wanted=wanted)).actions == ()

    def test_the_next_best_if_the_best_does_not_fit(self):
        wanted = stage.spec(stage.want("train", "8x8x8", "4x8x8", "4x4x8"))
        [forming] = stage.one(settled(on(wanted=wanted)), Kind.GROW).forming
        assert str(forming.topology) == "4x8x8"

    def test_a_gang_grows_together(self):
        pair = (
            builders.slice_of("g-0", "4x4x8", "b1-c00", "b1-c01"),
            builders.slice_of("g-1", "4x4x8", "b1-c02", "b1-c03"),
        )
        wanted = stage.spec(stage.want("g", "4x8x8", "4x4x8", count=2, gang="g"))
        action = stage.one(settled(on(*stage.cubes(8), slices=pair, wanted=wanted)), Kind.GROW)
        assert (action.target, action.slices, action.chips) == ("g", ("g-0", "g-1"), 256)
        assert len({part for forming in action.forming for part in forming.partition_ids}) == 8
        assert settled(on(*stage.cubes(7), slices=pair, wanted=wanted)).actions == ()

    def test_then_there_is_nothing_to_do(self):
        again, found = stage.second_look(on(), SETTLED_S)
        after = stage.carried_out(again, found)
        assert engine.decide(after).actions == ()


class TestMoves:
    """Two blocks of four cubes with one small slice in each: no room for three in either."""

    SLICES = (
        builders.slice_of("a", "4x4x8", "b1-c00", "b1-c01"),
        builders.slice_of("b", "4x4x8", "b2-c00", "b2-c01"),
    )
    CUBES = (*stage.cubes(4), *stage.cubes(4, "b2"))
    WANTED = stage.spec(
        stage.want("a", "4x4x8"), stage.want("b", "4x4x8"), stage.want("high", "4x4x16", priority=1)
    )

    def seen(self, wanted=WANTED, **more):
        return on(*self.CUBES, slices=self.SLICES, wanted=wanted, **more)

    def test_a_lower_slice_moves_so_that_a_higher_one_fits(self):
        again, found = stage.second_look(self.seen(), SETTLED_S)
        action = stage.one(found, Kind.MOVE)
        assert (action.target, action.voluntary, action.chips, action.stopped_by) == ("a", True, 128, "")
        assert action.forming[0].partition_ids == ("b2-c02", "b2-c03")
        assert action.gain_chip_h > action.cost_chip_h
        after = stage.carried_out(again, found)
        formed = engine.decide(after)
        assert stage.lines(formed) == ["form/high"]
        assert engine.decide(stage.carried_out(after, formed)).actions == ()

    def test_not_for_one_that_is_not_more_urgent(self):
        wanted = stage.spec(stage.want("a", "4x4x8"), stage.want("b", "4x4x8"), stage.want("high", "4x4x16"))
        assert settled(self.seen(wanted)).actions == ()

    def test_not_what_is_somebody_elses(self):
        owner = fleet.Owner("kueue", "Workload", "default", "w")
        foreign = tuple(item._replace(owner=owner) for item in self.SLICES)
        assert settled(on(*self.CUBES, slices=foreign, wanted=self.WANTED)).actions == ()

    def test_not_what_an_operation_is_open_on(self):
        entry = stage.operation(self.SLICES[0], operations.Kind.SWAP, operations.Intent.PLANNED)
        found = settled(self.seen(operations=(entry,)))
        assert all(action.target != "a" for action in found.actions)

    def test_not_at_a_loss(self):
        poor = dataclasses.replace(self.WANTED, consolidation=declared.Consolidation(horizon_s=60.0))
        assert settled(self.seen(poor)).actions == ()


class TestWhereMovedSlicesGo:
    """`low` has one of the two cubes of b1, and `big` needs both."""

    LOW = builders.slice_of("low", "4x4x4", "b1-c00", created_at=stage.LONG_AGO)

    def moves(self, *elsewhere, blocks=(), b1=2, priority=5, **big):
        """Where `low` goes, if anywhere, and what is done once it is there."""
        wanted = stage.spec(
            stage.want("low", "4x4x4"),
            stage.want("big", "4x4x8", priority=priority, **big),
            blocks=blocks,
            spares_below=3,
        )
        snapshot = stage.hardware(*stage.cubes(b1), *elsewhere, slices=(self.LOW,))
        again, found = stage.second_look(stage.view(snapshot, wanted), SETTLED_S)
        if not found.actions:
            return None, []
        action = stage.one(found, Kind.MOVE)
        return action.forming[0].partition_ids, stage.lines(engine.decide(stage.carried_out(again, found)))

    def test_not_onto_a_degraded_cube_that_it_does_not_tolerate(self):
        """It would be moved for nothing: the loop would want it off that cube again."""
        worn = builders.cube("b2-c00", "b2", state=states.PartitionState.DEGRADED)
        others = (worn, builders.cube("b3-c00", "b3"))
        assert self.moves(*others, allow_degraded=True) == (("b3-c00",), ["form/big"])

    def test_not_onto_the_only_spare_of_another_block(self):
        blocks = (
            declared.BlockSpec(name="b1"),
            declared.BlockSpec(name="b2", spares=1),
            declared.BlockSpec(name="b3"),
        )
        spare = builders.cube("b2-c00", "b2")
        assert self.moves(spare, blocks=blocks) == (None, [])
        assert self.moves(spare, builders.cube("b3-c00", "b3"), blocks=blocks) == (("b3-c00",), ["form/big"])
        assert self.moves(*stage.cubes(2, "b2"), blocks=blocks, block="b1") == (("b2-c00",), ["form/big"])

    def test_not_onto_a_spare_that_is_then_missing(self):
        """Moved within its block it would take the third cube, and `big` still not fit beside the spare."""
        own = (declared.BlockSpec(name="b1", spares=1), declared.BlockSpec(name="b2"))
        assert self.moves(b1=3, blocks=own, priority=2) == (None, [])
        assert self.moves(builders.cube("b2-c00", "b2"), b1=3, blocks=own, priority=2) == (
            ("b2-c00",),
            ["form/big"],
        )

    def test_the_spares_of_another_block_are_none_of_its_business(self):
        blocks = (declared.BlockSpec(name="b1"), declared.BlockSpec(name="b2", spares=2))
        found = self.moves(*stage.cubes(3, "b2"), blocks=blocks, priority=2, block="b1")
        assert found == (("b2-c00",), ["form/big"])
