"""Rows that end in a sentence, and sentences, on terminals of any width; off a terminal nothing is folded."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from tpuctl.cli import layout, session

if TYPE_CHECKING:
    from collections.abc import Sequence

_NARROWEST = 40


def records(rows: Sequence[Sequence[str]], styles: Sequence[Sequence[str | None]] | None = None) -> list[str]:
    """Lines for rows whose last cell is a sentence: it goes below on a terminal too narrow for the row."""
    width = session.current().terminal.width
    indent = "" if styles is not None else "  "
    if width is None or len(indent) + max(map(len, _laid(rows, None, paint=False))) <= width:
        return [f"{indent}{line}" for line in _laid(rows, styles)]
    heads = [row[:-1] for row in rows]
    head_styles = None if styles is None else [row[:-1] for row in styles]
    below = f"{indent}     "
    if len(indent) + max(map(len, _laid(heads, None, paint=False))) <= width:
        lines = [[f"{indent}{line}"] for line in _laid(heads, head_styles)]
    else:
        alone = [None] * len(heads) if head_styles is None else [[style] for style in head_styles]
        lines = [_ragged(head, style, indent) for head, style in zip(heads, alone, strict=True)]
    return [
        line for above, row in zip(lines, rows, strict=True) for line in (*above, *wrapped(row[-1], below))
    ]


def _ragged(head: Sequence[str], styles: Sequence[Sequence[str | None]] | None, indent: str) -> list[str]:
    """A head that would not fit in columns: as one line, or with its last cell below."""
    width = session.current().terminal.width
    [plain] = _laid([head], None, paint=False)
    if width is None or len(indent) + len(plain) <= width:
        return [f"{indent}{line}" for line in _laid([head], styles)]
    start = _laid([head[:-1]], None if styles is None else [row[:-1] for row in styles])
    return [*(f"{indent}{line}" for line in start), *wrapped(head[-1], f"{indent}   ")]


def wrapped(text: str, indent: str) -> list[str]:
    """A sentence in lines that fit the terminal; off a terminal it stays whole."""
    width = session.current().terminal.width
    whole = f"{indent}{layout.cell(text)}"
    if width is None or len(whole) <= width:
        return [whole]
    return textwrap.wrap(
        whole,
        max(width, _NARROWEST),
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _laid(
    rows: Sequence[Sequence[str]], styles: Sequence[Sequence[str | None]] | None, *, paint: bool = True
) -> list[str]:
    cells = [[layout.cell(value) for value in row] for row in rows]
    plain: list[list[str | None]] = [[None] * len(row) for row in cells]
    styled = session.current().terminal.styled
    return layout.lines(cells, None, plain if styles is None else styles, styled if paint else _unpainted)


def _unpainted(text: str, _style: str | None) -> str:
    return text
