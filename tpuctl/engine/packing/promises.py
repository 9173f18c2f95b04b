"""What is promised to the first unit that has to wait, and who may pass it (EASY backfilling).

By the ends that are expected, the unit will fit at some time. Whoever comes later may start now only if it
fits then all the same; that is found out by asking again, on the fleet as it will be at that time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tpuctl.engine import backfill, changes
from tpuctl.engine.packing import room as rooms

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tpuctl.engine.packing import terms as all_terms
    from tpuctl.engine.packing import wishes
    from tpuctl.model import health as health_values


class Promise(NamedTuple):
    """A unit that has to wait, and where and when it will fit if everybody ends as expected."""

    unit: wishes.Unit
    shadow: backfill.Shadow
    spots: tuple[rooms.Spot, ...]
    """Where it would go; any place that is as good will do."""


class Keeper:
    """Keeps a promise: turns away whoever would break it."""

    def __init__(
        self, promise: Promise, option: int, keep_free: int, then: rooms.Room, terms: all_terms.Terms
    ) -> None:
        self.promise = promise
        self.passed: set[int] = set()
        """Numbers of the units that passed the one that waits."""
        self._option = option
        self._keep_free = keep_free
        self._then = then
        """The fleet at the time promised, with everything that will still be there."""
        self._terms = terms

    def admits(self, unit: wishes.Unit, spots: Sequence[rooms.Spot]) -> bool:
        """If true, the unit is out of the way by then, or the promise holds beside it."""
        head = self.promise.unit
        if not self._terms.is_gone(unit, self.promise.shadow.at, head):
            self._then.take_spots(unit, spots)
            if self._then.try_way(head, self._option, self._keep_free) is None:
                self._then.undo(name for name, _ in unit.members)
                return False
            self._then.undo(name for name, _ in head.members)
        self.passed.add(unit.number)
        return True


def promise(
    space: rooms.Room,
    unit: wishes.Unit,
    granted: Sequence[wishes.Unit],
    terms: all_terms.Terms,
    policy: health_values.HealthPolicy,
    keep_free: int,
) -> Keeper | None:
    """A promise to a unit that does not fit now; None if nobody knows when it will.

    `granted` is who has been given a place so far.
    """
    ends = terms.ends(space, granted)
    shadow = backfill.when_it_fits(
        space, ends, terms.now, lambda: space.way_that_fits(unit, keep_free) is not None
    )
    if shadow is None:
        return None
    then = _at(space, shadow, granted, terms, policy)
    option = then.way_that_fits(unit, keep_free)
    spots = None if option is None else then.try_way(unit, option, keep_free)
    if option is None or spots is None:
        raise AssertionError("it fits when these have ended")
    then.undo(name for name, _ in unit.members)
    return Keeper(Promise(unit, shadow, tuple(spots)), option, keep_free, then, terms)


def _at(
    space: rooms.Room,
    shadow: backfill.Shadow,
    granted: Iterable[wishes.Unit],
    terms: all_terms.Terms,
    policy: health_values.HealthPolicy,
) -> rooms.Room:
    """The fleet when these have ended, with those who have been given a place and will still be there."""
    gone = terms.ended.union(shadow.ends)
    tolerant = space.index(tolerant=True) is not space.index(tolerant=False)
    then = rooms.Room(changes.without_slices(terms.snapshot, gone), policy, tolerant=tolerant)
    for unit in granted:
        if space.has(unit):
            then.take_spots(unit, space.spots_of(unit))
            then.undo(name for name, _ in unit.members if name in gone)
    return then
