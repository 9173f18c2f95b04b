"""Circuits of slices: what each optical switch must connect.

The plus side of a cube is connected with the minus side of its successor on the axis, on every link position
of that axis alike; so a slice is one permutation of its cubes for each axis. Consequences, all tested:
any cubes can take any coordinates, slices on disjoint cubes never share a port, an axis of one cube is a
connection of the cube with itself, a slice of k cubes has 48 k circuits, and replacing one cube changes
at most 96 of them however large k is.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.engine.fabric import switchboard, twist
from tpuctl.model import topology

if TYPE_CHECKING:
    from collections.abc import Iterable


class Circuit(NamedTuple):
    """One connection inside one switch."""

    switch: int
    lane: int
    fibre: int
    plus: str
    """Cube whose plus side is connected."""
    minus: str
    """Cube whose minus side is connected."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SliceWiring:
    """A slice laid out on cubes.

    Raises ValueError if the cubes are not distinct or not as many as the shape has, or on a wrong twist.
    """

    topology: topology.Topology
    cubes: tuple[str, ...]
    """Ids in order of coordinates, z fastest."""
    twisted: bool = False
    """For comparison only: see `twist`."""

    def __post_init__(self) -> None:
        if len(set(self.cubes)) != len(self.cubes) or len(self.cubes) != self.topology.cubes:
            raise ValueError(f"{self.topology} needs {self.topology.cubes} distinct cubes")
        if self.twisted and not twist.is_twistable(self.topology):
            raise ValueError(f"{self.topology} cannot be twisted")

    def circuits(self, board: switchboard.Switchboard) -> frozenset[Circuit]:
        """Every circuit of the slice; none for a sub-slice, whose links are all electrical."""
        if self.topology.is_sub_slice:
            return frozenset()
        return frozenset(
            Circuit(board.switch_of(lane, fibre), lane, fibre, self.cubes[index], self.cubes[successor])
            for axis in range(switchboard.AXES)
            for index, successor in enumerate(successors(self.topology, axis, twisted=self.twisted))
            for position in range(switchboard.POSITIONS)
            for lane in [switchboard.lane_of(axis, position)]
            for fibre in range(board.fibres_per_lane)
        )

    def with_swap(self, old: str, new: str) -> SliceWiring:
        """The same slice with `new` in the place of `old`."""
        if old not in self.cubes:
            raise ValueError(f"{old} is not a cube of the slice")
        return dataclasses.replace(self, cubes=tuple(new if cube == old else cube for cube in self.cubes))


class Rewiring(NamedTuple):
    """Difference between two wirings."""

    removed: frozenset[Circuit]
    added: frozenset[Circuit]


@functools.cache
def successors(shape: topology.Topology, axis: int, *, twisted: bool = False) -> tuple[int, ...]:
    """The permutation of an axis (0 = x, 1 = y, 2 = z): index of each cube's successor, z fastest."""
    sides = [edge // topology.CUBE_EDGE_CHIPS for edge in shape]
    shift = (twist.shifts(shape) if twisted else twist.NO_SHIFT)[axis]
    found = []
    for cell in itertools.product(*(range(side) for side in sides)):
        target = list(cell)
        target[axis] += 1
        if target[axis] == sides[axis]:
            target = [at + by for at, by in zip(target, shift, strict=True)]
        x, y, z = (at % side for at, side in zip(target, sides, strict=True))
        found.append((x * sides[1] + y) * sides[2] + z)
    return tuple(found)


def rewire(before: SliceWiring, after: SliceWiring, board: switchboard.Switchboard) -> Rewiring:
    """The circuits to take down and to set up on the way from one wiring to the other."""
    old, new = before.circuits(board), after.circuits(board)
    return Rewiring(old - new, new - old)


def is_consistent(circuits: Iterable[Circuit]) -> bool:
    """If true, no port is used twice: on each lane every side of every cube has at most one circuit."""
    taken: set[tuple[int, int, str, str]] = set()
    for circuit in circuits:
        ends = {
            (circuit.lane, circuit.fibre, "plus", circuit.plus),
            (circuit.lane, circuit.fibre, "minus", circuit.minus),
        }
        if ends & taken:
            return False
        taken |= ends
    return True
