"""Nodes lose the label of their cube while slice and pods run: nothing is cut, and everybody is told why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests import workloads
from tests.ops.conftest import Recorder, scene_of, whole
from tests.ops.reconciling.conftest import World, wanted, world_of
from tpuctl.model import declared, errors, health, states
from tpuctl.ops import deforming, health_checks, pool_deletion, swapping

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tpuctl.cli.rehearsal import Rehearsal

LABEL = "cloud.google.com/gke-tpu-partition-4x4x4-id"


@pytest.fixture(params=[3, 2], ids=["with a spare", "without a spare"])
def train(request: pytest.FixtureRequest, reporter: Recorder) -> Iterator[World]:
    """A slice of two cubes with a pod on each host; the loop may do whatever there is."""
    cubes = request.param
    with scene_of(cubes=cubes, ready_cubes=cubes, slice_controller=True) as scene:
        allow = declared.Permission.ALLOW
        world = world_of(
            scene,
            reporter,
            wanted("train", "4x4x8"),
            remediation=declared.Remediation(reprovision=allow, failover=allow),
            breaker=declared.Breaker(percent=100.0),
        )
        world.converge()
        scene.submit(workloads.JOBS, workloads.job("work", "train", 32, backoffLimitPerIndex=5))
        world.advance(60)
        yield world


def strip(scene: Rehearsal, cube_id: str, count: int) -> tuple[str, str]:
    """So many nodes of a cube lose its label; the first of them, and their node pool."""
    cube = whole(scene).cubes_by_id[cube_id]
    assert cube.pool is not None
    names = [host.name for host in cube.hosts][:count]
    store = scene.simulator.world.store

    def take() -> None:
        for name in names:
            store.mutate("nodes", None, name, lambda node: node["metadata"]["labels"].pop(LABEL))

    scene.simulator.call(take)
    return names[0], cube.pool.name


@pytest.mark.parametrize("count", [16, 1], ids=["all nodes", "one node"])
def test_a_label_that_is_gone_cuts_no_slice(train: World, count: int) -> None:
    scene, before = train.scene, train.slice("train")
    lost = before.partition_ids[0]
    uids = {pod.uid for pod in whole(scene).pods if not pod.is_finished}
    assert len(uids) == 32
    node, pool = strip(scene, lost, count)

    train.cycles(3)
    train.cycles(3, every_s=7200.0)
    assert [result for outcome in train.outcomes[-6:] for result in outcome.results] == []
    now = train.slice("train")
    assert (now.uid, now.state, now.partition_ids) == (
        before.uid,
        states.SliceState.ACTIVE,
        before.partition_ids,
    )
    snapshot = whole(scene)
    assert {pod.uid for pod in snapshot.pods if not pod.is_finished} == uids
    decision = train.outcomes[-1].decision
    assert decision is not None
    [told] = [one.text for one in decision.memory.recommendations if one.subject == "slice/train"]
    assert "no partition label" in told
    assert node in told

    assert swapping.prepare(scene.ports, "train", swapping.Wish()) is None
    with pytest.raises(errors.Conflict) as refused:
        pool_deletion.prepare(scene.ports, [pool])
    assert "slice train" in refused.value.details[0]
    shown = deforming.prepare(scene.ports, "train", force_foreign=False)
    assert shown is not None
    assert (len(shown.radius.pods), shown.radius.hosts) == (32, 32)
    [checked] = [
        item
        for item in health_checks.check(snapshot, health.DEFAULT_POLICY, ["train"]).items
        if item.key == ("slice", "train")
    ]
    assert checked.judgement.verdict is states.Verdict.UNKNOWN
    assert any(node in reason for reason in checked.judgement.reasons)


def test_a_person_may_swap_the_cube_and_sees_its_pods(scene: Rehearsal, reporter: Recorder) -> None:
    world = world_of(scene, reporter, wanted("train", "4x4x8"))
    world.converge()
    scene.submit(workloads.JOBS, workloads.job("work", "train", 32, backoffLimitPerIndex=5))
    world.advance(60)
    lost = world.slice("train").partition_ids[0]
    strip(scene, lost, 16)
    wish = swapping.Wish(cubes=(lost,))
    shown = swapping.prepare(scene.ports, "train", wish)
    assert shown is not None
    assert (shown.restarted, shown.kept) == (16, 16)
    assert "carry no partition label" in shown.plan.reasons[0]
    outcome = swapping.swap(scene.ports, reporter, shown, wish)
    assert (outcome.restarted, outcome.running_again, outcome.kept, outcome.lost) == (16, 16, 16, ())
    assert lost not in outcome.slice.partition_ids
