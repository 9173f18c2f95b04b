"""A month that nobody watches, on the simulator: what would leave a slice away, or the loop deaf."""

from __future__ import annotations

import dataclasses
import datetime
from typing import TYPE_CHECKING

from tests.ops.reconciling.conftest import World, spec_of, wanted, world_of
from tests.ops.test_swapping import break_host, busy_slice
from tpuctl.model import declared, reconciling
from tpuctl.ops.reconciling import acting, history, loop, memory, outcomes, pauses, slice_actions, status
from tpuctl.sim import api_faults

if TYPE_CHECKING:
    import pytest

    from tests.ops.conftest import Recorder
    from tpuctl.cli.rehearsal import Rehearsal

Became = outcomes.Became
Kind = reconciling.ActionKind


def until(world: World, kind: reconciling.ActionKind, *, limit: int = 20) -> outcomes.Result:
    """Cycles until one does that."""
    for _ in range(limit):
        found = world.cycle()
        for result in found.results:
            if result.action.kind is kind:
                return result
        world.advance(30)
    raise AssertionError(f"no {kind} was done")


def test_a_pause_in_the_middle_of_a_move_does_not_leave_the_slice_away(
    scene: Rehearsal, reporter: Recorder
) -> None:
    """Taken apart to be made again in another shape: between the two a person pauses the loop."""
    world = world_of(scene, reporter, wanted("train", "4x4x8"))
    world.converge()
    world.wants(spec_of(scene, wanted("train", "4x8x8")))

    def hear(event: declared.HookEvent, _facts: object) -> None:
        if event is declared.HookEvent.SLICE_DEFORMED:
            pauses.pause(world.ports, reason="wait")

    world.hooks.run = hear  # type: ignore[method-assign] # a hook that pauses
    result = until(world, Kind.GROW)
    assert (result.became, result.why) == (Became.DONE, "")
    assert world.states() == {"train": "ACTIVE"}
    assert world.slice("train").raw_topology == "4x8x8"


def test_a_pause_before_a_move_still_stops_it(
    scene: Rehearsal, reporter: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of(scene, reporter, wanted("train", "4x4x8"))
    world.converge()
    before = world.slice("train")
    world.wants(spec_of(scene, wanted("train", "4x8x8")))
    remake = slice_actions.remake

    def paused_first(*arguments: object) -> tuple[outcomes.Became, str]:
        pauses.pause(world.ports, reason="wait")
        return remake(*arguments)  # type: ignore[arg-type] # as given

    monkeypatch.setitem(acting._ONE_BY_ONE, Kind.GROW, paused_first)
    assert until(world, Kind.GROW).became is Became.STOPPED
    assert world.slice("train").uid == before.uid


def test_a_slice_that_cannot_go_away_keeps_no_cycle_waiting_for_long(
    scene: Rehearsal, reporter: Recorder
) -> None:
    """A finalizer that nobody removes: others still get their swap in time."""
    world = world_of(scene, reporter, wanted("old", "4x4x4"), wanted("train", "4x4x8"))
    world.converge()
    scene.simulator.inject("stuck-finalizer", "old")
    world.wants(spec_of(scene, wanted("train", "4x4x8"), prune_grace_s=0.0))
    assert until(world, Kind.DEFORM).became is Became.GOING_ON
    world.advance(slice_actions.LONG_OPEN_S)
    found = world.cycle()
    [result] = found.results
    assert (result.action.kind, result.became) == (Kind.FINISH, Became.GOING_ON)
    assert result.waited_s < 30
    break_host(scene, world.slice("train").partition_ids[0])
    assert until(world, Kind.SWAP).became is Became.DONE


def test_who_stands_by_outlives_a_token_that_is_refused_for_a_while(
    scene: Rehearsal, reporter: Recorder
) -> None:
    world = world_of(scene, reporter, wanted("train", "4x4x8"))
    fault = api_faults.injected(
        scene.simulator, api_faults.Error(401), times=3, api="kubernetes", verb="get", resource="leases"
    )
    seen: list[outcomes.Outcome] = []
    with fault:
        loop.run(world.ports, reporter, world.settings, on_cycle=seen.append, deadline_s=60.0, watch=False)
    assert any(text.startswith("cannot tell who leads: ") for text in reporter.warnings)
    assert seen != []


def test_a_swap_that_would_fail_a_whole_job_is_told_with_its_reason(
    scene: Rehearsal, reporter: Recorder
) -> None:
    """Nothing is done about it by looking again, and a person can: raise backoffLimit, or end the job."""
    world = world_of(scene, reporter, wanted("train", "4x4x8"))
    world.converge()
    world.ports.slices.delete("train", uid=world.slice("train").uid)
    world.advance(120)
    before = busy_slice(scene, backoffLimit=0)
    world.cycle()
    break_host(scene, before.partition_ids[0])
    result = until(world, Kind.SWAP, limit=40)
    assert result.became is Became.FAILED
    assert "backoffLimit leaves room for 0" in result.why
    assert any("backoffLimit" in entry.text for entry in history.read(world.ports))
    [attempt] = memory.load(world.ports, "test").memory.attempts
    assert attempt.action == "swap/train"


def test_what_has_no_effect_is_told_in_words(scene: Rehearsal, reporter: Recorder) -> None:
    world = world_of(scene, reporter, wanted("train", "4x4x8"))
    world.converge()
    loaded = memory.load(world.ports, "test")
    at = datetime.datetime(2026, 1, 5, 8, tzinfo=datetime.UTC)
    churn = (reconciling.Attempt("form/train", 4, at, "0123456789ab"),)
    memory.save(world.ports, loaded, dataclasses.replace(loaded.memory, churn=churn))
    assert status.read(world.ports).stuck == (
        "form/train: done 4 times without effect, the last time at 2026-01-05 08:00:00 UTC",
    )


def test_a_long_reason_is_remembered_in_short() -> None:
    """Else a few hundred of them fill the one record that the loop must write to act at all."""
    action = reconciling.Action(kind=Kind.FORM, target="train", reason="wanted")
    at = datetime.datetime(2026, 1, 5, 8, tzinfo=datetime.UTC)
    failed = outcomes.Result(action, Became.FAILED, "x" * 32_768)
    after = memory.after(reconciling.Memory(), [failed], (), decided_at=at, now=at)
    assert len(after.attempts[0].why) == 400
