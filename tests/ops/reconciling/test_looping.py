"""Cycle after cycle: when the next one comes, who leads, and how it ends."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import types
from typing import TYPE_CHECKING

import pytest

from tests.ops.reconciling.conftest import World, wanted, world_of
from tests.ops.test_swapping import break_host
from tpuctl.model import errors
from tpuctl.model.exit_status import ExitStatus
from tpuctl.ops import locking
from tpuctl.ops.reconciling import cycle, leadership, loop, outcomes, pauses, status
from tpuctl.sim import api_faults

if TYPE_CHECKING:
    from tests.ops.conftest import Recorder
    from tpuctl.cli.rehearsal import Rehearsal

Became = outcomes.Became


@pytest.fixture
def world(scene: Rehearsal, reporter: Recorder) -> World:
    return world_of(scene, reporter, wanted("train", "4x4x8"))


def looped(world: World, **options: object) -> ExitStatus:
    """Run a loop and keep its cycles."""
    options.setdefault("watch", False)
    return loop.run(
        world.ports,
        world.reporter,
        world.settings,
        on_cycle=world.outcomes.append,
        **options,  # type: ignore[arg-type] # whatever loop.run takes
    )


def test_it_cycles_at_its_interval_until_its_time_is_over(world: World) -> None:
    started_s = world.ports.clock.monotonic_s()
    assert looped(world, deadline_s=300.0) is ExitStatus.OK
    assert 300 <= world.ports.clock.monotonic_s() - started_s < 310
    assert [bool(outcome.results) for outcome in world.outcomes[:3]] == [False, True, False]
    assert all(outcome.is_full for outcome in world.outcomes)
    times = [outcome.at for outcome in world.outcomes if outcome.at is not None]
    gaps = [(later - before).total_seconds() for before, later in itertools.pairwise(times[3:])]
    assert gaps == [30.0] * len(gaps) != []
    assert len({outcome.cycle for outcome in world.outcomes}) == len(world.outcomes)
    assert world.states() == {"train": "ACTIVE"}
    lease = world.ports.leases.get(leadership.NAME)
    assert not lease.is_held


def test_after_something_was_done_it_looks_again_soon(world: World) -> None:
    looped(world, deadline_s=200.0)
    acted = next(number for number, outcome in enumerate(world.outcomes) if outcome.results)
    before, after = world.outcomes[acted], world.outcomes[acted + 1]
    assert (after.at - before.at).total_seconds() < before.duration_s + 10


def test_told_to_end_it_ends_within_seconds_and_frees_its_lock(world: World) -> None:
    started_s = world.ports.clock.monotonic_s()

    def stop() -> bool:
        return world.ports.clock.monotonic_s() - started_s > 100

    assert looped(world, stop=stop, interval_s=3600.0) is ExitStatus.OK
    assert world.ports.clock.monotonic_s() - started_s < 110
    assert len(world.outcomes) == 1
    assert world.ports.leases.get(leadership.NAME).holder == ""


def test_single_cycles_for_cron(world: World) -> None:
    assert looped(world, once=True) is ExitStatus.OK
    world.advance(60)
    assert looped(world, once=True) is ExitStatus.OK
    assert [len(outcome.results) for outcome in world.outcomes] == [0, 1]
    assert world.states() == {"train": "ACTIVE"}
    assert "waiting" not in " ".join(world.reporter.steps)
    # A lock that was given back in order is nothing to warn of.
    assert world.reporter.warnings == []


def test_a_single_cycle_says_how_it_ended(world: World) -> None:
    looped(world, once=True)
    fault = api_faults.injected(
        world.scene.simulator, api_faults.Error(401), api="kubernetes", verb="list", resource="nodes"
    )
    with fault, pytest.raises(errors.NotPermitted) as denied:
        looped(world, once=True)
    assert denied.value.exit_status is ExitStatus.NOT_PERMITTED
    world.advance(30)
    cube = world.plan().decision.to_do[0].forming[0].partition_ids[0]
    world.scene.simulator.inject("fail-activation", cube, times=9)
    assert looped(world, once=True) is ExitStatus.FAILED
    pauses.pause(world.ports, reason="test")
    world.advance(120)
    assert looped(world, once=True) is ExitStatus.GUARD


def test_what_cannot_be_seen_is_looked_at_less_and_less_often(world: World) -> None:
    looped(world, deadline_s=60.0)
    world.outcomes.clear()
    fault = api_faults.injected(
        world.scene.simulator, api_faults.Error(403), api="kubernetes", verb="list", resource="pods"
    )
    with fault, world.writes() as writes:
        looped(world, deadline_s=1800.0)
    # After 60 s, 120 s, 240 s, then every 300 s.
    assert len(world.outcomes) == 8
    assert all(isinstance(outcome.failure, errors.NotPermitted) for outcome in world.outcomes)
    assert {write.resource for write in writes} == {"leases"}
    world.outcomes.clear()
    looped(world, deadline_s=60.0)
    assert world.outcomes[0].is_full


def test_who_stands_by_takes_over_when_the_leader_is_gone(world: World) -> None:
    world.ports.leases.renew(world.ports.leases.get(leadership.NAME), "jo@elsewhere:1", locking.DURATION_S)
    started_s = world.ports.clock.monotonic_s()
    with world.writes() as writes:
        looped(world, deadline_s=30.0)
    assert (world.outcomes, writes) == ([], [])
    assert any(text.startswith("standing by: ") for text in world.reporter.steps)
    looped(world, deadline_s=120.0)
    assert world.outcomes != []
    assert world.ports.clock.monotonic_s() - started_s < 160
    assert any("has expired; it was taken over" in text for text in world.reporter.warnings)


def test_a_leader_that_lost_its_lock_stands_by(world: World) -> None:
    looped(world, deadline_s=100.0)
    world.outcomes.clear()
    is_broken = False

    def on_cycle(outcome: outcomes.Outcome) -> None:
        nonlocal is_broken
        world.outcomes.append(outcome)
        if not is_broken:
            is_broken = True
            locking.break_lock(world.ports, leadership.NAME, reason="test")
            world.ports.leases.renew(world.ports.leases.get(leadership.NAME), "jo@elsewhere:1", 60.0)

    with world.writes() as writes:
        loop.run(world.ports, world.reporter, world.settings, on_cycle=on_cycle, deadline_s=50.0, watch=False)
    # One cycle; after it the lock is not ours, and nothing but the breaking of it was written.
    assert len(world.outcomes) == 1
    assert world.ports.leases.get(leadership.NAME).holder == "jo@elsewhere:1"
    assert {write.resource for write in writes} == {"leases"}


def test_a_steady_fleet_costs_no_lists_and_no_writes(world: World) -> None:
    looped(world, deadline_s=200.0)
    world.outcomes.clear()
    lists = api_faults.injected(
        world.scene.simulator, api_faults.Observe(), api="kubernetes", verb="list", resource="nodes"
    )
    with lists as read, world.writes() as writes:
        looped(world, deadline_s=170.0, watch=True)
    assert all(outcome.is_full and not outcome.results for outcome in world.outcomes)
    assert len(world.outcomes) in (6, 7)  # the first word of the watch may count as news
    # By the first cycle; the watch goes on from there.
    assert read.hits == 1
    assert {write.resource for write in writes} == {"leases"}
    assert len({outcome.sentence for outcome in world.outcomes}) == 1


def test_a_watch_wakes_the_loop_early(world: World) -> None:
    looped(world, deadline_s=200.0)
    world.outcomes.clear()
    broken_at: list[float] = []
    seen_at: list[float] = []

    def on_cycle(outcome: outcomes.Outcome) -> None:
        now_s = world.ports.clock.monotonic_s()
        if not broken_at:
            broken_at.append(now_s)
            cube = world.slice("train").partition_ids[0]
            host = next(
                host.name for found in outcome.view.snapshot.cubes if found.id == cube for host in found.hosts
            )
            world.scene.simulator.inject("host-down", host)
        elif "failed" in outcome.sentence.lower() or outcome.results:
            seen_at.append(now_s)

    loop.run(
        world.ports,
        world.reporter,
        world.settings,
        on_cycle=on_cycle,
        interval_s=3600.0,
        deadline_s=900.0,
        stop=lambda: bool(seen_at),
    )
    assert seen_at
    # The node is silent for a while before Kubernetes says so; the interval of an hour plays no part.
    assert seen_at[0] - broken_at[0] < 300


def test_a_watch_that_is_silent_is_not_believed(world: World) -> None:
    """Half-open: the stream stays open and says nothing; the loop reads everything itself."""
    looped(world, deadline_s=200.0)
    world.outcomes.clear()
    is_broken = False

    def on_cycle(outcome: outcomes.Outcome) -> None:
        nonlocal is_broken
        world.outcomes.append(outcome)
        if len(world.outcomes) == 3 and not is_broken:
            is_broken = True
            break_host(world.scene, world.slice("train").partition_ids[0])

    silent = api_faults.injected(
        world.scene.simulator, api_faults.SilentWatch(), api="kubernetes", verb="watch"
    )
    with silent:
        loop.run(
            world.ports,
            world.reporter,
            world.settings,
            on_cycle=on_cycle,
            deadline_s=1500.0,
            stop=lambda: any(outcome.results for outcome in world.outcomes),
        )
    acted = [outcome for outcome in world.outcomes if outcome.results]
    assert [result.action.kind.value for outcome in acted for result in outcome.results] == ["swap"]
    assert world.states() == {"train": "ACTIVE"}


def test_the_status_tells_whether_the_loop_lives(world: World) -> None:
    fresh = status.read(world.ports)
    assert (fresh.is_stale, fresh.leader, fresh.cycle) == (True, "", "")
    with pytest.raises(errors.GuardStopped, match="no full cycle"):
        status.refuse_stale(fresh)
    looped(world, deadline_s=200.0)
    found = status.read(world.ports)
    last = world.outcomes[-1]
    assert (found.cycle, found.full_cycle_at, found.fleet) == (last.cycle, last.at, "test")
    assert (found.is_stale, found.limit_s, found.queue) == (False, 90.0, ())
    assert found.sentence == last.sentence
    status.refuse_stale(found)
    world.advance(100)
    later = status.read(world.ports)
    assert later.is_stale
    with pytest.raises(errors.GuardStopped, match="the last full cycle is"):
        status.refuse_stale(later)
    assert status.read(world.ports, max_age_s=3600).is_stale is False


def test_the_status_tells_of_a_leader_its_pause_and_what_waits(world: World) -> None:
    looped(world, deadline_s=20.0)
    pause, is_new = pauses.pause(world.ports, reason="look at the fabric")
    assert is_new
    assert status.read(world.ports).pause_seen is False
    seen: list[status.Status] = []
    loop.run(
        world.ports,
        world.reporter,
        world.settings,
        on_cycle=lambda _: seen.append(status.read(world.ports)),
        deadline_s=20.0,
        watch=False,
    )
    [found] = seen
    assert found.leader == world.ports.identity.actor()
    after = status.read(world.ports)
    assert (after.pause, after.pause_seen) == (pause, True)
    assert len(after.queue) == 1
    assert after.queue[0].startswith("+ train: ")
    assert "[pause: by " in after.queue[0]


def test_a_lead_is_given_back_even_if_the_work_under_it_fails(world: World) -> None:
    with (
        contextlib.suppress(RuntimeError),
        leadership.lead(world.ports, world.reporter),
    ):
        raise RuntimeError
    assert world.ports.leases.get(leadership.NAME).is_held is False


def test_a_leader_at_work_is_not_called_stale(world: World) -> None:
    """A formation is waited for four minutes; that is longer than looking may take, and no silence."""
    seen: list[status.Status] = []
    with leadership.lead(world.ports, world.reporter) as leader:
        cycle.run(world.ports, world.reporter, world.settings, leader)  # the first look
        world.advance(30)

        def look(*_: object) -> None:
            leader.renew_if_due()
            seen.append(status.read(world.ports))

        hooks = types.SimpleNamespace(run=look)
        busy = dataclasses.replace(world.settings, hooks=hooks)
        done = cycle.run(world.ports, world.reporter, busy, leader)
        assert done.results
        during = seen[-1]
        assert during.limit_s == status.ACTING_S + 90.0
        assert not during.is_stale
        world.advance(30)
        leader.renew_if_due()
        assert status.read(world.ports).limit_s == 90.0
