"""kill -9 of the real program at a chosen write, and going on afterwards on this machine or another."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.e2e import crash_cases, crash_scenarios, crash_stage
from tpuctl.cli import wiring
from tpuctl.cloud import identity
from tpuctl.ops import context as contexts
from tpuctl.ops import locking
from tpuctl.sim import connections, simulator
from tpuctl.sim.api_faults import calls

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from starlette import requests, responses

SPEED = 600.0
BEFORE, AFTER = "before the write", "after the commit"
RENEWAL = ("update", "leases")
MANY = ("nodes", "pods")
HERE, ELSEWHERE = "here", "elsewhere"
"""Where it is gone on: on this machine the dead process is seen, elsewhere its lock must expire first."""


@dataclasses.dataclass(frozen=True)
class Kill:
    """One death and the way to go on."""

    point: crash_cases.Point
    when: str
    way: str
    where: str

    def __str__(self) -> str:
        return f"killed {self.when} of {self.point}, then {self.way} {self.where}"


class _Assassin:
    """Kills a process when it makes the call in question; the answer is never given."""

    def __init__(self, kill: Kill) -> None:
        self._kill = kill
        self._seen = 0
        self.pid = 0
        self.struck = False

    async def intercept(
        self, request: requests.Request, proceed: Callable[[], Awaitable[responses.Response]]
    ) -> responses.Response | None:
        call = calls.understand(calls.KUBERNETES, request)
        if (call.verb, call.resource) != (self._kill.point.verb, self._kill.point.resource):
            return None
        self._seen += 1
        if self._seen != self._kill.point.ordinal:
            return None
        if self._kill.when == AFTER:
            await proceed()
        os.kill(self.pid, signal.SIGKILL)
        self.struck = True
        return connections.NoAnswer(reset=True)


@contextlib.contextmanager
def in_real_time(home: pathlib.Path, *, cubes: int = 4) -> Iterator[crash_stage.Stage]:
    """A stage that lives by the machine's clock, 600 times as fast; the program finds it by a file."""
    settings = simulator.Settings(cubes=cubes, ready_cubes=cubes, slice_controller=True, speed=SPEED)
    with simulator.Simulator(settings) as running:
        running.kubeconfig(home / "kubeconfig")
        running.token_file(home / "token")
        shown = running.context()
        file = {"currentContext": "stage", "contexts": {"stage": shown}}
        (home / crash_stage.CONFIG).write_text(yaml.safe_dump(file))
        context = contexts.Context(
            name="stage",
            project=shown["project"],
            location=shown["location"],
            zone=shown["zone"],
            cluster=shown["cluster"],
            reservations=tuple(shown["reservations"]),
            kubeconfig=shown["kubeconfig"],
            kubeconfig_context=shown["kubeconfigContext"],
            endpoint_container=shown["endpoints"]["container"],
            endpoint_compute=shown["endpoints"]["compute"],
            token_file=shown["tokenFile"],
            clock_scale=shown["clockScale"],
        )
        stage = crash_stage.Stage(
            simulator=running, ports=wiring.connect(context), context=context, home=home
        )
        crash_stage.set_the_stage(stage)
        yield stage
        stage.check_simulator()


def run(stage: crash_stage.Stage, scenario: crash_scenarios.Scenario, kill: Kill) -> crash_cases.Verdict:
    """Set up, kill, go on, and look at everything."""
    scenario.arrange(stage)
    if kill.point.resource == "namespaces":
        stage.forget_namespace()
    assassin = _Assassin(kill)
    with stage.intercepted(assassin.intercept), stage.child(*scenario.command()) as process:
        assassin.pid = process.pid
        told = process.communicate(timeout=crash_stage.CHILD_TIMEOUT_S)
    wrong = stage.broken_promises()
    if process.returncode != (-signal.SIGKILL if assassin.struck else 0):
        wrong.append(f"it ended with {process.returncode}: {told}")
    with _elsewhere(stage) if kill.where == ELSEWHERE else _here(stage):
        complaints, back = crash_scenarios.go_on(stage, scenario, kill.way)
    wrong += [*complaints, *scenario.misses(stage, back=back), *stage.broken_promises()]
    stage.advance(locking.stretched(stage.ports.clock, crash_stage.LEASE_IS_OVER_S))
    wrong += stage.leftovers()
    if not wrong:
        scenario.tidy(stage)
    return crash_cases.Verdict(assassin.struck, wrong)


@contextlib.contextmanager
def _here(stage: crash_stage.Stage) -> Iterator[None]:
    """By another process on this machine, which sees that the holder of the lock is dead."""
    stage.as_processes = True
    try:
        yield
    finally:
        stage.as_processes = False


@contextlib.contextmanager
def _elsewhere(stage: crash_stage.Stage) -> Iterator[None]:
    """As on a machine that cannot see whether the holder of a lock still lives: it waits."""
    stage.advance(locking.stretched(stage.ports.clock, crash_stage.LEASE_IS_OVER_S))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(identity.KubeIdentity, "is_dead", lambda _self, _holder: False)
        yield


def before_and_after(points: Sequence[crash_cases.Point]) -> list[Kill]:
    """Every write, before it and after it; the ways to go on take turns.

    Of sixteen writes in a row the first and the last are met before, the one in the middle after.
    """
    found = []
    for number, point in enumerate(_writes(points)):
        for turn, when in enumerate((BEFORE, AFTER)):
            if point.resource in MANY and turn != number % 2:
                continue
            way = (crash_scenarios.AGAIN, crash_scenarios.RESUME)[(number + turn) % 2]
            where = (HERE, ELSEWHERE)[number // 2 % 2]
            found.append(Kill(point, when, way, where))
    return found


def in_every_way(points: Sequence[crash_cases.Point], ways: Sequence[str]) -> list[Kill]:
    """Every write, before it and after it, and every way to go on."""
    return [
        Kill(point, when, way, where)
        for point in _writes(points)
        for when in (BEFORE, AFTER)
        for way in ways
        for where in (HERE, ELSEWHERE)
    ]


def _writes(points: Sequence[crash_cases.Point]) -> list[crash_cases.Point]:
    """Those that come in real time too: locks last longer there, and a pod of a dead host may be gone."""
    found = [point for point in points if point.is_write and (point.verb, point.resource) != RENEWAL]
    pods = [point for point in found if point.resource == "pods"]
    return [point._replace(ordinal=point.ordinal - 1) if point in pods[-1:] else point for point in found]
