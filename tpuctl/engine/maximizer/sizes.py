"""The sizes through which the maximizer works its way down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.engine.maximizer import turn
from tpuctl.model import topology

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tpuctl.model import declared

Key = tuple[str, topology.Topology]
"""Slice and shape: a pool was made for one job in one shape."""


def wants(spec: declared.FleetSpec, blocks: dict[str, str], *, halves: bool) -> tuple[turn.Want, ...]:
    """What the declared state wants, the largest first: the loop knows sizes, not priorities.

    `blocks` gives the ids of blocks by any of their names.
    """
    entries = sorted(spec.slices, key=lambda entry: -entry.shapes[0].chips)
    return tuple(
        turn.Want(
            name,
            tuple(_size(name, shape) for shape in shapes(entry, halves=halves)),
            blocks.get(entry.block, entry.block) or None,
        )
        for entry in entries
        for name in entry.slice_names
    )


def _size(name: str, shape: topology.Topology) -> turn.Size:
    """A small job had a pool of one cube to itself."""
    pool = topology.CUBE if shape.is_sub_slice else shape
    return turn.Size((name, shape), pool.cubes, pool)


def shapes(entry: declared.WantedSlice, *, halves: bool) -> tuple[topology.Topology, ...]:
    """The shapes that the entry names, then the most cubic one of half as many cubes, and so on."""
    named = dict.fromkeys(entry.shapes)
    if halves and not entry.shapes[-1].is_sub_slice:
        named |= dict.fromkeys(_halved(entry.shapes[-1].cubes))
    return tuple(named)


def _halved(cubes: int) -> Iterator[topology.Topology]:
    while cubes > 1:
        cubes //= 2
        yield next(shape for shape in topology.cube_shapes(cubes) if shape.cubes == cubes)
