"""kill -9 of the leading loop at some call: real processes, one after the other, on one simulated fleet."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING

from tests.e2e import crash_stage, kill_cases, loop_stage
from tpuctl.ops import journal, locking
from tpuctl.sim import connections
from tpuctl.sim.api_faults import calls

if TYPE_CHECKING:
    import pathlib
    import random
    import subprocess
    from collections.abc import Awaitable, Callable, Iterator

    from starlette import requests, responses

    from tpuctl.sim import faults

CUBES = 7
ARGUMENTS = ("--mode", "act", "--interval", "30s")
MOST_WRITES, MOST_CALLS = 14, 150
"""It dies at one of so many writes, or at one of so many calls: whichever comes first."""
REST_S = 120.0
"""Real seconds for coming to rest at the end."""
LOOK_EVERY_S = 0.25


@contextlib.contextmanager
def heard(process: subprocess.Popen[str]) -> Iterator[concurrent.futures.Future[tuple[str, str]]]:
    """Read what it writes while it runs; the result is there when it has ended. At the end it is told to.

    A loop writes a line each cycle. Once a pipe that nobody reads is full it stands still and loses its lead.
    """
    with concurrent.futures.ThreadPoolExecutor(1) as reader:
        words = reader.submit(process.communicate)
        try:
            yield words
        finally:
            process.terminate()


class Assassin:
    """Kills the process that makes the so-many-th write, or call; it never hears what became of that."""

    def __init__(self, dice: random.Random) -> None:
        self._writes, self._calls = dice.randint(1, MOST_WRITES), dice.randint(20, MOST_CALLS)
        self._after = dice.random() < 0.5
        self.pid = 0
        self.struck = ""
        """The call."""

    async def intercept(
        self, request: requests.Request, proceed: Callable[[], Awaitable[responses.Response]]
    ) -> responses.Response | None:
        if self.struck or not self.pid:
            return connections.NoAnswer(reset=True) if self.struck else None
        self._calls -= 1
        self._writes -= request.method not in ("GET", "HEAD")
        if self._writes > 0 and self._calls > 0:
            return None
        if self._after:
            await proceed()
        os.kill(self.pid, signal.SIGKILL)
        call = calls.understand(calls.KUBERNETES, request)
        self.struck = f"{'after' if self._after else 'before'} {call.verb} {call.resource}"
        return connections.NoAnswer(reset=True)


class Killings:
    """A fleet that something happens to, and a loop that is killed while it looks after it."""

    def __init__(self, stage: crash_stage.Stage, dice: random.Random) -> None:
        self.stage = stage
        self.looped = loop_stage.Looped(stage)
        self._dice = dice
        self._fault: faults.Entry | None = None
        self._more = False
        self.struck: list[str] = []
        self.wrong: list[str] = []
        self.looped.declare(loop_stage.FIRST, loop_stage.SECOND)

    def once(self) -> None:
        """Something happens, a loop begins to deal with it, and dies."""
        happened = self._happens()
        assassin = Assassin(self._dice)
        with self.stage.intercepted(assassin.intercept), self.start() as process:
            assassin.pid = process.pid
            out, err = process.communicate(timeout=crash_stage.CHILD_TIMEOUT_S)
        self.struck.append(assassin.struck)
        told = f"kill {len(self.struck)} ({happened}, {assassin.struck})"
        if process.returncode != -signal.SIGKILL or "Traceback" in err:
            self.wrong.append(f"{told}: it ended with {process.returncode}: {out[-500:]} {err}")
        self.wrong += [f"{told}: {text}" for text in self.stage.broken_promises()]

    def start(self) -> subprocess.Popen[str]:
        return self.stage.child("reconcile", "run", "-f", str(self.looped.file), *ARGUMENTS)

    def _happens(self) -> str:
        """A host dies under a slice, or is repaired; or one more slice is wanted, or one less."""
        if self._dice.random() < 0.4:
            return self._other_wishes()
        if self._fault is not None:
            self.stage.simulator.clear(self._fault)
            self._fault = None
            return "a host was repaired"
        there = [item for item in self.stage.whole().slices if item.name != crash_stage.FOREIGN]
        if not there:
            return "nothing"
        cube = self._dice.choice(self._dice.choice(there).partition_ids)
        self._fault = self.stage.simulator.inject("host-down", self.stage.nodes_of(cube)[2])
        return f"a host of {cube} died"

    def _other_wishes(self) -> str:
        self._more = not self._more
        third = (loop_stage.THIRD,) if self._more else ()
        self.looped.declare(loop_stage.FIRST, loop_stage.SECOND, *third)
        return "one more slice was wanted" if self._more else "one slice less was wanted"

    def come_to_rest(self) -> None:
        """Nobody kills the last one: it gets everything in order, and ends when it is told to."""
        wanted = {"first", "second", *(("third",) if self._more else ())}
        with self.start() as process, heard(process) as words:
            end_s = time.monotonic() + REST_S
            while not self._is_at_rest(wanted) and time.monotonic() < end_s and process.poll() is None:
                time.sleep(LOOK_EVERY_S)
            process.terminate()
            _, err = words.result(timeout=crash_stage.CHILD_TIMEOUT_S)
        if process.returncode != 128 + signal.SIGTERM:
            self.wrong.append(f"the last loop ended with {process.returncode}: {err}")
        if not self._is_at_rest(wanted):
            shown = [self.looped(verb).out for verb in ("status", "history")]
            self.wrong.append("\n".join(["it did not come to rest", str(self.looped.states()), err, *shown]))
        self.wrong += self.stage.broken_promises()
        self.stage.advance(locking.stretched(self.stage.ports.clock, crash_stage.LEASE_IS_OVER_S))
        self.wrong += leftovers(self.stage)

    def _is_at_rest(self, wanted: set[str]) -> bool:
        states = self.looped.states()
        whole = set(states) == wanted and set(states.values()) == {"ACTIVE"}
        return whole and not journal.list_open(self.stage.ports)


def leftovers(stage: crash_stage.Stage) -> list[str]:
    """As after any command; the loop's own records are to stay."""
    return [text for text in stage.leftovers() if not text.startswith("config map ")]


@contextlib.contextmanager
def killings(home: pathlib.Path, dice: random.Random) -> Iterator[Killings]:
    with kill_cases.in_real_time(home, cubes=CUBES) as stage:
        yield Killings(stage, dice)
