"""How health is shown: checks, evidence, maintenance windows, reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuctl.cli import durations, layout, output, session
from tpuctl.model import counts, states

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterable, Mapping, Sequence

    from tpuctl.model import fleet, health
    from tpuctl.ops import fault_reports, health_checks, health_watching, maintenance

STYLES = {
    states.Verdict.HEALTHY: "green",
    states.Verdict.DEGRADED: "yellow",
    states.Verdict.UNHEALTHY: "bold red",
    states.Verdict.INCOMPLETE: "yellow",
    states.Verdict.UNKNOWN: "yellow",
}


_HOST = "host "
"""What the subject of evidence about one host begins with."""
_SHOWN_REASONS = 2
"""Reasons in a cell of the table; `-o wide` and documents have all."""


def columns(now: datetime.datetime, *, wide: bool) -> list[output.Column[health_checks.Checked]]:
    """The columns of `health check`; `now` is the snapshot's time."""
    column = output.Column
    return [
        column("KIND", lambda item: item.kind),
        column("NAME", lambda item: item.id, shorten=True),
        column("BLOCK", lambda item: item.block, shorten=True),
        column(
            "HEALTH",
            lambda item: item.judgement.verdict,
            style=lambda item: STYLES[item.judgement.verdict],
        ),
        column("WHERE", lambda item: item.judgement.where),
        column("USABLE", lambda item: f"{item.judgement.usable_hosts}/{item.wanted_hosts}"),
        column("SLICE", lambda item: ",".join(item.slices) if item.kind == "cube" else ""),
        column(
            "WHY",
            lambda item: layout.few(why(item.judgement, now), None if wide else _SHOWN_REASONS, "; "),
            keep=True,
        ),
        column(
            "DISAGREE", lambda item: "; ".join(str(one) for one in item.judgement.disagreements), wide=True
        ),
    ]


def verdict_text(judgement: health.Judgement) -> str:
    """`unhealthy, in the VM`."""
    return f"{judgement.verdict}, in the {judgement.where}" if judgement.where else str(judgement.verdict)


def why(judgement: health.Judgement, now: datetime.datetime) -> list[str]:
    """Each trouble with its source and its age: `host X: not ready (node, for 5m)`."""
    return [_with_source(item, now) for item in judgement.troubles]


def _with_source(item: health.Evidence, now: datetime.datetime) -> str:
    age = durations.age(now, item.since)
    remarks = [
        *([] if str(item.origin) in str(item) else [str(item.origin)]),
        *([f"for {age}"] if age else []),
    ]
    return f"{item} ({', '.join(remarks)})" if remarks else str(item)


def plain(item: health_checks.Checked, now: datetime.datetime) -> dict[str, Any]:
    """One line of a check, as `-o json` gives it."""
    return {
        "subject": item.kind,
        "id": item.id,
        "block": item.block,
        "hosts": item.hosts,
        "wantedHosts": item.wanted_hosts,
        "slices": list(item.slices),
        **judgement_plain(item.judgement, now),
    }


def judgement_plain(judgement: health.Judgement, now: datetime.datetime) -> dict[str, Any]:
    """A judgement without the evidence that all is well."""
    return {
        "verdict": str(judgement.verdict),
        "where": [str(domain) for domain in judgement.domains],
        "usableHosts": judgement.usable_hosts,
        "tolerated": judgement.is_tolerated,
        "reasons": [evidence_plain(item, now) for item in judgement.troubles],
        "disagreements": [
            {
                "about": str(one.domain),
                "claims": [
                    {"source": str(origin), "verdict": str(verdict)} for origin, verdict in one.claims
                ],
            }
            for one in judgement.disagreements
        ],
    }


def evidence_plain(item: health.Evidence, now: datetime.datetime) -> dict[str, Any]:
    """One piece of evidence."""
    return {
        "source": str(item.origin),
        "subject": item.subject or None,
        "says": item.says,
        "pointsTo": None if item.points_to is None else str(item.points_to),
        "where": None if item.domain is None else str(item.domain),
        "since": item.since,
        "ageSeconds": None if item.since is None else round((now - item.since).total_seconds(), 3),
        "tolerated": item.tolerated,
    }


def evidence_lines(evidence: Iterable[health.Evidence], now: datetime.datetime, *, hosts: int) -> list[str]:
    """All evidence in columns: which way it points, since when, who says it, what.

    What several hosts of all the `hosts` say alike is one line with their names.
    """
    screen = session.current().terminal
    items = _alike_as_one(evidence, hosts)
    cells = [
        [
            layout.cell(item.points_to or "no bearing"),
            layout.cell(item.domain),
            layout.cell(durations.age(now, item.since)),
            layout.cell(item.origin),
            layout.cell(item),
        ]
        for item in items
    ]
    paints: list[list[str | None]] = [
        [STYLES.get(item.points_to) if item.points_to else "dim", None, None, None, None] for item in items
    ]
    return layout.lines(cells, None, paints, screen.styled)


def _alike_as_one(evidence: Iterable[health.Evidence], hosts: int) -> list[health.Evidence]:
    """The same of several hosts as one piece of evidence about them all, as old as the oldest."""
    groups: dict[object, list[health.Evidence]] = {}
    for item in evidence:
        key = item._replace(subject=_HOST, since=None) if item.subject.startswith(_HOST) else item
        groups.setdefault(key, []).append(item)
    return [_merged(group, hosts) for group in groups.values()]


def _merged(group: Sequence[health.Evidence], hosts: int) -> health.Evidence:
    first = group[0]
    if len(group) == 1:
        return first
    names = ", ".join(item.subject.removeprefix(_HOST) for item in group)
    subject = f"all {hosts} hosts" if len(group) == hosts else f"{len(group)} hosts ({names})"
    times = [item.since for item in group if item.since is not None]
    return first._replace(subject=subject, since=min(times, default=None))


def show_evidence(
    item: health_checks.Checked,
    now: datetime.datetime,
    fmt: output.Format | None,
    *,
    held: Sequence[str],
    more: Mapping[str, Any],
) -> None:
    """One cube or slice with everything that is said about it; `more` are further fields of the document.

    `held` tells who keeps a cube from new slices.
    """
    judgement = item.judgement
    evidence = [evidence_plain(one, now) for one in judgement.evidence]
    document = {**plain(item, now), **more, "evidence": evidence}
    rows: list[tuple[str, object]] = [
        (item.kind.capitalize(), item.id),
        ("Block", item.block),
        ("Health", verdict_text(judgement) + (" (tolerated for now)" if judgement.is_tolerated else "")),
        ("Hosts", f"{judgement.usable_hosts} usable of {item.wanted_hosts}"),
        *([("Slices", ", ".join(item.slices))] if item.kind == "cube" else []),
        *([("Held", "\n".join(held) or None)] if item.kind == "cube" else []),
        ("Why", "\n".join(why(judgement, now)) or None),
        ("Disagree", "\n".join(str(one) for one in judgement.disagreements) or None),
        ("Evidence", "\n".join(evidence_lines(judgement.evidence, now, hosts=item.hosts))),
    ]
    output.render_one("Health", document, rows=rows, name=f"{item.kind}/{item.id}", fmt=fmt, observed_at=now)


def summary(result: health_checks.Result) -> str:
    """`143 of 144 cubes healthy, 1 unhealthy; 3 of 3 slices healthy`."""
    parts = []
    for kind in ("cube", "slice"):
        total = result.total(kind)
        if total:
            healthy = result.count(kind, states.Verdict.HEALTHY)
            rest = [
                f"{count} {verdict}"
                for verdict in states.Verdict
                if verdict is not states.Verdict.HEALTHY and (count := result.count(kind, verdict))
            ]
            noun = kind if total == 1 else f"{kind}s"
            parts.append(", ".join([f"{healthy} of {total} {noun} healthy", *rest]))
    return "; ".join(parts)


def maintenance_columns(now: datetime.datetime) -> list[output.Column[maintenance.Window]]:
    """The columns of `health maintenance`."""
    column = output.Column
    return [
        column("BLOCK", lambda window: window.block, shorten=True),
        column("CUBE", _concerned, shorten=True),
        column("HOSTS", lambda window: window.hosts),
        column(
            "STATUS",
            lambda window: window.status,
            style=lambda window: "bold red" if window.status == "ongoing" else None,
        ),
        column("STARTS", lambda window: output.to_the_second(window.start)),
        column("IN", lambda window: _ahead(now, window.start)),
        column("ENDS", lambda window: output.to_the_second(window.end)),
        column("SLICES", lambda window: ",".join(window.slices)),
        column("TYPE", lambda window: window.kind, wide=True),
        column("EARLIER", lambda window: window.can_reschedule, wide=True),
        column("TOLD-BY", lambda window: ", ".join(window.told_by), wide=True),
    ]


def _concerned(window: maintenance.Window) -> str:
    """A cube, or how many of a block."""
    if window.cube:
        return window.cube
    return f"{len(window.cubes)} of {window.cubes_of_block}" if window.cubes else "all"


def _ahead(now: datetime.datetime, start: datetime.datetime | None) -> str | None:
    if start is None or start <= now:
        return None
    return durations.short((start - now).total_seconds())


def maintenance_plain(window: maintenance.Window) -> dict[str, Any]:
    """One window, as `-o json` gives it."""
    return {
        "scope": window.scope,
        "block": window.block,
        "cube": window.cube or None,
        "cubes": list(window.cubes) or None,
        "status": window.status,
        "windowStart": window.start,
        "windowEnd": window.end,
        "type": window.kind or None,
        "canReschedule": window.can_reschedule,
        "hosts": window.hosts,
        "slices": list(window.slices),
        "toldBy": list(window.told_by),
    }


def change_plain(change: health_watching.Change, now: datetime.datetime) -> dict[str, Any]:
    """One line of `health watch`."""
    return {
        "apiVersion": output.API_VERSION,
        "kind": "HealthChange",
        "before": None if change.before is None else str(change.before),
        "gone": change.gone,
        **plain(change.now, now),
        "observedAt": output.timestamp(now),
    }


def show_report(
    prepared: fault_reports.Prepared,
    outcome: fault_reports.Outcome,
    *,
    advice: Sequence[str],
    fmt: output.Format | None,
) -> None:
    """What became of a report, and what follows from it."""
    operation, report = outcome.operation, prepared.report
    document = {
        "host": prepared.host.name,
        "cube": prepared.cube.id,
        "behavior": report.behavior,
        "disruption": report.disruption,
        "operation": operation.name,
        "status": operation.status.value,
        "waitedSeconds": outcome.waited_s and round(outcome.waited_s, 3),
    }
    subject = f"host/{prepared.host.name}"
    verb = "reporting" if outcome.waited_s is None else "reported"
    text = f"{subject} {verb}  operation {operation.name}"
    output.render_line("FaultReport", document, text, name=subject, fmt=fmt)
    for line in advice:
        session.current().terminal.note(line)


def blast_lines(host: fleet.Host, prepared: fault_reports.Prepared) -> list[str]:
    """What the stop of the VM would hit."""
    radius = prepared.radius
    owners = [f"  {counts.of(count, 'pod')} of {owner}" for owner, count in radius.owners]
    return [f"blast radius of host {host.name}: {radius}", *owners]
