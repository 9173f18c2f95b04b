"""Colour, questions, progress: on a terminal and off it."""

from __future__ import annotations

import errno
import io

import pytest

from tests.cli.conftest import Stream
from tpuctl.cli import progress, terminal
from tpuctl.model import errors


def make(stdin="", *, is_terminal=False, env=None, now=lambda: 0.0):
    streams = terminal.Streams(
        Stream(stdin, is_terminal=is_terminal),
        Stream(is_terminal=is_terminal),
        Stream(is_terminal=is_terminal),
    )
    return terminal.Terminal(streams, {"TERM": "xterm", **(env or {})}, monotonic_s=now)


def err(screen):
    return screen.streams.stderr.getvalue()


@pytest.mark.parametrize(
    ("flag", "env", "is_terminal", "wanted"),
    [
        (None, {}, True, True),
        (None, {}, False, False),
        (None, {"NO_COLOR": "1"}, True, False),
        (None, {"NO_COLOR": ""}, True, True),
        (None, {"FORCE_COLOR": "1"}, False, True),
        (None, {"FORCE_COLOR": "0"}, False, False),
        (None, {"CLICOLOR_FORCE": "1"}, False, True),
        (None, {"CLICOLOR_FORCE": "0"}, True, True),
        (None, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        (None, {"TERM": "dumb"}, True, False),
        (None, {"TPUCTL_COLOR": "always", "NO_COLOR": "1"}, False, True),
        (None, {"TPUCTL_COLOR": "never", "FORCE_COLOR": "1"}, True, False),
        (None, {"TPUCTL_COLOR": "auto"}, True, True),
        ("never", {"TPUCTL_COLOR": "always"}, True, False),
        ("always", {"TPUCTL_COLOR": "never", "NO_COLOR": "1"}, False, True),
        ("auto", {"TPUCTL_COLOR": "always"}, False, False),
        ("auto", {"NO_COLOR": "1"}, True, False),
    ],
)
def test_colour(flag, env, is_terminal, wanted):
    screen = make(is_terminal=is_terminal, env=env)
    screen.color_flag = flag
    assert screen.has_color(screen.streams.stdout) is wanted
    assert screen.styled("x", "bold red") == ("\x1b[1;31mx\x1b[0m" if wanted else "x")


@pytest.mark.parametrize("env", [{"FORCE_COLOR": "1"}, {"CI": "1"}, {"COLUMNS": "40"}])
def test_variables_decide_neither_width_nor_questions(env):
    screen = make(env=env)
    assert screen.width is None
    assert not screen.can_ask
    assert isinstance(screen.reporter(), progress.PlainReporter)


@pytest.mark.parametrize(("columns", "wanted"), [("40", 40), ("0", None), ("wide", None), ("", None)])
def test_width_of_a_terminal(columns, wanted):
    # The stream is no real terminal, so only the variable can tell.
    assert make(is_terminal=True, env={"COLUMNS": columns}).width == wanted


@pytest.mark.parametrize("answer", ["y\n", "YES\n", " y \n"])
def test_confirm_yes(answer):
    screen = make(answer, is_terminal=True)
    screen.confirm("Take slice a apart?")
    assert err(screen) == "Take slice a apart? [y/N] "
    assert screen.streams.stdout.getvalue() == ""


@pytest.mark.parametrize("answer", ["\n", "n\n", "yep\n", "", "да\n"])
def test_confirm_anything_else_declines(answer):
    with pytest.raises(errors.Declined):
        make(answer, is_terminal=True).confirm("Go?")


def test_confirm_name():
    make("train-a\n", is_terminal=True).confirm_name("512 pods run on it.", "train-a")
    for answer in ("y\n", "\n", "train-b\n", ""):
        with pytest.raises(errors.Declined):
            make(answer, is_terminal=True).confirm_name("512 pods run on it.", "train-a")


@pytest.mark.parametrize("method", ["confirm", "confirm_name"])
def test_without_a_terminal_nobody_is_asked(method):
    rest = ["x"] if method == "confirm_name" else []
    screen = make("y\n")
    with pytest.raises(errors.Declined) as caught:
        getattr(screen, method)("Go?", *rest)
    assert "--yes" in caught.value.hint
    assert err(screen) == ""
    getattr(screen, method)("Go?", *rest, yes=True)


def test_no_input_counts_as_no_terminal():
    screen = make("y\n", is_terminal=True)
    screen.no_input = True
    with pytest.raises(errors.Declined):
        screen.confirm("Go?")


def test_both_ends_of_a_question_must_be_terminals():
    streams = terminal.Streams(Stream("y\n", is_terminal=True), Stream(is_terminal=True), Stream())
    assert not terminal.Terminal(streams, {}).can_ask
    assert not terminal.Terminal(terminal.Streams(None, None, None), {}).can_ask
    closed = io.StringIO()
    closed.close()
    assert not terminal.Terminal(terminal.Streams(closed, closed, closed), {}).can_ask


def test_plain_progress_is_a_line_per_change_and_a_heartbeat():
    now = [0.0]
    screen = make(now=lambda: now[0])
    reporter = screen.reporter()
    for seconds, text in ((0, "forming"), (1, "forming"), (2, "active"), (50, "active"), (62, "active")):
        now[0] = seconds
        reporter.step(text)
    reporter.progress(3, 144, "pools")
    reporter.progress(3, 144, "pools")
    reporter.progress(4, 144, "pools")
    reporter.warn("odd")
    assert err(screen).splitlines() == [
        "forming",
        "active",
        "still: active",
        "pools (3/144)",
        "pools (4/144)",
        "warning: odd",
    ]
    assert screen.streams.stdout.getvalue() == ""


def test_quiet_keeps_warnings():
    screen = make()
    screen.quiet = True
    reporter = screen.reporter()
    reporter.step("forming")
    reporter.progress(1, 2, "pools")
    reporter.warn("odd")
    screen.note("note")
    assert err(screen) == "warning: odd\n"


def test_live_progress_leaves_nothing_behind():
    screen = make(is_terminal=True, env={"COLUMNS": "80"})
    reporter = screen.reporter()
    assert isinstance(reporter, progress.LiveReporter)
    reporter.step("[forming] slice a")
    reporter.progress(3, 144, "pools")
    screen.out("result")
    reporter.progress(4, 144, "pools")
    screen.close()
    shown = err(screen)
    assert "[forming] slice a" in shown
    assert "3/144" in shown
    assert shown.rstrip().endswith("\x1b[2K")
    assert screen.streams.stdout.getvalue() == "result\n"


def test_messages_break_between_words_but_commands_stay_whole():
    screen = make(is_terminal=True, env={"COLUMNS": "40", "NO_COLOR": "1"})
    screen.note("blast radius in context sim: 16 pods restart, 496 stay")
    screen.error("no", hint="see: tpuctl operation show swap-train-a-0123456789")
    assert err(screen).splitlines() == [
        "blast radius in context sim: 16 pods",
        "  restart, 496 stay",
        "error: no",
        "hint: see: tpuctl operation show swap-train-a-0123456789",
    ]
    piped = make(env={"COLUMNS": "40"})
    piped.note("blast radius in context sim: 16 pods restart, 496 stay")
    assert len(err(piped).splitlines()) == 1


def test_dumb_terminal_gets_lines():
    assert isinstance(make(is_terminal=True, env={"TERM": "dumb"}).reporter(), progress.PlainReporter)


class Broken(io.StringIO):
    def __init__(self, number):
        super().__init__()
        self._number = number

    def write(self, _text):
        raise OSError(self._number, "broken")


def test_a_reader_of_stderr_who_left_stops_no_work():
    screen = terminal.Terminal(terminal.Streams(Stream(), Stream(), Broken(errno.EPIPE)), {})
    screen.note("one")
    screen.reporter().step("two")
    screen.out("result")
    assert screen.streams.stdout.getvalue() == "result\n"


def test_a_reader_of_stdout_who_left_is_no_failure():
    screen = terminal.Terminal(terminal.Streams(Stream(), Broken(errno.EPIPE), Stream()), {})
    with pytest.raises(terminal.OutputClosed):
        screen.out("result")
    screen = terminal.Terminal(terminal.Streams(Stream(), Broken(errno.EIO), Stream()), {})
    with pytest.raises(errors.TpuctlError, match="cannot write the result"):
        screen.out("result")


def test_verbose():
    screen = make()
    screen.verbose("one")
    screen.verbosity = 1
    screen.verbose("two")
    screen.verbose("three", level=2)
    assert err(screen) == "two\n"


def test_console_follows_the_rules():
    off = make(env={"FORCE_COLOR": "1", "COLUMNS": "10"}).console()
    assert (off.is_terminal, off.width) == (False, 100_000)
    on = make(is_terminal=True, env={"COLUMNS": "50", "NO_COLOR": "1"}).console()
    assert (on.is_terminal, on.width, on.no_color) == (True, 50, True)
