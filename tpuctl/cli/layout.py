"""Plain text in columns: aligned with two blanks between, no boxes.

Off a terminal every record is one line with everything in it. A terminal that is too narrow gets ids without
their middle, then sentences in several lines, then fewer columns: never a line that breaks inside a word.
"""

from __future__ import annotations

import itertools
import re
import textwrap
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.cli import terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_GAP = "  "
_MIDDLE = "..."
_NARROWEST = 40
_SHORTEST = 9
"""Fewest characters that an id is shortened to."""
_FOLDED = 20
"""Fewest characters that a sentence is folded to."""
_BREAK = re.compile(r"(?<=\s)(?=\S)|(?<=,)(?=[^\s\d])|(?<=[^\d],)(?=\d)")
"""Where a cell may go on in the next line: between words, and in a list of names, but not inside `2,048`."""


class Trait(NamedTuple):
    """How a column gives way on a terminal that is too narrow for the table."""

    shorten: bool = False
    """If true, it holds ids whose middle may be left out, as long as they stay distinct."""
    keep: bool = False
    """If true, it stays as long as there are others to leave out."""
    whole: bool = False
    """If true, its texts are not folded: commands, which people copy."""


def cell(value: object) -> str:
    """A value as one line without control characters; `-` for None and for nothing.

    Whole numbers look as in sentences: `2,048`. Numbers of another kind (process ids) come as text.
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return terminal.printable("-" if value is None else value) or "-"


def few(texts: Sequence[str], most: int | None, between: str = ", ") -> str:
    """The first `most` texts in one cell, and how many more there are; None shows all."""
    more = 0 if most is None else len(texts) - most
    return between.join([*texts[:most], f"and {more} more"] if more > 0 else texts)


def table(
    cells: Sequence[Sequence[str]],
    titles: Sequence[str] | None,
    styles: Sequence[Sequence[str | None]],
    paint: Callable[[str, str | None], str],
    *,
    width: int | None,
    traits: Sequence[Trait],
) -> tuple[list[str], list[str]]:
    """The rows of a table that fits `width` if that can be, and the titles of the columns left out for it."""
    if width is None or not cells:
        return lines(cells, titles, styles, paint), []
    shown, kept = fitted(cells, titles, traits, width)
    names = None if titles is None else [titles[index] for index in kept]
    paints = [[row[index] for index in kept] for row in styles]
    left_out = [title for index, title in enumerate(titles or ()) if index not in kept and title]
    return lines(shown, names, paints, paint), left_out


def lines(
    cells: Sequence[Sequence[str]],
    titles: Sequence[str] | None,
    styles: Sequence[Sequence[str | None]],
    paint: Callable[[str, str | None], str],
) -> list[str]:
    """The rows of a table, columns aligned, nothing after the last one."""
    widths = _widths(cells, titles)
    header = [] if titles is None else [_line(titles, widths, ["bold"] * len(titles), paint)]
    rows = [
        _line(part, widths, style, paint)
        for row, style in zip(cells, styles, strict=True)
        for part in itertools.zip_longest(*(text.split("\n") for text in row), fillvalue="")
    ]
    return header + rows


def pairs(
    rows: Sequence[tuple[str, object]], paint: Callable[[str], str], width: int | None = None
) -> list[str]:
    """`Title:  value` lines; a value of several lines, or too long for `width`, goes on below itself."""
    longest = max((len(title) for title, _ in rows), default=0) + 1
    room = None if width is None else max(width - longest - len(_GAP), _NARROWEST)
    shown = []
    for title, value in rows:
        parts = value.split("\n") if isinstance(value, str) else [value]
        first, *more = (line for part in parts for line in folded(cell(part), room))
        gap = " " * (longest - len(title) - 1)
        shown.append(f"{paint(title + ':')}{gap}{_GAP}{first}")
        shown += [" " * longest + _GAP + part for part in more]
    return shown


def folded(text: str, room: int | None) -> list[str]:
    """A text in lines of at most `room`; a row of a table within a value goes on a little further in."""
    if room is None or len(text) <= room:
        return [text]
    return textwrap.wrap(
        text,
        room,
        subsequent_indent=_GAP if _GAP in text else "",
        break_long_words=False,
        break_on_hyphens=False,
    )


def fitted(
    cells: Sequence[Sequence[str]], titles: Sequence[str] | None, traits: Sequence[Trait], width: int
) -> tuple[list[list[str]], list[int]]:
    """The cells that fit `width`, with line ends where they are folded, and which columns are left."""
    columns = [list(column) for column in zip(*cells, strict=True)]
    heads = [0] * len(columns) if titles is None else [_columns(title) for title in titles]
    widths = [max(head, *map(_columns, column)) for column, head in zip(columns, heads, strict=True)]
    kept = list(range(len(columns)))
    if _total(widths) <= width:
        return [list(row) for row in cells], kept
    least = [
        max(head, _narrowest(column, trait))
        for column, head, trait in zip(columns, heads, traits, strict=True)
    ]
    for index in _expendable(titles, traits):
        if _total(least[column] for column in kept) <= width:
            break
        kept.remove(index)
    for give_way, may in ((_shortened, _may_shorten), (_folded_column, _may_fold)):
        willing = [index for index in kept if may(traits[index])]
        rest = width - _total(widths[index] for index in kept) + sum(widths[index] for index in willing)
        cap = _cap([(widths[index], least[index]) for index in willing], rest)
        for index in willing:
            if widths[index] > max(cap, least[index]):
                columns[index] = give_way(columns[index], max(cap, least[index]))
                widths[index] = max(heads[index], *map(_columns, columns[index]))
    return [list(row) for row in zip(*(columns[index] for index in kept), strict=True)], kept


def _expendable(titles: Sequence[str] | None, traits: Sequence[Trait]) -> list[int]:
    """Columns that may be left out, in that order: drawings, then from the right; never the first one."""
    rest = range(len(traits) - 1, 0, -1)
    drawings = [index for index in rest if titles is not None and not titles[index]]
    return sorted(rest, key=lambda index: (index not in drawings, traits[index].keep))


def _total(widths: Iterable[int]) -> int:
    found = [*widths]
    return sum(found) + len(_GAP) * (len(found) - 1)


def _cap(columns: Sequence[tuple[int, int]], room: int) -> int:
    """The most that columns may have, each given as its width and the least it needs, to fit in `room`."""
    longest = max((widest for widest, _ in columns), default=0)
    tried = range(longest, 0, -1)
    fit = (cap for cap in tried if sum(max(min(widest, cap), least) for widest, least in columns) <= room)
    return next(fit, 1)


def _may_shorten(trait: Trait) -> bool:
    return trait.shorten


def _may_fold(trait: Trait) -> bool:
    return not trait.whole


def _narrowest(column: list[str], trait: Trait) -> int:
    """Characters that a column needs at least."""
    given_way = _shortened(column, _SHORTEST) if trait.shorten else column
    return max(map(_columns, given_way if trait.whole else _folded_column(given_way, _FOLDED)), default=0)


def _folded_column(values: list[str], length: int) -> list[str]:
    """Every text in lines of at most `length` where it has places to break; texts hold no line ends."""
    return [_broken(value, length) if len(value) > length else value for value in values]


def _broken(text: str, length: int) -> str:
    shown = [""]
    for word in _BREAK.split(text):
        if shown[-1] and len(shown[-1]) + len(word.rstrip()) > length:
            shown.append(word)
        else:
            shown[-1] += word
    return "\n".join(line.rstrip() for line in shown)


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
    """Terminal columns that `text` takes; of several lines, the longest."""
    if "\n" in text:
        return max(map(_columns, text.split("\n")))
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
    while len(row) > 1 and not row[-1]:
        row = row[:-1]
    *padded, last = (
        (paint(text, style), width - _columns(text))
        for text, width, style in zip(row, widths, styles)  # noqa: B905 - empty cells at the end were cut off
    )
    return "".join(f"{text}{' ' * missing}{_GAP}" for text, missing in padded) + last[0]
