"""What is known of a running slice beyond its object: how urgent it is, and whether it may be disturbed.

A Slice resource says only its priority, in tpuctl's annotation; the rest comes from a file of requests. What
nobody told is never disturbed: a slice without an entry is not preemptible, and its end is not known.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.model import states

if TYPE_CHECKING:
    import datetime
    from collections.abc import Mapping

    from tpuctl.model import fleet


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tenancy:
    """Terms of one running slice."""

    priority: int | None = None
    """In place of what the Slice says of itself; None leaves that."""
    preemptible: bool = False
    exempt: bool = False
    """If true, it is never moved."""
    min_run_s: float = 0.0
    """It is left alone for so long after its start."""
    started_at: datetime.datetime | None = None
    """The creation of the slice if not told."""
    ends_at: datetime.datetime | None = None
    """When it is expected to end."""
    gang: str = ""
    team: str = ""
    allow_degraded: bool = False
    """If true, it can do with cubes that have a degraded link."""


UNKNOWN = Tenancy()


@dataclasses.dataclass(frozen=True)
class Tenants:
    """The terms of all running slices, by name."""

    by_name: Mapping[str, Tenancy] = dataclasses.field(default_factory=dict)

    def of(self, item: fleet.Slice) -> Tenancy:
        return self.by_name.get(item.name, UNKNOWN)

    def priority_of(self, item: fleet.Slice) -> int:
        """How urgent it is: what the file says goes before what the Slice says."""
        told = self.of(item).priority
        return item.priority if told is None else told

    def has_run_long_enough(self, item: fleet.Slice, now: datetime.datetime) -> bool:
        terms = self.of(item)
        ran_s = (now - (terms.started_at or item.created_at)).total_seconds()
        return ran_s >= terms.min_run_s

    def may_be_evicted(self, item: fleet.Slice, priority: int, now: datetime.datetime) -> bool:
        """If true, a request of this priority may end it: only what is told to be preemptible, alone and long
        enough at work, less urgent, and nobody else's.
        """
        terms = self.of(item)
        return (
            terms.preemptible
            and not terms.gang
            and self.priority_of(item) < priority
            and item.owner is None
            and not item.deleting
            and self.has_run_long_enough(item, now)
        )

    def may_be_moved(self, item: fleet.Slice, now: datetime.datetime) -> bool:
        """If true, it may be made again elsewhere: ours, ready, not exempt, long enough at work."""
        terms = self.of(item)
        return (
            not terms.exempt
            and item.owner is None
            and item.topology is not None
            and item.state in (states.SliceState.ACTIVE, states.SliceState.ACTIVE_DEGRADED)
            and not item.deleting
            and self.has_run_long_enough(item, now)
        )

    def end_of(self, item: fleet.Slice, now: datetime.datetime) -> datetime.datetime | None:
        """When its cubes become free: one that is overdue or leaving may end any moment; None if unknown."""
        if item.deleting:
            return now
        end = self.of(item).ends_at
        return None if end is None else max(end, now)
