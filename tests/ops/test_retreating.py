"""The way back is looked at before it is gone: what it does, whom it hits, and whether it can work."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from tests.ops import test_swapping as swaps
from tests.ops.conftest import Recorder, scene_of, whole
from tpuctl.engine import second_choice
from tpuctl.model import errors, health, operations, topology
from tpuctl.ops import forming, journal, operating, retreating

if TYPE_CHECKING:
    from tpuctl.cli.rehearsal import Rehearsal


def cordon(scene: Rehearsal, host: str) -> None:
    def close(node: dict) -> None:
        node["spec"]["unschedulable"] = True

    scene.simulator.call(lambda: scene.simulator.world.store.mutate("nodes", None, host, close))


def test_cordons_on_what_was_its_own_do_not_bar_the_way_back(
    scene: Rehearsal, reporter: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the operation's, nor one that somebody has put there: they keep pods away, not the slice."""
    before = swaps.busy_slice(scene)
    left = swaps.killed_at(scene, monkeypatch, 3)
    assert left is not None
    assert len(left.cordons) == 16
    cordon(scene, whole(scene).cubes_by_id[before.partition_ids[1]].hosts[0].name)
    found = retreating.look(scene.ports, left.id)
    assert found.obstacles == ()
    assert found.steps == (f"slice train is made again on its old cubes: {', '.join(before.partition_ids)}",)
    operating.abort(scene.ports, reporter, left.id, shown=found)
    assert whole(scene).slices_by_name["train"].partition_ids == before.partition_ids
    assert journal.list_open(scene.ports) == []


def test_a_cordon_on_a_cube_that_came_counts(scene: Rehearsal, monkeypatch: pytest.MonkeyPatch) -> None:
    swaps.busy_slice(scene)
    left = swaps.killed_at(scene, monkeypatch, 3)
    assert left is not None
    assert second_choice.can_form(whole(scene), left, left.partitions, health.DEFAULT_POLICY)
    cordon(scene, whole(scene).cubes_by_id[left.exchanges[0].new].hosts[0].name)
    assert not second_choice.can_form(whole(scene), left, left.partitions, health.DEFAULT_POLICY)
    assert second_choice.can_form(whole(scene), left, left.old_partitions, health.DEFAULT_POLICY)


def test_pods_that_came_since_it_was_shown_stop_it(reporter: Recorder) -> None:
    with scene_of(cubes=2, ready_cubes=2, slice_controller=True) as scene:
        with pytest.raises(errors.TimedOut):
            forming.form(
                scene.ports, reporter, "train", forming.request(topology.parse("4x4x8")), timeout_s=1
            )
        shown = retreating.look(scene.ports, "form-train")
        assert (shown.radius is not None, shown.obstacles) == (True, ())
        scene.simulator.advance(120)
        scene.submit(swaps.workloads.JOBS, swaps.workloads.job("work", "train", 32, backoffLimitPerIndex=5))
        scene.simulator.advance(60)
        with pytest.raises(errors.Conflict, match="pods have started on slice train since it was shown: 32"):
            operating.abort(scene.ports, reporter, "form-train", shown=shown)
        assert "train" in whole(scene).slices_by_name
        again = retreating.look(scene.ports, "form-train")
        operating.abort(scene.ports, reporter, "form-train", shown=again)
        assert whole(scene).slices == ()


@pytest.mark.parametrize(
    ("kind", "intent", "aborting", "offered"),
    [
        (operations.Kind.FORM, operations.Intent.CREATING, False, True),
        (operations.Kind.FORM, operations.Intent.CREATING, True, False),
        (operations.Kind.DEFORM, operations.Intent.PLANNED, False, True),
        (operations.Kind.DEFORM, operations.Intent.DELETING, False, False),
        (operations.Kind.SWAP, operations.Intent.PLANNED, False, True),
        (operations.Kind.SWAP, operations.Intent.RESTARTING, False, False),
    ],
)
def test_a_way_back_is_offered_only_where_there_is_one(
    scene: Rehearsal,
    monkeypatch: pytest.MonkeyPatch,
    kind: operations.Kind,
    intent: operations.Intent,
    aborting: bool,
    offered: bool,
) -> None:
    swaps.busy_slice(scene)
    left = swaps.killed_at(scene, monkeypatch, 1)
    assert left is not None
    found = dataclasses.replace(left, kind=kind, intent=intent, aborting=aborting)
    assert ("tpuctl operation abort" in journal.ways_to_end(found)) is offered
    assert "tpuctl operation resume swap-train" in journal.ways_to_end(found)
