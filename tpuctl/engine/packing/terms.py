"""What is known of running slices and of requests beyond their shape: who may be ended, and who ends when."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from tpuctl.engine import preemption

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from tpuctl.engine import tenancy
    from tpuctl.engine.packing import room, wishes
    from tpuctl.model import fleet


class Terms:
    """The terms of everything that runs or is asked for."""

    def __init__(
        self,
        snapshot: fleet.Fleet,
        tenants: tenancy.Tenants,
        limits: preemption.Limits,
        asked: Sequence[wishes.Wish],
    ) -> None:
        self.snapshot = snapshot
        self.now = snapshot.observed_at
        self.limits = limits
        self.chips = preemption.chips_of_slices(snapshot)
        self.ended: set[str] = set()
        """Running slices that are to be ended."""
        self.speak = bool(tenants.by_name) or any(wish.ends_at is not None for wish in asked)
        """If false, nobody told anything, and what fits is all there is to know."""
        self._tenants = tenants
        self._ends = {
            item.name: end for item in snapshot.slices if (end := tenants.end_of(item, self.now)) is not None
        }

    def victims(self, priority: int) -> Collection[str]:
        """Running slices that a request of this priority may end.

        One that ends soon by itself is waited for instead.
        """
        soon = self.now + datetime.timedelta(seconds=self.limits.patience_s)
        return {
            item.name
            for item in self.snapshot.slices
            if item.name not in self.ended
            and self._tenants.may_be_evicted(item, priority, self.now)
            and not (self.limits.patience_s > 0 and self._ends_by(item.name, soon))
        }

    def ends(self, space: room.Room, units: Iterable[wishes.Unit]) -> Mapping[str, datetime.datetime]:
        """When those end of whom it is known: running slices, and units that have been given their place."""
        found = {name: end for name, end in self._ends.items() if name not in self.ended}
        for unit in units:
            if space.has(unit):
                for name, index in unit.members:
                    end = unit.wishes[index].ends_at
                    if end is not None:
                        found[name] = max(end, self.now)
        return found

    def is_gone(self, unit: wishes.Unit, at: datetime.datetime, head: wishes.Unit) -> bool:
        """If true, a unit that starts now is out of the way of another one at a later time.

        Every slice of it has ended by then, or may be ended for the other one.
        """
        return all(
            self._has_ended(unit.wishes[index], at) or self._may_be_ended(unit, unit.wishes[index], at, head)
            for _, index in unit.members
        )

    def _has_ended(self, wish: wishes.Wish, at: datetime.datetime) -> bool:
        return wish.ends_at is not None and wish.ends_at <= at

    def _may_be_ended(
        self, unit: wishes.Unit, wish: wishes.Wish, at: datetime.datetime, head: wishes.Unit
    ) -> bool:
        """As `Tenants.may_be_evicted`, of a slice that is yet to start."""
        old_enough = self.now + datetime.timedelta(seconds=wish.min_run_s) <= at
        return wish.preemptible and not unit.is_gang and unit.priority < head.priority and old_enough

    def _ends_by(self, name: str, at: datetime.datetime) -> bool:
        return name in self._ends and self._ends[name] <= at
