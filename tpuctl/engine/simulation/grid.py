"""A fixed torus without optical switches: a slice is a box of neighbouring cubes, in any orientation.

Boxes are bit sets, made once for each shape, so that a test is one AND.
"""

from __future__ import annotations

import bisect
import functools
import itertools
from typing import TYPE_CHECKING

from tpuctl.engine.simulation import floor
from tpuctl.model import topology

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable

    from tpuctl.engine.simulation import kinds

Sides = tuple[int, int, int]


class GridFloor(floor.Floor):
    """Cubes on a grid that wraps around on every axis."""

    swaps = False

    def __init__(self, cubes: int, dice: random.Random | None = None) -> None:
        """With `dice` a slice gets any of the free boxes, otherwise the first: see `scenario.Boxes`."""
        super().__init__(cubes)
        self._dice = dice
        self.sides = grid_sides(cubes)
        self.taken = 0
        """Bit set of the cubes that are not in `empty`."""

    def can_ever(self, kind: kinds.Kind) -> bool:
        return not kind.cubes or bool(self._boxes(kind))

    def fits(self, kind: kinds.Kind) -> bool:
        if not kind.cubes:
            return super().fits(kind)
        return kind.cubes <= len(self.empty) and self._first_box(kind, self.taken) != 0

    def blast_hosts(self, host: int, job: kinds.Running | None) -> int:
        """The whole slice: it is taken down and made again elsewhere."""
        return super().blast_hosts(host, job) if job is None else job.kind.hosts

    def earliest(self, kind: kinds.Kind, running: Iterable[kinds.Running], now_s: int) -> tuple[int, int]:
        """The first time at which some box is free, by bisection over the ends of jobs and repairs."""
        if not kind.cubes:
            return super().earliest(kind, running, now_s)
        free_at = self._free_at(running, now_s)
        times = sorted({at_s for at_s in free_at if at_s < floor.FOREVER})
        later = functools.partial(self._box_at, kind, free_at)
        index = bisect.bisect_left(times, True, key=lambda at_s: later(at_s) != 0)
        return (times[index], later(times[index])) if index < len(times) else (floor.FOREVER, 0)

    def _box_at(self, kind: kinds.Kind, free_at: list[int], at_s: int) -> int:
        return self._first_box(kind, sum(1 << cube for cube, free_s in enumerate(free_at) if free_s > at_s))

    def _choose(self, kind: kinds.Kind, avoid: int) -> kinds.Cubes:
        if kind.cubes > len(self.empty):
            return ()
        box = self._some_box(kind, self.taken | avoid)
        if not box:
            return ()
        self.taken |= box
        self.empty = [cube for cube in self.empty if not box >> cube & 1]
        return members(box)

    def _open_cube(self, avoid: int) -> int | None:
        """A free cube, as for a box of one: sub-slices all over the grid would leave no boxes."""
        free = [cube for cube in range(self.cubes) if not (self.taken | avoid) >> cube & 1]
        if not free:
            return None
        cube = free[0] if self._dice is None else self._dice.choice(free)
        self._take((cube,))
        return cube

    def _take(self, cubes: Iterable[int]) -> None:
        for cube in cubes:
            self.empty.remove(cube)
            self.taken |= 1 << cube

    def _return(self, cubes: Iterable[int]) -> None:
        for cube in cubes:
            self.empty.append(cube)
            self.taken &= ~(1 << cube)

    def _boxes(self, kind: kinds.Kind) -> tuple[int, ...]:
        return boxes(kind.shape, self.sides)

    def _some_box(self, kind: kinds.Kind, taken: int) -> int:
        if self._dice is None:
            return self._first_box(kind, taken)
        free = [box for box in self._boxes(kind) if not box & taken]
        return self._dice.choice(free) if free else 0

    def _first_box(self, kind: kinds.Kind, taken: int) -> int:
        for box in self._boxes(kind):
            if not box & taken:
                return box
        return 0


@functools.cache
def grid_sides(cubes: int) -> Sides:
    """The most cubic box of exactly so many cubes: 64 is 4x4x4, 144 is 4x6x6."""
    found = [
        (a, b, cubes // a // b)
        for a in range(1, cubes + 1)
        if cubes % a == 0
        for b in range(a, cubes // a + 1)
        if cubes // a % b == 0 and cubes // a // b >= b
    ]
    return min(found, key=lambda sides: (sides[2] - sides[0], sides))


@functools.cache
def boxes(shape: topology.Topology, sides: Sides) -> tuple[int, ...]:
    """Every place for a shape, as bit sets in a fixed order; empty if it does not fit the grid at all."""
    edges = [edge // topology.CUBE_EDGE_CHIPS for edge in shape]
    found: dict[int, None] = {}
    for turned in sorted(set(itertools.permutations(edges))):
        if all(edge <= side for edge, side in zip(turned, sides, strict=True)):
            for corner in itertools.product(*(range(side) for side in sides)):
                found[_box(corner, turned, sides)] = None
    return tuple(found)


@functools.cache
def members(box: int) -> tuple[int, ...]:
    return tuple(cube for cube in range(box.bit_length()) if box >> cube & 1)


def _box(corner: tuple[int, ...], edges: tuple[int, ...], sides: Sides) -> int:
    x, y, z = (
        [(start + step) % side for step in range(edge)]
        for start, edge, side in zip(corner, edges, sides, strict=True)
    )
    return sum(1 << (i * sides[1] + j) * sides[2] + k for i in x for j in y for k in z)
