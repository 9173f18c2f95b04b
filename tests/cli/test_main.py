"""The way in and out: usage, failures, exit codes, interruptions, streams that break."""

from __future__ import annotations

import json
import pathlib
import re
import signal
import subprocess
import sys
import types

import pytest
import yaml

from tpuctl.cli import commands, failures, main, session, terminal
from tpuctl.model import errors
from tpuctl.model.exit_status import ExitStatus

ERRORS = [
    kind for kind in vars(errors).values() if isinstance(kind, type) and kind.__module__ == errors.__name__
]


@pytest.fixture
def boom(monkeypatch):
    """A command `boom` that does what the test wants."""
    module = types.ModuleType("boom_command")
    module.app = commands.App()
    acts = []

    @module.app.command("boom")
    def run(fmt: str = "") -> object:
        return acts[-1]()

    monkeypatch.setitem(sys.modules, "boom_command", module)
    monkeypatch.setitem(main.COMMANDS, "boom", ("boom_command", "Fails."))
    commands._load.cache_clear()
    yield acts.append
    commands._load.cache_clear()


def raiser(error):
    def act():
        raise error

    return act


def test_version(tpuctl):
    plain = tpuctl("--version")
    assert re.fullmatch(r"tpuctl \d+\.\d+\.\d+\n", plain.out)
    assert (plain.status, plain.err) == (0, "")
    assert tpuctl("--debug", "--version") == plain
    assert tpuctl("version") == plain


def test_help_leads_with_examples_and_lists_everything(tpuctl):
    page = tpuctl("--help")
    assert (page.status, page.err) == (0, "")
    assert page.out.index("Examples:") < page.out.index("Commands:") < page.out.index("Options:")
    for name in (*main.GROUPS, *main.COMMANDS):
        assert re.search(rf"^  {name} +\S", page.out, re.MULTILINE)
    assert tpuctl("-h") == page
    assert tpuctl("help") == page


@pytest.mark.parametrize("name", [*main.GROUPS, *main.COMMANDS])
def test_every_group_has_a_page_that_agrees_with_the_list(tpuctl, name):
    page = tpuctl(name, "-h")
    assert (page.status, page.err) == (0, "")
    assert page.out.startswith(f"Usage: tpuctl {name} ")
    assert tpuctl("help", name) == page
    module, line = {**main.GROUPS, **main.COMMANDS}[name]
    assert sys.modules[module].app is not None
    if name in main.GROUPS:
        assert page.out.splitlines()[2].strip() == line


def test_kubectl_plugin_calls_itself_so(tpuctl):
    assert tpuctl("topology", "-h", program="kubectl tpu").out.startswith("Usage: kubectl tpu topology ")


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["topolgy"], "no such command 'topolgy'; did you mean topology?", "see `tpuctl --help`"),
        (["zzz"], "no such command 'zzz'", "see `tpuctl --help`"),
        (
            ["topology", "explian"],
            "no such command 'explian'; did you mean explain?",
            "see `tpuctl topology --help`",
        ),
        (["topology", "explain"], "missing argument 'TOPOLOGY'", "see `tpuctl topology explain --help`"),
        (
            ["topology", "list", "--cubse", "3"],
            "no such option: --cubse (Possible options: --cubes, --verbose)",
            "see `tpuctl topology list --help`",
        ),
        (
            ["topology", "list", "--cubes", "0"],
            "invalid value for '--cubes': expected 1 or more",
            "see `tpuctl topology list --help`",
        ),
        (
            ["--color", "blue", "version"],
            "invalid value for '--color': 'blue' is not one of auto, always, never",
            "see `tpuctl --help`",
        ),
        (["help", "nothing"], "there is no command 'nothing'", "see `tpuctl --help`"),
    ],
)
def test_usage_error(tpuctl, arguments, message, hint):
    result = tpuctl(*arguments)
    assert result.err.lower() == f"error: {message}\nhint: {hint}\n".lower()
    assert (result.status, result.out) == (64, "")


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("nodepool delete", "NAME..."),
        ("health check", "[CUBE|SLICE|BLOCK]..."),
        ("sim faults clear", "[ID]..."),
        ("context show", "[NAME]"),
        ("reconcile apply", "[PLAN]"),
        ("help", "[COMMAND]..."),
        ("sim inject", "FAULT [TARGET]"),
        ("topology list", ""),
    ],
)
def test_usage_lines(tpuctl, command, wanted):
    first = tpuctl(*command.split(), "--help").out.splitlines()[0]
    assert first == f"Usage: tpuctl {command} [OPTIONS] {wanted}".rstrip()


def test_numbers_and_spans_are_refused_in_our_words(tpuctl):
    wrong = tpuctl("slice", "form", "x", "--chips", "many")
    assert (wrong.status, "'--chips': expected a whole number" in wrong.err) == (64, True)
    wrong = tpuctl("capacity", "simulate", "--load", "heavy")
    assert (wrong.status, "'--load': expected a number" in wrong.err) == (64, True)
    for span in ("90", "90s", "5m", "1.5h"):
        # It is read; only there is no simulator.
        assert tpuctl("sim", "advance", span).status == 5
        assert tpuctl("sim", "inject", "maintenance", "c1", "--after", span, "--for", span).status == 5
    wrong = tpuctl("sim", "advance", "soon")
    assert (wrong.status, "'soon' is not a span of time" in wrong.err) == (64, True)


def test_bad_choice_names_the_choices(tpuctl):
    result = tpuctl("topology", "list", "-o", "xml")
    assert result.status == 64
    assert result.err.startswith("error: invalid value for '-o' / '--output': 'xml' is not one of 'table', ")


@pytest.mark.parametrize("arguments", [[], ["topology"], ["--debug"]])
def test_no_command_shows_what_there_is(tpuctl, arguments):
    result = tpuctl(*arguments)
    assert (result.status, result.out) == (64, "")
    assert "Commands:\n" in result.err
    assert "error: a command is needed\nhint: see `tpuctl" in result.err


@pytest.mark.parametrize("kind", ERRORS)
def test_every_error_has_its_status_and_words(tpuctl, boom, kind):
    boom(raiser(kind("it broke", hint="mend it", details=("fact one", "fact two"))))
    result = tpuctl("boom")
    assert result.status == kind.exit_status
    assert result.err == "error: it broke\n  fact one\n  fact two\nhint: mend it\n"
    assert result.out == ""


@pytest.mark.parametrize(("fmt", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_error_object(tpuctl, boom, fmt, read):
    boom(raiser(errors.Busy("busy", hint="wait", details=("op-1",))))
    # `boom` has no -o of its own; the setting asks for documents just the same.
    result = tpuctl("boom", env={"TPUCTL_OUTPUT": fmt})
    assert read(result.out) == {
        "apiVersion": "tpuctl/v1",
        "kind": "Error",
        "code": "Busy",
        "message": "busy",
        "hint": "wait",
        "retryable": True,
        "details": ["op-1"],
    }
    assert (result.status, result.err) == (75, "error: busy\n  op-1\nhint: wait\n")


def test_usage_error_object(tpuctl):
    result = tpuctl("topology", "explain", "4x8x4", "-o", "json")
    found = json.loads(result.out)
    assert (found["code"], found["hint"]) == ("TopologyError", "nearest legal shapes: 4x4x8")
    assert result.status == 64


def test_a_result_stays_the_only_document(tpuctl, boom):
    def act():
        session.current().terminal.out("{}")
        raise errors.PartlyDone("one of two failed")

    boom(act)
    result = tpuctl("boom", env={"TPUCTL_OUTPUT": "json"})
    assert (result.status, result.out, result.err) == (7, "{}\n", "error: one of two failed\n")


@pytest.mark.parametrize("status", list(ExitStatus))
def test_a_command_may_return_any_status_of_the_table(tpuctl, boom, status):
    boom(lambda: status)
    assert tpuctl("boom").status == status


def test_exit_codes_page_is_the_table(tpuctl):
    lines = tpuctl("help", "exit-codes").out.splitlines()
    assert lines[0] == "CODE  MEANING"
    assert lines[1:] == [f"{status.value:<4}  {status.meaning}" for status in ExitStatus]


def test_interrupted_says_what_goes_on(tpuctl, boom):
    def act():
        session.current().terminal.reporter().going_on(
            "slice train-a goes on forming; see `tpuctl slice wait`"
        )
        raise KeyboardInterrupt

    boom(act)
    result = tpuctl("boom")
    assert result.status == 130
    assert result.err == "error: interrupted\nhint: slice train-a goes on forming; see `tpuctl slice wait`\n"


def test_terminated(tpuctl, boom):
    boom(raiser(terminal.Terminated()))
    assert tpuctl("boom").status == 143


def test_timeout_says_what_goes_on():
    found = failures.describe(errors.TimedOut("too long"), note="op-1 goes on")
    assert (found.status, found.hint) == (10, "op-1 goes on")


@pytest.mark.parametrize(
    ("hint", "shown", "details"),
    [
        (None, "op-1 is open; finish it with: do it", ()),
        ("look at the server", "look at the server", ("op-1 is open; finish it with: do it",)),
        ("when that is mended: do it", "when that is mended: do it", ()),
    ],
)
def test_an_error_says_what_stays_open_once(hint, shown, details):
    error = errors.Unavailable("no answer", hint=hint)
    found = failures.describe(error, note="op-1 is open; finish it with: do it")
    assert (found.hint, found.details) == (shown, details)


def test_bug_is_one_line_unless_debug(tpuctl, boom):
    boom(raiser(ZeroDivisionError("two\nlines")))
    result = tpuctl("boom")
    assert result.status == 1
    assert result.err == (
        "error: internal error: ZeroDivisionError: two lines (run with --debug for the trace)\n"
    )
    for arguments in (["--debug", "boom"], ["boom", "--debug"]):
        traced = tpuctl(*arguments)
        assert "Traceback (most recent call last):" in traced.err
        assert traced.err.endswith(result.err)


def test_debug_shows_the_cause_of_an_expected_error(tpuctl, boom):
    socket_call = raiser(OSError("connection refused"))

    def act():
        try:
            socket_call()
        except OSError as error:
            raise errors.Unavailable("no answer") from error

    boom(act)
    assert tpuctl("boom").err == "error: no answer\n"
    assert "OSError: connection refused" in tpuctl("boom", "--debug").err


def test_end_of_input_counts_as_no(tpuctl, boom):
    boom(raiser(EOFError()))
    assert tpuctl("boom").status == 3


def test_global_options_stand_anywhere_and_the_later_wins(prod):
    for arguments in (
        ["--context", "prod", "context", "show", "-o", "name"],
        ["context", "--context", "prod", "show", "-o", "name"],
        ["context", "show", "-o", "name", "--context", "prod"],
        ["--context", "gone", "context", "show", "-o", "name", "--context=prod"],
    ):
        assert prod(*arguments).out == "context/prod\n", arguments


def test_start_imports_neither_clients_nor_rich(tpuctl):
    code = (
        "import sys; from tpuctl.cli import main; status = main.main(sys.argv[1:]); "
        "all_heavy = {'kubernetes', 'google', 'rich', 'yaml', 'requests', 'starlette', 'pydantic'}; "
        "heavy = all_heavy & set(sys.modules); "
        "sys.exit(f'{status} {heavy}' if status or heavy else 0)"
    )
    for arguments in (["--version"], ["--help"], ["slice", "--help"], ["slice", "form", "-h"]):
        result = tpuctl.child(*arguments, code=code)
        assert (result.returncode, result.stderr) == (0, ""), arguments
    result = tpuctl.child("--version", code=code.replace("'yaml'", "'typer'"))
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize(
    "env",
    [
        {"FORCE_COLOR": "1"},
        {"GITHUB_ACTIONS": "true"},
        {"PY_COLORS": "1"},
        {"TERMINAL_WIDTH": "wide"},
        {"TERMINAL_WIDTH": "20"},
        {"COLUMNS": "20"},
        {"TERM": "dumb"},
        {"TYPER_USE_RICH": "perhaps"},
        {"LC_ALL": "C", "PYTHONUTF8": "0"},
    ],
)
def test_variables_do_not_bend_piped_help(tpuctl, env):
    plain = tpuctl.child("topology", "explain", "--help")
    bent = tpuctl.child("topology", "explain", "--help", env=env)
    assert bent.returncode == 0
    assert re.sub(r"\x1b\[[0-9;]*m", "", bent.stdout) == plain.stdout
    if "FORCE_COLOR" not in env:
        assert "\x1b" not in bent.stdout


def test_closed_pipe_ends_quietly(tpuctl):
    with subprocess.Popen(
        [*tpuctl.command(), "topology", "list", "-o", "json"],
        env=tpuctl.child_env(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


def test_full_disk_is_a_failure(tpuctl):
    with pathlib.Path("/dev/full").open("w") as full:
        result = tpuctl.child("topology", "list", capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert result.stderr == "error: cannot write the result: No space left on device\n"
    assert result.returncode == 1


def test_closed_streams(tpuctl):
    shell = f"{' '.join(tpuctl.command())} topology list >&-"
    result = subprocess.run(
        ["sh", "-c", shell],
        env=tpuctl.child_env(),
        cwd=tpuctl.cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stderr == "error: cannot write the result: standard output is closed\n"
    assert result.returncode == 1
    result = subprocess.run(
        ["sh", "-c", shell.replace("list >&-", "explain 4x8x4 2>&-")],
        env=tpuctl.child_env(), cwd=tpuctl.cwd, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (result.returncode, result.stdout, result.stderr) == (64, "", "")


WAITING = """
import signal, sys, time, types
from tpuctl.cli import commands, main, session
module = types.ModuleType("waiting")
module.app = commands.App()

@module.app.command("wait")
def wait() -> None:
    session.current().terminal.reporter().going_on("operation op-1 goes on")
    session.current().terminal.note("ready")
    while True:
        time.sleep(0.05)

sys.modules["waiting"] = module
main.COMMANDS["wait"] = ("waiting", "Waits.")
main.run()
"""


@pytest.mark.parametrize(
    ("number", "status", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_signals(tpuctl, number, status, word):
    with subprocess.Popen(
        [*tpuctl.command(WAITING), "wait"], env=tpuctl.child_env(), stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr.readline() == "ready\n"
        process.send_signal(number)
        assert process.stderr.read() == f"error: {word}\nhint: operation op-1 goes on\n"
        assert process.wait() == status


def test_names_that_the_locale_cannot_write(tpuctl):
    result = tpuctl.child(
        "topology",
        "explain",
        "4x4x4\u20ac",
        env={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"},
    )
    assert result.returncode == 64
    assert "Traceback" not in result.stderr
    assert "is not a topology" in result.stderr
