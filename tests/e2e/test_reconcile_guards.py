"""What keeps the loop from acting, with the real program and every write counted at the simulator.

Each test also shows that the same loop on the same fleet does write when nothing keeps it from it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from typing import TYPE_CHECKING, Any

import pytest
from starlette import responses

from tests.e2e import (
    crash_stage,
    fleet_days,
    fleet_fate,
    loop_stage,
    soak_faults,
)
from tpuctl.cli import rehearsal, wiring
from tpuctl.cloud import kube, watching
from tpuctl.ops import locking
from tpuctl.ops.reconciling import leadership, loop, outcomes, pauses, views
from tpuctl.sim import api_faults
from tpuctl.sim.api_faults import calls

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Iterator

    from starlette import requests

FIRST, SECOND, THIRD = loop_stage.FIRST, loop_stage.SECOND, loop_stage.THIRD
GUARD, TROUBLE, CONFLICT = 9, 11, 6
SMALL_PAGE = 20
"""Nodes on a page: a list of 96 nodes has five."""
BLIND: dict[str, tuple[api_faults.Effect, dict[str, Any]]] = {
    "a list that breaks off in the middle": (
        api_faults.Error(500),
        {"api": calls.KUBERNETES, "verb": "list", "resource": "nodes", "page": 3},
    ),
    "a list whose pages have expired": (
        api_faults.Expired(),
        {"api": calls.KUBERNETES, "verb": "list", "resource": "nodes", "page": 2},
    ),
    "half a document": (
        api_faults.Truncated("json"),
        {"api": calls.KUBERNETES, "verb": "list", "resource": "slices"},
    ),
    "an error under 200": (
        api_faults.ErrorUnder200(500),
        {"api": calls.KUBERNETES, "verb": "list", "resource": "pods"},
    ),
    "401 for nodes": (
        api_faults.Error(401),
        {"api": calls.KUBERNETES, "verb": "list", "resource": "nodes"},
    ),
    "401 for everything": (api_faults.Error(401), {"api": calls.KUBERNETES}),
    "401 for node pools": (api_faults.Error(401), {"api": calls.CONTAINER}),
    "403 for reservations": (api_faults.Error(403), {"api": calls.COMPUTE}),
    "records that cannot be read": (
        api_faults.Error(503),
        {"api": calls.KUBERNETES, "verb": "list", "resource": "configmaps"},
    ),
}


@pytest.fixture
def looped(tmp_path: pathlib.Path) -> Iterator[loop_stage.Looped]:
    """Six cubes, one of them somebody else's; the loop has looked once and has two slices to form."""
    with crash_stage.in_virtual_time(tmp_path, cubes=6) as stage:
        made = loop_stage.Looped(stage)
        made.declare(FIRST, SECOND)
        assert made.cycle().status == 0
        stage.advance(30)
        yield made
        assert stage.broken_promises() == []


def slices_of(writes: list[loop_stage.Write]) -> list[str]:
    return [f"{write.method} {write.name}" for write in writes if write.resource == "slices"]


# -- views that are no views ---------------------------------------------------------------------------------


def test_who_does_not_see_everything_writes_nothing(
    looped: loop_stage.Looped, monkeypatch: pytest.MonkeyPatch
) -> None:
    """cloud-custodian#11081, python#2582: what cannot be read is not absent, and 401 is no empty list."""
    monkeypatch.setattr(kube, "PAGE_SIZE", SMALL_PAGE)
    simulator = looped.stage.simulator
    for name, (effect, selection) in BLIND.items():
        fault = api_faults.injected(simulator, effect, **selection)
        with fault as met, loop_stage.written(simulator) as writes:
            done = looped.cycle()
        assert met.hits > 0, name
        assert done.status != 0, name
        assert not done.is_bug, done.err
        assert writes == [], name
        assert looped.states() == {}, name
    with loop_stage.written(simulator) as writes:
        assert looped.cycle().status == 0
    assert slices_of(writes) == ["POST first", "POST second"]


@contextlib.contextmanager
def lagging(looped: loop_stage.Looped) -> Iterator[Callable[[bool], None]]:
    """An API server that, while told to, gives the list of slices that it gave first."""
    first: list[bytes] = []
    lags = False

    async def lag(request: requests.Request, proceed: Callable[[], Any]) -> responses.Response | None:
        call = calls.understand(calls.KUBERNETES, request)
        if (call.verb, call.resource) != ("list", "slices"):
            return None
        answer = await proceed()
        first[:] = first or [answer.body]
        if not lags:
            return answer
        headers = {name: value for name, value in answer.headers.items() if name != "content-length"}
        return responses.Response(first[0], answer.status_code, headers)

    def turn(on: bool) -> None:
        nonlocal lags
        lags = on

    with looped.stage.intercepted(lag):
        yield turn


def test_a_list_older_than_the_last_one_is_not_acted_upon(looped: loop_stage.Looped) -> None:
    """kubernetes#59848: one of several API servers lags behind."""
    looped.converge()
    simulator = looped.stage.simulator
    seen: list[tuple[outcomes.Outcome, list[str]]] = []
    with lagging(looped) as turn, loop_stage.written(simulator) as writes:
        looped.states()  # the list that will come again

        def on_cycle(outcome: outcomes.Outcome) -> None:
            seen.append((outcome, slices_of(writes)))
            turn(len(seen) == 1)
            if len(seen) == 1:
                looped.break_host("first")
                looped.stage.advance(30)  # less than the lock lasts

        loop.run(
            looped.stage.ports,
            fleet_days.Telling(),
            looped.settings(),
            on_cycle=on_cycle,
            stop=lambda: bool(seen) and bool(seen[-1][1]),
            deadline_s=600.0,
            watch=False,
        )
    assert isinstance(seen[1][0].failure, views.Stale)
    assert seen[1][1] == []
    assert seen[-1][1] == ["DELETE first", "POST first"]
    assert len(seen) == 3


@pytest.mark.parametrize("silent", [True, False])
def test_a_watch_that_is_half_open_is_not_trusted_for_long(
    looped: loop_stage.Looped, monkeypatch: pytest.MonkeyPatch, silent: bool
) -> None:
    """python-base#271: the connection is there and nothing comes through it. Until everything is read anew
    nothing is written; then it is what is read that counts."""
    monkeypatch.setattr(watching, "_LISTEN_S", 0.01)
    looped.converge()
    simulator, clock = looped.stage.simulator, looped.stage.ports.clock
    broken_s: list[float] = []
    begun_s = clock.monotonic_s()
    with contextlib.ExitStack() as stack:
        if silent:
            for resource in ("nodes", "slices"):
                fault = api_faults.injected(
                    simulator,
                    api_faults.SilentWatch(),
                    api=calls.KUBERNETES,
                    verb="watch",
                    resource=resource,
                )
                stack.enter_context(fault)
        writes = stack.enter_context(loop_stage.written(simulator))

        def stop() -> bool:
            """Asked again and again: after a while a host dies; the first write ends the run."""
            if not broken_s and clock.monotonic_s() - begun_s > 40:
                looped.break_host("first")
                broken_s.append(clock.monotonic_s())
            return bool(slices_of(writes))

        loop.run(
            looped.stage.ports,
            fleet_days.Telling(),
            looped.settings(),
            stop=stop,
            deadline_s=900.0,
        )
    assert slices_of(writes)[:1] == ["DELETE first"]
    acted_s = clock.monotonic_s() - broken_s[0]
    if silent:
        assert 120 < acted_s < views.HEARD_S + views.REREAD_S
    else:
        assert acted_s < 120


# -- who leads -----------------------------------------------------------------------------------------------


def test_who_loses_the_lock_while_looking_writes_nothing(looped: loop_stage.Looped) -> None:
    """python-base#278: the lock is lost between the look and the first write."""
    simulator, ports = looped.stage.simulator, looped.stage.ports
    elsewhere = dataclasses.replace(ports, identity=fleet_fate.Elsewhere())

    def take_over() -> None:
        locking.break_lock(ports, leadership.NAME, reason="test")
        locking.acquire(elsewhere, fleet_days.Telling(), leadership.NAME, fleet_fate.ELSEWHERE, wait_s=0.0)

    lost = loop_stage.when_answered("GET", "/nodes", take_over)
    with lost as struck, loop_stage.written(simulator) as writes:
        done = looped.cycle()
    assert len(struck) == 1
    assert done.status == CONFLICT, done.err
    assert writes == []
    lease = ports.leases.get(leadership.NAME)
    assert lease.holder == fleet_fate.ELSEWHERE
    with loop_stage.written(simulator) as writes:
        assert looped.cycle().status == 75
    assert writes == []
    ports.leases.free(lease)
    with loop_stage.written(simulator) as writes:
        assert looped.cycle().status == 0
    assert slices_of(writes) == ["POST first", "POST second"]


def test_what_a_dead_leader_was_taking_apart_is_nobody_elses_deletion(looped: loop_stage.Looped) -> None:
    """Its successor comes while the slice is still on its way out: it is finished and formed again."""
    looped.converge()
    stage = looped.stage
    # It has failed and its cubes are well again: it is taken apart and formed anew.
    broken = stage.simulator.inject("host-down", stage.nodes_of(looped.members("first")[0])[3])
    stage.advance(20)
    stage.simulator.clear(broken)
    stage.advance(300)
    dying = wiring.connect(stage.context, rehearsal.DrivenClock(stage.simulator))
    with fleet_fate.killed_after_deletion() as struck, contextlib.suppress(soak_faults.Killed):
        loop.run(dying, fleet_days.Telling(), looped.settings(), deadline_s=600.0, watch=False)
    assert struck == [f"{crash_stage.SLICES}/first"]
    for lease in stage.ports.leases.list():
        stage.ports.leases.free(lease)  # as whoever sees that its process is dead
    there = stage.ports.slices.get("first")
    assert there is not None
    assert there.deleting
    looped.converge()
    assert looped.states() == {"first": "ACTIVE", "second": "ACTIVE"}


# -- the breaker ---------------------------------------------------------------------------------------------


def test_the_breaker_stays_tripped_until_it_is_reset(looped: loop_stage.Looped) -> None:
    """NVSentinel: half of the cubes in trouble at once is a false alarm, or nothing for a loop."""
    looped.converge()
    looped.declare(FIRST, SECOND, breaker="{percent: 25, cubes: 16, minimumCubes: 2}")
    stage = looped.stage
    stage.advance(1800)  # new nodes may be coming up
    cubes = [*looped.members("first"), *looped.members("second")]
    faults = [stage.simulator.inject("host-down", stage.nodes_of(cube)[5]) for cube in cubes]
    stage.advance(120)
    with loop_stage.written(stage.simulator) as writes:
        for _ in range(3):
            assert looped.cycle().status == GUARD
            stage.advance(60)
    assert {write.resource for write in writes} <= {"configmaps"}
    assert looped("status").status == TROUBLE
    # The alarm was false, or somebody has repaired it all: that is not for the loop to judge.
    for fault in faults:
        stage.simulator.clear(fault)
    stage.advance(1800)
    with loop_stage.written(stage.simulator) as writes:
        for _ in range(3):
            looped.cycle()
            stage.advance(60)
    assert {write.resource for write in writes} <= {"configmaps"}
    assert set(looped.states().values()) == {"FAILED"}
    assert looped("resume", "--reason", "no word about the breaker").status == 0
    assert looped.cycle().status == GUARD
    assert looped("resume", "--reset-breaker", "--reason", "a rack was restarted").status == 0
    looped.converge()
    assert looped.states() == {"first": "ACTIVE", "second": "ACTIVE"}
    assert looped("status").status == 0


# -- people --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["run", "apply"])
def test_a_pause_between_two_steps_of_a_plan_is_heard(looped: loop_stage.Looped, way: str) -> None:
    """What has begun ends; the next step does not begin before somebody resumes."""
    looped.converge()
    stage = looped.stage
    looped.declare(THIRD)
    looped.cycle()
    stage.advance(30)
    saved = str(stage.home / "plan.json")
    assert looped("plan", "--out", saved).status == 0
    act = looped.cycle if way == "run" else functools.partial(looped, "apply", saved)
    again = looped.cycle if way == "run" else functools.partial(looped, "apply", saved, "--resume")
    pause = functools.partial(pauses.pause, stage.ports, reason="wait")
    between = loop_stage.when_answered("DELETE", f"{crash_stage.SLICES}/", pause)
    with between as struck, loop_stage.written(stage.simulator) as writes:
        act()
    assert struck == [f"{crash_stage.SLICES}/first"]
    deleted = [text for text in slices_of(writes) if text.startswith("DELETE")]
    assert deleted == ["DELETE first"]
    assert "first" not in looped.states()
    assert looped.states()["second"] == "ACTIVE"
    with loop_stage.written(stage.simulator) as writes:
        again()
    assert slices_of(writes) == []
    assert looped("resume", "--reason", "it is over").status == 0
    with loop_stage.written(stage.simulator) as writes:
        assert again().status == 0
    assert "DELETE second" in slices_of(writes)
