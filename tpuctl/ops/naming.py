"""What the user calls things, turned into ids: blocks and cubes go by names, pools and partition ids."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.model import errors, fleet

if TYPE_CHECKING:
    from tpuctl.engine import placement


def resolve(snapshot: fleet.Fleet, wish: placement.Request) -> placement.Request:
    """Turn what the user wrote (a block's name, a sub-block's or pool's name) into ids.

    Raises NotFound for what does not exist, UsageError for duplicates, a wrong count, or cubes of two blocks.
    """
    block = _block_id(snapshot, wish.block) if wish.block is not None else None
    cubes = tuple(_cube_id(snapshot, text, wish) for text in wish.cubes)
    _check_list(snapshot, wish, cubes, block)
    return dataclasses.replace(wish, block=block, cubes=cubes)


def find_cube(snapshot: fleet.Fleet, text: str) -> fleet.Cube:
    """The cube of that partition id, sub-block name or node pool; raises NotFound."""
    for cube in snapshot.cubes:
        pool = {host.pool for host in cube.hosts}
        if cube.pool is not None:
            pool.add(cube.pool.name)
        if text == cube.id or text in pool or (cube.sub_block and text == cube.sub_block.name):
            return cube
    raise errors.NotFound(f"there is no cube '{text}'", hint="see: tpuctl cube list -o wide")


def _block_id(snapshot: fleet.Fleet, text: str) -> str:
    for block in snapshot.blocks:
        # Names may be remembered ones here; only the reservation itself tells which block has a name now.
        if text == block.id or (text == block.name and snapshot.has(fleet.SourceName.CAPACITY)):
            return block.id
    named = snapshot.has(fleet.SourceName.CAPACITY)
    known = ", ".join(block.label if named else block.id for block in snapshot.blocks) or "none"
    raise errors.NotFound(f"there is no block '{text}'", hint=f"blocks: {known}")


def _cube_id(snapshot: fleet.Fleet, text: str, wish: placement.Request) -> str:
    if wish.topology.is_sub_slice and text in snapshot.cube_of_partition:
        return text
    return find_cube(snapshot, text).id


def _check_list(
    snapshot: fleet.Fleet, wish: placement.Request, cubes: tuple[str, ...], block: str | None
) -> None:
    twice = sorted({text for text, cube in zip(wish.cubes, cubes, strict=True) if cubes.count(cube) > 1})
    if twice:
        raise errors.UsageError(f"--cubes names a cube twice: {', '.join(twice)}")
    if not cubes:
        return
    needed = wish.topology.cubes
    if not wish.topology.is_sub_slice and len(cubes) != needed:
        raise errors.UsageError(
            f"topology {wish.topology} needs exactly {needed} cubes, --cubes names {len(cubes)}"
        )
    blocks = {_block_of(snapshot, cube) for cube in cubes}
    if block is not None and blocks - {block}:
        raise errors.UsageError("--cubes names cubes outside the block given with --block")
    if len(blocks) > 1 and not wish.topology.is_sub_slice:
        raise errors.UsageError(
            f"--cubes names cubes of {len(blocks)} blocks; only cubes of one block can be joined"
        )


def _block_of(snapshot: fleet.Fleet, partition_id: str) -> str:
    cube_id = snapshot.cube_of_partition.get(partition_id, partition_id)
    return snapshot.cubes_by_id[cube_id].block
