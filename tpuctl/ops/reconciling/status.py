"""What the loop is doing, for whoever asks from outside: whether it lives, and what it is stuck at."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.model import errors, fleet, reconciling
from tpuctl.ops import journal, locking
from tpuctl.ops.reconciling import leadership, memory, pauses
from tpuctl.ops.repairs import registry, values

if TYPE_CHECKING:
    import datetime

    from tpuctl.ops import ports as ports_module

STALE_INTERVALS = 3
"""So many intervals without a full cycle, and the loop counts as dead."""
ACTING_S = 900.0
"""A cycle that acts may take so much longer: a formation is waited for 4 minutes, an operation 5."""
STUCK_FAILURES = 3
"""So many failed attempts, and a person should look."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Status:
    """The loop as the cluster shows it."""

    fleet: str
    """Name of the declared fleet; empty if no loop has ever run."""
    leader: str
    """Who leads now; empty if nobody does."""
    cycle: str
    """Id of the last full cycle; empty if none is known."""
    full_cycle_at: datetime.datetime | None
    age_s: float | None
    """Since the view of the last full cycle was taken."""
    limit_s: float
    """An older view than this is stale."""
    sentence: str
    queue: tuple[str, ...]
    """Actions that were decided and not done, each with what stops it."""
    waiting: tuple[str, ...]
    """Wanted slices that did not fit."""
    stuck: tuple[str, ...]
    """What does not come forward by itself: failed attempts, operations and repairs that stopped, a declared
    state that cannot be read anew."""
    to_approve: tuple[str, ...]
    """Repairs that wait for a person to say yes, each with what it is."""
    recommendations: tuple[reconciling.Recommendation, ...]
    pause: reconciling.Pause | None
    pause_seen: bool
    """If true, the leader has heard of the pause in force."""
    tripped: reconciling.Tripped | None
    observed_at: datetime.datetime
    """The server's time."""

    @property
    def is_stale(self) -> bool:
        """If true, nobody has looked at the fleet for too long, or ever."""
        return self.age_s is None or self.age_s > self.limit_s


def read(ports: ports_module.Ports, *, max_age_s: float | None = None) -> Status:
    """Read what the loop left in the cluster; raises DamagedRecord.

    `max_age_s` replaces the limit of three intervals: for a loop that cron runs.
    """
    lease, told = leadership.read(ports)
    pause = pauses.current(ports)
    kept, _ = memory.peek(ports)
    observed_at = ports.fleet.observe((fleet.SourceName.SLICES,)).observed_at
    leader = lease.holder if lease is not None and lease.is_held else ""
    limit_s = _limit_s(ports.clock, told, is_led=bool(leader)) if max_age_s is None else max_age_s
    return Status(
        fleet=kept.fleet or (told.fleet if told is not None else ""),
        leader=leader,
        cycle=told.cycle if told is not None else "",
        full_cycle_at=told.full_cycle_at if told is not None else None,
        age_s=None if told is None else (observed_at - told.full_cycle_at).total_seconds(),
        limit_s=limit_s,
        sentence=told.sentence if told is not None else "",
        queue=told.pending if told is not None else (),
        waiting=told.waiting if told is not None else (),
        stuck=(*_failing(kept), *_stopped(ports), *(told.stuck if told is not None else ())),
        to_approve=_to_approve(ports),
        recommendations=kept.recommendations,
        pause=pause,
        pause_seen=pause is not None and told is not None and told.paused,
        tripped=kept.tripped,
        observed_at=observed_at,
    )


def _to_approve(ports: ports_module.Ports) -> tuple[str, ...]:
    """What cannot be read is told by `repair list`."""
    items, _ = registry.list_readable(ports)
    return tuple(
        f"{item.id}: {item.case.remedy} {item.case.target}; tpuctl repair show {item.id}"
        for item in items
        if values.waits_for_a_person(item)
    )


def _limit_s(clock: ports_module.Clock, told: leadership.Told | None, *, is_led: bool) -> float:
    """A quiet cycle is told with the next renewal of the lock, so short intervals count for no less."""
    interval_s = told.interval_s if told is not None else 0.0
    looking_s = max(STALE_INTERVALS * interval_s, locking.stretched(clock, locking.DURATION_S))
    return looking_s + (ACTING_S if is_led and told is not None and told.acting else 0.0)


def refuse_stale(found: Status) -> None:
    """Raise GuardStopped if the loop has not finished a cycle for too long."""
    if found.age_s is None:
        raise errors.GuardStopped(
            "no full cycle of a reconcile loop is known", hint="start one with: tpuctl reconcile run -f FLEET"
        )
    if found.is_stale:
        raise errors.GuardStopped(
            f"the last full cycle is {found.age_s:.0f} s old, more than {found.limit_s:.0f} s",
            hint="is the loop running, and what does its log say?",
        )


def _failing(kept: reconciling.Memory) -> tuple[str, ...]:
    failing = [
        f"{item.action}: {item.failures} times without success, {item.why}"
        for item in kept.attempts
        if item.failures >= STUCK_FAILURES
    ]
    failing += [
        f"{item.action}: done {item.failures} times without effect, the last time at "
        f"{item.last_at:%Y-%m-%d %H:%M:%S} UTC"
        for item in kept.churn
        if item.failures >= STUCK_FAILURES
    ]
    return tuple(failing)


def _stopped(ports: ports_module.Ports) -> tuple[str, ...]:
    """Open operations whose last run stopped with a reason."""
    return tuple(
        f"operation {entry.operation.id}: {entry.operation.note}"
        for entry in journal.list_open(ports)
        if entry.operation.note
    )
