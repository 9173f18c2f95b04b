"""Planned maintenance, gathered from the reservation and from the nodes."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.model import fleet, topology

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterator

RESERVATION, NODES = "reservation", "node labels"

SOURCES = (
    fleet.SourceName.NODES,
    fleet.SourceName.SLICES,
    fleet.SourceName.NODE_POOLS,
    fleet.SourceName.CAPACITY,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Window:
    """One planned or running maintenance."""

    scope: str
    """`block` or `cube`."""
    block: str
    cube: str
    """Id; empty for a whole block."""
    start: datetime.datetime | None
    """None if it goes on and nobody tells since when."""
    end: datetime.datetime | None
    status: str
    """`ongoing` or `planned`."""
    kind: str
    """As the service words it; empty if only nodes tell."""
    can_reschedule: bool
    hosts: int
    """Hosts it is about; of a whole block, those that have nodes."""
    slices: tuple[str, ...]
    told_by: tuple[str, ...]
    cubes: tuple[str, ...] = ()
    """Ids of the only cubes of a block that it is about, where their sub-blocks tell; empty: all of them."""
    cubes_of_block: int = 0
    """How many the block has."""


def windows(snapshot: fleet.Fleet) -> tuple[Window, ...]:
    """All of them, those that go on first, then the nearest."""
    found = [window for block in snapshot.blocks for window in _of_block(snapshot, block)]
    return tuple(sorted(found, key=_order))


def _order(window: Window) -> tuple[bool, float, str, str]:
    start_s = window.start.timestamp() if window.start else 0.0
    return (window.status != "ongoing", start_s, window.block, window.cube)


def _of_block(snapshot: fleet.Fleet, block: fleet.Block) -> Iterator[Window]:
    if block.maintenance is not None:
        yield _of_whole_block(snapshot, block, block.maintenance)
    for cube in block.cubes:
        yield from _of_cube(snapshot, block, cube)


def _of_whole_block(snapshot: fleet.Fleet, block: fleet.Block, plan: fleet.Maintenance) -> Window:
    """The block's own word, which sums up what its sub-blocks have planned for the same time."""
    concerned = [cube for cube in block.cubes if _is_same(plan, cube.sub_block)]
    cubes = concerned or block.cubes
    slices = {name for cube in cubes for name in snapshot.holders.get(cube.id, ())}
    hosts = (
        len(concerned) * topology.HOSTS_PER_CUBE
        if concerned
        else sum(len(cube.hosts) for cube in block.cubes)
    )
    return dataclasses.replace(
        _window(block, None, plan, hosts, tuple(sorted(slices))),
        cubes=() if len(cubes) == len(block.cubes) else tuple(cube.id for cube in cubes),
        cubes_of_block=len(block.cubes),
    )


def _is_same(plan: fleet.Maintenance, sub_block: fleet.SubBlock | None) -> bool:
    """If true, the plan of a sub-block is a part of that plan of its block."""
    told = None if sub_block is None else sub_block.maintenance
    if told is None:
        return False
    return _second(told.start) == _second(plan.start) or (told.is_ongoing and plan.is_ongoing)


def _of_cube(snapshot: fleet.Fleet, block: fleet.Block, cube: fleet.Cube) -> Iterator[Window]:
    """What the sub-block has planned, with the nodes that say the same, and what only nodes say."""
    slices = snapshot.holders.get(cube.id, ())
    plan = cube.sub_block.maintenance if cube.sub_block is not None else None
    by_start = _by_start(cube)
    if plan is not None:
        agreeing = by_start.pop(_second(plan.start), 0)
        if plan.is_ongoing:
            agreeing += by_start.pop(None, 0)
        window = _window(block, cube, plan, topology.HOSTS_PER_CUBE, slices)
        yield dataclasses.replace(window, told_by=(RESERVATION, NODES)) if agreeing else window
    for start, hosts in by_start.items():
        yield Window(
            scope="cube",
            block=block.label,
            cube=cube.id,
            start=start,
            end=None,
            status="ongoing" if start is None else "planned",
            kind="",
            can_reschedule=False,
            hosts=hosts,
            slices=slices,
            told_by=(NODES,),
        )


def _by_start(cube: fleet.Cube) -> dict[datetime.datetime | None, int]:
    """Planned start on the nodes' labels -> hosts; None stands for maintenance that goes on."""
    found: dict[datetime.datetime | None, int] = {}
    for host in cube.hosts:
        if host.maintenance_ongoing:
            found[None] = found.get(None, 0) + 1
        elif host.maintenance_at is not None:
            start = _second(host.maintenance_at)
            found[start] = found.get(start, 0) + 1
    return found


def _second(moment: datetime.datetime | None) -> datetime.datetime | None:
    """Labels tell whole seconds."""
    return moment and moment.replace(microsecond=0)


def _window(
    block: fleet.Block,
    cube: fleet.Cube | None,
    plan: fleet.Maintenance,
    hosts: int,
    slices: tuple[str, ...],
) -> Window:
    return Window(
        scope="block" if cube is None else "cube",
        block=block.label,
        cube="" if cube is None else cube.id,
        start=plan.start,
        end=plan.end,
        status="ongoing" if plan.is_ongoing else "planned",
        kind=plan.kind,
        can_reschedule=plan.can_reschedule,
        hosts=hosts,
        slices=slices,
        told_by=(RESERVATION,),
    )
