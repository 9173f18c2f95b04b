"""What the loop remembers, as one decision finds it and leaves it.

The memory is written to the cluster only when it changed, so a cycle in which nothing happens must leave it
as it was: counts end at what is needed, and no text holds an age.
"""

from __future__ import annotations

import dataclasses
import datetime
from typing import TYPE_CHECKING

from tpuctl.model import reconciling

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tpuctl.engine.reconciling.view import View
    from tpuctl.model import fleet

TWICE = 2
"""What looks wrong is seen in so many cycles before anything is done about it."""
AGAIN = "again/"
"""Before the name of a unit: attempts that the world has undone, though the actions themselves went well."""
DISRUPTION_WINDOW_S = 3600.0
_MOST_RECOMMENDATIONS = 200
"""More at once nobody reads, and the memory is one small record."""
_MOST_ATTEMPTS = 1000
_MOST_TEXT = 400
"""Characters of a reason that are remembered: a condition's message may be as long as 32 KiB."""
_ATTEMPT_PAUSE_S = 60.0
_LONGEST_PAUSE_S = 3600.0
_FORGIVEN_AFTER_S = 3600.0
"""An attempt that worked is remembered for so long, so that what fails soon again is not taken for new."""
_REMAKING = ("grow/", "move/")
"""Actions that end what runs for something better: each that fails has cost work."""
_REMAKING_WAITS = 24
"""So many times longer than others they wait between attempts: up to a day."""


class Ledger:
    """The memory of a decision while it is made."""

    def __init__(self, view: View) -> None:
        memory = view.memory
        self.is_first_run = memory.observed_at is None or memory.fleet not in ("", view.spec.name)
        if self.is_first_run:
            memory = reconciling.Memory(fleet=view.spec.name)
        self.before = memory
        self.now = view.now
        self.formed = {entry.name: entry for entry in memory.formed}
        self.attempts = {entry.action: entry for entry in memory.attempts}
        self.disruptions = [entry for entry in memory.disruptions if self._is_recent(entry)]
        self.tripped = memory.tripped
        self.churn: dict[str, reconciling.Attempt] = {}
        self.suspects: dict[str, reconciling.Suspect] = {}
        self._known = {(entry.kind, entry.subject): entry for entry in memory.sightings}
        self._seen: dict[tuple[str, str], reconciling.Sighting] = {}
        self._recommended = {entry.subject: entry for entry in memory.recommendations}
        self._recommending: dict[str, reconciling.Recommendation] = {}

    def _is_recent(self, entry: reconciling.Disruption) -> bool:
        return (self.now - entry.at).total_seconds() < DISRUPTION_WINDOW_S

    # -- sightings ---------------------------------------------------------------------------------------

    def before_seen(self, kind: str, subject: str) -> reconciling.Sighting | None:
        """What earlier cycles saw of it."""
        return self._known.get((kind, subject))

    def subjects_before(self, kind: str, prefix: str) -> frozenset[str]:
        """What earlier cycles saw of this kind, by the beginning of its subject."""
        return frozenset(
            subject for known, subject in self._known if known == kind and subject.startswith(prefix)
        )

    def see(self, kind: str, subject: str, since: datetime.datetime | None = None) -> reconciling.Sighting:
        """Something looks wrong in this cycle: since when, and for how many cycles.

        `since` may be of another clock than the view's: what is to come has not been seen yet.
        """
        known = self._known.get((kind, subject))
        if known is None:
            found = reconciling.Sighting(kind, subject, min(since or self.now, self.now), 1)
        else:
            found = known._replace(cycles=min(known.cycles + 1, TWICE))
        self._seen[kind, subject] = found
        return found

    def has_lasted(self, sighting: reconciling.Sighting, grace_s: float) -> bool:
        """If true, it was seen twice and for longer than its grace."""
        return sighting.cycles >= TWICE and (self.now - sighting.since).total_seconds() >= grace_s

    # -- what a person should know -----------------------------------------------------------------------

    def recommend(self, subject: str, text: str) -> None:
        """Tell it once: who was told keeps the time of the first telling."""
        known = self._recommended.get(subject)
        since = known.since if known is not None else self.now
        self._recommending.setdefault(subject, reconciling.Recommendation(subject, shortened(text), since))

    # -- attempts ----------------------------------------------------------------------------------------

    def failed(self, action_id: str, why: str) -> None:
        """One more attempt that did not work, as the world shows it."""
        self.attempts[action_id] = one_more(self.attempts.get(action_id), action_id, why, self.now)

    def failed_again(self, unit: str, why: str) -> None:
        """A slice that was there is not what it should be; counted beside the failures of actions."""
        self.failed(AGAIN + unit, why)

    def next_attempt(self, action_id: str) -> datetime.datetime | None:
        """When it may be tried again; None if that is now."""
        known = self.attempts.get(action_id)
        if known is None:
            return None
        again = known.last_at + datetime.timedelta(seconds=pause_s(known.failures) * _patience(action_id))
        return again if again > self.now else None

    def forgive(self, action_id: str) -> None:
        """It is as it should be: forget the attempts once it has been so for a while."""
        known = self.attempts.get(action_id)
        # What waits for up to a day is remembered for two.
        after_s = _FORGIVEN_AFTER_S * (2 * _patience(action_id) if _patience(action_id) > 1 else 1)
        if known is not None and (self.now - known.last_at).total_seconds() >= after_s:
            del self.attempts[action_id]

    # -- slices that are ours ----------------------------------------------------------------------------

    def adopt(self, item: fleet.Slice) -> None:
        """A wanted slice that may be taken for ours, as it is now."""
        known = self.formed.get(item.name)
        if known is None or not known.uid:
            self.formed[item.name] = reconciling.Formed(item.name, item.uid, item.created_at)
        elif known.uid != item.uid:
            self.formed[item.name] = known._replace(uid=item.uid)

    def expect_absence(self, name: str) -> None:
        """The loop takes it apart or is about to form it: its absence is nobody's deletion."""
        self.formed[name] = reconciling.Formed(name, "", self.now)

    # -- the end -----------------------------------------------------------------------------------------

    def memory(self, view: View) -> reconciling.Memory:
        """What to remember."""
        return dataclasses.replace(
            self.before,
            fleet=view.spec.name,
            spec_digest=view.spec_digest,
            observed_at=self.before.observed_at or self.now,
            sightings=tuple(sorted(self._seen.values())),
            disruptions=tuple(self.disruptions),
            attempts=_most_failed(self.attempts.values()),
            formed=tuple(sorted(self.formed.values())),
            tripped=self.tripped,
            recommendations=_weightiest(self._recommending.values()),
            churn=tuple(sorted(self.churn.values())),
            suspects=tuple(sorted(self.suspects.values())),
        )


def _most_failed(entries: Iterable[reconciling.Attempt]) -> tuple[reconciling.Attempt, ...]:
    """As many as are remembered: a fault of a whole project makes everything fail that is tried."""
    return tuple(sorted(sorted(entries, key=lambda entry: (-entry.failures, entry))[:_MOST_ATTEMPTS]))


def _weightiest(
    entries: Iterable[reconciling.Recommendation],
) -> tuple[reconciling.Recommendation, ...]:
    """As many as are remembered, in order of subjects: what is about running work before all others."""
    order = ("operation/", "slice/", "block/")
    rank = {
        entry: next((i for i, kind in enumerate(order) if entry.subject.startswith(kind)), len(order))
        for entry in entries
    }
    return tuple(sorted(sorted(rank, key=lambda entry: (rank[entry], entry))[:_MOST_RECOMMENDATIONS]))


def pause_s(failures: int) -> float:
    """How long to leave it alone after so many attempts: a minute, doubled each time, an hour at most."""
    doublings = min(failures - 1, 10)
    return min(_ATTEMPT_PAUSE_S * 2.0**doublings, _LONGEST_PAUSE_S)


def _patience(action_id: str) -> int:
    return _REMAKING_WAITS if action_id.startswith(_REMAKING) else 1


def one_more(
    known: reconciling.Attempt | None, action_id: str, why: str, at: datetime.datetime
) -> reconciling.Attempt:
    """The attempt counted once more."""
    failures = known.failures + 1 if known is not None else 1
    return reconciling.Attempt(action_id, failures, at, shortened(why))


def shortened(text: str) -> str:
    """As much of a text as is remembered."""
    return text if len(text) <= _MOST_TEXT else f"{text[: _MOST_TEXT - 3]}..."
