"""What an admin sees and answers: the streams, whether they are terminals, colour, width, questions.

Results go to stdout through `out`; everything else goes to stderr. Off a terminal nothing is coloured,
wrapped or shortened. Whether a stream is a terminal is asked of the stream, never guessed from a variable.
"""

from __future__ import annotations

import errno
import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from tpuctl.model import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import rich.console

    from tpuctl.cli import progress

_STYLES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))} | {9: " ", 10: " ", 13: " "}
_UNLIMITED_WIDTH = 100_000


class OutputClosed(Exception):
    """Whoever read our stdout went away (`| head`): no failure, but nothing is left to do either."""


class Terminated(BaseException):
    """SIGTERM came in; like KeyboardInterrupt it must pass every `except Exception`."""


class Streams(NamedTuple):
    """The three streams; one that the parent closed is None."""

    stdin: TextIO | None
    stdout: TextIO | None
    stderr: TextIO | None


class Terminal:
    """The only owner of the streams."""

    def __init__(
        self,
        streams: Streams,
        env: Mapping[str, str],
        *,
        monotonic_s: Callable[[], float] = time.monotonic,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self.streams = streams
        self.env = env
        self.monotonic_s = monotonic_s
        """Real seconds: heartbeats are for the reader of a log, whose time is never simulated."""
        self.wall_s = wall_s
        """Real seconds since 1970, for the time in lines of a log."""
        self.log_format_flag: str | None = None
        self.configured_log_format: str = "text"
        self._about: dict[str, str] = {}
        self.color_flag: str | None = None
        self.configured_color: str = "auto"
        self.no_input = False
        self.quiet = False
        self.verbosity = 0
        self.interrupt_note: str | None = None
        """What a command wants said if it is interrupted now, for example what goes on remotely."""
        self.wrote_result = False
        self._reporter: progress.LiveReporter | None = None
        self._stderr_broken = streams.stderr is None

    # -- what kind of streams --------------------------------------------------------------------

    @property
    def stdout_is_terminal(self) -> bool:
        return _is_terminal(self.streams.stdout)

    @property
    def stderr_is_terminal(self) -> bool:
        return _is_terminal(self.streams.stderr)

    @property
    def is_dumb(self) -> bool:
        """If true, the terminal cannot move its cursor: no colour by itself, no live line."""
        return self.env.get("TERM", "") in ("dumb", "unknown")

    @property
    def can_ask(self) -> bool:
        """If true, somebody is there: the question goes to stderr, the answer comes from stdin."""
        return not self.no_input and _is_terminal(self.streams.stdin) and self.stderr_is_terminal

    @property
    def width(self) -> int | None:
        """Columns of the terminal on stdout; None off a terminal, where lines may be of any length."""
        return self._width(self.streams.stdout)

    def _width(self, stream: TextIO | None) -> int | None:
        if stream is None or not _is_terminal(stream):
            return None
        wished = self.env.get("COLUMNS", "")
        if wished.isascii() and wished.isdigit() and int(wished) > 0:
            return int(wished)
        try:
            return os.get_terminal_size(stream.fileno()).columns or None
        except (OSError, ValueError):
            return None

    # -- colour ----------------------------------------------------------------------------------

    def has_color(self, stream: TextIO | None) -> bool:
        """Colour for `stream`: --color, TPUCTL_COLOR, config file, NO_COLOR, CLICOLOR_FORCE, terminal."""
        for choice in (self.color_flag, self.env.get("TPUCTL_COLOR"), self.configured_color):
            if choice in ("always", "never"):
                return choice == "always"
            if choice == "auto":
                break
        if self.env.get("NO_COLOR"):
            return False
        if any(self.env.get(name, "0") not in ("", "0") for name in ("CLICOLOR_FORCE", "FORCE_COLOR")):
            return True
        return _is_terminal(stream) and not self.is_dumb

    def styled(self, text: str, style: str | None) -> str:
        """`text` for stdout in a style of `_STYLES` (several with blanks between), if stdout has colour."""
        return _paint(text, style) if self.has_color(self.streams.stdout) else text

    # -- writing ---------------------------------------------------------------------------------

    def out(self, text: str) -> None:
        """Write a result and a line end to stdout.

        Raises OutputClosed if the reader went away, TpuctlError if it cannot be stored.
        """
        self.pause()
        self.wrote_result = True
        stream = self.streams.stdout
        if stream is None:
            raise errors.TpuctlError("cannot write the result: standard output is closed")
        try:
            stream.write(f"{text}\n")
            stream.flush()
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise OutputClosed from error
            raise errors.TpuctlError(f"cannot write the result: {error.strerror}") from error

    @property
    def logs_json(self) -> bool:
        """If true, what goes to stderr is one JSON object a line: --log-format, TPUCTL_LOG_FORMAT, file."""
        return (
            self.log_format_flag or self.env.get("TPUCTL_LOG_FORMAT") or self.configured_log_format
        ) == "json"

    def be_about(self, about: Mapping[str, str]) -> None:
        """What lines of a JSON log are about from now on: `cycle`, `plan`, `object`; nothing if empty."""
        self._about = dict(about)

    def note(self, text: str, **fields: object) -> None:
        """Tell something that is no result and no trouble; `--quiet` leaves it out.

        `fields` are further keys of the line in a JSON log, and nothing otherwise.
        """
        if not self.quiet:
            self._tell("info", text, text, fields)

    def verbose(self, text: str, *, level: int = 1) -> None:
        """Tell something only at `-v` (level 1) or `-vv` (level 2)."""
        if self.verbosity >= level:
            self._tell("debug", text, self._painted(text, "dim"), {})

    def warn(self, text: str, **fields: object) -> None:
        self._tell("warning", text, f"{self._painted('warning:', 'bold yellow')} {text}", fields)

    def error(self, text: str, *, details: tuple[str, ...] = (), hint: str | None = None) -> None:
        """The one message about a failure: what failed, facts, what to do next."""
        lines = [f"{self._painted('error:', 'bold red')} {text}", *(f"  {detail}" for detail in details)]
        if hint:
            lines.append(f"{self._painted('hint:', 'bold cyan')} {hint}")
        self._tell("error", text, "\n".join(lines), {"details": details, "hint": hint})

    def problem(self, text: str) -> None:
        """Write to stderr as it is. A reader who went away must not stop work half done: that is ignored."""
        self._tell("info", text, text, {})

    def _tell(self, level: str, message: str, shown: str, fields: Mapping[str, object]) -> None:
        """One message, as `shown` to people or as a line of a JSON log."""
        self.pause()
        if self.logs_json:
            from tpuctl.cli import json_log  # noqa: PLC0415 - people do without

            shown = json_log.line(self.wall_s(), level, message, {**self._about, **fields})
        else:
            shown = _folded(shown, self._width(self.streams.stderr))
        self._to_stderr(f"{shown}\n")

    def _to_stderr(self, text: str) -> None:
        stream = self.streams.stderr
        if stream is None or self._stderr_broken:
            return
        try:
            stream.write(text)
            stream.flush()
        except OSError:
            self._stderr_broken = True

    def _painted(self, text: str, style: str) -> str:
        return _paint(text, style) if self.has_color(self.streams.stderr) else text

    # -- rich ------------------------------------------------------------------------------------

    def console(self, *, stderr: bool = False) -> rich.console.Console:
        """A rich console on stdout (or stderr) that follows the rules of this module."""
        import rich.console  # noqa: PLC0415 - 50 ms that a piped list does not need

        stream = self.streams.stderr if stderr else self.streams.stdout
        color = self.has_color(stream)
        return rich.console.Console(
            file=stream,
            force_terminal=_is_terminal(stream),
            force_interactive=_is_terminal(stream) and not self.is_dumb,
            color_system="standard" if color else None,
            no_color=not color,
            width=self._width(stream) or _UNLIMITED_WIDTH,
            legacy_windows=False,
            markup=False,
            emoji=False,
            highlight=False,
        )

    # -- progress --------------------------------------------------------------------------------

    def reporter(self) -> progress.Reporter:
        """Where ops tells what happens: a live line on a terminal, else a line per change."""
        from tpuctl.cli import progress  # noqa: PLC0415 - most commands show none

        if self.quiet:
            return progress.QuietReporter(self)
        if self.logs_json:
            return progress.JsonReporter(self)
        if self.stderr_is_terminal and not self.is_dumb:
            self._reporter = self._reporter or progress.LiveReporter(self)
            return self._reporter
        return progress.PlainReporter(self)

    def pause(self) -> None:
        """Take the live line away so that something else can be written."""
        if self._reporter is not None:
            self._reporter.stop()

    def close(self) -> None:
        """Leave the terminal as it was found."""
        self.pause()
        self._reporter = None

    # -- questions -------------------------------------------------------------------------------

    def require_answers(self, *, yes: bool, what: str = "this needs a confirmation") -> None:
        """Raise Declined at once if a confirmation will be needed and nobody can give it."""
        if not yes and not self.can_ask:
            raise errors.Declined(
                f"{what}, and there is no terminal to ask on",
                hint="nothing was done; pass --yes to go ahead without a question",
            )

    def confirm(self, text: str, *, yes: bool = False) -> None:
        """Ask y/N; anything but a plain yes raises Declined. `yes` (from `--yes`) skips the question."""
        self.require_answers(yes=yes)
        if not yes and self._ask(f"{text} [y/N] ").lower() not in ("y", "yes"):
            raise errors.Declined("declined; nothing was done")

    def confirm_name(self, text: str, name: str, *, yes: bool = False) -> None:
        """Ask for the object's name, for disruptive acts; anything else raises Declined."""
        self.require_answers(yes=yes)
        if yes:
            return
        answer = self._ask(f"{text}\nType {name} to go ahead: ")
        if answer != name:
            raise errors.Declined(f"declined: '{answer}' is not '{name}'; nothing was done")

    def read_stdin(self) -> str:
        """All of stdin, for `-f -`; raises UsageError if it is closed or not UTF-8."""
        if self.streams.stdin is None:
            raise errors.UsageError("standard input is closed")
        try:
            return self.streams.stdin.read()
        except UnicodeDecodeError as error:
            raise errors.UsageError("standard input is not text in UTF-8") from error

    def _ask(self, question: str) -> str:
        self.pause()
        self._to_stderr(question)
        stream = self.streams.stdin
        line = stream.readline() if stream is not None else ""
        if not line:
            self._to_stderr("\n")
            raise errors.Declined("the input ended before an answer was given; nothing was done")
        return line.strip()


def printable(text: object) -> str:
    """`text` on one line without control characters: names and messages come from elsewhere."""
    return str(text).translate(_CONTROL)


def _folded(text: str, width: int | None) -> str:
    """`text` in lines that end between words; lines with a command stay whole, so that it can be copied."""
    if width is None or len(text) <= width:
        return text
    import textwrap  # noqa: PLC0415 - only long lines on a terminal

    shown = []
    for line in text.split("\n"):
        if len(line) <= width or "tpuctl " in line:
            shown.append(line)
            continue
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        shown += textwrap.wrap(
            line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
    return "\n".join(shown)


def _is_terminal(stream: TextIO | Any | None) -> bool:
    try:
        return stream is not None and bool(stream.isatty())
    except ValueError:  # closed
        return False


def _paint(text: str, style: str | None) -> str:
    codes = ";".join(_STYLES[word] for word in (style or "").split())
    return f"\x1b[{codes}m{text}\x1b[0m" if codes and text else text
