"""How the loop itself is shown: what it is doing, and what it has done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuctl.cli import durations, output, reconcile_results, reconcile_views, session, wrapping
from tpuctl.model.exit_status import ExitStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tpuctl.model import reconciling
    from tpuctl.ops.reconciling import status as status_module

_SHOWN = 20
_BEFORE_TEXT = len("2026-01-05T20:00:15Z  going on  ")


def show_status(found: status_module.Status, fmt: output.Format | None) -> int:
    """The loop's state, and the exit status that tells whether it looks after the fleet."""
    troubles = _troubles(found)
    output.render_one(
        "ReconcileStatus",
        {
            "fleet": found.fleet or None,
            "leader": found.leader or None,
            "cycle": found.cycle or None,
            "lastFullCycleAt": found.full_cycle_at,
            "viewAgeSeconds": None if found.age_s is None else round(found.age_s, 3),
            "staleAfterSeconds": found.limit_s,
            "stale": found.is_stale,
            "sentence": found.sentence or None,
            "queue": list(found.queue),
            "waiting": list(found.waiting),
            "stuck": list(found.stuck),
            "toApprove": list(found.to_approve),
            "recommendations": reconcile_views.recommendations_plain(found.recommendations),
            "pause": _pause_plain(found),
            "breaker": None
            if found.tripped is None
            else {"trippedAt": found.tripped.at, "why": found.tripped.why},
            "troubles": troubles,
        },
        rows=_rows(found, troubles),
        name=f"fleet/{found.fleet}",
        fmt=fmt,
        observed_at=found.observed_at,
    )
    hint = _hint(found)
    if hint:
        session.current().terminal.note(f"hint: {hint}")
    return ExitStatus.TROUBLE_FOUND if troubles else ExitStatus.OK


def _hint(found: status_module.Status) -> str:
    """What to do next about a loop that does not look; what else is wrong says so itself."""
    if found.age_s is None or (found.is_stale and not found.leader):
        return "start a loop: tpuctl reconcile run -f FLEET --mode act; for one that cron runs say --max-age"
    if found.is_stale:
        return f"look after {found.leader}; if it is dead, another loop can take over within a minute"
    return ""


def _troubles(found: status_module.Status) -> list[str]:
    """Why nobody looks after the fleet now; a pause is a person's decision and none of these."""
    troubles = []
    if found.age_s is None:
        troubles.append("no full cycle of a reconcile loop is known")
    elif found.is_stale:
        limit = durations.short(found.limit_s)
        troubles.append(f"the last full cycle is {durations.short(found.age_s)} old, the limit is {limit}")
    if found.tripped is not None:
        troubles.append(f"the breaker has tripped: {found.tripped.why}")
    if found.stuck:
        troubles.append(f"{len(found.stuck)} stuck")
    return troubles


def _rows(found: status_module.Status, troubles: Sequence[str]) -> list[tuple[str, object]]:
    age = "never" if found.age_s is None else f"{durations.short(found.age_s)} ago"
    at = "" if found.full_cycle_at is None else f" ({output.timestamp(found.full_cycle_at)})"
    advice = [f"{item.subject}: {item.text}" for item in found.recommendations]
    rows: list[tuple[str, object]] = [
        ("Loop", "; ".join(troubles) or ("paused" if found.pause is not None else "well")),
        ("Fleet", found.fleet or None),
        ("Leader", found.leader or "nobody"),
        ("Last full cycle", f"{age}{at}"),
        ("It said", found.sentence or None),
        ("Paused", _paused(found)),
        ("Breaker", "closed" if found.tripped is None else _tripped(found.tripped)),
    ]
    lists = (
        ("To do", found.queue),
        ("Waiting", found.waiting),
        ("Stuck", found.stuck),
        ("To approve", found.to_approve),
        ("Recommended", advice),
    )
    return [*rows, *((title, _listed(items)) for title, items in lists if items)]


def _listed(items: Sequence[str]) -> str:
    more = len(items) - _SHOWN
    return "\n".join([*items[:_SHOWN], *([f"and {more} more, see -o json"] if more > 0 else [])])


def _paused(found: status_module.Status) -> str:
    if found.pause is None:
        return "no"
    until = "" if found.pause.until is None else f" until {output.timestamp(found.pause.until)}"
    heard = "" if found.pause_seen else "; the loop has not confirmed it yet"
    return f"by {found.pause.actor}{until}: {found.pause.reason}{heard}"


def _tripped(tripped: reconciling.Tripped) -> str:
    at = output.timestamp(tripped.at)
    return f"tripped at {at}: {tripped.why}; see tpuctl reconcile resume --reset-breaker"


def _pause_plain(found: status_module.Status) -> dict[str, Any] | None:
    pause = found.pause
    return None if pause is None else {**pause_plain(pause), "confirmed": found.pause_seen}


def pause_plain(pause: reconciling.Pause) -> dict[str, Any]:
    """A pause as `-o json` gives it."""
    return {"by": pause.actor, "reason": pause.reason, "since": pause.since, "until": pause.until}


def show_history(
    entries: Sequence[reconciling.Entry], fmt: output.Format | None, *, no_headers: bool
) -> None:
    """What the loop and people did, the oldest first."""
    if _must_fold(entries, fmt):
        rows = [(output.timestamp(item.at) or "-", item.result, _what(item)) for item in entries]
        styles = [[None, reconcile_results.RESULT_STYLES.get(row[1]), None] for row in rows]
        session.current().terminal.out("\n".join(wrapping.records(rows, styles)))
        return
    column = output.Column["reconciling.Entry"]
    output.render_list(
        "ReconcileEntry",
        entries,
        columns=[
            column("TIME", lambda item: output.timestamp(item.at)),
            column("CYCLE", lambda item: item.cycle, wide=True),
            column("PLAN", lambda item: item.plan, wide=True),
            column("BY", lambda item: item.actor, wide=True),
            column(
                "RESULT",
                lambda item: item.result,
                style=lambda item: reconcile_results.RESULT_STYLES.get(item.result),
            ),
            column("WHAT", _what),
        ],
        to_plain=lambda item: {
            "at": item.at,
            "cycle": item.cycle or None,
            "plan": item.plan or None,
            "by": item.actor,
            "result": item.result,
            "subject": item.subject or None,
            "text": item.text,
        },
        name_of=lambda item: item.subject or item.cycle or "-",
        fmt=fmt,
        no_headers=no_headers,
        empty="The loop has done nothing yet, or nothing since then.",
    )


def _must_fold(entries: Sequence[reconciling.Entry], fmt: output.Format | None) -> bool:
    """If true, the terminal is too narrow for what was done in one line each."""
    width = session.current().terminal.width
    if not entries or width is None or output.chosen(fmt) is not output.Format.TABLE:
        return False
    return max(len(_what(item)) for item in entries) + _BEFORE_TEXT > width


def _what(entry: reconciling.Entry) -> str:
    """A recommendation says `it` of its subject."""
    return f"{entry.subject}: {entry.text}" if entry.result == "told" and entry.subject else entry.text


def show_pause(pause: reconciling.Pause, fmt: output.Format | None, *, is_new: bool) -> None:
    """That the loop is paused."""
    until = "" if pause.until is None else f" until {output.timestamp(pause.until)}"
    text = f"loop paused{until}" if is_new else f"loop unchanged: already paused{until}"
    document = {"result": "paused" if is_new else "unchanged", **pause_plain(pause)}
    output.render_line("ReconcilePause", document, text, name="loop/reconcile", fmt=fmt)
    if is_new:
        session.current().terminal.note("a step that has begun is finished; nothing new is begun")


def show_resumed(
    pause: reconciling.Pause | None,
    tripped: reconciling.Tripped | None,
    fmt: output.Format | None,
) -> None:
    """What no longer holds the loop."""
    said = []
    if pause is not None:
        said.append(f"goes on; {pause.actor} had paused it: {pause.reason}")
    if tripped is not None:
        said.append(f"breaker reset; it had tripped: {tripped.why}")
    text = f"loop {'; '.join(said)}" if said else "loop unchanged: nothing held it back"
    document = {
        "result": "resumed" if said else "unchanged",
        "pause": None if pause is None else pause_plain(pause),
        "breaker": None if tripped is None else {"trippedAt": tripped.at, "why": tripped.why},
    }
    output.render_line("ReconcileResume", document, text, name="loop/reconcile", fmt=fmt)
