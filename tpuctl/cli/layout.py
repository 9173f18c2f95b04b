"""Plain text in columns: aligned with two blanks between, no boxes, no wrapping."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from tpuctl.cli import terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_GAP = "  "
_MIDDLE = "..."
_NARROWEST = 40
_SHORTEST = 9
"""Fewest characters that an id is shortened to."""


def cell(value: object) -> str:
    """A value as one line without control characters; `-` for None and for nothing."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return terminal.printable("-" if value is None else value) or "-"


def few(texts: Sequence[str], most: int | None, between: str = ", ") -> str:
    """The first `most` texts in one cell, and how many more there are; None shows all."""
    more = 0 if most is None else len(texts) - most
    return between.join([*texts[:most], f"and {more} more"] if more > 0 else texts)


def lines(
    cells: Sequence[Sequence[str]],
    titles: Sequence[str] | None,
    styles: Sequence[Sequence[str | None]],
    paint: Callable[[str, str | None], str],
) -> list[str]:
    """The rows of a table, columns aligned, nothing after the last one."""
    widths = _widths(cells, titles)
    header = [] if titles is None else [_line(titles, widths, ["bold"] * len(titles), paint)]
    return header + [_line(row, widths, style, paint) for row, style in zip(cells, styles, strict=True)]


def pairs(
    rows: Sequence[tuple[str, object]], paint: Callable[[str], str], width: int | None = None
) -> list[str]:
    """`Title:  value` lines; a value of several lines, or too long for `width`, goes on below itself."""
    longest = max((len(title) for title, _ in rows), default=0) + 1
    room = None if width is None else max(width - longest - len(_GAP), _NARROWEST)
    shown = []
    for title, value in rows:
        parts = value.split("\n") if isinstance(value, str) else [value]
        first, *more = (line for part in parts for line in _folded(cell(part), room))
        gap = " " * (longest - len(title) - 1)
        shown.append(f"{paint(title + ':')}{gap}{_GAP}{first}")
        shown += [" " * longest + _GAP + part for part in more]
    return shown


def _folded(text: str, room: int | None) -> list[str]:
    """A sentence in lines of at most `room`; a row of a table within a value keeps its columns."""
    if room is None or len(text) <= room or _GAP in text:
        return [text]
    return textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False)


def fitted(
    cells: list[list[str]], titles: Sequence[str] | None, may_shorten: Sequence[bool], width: int
) -> list[list[str]]:
    """`cells` with ids shortened in the middle until a row fits `width`, or none can give way any more."""
    widths = _widths(cells, titles)
    for index in sorted(range(len(widths)), key=lambda column: -widths[column]):
        excess = sum(widths) + len(_GAP) * (len(widths) - 1) - width
        if excess > 0 and may_shorten[index]:
            column = _shortened([row[index] for row in cells], max(widths[index] - excess, _SHORTEST))
            cells = [
                [*row[:index], short, *row[index + 1 :]] for row, short in zip(cells, column, strict=True)
            ]
            widths = _widths(cells, titles)
    return cells


def _shortened(values: list[str], length: int) -> list[str]:
    """Every value in at most `length` characters, or more where two different ones would look the same."""
    distinct = len(set(values))
    longest = max((len(value) for value in values), default=0)
    for tried in range(length, longest):
        short = [_middle_out(value, tried) for value in values]
        if len(set(short)) == distinct:
            return short
    return values


def _middle_out(value: str, length: int) -> str:
    if len(value) <= length:
        return value
    kept = length - len(_MIDDLE)
    return value[: kept - kept // 2] + _MIDDLE + value[len(value) - kept // 2 :]


def _widths(cells: Sequence[Sequence[str]], titles: Sequence[str] | None) -> list[int]:
    rows = [*cells] if titles is None else [titles, *cells]
    return [max(map(_columns, column)) for column in zip(*rows, strict=True)]


def _columns(text: str) -> int:
    """Terminal columns that `text` takes."""
    if text.isascii():
        return len(text)
    from rich import cells  # noqa: PLC0415 - only wide characters need its tables

    return cells.cell_len(text)


def _line(
    row: Sequence[str],
    widths: Sequence[int],
    styles: Sequence[str | None],
    paint: Callable[[str, str | None], str],
) -> str:
    *padded, last = (
        (paint(text, style), width - _columns(text))
        for text, width, style in zip(row, widths, styles, strict=True)
    )
    return "".join(f"{text}{' ' * missing}{_GAP}" for text, missing in padded) + last[0]
