"""Degraded slices, and sub-slices, which no swap can mend."""

import dataclasses
import datetime

from tests import builders
from tests.engine.reconciling import stage
from tpuctl.engine import reconciling as engine
from tpuctl.model import declared, operations, reconciling, reserved, states

Kind = reconciling.ActionKind
Exchange = operations.Exchange
CUBES = stage.cubes(8)
TRAIN = builders.slice_of("train", "4x8x8", *(cube.id for cube in CUBES[:4]))
SPEC = stage.spec(stage.want("train", "4x8x8", "4x4x8"))


def on(*changed, slices=(TRAIN,), pods=(), wanted=SPEC, **more):
    snapshot = stage.with_cubes(builders.fleet_of(*CUBES, slices=slices, pods=pods), *changed)
    return stage.view(snapshot, wanted, **more)


class TestDegraded:
    WORN = builders.cube_of(CUBES[2].id, stage.BLOCK, "worn")
    ITEM = TRAIN._replace(state=states.SliceState.ACTIVE_DEGRADED, reason="ACTIVE_DEGRADED")

    def test_is_left_alone_if_that_was_declared(self):
        """xpk #1018, #1174, #1123: what DEGRADED means is the user's choice."""
        wanted = stage.spec(stage.want("train", "4x8x8", allow_degraded=True))
        _, found = stage.second_look(on(self.WORN, slices=(self.ITEM,), wanted=wanted))
        assert found.actions == ()
        assert found.memory.recommendations == ()

    def test_is_swapped_in_a_window_if_healthy_is_wanted(self):
        _, found = stage.second_look(on(self.WORN, slices=(self.ITEM,)))
        action = stage.one(found, Kind.SWAP)
        assert (action.voluntary, action.exchanges) == (True, (Exchange("b1-c02", "b1-c04"),))
        never = declared.Window(name="w", days=(), start_minute=0, length_s=60.0)
        closed = dataclasses.replace(SPEC, windows=(never,))
        _, waits = stage.second_look(on(self.WORN, slices=(self.ITEM,), wanted=closed))
        assert stage.one(waits, Kind.SWAP).stopped_by.startswith("window: nothing is broken")

    def test_not_with_the_last_spares(self):
        blocks = (declared.BlockSpec(name="b1", spares=4),)
        seen = on(
            self.WORN, slices=(self.ITEM,), wanted=stage.spec(stage.want("train", "4x8x8"), blocks=blocks)
        )
        _, found = stage.second_look(seen)
        assert found.actions == ()
        told = {entry.subject: entry.text for entry in found.memory.recommendations}
        assert "no healthy cube of its block is free beside the spares" in told["slice/train"]

    def test_without_a_cube_that_shows_it_there_is_only_a_warning(self):
        _, found = stage.second_look(on(slices=(self.ITEM,)))
        assert found.actions == ()
        assert "ACTIVE_DEGRADED" in found.memory.recommendations[0].text

    def test_before_maintenance_comes(self):
        soon = reserved.SubBlock(
            "sb", "x", "HEALTHY", 16, 0, 16, 16, maintenance_start=stage.NOW + datetime.timedelta(hours=6)
        )
        _, found = stage.second_look(on(dataclasses.replace(CUBES[3], sub_block=soon)))
        action = stage.one(found, Kind.SWAP)
        assert (action.voluntary, action.exchanges[0].old) == (True, "b1-c03")


class TestSubSlices:
    PART = builders.slice_of("sub", "2x2x4", "b1-c00.224.1")
    WANTED = stage.spec(stage.want("sub", "2x2x4"))

    def test_one_that_failed_on_a_good_partition_is_made_again(self):
        pods = (builders.pod("p", "node-b1-c00-04"),)
        down = stage.failed(self.PART, 200.0)
        found = engine.decide(on(slices=(down,), pods=pods, wanted=self.WANTED))
        assert stage.one(found, Kind.SWAP).exchanges == ()
        empty = engine.decide(on(slices=(down,), wanted=self.WANTED))
        assert stage.lines(empty) == ["deform/sub"]

    def test_one_whose_partition_failed_is_formed_elsewhere_if_it_is_empty(self):
        bad = builders.changed(CUBES[0], 5, ready=False, ready_since=stage.LONG_AGO)
        seen = on(bad, slices=(stage.failed(self.PART, 200.0),), wanted=self.WANTED)
        first = engine.decide(seen)
        assert stage.lines(first) == ["deform/sub"]
        [forming] = stage.one(engine.decide(stage.carried_out(seen, first)), Kind.FORM).forming
        assert forming.partition_ids != self.PART.partition_ids

    def test_a_pod_on_the_dead_host_does_not_keep_it_there(self):
        bad = builders.changed(CUBES[0], 5, ready=False, ready_since=stage.LONG_AGO)
        pods = (builders.pod("p", "node-b1-c00-05"),)
        down = on(bad, slices=(stage.failed(self.PART, 200.0),), pods=pods, wanted=self.WANTED)
        action = stage.one(engine.decide(down), Kind.DEFORM)
        assert (action.pods_restarted, action.chips) == (1, 0)
        # While it counts as up, Kubernetes has its time to say that the pod is lost.
        seen = on(bad, slices=(self.PART,), pods=pods, wanted=self.WANTED)
        again, early = stage.second_look(seen, 299.0)
        assert early.actions == ()
        late = engine.decide(stage.later(again, early, 1.0))
        assert stage.one(late, Kind.DEFORM).pods_restarted == 1

    def test_pods_that_hang_beside_it_go_along_after_a_while_if_there_is_a_place(self):
        bad = builders.changed(CUBES[0], 5, ready=False, ready_since=stage.LONG_AGO)
        pods = (builders.pod("p", "node-b1-c00-06"),)

        def found(seconds, *others):
            down = stage.failed(self.PART, seconds)
            seen = on(bad, slices=(down, *others), pods=pods, wanted=self.WANTED)
            return stage.second_look(seen)[1]

        assert found(200.0).actions == ()
        action = stage.one(found(700.0), Kind.DEFORM)
        assert (action.pods_restarted, action.voluntary, action.chips) == (1, False, 0)
        full = tuple(
            builders.slice_of(f"x-{number}", "2x2x4", f"b1-c00.224.{number}") for number in (0, 2, 3)
        )
        rest = builders.slice_of("y", f"4x4x{4 * (len(CUBES) - 1)}", *(cube.id for cube in CUBES[1:]))
        assert found(700.0, *full, rest).actions == ()

    def test_trouble_in_another_part_of_the_cube_is_none_of_its_business(self):
        bad = builders.changed(CUBES[0], 15, ready=False, ready_since=stage.LONG_AGO)
        _, found = stage.second_look(on(bad, slices=(self.PART,), wanted=self.WANTED))
        assert found.actions == ()
