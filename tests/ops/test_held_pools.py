"""A hold outlives the nodes of its cube: what is left of that is a sub-block and a node pool."""

from __future__ import annotations

import pytest

from tests.ops.conftest import scene_of, whole
from tpuctl.model import errors
from tpuctl.ops import holding, pool_deletion


def test_a_held_pool_without_nodes_is_not_deleted_and_can_be_released() -> None:
    with scene_of(cubes=2, ready_cubes=2, slice_controller=True) as scene:
        cube = whole(scene).cubes[0]
        assert cube.pool is not None
        assert cube.sub_block is not None
        sub_block, pool = cube.sub_block.name, cube.pool.name
        holding.hold(scene.ports, cube.id, reason="RMA 4711")
        with pytest.raises(errors.Conflict) as refused:
            pool_deletion.prepare(scene.ports, [pool])
        [told] = refused.value.details
        assert "RMA 4711" in told
        for host in cube.hosts:
            scene.simulator.inject("host-gone", host.name)
        scene.simulator.advance(3600)
        [left] = [found for found in whole(scene).cubes if not found.has_nodes]
        assert left.id == sub_block
        assert whole(scene).claimants[sub_block] == (told.partition(": ")[2],)
        with pytest.raises(errors.Conflict) as refused:
            pool_deletion.prepare(scene.ports, [pool])
        assert refused.value.details == (told,)
        # By the name that people see now; the one from before would do as well.
        released = holding.release(scene.ports, sub_block)
        assert released is not None
        assert released.cube_id == cube.id
        assert [found.name for found in pool_deletion.prepare(scene.ports, [pool])] == [pool]
