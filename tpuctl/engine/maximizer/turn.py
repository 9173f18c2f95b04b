"""One turn of the maximizer's loop, over pools and cubes as plain values.

Cubes and keys are whatever the caller has: numbers in the simulated block, ids in a fleet. Nothing here
knows of time or of what a turn costs.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Container, Hashable, Iterable, Mapping, Sequence

Cube = Any
"""Ordered among its like and hashable."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pool:
    """A node pool that is there, or is being made."""

    name: Any
    cubes: tuple[Cube, ...]
    serves: Hashable = None
    """Key of the size it was made for; None if nobody wants it."""
    ground: Hashable = 0
    """Block in which it is."""
    shape: Hashable = None
    """While it is idle, whoever wants this shape has it as it is; None: only who it was made for."""
    is_sick: bool = False
    is_idle: bool = False
    """If true, no work is on it: others may have its cubes, unless somebody waits for one of its size."""


class Size(NamedTuple):
    """A size that would do."""

    key: Hashable
    cubes: int
    shape: Hashable = None
    """Idle pools of this shape do."""


class Want(NamedTuple):
    """Something that wants a pool of its own."""

    name: Any
    sizes: tuple[Size, ...]
    """The full size, then the smaller ones to work down through."""
    ground: Hashable = None
    """The only block that will do; None: any."""


class Make(NamedTuple):
    """A pool to make."""

    want: Want
    size: Size
    ground: Hashable
    cubes: tuple[Cube, ...]
    merged: tuple[Pool, ...]
    """Pools that are deleted for it: idle ones, and the smaller one that the same want has had so far."""

    @property
    def is_full(self) -> bool:
        return self.size == self.want.sizes[0]


class Use(NamedTuple):
    """An idle pool that serves a want as it is."""

    want: Want
    size: Size
    pool: Pool


class Turn(NamedTuple):
    """What one turn does."""

    deletes: tuple[Pool, ...]
    """The unhealthy pools."""
    makes: tuple[Make, ...]
    uses: tuple[Use, ...]
    without: tuple[Want, ...]
    """Wants that go without any pool."""


def play(
    pools: Sequence[Pool],
    loose: Mapping[Any, Iterable[Cube]],
    wants: Iterable[Want],
    bad: Container[Cube] = (),
) -> Turn:
    """One turn: delete the sick, then give each want the largest pool that can be had, in their order.

    `loose` are cubes in no pool, by block; of those and of what becomes free, the `bad` ones are left out.
    """
    wanted = list(wants)
    return _Turn(pools, loose, wanted, bad).play(wanted)


class _Turn:
    """The cubes left in the course of a turn."""

    def __init__(
        self,
        pools: Sequence[Pool],
        loose: Mapping[Any, Iterable[Cube]],
        wanted: Sequence[Want],
        bad: Container[Cube],
    ) -> None:
        self._sick = tuple(pool for pool in pools if pool.is_sick)
        well = [pool for pool in pools if not pool.is_sick]
        self._standing: dict[Hashable, list[Pool]] = {}
        for pool in well:
            if pool.serves is not None:
                self._standing.setdefault(pool.serves, []).append(pool)
        self._usable: dict[Hashable, list[Cube]] = {ground: list(cubes) for ground, cubes in loose.items()}
        for pool in self._sick:
            self._usable.setdefault(pool.ground, []).extend(pool.cubes)
        for ground, cubes in self._usable.items():
            self._usable[ground] = sorted((cube for cube in cubes if cube not in bad), reverse=True)
        self._home: dict[Cube, Pool] = {}
        """Cube -> the idle pool that goes if the cube is taken."""
        self._idle: dict[Hashable, dict[Hashable, Pool]] = {}
        """Shape -> idle pools of it by name, as long as nobody has taken a cube of them."""
        self._offer_idle(well, wanted)

    def _offer_idle(self, well: Iterable[Pool], wanted: Iterable[Want]) -> None:
        """Cubes of idle pools beyond those that somebody waits for: the last to be taken."""
        keep = collections.Counter(size.key for want in wanted for size in want.sizes)
        for pool in well:
            if not pool.is_idle:
                continue
            if keep[pool.serves] > 0:
                keep[pool.serves] -= 1
                continue
            if pool.serves is not None:  # whoever it served has another one: it is not theirs to give as well
                self._standing[pool.serves].remove(pool)
            self._usable.setdefault(pool.ground, [])[:0] = pool.cubes
            self._home.update(dict.fromkeys(pool.cubes, pool))
            if pool.shape is not None:
                self._idle.setdefault(pool.shape, {})[pool.name] = pool

    def play(self, wanted: Iterable[Want]) -> Turn:
        makes: list[Make] = []
        uses: list[Use] = []
        without: list[Want] = []
        for want in wanted:
            standing = self._standing.get(want.sizes[0].key)
            if standing:
                standing.pop()
                continue
            own = self._smaller(want)
            found = self._largest(want, own)
            if isinstance(found, Make):
                makes.append(found)
            elif found is not None:
                uses.append(found)
            elif own is None:
                without.append(want)
        return Turn(self._sick, tuple(makes), tuple(uses), tuple(without))

    def _smaller(self, want: Want) -> Pool | None:
        """The pool that it has had to be content with."""
        for size in want.sizes[1:]:
            if self._standing.get(size.key):
                return self._standing[size.key][-1]
        return None

    def _largest(self, want: Want, own: Pool | None) -> Make | Use | None:
        for size in want.sizes:
            if own is not None and size.key == own.serves:
                return None
            if own is None and (idle := self._idle_of(want, size)) is not None:
                return Use(want, size, idle)
            ground = self._ground_for(want, size.cubes, own)
            if ground is not None:
                return self._make(want, size, ground, own)
        return None

    def _idle_of(self, want: Want, size: Size) -> Pool | None:
        """Take an idle pool of the very shape."""
        for pool in self._idle.get(size.shape, {}).values():
            if want.ground in (None, pool.ground):
                self._withdraw(pool)
                usable = self._usable[pool.ground]
                self._usable[pool.ground] = [cube for cube in usable if cube not in pool.cubes]
                return pool
        return None

    def _withdraw(self, pool: Pool) -> None:
        """An idle pool is not to be had any more, as a whole or in parts."""
        for cube in pool.cubes:
            self._home.pop(cube, None)
        self._idle.get(pool.shape, {}).pop(pool.name, None)

    def _ground_for(self, want: Want, cubes: int, own: Pool | None) -> Hashable:
        """The block with the fewest cubes that suffice."""
        best: tuple[int, Hashable] | None = None
        for ground, usable in self._usable.items():
            if want.ground not in (None, ground):
                continue
            count = len(usable) + (len(own.cubes) if own is not None and own.ground == ground else 0)
            if count >= cubes and (best is None or count < best[0]):
                best = (count, ground)
        return None if best is None else best[1]

    def _make(self, want: Want, size: Size, ground: Hashable, own: Pool | None) -> Make:
        merged: list[Pool] = []
        if own is not None:
            self._standing[own.serves].remove(own)
            self._usable.setdefault(own.ground, []).extend(reversed(own.cubes))
            merged.append(own)
        cubes = tuple(self._usable[ground].pop() for _ in range(size.cubes))
        for cube in cubes:
            idle = self._home.get(cube)
            if idle is not None and idle not in merged:
                merged.append(idle)
        for pool in merged:
            self._withdraw(pool)
        return Make(want, size, ground, cubes, tuple(merged))
