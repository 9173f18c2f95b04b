"""Room for a unit by ending running slices that may be ended; nobody, if that would not help.

For a single slice the victims are the fewest chips, then the fewest slices. The slices of a gang are served
one after the other, and whoever turns out not to be in the way of the whole is left alone.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.engine import placement, vacating
from tpuctl.engine.packing import room as rooms

if TYPE_CHECKING:
    from collections.abc import Collection

    from tpuctl.engine.packing import terms as all_terms
    from tpuctl.engine.packing import wishes
    from tpuctl.model import topology


class Eviction(NamedTuple):
    """Running slices that have to end first, and for whom."""

    slices: tuple[str, ...]
    victims: tuple[str, ...]
    chips: int
    """Of the victims."""


def make_room(
    space: rooms.Room, unit: wishes.Unit, terms: all_terms.Terms, keep_free: int
) -> Eviction | None:
    """Give a unit a place for which others have to go; None, and nothing is changed, if there is none.

    The first of its shapes for which it can be done is taken.
    """
    victims = terms.victims(unit.priority)
    for option in range(unit.options) if victims else ():
        found = _cheapest(space, unit, option, terms, keep_free, victims)
        if found is not None:
            terms.ended.update(found.victims)
            return found
    return None


def _cheapest(
    space: rooms.Room,
    unit: wishes.Unit,
    option: int,
    terms: all_terms.Terms,
    keep_free: int,
    victims: Collection[str],
) -> Eviction | None:
    """A gang that wants one block tries each; all others are served where the fewest chips go."""

    def attempt(block: str | None) -> _Attempt:
        return _Attempt(space, unit, option, terms, keep_free, victims, block)

    if not unit.same_block or unit.first.block is not None:
        return attempt(unit.first.block).carry_out()
    costs = [(attempt(block).cost(), block) for block in space.blocks]
    cost, block = min(costs, default=((math.inf, 0), None))
    return attempt(block).carry_out() if cost[0] < math.inf else None


class _Attempt:
    """One way to serve a unit."""

    def __init__(
        self,
        space: rooms.Room,
        unit: wishes.Unit,
        option: int,
        terms: all_terms.Terms,
        keep_free: int,
        victims: Collection[str],
        block: str | None,
    ) -> None:
        self._space = space
        self._unit = unit
        self._option = option
        self._shapes = unit.shapes(option)
        self._terms = terms
        self._keep_free = keep_free
        self._victims = victims
        self._block = block
        self._gone: dict[str, rooms.Receipts] = {}

    def carry_out(self) -> Eviction | None:
        spots = self._find()
        if spots is not None and self._space.give(self._unit, spots):
            return Eviction(
                tuple(name for name, _ in self._unit.members), tuple(sorted(self._gone)), self._chips
            )
        self._restore()
        return None

    def cost(self) -> tuple[float, int]:
        """Chips and slices that would go; nothing is changed."""
        found = self._find()
        cost = (math.inf, 0) if found is None else (float(self._chips), len(self._gone))
        self._undo()
        self._restore()
        return cost

    @property
    def _chips(self) -> int:
        return sum(self._terms.chips[name] for name in self._gone)

    def _find(self) -> list[rooms.Spot] | None:
        """Take a place for every member, with victims released; None if that is not possible."""
        found: dict[int, rooms.Spot] = {}
        order = rooms.largest_first(self._shapes)
        for position, number in enumerate(order):
            rest = [self._shapes[other] for other in order[position + 1 :]]
            spot = self._find_one(number, rest)
            if spot is None:
                self._undo()
                return None
            found[number] = spot
        spots = self._with_fewer([found[number] for number in range(len(self._shapes))])
        limit = self._terms.limits.chips
        if limit is not None and self._chips > limit:
            self._undo()
            return None
        return spots

    def _find_one(self, number: int, rest: list[topology.Topology]) -> rooms.Spot | None:
        name, shape = self._unit.members[number][0], self._shapes[number]
        # In one block the whole cubes of the others are needed too, and the cheapest way frees all at once.
        more = sum(other.cubes for other in rest if not other.is_sub_slice) if self._unit.same_block else 0
        keep_free = self._keep_free + (0 if shape.is_sub_slice else more)
        spot = self._place(name, shape, keep_free)
        if spot is not None:
            return spot
        request = placement.Request(
            topology=shape, block=self._block, allow_degraded=self._unit.tolerant, keep_free=keep_free
        )
        index = self._space.index(tolerant=self._unit.tolerant)
        for found in list(vacating.vacancies(index, request, self._terms.chips, self._may_go)):
            receipts = {victim: self._space.release(victim) for victim in found.slices}
            spot = self._place(name, shape, keep_free)
            if spot is not None:
                self._gone |= receipts
                return spot
            for victim, receipt in receipts.items():
                self._space.restore(victim, receipt)
        return None

    def _place(self, name: str, shape: topology.Topology, keep_free: int) -> rooms.Spot | None:
        return self._space.place_one(name, shape, self._block, keep_free, self._unit.tolerant)

    def _may_go(self, name: str) -> bool:
        return name in self._victims and name not in self._gone

    def _with_fewer(self, spots: list[rooms.Spot]) -> list[rooms.Spot]:
        """Give back what a gang does not need after all, the largest first."""
        if not self._unit.is_gang:
            return spots
        for name in sorted(self._gone, key=lambda name: (-self._terms.chips[name], name)):
            self._undo()
            self._space.restore(name, self._gone[name])
            without = self._space.try_way(self._unit, self._option, self._keep_free, self._block)
            if without is not None:
                del self._gone[name]
                spots = without
                continue
            self._gone[name] = self._space.release(name)
            self._space.take_spots(self._unit, spots)
        return spots

    def _undo(self) -> None:
        self._space.undo(name for name, _ in self._unit.members)

    def _restore(self) -> None:
        for name, receipts in self._gone.items():
            self._space.restore(name, receipts)
        self._gone.clear()
