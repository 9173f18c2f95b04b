"""Loops as processes of their own: one acts, another takes over, and kill -9 loses nothing."""

from __future__ import annotations

import contextlib
import random
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e import crash_stage, kill_cases, loop_kills, loop_stage, test_interruptions
from tpuctl.ops.reconciling import history

if TYPE_CHECKING:
    import pathlib
    import subprocess
    from collections.abc import Callable, Iterator


@contextlib.contextmanager
def running(looped: loop_stage.Looped) -> Iterator[subprocess.Popen[str]]:
    """A loop of its own; it is told to end at the end."""
    arguments = ("-f", str(looped.file), *loop_kills.ARGUMENTS)
    with looped.stage.child("reconcile", "run", *arguments) as process:
        try:
            yield process
        finally:
            process.terminate()


def until(happened: Callable[[], bool]) -> None:
    end_s = time.monotonic() + loop_kills.REST_S
    while not happened():
        assert time.monotonic() < end_s, "it did not happen in time"
        time.sleep(loop_kills.LOOK_EVERY_S)


def actors(stage: crash_stage.Stage) -> set[str]:
    """Process ids of the loops that have done something."""
    return {entry.actor.rpartition(":")[2] for entry in history.read(stage.ports)}


def test_of_two_loops_one_acts_and_the_other_takes_over(tmp_path: pathlib.Path) -> None:
    with kill_cases.in_real_time(tmp_path, cubes=loop_kills.CUBES) as stage:
        looped = loop_stage.Looped(stage)
        looped.declare(loop_stage.FIRST, loop_stage.SECOND)
        up = {"first": "ACTIVE", "second": "ACTIVE"}
        with running(looped) as leader, loop_kills.heard(leader) as words:
            until(lambda: looped.states() == up)
            with running(looped) as standby:
                test_interruptions.wait_for(standby, "standing by")
                with loop_kills.heard(standby):
                    before = looped.break_host("first")
                    until(lambda: looped.states() == up and before not in looped.members("first"))
                    stage.as_processes = True
                    assert looped.cycle().status == 75
                    stage.as_processes = False
                    until(lambda: actors(stage) != set())
                    assert actors(stage) == {str(leader.pid)}
                    leader.terminate()
                    words.result(timeout=crash_stage.CHILD_TIMEOUT_S)
                    assert leader.returncode == 128 + signal.SIGTERM
                    before = looped.break_host("second")
                    until(lambda: looped.states() == up and before not in looped.members("second"))
                    # It tells what it has done a little after it is done.
                    until(lambda: actors(stage) == {str(leader.pid), str(standby.pid)})
        assert stage.broken_promises() == []


def kill_again_and_again(home: pathlib.Path, times: int, seed: int, tell: Callable[[str], None]) -> None:
    with loop_kills.killings(home, random.Random(seed)) as killings:
        for _ in range(times):
            killings.once()
        killings.come_to_rest()
        plan = killings.looped("plan", "--detailed-exitcode")
    tell(f"reconcile: leader killed {len(killings.struck)} times")
    assert not killings.wrong, "\n\n".join(killings.wrong)
    assert plan.status == 0, plan.out
    assert any(" slices" in text for text in killings.struck), "none died while it formed or deformed"


def test_a_leader_that_is_killed_again_and_again_leaves_what_the_next_one_finishes(
    tmp_path: pathlib.Path, tell: Callable[[str], None]
) -> None:
    kill_again_and_again(tmp_path, 10, 1, tell)


@pytest.mark.slow
def test_a_leader_that_is_killed_a_hundred_times(
    tmp_path: pathlib.Path, request: pytest.FixtureRequest, tell: Callable[[str], None]
) -> None:
    if "slow" not in request.config.option.markexpr:
        pytest.skip("a hundred processes take minutes; they run with -m slow")
    kill_again_and_again(tmp_path, 100, 2, tell)
