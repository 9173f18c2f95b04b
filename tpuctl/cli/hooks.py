"""Run the commands that a fleet file names for events: no shell, little environment, an end in time.

A hook runs beside the loop, one at a time and in the order of the events: the loop goes on, and keeps its
lock, however long a hook takes. What becomes of a hook is told once, by the loop's own thread.

The program is started with its arguments as they were written. Its environment holds PATH and HOME, and:

    TPUCTL_HOOK_EVENT   the event: slice-formed, slice-deformed, swap-started, swap-done, repair-recommended
    TPUCTL_FLEET        name of the fleet
    TPUCTL_CYCLE, TPUCTL_PLAN      ids of the cycle and of its plan
    TPUCTL_REASON                  why
    TPUCTL_SLICE, TPUCTL_TOPOLOGY, TPUCTL_CHIPS, TPUCTL_BLOCK      of events about slices
    TPUCTL_EXCHANGES, TPUCTL_RESULT                                of swaps
    TPUCTL_REPAIR, TPUCTL_REMEDY, TPUCTL_CUBE, TPUCTL_HOST, ...    of repairs

Standard input is empty; both outputs go to the log at the level of notes. Nothing that a hook does, prints
or leaves undone changes what the loop does.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import selectors
import signal
import subprocess
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.cli import redaction
from tpuctl.cli import terminal as terminals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tpuctl.model import declared

INHERITED = ("PATH", "HOME")
"""All that a hook gets of the loop's own environment."""
WAITING_AT_MOST = 100
"""Events that may wait for their hooks; further ones are dropped, and that is told."""
GRACE_AT_END_S = 5.0
"""Real seconds that hooks may still take when a signal ends the loop: Kubernetes waits 30 for all of it."""
SHOWN_LINES = 20
_KEPT_BYTES = 64 * 1024
_LOOK_S = 0.05
_GRACE_S = 2.0
"""Between asking a hook to end and making it."""
_NOT_FOR_NAMES = re.compile(r"[^A-Z0-9]+")


class Ended(NamedTuple):
    """What became of one hook."""

    event: str
    command: tuple[str, ...]
    trouble: str
    """Empty if it ended well."""
    lines: tuple[str, ...]
    """What it printed, shortened."""
    about: str


class _Job(NamedTuple):
    hook: declared.Hook
    environment: Mapping[str, str]
    about: str


class Runner:
    """Implements `Hooks` of the loop; `run` never raises and never waits."""

    def __init__(
        self,
        hooks: Sequence[declared.Hook],
        screen: terminals.Terminal,
        *,
        fleet: str,
        waiting_at_most: int = WAITING_AT_MOST,
    ) -> None:
        self._hooks = tuple(hooks)
        self._screen = screen
        self._base = {name: screen.env[name] for name in INHERITED if name in screen.env}
        self._base["TPUCTL_FLEET"] = fleet
        self._jobs: queue.Queue[_Job | None] = queue.Queue(waiting_at_most)
        self._ended: queue.SimpleQueue[Ended] = queue.SimpleQueue()
        self._worker: threading.Thread | None = None
        self._stopping = threading.Event()

    def run(self, event: declared.HookEvent, facts: Mapping[str, str]) -> None:
        """Have the hooks of `event` run soon; returns at once."""
        environment = {**self._base, **variables(facts), "TPUCTL_HOOK_EVENT": str(event)}
        about = facts.get("object") or (f"slice/{facts['slice']}" if facts.get("slice") else "")
        for hook in self._hooks:
            if hook.event is event:
                self._put(_Job(hook, environment, about))
        self.tell()

    def use(self, hooks: Sequence[declared.Hook]) -> None:
        """Run these for the events to come; what was begun or waits stays as it is."""
        self._hooks = tuple(hooks)

    def tell(self) -> None:
        """Write down what became of hooks since the last time."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._tell_one(self._ended.get_nowait())

    def close(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Wait for hooks that were begun or wait, and tell of them; they end by their own time limits.

        GRACE_AT_END_S after `stop` says so, whatever still runs is ended, and what waits is dropped.
        """
        worker = self._worker
        if worker is not None:
            with contextlib.suppress(queue.Full):
                self._jobs.put_nowait(None)
            _join(worker, stop)
            self._stopping.set()
            worker.join(3 * _GRACE_S)
        self.tell()
        dropped = sum(job is not None for job in _rest(self._jobs))
        if dropped:
            self._screen.warn(f"{dropped} hooks were not run: the loop ended first")

    def _put(self, job: _Job) -> None:
        if self._worker is None:
            self._worker = threading.Thread(target=self._work, name="hooks", daemon=True)
            self._worker.start()
        try:
            self._jobs.put_nowait(job)
        except queue.Full:
            waiting = self._jobs.qsize()
            trouble = f"was not run: {waiting} others wait"
            self._ended.put(Ended(str(job.hook.event), job.hook.command, trouble, (), job.about))

    def _tell_one(self, ended: Ended) -> None:
        named = f"hook {ended.event} ({ended.command[0]})"
        about = {"object": ended.about} if ended.about else {}
        for line in ended.lines:
            self._screen.note(f"{named}: {line}", **about)
        if ended.trouble:
            self._screen.warn(f"{named} {ended.trouble}; the loop goes on", **about)
        else:
            self._screen.verbose(f"{named} done")

    def _work(self) -> None:
        while not self._stopping.is_set():
            job = self._jobs.get()
            if job is None:
                return
            self._ended.put(_carried_out(job, self._stopping))


def variables(facts: Mapping[str, str]) -> dict[str, str]:
    """Facts as environment variables: `partition-ids` becomes TPUCTL_PARTITION_IDS."""
    return {
        f"TPUCTL_{_NOT_FOR_NAMES.sub('_', key.upper())}": str(value).replace("\0", "")
        for key, value in facts.items()
    }


def _join(worker: threading.Thread, stop: Callable[[], bool]) -> None:
    """Wait for the worker, but not much longer once `stop` says so."""
    end_s: float | None = None
    while worker.is_alive() and (end_s is None or time.monotonic() < end_s):
        if end_s is None and stop():
            end_s = time.monotonic() + GRACE_AT_END_S
        worker.join(_LOOK_S)


def _rest(jobs: queue.Queue[_Job | None]) -> Iterator[_Job | None]:
    with contextlib.suppress(queue.Empty):
        while True:
            yield jobs.get_nowait()


def _carried_out(job: _Job, stopping: threading.Event) -> Ended:
    hook = job.hook
    try:
        process = subprocess.Popen(  # noqa: S603 - the fleet's owner names the command, and no shell reads it
            hook.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(job.environment),
            # A group of its own: whatever it starts can be ended with it, and Ctrl-C does not reach it.
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return Ended(str(hook.event), hook.command, f"could not be started: {why}", (), job.about)
    with process:
        output, trouble = _watched(process, hook.timeout_s, stopping)
    return Ended(str(hook.event), hook.command, trouble, _shown(output), job.about)


def _watched(
    process: subprocess.Popen[bytes], timeout_s: float, stopping: threading.Event
) -> tuple[bytes, str]:
    """What it printed, and what went wrong. Children that it leaves behind are ended, not waited for."""
    if process.stdout is None:
        raise AssertionError("the output is a pipe")
    end_s = time.monotonic() + timeout_s
    kept = bytearray()
    os.set_blocking(process.stdout.fileno(), False)
    with selectors.DefaultSelector() as waiting:
        waiting.register(process.stdout, selectors.EVENT_READ)
        is_open, trouble = True, ""
        while process.poll() is None and not trouble:
            if is_open and waiting.select(_LOOK_S):
                is_open = _read_some(process.stdout.fileno(), kept)
            elif not is_open:
                _wait(process, _LOOK_S)
            if stopping.is_set():
                trouble = "was ended, the loop stops"
            elif time.monotonic() >= end_s:
                trouble = f"did not end within {timeout_s:g} s and was ended"
    _end_group(process)
    while is_open and _read_some(process.stdout.fileno(), kept, at_end=True):
        pass
    if not trouble and process.returncode:
        code = process.returncode
        trouble = f"failed: exit status {code}" if code > 0 else f"failed: ended by signal {-code}"
    return bytes(kept), trouble


def _read_some(handle: int, kept: bytearray, *, at_end: bool = False) -> bool:
    """Read what is there; False if nothing will come any more. Only the beginning is kept."""
    try:
        part = os.read(handle, _KEPT_BYTES)
    except BlockingIOError:
        return not at_end
    kept += part[: max(_KEPT_BYTES - len(kept), 0)]
    return bool(part)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End what is left of its group: politely, then not."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except (ProcessLookupError, PermissionError):
            break
        _wait(process, _GRACE_S)
    process.wait()


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


def _shown(output: bytes) -> tuple[str, ...]:
    text = redaction.redacted(output.decode(errors="replace"))
    lines = [terminals.printable(line) for line in text.splitlines() if line.strip()]
    more = len(lines) - SHOWN_LINES
    return (*lines[:SHOWN_LINES], *([f"(and {more} more lines)"] if more > 0 else ()))
