"""A simulator in a process of its own, and the directory through which others find it.

    DIRECTORY/state.json   where it is and what it simulates
    DIRECTORY/token        bearer token
    DIRECTORY/kubeconfig   context `sim`
    DIRECTORY/log          what the process said
    DIRECTORY/lock         locked as long as the process lives

Nothing outside the directory is written. The lock tells a living simulator from a file left behind,
whatever process has the recorded pid meanwhile; only the holder of the lock writes `state.json`.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import fcntl
import os
import pathlib
import secrets
import select
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tpuctl.sim import simulator as simulators

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 10.0
REQUEST_TIMEOUT_S = 30.0
READY = b"r"
"""The byte that the process writes once it answers requests."""
_POLL_S = 0.05
_LOG_TAIL_BYTES = 2_000
_FILES = ("state.json", "token", "kubeconfig")


class ProcessError(RuntimeError):
    """The process could not be started, reached or stopped; the text says which and why."""


class UnreachableError(ProcessError):
    """Nobody answers at the recorded address."""


class AlreadyRunningError(ProcessError):
    """A simulator lives in that directory."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class State:
    """A simulator as `state.json` describes it."""

    pid: int
    url: str
    started_at: str
    """RFC 3339, simulated time at the start."""
    instance: str
    """Random; the process repeats it when asked, which proves that it is the one meant."""
    settings: dict[str, Any]
    context: dict[str, Any]
    """What a tpuctl context needs, file names included."""

    def to_json(self) -> dict[str, Any]:
        return {
            "pid": self.pid,
            "url": self.url,
            "startedAt": self.started_at,
            "instance": self.instance,
            "settings": self.settings,
            "context": self.context,
        }


def spawn(settings: simulators.Settings, directory: pathlib.Path) -> State:
    """Start a detached simulator and return once it answers.

    `directory` is made if need be. Raises `AlreadyRunningError` or `ProcessError`.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise ProcessError(f"cannot write {directory}: {error.strerror}") from error
    if is_running(directory):
        raise AlreadyRunningError(f"a simulator already runs in {directory}")
    instance = secrets.token_hex(16)
    command = [sys.executable, "-m", "tpuctl.sim.process", str(directory.resolve()), "--instance", instance]
    reader, writer = os.pipe()
    with _log(directory) as log, os.fdopen(reader, "rb") as pipe:
        process = subprocess.Popen(  # noqa: S603 - our own program, no shell
            [*command, "--ready-fd", str(writer)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            pass_fds=(writer,),
            start_new_session=True,
        )
        os.close(writer)
        try:
            _send_settings(process, settings)
            ready = _wait_ready(pipe.fileno())
        except BaseException:
            # An impatient user must not leave a simulator behind that nobody knows of.
            _give_up(process)
            raise
    if not ready:
        _give_up(process)
        raise ProcessError(f"the simulator did not start: {_log_tail(directory)}")
    # The process is meant to outlive this one: nobody here waits for its end.
    process.returncode = 0
    state = read(directory)
    if state is None or state.instance != instance:
        raise ProcessError(f"the simulator in {directory} is not the one just started")
    return state


def read(directory: pathlib.Path) -> State | None:
    """The state left in the directory, of a living simulator or not; None if there is none.

    Raises `ProcessError` if the file is there and not readable as a state.
    """
    path = directory / "state.json"
    try:
        found = orjson.loads(path.read_bytes())
        return State(
            pid=found["pid"],
            url=found["url"],
            started_at=found["startedAt"],
            instance=found["instance"],
            settings=found["settings"],
            context=found["context"],
        )
    except FileNotFoundError:
        return None
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise ProcessError(f"{path} cannot be read as the state of a simulator: {error!r}") from error


def is_running(directory: pathlib.Path) -> bool:
    """Whether a simulator lives in the directory; a state file alone proves nothing."""
    try:
        with (directory / "lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def request(state: State, method: str, call: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Ask the simulator's admin API; `call` is a path below `/sim/v1`, see `admin`.

    Returns the answer's JSON; an answer that is an error has `error` and perhaps `near`. Raises
    `UnreachableError` if nobody answers.
    """
    token = pathlib.Path(state.context["tokenFile"])
    asked = urllib.request.Request(  # noqa: S310 - a loopback address from our own state file
        f"{state.url}/sim/v1/{call}",
        data=None if body is None else orjson.dumps(body),
        method=method,
        headers={"Authorization": f"Bearer {token.read_text(encoding='utf-8')}"},
    )
    # A proxy from the environment has no business with a loopback address.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(asked, timeout=REQUEST_TIMEOUT_S) as answer:
            return _object(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return _object(error.read())
    except OSError as error:
        raise UnreachableError(f"the simulator at {state.url} does not answer: {error}") from error


def stop(directory: pathlib.Path) -> bool:
    """End the simulator of the directory and remove its files; False if none was running.

    It is asked first and terminated only if that does not help. No process is signalled unless it holds
    the directory's lock and, if it answers at all, is the instance of the state file.
    """
    if not is_running(directory):
        _clean(directory)
        return False
    state = read(directory)
    if state is None:
        raise ProcessError(f"the simulator in {directory} is starting; try again")
    _ask_to_stop(state)
    if not _wait_until_gone(directory):
        os.kill(state.pid, signal.SIGTERM)
        if not _wait_until_gone(directory):
            raise ProcessError(f"the simulator (pid {state.pid}) does not end")
    _clean(directory)
    return True


def _ask_to_stop(state: State) -> None:
    try:
        status = request(state, "GET", "status")
    except UnreachableError:
        return
    if status.get("instance") != state.instance:
        raise ProcessError(f"another simulator than the recorded one answers at {state.url}; left alone")
    request(state, "POST", "shutdown", {})


def _wait_until_gone(directory: pathlib.Path) -> bool:
    pause = threading.Event()
    for _ in range(int(STOP_TIMEOUT_S / _POLL_S)):
        if not is_running(directory):
            return True
        pause.wait(_POLL_S)
    return not is_running(directory)


def _clean(directory: pathlib.Path) -> None:
    for name in _FILES:
        (directory / name).unlink(missing_ok=True)


def _object(content: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise ProcessError(f"what answers is no simulator: {error}") from error
    if not isinstance(found, dict):
        raise ProcessError("what answers is no simulator: not a JSON object")
    return found


# Starting, in the parent


@contextlib.contextmanager
def _log(directory: pathlib.Path) -> Iterator[int]:
    descriptor = os.open(directory / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _log_tail(directory: pathlib.Path) -> str:
    return (directory / "log").read_bytes()[-_LOG_TAIL_BYTES:].decode(
        errors="replace"
    ).strip() or "no message"


def _send_settings(process: subprocess.Popen[bytes], settings: simulators.Settings) -> None:
    pipe = process.stdin
    if pipe is None:
        raise AssertionError("the process was started with a pipe")
    # A process that died already is reported by the ready pipe, with its log.
    with contextlib.suppress(BrokenPipeError), pipe:
        pipe.write(orjson.dumps(dataclasses.asdict(settings)))


def _wait_ready(descriptor: int) -> bool:
    readable, _, _ = select.select([descriptor], [], [], START_TIMEOUT_S)
    return bool(readable) and os.read(descriptor, 1) == READY


def _give_up(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


# The process itself


def main(arguments: list[str] | None = None) -> int:
    """Simulate until told to stop; settings come as JSON on standard input."""
    parser = argparse.ArgumentParser(prog="tpuctl.sim.process")
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--instance", required=True)
    parser.add_argument("--ready-fd", type=int, required=True)
    options = parser.parse_args(arguments)
    directory: pathlib.Path = options.directory
    with (directory / "lock").open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.stderr.write(f"a simulator already runs in {directory}\n")
            return 1
        _clean(directory)
        try:
            _simulate(directory, options.instance, options.ready_fd)
        except OSError as error:
            sys.stderr.write(f"cannot listen or write: {error.strerror}\n")
            return 1
        finally:
            _clean(directory)
    return 0


def _simulate(directory: pathlib.Path, instance: str, ready_fd: int) -> None:
    from tpuctl.sim import simulator  # noqa: PLC0415 - whoever only asks the process does without

    settings = settings_from(orjson.loads(sys.stdin.buffer.read()))
    with simulator.Simulator(settings, instance=instance) as simulated:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_signal: simulated.request_stop())
        simulated.token_file(directory / "token")
        simulated.kubeconfig(directory / "kubeconfig")
        state = State(
            pid=os.getpid(),
            url=simulated.url,
            started_at=simulated.now(),
            instance=instance,
            settings=dataclasses.asdict(settings),
            context=simulated.context(),
        )
        content = orjson.dumps(state.to_json(), option=orjson.OPT_INDENT_2)
        simulator.write_private(directory / "state.json", content)
        with os.fdopen(ready_fd, "wb") as ready:
            ready.write(READY)
        simulated.wait()


def settings_from(values: Mapping[str, Any]) -> simulators.Settings:
    """Settings from what `dataclasses.asdict` made of them. TypeError for unknown names."""
    from tpuctl.sim import behaviour as behaviours  # noqa: PLC0415 - as above
    from tpuctl.sim import simulator  # noqa: PLC0415

    behaviour = behaviours.Behaviour(**values.get("behaviour", {}))
    return simulator.Settings(**{**values, "behaviour": behaviour})


if __name__ == "__main__":
    sys.exit(main())
