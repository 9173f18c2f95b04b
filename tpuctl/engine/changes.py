"""A fleet as it would be: after a failure, a repair, an end, a move, or with more hardware.

Nothing here touches the world; the answers of the engine on a changed fleet are what the change would bring.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.model import fleet, states, topology

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

_HEALTHY = (states.PartitionState.HEALTHY,) * len(topology.PARTITION_SHAPES)
_SICK = (states.PartitionState.UNHEALTHY,) * len(topology.PARTITION_SHAPES)


def failed(snapshot: fleet.Fleet, cube_ids: Collection[str]) -> fleet.Fleet:
    """These cubes as if every host of them had failed."""
    return _with_cubes(snapshot, cube_ids, _failed)


def repaired(snapshot: fleet.Fleet, cube_ids: Collection[str]) -> fleet.Fleet:
    """These cubes with 16 healthy hosts, made up where there is no node yet."""
    return _with_cubes(snapshot, cube_ids, _repaired)


def uncordoned(snapshot: fleet.Fleet, cube_ids: Collection[str]) -> fleet.Fleet:
    """All hosts of these cubes open for pods again."""
    return _with_cubes(snapshot, cube_ids, _uncordoned)


def without_claims(snapshot: fleet.Fleet, cube_ids: Collection[str]) -> fleet.Fleet:
    """Without holds and operations on these cubes."""
    kept = tuple(
        claim
        for claim in snapshot.claims
        if snapshot.cube_of_partition.get(claim.cube_id, claim.cube_id) not in cube_ids
    )
    return dataclasses.replace(snapshot, claims=kept)


def without_slices(snapshot: fleet.Fleet, names: Collection[str]) -> fleet.Fleet:
    """As if these slices had ended."""
    kept = tuple(item for item in snapshot.slices if item.name not in names)
    return dataclasses.replace(snapshot, slices=kept)


def moved(snapshot: fleet.Fleet, name: str, partition_ids: Iterable[str]) -> fleet.Fleet:
    """A slice on other partitions."""
    ids = tuple(sorted(partition_ids))
    items = tuple(item._replace(partition_ids=ids) if item.name == name else item for item in snapshot.slices)
    return dataclasses.replace(snapshot, slices=items)


def with_block(snapshot: fleet.Fleet, block_id: str, cubes: int = topology.MAX_CUBES) -> fleet.Fleet:
    """One more block of healthy cubes."""
    made = tuple(
        _repaired(fleet.Cube(id=f"{block_id}-{number:03}", block=block_id)) for number in range(cubes)
    )
    blocks = (*snapshot.blocks, fleet.Block(id=block_id, name=block_id, cubes=made))
    return snapshot.with_blocks(tuple(sorted(blocks, key=lambda block: block.id)))


def _with_cubes(
    snapshot: fleet.Fleet, cube_ids: Collection[str], change: Callable[[fleet.Cube], fleet.Cube]
) -> fleet.Fleet:
    wanted = set(cube_ids)
    blocks = []
    for block in snapshot.blocks:
        if any(cube.id in wanted for cube in block.cubes):
            cubes = tuple(change(cube) if cube.id in wanted else cube for cube in block.cubes)
            blocks.append(dataclasses.replace(block, cubes=cubes))
        else:
            blocks.append(block)
    return snapshot.with_blocks(tuple(blocks))


def _failed(cube: fleet.Cube) -> fleet.Cube:
    hosts = tuple(host._replace(ready=False, partition_states=_SICK) for host in cube.hosts)
    return dataclasses.replace(cube, hosts=hosts)


def _uncordoned(cube: fleet.Cube) -> fleet.Cube:
    hosts = tuple(host._replace(schedulable=True, taints=(), taint_effects=()) for host in cube.hosts)
    return dataclasses.replace(cube, hosts=hosts)


def _repaired(cube: fleet.Cube) -> fleet.Cube:
    """What the reservation and the node pool said of it is out of date then."""
    complete = len(cube.hosts) == topology.HOSTS_PER_CUBE
    hosts = tuple(map(_well, cube.hosts if complete else _made_up(cube)))
    return dataclasses.replace(cube, hosts=hosts, pool=None, sub_block=None, strays=())


def _well(host: fleet.Host) -> fleet.Host:
    return host._replace(
        partition_states=_HEALTHY,
        ready=True,
        schedulable=True,
        taints=(),
        taint_effects=(),
        conditions=(),
        maintenance_at=None,
        maintenance_ongoing=False,
        chips=topology.CHIPS_PER_HOST,
    )


def _made_up(cube: fleet.Cube) -> tuple[fleet.Host, ...]:
    """16 hosts in the usual tree; those that exist keep their names and ids where they have them."""
    made = []
    for number in range(topology.HOSTS_PER_CUBE):
        ids = tuple(
            cube.id if shape == topology.CUBE else f"{cube.id}/{shape}/{number // shape.hosts}"
            for shape in topology.PARTITION_SHAPES
        )
        made.append(
            fleet.Host(
                name=f"{cube.id}/host/{number:02}",
                cube_id=cube.id,
                partition_ids=ids,
                partition_states=_HEALTHY,
                ready=True,
                ready_since=None,
                schedulable=True,
                slice_name="",
                pool="",
                uid="",
            )
        )
    return tuple(made)
