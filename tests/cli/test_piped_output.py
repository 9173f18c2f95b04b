"""What stdout gets, by what stdout is: a real pseudo-terminal or a real pipe, whatever variables say."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading

import pytest

from tpuctl.cli import rehearsal
from tpuctl.sim import simulator

ESCAPE = "\x1b["
ID = re.compile(r"\b[0-9a-f]{32}\b")


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    """A fleet of six cubes with a slice, in a file; and its cubes' ids."""
    path = tmp_path_factory.mktemp("dump") / "fleet.json"
    with rehearsal.rehearse(simulator.Settings(cubes=6, ready_cubes=6, slice_controller=True)) as scene:
        from tests.cli.conftest import Program  # noqa: PLC0415 - a program for this one file

        program = Program(path.parent, path.parent, {"HOME": str(path.parent), "TERM": "xterm"})
        assert program("slice", "form", "train", "--topology", "4x4x8").status == 0
        dumped = program("fleet", "dump")
        assert dumped.status == 0
        path.write_text(dumped.out)
        cubes = sorted(cube.id for cube in scene.ports.fleet.observe(["nodes"]).cubes)
    return path, cubes


def piped(tpuctl, arguments, env):
    done = tpuctl.child(*arguments, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def on_terminal(tpuctl, arguments, env, *, columns):
    """stdout of the program when it is a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    parts = []

    def collect():
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other end was closed
                return
            if not part:
                return
            parts.append(part)

    reader = threading.Thread(target=collect)
    with subprocess.Popen(
        [*tpuctl.command(), *arguments],
        env=tpuctl.child_env(env),
        cwd=tpuctl.cwd,
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
    ) as process:
        os.close(theirs)
        reader.start()
        stderr = process.stderr.read()
        assert process.wait(60) == 0, stderr
    reader.join(60)
    os.close(ours)
    return b"".join(parts).decode().replace("\r\n", "\n")


PIPES = [
    ({}, False),
    ({"COLUMNS": "40"}, False),
    ({"NO_COLOR": "1"}, False),
    ({"FORCE_COLOR": "1"}, True),
    ({"FORCE_COLOR": "1", "COLUMNS": "40"}, True),
    ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ({"TERM": "dumb"}, False),
    ({"CI": "true", "GITHUB_ACTIONS": "true"}, False),
]
"""Variables -> whether a pipe gets colour."""


@pytest.mark.parametrize(("env", "coloured"), PIPES)
def test_a_pipe_gets_one_whole_record_a_line(tpuctl, dump, env, coloured):
    """rich#501, #119: cut at 80 columns; NeMo Gym#2949: FORCE_COLOR made a file look like a terminal."""
    path, cubes = dump
    out = piped(tpuctl, ["cube", "list", "--fleet", str(path)], env)
    assert (ESCAPE in out) is coloured
    lines = re.sub(r"\x1b\[[0-9;]*m", "", out).splitlines()
    assert len(lines) == 1 + len(cubes)
    assert sorted(ID.findall(line)[0] for line in lines[1:]) == cubes
    assert "..." not in out


TERMINALS = [
    ({}, 200, 200, True),
    ({}, 60, 60, True),
    ({"COLUMNS": "60"}, 200, 60, True),
    ({"NO_COLOR": "1"}, 60, 60, False),
    ({"TERM": "dumb"}, 60, 60, False),
    ({"CI": "true", "GITHUB_ACTIONS": "true"}, 60, 60, True),
    ({"FORCE_COLOR": "1", "TERM": "dumb"}, 60, 60, True),
    ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, 60, 60, False),
]
"""Variables, real columns -> columns that count, colour."""


@pytest.mark.parametrize(("env", "columns", "wanted", "coloured"), TERMINALS)
def test_a_terminal_is_as_wide_as_it_is(tpuctl, dump, env, columns, wanted, coloured):
    """NeMo Gym#2949: TERM=dumb forced 80 columns."""
    path, cubes = dump
    out = on_terminal(tpuctl, ["cube", "list", "--fleet", str(path)], env, columns=columns)
    assert (ESCAPE in out) is coloured
    lines = re.sub(r"\x1b\[[0-9;]*m", "", out).splitlines()
    assert len(lines) == 1 + len(cubes)
    shown_whole = [ID.findall(line) for line in lines[1:]]
    if wanted == 200:
        assert sorted(found[0] for found in shown_whole) == cubes
    else:
        assert not any(shown_whole), "ids are shortened in the middle to make room"
        assert max(map(len, lines)) <= wanted
        assert len({line.split()[0] for line in lines[1:]}) == len(cubes)
