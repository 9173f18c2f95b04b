"""Answer a press of Tab: walk the words through the command tree and offer what may come next.

typer can do this too, but converts every value on the way, which takes longer than a user should wait.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from typing import TYPE_CHECKING, Any, NamedTuple

from tpuctl.cli import commands, main

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tpuctl.cli import session

_SAFE = re.compile(r"[A-Za-z0-9._:/@=+,-]+", re.ASCII)
"""Values that no shell takes for anything but a word; some of the names come from a server."""


def answer(current: session.Session) -> int:
    """Answer a completion script: one candidate per line, for zsh and fish with its help after a tab.

    The words stand in COMP_WORDS (a word per line) and COMP_CWORD (the index of the one being completed), or
    in _TYPER_COMPLETE_ARGS (the line up to the cursor). Always 0: a shell has no use for a failure.
    """
    shell = current.env.get(main.COMPLETE_VARIABLE, "").partition("_")[2]
    # Whatever goes wrong here must not end up in the middle of what the user types.
    with contextlib.suppress(Exception):
        words, incomplete = _words(current.env)
        found = [item for item in candidates(current, words, incomplete) if _SAFE.fullmatch(item.value)]
        if found:
            current.terminal.out("\n".join(_line(item, shell) for item in found))
    return 0


class Candidate(NamedTuple):
    """What may stand at the cursor, and a line about it."""

    value: str
    help: str = ""


class _Place(NamedTuple):
    """Where the words lead: a command, how many of its arguments are there, an option that wants a value."""

    command: Any
    arguments: int
    option: Any | None


def candidates(current: session.Session, words: list[str], incomplete: str) -> list[Candidate]:
    """What may stand in place of `incomplete` after `words`."""
    place = _walk(current, words)
    name, equals, value = incomplete.partition("=")
    if place.option is None and equals and name.startswith("-"):
        option = _option(place.command, name)
        return [Candidate(f"{name}={item.value}") for item in _values(place.command, option, value)]
    if place.option is not None:
        return list(_values(place.command, place.option, incomplete))
    if incomplete.startswith("-"):
        return list(_option_names(place.command, incomplete))
    if isinstance(place.command, commands.Group):
        found = place.command.lines(_context(place.command))
        return [Candidate(*line) for line in found if line[0].startswith(incomplete)]
    return list(_values(place.command, _argument(place), incomplete))


def _walk(current: session.Session, words: list[str]) -> _Place:
    place = _Place(commands.program(), 0, None)
    for word in words:
        if place.option is not None:
            _note_value(current, place.option, word)
            place = place._replace(option=None)
        elif word.startswith("-"):
            name, equals, value = word.partition("=")
            option = _option(place.command, name)
            if equals:
                _note_value(current, option, value)
            elif option is not None and not option.is_flag and not option.count:
                place = place._replace(option=option)
        elif isinstance(place.command, commands.Group):
            place = _Place(place.command.get_command(_context(place.command), word), 0, None)
        else:
            place = place._replace(arguments=place.arguments + 1)
    return place


def _note_value(current: session.Session, option: Any, value: str) -> None:
    """Names are those of the context that the line chooses."""
    for flag, name in (("context", "--context"), ("config", "--config")):
        if option is not None and name in option.opts:
            setattr(current.flags, flag, value)


def _context(command: Any) -> Any:
    """What typer wants to be given; nothing is parsed into it."""
    return command.context_class(command, info_name=command.name, help_option_names=["-h", "--help"])


def _params(command: Any) -> Iterator[Any]:
    for param in command.get_params(_context(command)):
        if not param.hidden:
            yield param


def _option(command: Any, name: str) -> Any | None:
    return next((param for param in _params(command) if name in (*param.opts, *param.secondary_opts)), None)


def _option_names(command: Any, incomplete: str) -> Iterator[Candidate]:
    for param in _params(command):
        if param.param_type_name == "option":
            for name in (*param.opts, *param.secondary_opts):
                if name.startswith(incomplete) and (name.startswith("--") or incomplete == "-"):
                    yield Candidate(name, param.help or "")


def _argument(place: _Place) -> Any | None:
    """The argument at the cursor; one that takes many words takes all that follow."""
    wanted = [param for param in _params(place.command) if param.param_type_name == "argument"]
    for index, param in enumerate(wanted):
        if index == place.arguments or param.nargs == -1:
            return param
    return None


def _values(command: Any, param: Any | None, incomplete: str) -> Iterator[Candidate]:
    for item in param.shell_complete(_context(command), incomplete) if param is not None else ():
        if item.type == "plain":
            yield Candidate(str(item.value), item.help or "")


def _words(env: Mapping[str, str]) -> tuple[list[str], str]:
    """The words before the one being completed, without the program's name, and that one as far as it is."""
    if "COMP_WORDS" in env:
        words, index = _split(env["COMP_WORDS"]), int(env["COMP_CWORD"])
        incomplete = words[index] if index < len(words) else ""
        # bash makes three words of --context=prod.
        return [word for word in words[1:index] if word != "="], "" if incomplete == "=" else incomplete
    line = env.get("_TYPER_COMPLETE_ARGS", "")
    words = _split(line)[1:]
    if words and not line.endswith(" "):
        return words[:-1], words[-1]
    return words, ""


def _split(line: str) -> list[str]:
    """Words as a shell sees them; an open quote counts as closed at the end."""
    lexer = shlex.shlex(line, posix=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    try:
        words.extend(lexer)
    except ValueError:
        words.append(lexer.token)
    return words


def _line(item: Candidate, shell: str) -> str:
    return item.value if shell == "bash" else f"{item.value}\t{' '.join(item.help.split())}"
