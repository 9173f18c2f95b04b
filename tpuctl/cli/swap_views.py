"""How a swap is shown, before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.cli import durations, output, session
from tpuctl.model import counts
from tpuctl.model.exit_status import ExitStatus

if TYPE_CHECKING:
    from tpuctl.ops import swapping


def show_plan(name: str, prepared: swapping.Prepared, fmt: output.Format | None) -> None:
    """What a swap would do; nothing was done."""
    plan = prepared.plan
    output.render_one(
        "SwapPlan",
        {
            "name": name,
            "changes": True,
            "exchanges": _exchanges(prepared),
            "podsToRestart": prepared.restarted,
            "podsToKeep": prepared.kept,
            "partitionIds": list(plan.partitions),
            "doomedJobs": list(prepared.doomed_jobs),
        },
        rows=[
            ("Slice", name),
            ("Exchanges", "\n".join(lines(prepared))),
            ("Blast radius", radius(prepared)),
            ("Steps", "cordon, delete the slice, create it again, restart the pods, uncordon"),
        ],
        name=f"slice/{name}",
        fmt=fmt,
        observed_at=prepared.snapshot.observed_at,
    )


def show_nothing(name: str, fmt: output.Format | None) -> None:
    """No cube needs to go."""
    subject = f"slice/{name}"
    text = f"{subject} unchanged: no cube of it is broken"
    output.render_line("SwapOutcome", {"name": name, "result": "unchanged"}, text, name=subject, fmt=fmt)


def show_outcome(outcome: swapping.Outcome, fmt: output.Format | None) -> int:
    """What came of a swap, and the exit status that tells."""
    name = outcome.slice.name
    verb = "back on its old cubes" if outcome.went_back else "swapped"
    cubes = len(outcome.exchanges)
    text = [
        f"slice/{name} {verb}",
        counts.of(cubes, "cube"),
        f"{counts.of(outcome.restarted, 'pod')} restarted ({outcome.running_again:,} run again)",
        f"{outcome.kept} kept",
        outcome.slice.reason,
        f"after {durations.short(outcome.waited_s)}",
    ]
    document = {
        "name": name,
        "result": "went back" if outcome.went_back else "swapped",
        "state": str(outcome.slice.state),
        "exchanges": [{"old": old, "new": new} for old, new in outcome.exchanges],
        "podsRestarted": outcome.restarted,
        "podsRunningAgain": outcome.running_again,
        "podsKept": outcome.kept,
        "podsLost": list(outcome.lost),
        "waitedSeconds": round(outcome.waited_s, 3),
    }
    output.render_line("SwapOutcome", document, "  ".join(text), name=f"slice/{name}", fmt=fmt)
    if outcome.lost:
        lost = counts.of(len(outcome.lost), "pod")
        verb = "is" if len(outcome.lost) == 1 else "are"
        session.current().terminal.warn(f"{lost} that should have stayed {verb} gone:")
        for pod in outcome.lost[:5]:
            session.current().terminal.problem(f"  {pod}")
    return ExitStatus.PARTLY_DONE if outcome.lost or outcome.went_back else ExitStatus.OK


def lines(prepared: swapping.Prepared) -> list[str]:
    """One line for each exchange: what goes, what comes, why."""
    return [
        f"{exchange.old} -> {exchange.new}  ({reason})"
        for exchange, reason in zip(prepared.exchanges, prepared.plan.reasons, strict=True)
    ]


def radius(prepared: swapping.Prepared) -> str:
    """The blast radius in words."""
    restart = "restarts" if prepared.restarted == 1 else "restart"
    stay = "stays" if prepared.kept == 1 else "stay"
    return (
        f"{counts.of(prepared.restarted, 'pod')} {restart}, {prepared.kept:,} {stay}; "
        f"the whole slice has no fabric for about a minute"
    )


def _exchanges(prepared: swapping.Prepared) -> list[dict[str, str]]:
    return [
        {"old": exchange.old, "new": exchange.new, "why": reason}
        for exchange, reason in zip(prepared.exchanges, prepared.plan.reasons, strict=True)
    ]
