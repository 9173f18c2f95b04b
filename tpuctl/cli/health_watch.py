"""Show health as it changes: a live table on a terminal, one JSON object a line anywhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuctl.cli import health_views, layout, output, session
from tpuctl.model import counts, errors, states

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterator

    from tpuctl.cli import terminal as terminals
    from tpuctl.ops import health_checks, health_watching

_ROOM = 8
"""Lines of the terminal that are not for cubes."""
_DEFAULT_HEIGHT = 24


def show(turns: Iterator[health_watching.Turn], fmt: output.Format | None) -> None:
    """Show until `turns` end; raises Unavailable if nothing could be seen at all."""
    screen = session.current().terminal
    live = screen.stdout_is_terminal and not screen.is_dumb and not output.chosen(fmt).is_document
    seen, trouble = _live(turns, screen) if live else _lines(turns, screen, output.chosen(fmt))
    if not seen:
        raise errors.Unavailable(f"health could not be seen: {trouble or 'nothing was heard in time'}")


def _lines(
    turns: Iterator[health_watching.Turn], screen: terminals.Terminal, fmt: output.Format
) -> tuple[bool, str]:
    seen, told = False, ""
    for turn in turns:
        if turn.trouble != told:
            told = turn.trouble
            _write(screen, _trouble(turn), fmt)
        seen = seen or turn.snapshot is not None
        if turn.observed_at is not None:
            for change in turn.changes:
                _write(screen, health_views.change_plain(change, turn.observed_at), fmt)
    return seen, told


def _trouble(turn: health_watching.Turn) -> dict[str, Any]:
    """A trouble that came, or with an empty message, one that is over."""
    return {
        "apiVersion": output.API_VERSION,
        "kind": "HealthTrouble",
        "message": turn.trouble,
        "observedAt": output.timestamp(turn.observed_at),
    }


def _write(screen: terminals.Terminal, document: dict[str, Any], fmt: output.Format) -> None:
    if fmt is not output.Format.NAME:
        screen.out(output.encode_next(document, fmt))
    elif "id" in document:
        screen.out(f"{document['subject']}/{document['id']}")


def _live(turns: Iterator[health_watching.Turn], screen: terminals.Terminal) -> tuple[bool, str]:
    import rich.live  # noqa: PLC0415 - only a terminal pays for it
    import rich.text  # noqa: PLC0415

    console = screen.console()
    seen, trouble = False, ""
    with rich.live.Live(console=console, auto_refresh=False, transient=False) as table:
        for turn in turns:
            seen, trouble = seen or turn.snapshot is not None, turn.trouble
            lines = picture(turn, screen, height=console.height or _DEFAULT_HEIGHT)
            table.update(rich.text.Text.from_ansi("\n".join(lines)), refresh=True)
    return seen, trouble


def picture(turn: health_watching.Turn, screen: terminals.Terminal, *, height: int) -> list[str]:
    """The lines of the live table: counts, what is not healthy, and whether the view is old."""
    now = turn.observed_at
    lines = [_counts(turn, screen)]
    if now is not None:
        ill = [item for item in turn.items if item.judgement.verdict is not states.Verdict.HEALTHY]
        room = max(height - _ROOM, 1)
        lines += _table(ill[:room], now, screen)
        if len(ill) > room:
            lines.append(f"and {len(ill) - room} more; see: tpuctl health check")
    if turn.trouble:
        lines.append(screen.styled(f"the view may be old or not whole: {turn.trouble}", "bold yellow"))
    return lines


def _counts(turn: health_watching.Turn, screen: terminals.Terminal) -> str:
    if turn.observed_at is None:
        return "waiting for the first lists"
    of_kinds = [
        f"{counts.of(len(items), kind)}: {_verdicts(items, screen)}"
        for kind in ("cube", "slice")
        if (items := [item for item in turn.items if item.kind == kind])
    ]
    return f"{output.to_the_second(turn.observed_at)}  {'; '.join(of_kinds) or 'nothing there'}"


def _verdicts(items: list[health_checks.Checked], screen: terminals.Terminal) -> str:
    """`10 healthy, 2 unhealthy`."""
    return ", ".join(
        screen.styled(f"{count} {verdict}", health_views.STYLES[verdict])
        for verdict in states.Verdict
        if (count := sum(item.judgement.verdict is verdict for item in items))
    )


def _table(
    items: list[health_checks.Checked], now: datetime.datetime, screen: terminals.Terminal
) -> list[str]:
    cells = [
        [
            f"{item.kind}/{item.id}",
            str(item.judgement.verdict),
            item.judgement.where or "-",
            layout.cell(health_views.why(item.judgement, now)[0]),
        ]
        for item in items
    ]
    styles: list[list[str | None]] = [
        [None, health_views.STYLES[item.judgement.verdict], None, None] for item in items
    ]
    return layout.lines(cells, None, styles, screen.styled)
