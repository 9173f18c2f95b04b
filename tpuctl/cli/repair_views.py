"""How repairs are shown."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from tpuctl.cli import durations, output
from tpuctl.model import declared, repairs

if TYPE_CHECKING:
    from tpuctl.ops import repairs as repair_ops

State = repairs.State
_STYLES = {
    State.PROPOSED: "yellow",
    State.APPROVED: "cyan",
    State.RUNNING: "bold cyan",
    State.DONE: "green",
    State.FAILED: "bold red",
}


def columns() -> list[output.Column[repairs.Item]]:
    """The columns of `repair list`."""
    column = output.Column
    return [
        column("REPAIR", lambda item: item.id),
        column("REMEDY", lambda item: item.case.remedy),
        column("TARGET", lambda item: _target(item.case), shorten=True),
        column("BLOCK", lambda item: item.case.block, shorten=True),
        column("STATE", state, style=lambda item: _STYLES.get(item.state)),
        column("HITS", lambda item: hits(item.case.blast)),
        column("TRY", lambda item: f"{item.case.attempt}/{item.case.attempt_limit}"),
        column("EXPIRES", lambda item: output.timestamp(_expiry(item))),
        column("WHY", lambda item: item.case.reason, wide=True),
        column("NOTE", lambda item: item.note or None, wide=True),
    ]


def _target(case: repairs.Case) -> str:
    return {
        declared.Remedy.FAILOVER: f"{case.slice}:{case.cube}",
        declared.Remedy.REPROVISION: case.pool,
    }.get(case.remedy, case.host)


def state(item: repairs.Item) -> str:
    """Where it is, and for whom it waits."""
    if item.state is State.PROPOSED:
        if item.approvals_needed == 0:
            return "proposed, allowed"
        return f"proposed, {item.approvals_missing} to approve"
    return f"{item.state}, {item.step}" if item.state is State.RUNNING else str(item.state)


def hits(blast: repairs.Blast) -> str:
    """The blast radius in a few words."""
    if not blast.is_on_work:
        return f"{blast.chips} idle chips"
    return f"{blast.pods} pods of {', '.join(blast.slices) or 'no slice'}"


def _expiry(item: repairs.Item) -> datetime.datetime | None:
    return item.expires_at if item.state in (State.PROPOSED, State.APPROVED) else None


def plain(item: repairs.Item) -> dict[str, Any]:
    """One repair, as `-o json` gives it."""
    case, blast, cost = item.case, item.case.blast, item.case.cost
    return {
        "id": item.id,
        "remedy": str(case.remedy),
        "ailment": str(case.ailment),
        "state": str(item.state),
        "cube": case.cube,
        "block": case.block,
        "nodePool": case.pool or None,
        "host": case.host or None,
        "slice": case.slice or None,
        "reason": case.reason,
        "evidence": [proof._asdict() for proof in case.evidence],
        "blastRadius": {
            "slices": list(blast.slices),
            "pods": blast.pods,
            "hosts": blast.hosts,
            "chips": blast.chips,
            "owners": list(blast.owners),
        },
        "cost": {
            "fromSeconds": cost.from_s,
            "toSeconds": cost.to_s,
            "chips": cost.chips,
            "source": cost.source,
        },
        "attempt": case.attempt,
        "attemptLimit": case.attempt_limit,
        "previous": [_rung(rung) for rung in item.previous],
        "needsPersonBecause": case.why_person or None,
        "waitsForWindow": case.voluntary,
        "approvalsNeeded": item.approvals_needed,
        "approvalsMissing": item.approvals_missing,
        "approvals": [approval._asdict() for approval in item.approvals],
        "proposedAt": item.proposed_at,
        "expiresAt": _expiry(item),
        "startedAt": item.started_at,
        "step": str(item.step),
        "operation": item.operation or None,
        "expectedFrom": expected(item)[0],
        "expectedTo": expected(item)[1],
        "endedAt": item.ended_at,
        "endedBy": item.ended_by or None,
        "note": item.note or None,
    }


def _rung(rung: repairs.Rung) -> dict[str, Any]:
    return {
        "repair": rung.item,
        "remedy": str(rung.remedy),
        "state": str(rung.state),
        "at": rung.at,
        "note": rung.note or None,
    }


def expected(item: repairs.Item) -> tuple[datetime.datetime | None, datetime.datetime | None]:
    """Between which times it is likely over, by the estimate; nothing for one that does not run."""
    if item.state is not State.RUNNING or item.step_at is None:
        return None, None
    cost = item.case.cost
    start = item.step_at
    return start + datetime.timedelta(seconds=cost.from_s), start + datetime.timedelta(seconds=cost.to_s)


def cost_text(cost: repairs.Cost) -> str:
    """`64 chips for 3d to 14d (published: ...)`."""
    span = f"{durations.short(cost.from_s)} to {durations.short(cost.to_s)}"
    return f"{cost.chips} chips out of use for {span} ({cost.source})"


def summary(item: repairs.Item) -> list[str]:
    """What somebody who says yes should have read."""
    case = item.case
    lines = [
        f"{case.remedy} of {case.target}, attempt {case.attempt} of {case.attempt_limit}",
        f"why: {case.reason}",
        f"blast radius: {case.blast}",
        *(f"  {owner}" for owner in case.blast.owners),
        f"cost: {cost_text(case.cost)}",
    ]
    return [*lines, *([f"ask yourself: {case.why_person}"] if case.why_person else [])]


def show(item: repairs.Item, fmt: output.Format | None) -> None:
    """Everything about one repair."""
    # Most of it is said at one stage only: what is not there yet, or was never asked for, is left out.
    rows = [row for row in _rows(item) if row[1] is not None]
    output.render_one("Repair", plain(item), rows=rows, name=f"repair/{item.id}", fmt=fmt)


def _rows(item: repairs.Item) -> list[tuple[str, object]]:
    case = item.case
    since, until = expected(item)
    return [
        ("Repair", item.id),
        ("Remedy", f"{case.remedy} of {case.target}"),
        ("State", state(item)),
        ("Cube", f"{case.cube} (block {case.block}, node pool {case.pool or 'none'})"),
        ("Why", case.reason),
        ("Evidence", "\n".join(map(_proof, case.evidence)) or None),
        ("Blast radius", "\n".join((str(case.blast), *case.blast.owners))),
        ("Cost", cost_text(case.cost)),
        ("Attempt", f"{case.attempt} of {case.attempt_limit}"),
        ("Before", "\n".join(map(_rung_line, item.previous)) or None),
        ("Asks a person", case.why_person or None),
        ("Waits for", "a maintenance window" if case.voluntary else None),
        ("Approvals", _approvals(item)),
        ("Proposed", output.timestamp(item.proposed_at)),
        ("Expires", output.timestamp(_expiry(item))),
        ("Started", output.timestamp(item.started_at)),
        ("Step", f"{item.step} ({output.timestamp(item.step_at)})" if item.step_at else None),
        ("Expected", f"{output.timestamp(since)} to {output.timestamp(until)}" if since else None),
        ("Ended", _end(item)),
        ("Note", item.note or None),
    ]


def _proof(proof: repairs.Proof) -> str:
    since = f" (since {output.timestamp(proof.since)})" if proof.since else ""
    return f"{proof}{since}"


def _rung_line(rung: repairs.Rung) -> str:
    note = f": {rung.note}" if rung.note else ""
    return f"{output.timestamp(rung.at)}  {rung.remedy} {rung.state}{note}"


def _approvals(item: repairs.Item) -> str:
    lines = [
        f"{approval.by} at {output.timestamp(approval.at)}{f': {approval.reason}' if approval.reason else ''}"
        for approval in item.approvals
    ]
    return "\n".join((f"{len(item.approvals)} of {item.approvals_needed}", *lines))


def _end(item: repairs.Item) -> str | None:
    if item.ended_at is None:
        return None
    by = f" by {item.ended_by}" if item.ended_by else ""
    return f"{output.timestamp(item.ended_at)}{by}"


def approved(answer: repair_ops.Answer) -> str:
    """What became of a yes."""
    if not answer.changed:
        return "unchanged"
    missing = answer.item.approvals_missing
    return f"approved, {missing} more to approve" if missing else "approved"


def show_answer(answer: repair_ops.Answer, verb: str, fmt: output.Format | None) -> None:
    """What became of an answer."""
    item = answer.item
    subject = f"repair/{item.id}"
    text = f"{subject} {verb}  {item.case.remedy} of {item.case.target}"
    output.render_line("Repair", {**plain(item), "result": verb}, text, name=subject, fmt=fmt)


def rule_columns() -> list[output.Column[repair_ops.Rule]]:
    """The columns of `repair rules`."""
    column = output.Column
    return [
        column("AILMENT", lambda rule: rule.ailment),
        column("REMEDIES", lambda rule: ", then ".join(rule.remedies)),
        column("GRACE", _grace),
        column("WHEN", lambda rule: rule.when),
    ]


def _grace(rule: repair_ops.Rule) -> str:
    return durations.short(rule.grace_s) if rule.grace_s else "by policy"


def rule_plain(rule: repair_ops.Rule) -> dict[str, Any]:
    """One rule, as `-o json` gives it."""
    return {
        "ailment": str(rule.ailment),
        "when": rule.when,
        "graceSeconds": rule.grace_s or None,
        "remedies": [str(remedy) for remedy in rule.remedies],
        "behavior": rule.behavior or None,
    }
