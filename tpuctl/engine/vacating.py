"""Which slices would have to go so that a request fits: the cheapest set in each block.

What counts is whether the request fits afterwards, its shape and not a total of chips: cubes must lie in one
block, be healthy and belong wholly to slices that may go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

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


class _Item(NamedTuple):
    """Slices that free some cubes if all of them go."""

    chips: int
    slices: tuple[str, ...]
    cubes: int


_Cover = tuple[int, int, tuple[str, ...]]


def vacancies(
    index: stock.Stock,
    request: placement.Request,
    chips_of: Mapping[str, int],
    may_go: Callable[[str], bool],
) -> Iterator[Vacancy]:
    """The cheapest way in each block that has one, the cheapest first; nothing if it fits without."""
    blocks = [number for number, block in enumerate(index.blocks) if request.block in (None, block)]
    find = _in_cubes if request.topology.is_sub_slice else _whole_cubes
    yield from sorted(found for block in blocks for found in find(index, block, request, chips_of, may_go))


def _whole_cubes(
    index: stock.Stock,
    block: int,
    request: placement.Request,
    chips_of: Mapping[str, int],
    may_go: Callable[[str], bool],
) -> Iterator[Vacancy]:
    missing = request.topology.cubes + request.keep_free - index.free[block].bit_count()
    items = list(_items(index.slots[block], request, chips_of, may_go))
    if missing <= 0 or sum(item.cubes for item in items) < missing:
        return
    chips, count, names = _cheapest_cover(items, missing)
    yield Vacancy(chips, count, tuple(sorted(names)), index.blocks[block])


def _items(
    slots: Iterable[stock.Slot],
    request: placement.Request,
    chips_of: Mapping[str, int],
    may_go: Callable[[str], bool],
) -> Iterator[_Item]:
    """A slice of whole cubes frees those of its cubes that are usable; sub-slices free a cube together."""
    freed: dict[tuple[str, ...], int] = {}
    for slot in slots:
        holders = tuple(sorted(slot.holders))
        usable = slot.obstacle is None and not slot.claims
        if holders and usable and all(map(may_go, holders)) and request.admits(slot.cube.id, slot.cube.id):
            freed[holders] = freed.get(holders, 0) + 1
    for holders, cubes in sorted(freed.items()):
        yield _Item(sum(chips_of[name] for name in holders), holders, cubes)


def _cheapest_cover(items: Iterable[_Item], missing: int) -> _Cover:
    """The cheapest items that free at least `missing` cubes; there must be a way."""
    best: list[_Cover | None] = [(0, 0, ()), *[None] * missing]
    for item in items:
        for total in range(missing, 0, -1):
            base = best[max(total - item.cubes, 0)]
            if base is not None:
                found = (base[0] + item.chips, base[1] + len(item.slices), base[2] + item.slices)
                known = best[total]
                if known is None or found < known:
                    best[total] = found
    cover = best[missing]
    if cover is None:
        raise AssertionError("the items free enough cubes")
    return cover


def _in_cubes(
    index: stock.Stock,
    block: int,
    request: placement.Request,
    chips_of: Mapping[str, int],
    may_go: Callable[[str], bool],
) -> Iterator[Vacancy]:
    """For a sub-slice: who sits in a partition of its shape."""
    best: Vacancy | None = None
    for slot in index.slots[block]:
        if slot.claims:
            continue
        for part in index.tree_of(slot).parts[request.topology]:
            names = tuple(sorted(name for name, hosts in slot.holders.items() if hosts & part.hosts))
            if part.obstacle is None and names and all(map(may_go, names)):
                chips = sum(chips_of[name] for name in names)
                found = Vacancy(chips, len(names), names, index.blocks[block])
                best = found if best is None else min(best, found)
    if best is not None:
        yield best
