"""The options that every command takes, before or after its name."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.main

from tpuctl.cli import completion, output, session

if TYPE_CHECKING:
    from collections.abc import Callable


def _set_flag(name: str) -> Callable[[Any], None]:
    def set_flag(value: Any) -> None:
        # Not given after the command must not undo what was given before it.
        if value is not None and value is not False:
            setattr(session.current().flags, name, value)

    return set_flag


def _set_color(value: Any) -> None:
    if value is None:
        return
    if value not in tuple(output.Color):
        raise typer.BadParameter(f"'{value}' is not one of {', '.join(output.Color)}")
    session.current().terminal.color_flag = value


def _complete_color(incomplete: str) -> list[str]:
    return [word for word in output.Color if word.startswith(incomplete)]


def _set_log_format(value: Any) -> None:
    if value is None:
        return
    if value not in tuple(output.LogFormat):
        raise typer.BadParameter(f"'{value}' is not one of {', '.join(output.LogFormat)}")
    session.current().terminal.log_format_flag = value


def _complete_log_format(incomplete: str) -> list[str]:
    return [word for word in output.LogFormat if word.startswith(incomplete)]


def _set_quiet(value: bool) -> None:
    if value:
        session.current().terminal.quiet = True


def _add_verbosity(value: int) -> None:
    session.current().terminal.verbosity += value or 0


def _options(
    _context: Annotated[
        str | None,
        typer.Option(
            "--context",
            metavar="NAME",
            help="Work on this context.",
            callback=_set_flag("context"),
            autocompletion=completion.complete_contexts,
            expose_value=False,
        ),
    ] = None,
    _config: Annotated[
        str | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="Read this file in place of all others.",
            callback=_set_flag("config"),
            expose_value=False,
        ),
    ] = None,
    _color: Annotated[
        str | None,
        typer.Option(
            "--color",
            metavar="WHEN",
            help="auto, always or never.",
            callback=_set_color,
            autocompletion=_complete_color,
            expose_value=False,
        ),
    ] = None,
    _log_format: Annotated[
        str | None,
        typer.Option(
            "--log-format",
            metavar="FORMAT",
            help="How stderr is written: text, or json, one object a line.",
            callback=_set_log_format,
            autocompletion=_complete_log_format,
            expose_value=False,
        ),
    ] = None,
    _verbose: Annotated[
        int,
        typer.Option(
            "-v",
            "--verbose",
            count=True,
            help="Tell more on stderr; twice for all.",
            callback=_add_verbosity,
            show_default=False,
            expose_value=False,
        ),
    ] = 0,
    _quiet: Annotated[
        bool,
        typer.Option(
            "-q",
            "--quiet",
            help="No progress, no notes.",
            callback=_set_quiet,
            expose_value=False,
        ),
    ] = False,
    _debug: Annotated[
        bool,
        typer.Option(
            "--debug",
            help="Show the traceback of a failure.",
            callback=_set_flag("debug"),
            expose_value=False,
        ),
    ] = False,
) -> None:
    """Stands only for its options."""


def take_as_parsed(param: Any) -> None:
    """Give the parsed value of an option to its callback without typer's conversion.

    Texts, counts and flags need none, and typer's is by pydantic, whose import costs each run 50 ms.
    """

    def process_value(ctx: object, value: Any) -> Any:
        return param.callback(ctx, param, value)

    param.process_value = process_value


@functools.cache
def options() -> tuple[Any, ...]:
    """The options as typer's own objects, to be added to each command."""
    holder = typer.Typer(add_completion=False, rich_markup_mode=None)
    holder.command()(_options)
    found = tuple(typer.main.get_command(holder).params)
    for param in found:
        take_as_parsed(param)
    return found
