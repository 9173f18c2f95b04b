"""One cube in the index: who has what of it, what is wrong with it, and where it stands for sub-slices."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tpuctl.engine.inventory import obstacles
from tpuctl.model import topology

if TYPE_CHECKING:
    from tpuctl.engine.inventory import tree
    from tpuctl.model import fleet, states

_LEVELS = topology.HOSTS_PER_CUBE + 1
_SPOILED, _SHARED, _WHOLE, _LEAVING = range(4)
"""What a slice of whole cubes loses by a sub-slice: nothing, nothing new, a cube; the last goes away."""
FIRST_WHOLE = _WHOLE * _LEVELS * _LEVELS
"""Ranks from here on are of cubes that a slice of whole cubes could use, and of those that will go away."""


class HostCount(NamedTuple):
    """The 16 hosts of a cube; the three always sum to 16."""

    free: int
    used: int
    broken: int
    """Missing, or not usable even for the smallest shape."""


class Slot:
    """One cube."""

    __slots__ = (
        "block",
        "claims",
        "cube",
        "holders",
        "leaving",
        "number",
        "obstacle",
        "rank",
        "spoiled",
        "tree",
    )

    def __init__(self, cube: fleet.Cube, block: int, number: int) -> None:
        self.cube = cube
        self.block = block
        self.number = number
        self.holders: dict[str, int] = {}
        """Slice -> its hosts, as bits."""
        self.claims: tuple[str, ...] = ()
        self.obstacle: obstacles.Obstacle | None = None
        """What is wrong with the cube itself."""
        self.leaving: states.Verdict | None = None
        """What it comes to that all of it will go away; None if nobody says so."""
        self.spoiled = False
        """If true, it stays and no slice of whole healthy cubes can use it: the place for sub-slices."""
        self.tree: tree.Tree | None = None
        self.rank: dict[topology.Topology, int] | None = None
        """Where it stands on the shelves for sub-slices."""

    @property
    def used(self) -> int:
        """Hosts that slices have, as bits."""
        mask = 0
        for hosts in self.holders.values():
            mask |= hosts
        return mask

    @property
    def wear(self) -> tuple[int, int]:
        """Sub-slices go where this is least: into what no slice of whole cubes can use, the fullest first.

        A shared cube comes after a spoiled one, since it is whole again when its sub-slices end. One that
        will go away comes last, since a sub-slice in it goes too.
        """
        used = self.used.bit_count()
        if self.leaving is not None:
            return _LEAVING, -used
        return _SPOILED if self.spoiled else _SHARED if used else _WHOLE, -used

    def rank_with(self, free: int) -> int:
        """The order of `wear` as one number, and of equals the cube with the fewest free hosts."""
        level, minus_used = self.wear
        return (level * _LEVELS + topology.HOSTS_PER_CUBE + minus_used) * _LEVELS + free

    @property
    def whole_obstacle(self) -> obstacles.Obstacle | None:
        """Why a slice of whole cubes cannot take it."""
        if self.holders and self.cube.has_nodes:
            return obstacles.Obstacle.IN_USE
        return obstacles.of_claims(self.claims) if self.claims else self.obstacle
