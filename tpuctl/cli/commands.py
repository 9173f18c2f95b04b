"""Commands and groups as tpuctl shows and runs them: built on typer, plain help, one error path.

typer draws help with rich boxes that wrap off a terminal and obey FORCE_COLOR; the pages here are plain text
with the examples first. Groups are imported when they are used, see `main.GROUPS`.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import re
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core
import typer.main

# typer carries its own copy of click and exports only part of it; the rest is used here and nowhere else.
from typer._click import exceptions as click_errors

from tpuctl.cli import global_options, main, session
from tpuctl.model import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from typer import _click

_HELP_WIDTH = 100
_SECTION = re.compile(r"^(Usage|[A-Z][A-Za-z ]+:$)", re.MULTILINE)
_GLOBAL = "Global options"
_TYPE_WORDS = {"int": "N", "float": "X", "str": "TEXT", "file": "FILE", "path": "FILE"}
_TYPE = re.compile(rf"<({'|'.join(_TYPE_WORDS)})( range)?>")


class App(typer.Typer):
    """`typer.Typer` with the habits of this program; a group of commands, or the home of a single one."""

    def __init__(self, *, help: str | None = None, **settings: Any) -> None:  # noqa: A002 - typer's word
        if help is not None:
            settings["help"] = help
        super().__init__(
            cls=Group,
            add_completion=False,
            no_args_is_help=True,
            rich_markup_mode=None,
            pretty_exceptions_enable=False,
            **settings,
        )

    def command(
        self, name: str | None = None, *, cls: type[typer.core.TyperCommand] | None = None, **settings: Any
    ) -> Callable[[Any], Any]:
        """Register a command. Its docstring is the help; an `Examples:` section in it comes first."""
        return super().command(name, cls=cls or Command, **settings)


# -- help pages ----------------------------------------------------------------------------------------


def _show_help(ctx: _click.Context, _param: object, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        _write_page(ctx)
        raise typer.Exit


def _write_page(ctx: _click.Context) -> None:
    screen = session.current().terminal
    screen.out(_SECTION.sub(lambda match: screen.styled(match.group(), "bold"), ctx.get_help()))


def _write_text(command: _click.Command, formatter: _click.HelpFormatter) -> None:
    """Summary, examples word for word, then the rest of the docstring."""
    summary, examples, rest = _parts(command.help or "")
    with formatter.indentation():
        formatter.write("\n")
        formatter.write_text(summary)
        for line in ("", *examples) if examples else ():
            formatter.write(f"  {line}".rstrip() + "\n")
        if rest:
            formatter.write("\n")
            formatter.write_text(rest)


def _parts(text: str) -> tuple[str, list[str], str]:
    before, _, after = inspect.cleandoc(text).partition("\nExamples:\n")
    summary, _, rest = before.strip().partition("\n\n")
    example_lines = inspect.cleandoc(after).splitlines() if after else []
    return summary, ["Examples:", *(f"  {line}" for line in example_lines)] if example_lines else [], rest


def _write_options(command: _click.Command, ctx: _click.Context, formatter: _click.HelpFormatter) -> None:
    sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": [], _GLOBAL: []}
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx)
        if record is not None:
            section = _section(param)
            name = str(param.metavar) if section == "Arguments" else _with_our_words(record[0])
            sections[section].append((name, record[1]))
    for title, records in sections.items():
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


def _usage_of(argument: Any) -> str:
    """`CUBE`, `[CUBE]` or `[CUBE]...`: typer puts brackets around brackets, and the type's Python name in."""
    word = argument.metavar if argument.required else f"[{argument.metavar}]"
    return f"{word}..." if argument.nargs == -1 else word


def _with_our_words(name: str) -> str:
    """`--blocks N` where typer writes the Python type, `--blocks <int range>`."""
    return _TYPE.sub(lambda match: _TYPE_WORDS[match.group(1)], name)


def _section(param: Any) -> str:
    if param in global_options.options():
        return _GLOBAL
    return "Arguments" if param.param_type_name == "argument" else "Options"


def _short_help(command: _click.Command) -> str:
    return inspect.cleandoc(command.short_help or command.help or "").partition("\n")[0]


class Command(typer.core.TyperCommand):
    """A command with global options and a plain help page."""

    def __init__(self, *args: Any, params: Sequence[Any] | None = None, **settings: Any) -> None:
        super().__init__(*args, params=[*(params or ()), *global_options.options()], **settings)

    def get_help_option(self, ctx: _click.Context) -> typer.core.TyperOption | None:
        return _with_our_page(super().get_help_option(ctx))

    def format_help_text(self, ctx: _click.Context, formatter: _click.HelpFormatter) -> None:  # noqa: ARG002
        _write_text(self, formatter)

    def format_options(self, ctx: _click.Context, formatter: _click.HelpFormatter) -> None:
        _write_options(self, ctx, formatter)

    def collect_usage_pieces(self, ctx: _click.Context) -> list[str]:
        params = self.get_params(ctx)
        return ["[OPTIONS]", *(_usage_of(param) for param in params if param.param_type_name == "argument")]

    def get_short_help_str(self, limit: int = 45) -> str:  # noqa: ARG002 - whole lines, never "..."
        return _short_help(self)


class Group(typer.core.TyperGroup):
    """A group of commands with global options and a plain help page."""

    def __init__(self, *args: Any, params: Sequence[Any] | None = None, **settings: Any) -> None:
        super().__init__(*args, params=[*(params or ()), *global_options.options()], **settings)

    def get_help_option(self, ctx: _click.Context) -> typer.core.TyperOption | None:
        return _with_our_page(super().get_help_option(ctx))

    def format_help_text(self, ctx: _click.Context, formatter: _click.HelpFormatter) -> None:  # noqa: ARG002
        _write_text(self, formatter)

    def format_options(self, ctx: _click.Context, formatter: _click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        _write_options(self, ctx, formatter)

    def format_commands(self, ctx: _click.Context, formatter: _click.HelpFormatter) -> None:
        rows = [(name, help_line) for name, help_line in self.lines(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def lines(self, ctx: _click.Context) -> Iterable[tuple[str, str]]:
        """Name and one-line help of each visible command."""
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                yield name, command.get_short_help_str()

    def get_short_help_str(self, limit: int = 45) -> str:  # noqa: ARG002 - whole lines, never "..."
        return _short_help(self)

    def resolve_command(
        self, ctx: _click.Context, args: list[str]
    ) -> tuple[str | None, _click.Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is None and not ctx.resilient_parsing and args[0][:1] != "-":
            near = difflib.get_close_matches(args[0], self.list_commands(ctx), n=2)
            guess = f"; did you mean {' or '.join(near)}?" if near else ""
            ctx.fail(f"no such command '{args[0]}'{guess}")
        return super().resolve_command(ctx, args)


def _with_our_page(option: typer.core.TyperOption | None) -> typer.core.TyperOption | None:
    if option is not None:
        option.callback = _show_help
        option.help = "Show this page and exit."
        global_options.take_as_parsed(option)
    return option


# -- the program ---------------------------------------------------------------------------------------


class Program(Group):
    """The root: knows its groups by name and one line of help, and imports one when it is used."""

    def list_commands(self, ctx: _click.Context) -> list[str]:  # noqa: ARG002 - the same in every context
        return [*main.GROUPS, *main.COMMANDS]

    def get_command(self, ctx: _click.Context, cmd_name: str) -> _click.Command | None:  # noqa: ARG002
        return _load(cmd_name)

    def lines(self, ctx: _click.Context) -> Iterable[tuple[str, str]]:  # noqa: ARG002
        return [(name, line) for name, (_, line) in (main.GROUPS | main.COMMANDS).items()]


@functools.cache
def _load(name: str) -> _click.Command | None:
    """The group or command called `name`, with its module imported now."""
    if name in main.GROUPS:
        command: Any = typer.main.get_group(importlib.import_module(main.GROUPS[name][0]).app)
    elif name in main.COMMANDS:
        command = typer.main.get_command(importlib.import_module(main.COMMANDS[name][0]).app)
    else:
        return None
    command.name = name
    return command  # type: ignore[no-any-return] # a module's `app` has no type


def _show_version(ctx: typer.Context, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        session.current().terminal.out(main.version_line())
        raise typer.Exit


@functools.cache
def program() -> Program:
    """The whole command tree."""
    app = App(invoke_without_command=False)

    @app.callback(cls=Program)
    def tpuctl(
        _version: Annotated[
            bool,
            typer.Option(
                "--version",
                help="Print the version and exit.",
                callback=_show_version,
                is_eager=True,
                expose_value=False,
            ),
        ] = False,
    ) -> None:
        """Operate a fixed fleet of TPU7x on GKE: cubes, slices, health.

        Examples:
          tpuctl demo                                        the tour, on a simulated fleet
          tpuctl sim start --detach                          a simulated fleet to try things on
          tpuctl nodepool setup                              reserved capacity becomes cubes
          tpuctl slice form train-a --topology 8x16x16       32 cubes become one slice of 2,048 chips
          tpuctl slice list -o json                          for programs
        """

    group = typer.main.get_group(app)
    if not isinstance(group, Program):
        raise TypeError("typer did not build the root from its class")
    return group


def invoke(current: session.Session) -> int:
    """Parse and run the command line; returns the command's exit status, raises everything else."""
    root = program()
    context = root.make_context(current.program, list(current.arguments), **_context_settings())
    with context:
        result = root.invoke(context)
    # A command returns nothing, or the exit status that tells more than "done".
    return result if isinstance(result, int) else 0


def show_page(words: Sequence[str]) -> None:
    """Write the help page of the command that `words` name; none is the program's own page.

    Raises UsageError if there is no such command.
    """
    root: _click.Command = program()
    context = _page_context(root, session.current().program, None)
    for word in words:
        parent = context.command
        command = parent.get_command(context, word) if isinstance(parent, Group) else None
        if command is None:
            raise errors.UsageError(
                f"there is no command '{' '.join(words)}'", hint=f"see `{_words(context)} --help`"
            )
        context = _page_context(command, word, context)
    _write_page(context)


def _page_context(command: _click.Command, name: str, parent: _click.Context | None) -> _click.Context:
    """A context to draw a page in: nothing is required of the arguments."""
    settings = _context_settings() if parent is None else {}
    return command.make_context(name, [], parent=parent, resilient_parsing=True, **settings)


def _context_settings() -> dict[str, Any]:
    width = session.current().terminal.width
    return {
        "help_option_names": ["-h", "--help"],
        "terminal_width": min(width, _HELP_WIDTH) if width else _HELP_WIDTH,
    }


def path_of(error: BaseException) -> str | None:
    """The command that a usage error is about, as typed: `tpuctl slice form`."""
    if isinstance(error, click_errors.UsageError) and error.ctx is not None:
        return _words(error.ctx)
    return None


def _words(ctx: _click.Context | None) -> str:
    """Names only; typer's own path repeats the arguments of parents."""
    return "" if ctx is None else f"{_words(ctx.parent)} {ctx.info_name or ''}".strip()


def is_missing_command(error: BaseException) -> bool:
    """If true, a group was called without saying which of its commands."""
    if isinstance(error, click_errors.NoArgsIsHelpError):
        return True
    return isinstance(error, click_errors.UsageError) and error.message == "Missing command."


def page_of(error: BaseException) -> str:
    """The help page of the command that a usage error is about."""
    if isinstance(error, click_errors.UsageError) and error.ctx is not None:
        return error.ctx.get_help()
    return ""
