"""Shapes as a run needs them: small numbers for the inner loop, and the jobs in it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tpuctl.model import topology

Cubes = tuple[int, ...]
"""Numbers of cubes in the block."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kind:
    """A shape."""

    number: int
    shape: topology.Topology
    hosts: int
    cubes: int
    """0 for a sub-slice, which shares a cube."""
    interval_s: int
    """Between checkpoints; 0 for none."""
    startup_s: int


class Running:
    """A job in the block or in the queue. Mutable and slotted: there is one for each job, and it is hot."""

    __slots__ = (
        "arrival_s",
        "began_s",
        "cubes",
        "expected_end_s",
        "first_start_s",
        "hosts_mask",
        "kind",
        "pool",
        "serial",
        "startup_s",
        "token",
        "wall_s",
        "work_s",
    )

    def __init__(self, serial: int, kind: Kind, arrival_s: int, work_s: int) -> None:
        self.serial = serial
        self.kind = kind
        self.arrival_s = arrival_s
        self.work_s = work_s
        """Still to do."""
        self.wall_s = 0
        """Time that the next segment takes if nothing fails."""
        self.startup_s = kind.startup_s
        self.first_start_s = -1
        self.began_s = -1
        """Start of the current segment; -1 while waiting."""
        self.expected_end_s = 0
        self.cubes: Cubes = ()
        self.hosts_mask = 0
        """Hosts of the one cube that a sub-slice has; 0 for whole cubes."""
        self.pool = -1
        """Number of the node pool, for the methods that have some."""
        self.token = -1
        """Number of the event that ends the current segment; others are stale."""
