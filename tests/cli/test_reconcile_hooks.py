"""Hooks: real commands, run beside the loop, told once, and never in its way."""

from __future__ import annotations

import json
import os
import select
import sys
import time

import pytest

from tests.cli.test_terminal import err, make
from tpuctl.cli import hooks
from tpuctl.model import declared

FORMED = declared.HookEvent.SLICE_FORMED
DUMP = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))"


def hook(*command, event=FORMED, timeout_s=20.0):
    return declared.Hook(event=event, command=command, timeout_s=timeout_s)


def python(text, *arguments, **settings):
    return hook(sys.executable, "-c", text, *arguments, **settings)


def run(*given, facts=None, events=(FORMED,), env=None, **settings):
    screen = make(env=env)
    runner = hooks.Runner(given, screen, fleet="prod-a", **settings)
    for event in events:
        runner.run(event, {"slice": "train-a", "chips": "2048"} if facts is None else facts)
    runner.close()
    return err(screen)


def test_a_hook_gets_its_arguments_and_only_its_environment():
    secret = {"PATH": "/usr/bin:/bin", "HOME": "/home/jo", "GOOGLE_TOKEN": "s3cret", "LANG": "C"}
    facts = {"slice": "train-a", "block": "b1", "chips": "2048", "partition-ids": "p1,p2", "odd": "a\0b"}
    told = run(python(DUMP, "$HOME; true", "two words"), facts=facts, env=secret)
    line = told.removeprefix(f"hook slice-formed ({sys.executable}): ")
    arguments, environment = json.loads(line)
    assert arguments == ["$HOME; true", "two words"]
    # Python adds this one by itself where no locale is set.
    environment.pop("LC_CTYPE", None)
    assert environment == {
        "PATH": "/usr/bin:/bin",
        "HOME": "/home/jo",
        "TPUCTL_HOOK_EVENT": "slice-formed",
        "TPUCTL_FLEET": "prod-a",
        "TPUCTL_SLICE": "train-a",
        "TPUCTL_BLOCK": "b1",
        "TPUCTL_CHIPS": "2048",
        "TPUCTL_PARTITION_IDS": "p1,p2",
        "TPUCTL_ODD": "ab",
    }


def test_hooks_of_other_events_are_left_alone():
    assert run(python("print('no')", event=declared.HookEvent.SWAP_DONE)) == ""


def test_hooks_run_one_after_the_other_in_the_order_of_the_events(tmp_path):
    path = tmp_path / "order"
    text = f"import os; open({str(path)!r}, 'a').write(os.environ['TPUCTL_HOOK_EVENT'] + ' ')"
    both = [python(text), python(text, event=declared.HookEvent.SWAP_DONE)]
    run(*both, events=(FORMED, declared.HookEvent.SWAP_DONE, FORMED))
    assert path.read_text() == "slice-formed swap-done slice-formed "


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (python("import sys; print('no room'); sys.exit(3)"), "failed: exit status 3"),
        (python("import os; os.kill(os.getpid(), 9)"), "failed: ended by signal 9"),
        (hook("/nowhere/notify", "x"), "could not be started: No such file or directory"),
        (hook("/"), "could not be started: Permission denied"),
        (python("import time; time.sleep(60)", timeout_s=0.3), "did not end within 0.3 s and was ended"),
    ],
)
def test_whatever_goes_wrong_is_told_once_for_each_event(made, says):
    began = time.monotonic()
    told = run(made, events=(FORMED, FORMED))
    warning = f"warning: hook slice-formed ({made.command[0]}) {says}; the loop goes on\n"
    assert told.count(warning) == told.count("warning:") == 2
    assert time.monotonic() - began < 20


def test_a_hook_that_ignores_the_request_to_end_is_ended_with_its_children(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    text = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"held = open({str(fifo)!r}, 'wb', buffering=0)\n"
        "os.fork()\n"
        "held.write(b'x')\n"
        "time.sleep(60)\n"
    )
    assert "did not end within 0.5 s" in run(python(text, timeout_s=0.5))
    assert os.read(reader, 10) == b"xx"
    # The end of the pipe comes when nobody holds it any more.
    assert select.select([reader], [], [], 20)[0]
    assert os.read(reader, 10) == b""
    os.close(reader)


def test_a_child_left_behind_keeps_nobody_waiting():
    began = time.monotonic()
    told = run(python("import subprocess; subprocess.Popen(['sleep', '60']); print('started')"))
    assert told == f"hook slice-formed ({sys.executable}): started\n"
    assert time.monotonic() - began < 20


def test_output_is_shortened_cleaned_and_without_secrets():
    text = (
        "print('\\x1b[31mred'); print('Authorization: Bearer ya29.abc-DEF'); print('db_password=hunter2 x')\n"
        "for i in range(5000): print('line', i, 'x' * 100)"
    )
    told = run(python(text))
    assert "\\x1b[31mred" in told
    assert "Authorization: Bearer ***" in told
    assert "db_password=*** x" in told
    assert "hunter2" not in told
    assert "more lines)" in told
    assert len(told.splitlines()) == hooks.SHOWN_LINES + 1


def test_the_loop_never_waits_for_a_hook(monkeypatch):
    monkeypatch.setattr(hooks, "GRACE_AT_END_S", 0.1)
    screen = make()
    runner = hooks.Runner([python("import time; time.sleep(60)")], screen, fleet="f", waiting_at_most=2)
    began = time.monotonic()
    for _ in range(6):
        runner.run(FORMED, {"slice": "a"})
    assert time.monotonic() - began < 5
    runner.close(lambda: True)
    assert time.monotonic() - began < 20
    told = err(screen)
    assert "was not run: 2 others wait" in told
    assert "was ended, the loop stops" in told
    assert "hooks were not run: the loop ended first" in told


def test_lines_of_a_json_log_name_the_slice():
    told = run(python("print('hello')"), hook("/nowhere/x"), env={"TPUCTL_LOG_FORMAT": "json"})
    first, second = map(json.loads, told.splitlines())
    assert (first["level"], first["object"]) == ("info", "slice/train-a")
    assert first["message"].endswith(": hello")
    assert (second["level"], second["object"]) == ("warning", "slice/train-a")
