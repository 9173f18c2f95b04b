"""A plan as a file: applied once, if the world is still what it relies on."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import orjson
import pytest

from tests.ops.conftest import Killed, Recorder, whole
from tests.ops.reconciling.conftest import World, spec_of, wanted, world_of
from tests.ops.test_swapping import break_host
from tpuctl.model import errors, reconciling, records, topology
from tpuctl.ops import forming, holding, journal, locking
from tpuctl.ops.reconciling import history, leadership, memory, outcomes, pauses, plan_files, plans

if TYPE_CHECKING:
    import pathlib

    from tpuctl.cli.rehearsal import Rehearsal

Became = outcomes.Became


@pytest.fixture
def world(scene: Rehearsal, reporter: Recorder) -> World:
    """Two slices are wanted, nothing is there, and no loop has ever run."""
    return world_of(scene, reporter, wanted("first", "4x4x4", priority=2), wanted("second", "4x4x8"))


def apply(world: World, plan: reconciling.PlanFile, **options: object) -> outcomes.Outcome:
    return plans.apply(
        world.ports,
        world.reporter,
        world.settings,
        plan,
        version="1",
        **options,  # type: ignore[arg-type] # whatever apply takes
    )


def became(outcome: outcomes.Outcome) -> dict[str, str]:
    return {result.action.id: str(result.became) for result in outcome.results}


def test_a_plan_is_applied_once(world: World, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "plan.json"
    plan_files.write(world.plan_file(), path)
    plan = plan_files.read(path)
    assert [action.id for action in plan.actions] == ["form/first", "form/second"]
    found = apply(world, plan)
    assert became(found) == {"form/first": "done", "form/second": "done"}
    assert found.sentence == "2 actions: 2 done"
    assert world.states() == {"first": "ACTIVE", "second": "ACTIVE"}
    for action in plan.actions:
        for one in action.forming:
            assert world.slice(one.name).partition_ids == one.partition_ids
    assert [entry.plan for entry in history.read(world.ports)] == [plan.id, plan.id]
    with world.writes() as writes, pytest.raises(errors.Conflict, match="was used already") as again:
        apply(world, plan)
    assert again.value.details == ("done: form/first", "done: form/second")
    assert [write for write in writes if not write.is_lead] == []
    # Whoever applies a plan has observed the fleet: a loop may act from its first cycle on.
    assert world.cycle().decision.actions == ()
    assert not world.ports.leases.get(leadership.NAME).is_held


def test_planning_writes_nothing(world: World) -> None:
    with world.writes() as writes:
        planned = world.plan()
    assert writes == []
    assert len(planned.decision.to_do) == 2
    assert planned.plan_id == world.plan().plan_id


def test_heartbeats_are_no_drift(world: World) -> None:
    plan = world.plan_file()
    world.advance(1800)
    assert set(became(apply(world, plan)).values()) == {"done"}


def test_what_moved_is_listed_and_nothing_is_done(world: World) -> None:
    plan = world.plan_file()
    taken = plan.actions[0].forming[0].partition_ids[0]
    forming.form(world.ports, world.reporter, "theirs", forming.request(topology.CUBE, cubes=(taken,)))
    held = plan.actions[1].forming[0].partition_ids[1]
    holding.hold(world.ports, held, reason="burn-in")
    with world.writes() as writes, pytest.raises(errors.Conflict, match="the world moved") as moved:
        apply(world, plan)
    assert moved.value.exit_status == 6
    told = "\n".join(moved.value.details)
    assert f"cube {taken}: " in told
    assert "held by theirs now" in told
    assert f"cube {held}: " in told
    assert len(moved.value.details) == 2
    assert [write for write in writes if not write.is_lead] == []
    assert plans.used(world.ports, plan) is None


def test_a_plan_expires(world: World) -> None:
    plan = world.plan_file(valid_s=600.0)
    world.advance(601)
    with pytest.raises(errors.GuardStopped, match="expired at"):
        apply(world, plan)
    assert world.states() == {}


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"version": "2"}, "tpuctl: the plan is for 2, this is 1"),
        ({"cluster": "p/l/other"}, "cluster: the plan is for p/l/other"),
        ({"spec_digest": "other"}, "declared state: the plan is for other"),
        ({"policy_digest": ""}, "health policy: the plan is for none, this is p"),
        ({"pool_policy": "mine"}, "workload policy: the plan is for mine"),
    ],
)
def test_a_plan_is_bound_to_what_it_was_made_with(world: World, change: dict[str, str], what: str) -> None:
    plan = dataclasses.replace(world.plan_file(), **change)  # type: ignore[arg-type] # texts all of them
    with world.writes() as writes, pytest.raises(errors.Conflict, match="does not fit any more") as unfit:
        apply(world, plan)
    assert any(line.startswith(what) for line in unfit.value.details)
    assert [write for write in writes if not write.is_lead] == []


def test_a_file_that_was_edited_is_refused(world: World, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "plan.json"
    plan_files.write(world.plan_file(), path)
    document = orjson.loads(path.read_bytes())
    document["plan"]["actions"] = document["plan"]["actions"][:1]
    path.write_bytes(orjson.dumps(document))
    with pytest.raises(errors.UsageError, match="not as it was written"):
        plan_files.read(path)
    for text, why in (
        ("{}", "is no plan"),
        ("[", "is not JSON"),
        ('{"kind": "ReconcilePlan", "apiVersion": "tpuctl/v9"}', "has version tpuctl/v9"),
        ('{"kind": "ReconcilePlan", "apiVersion": "tpuctl/v1", "plan": {}}', "key 'actions' is missing"),
    ):
        path.write_text(text)
        with pytest.raises(errors.UsageError, match=why):
            plan_files.read(path)
    with pytest.raises(errors.NotFound):
        plan_files.read(tmp_path / "none.json")
    with pytest.raises(errors.UsageError, match="cannot write"):
        plan_files.write(world.plan_file(), tmp_path / "no" / "plan.json")


def test_what_failed_is_gone_on_with(world: World) -> None:
    plan = world.plan_file()
    cube = plan.actions[0].forming[0].partition_ids[0]
    fault = world.scene.simulator.inject("fail-activation", cube, times=9)
    first = apply(world, plan)
    world.scene.simulator.clear(fault)
    assert became(first) == {"form/first": "failed", "form/second": "done"}
    assert plans.used(world.ports, plan).done == ("form/second",)
    with pytest.raises(errors.Conflict, match="was used already") as refused:
        apply(world, plan)
    assert "--resume" in (refused.value.hint or "")
    second = apply(world, plan, resume=True)
    assert became(second) == {"form/first": "done"}
    assert apply(world, plan, resume=True).sentence == "nothing to do"


def test_what_is_true_already_is_left_out_and_the_rest_must_not_have_moved(world: World) -> None:
    plan = world.plan_file()
    one, two = plan.actions
    fault = world.scene.simulator.inject("fail-activation", one.forming[0].partition_ids[0], times=9)
    assert became(apply(world, plan))["form/first"] == "failed"
    world.scene.simulator.clear(fault)
    # Somebody forms exactly what the plan wanted.
    wish = forming.request(topology.CUBE, cubes=one.forming[0].partition_ids, priority=2)
    forming.form(world.ports, world.reporter, "first", wish)
    with world.writes() as writes:
        found = apply(world, plan, resume=True)
    assert found.sentence == "nothing to do"
    assert [write.resource for write in writes if not write.is_lead] == []
    assert two.id in plans.used(world.ports, plan).done


def test_drift_of_what_is_left_stops_a_resumed_plan(world: World) -> None:
    plan = world.plan_file()
    cube = plan.actions[0].forming[0].partition_ids[0]
    fault = world.scene.simulator.inject("fail-activation", cube, times=9)
    apply(world, plan)
    world.scene.simulator.clear(fault)
    holding.hold(world.ports, cube, reason="look at it")
    with pytest.raises(errors.Conflict, match="the world moved") as moved:
        apply(world, plan, resume=True)
    assert [line.split(":")[0] for line in moved.value.details] == [f"cube {cube}"]


def test_a_plan_that_was_killed_half_way_is_gone_on_with(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kill -9 while a slice is away: it is brought back first, then the rest follows."""
    world.converge()
    world.wants(spec_of(world.scene, wanted("first", "4x4x4", priority=2), prune_grace_s=0.0))
    break_host(world.scene, world.slice("first").partition_ids[0])
    world.advance(300)
    world.ports.records.delete(world.ports.records.get(memory.RECORD))
    plan = world.plan_file()
    if not plan.actions:
        world.cycle()
        world.advance(30)
        plan = world.plan_file()
    assert [action.kind.value for action in plan.actions] == ["swap"]
    release = locking.Lock.release

    def die(*_arguments: object, **_options: object) -> None:
        monkeypatch.setattr(locking.Lock, "release", lambda _lock: None)
        monkeypatch.setattr(leadership.Leader, "release", lambda _lock: None)
        raise Killed

    give_back = leadership.Leader.release
    with monkeypatch.context() as patched:
        patched.setattr(type(world.ports.slices), "create", die)
        with pytest.raises(Killed):
            apply(world, plan)
    monkeypatch.setattr(locking.Lock, "release", release)
    monkeypatch.setattr(leadership.Leader, "release", give_back)
    world.advance(locking.DURATION_S + 1)
    assert "first" not in world.states()
    found = apply(world, plan, resume=True)
    assert became(found) == {"finish/swap-first": "done"}
    assert world.states()["first"] == "ACTIVE"
    assert journal.list_open(world.ports) == []
    assert apply(world, plan, resume=True).sentence == "nothing to do"


def test_guards_hold_for_plans_too(world: World) -> None:
    plan = world.plan_file()
    pauses.pause(world.ports, reason="wait")
    with pytest.raises(errors.GuardStopped, match="paused by"):
        apply(world, plan)
    pauses.resume(world.ports)
    with leadership.lead(world.ports, world.reporter), pytest.raises(errors.Busy):
        apply(world, plan)
    assert plans.used(world.ports, plan) is None


def test_a_plan_over_the_budget_is_refused(world: World) -> None:
    world.converge()
    world.wants(spec_of(world.scene, wanted("other", "4x4x4"), prune_grace_s=0.0))
    world.cycle()
    world.advance(30)
    plan = world.plan_file()
    kept = memory.load(world.ports, "test")
    spent = reconciling.Disruption(kept.memory.observed_at, 4000, "repair/x")
    memory.save(world.ports, kept, dataclasses.replace(kept.memory, disruptions=(spent,)))
    assert sum(action.chips for action in plan.actions) > 96
    with pytest.raises(errors.GuardStopped, match="96 are left in this hour"):
        apply(world, plan)


def test_marks_of_plans_that_nobody_can_use_are_forgotten(world: World) -> None:
    old = world.plan_file(valid_s=600.0)
    apply(world, old)
    world.advance(700)
    world.wants(spec_of(world.scene, wanted("third", "4x4x4"), wanted("first", "4x4x4", priority=2)))
    apply(world, world.plan_file())
    assert len(world.ports.records.list(records.PLAN)) == 1
    # A person read the plan, so what is not wanted any more went without the grace of a loop.
    assert {item.name for item in whole(world.scene).slices} == {"first", "third"}
