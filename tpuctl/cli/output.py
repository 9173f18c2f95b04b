"""Results on stdout in the five formats of `-o`.

JSON and YAML are a versioned contract (`tpuctl/v1`): changes only add. `table` and `wide` are for people and
may change; off a terminal they are plain, one record per line, ids in full. `name` is one `kind/id` a line.
"""

from __future__ import annotations

import datetime
import enum
import json
from typing import TYPE_CHECKING, Annotated, Any, Generic, NamedTuple, TypeVar

import typer

from tpuctl.cli import layout, session
from tpuctl.cli import terminal as terminals

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

API_VERSION = "tpuctl/v1"
_NEVER_FOLDED = 1_000_000

T = TypeVar("T")


class Format(enum.StrEnum):
    """How a result is written."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"

    @property
    def is_document(self) -> bool:
        """If true, stdout holds exactly one JSON or YAML document."""
        return self in (Format.JSON, Format.YAML)


class Color(enum.StrEnum):
    """When to colour."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class LogFormat(enum.StrEnum):
    """How lines on stderr are written."""

    TEXT = "text"
    JSON = "json"


FormatOption = Annotated[
    Format | None,
    typer.Option("-o", "--output", metavar="FORMAT", help="table, wide, json, yaml or name."),
]
"""Give it the default None: the setting `defaults.output` applies then."""

NoHeadersOption = Annotated[bool, typer.Option("--no-headers", help="Leave out the line of column titles.")]


class Column(NamedTuple, Generic[T]):
    """A column of a table."""

    title: str
    """In capitals."""
    getter: Callable[[T], object]
    """The cell's text or number; None shows as `-`."""
    wide: bool = False
    """If true, only `-o wide` shows it."""
    style: Callable[[T], str | None] | None = None
    """The style of a cell on a coloured terminal, for example `red`."""
    shorten: bool = False
    """If true, it holds ids whose middle may be left out to fit a terminal, as long as they stay distinct."""
    keep: bool = False
    """If true, a terminal too narrow for all columns leaves out others first."""


def chosen(fmt: Format | None) -> Format:
    """The format to use: the option if given, else the setting."""
    return fmt or Format(session.current().settings.output)


def render_list(
    kind: str,
    items: Sequence[T],
    *,
    columns: Sequence[Column[T]],
    to_plain: Callable[[T], Mapping[str, Any]],
    name_of: Callable[[T], str],
    fmt: Format | None = None,
    no_headers: bool = False,
    observed_at: datetime.datetime | None = None,
    partial: bool = False,
    empty: str | None = None,
) -> None:
    """Write a list to stdout.

    `kind` is the kind of one item (`Slice`; the list is a `SliceList`). `name_of` gives `slice/train-a`.
    `observed_at` is the server's time of the answer, None for what was not observed (settings, arithmetic).
    `empty` is told on stderr if there are no items; the status stays 0.
    """
    wanted = chosen(fmt)
    screen = session.current().terminal
    if wanted.is_document:
        document = {
            "apiVersion": API_VERSION,
            "kind": f"{kind}List",
            "items": [to_plain(item) for item in items],
            "observedAt": timestamp(observed_at),
            "partial": partial,
        }
        screen.out(encode(document, wanted))
        return
    if wanted is Format.NAME:
        lines = [terminals.printable(name_of(item)) for item in items]
    else:
        lines = _table(items, columns, wide=wanted is Format.WIDE, no_headers=no_headers)
    if items:
        screen.out("\n".join(lines))
    else:
        screen.note(empty or f"No {kind.lower()}s found.")
    if partial:
        screen.warn("this list is not complete")


def render_one(
    kind: str,
    plain: Mapping[str, Any],
    *,
    rows: Sequence[tuple[str, object]],
    name: str,
    fmt: Format | None = None,
    observed_at: datetime.datetime | None = None,
    partial: bool = False,
) -> None:
    """Write one object to stdout: `rows` are the lines of the table, `plain` the fields of the document."""
    wanted = chosen(fmt)
    screen = session.current().terminal
    if wanted.is_document:
        envelope = {"observedAt": timestamp(observed_at), "partial": partial}
        document = {"apiVersion": API_VERSION, "kind": kind, **plain, **envelope}
        if document["kind"] != kind or len(document) != len(plain) + len(envelope) + 2:
            raise ValueError(f"a field of {kind} has a name that the envelope uses")
        screen.out(encode(document, wanted))
    elif wanted is Format.NAME:
        screen.out(terminals.printable(name))
    else:
        lines = layout.pairs(rows, lambda title: screen.styled(title, "bold"), screen.width)
        screen.out("\n".join(lines))
        if partial:
            screen.warn("this view is not complete")


def render_line(
    kind: str, plain: Mapping[str, Any], text: str, *, name: str, fmt: Format | None = None
) -> None:
    """Write what became of one object to stdout: `text` is all that a table would say of it."""
    if chosen(fmt) in (Format.TABLE, Format.WIDE):
        screen = session.current().terminal
        screen.out("\n".join(layout.folded(text, screen.width)))
    else:
        render_one(kind, plain, rows=(), name=name, fmt=fmt)


def _table(items: Sequence[T], columns: Sequence[Column[T]], *, wide: bool, no_headers: bool) -> list[str]:
    screen = session.current().terminal
    shown = [column for column in columns if wide or not column.wide]
    cells = [[layout.cell(column.getter(item)) for column in shown] for item in items]
    titles = None if no_headers else [column.title for column in shown]
    # Only cells with a style are asked for it, and only where it would show.
    has_color = screen.has_color(screen.streams.stdout)
    styles = [
        [column.style(item) if column.style and has_color else None for column in shown] for item in items
    ]
    traits = [layout.Trait(shorten=column.shorten, keep=column.keep) for column in shown]
    found, left_out = layout.table(cells, titles, styles, screen.styled, width=screen.width, traits=traits)
    tell_left_out(left_out)
    return found


def tell_left_out(titles: Sequence[str]) -> None:
    """Tell which columns the terminal had no room for."""
    if titles:
        session.current().terminal.note(
            f"no room on this terminal for {', '.join(titles)}; a pipe, or -o json, has everything"
        )


def timestamp(moment: datetime.datetime | None) -> str | None:
    """RFC 3339 in UTC, to the microsecond if there are any; None stays None."""
    if moment is None:
        return None
    return moment.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")


def to_the_second(moment: datetime.datetime | None) -> str | None:
    """The same for people, who read no fractions."""
    return None if moment is None else timestamp(moment.replace(microsecond=0))


def encode(document: Mapping[str, Any], fmt: Format) -> str:
    """`document` as JSON or YAML, in ASCII so that no locale can damage it."""
    text = json.dumps(document, indent=2, default=encode_other)
    if fmt is Format.JSON:
        return text
    import yaml  # noqa: PLC0415 - JSON does without

    # By way of JSON, so that both formats hold the same plain values.
    written: str = yaml.safe_dump(
        json.loads(text), sort_keys=False, default_flow_style=False, width=_NEVER_FOLDED
    )
    return written.rstrip()


def encode_next(document: Mapping[str, Any], fmt: Format) -> str:
    """`document` as the next one of a stream: a line of JSON, or a YAML document after its separator."""
    if fmt is Format.YAML:
        return f"---\n{encode(document, fmt)}"
    return json.dumps(document, default=encode_other, separators=(",", ":"))


def encode_other(value: object) -> object:
    """What a JSON encoder is to write for a value that JSON does not know."""
    if isinstance(value, datetime.datetime):
        return timestamp(value)
    raise TypeError(f"{type(value).__name__} is no plain value")


def asked_format(arguments: Sequence[str], env: Mapping[str, str]) -> Format | None:
    """The format that a command line asks for, found without parsing it: for failures in parsing."""
    found = env.get("TPUCTL_OUTPUT", "")
    words = iter(arguments)
    for word in words:
        if word == "--":
            break
        if word in ("-o", "--output"):
            found = next(words, "")
        elif word.startswith("--output="):
            found = word.removeprefix("--output=")
        elif word.startswith("-o"):
            found = word.removeprefix("-o").removeprefix("=")
    return Format(found) if found in tuple(Format) else None
