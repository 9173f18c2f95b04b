"""Who may start before whom (EASY backfilling).

The first request that does not fit gets a shadow time: when, by the ends that are expected, it will. A later
request may start now only if that time stays the same. Whether it does is found by asking again with the
later one in place, not by a rule of thumb.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from tpuctl.engine import placement
from tpuctl.engine.inventory import stock

if TYPE_CHECKING:
    import datetime
    from collections.abc import Callable, Mapping, Sequence

    from tpuctl.engine import tenancy
    from tpuctl.model import fleet

_Receipt = TypeVar("_Receipt")


class Releasing(Protocol[_Receipt]):
    """Something that slices have, which can be taken from them and given back."""

    def release(self, name: str) -> _Receipt:
        """Take everything from a slice."""

    def restore(self, name: str, receipt: _Receipt) -> None:
        """Undo a release."""


class Shadow(NamedTuple):
    """When a request will fit."""

    at: datetime.datetime
    ends: tuple[str, ...]
    """The slices that end until then, in order."""


class Queued(NamedTuple):
    """A request in the queue."""

    name: str
    request: placement.Request
    ends_at: datetime.datetime | None = None
    """When it would end if it started now; None if nobody knows, which counts as never."""


class Start(NamedTuple):
    """A request that may start now."""

    name: str
    block: str
    partition_ids: tuple[str, ...]
    jumped: bool
    """If true, it passes somebody who waits."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schedule:
    """What follows from the queue."""

    starts: tuple[Start, ...]
    head: str | None
    """The first that has to wait."""
    shadow: Shadow | None
    """When it will fit; None if nobody knows."""
    delaying: tuple[str, ...]
    """Would fit now, but would delay the head."""


def shadow(snapshot: fleet.Fleet, request: placement.Request, tenants: tenancy.Tenants) -> Shadow | None:
    """When the request will fit by the ends that are expected; None if they never suffice."""
    ends = {
        item.name: end
        for item in snapshot.slices
        if (end := tenants.end_of(item, snapshot.observed_at)) is not None
    }
    return _shadow(stock.Stock(snapshot, request.terms), request, ends, snapshot.observed_at)


def plan(snapshot: fleet.Fleet, queue: Sequence[Queued], tenants: tenancy.Tenants) -> Schedule:
    """Who of the queue starts now; all requests must have the same terms."""
    now = snapshot.observed_at
    if not queue:
        return Schedule(starts=(), head=None, shadow=None, delaying=())
    index = stock.Stock(snapshot, queue[0].request.terms)
    ends = {item.name: end for item in snapshot.slices if (end := tenants.end_of(item, now)) is not None}
    starts: list[Start] = []
    delaying: list[str] = []
    head: Queued | None = None
    promised: Shadow | None = None
    for entry in queue:
        found = placement.choose(index, entry.request)
        if found is None:
            if head is None:
                head, promised = entry, _shadow(index, entry.request, ends, now)
            continue
        index.take_ids(entry.name, found[2])
        later = dict(ends) if entry.ends_at is None else {**ends, entry.name: entry.ends_at}
        if head is not None and _is_delayed(promised, _shadow(index, head.request, later, now)):
            index.release(entry.name)
            delaying.append(entry.name)
            continue
        ends = later
        starts.append(Start(entry.name, found[0], found[2], jumped=head is not None))
    return Schedule(
        starts=tuple(starts),
        head=None if head is None else head.name,
        shadow=promised,
        delaying=tuple(delaying),
    )


def _is_delayed(before: Shadow | None, after: Shadow | None) -> bool:
    """A head whose start nobody can tell has nothing to be delayed by."""
    return before is not None and (after is None or after.at > before.at)


def _shadow(
    index: stock.Stock,
    request: placement.Request,
    ends: Mapping[str, datetime.datetime],
    now: datetime.datetime,
) -> Shadow | None:
    return when_it_fits(index, ends, now, lambda: placement.choose(index, request) is not None)


def when_it_fits(
    room: Releasing[_Receipt],
    ends: Mapping[str, datetime.datetime],
    now: datetime.datetime,
    fits: Callable[[], bool],
) -> Shadow | None:
    """Release by time until `fits`, then put everything back; None if all the ends together do not suffice.

    `ends` is when slices end, by name; none lies before `now`.
    """
    released: list[tuple[str, _Receipt]] = []
    found: Shadow | None = None
    at = now
    try:
        for name, end in sorted(ends.items(), key=lambda entry: (entry[1], entry[0])):
            if end > at and fits():
                break
            at = max(at, end)
            released.append((name, room.release(name)))
        if fits():
            found = Shadow(at, tuple(name for name, _ in released))
    finally:
        for name, receipt in reversed(released):
            room.restore(name, receipt)
    return found
