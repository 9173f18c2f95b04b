"""Run the real program in this process, or as a child, in a home of its own."""

from __future__ import annotations

import dataclasses
import io
import os
import pathlib
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.ops import test_swapping as swaps
from tpuctl.cli import main, rehearsal
from tpuctl.sim import simulator

if TYPE_CHECKING:
    from collections.abc import Iterator


class Stream(io.StringIO):
    """A stream that can say it is a terminal."""

    def __init__(self, text: str = "", *, is_terminal: bool = False) -> None:
        super().__init__(text)
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


@dataclasses.dataclass(frozen=True)
class Result:
    status: int
    out: str
    err: str


@dataclasses.dataclass
class Program:
    """Calls tpuctl with nothing of the real user's in reach."""

    home: pathlib.Path
    cwd: pathlib.Path
    env: dict[str, str]

    def __call__(self, *arguments, stdin="", terminal=False, env=None, program="tpuctl") -> Result:
        """Run in this process; `terminal` makes all three streams terminals."""
        out, err = Stream(is_terminal=terminal), Stream(is_terminal=terminal)
        status = main.main(
            arguments,
            program=program,
            env={**self.env, **(env or {})},
            cwd=self.cwd,
            stdin=Stream(stdin, is_terminal=terminal),
            stdout=out,
            stderr=err,
        )
        return Result(status, out.getvalue(), err.getvalue())

    def child(self, *arguments, env=None, code=None, **options) -> subprocess.CompletedProcess:
        """Run as a process; `code` runs Python text in place of the program."""
        options = {"capture_output": True, "text": True, "timeout": 60, **options}
        return subprocess.run(
            [*self.command(code), *arguments],
            env=self.child_env(env),
            cwd=self.cwd,
            check=False,
            **options,
        )

    def command(self, code=None) -> list[str]:
        return [sys.executable, *(["-c", code] if code else ["-m", "tpuctl"])]

    def child_env(self, env=None) -> dict[str, str]:
        root = pathlib.Path(main.__file__).parents[2]
        return {"PATH": os.environ["PATH"], "PYTHONPATH": str(root), **self.env, **(env or {})}

    def write(self, name: str, text: str) -> pathlib.Path:
        """A file in the current folder, or `~/...`."""
        path = self.home / name[2:] if name.startswith("~/") else self.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path


@pytest.fixture
def tpuctl(tmp_path, monkeypatch) -> Program:
    home, cwd = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    cwd.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return Program(home, cwd, {"HOME": str(home), "TERM": "xterm"})


PROD = """\
contexts:
  prod:
    project: p1
    location: us-central1
    zone: us-central1-c
    cluster: c1
    reservations: [r1, projects/other/reservations/r2]
"""


@pytest.fixture
def prod(tpuctl) -> Program:
    """A user with one context, `prod`."""
    tpuctl.write("~/.config/tpuctl/config.yaml", PROD)
    return tpuctl


@pytest.fixture
def scene() -> Iterator[rehearsal.Rehearsal]:
    """Four cubes ready for use, a busy slice `train` on two of them."""
    settings = simulator.Settings(cubes=4, ready_cubes=4, slice_controller=True)
    with rehearsal.rehearse(settings) as made:
        swaps.busy_slice(made)
        yield made
