"""Pause the loop and let it go on: a record in the cluster, so that it holds for any machine."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from tpuctl.model import errors, fleet, reconciling, records
from tpuctl.ops.reconciling import history, memory

if TYPE_CHECKING:
    from tpuctl.ops import ports as ports_module

RECORD = "reconcile-pause"


class Paused(errors.GuardStopped):
    """Somebody has paused the loop."""


def current(ports: ports_module.Ports) -> reconciling.Pause | None:
    """The pause in force; None if there is none, or it has ended by itself. Raises DamagedRecord."""
    record = ports.records.get(RECORD)
    if record is None:
        return None
    found = _read(record)
    return None if found.is_over(record.observed_at) else found


def pause(
    ports: ports_module.Ports, *, reason: str, for_s: float | None = None
) -> tuple[reconciling.Pause, bool]:
    """Pause the loop, for `for_s` seconds or until somebody resumes it; the pause, and whether it is new.

    A pause that is in force is replaced: the last word counts. The same word again changes nothing. Raises
    UsageError without a reason.
    """
    if not reason.strip():
        raise errors.UsageError("a pause needs a reason", hint="write it for whoever finds the loop paused")
    record = ports.records.get(RECORD)
    now = record.observed_at if record is not None else server_time(ports)
    wanted = reconciling.Pause(
        actor=_person(ports),
        reason=reason.strip(),
        since=now,
        until=None if for_s is None else now + datetime.timedelta(seconds=for_s),
    )
    if record is None:
        ports.records.create(RECORD, records.PAUSE, records.write(wanted))
    else:
        before = _read(record)
        if not before.is_over(now) and before == wanted._replace(since=before.since):
            return before, False
        ports.records.replace(record, records.write(wanted))
    until = "" if wanted.until is None else f" until {wanted.until:%Y-%m-%d %H:%M} UTC"
    history.append(ports, (_entry(now, wanted.actor, f"paused{until}: {wanted.reason}"),))
    return wanted, True


def resume(
    ports: ports_module.Ports, *, reason: str = "", reset_breaker: bool = False
) -> reconciling.Pause | None:
    """Let the loop go on; the pause that ended, None if there was none in force.

    `reason` is kept in the history. `reset_breaker` also closes the breaker: the loop trusts what it sees
    again.
    """
    record = ports.records.get(RECORD)
    found = None
    if record is not None:
        before = _read(record)
        found = None if before.is_over(record.observed_at) else before
        ports.records.delete(record)
    closed = memory.close_breaker(ports) if reset_breaker else None
    now = record.observed_at if record is not None else server_time(ports)
    entries = []
    why = f" ({reason.strip()})" if reason.strip() else ""
    if found is not None:
        text = f"resumed{why}; {found.actor} had paused it: {found.reason}"
        entries.append(_entry(now, _person(ports), text))
    if closed is not None:
        entries.append(_entry(now, _person(ports), f"breaker reset{why}; it had tripped: {closed.why}"))
    history.append(ports, tuple(entries))
    return found


def sentence(found: reconciling.Pause) -> str:
    """A pause as people read it."""
    until = "" if found.until is None else f" until {found.until:%Y-%m-%d %H:%M} UTC"
    return f"paused by {found.actor}{until}: {found.reason}"


def _read(record: ports_module.Record) -> reconciling.Pause:
    return records.read(record.text, record.name, reconciling.Pause)


def _person(ports: ports_module.Ports) -> str:
    return ports.identity.actor().rpartition("@")[0]


def _entry(at: datetime.datetime, actor: str, text: str) -> reconciling.Entry:
    return reconciling.Entry(at=at, cycle="", plan="", actor=actor, text=text, result="told")


def server_time(ports: ports_module.Ports) -> datetime.datetime:
    """What time it is where pauses count."""
    return ports.fleet.observe((fleet.SourceName.SLICES,)).observed_at
