"""What became of the loop's actions: cycle by cycle, or of one `apply`."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

from tpuctl.cli import durations, output, session, wrapping

if TYPE_CHECKING:
    import datetime
    from collections.abc import Mapping, Sequence

    from tpuctl.cli import reconcile_views
    from tpuctl.model import declared
    from tpuctl.ops.reconciling import outcomes

RESULT_STYLES = {"done": "green", "going on": "cyan", "failed": "red", "stopped": "yellow"}


def result_plain(result: outcomes.Result) -> dict[str, Any]:
    """What became of an action, as `-o json` gives it."""
    return {
        "id": result.action.id,
        "kind": str(result.action.kind),
        "target": result.action.target,
        "result": str(result.became),
        "why": result.why or None,
        "waitedSeconds": round(result.waited_s, 3),
    }


def cycle_plain(outcome: outcomes.Outcome, mode: declared.Mode) -> dict[str, Any]:
    """One cycle as an object of its own: `reconcile run` writes one a line."""
    decision, failure, reviewed = outcome.decision, outcome.failure, outcome.reviewed
    actions = () if decision is None else decision.actions
    return {
        "apiVersion": output.API_VERSION,
        "kind": "ReconcileCycle",
        "cycle": outcome.cycle,
        "plan": outcome.plan_id or None,
        "observedAt": outcome.at,
        "durationSeconds": round(outcome.duration_s, 3),
        "mode": str(mode),
        "full": outcome.is_full,
        "failure": None if failure is None else {"code": failure.code, "message": failure.message},
        "sentence": outcome.sentence,
        "results": [result_plain(result) for result in outcome.results],
        "notDone": [
            {"id": action.id, "stoppedBy": action.stopped_by} for action in actions if action.stopped_by
        ],
        "waiting": [] if decision is None else waiting_plain(decision.waiting),
        "repairs": []
        if reviewed is None
        else [{"repair": one.item.id, "done": one.text} for one in reviewed.executed],
        "repairsToApprove": [] if reviewed is None else list(reviewed.to_approve),
        "repairsWaiting": repairs_waiting_plain(() if reviewed is None else reviewed.waiting),
        "breakerTripped": None if decision is None else decision.memory.tripped is not None,
    }


def repair_counts(reviewed: object) -> Mapping[str, int]:
    """Open repairs by state; none if repairs are not judged."""
    items = getattr(reviewed, "items", ())
    return collections.Counter(str(item.state) for item in items)


def waiting_plain(waiting: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    """Wanted slices that wait, as `-o json` gives them."""
    return [{"slice": name, "why": why} for name, why in waiting]


def repairs_waiting_plain(waiting: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    """Approved repairs that have not begun, as `-o json` gives them."""
    return [{"repair": item, "why": why} for item, why in waiting]


def show_nothing(plan: reconcile_views.Plan, fmt: output.Format | None) -> None:
    """The fleet is as it was declared, as far as it can be; nothing was done."""
    decision, at = plan.decision, plan.snapshot.observed_at
    document = {"results": [], "waiting": waiting_plain(decision.waiting)}
    _show_end(plan.spec.name, at, "unchanged", decision.sentence, document, fmt)


def show_outcome(
    outcome: outcomes.Outcome,
    spec: declared.FleetSpec,
    waiting: Sequence[tuple[str, str]] | None,
    fmt: output.Format | None,
) -> None:
    """What an `apply` did, action by action, on stdout.

    `waiting` are the wanted slices that did not fit when it was planned; None if that is not known.
    """
    screen = session.current().terminal
    wanted = output.chosen(fmt)
    results = outcome.results
    if wanted.is_document or not results:
        document = {
            "results": [result_plain(result) for result in results],
            "waiting": None if waiting is None else waiting_plain(waiting),
        }
        _show_end(spec.name, outcome.at, _end(outcome), outcome.sentence, document, fmt)
    elif wanted is output.Format.NAME:
        screen.out("\n".join(result.action.id for result in results))
    else:
        rows = [
            (result.action.id, str(result.became), durations.short(result.waited_s), result.why or "-")
            for result in results
        ]
        styles = [[None, RESULT_STYLES.get(row[1]), None, None] for row in rows]
        screen.out("\n".join(wrapping.records(rows, styles)))
        screen.note(outcome.sentence)


def _end(outcome: outcomes.Outcome) -> str:
    """`done`, `partly done`, `not done`, or `unchanged` if there was nothing to do."""
    if not outcome.results:
        return "unchanged" if outcome.is_full else "not done"
    changed = sum(result.has_changed for result in outcome.results)
    if changed == len(outcome.results):
        return "done"
    return "partly done" if changed else "not done"


def _show_end(
    fleet_name: str,
    at: datetime.datetime | None,
    end: str,
    sentence: str,
    document: Mapping[str, Any],
    fmt: output.Format | None,
) -> None:
    name = f"fleet/{fleet_name}"
    if output.chosen(fmt) in (output.Format.TABLE, output.Format.WIDE):
        session.current().terminal.out(f"{name} {end}: {sentence}")
        return
    plain = {"fleet": fleet_name, "result": end, **document, "sentence": sentence}
    output.render_one("ReconcileOutcome", plain, rows=(), name=name, fmt=fmt, observed_at=at)


def stamped(at: datetime.datetime, text: str) -> str:
    """A sentence with its time, for a log of many."""
    return f"{at:%Y-%m-%dT%H:%M:%SZ}  {text}"
