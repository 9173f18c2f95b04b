"""Cycle after cycle: at an interval, woken earlier by a watch, with growing pauses while nothing can be seen.

While nothing happens a cycle decides on the watched fleet and reads and writes next to nothing; as soon as
there is something to do, everything is read anew before anything is done.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from typing import TYPE_CHECKING

from tpuctl.model import errors, reconciling
from tpuctl.model.exit_status import ExitStatus
from tpuctl.ops import health_watching, locking
from tpuctl.ops.reconciling import cycle, leadership, outcomes, views
from tpuctl.ops.reconciling import settings as settings_module

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from tpuctl.engine import reconciling as engine
    from tpuctl.ops import ports as ports_module

FULL_S = 3600.0
"""Everything is read anew at least so often, whatever the watch says. It always is before anything is done;
this is for a watch that lies. Reading 100,000 nodes takes ten seconds of CPU, too much for every minute."""
BEGINS_S = 300.0
"""A watch may take so long to read its first lists; a cycle that reads them as well would slow it down."""
LONGEST_PAUSE_S = 300.0
"""Between cycles that see nothing or fail."""
TICK_S = 5.0
"""How often a waiting loop looks at its lock, and asks whether it shall end; no two decisions are nearer."""


def run(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    settings: settings_module.Settings,
    *,
    once: bool = False,
    interval_s: float = settings_module.INTERVAL_S,
    deadline_s: float | None = None,
    on_cycle: Callable[[outcomes.Outcome], None] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
    watch: bool = True,
) -> ExitStatus:
    """Keep the fleet at its declared state until `stop` says so or `deadline_s` is over.

    `stop` is asked between actions and every few seconds. With `once`: one cycle, and its exit status.
    Raises Busy (75) with `once` if another loop leads, NotPermitted with `once`; without it, a loop that
    lost its lead stands by, and what cannot be seen now is looked at later.

    Without `once`, `settings.reread` is asked for a newer declared state: every few seconds, also while
    standing by, so that whoever takes over goes on with the last one that could be read.
    """
    end_s = None if deadline_s is None else ports.clock.monotonic_s() + deadline_s

    def ends() -> bool:
        return stop() or (end_s is not None and ports.clock.monotonic_s() >= end_s)

    def waits_no_more() -> bool:
        settings.reread(settings)
        return ends()

    settings = dataclasses.replace(settings, interval_s=interval_s)
    if once:
        with leadership.lead(ports, reporter) as leader:
            if leader is None:
                raise AssertionError("who does not wait leads or is told who does")
            outcome = cycle.run(ports, reporter, settings, leader, stop=ends)
            on_cycle(outcome)
        return _status(outcome)
    numbers = itertools.count(1)
    while not ends():
        with leadership.lead(ports, reporter, wait=True, stop=waits_no_more) as leader:
            if leader is not None:
                reporter.step("leading")
                try:
                    _Loop(ports, reporter, settings, leader, on_cycle, ends, numbers).run(watch=watch)
                except leadership.LostLeadership as lost:
                    reporter.warn(lost.message)
    return ExitStatus.OK


class _Loop:
    """The cycles of one leader, until it is told to end or leads no more."""

    def __init__(
        self,
        ports: ports_module.Ports,
        reporter: ports_module.Reporter,
        settings: settings_module.Settings,
        leader: leadership.Leader,
        on_cycle: Callable[[outcomes.Outcome], None],
        ends: Callable[[], bool],
        numbers: Iterator[int],
    ) -> None:
        self._ports = ports
        self._reporter = reporter
        self._settings = settings
        self._leader = leader
        self._on_cycle = on_cycle
        self._ends = ends
        self._numbers = numbers
        self._previous: engine.View | None = None
        self._failures = 0
        self._due_s = 0.0
        self._full_s = 0.0
        """When everything must be read anew."""
        self._looked_s = 0.0
        self._begins_until_s = 0.0
        """Until then nobody wonders why the watch shows nothing yet."""
        self._shown: tuple[object, object] = (None, None)
        """What the watch showed when it was last decided upon."""

    def run(self, *, watch: bool) -> None:
        """Raises LostLeadership."""
        while not self._ends():
            self._full_cycle()
            if watch and not self._failures:
                self._follow()
            else:
                self._sleep_until(self._due_s)

    def _full_cycle(self) -> None:
        """Read everything, decide, act."""
        self._reread()
        outcome = cycle.run(
            self._ports,
            self._reporter,
            self._settings,
            self._leader,
            number=next(self._numbers),
            previous=self._previous,
            stop=self._ends,
        )
        self._took(outcome)
        if isinstance(outcome.failure, leadership.LostLeadership):
            raise outcome.failure

    def _reread(self) -> bool:
        """Take a newer declared state, if there is one: a full cycle is due then, whatever it waited for."""
        before = self._settings
        self._settings = before.reread(before)
        is_new = self._settings.spec_digest != before.spec_digest
        if is_new:
            self._due_s = self._full_s = self._ports.clock.monotonic_s()
        return is_new

    def _took(self, outcome: outcomes.Outcome) -> None:
        """Note when the next cycle is due."""
        self._on_cycle(outcome)
        now_s = self._ports.clock.monotonic_s()
        pause_s = self._settings.interval_s
        if outcome.failure is None:
            self._failures = 0
            self._previous = outcome.view
            self._full_s = now_s + FULL_S
            if any(result.has_changed for result in outcome.results):
                pause_s = min(pause_s, TICK_S)  # there may be more to do now
        else:
            self._failures += 1
            pause_s = min(pause_s * 2 ** min(self._failures, 10), max(LONGEST_PAUSE_S, pause_s))
            if self._failures > 1:
                self._previous = None  # older than the last view again: it may be a restored cluster
        self._due_s = now_s + pause_s

    def _sleep_until(self, end_s: float) -> None:
        """Wait, and keep the lock meanwhile; a newer declared state ends the wait."""
        while not self._ends():
            left_s = end_s - self._ports.clock.monotonic_s()
            if left_s <= 0:
                return
            self._ports.clock.sleep(min(left_s, TICK_S))
            self._keep_lock()
            if self._reread():
                return

    def _keep_lock(self) -> None:
        """A lock that cannot be renewed for now is looked at again before the next write."""
        try:
            self._leader.renew_if_due()
        except leadership.LostLeadership:
            raise
        except errors.TpuctlError as error:
            self._reporter.warn(f"the lock was not renewed: {error.message}")

    def _follow(self) -> None:
        """Watch, with full cycles whenever one is called for; returns when the watch is of no use."""
        clock = self._ports.clock
        self._begins_until_s = clock.monotonic_s() + locking.stretched(clock, BEGINS_S)
        try:
            with contextlib.closing(self._sightings()) as sightings:
                for sighting in sightings:
                    self._keep_lock()
                    if self._ends():
                        return
                    if self._reread() or self._calls_for_full(sighting):
                        self._full_cycle()
        except leadership.LostLeadership:
            raise
        except errors.TpuctlError as error:
            self._took(cycle.blind(error, next(self._numbers)))
            self._sleep_until(self._due_s)

    def _sightings(self) -> Generator[ports_module.Sighting, None, None]:
        yield from self._ports.changes.follow(
            views.SOURCES,
            silence_s=health_watching.SILENCE_S,
            reread_s=views.REREAD_S,
            timeout_s=None,
            tick_s=TICK_S,
        )

    def _calls_for_full(self, sighting: ports_module.Sighting) -> bool:
        """Decide on what the watch shows, when that is due or something happened there."""
        now_s = self._ports.clock.monotonic_s()
        is_due = now_s >= self._due_s
        if self._failures or self._previous is None or now_s >= self._full_s:
            return is_due
        if not is_due and not self._has_changed(sighting, now_s):
            return False
        if sighting.fleet is None and not sighting.trouble and now_s < self._begins_until_s:
            return False
        self._looked_s, self._shown = now_s, _substance(sighting)
        try:
            found = views.watched(self._ports, self._settings, sighting, self._previous)
            if found is None:
                return is_due
            planned = cycle.look(self._ports, self._reporter, self._settings, found.view)
            if not planned.is_quiet:
                return True
            self._quiet(planned)
        except leadership.LostLeadership:
            raise
        except errors.TpuctlError as error:
            self._took(cycle.blind(error, next(self._numbers)))
        return False

    def _has_changed(self, sighting: ports_module.Sighting, now_s: float) -> bool:
        """Things change in crowds, and deciding takes a while in a large fleet: not at every word."""
        if now_s - self._looked_s < TICK_S:
            return False
        before, now = self._shown, _substance(sighting)
        return any(was is not found for was, found in zip(before, now, strict=True))

    def _quiet(self, planned: outcomes.Planned) -> None:
        """A cycle that found nothing to do and wrote nothing."""
        outcome = cycle.quiet(planned, next(self._numbers))
        self._leader.tell(
            cycle.told(self._settings, planned.view, planned.decision, (), outcome.cycle, planned.reviewed)
        )
        self._on_cycle(outcome)
        self._due_s = self._ports.clock.monotonic_s() + self._settings.interval_s


def _substance(sighting: ports_module.Sighting) -> tuple[object, object]:
    """A watch that has heard nothing new shows the same objects again."""
    seen = sighting.fleet
    return (None, None) if seen is None else (seen.blocks, seen.slices)


def _status(outcome: outcomes.Outcome) -> ExitStatus:
    """For whoever runs single cycles."""
    if outcome.failure is not None:
        raise outcome.failure
    if outcome.count(outcomes.Became.FAILED):
        changed = any(result.has_changed for result in outcome.results)
        return ExitStatus.PARTLY_DONE if changed else ExitStatus.FAILED
    if outcome.decision is not None and _is_guarded(outcome.decision):
        return ExitStatus.GUARD
    return ExitStatus.OK


def _is_guarded(decision: reconciling.Decision) -> bool:
    """If true, there is something to do and the breaker or a person forbids all of it."""
    stopped = any(action.stopped_by for action in decision.actions)
    return stopped and any(
        guard.state is reconciling.GuardState.STOPS_ALL and guard.name in ("breaker", "pause")
        for guard in decision.guards
    )
