"""The quick way: each block filled as exactly as the sizes allow, large slices first.

Which total sizes a block can reach is one big integer: bit t is set if some of the slices left add up to t
cubes. A block takes the largest reachable total that fits it, and of the ways to reach it the one with the
largest slices, so that small ones are left to fill the other blocks. With one block this is the optimum.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING

from tpuctl.engine.packing import problem as problems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Items = list[tuple[int, int, int]]
"""(size, group, how many)."""


def solve(problem: problems.Problem) -> problems.Solution:
    """The best of several passes, with a bound that no packing can beat."""
    ceiling = bound(problem)
    best: problems.Solution | None = None
    for bundles_first in (True, False) if problem.bundles else (True,):
        for order in _ORDERS:
            for fill in (_exact_fill, _largest_fill):
                found = _pass(problem, order, fill, ceiling, bundles_first=bundles_first)
                if best is None or found.hosts > best.hosts:
                    best = found
                if best.is_optimal:
                    return best
    if best is None:
        raise AssertionError("there is always at least one pass")
    return best


def bound(problem: problems.Problem) -> int:
    """Hosts that no packing exceeds: the demand, and what sizes can add up to in each block."""
    per_cube = 16
    reach = 0
    for block, (healthy, degraded) in enumerate(zip(problem.healthy, problem.degraded, strict=True)):
        items = [
            (group.size, number, group.demand)
            for number, group in enumerate(problem.groups)
            if group.block in (None, block) and group.demand
        ]
        for bundle in problem.bundles:
            if bundle.block in (None, block):
                items += [(size, -1, 1) for option in bundle.options for size in option.sizes]
        reach += per_cube * (_reachable(items, healthy + degraded)[-1].bit_length() - 1)
    return min(problem.demand_hosts, reach)


class _Room:
    """What is left of blocks and groups during one pass."""

    def __init__(self, problem: problems.Problem) -> None:
        self.problem = problem
        self.healthy = list(problem.healthy)
        self.degraded = list(problem.degraded)
        self.left = [group.demand for group in problem.groups]
        self.loose: dict[tuple[int, int], int] = collections.defaultdict(int)
        self.bundles: dict[int, tuple[int, tuple[int, ...]]] = {}

    def room(self, block: int, *, tolerant: bool) -> int:
        return self.healthy[block] + (self.degraded[block] if tolerant else 0)

    def take(self, block: int, size: int, *, tolerant: bool) -> None:
        """The tolerant use up degraded cubes first."""
        worn = min(size, self.degraded[block]) if tolerant else 0
        self.degraded[block] -= worn
        self.healthy[block] -= size - worn


def _pass(
    problem: problems.Problem,
    order: Callable[[_Room, Iterable[int], bool], list[int]],
    fill: Callable[[_Room, int, bool], None],
    ceiling: int,
    *,
    bundles_first: bool,
) -> problems.Solution:
    room = _Room(problem)
    if bundles_first:
        _place_bundles(room)
    for tolerant in (False, True):
        if any(group.tolerant is tolerant for group in problem.groups):
            for block in order(room, range(len(problem.healthy)), tolerant):
                fill(room, block, tolerant)
    if not bundles_first:
        _place_bundles(room)
    chosen = {number: option for number, (option, _) in room.bundles.items()}
    hosts = problems.value(problem, room.loose, chosen)
    return problems.Solution(
        loose=dict(room.loose), bundles=room.bundles, hosts=hosts, bound_hosts=ceiling, method="heuristic"
    )


def _smallest_first(room: _Room, blocks: Iterable[int], tolerant: bool) -> list[int]:
    return sorted(blocks, key=lambda block: (room.room(block, tolerant=tolerant), block))


def _largest_first(room: _Room, blocks: Iterable[int], tolerant: bool) -> list[int]:
    return sorted(blocks, key=lambda block: (-room.room(block, tolerant=tolerant), block))


_ORDERS = (_smallest_first, _largest_first)


def _items(room: _Room, block: int, tolerant: bool) -> Items:
    """Groups that may go into a block, small ones first, of equals those worth less."""
    fitting = sorted(
        (group.size, group.hosts, number, room.left[number])
        for number, group in enumerate(room.problem.groups)
        if group.tolerant is tolerant and group.block in (None, block) and room.left[number]
    )
    return [(size, number, left) for size, _, number, left in fitting]


def _exact_fill(room: _Room, block: int, tolerant: bool) -> None:
    items = _items(room, block, tolerant)
    for number, count in filled(items, room.room(block, tolerant=tolerant)):
        _grant(room, block, number, count)


def _largest_fill(room: _Room, block: int, tolerant: bool) -> None:
    for size, number, left in reversed(_items(room, block, tolerant)):
        count = min(left, room.room(block, tolerant=tolerant) // size)
        if count:
            _grant(room, block, number, count)


def _grant(room: _Room, block: int, number: int, count: int) -> None:
    group = room.problem.groups[number]
    room.loose[number, block] += count
    room.left[number] -= count
    room.take(block, group.size * count, tolerant=group.tolerant)


def filled(items: Items, capacity: int) -> list[tuple[int, int]]:
    """(group, how many) that together come nearest to a capacity; large sizes are preferred.

    `items` must be sorted by size.
    """
    pieces = list(_pieces(items, capacity))
    reached = _steps(pieces, capacity)
    target = reached[-1].bit_length() - 1
    taken: dict[int, int] = {}
    for step in range(len(pieces) - 1, -1, -1):
        size, number, count = pieces[step]
        weight = size * count
        if target >= weight and reached[step] >> (target - weight) & 1:
            taken[number] = taken.get(number, 0) + count
            target -= weight
    return list(taken.items())


def _pieces(items: Items, capacity: int) -> Iterable[tuple[int, int, int]]:
    """Counts in powers of two, so that any number of a group is a sum of few pieces."""
    for size, number, available in items:
        left, count = min(available, capacity // size), 1
        while left > 0:
            count = min(count, left)
            yield size, number, count
            left -= count
            count *= 2


def _steps(pieces: Sequence[tuple[int, int, int]], capacity: int) -> list[int]:
    """Reachable totals after none, one, two ... of the pieces."""
    window = (1 << (capacity + 1)) - 1
    reached = [1]
    for size, _, count in pieces:
        reached.append((reached[-1] | reached[-1] << (size * count)) & window)
    return reached


def _reachable(items: Items, capacity: int) -> list[int]:
    return _steps(list(_pieces(items, capacity)), capacity)


def _place_bundles(room: _Room) -> None:
    """The most valuable first, each in the best of its ways that fits."""
    order = sorted(
        range(len(room.problem.bundles)),
        key=lambda number: (-max(option.hosts for option in room.problem.bundles[number].options), number),
    )
    for number in order:
        bundle = room.problem.bundles[number]
        ways = sorted(range(len(bundle.options)), key=lambda way: (-bundle.options[way].hosts, way))
        for way in ways:
            blocks = _where(room, bundle, bundle.options[way])
            if blocks is not None:
                for size, block in zip(bundle.options[way].sizes, blocks, strict=True):
                    room.take(block, size, tolerant=bundle.tolerant)
                room.bundles[number] = (way, blocks)
                break


def _where(room: _Room, bundle: problems.Bundle, option: problems.Option) -> tuple[int, ...] | None:
    """Best fit decreasing; None if the bundle does not fit as a whole."""
    blocks = range(len(room.healthy)) if bundle.block is None else (bundle.block,)
    left = {block: room.room(block, tolerant=bundle.tolerant) for block in blocks}
    if option.same_block:
        total = sum(option.sizes)
        fitting = [block for block in left if left[block] >= total]
        best = min(fitting, key=lambda block: (left[block], block), default=None)
        return None if best is None else (best,) * len(option.sizes)
    found = [0] * len(option.sizes)
    for index in sorted(range(len(option.sizes)), key=lambda index: (-option.sizes[index], index)):
        size = option.sizes[index]
        best = min(
            (block for block in left if left[block] >= size),
            key=lambda block: (left[block], block),
            default=None,
        )
        if best is None:
            return None
        left[best] -= size
        found[index] = best
    return tuple(found)
