"""Which slices would have to go so that a request fits: the cheapest sets in each block.

What counts is whether the request fits afterwards, its shape and not a total of chips: cubes must lie in one
block, be healthy and belong wholly to slices that may go. Cubes that are not asked for can become spares, and
nothing else.
"""

from __future__ import annotations

import dataclasses
import heapq
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.engine.inventory import shelves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from tpuctl.engine import placement
    from tpuctl.engine.inventory import stock


class Vacancy(NamedTuple):
    """Slices that make room by going; ordered by what is preferred: few chips, then few slices."""

    chips: int
    how_many: int
    slices: tuple[str, ...]
    block: str


_MOST_OF_A_BLOCK = 4
"""Ways for a sub-slice that are named in a block, for who finds that the cheapest will not do."""
_Counts = tuple[int, int]
"""Cubes to take; and, of these and of healthy ones that can be left as spares, cubes of either kind."""
_Cover = tuple[int, int, tuple[str, ...]]
"""Chips, number of slices, their names."""


class _Item(NamedTuple):
    """Slices that free some cubes if all of them go."""

    chips: int
    slices: tuple[str, ...]
    gain: _Counts


def vacancies(
    index: stock.Stock,
    request: placement.Request,
    chips_of: Mapping[str, int],
    may_go: Callable[[str], bool],
) -> Iterator[Vacancy]:
    """The cheapest ways in each block that has any, the cheapest first; nothing if it fits without.

    A slice of whole cubes has one way in a block, or two if it may take degraded cubes: with spares and by
    degraded cubes alone. A sub-slice has a few.
    """
    blocks = [number for number, block in enumerate(index.blocks) if request.block in (None, block)]
    search = _Search(index=index, request=request, chips_of=chips_of, may_go=may_go)
    yield from sorted(found for block in blocks for found in search.in_block(block))


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Search:
    """What is asked of every block."""

    index: stock.Stock
    request: placement.Request
    chips_of: Mapping[str, int]
    may_go: Callable[[str], bool]

    def in_block(self, block: int) -> Iterable[Vacancy]:
        shape = self.request.topology
        if not shape.is_sub_slice:
            return set(self._by_cubes(block, shape.cubes))
        found = set(self._by_parts(block))
        if self.request.keep_free:
            # More whole cubes than spares, one of which it may then break into.
            found.update(self._by_cubes(block, 1))
        return heapq.nsmallest(_MOST_OF_A_BLOCK, found)

    def _vacancy(self, block: int, names: Iterable[str]) -> Vacancy:
        slices = tuple(sorted(names))
        return Vacancy(
            sum(self.chips_of[name] for name in slices), len(slices), slices, self.index.blocks[block]
        )

    # -- whole cubes -------------------------------------------------------------------------------------

    def _by_cubes(self, block: int, needed: int) -> Iterator[Vacancy]:
        """So many cubes to take beside the spares, or so many degraded ones, which break no spare."""
        spares = self.request.keep_free
        (take, count), worn = self._free_now(block)
        if worn >= needed or (take >= needed and count >= needed + spares):
            return
        goal = max(needed - take, 0), max(needed + spares - count, 0) if spares else 0
        yield from self._cheapest(block, goal, only_worn=False)
        if spares and self.index.terms.allow_degraded:
            yield from self._cheapest(block, (needed - worn, 0), only_worn=True)

    def _free_now(self, block: int) -> tuple[_Counts, int]:
        """What is free, and how many of the cubes to take are not healthy."""
        free, healthy = self.index.free[block], self.index.healthy(block)
        asked = free
        if self.request.is_restricted:
            slots = self.index.slots[block]
            numbers = (number for number in shelves.members(free) if self._is_asked(slots[number]))
            asked = sum(1 << number for number in numbers)
        return (asked.bit_count(), (asked | healthy).bit_count()), (asked & ~healthy).bit_count()

    def _cheapest(self, block: int, goal: _Counts, *, only_worn: bool) -> Iterator[Vacancy]:
        cover = _cheapest_cover(list(self._items(block, only_worn=only_worn)), goal)
        if cover is not None:
            yield self._vacancy(block, cover[2])

    def _items(self, block: int, *, only_worn: bool) -> Iterator[_Item]:
        """A slice of whole cubes frees the usable ones of its cubes; sub-slices free a cube together."""
        freed: dict[tuple[str, ...], _Counts] = {}
        for slot in self.index.slots[block]:
            holders = tuple(sorted(slot.holders))
            usable = slot.obstacle is None and not slot.claims
            if not holders or not usable or (only_worn and _is_healthy(slot)):
                continue
            asked = self._is_asked(slot)
            if (asked or _is_healthy(slot)) and all(map(self.may_go, holders)):
                take, count = freed.get(holders, (0, 0))
                freed[holders] = take + asked, count + 1
        for holders, gain in sorted(freed.items()):
            yield _Item(sum(self.chips_of[name] for name in holders), holders, gain)

    def _is_asked(self, slot: stock.Slot) -> bool:
        """If true, the request admits the cube, or a piece of it."""
        request = self.request
        if not request.is_restricted:
            return True
        if not request.topology.is_sub_slice:
            return request.admits(slot.cube.id, slot.cube.id)
        parts = self.index.tree_of(slot).parts[request.topology]
        return any(request.admits(slot.cube.id, part.id) for part in parts)

    # -- inside cubes ------------------------------------------------------------------------------------

    def _by_parts(self, block: int) -> Iterator[Vacancy]:
        """Who sits in a partition of the shape, if its end leaves the spares alone."""
        for slot in self.index.slots[block]:
            if slot.claims or not slot.holders:
                continue
            for part in self.index.tree_of(slot).parts[self.request.topology]:
                names = tuple(sorted(name for name, hosts in slot.holders.items() if hosts & part.hosts))
                fits = part.obstacle is None and self.request.admits(slot.cube.id, part.id)
                if fits and names and all(map(self.may_go, names)) and self._spares_stay(slot, names):
                    yield self._vacancy(block, names)

    def _spares_stay(self, slot: stock.Slot, names: tuple[str, ...]) -> bool:
        """If false, the cube would be whole without these slices, and as such be needed as a spare."""
        spares = self.request.keep_free
        if not spares or not _is_healthy(slot) or not slot.holders.keys() <= {*names}:
            return True
        theirs = {
            other.number: other
            for name in names
            for other in self.index.held.get(name, ())
            if other.block == slot.block
        }
        freed = sum(
            _is_healthy(other) and not other.claims and other.holders.keys() <= {*names}
            for other in theirs.values()
        )
        return self.index.healthy(slot.block).bit_count() + freed > spares


def _is_healthy(slot: stock.Slot) -> bool:
    """If true, the cube is worth keeping as a spare once nobody has it."""
    return slot.obstacle is None and not slot.spoiled and slot.leaving is None


def _cheapest_cover(items: list[_Item], goal: _Counts) -> _Cover | None:
    """The cheapest items that free at least so many cubes; None if all of them do not."""
    take, count = goal
    if sum(item.gain[0] for item in items) < take or sum(item.gain[1] for item in items) < count:
        return None
    best: dict[_Counts, _Cover] = {(0, 0): (0, 0, ())}
    for chips, slices, gain in items:
        for state, known in list(best.items()):
            reached = min(state[0] + gain[0], take), min(state[1] + gain[1], count)
            other = best.get(reached)
            if reached == state or (other is not None and other[0] < known[0] + chips):
                continue
            found = known[0] + chips, known[1] + len(slices), known[2] + slices
            if other is None or found < other:
                best[reached] = found
    return best.get(goal)
