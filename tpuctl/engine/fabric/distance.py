"""Hops between chips, walked on the circuits themselves, and what they say about all-to-all traffic.

The walk uses the permutations of `wiring` rather than a formula, so that agreement with the published
figure is evidence for the permutations.
"""

from __future__ import annotations

import functools
import itertools
from typing import NamedTuple

from tpuctl.engine.fabric import switchboard, wiring
from tpuctl.model import topology

_EDGE = topology.CUBE_EDGE_CHIPS
_LINKS_PER_CHIP = 6
_LINKS_PER_CHIP_AND_AXIS = 2


class Distances(NamedTuple):
    """Hops over all ordered pairs of different chips."""

    mean_hops: float
    diameter_hops: int


Graph = tuple[tuple[int, ...], ...]


@functools.cache
def chip_graph(shape: topology.Topology, *, twisted: bool = False) -> Graph:
    """Neighbours of each chip: a torus for whole cubes, a mesh for a sub-slice."""
    step = _mesh_steps(shape) if shape.is_sub_slice else _torus_steps(shape, twisted=twisted)
    neighbours: list[set[int]] = [set() for _ in range(shape.chips)]
    for chip, successor in step:
        neighbours[chip].add(successor)
        neighbours[successor].add(chip)
    return tuple(tuple(sorted(found - {chip})) for chip, found in enumerate(neighbours))


@functools.cache
def distances(shape: topology.Topology, *, twisted: bool = False) -> Distances:
    """Mean and largest number of hops.

    Every chip of a torus, twisted or not, sees the same picture: one start is enough. A mesh has edges.
    """
    graph = chip_graph(shape, twisted=twisted)
    starts = range(shape.chips) if shape.is_sub_slice else range(1)
    walks = [hops_from(graph, start) for start in starts]
    pairs = len(walks) * (shape.chips - 1)
    return Distances(sum(map(sum, walks)) / pairs, max(map(max, walks)))


def hops_from(graph: Graph, start: int) -> list[int]:
    """Hops from one chip to each, by breadth-first search."""
    hops = [-1] * len(graph)
    hops[start] = 0
    ring = [start]
    while ring:
        outer = []
        for chip in ring:
            for neighbour in graph[chip]:
                if hops[neighbour] < 0:
                    hops[neighbour] = hops[chip] + 1
                    outer.append(neighbour)
        ring = outer
    return hops


def all_to_all_bound(shape: topology.Topology, *, twisted: bool = False) -> float:
    """Upper bound of all-to-all throughput per chip, in links, for a torus of whole cubes.

    Regular: the longest axis is the narrow one; half of its length away at worst, a quarter on average.
    Twisted: the load is even over the links, so the mean number of hops decides.
    Raises ValueError for a sub-slice: it is a mesh, which these bounds do not describe.
    """
    if shape.is_sub_slice:
        raise ValueError(f"{shape} is a mesh")
    if twisted:
        return _LINKS_PER_CHIP / distances(shape, twisted=True).mean_hops
    mean_hops_longest = shape.c / 4 * shape.chips / (shape.chips - 1)
    return _LINKS_PER_CHIP_AND_AXIS / mean_hops_longest


def twist_gain(shape: topology.Topology) -> float:
    """All-to-all throughput of the twisted shape relative to the regular one."""
    return all_to_all_bound(shape, twisted=True) / all_to_all_bound(shape)


def _torus_steps(shape: topology.Topology, *, twisted: bool) -> list[tuple[int, int]]:
    """From each chip one step forward on each axis: inside its cube, or over a circuit to the next one."""
    return [
        (_chip(cube, local), _next_chip(cube, local, axis, wiring.successors(shape, axis, twisted=twisted)))
        for axis in range(switchboard.AXES)
        for cube in range(shape.cubes)
        for local in itertools.product(range(_EDGE), repeat=3)
    ]


def _next_chip(cube: int, local: tuple[int, ...], axis: int, successor: tuple[int, ...]) -> int:
    ahead = local[axis] + 1
    # The link position on the face does not change on the way through the switch: only `axis` moves.
    moved = (*local[:axis], ahead % _EDGE, *local[axis + 1 :])
    return _chip(cube if ahead < _EDGE else successor[cube], moved)


def _chip(cube: int, local: tuple[int, ...]) -> int:
    x, y, z = local
    return ((cube * _EDGE + x) * _EDGE + y) * _EDGE + z


def _mesh_steps(shape: topology.Topology) -> list[tuple[int, int]]:
    index = {cell: n for n, cell in enumerate(itertools.product(*(range(edge) for edge in shape)))}
    steps = []
    for cell, chip in index.items():
        for axis in range(switchboard.AXES):
            ahead = (*cell[:axis], cell[axis] + 1, *cell[axis + 1 :])
            steps += [(chip, index[ahead])] if ahead in index else []
    return steps
