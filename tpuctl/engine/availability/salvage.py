"""What a cube with broken hosts is still good for: whole partitions of the fixed tree that stay healthy."""

from __future__ import annotations

import functools
import itertools
from typing import NamedTuple

from tpuctl.model import topology


class Salvage(NamedTuple):
    """Healthy partitions of one shape over all ways in which hosts can be broken."""

    shape: topology.Topology
    least: int
    mean: float


@functools.cache
def salvage(broken_hosts: int) -> tuple[Salvage, ...]:
    """For each sub-slice shape, largest first.

    Raises ValueError for more broken hosts than a cube has.
    """
    if not 0 <= broken_hosts <= topology.HOSTS_PER_CUBE:
        raise ValueError(f"a cube has {topology.HOSTS_PER_CUBE} hosts, {broken_hosts} cannot be broken")
    ways = list(itertools.combinations(range(topology.HOSTS_PER_CUBE), broken_hosts))
    found = []
    for shape in reversed(topology.SUB_SLICE_SHAPES):
        counts = [_healthy(shape.hosts, broken) for broken in ways]
        found.append(Salvage(shape, min(counts), sum(counts) / len(counts)))
    return tuple(found)


def _healthy(hosts: int, broken: tuple[int, ...]) -> int:
    """Partitions are aligned groups of consecutive hosts in tree order."""
    return topology.HOSTS_PER_CUBE // hosts - len({host // hosts for host in broken})
