"""The gate that each action passes, in the order in which people would ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.engine.reconciling import breaker, budgets, churn, words
from tpuctl.engine.reconciling import ledger as ledgers
from tpuctl.model import declared, operations, reconciling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tpuctl.engine.reconciling.view import View

Kind = reconciling.ActionKind
State = reconciling.GuardState
RECOMMENDED = "mode recommend"
"""How the reason of what is only recommended begins."""


class Gate:
    """Says of each action what stops it, and counts those that pass."""

    def __init__(self, view: View, ledger: ledgers.Ledger, count: breaker.Count) -> None:
        self._view = view
        self._ledger = ledger
        self._count = count
        self._held = 0
        self._waits_for_window = 0
        self.budgets = budgets.Budgets(view, ledger)
        pause = view.pause
        self._pause = pause if pause is not None and not pause.is_over(view.now) else None
        self._half_done = {entry.id for entry in view.operations if is_half_done(entry)}

    def admit(self, actions: Sequence[reconciling.Action], reservation: str = "") -> str:
        """What stops these, which are of use only together; empty if they go ahead, which is then counted.

        `reservation` is what their kind demands before time and budgets are asked.
        """
        why = next(filter(None, map(self._stops, actions)), "") or reservation
        why = why or next(filter(None, map(self._not_now, actions)), "") or self.budgets.refuse(actions)
        if not why:
            for action in actions:
                self.budgets.spend(action)
        return why

    def _stops(self, action: reconciling.Action) -> str:
        """Guards that stop everything, or nearly so."""
        if self._ledger.is_first_run:
            return "first run: this fleet is only observed, the next cycle may act"
        if self._view.mode is declared.Mode.OBSERVE:
            return "mode observe: the loop only tells"
        if action.kind is Kind.FINISH and action.target in self._half_done:
            return ""  # the slice is away: leaving it so helps nobody
        if self._pause is not None:
            return f"pause: {_said(self._pause)}"
        if self._view.mode is declared.Mode.RECOMMEND:
            return f"{RECOMMENDED}: a person has to do it, or to set mode act"
        if self._ledger.tripped is not None:
            return f"breaker: {self._ledger.tripped.why}"
        if not self._count.with_nodes and not self._may_begin(action):
            return "breaker: no cube has nodes, though there were or are slices: the view may be wrong"
        return ""

    def _may_begin(self, action: reconciling.Action) -> bool:
        """If true, there is nothing yet: making node pools is how a fleet begins."""
        empty = not self._view.snapshot.slices and not self._ledger.before.formed
        return empty and action.pool is not None

    def _not_now(self, action: reconciling.Action) -> str:
        if action.voluntary and not declared.is_open(self._view.spec.windows, self._view.now):
            self._waits_for_window += 1
            return f"window: nothing is broken, so it waits for one of {_windows(self._view)}"
        tried = self.between_attempts(action.id)
        if not tried and action.kind is Kind.FORM:
            tried = self.between_attempts(ledgers.AGAIN + action.target)
        if tried:
            return tried
        until = churn.held_until(self._ledger, action)
        if until is not None:
            self._held += 1
            repeated = self._ledger.churn[action.id].failures
            self._ledger.recommend(action.id, f"{action.kind} {action.target} has no effect: see why")
            return f"churn: done {repeated} times without effect; once more at {words.time(until)}"
        return ""

    def between_attempts(self, attempt_id: str) -> str:
        """What was tried in vain is tried again after a pause; empty if that is over."""
        again = self._ledger.next_attempt(attempt_id)
        if again is None:
            return ""
        known = self._ledger.attempts[attempt_id]
        times = words.count(known.failures, "failed attempt")
        return f"attempts: {times} ({known.why}); the next one at {words.time(again)}"

    def guards(self) -> tuple[reconciling.Guard, ...]:
        """All of them and how they stand."""
        view, everything = self._view, State.STOPS_ALL
        first, paused = self._ledger.is_first_run, self._pause
        acts = view.mode is declared.Mode.ACT
        is_open = declared.is_open(view.spec.windows, view.now)
        waits = self._waits_for_window
        return (
            reconciling.Guard(
                "first run",
                everything if first else State.CLEAR,
                "this fleet is seen for the first time: observe only" if first else "it was observed before",
            ),
            reconciling.Guard("mode", State.CLEAR if acts else everything, str(view.mode)),
            reconciling.Guard(
                "pause",
                State.CLEAR if paused is None else everything,
                "not paused" if paused is None else _said(paused),
            ),
            breaker.guard(self._ledger, self._count, view),
            *self.budgets.guards(),
            reconciling.Guard(
                "window",
                State.STOPS_SOME if waits else State.CLEAR,
                f"{'open' if is_open else 'closed'}: {_windows(view)}",
            ),
            churn.guard(self._ledger, self._held),
        )


def is_half_done(operation: operations.Operation) -> bool:
    """If true, its slice may be away: the old one is being deleted, or the new one not yet there."""
    begun = operation.intent in (operations.Intent.DELETING, operations.Intent.CREATING)
    return operation.kind is operations.Kind.SWAP and begun


def _said(pause: reconciling.Pause) -> str:
    until = f" until {words.time(pause.until)}" if pause.until is not None else ""
    return f"by {pause.actor}{until}: {pause.reason}"


def _windows(view: View) -> str:
    names = [window.name for window in view.spec.windows]
    return f"the windows {words.listed(names)}" if names else "no window is declared"
