"""`tpuctl help`: the page of a command, and topics that belong to none."""

from __future__ import annotations

from typing import Annotated

import typer

from tpuctl.cli import commands, layout, main, session
from tpuctl.model.exit_status import ExitStatus

app = commands.App()

EXIT_CODES = "exit-codes"


def _complete_topic(incomplete: str) -> list[str]:
    words = [*main.GROUPS, *main.COMMANDS, EXIT_CODES]
    return [word for word in words if word.startswith(incomplete)]


@app.command("help")
def help_page(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help="A command, or a topic.", autocompletion=_complete_topic),
    ] = None,
) -> None:
    """Show help on a command or a topic.

    Topics: exit-codes.

    Examples:
      tpuctl help slice form
      tpuctl help exit-codes
    """
    if words == [EXIT_CODES]:
        session.current().terminal.out(exit_codes())
    else:
        commands.show_page(words or [])


def exit_codes() -> str:
    """The whole table, a line each."""
    screen = session.current().terminal
    rows = [(str(status.value), status.meaning) for status in ExitStatus]
    plain = [("", "")] * len(rows)
    return "\n".join(layout.lines(rows, ("CODE", "MEANING"), plain, screen.styled))
