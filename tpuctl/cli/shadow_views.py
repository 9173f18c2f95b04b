"""How two policies are shown side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuctl.cli import durations, layout, output, session, wrapping

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterator

    from tpuctl.ops import shadowing

LEGACY = "maximizer"
_TITLES = ("WHO", "ACTS", "CHIPS", "PODS", "IDLED-CHIPS", "POOL-OPS", "SLICE-OPS", "TIME")


def show(fleet: str, found: shadowing.Shadow, at: datetime.datetime, fmt: output.Format | None) -> None:
    """Each differing decision with both reasons, and what each policy would cost."""
    screen = session.current().terminal
    wanted = output.chosen(fmt)
    if wanted.is_document or wanted is output.Format.NAME:
        name = f"fleet/{fleet}"
        output.render_one("PolicyComparison", plain(found), rows=(), name=name, fmt=fmt, observed_at=at)
        return
    parts = []
    if found.rows:
        parts.append([screen.styled("Where they differ", "bold"), *wrapping.records([*_rows(found)])])
        totals = [_cells(name, total) for name, total in found.totals]
        plain_style: list[list[str | None]] = [[None] * len(_TITLES)] * len(totals)
        parts.append(
            [
                screen.styled("What it would cost, by estimates", "bold"),
                *layout.lines(totals, _TITLES, plain_style, screen.styled),
            ]
        )
        parts.append([f"Times of the maximizer: {source}" for source in found.sources])
    parts.append([f"{found.sentence[:1].upper()}{found.sentence[1:]}."])
    screen.out("\n\n".join("\n".join(part) for part in parts if part))


def _cells(name: str, total: shadowing.Total) -> list[str]:
    return [
        name,
        f"{total.acts:,}",
        f"{total.chips:,}",
        f"{total.pods:,}",
        f"{total.idled_chips:,}",
        f"{total.pool_operations:,}",
        f"{total.slice_operations:,}",
        durations.short(total.time_s),
    ]


def plain(found: shadowing.Shadow) -> dict[str, Any]:
    """A comparison as `-o json` gives it."""
    return {
        "legacy": LEGACY,
        "differences": [
            {
                "subject": row.subject,
                "sameGoal": row.same_goal,
                "tpuctl": _side(row.ours),
                LEGACY: _side(row.legacy),
            }
            for row in found.rows
        ],
        "totals": {name: _total(total) for name, total in found.totals},
        "sources": list(found.sources),
        "sentence": found.sentence,
    }


def _rows(found: shadowing.Shadow) -> Iterator[tuple[str, str, str, str]]:
    for row in found.rows:
        yield row.subject, "tpuctl", row.ours.does, row.ours.reason
        yield row.subject, LEGACY, row.legacy.does, row.legacy.reason


def _side(side: shadowing.Side) -> dict[str, Any]:
    return {
        "does": side.does,
        "reason": side.reason,
        "goal": str(side.goal),
        "interruptedChips": side.chips,
        "podsToRestart": side.pods,
        "idledChips": side.idled_chips,
        "poolOperations": side.pool_operations,
        "sliceOperations": side.slice_operations,
        "estimatedSeconds": round(side.time_s, 3),
    }


def _total(total: shadowing.Total) -> dict[str, Any]:
    return {
        "acts": total.acts,
        "interruptedChips": total.chips,
        "podsToRestart": total.pods,
        "idledChips": total.idled_chips,
        "poolOperations": total.pool_operations,
        "sliceOperations": total.slice_operations,
        "estimatedSeconds": round(total.time_s, 3),
    }
