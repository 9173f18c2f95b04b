"""What the fleet file declares of node pools is what the loop asks GKE for."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from tests.ops.conftest import Recorder, scene_of
from tests.ops.reconciling.conftest import world_of
from tests.ops.test_pool_faults import intercepted
from tpuctl.model import declared, names, reconciling
from tpuctl.ops.reconciling import outcomes
from tpuctl.sim import behaviour

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tpuctl.cli.rehearsal import Rehearsal

Kind, Became = reconciling.ActionKind, outcomes.Became
FREE = behaviour.Behaviour(channel_demands_management=False)
"""A cluster that takes pools without auto-upgrade, as one outside of the release channels does."""


@contextlib.contextmanager
def asked_for(scene: Rehearsal) -> Iterator[list[dict[str, Any]]]:
    """The node pools that GKE is asked to make while this lasts."""
    asked: list[dict[str, Any]] = []

    async def note(request, _proceed):
        if request.method == "POST" and request.url.path.endswith("/nodePools"):
            asked.append((await request.json())["nodePool"])

    with intercepted(scene, note):
        yield asked


def world_with(scene: Rehearsal, reporter: Recorder, settings: declared.PoolSettings):
    block = scene.ports.capacity.blocks()[0]
    world = world_of(scene, reporter, block=declared.BlockSpec(name=block.name, pools=settings))
    world.cycle()  # the first one only observes
    world.advance(30)
    return world


def test_all_of_them_reach_the_create_call(reporter: Recorder) -> None:
    settings = declared.PoolSettings(
        name_prefix="tpu", policy="own-policy", auto_repair=False, auto_upgrade=False, max_unavailable=8
    )
    with scene_of(cubes=1, slice_controller=True, behaviour=FREE) as scene:
        world = world_with(scene, reporter, settings)
        with asked_for(scene) as asked:
            world.converge(limit=60)
        [sub_block] = [item.name for block in scene.ports.capacity.blocks() for item in block.sub_blocks]
        [pool] = asked
        assert pool["name"] == names.pool_name(sub_block, "tpu")
        assert pool["name"].startswith("tpu-")
        assert pool["placementPolicy"] == {"policyName": "own-policy"}
        assert pool["management"] == {}, "false is left out of JSON: both are off"
        assert pool["upgradeSettings"] == {"maxUnavailable": 8}
        assert [found.auto_upgrade for found in scene.ports.pools.list()] == [False]


def test_what_is_not_declared_is_left_to_gke(reporter: Recorder) -> None:
    with scene_of(cubes=1, slice_controller=True) as scene:
        world = world_with(scene, reporter, declared.PoolSettings())
        with asked_for(scene) as asked:
            world.converge(limit=60)
        [pool] = asked
        assert "management" not in pool
        assert pool["upgradeSettings"] == {"maxUnavailable": 16}
        assert pool["name"].startswith("cube-")


def test_another_prefix_makes_no_pool_again(reporter: Recorder) -> None:
    with scene_of(cubes=2, ready_cubes=2, slice_controller=True) as scene:
        world = world_with(scene, reporter, declared.PoolSettings(name_prefix="tpu"))
        with asked_for(scene) as asked:
            world.cycles(3)
        assert asked == []
        assert world.outcomes[-1].decision.actions == ()


def test_a_release_channel_that_forbids_it_is_told_and_not_asked_again_and_again(reporter: Recorder) -> None:
    with scene_of(cubes=1, slice_controller=True) as scene:
        world = world_with(scene, reporter, declared.PoolSettings(auto_upgrade=False))
        with asked_for(scene) as asked:
            [result] = world.cycle().results
            assert (result.action.kind, result.became) == (Kind.CREATE_POOL, Became.FAILED)
            assert "Auto_upgrade cannot be false when release_channel RAPID is set" in result.why
            assert "leave autoRepair and autoUpgrade out of the fleet file" in result.why
            assert len(asked) == 1
            world.advance(30)
            world.cycles(20)
        assert len(asked) <= 6, "ten minutes later"
        assert scene.ports.pools.list() == ()
