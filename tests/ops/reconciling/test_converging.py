"""A fleet comes to its declared state and stays there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.ops.conftest import Recorder, scene_of, whole
from tests.ops.reconciling.conftest import World, spec_of, wanted, world_of
from tpuctl.model import declared, fleet, names, reconciling, topology
from tpuctl.ops import forming, journal
from tpuctl.ops.reconciling import history, memory, outcomes
from tpuctl.sim import behaviour

if TYPE_CHECKING:
    from tpuctl.cli.rehearsal import Rehearsal

Kind, Became = reconciling.ActionKind, outcomes.Became
UP = {"large": "ACTIVE", "small-0": "ACTIVE", "small-1": "ACTIVE", "tiny": "ACTIVE"}


def done(outcome: outcomes.Outcome) -> list[tuple[str, str]]:
    return [(result.action.id, str(result.became)) for result in outcome.results]


def test_the_first_cycle_observes_and_the_second_forms_everything(world: World) -> None:
    with world.writes() as writes:
        first = world.cycle()
    assert first.failure is None
    assert first.results == ()
    assert world.states() == {}
    assert {write.resource for write in writes if not write.is_lead} <= {"configmaps", "namespaces"}
    kept = memory.load(world.ports, "test").memory
    assert (kept.fleet, kept.observed_at) == ("test", first.at)
    world.advance(30)
    second = world.cycle()
    assert done(second) == [
        ("form/large", "done"),
        ("form/small-0", "done"),
        ("form/small-1", "done"),
        ("form/tiny", "done"),
    ]
    assert world.states() == UP
    # They were begun together: none waited for the one before.
    assert max(result.waited_s for result in second.results) < 90
    assert world.hooks.events() == ["slice-formed"] * 4
    assert all(facts["cycle"] == second.cycle for _, facts in world.hooks.told)
    assert journal.list_open(world.ports) == []


def test_a_converged_fleet_is_left_alone(world: World) -> None:
    world.converge()
    plan = world.plan()
    assert plan.decision.actions == ()
    assert plan.plan_id == ""
    told = len(world.hooks.told)
    with world.writes() as writes:
        again = world.cycle()
    assert (again.failure, again.results) == (None, ())
    assert again.sentence == "12 cubes healthy of 12; 4 slices ACTIVE of 4; nothing to do."
    assert [write for write in writes if not write.is_lead] == []
    assert len(world.hooks.told) == told


def test_what_was_done_is_told_and_kept(world: World) -> None:
    world.converge()
    entries = history.read(world.ports)
    assert [(entry.result, entry.subject) for entry in entries] == [
        ("done", "large"),
        ("done", "small-0"),
        ("done", "small-1"),
        ("done", "tiny"),
    ]
    assert entries[0].text.startswith("+ large: ")
    assert entries[0].actor == world.ports.identity.actor()
    assert entries[0].cycle == world.outcomes[1].cycle
    assert entries[0].plan == world.outcomes[1].plan_id != ""
    item = world.slice("large")
    assert any("formed as 4x8x8" in text for text in world.ports.slices.events("large", uid=item.uid))


def test_mode_observe_writes_nothing_but_its_memory(scene: Rehearsal, reporter: Recorder) -> None:
    world = world_of(scene, reporter, wanted("train", "4x4x8"))
    world.wants(spec_of(scene, wanted("train", "4x4x8")), mode=declared.Mode.OBSERVE)
    with world.writes() as writes:
        found = world.cycles(3)
    assert [action.stopped_by for action in found.decision.actions] == ["mode observe: the loop only tells"]
    assert {write.resource for write in writes} <= {"leases", "configmaps", "namespaces"}
    assert world.states() == {}


def test_what_nobody_wants_any_more_goes_after_its_grace(scene: Rehearsal, reporter: Recorder) -> None:
    world = world_of(scene, reporter, wanted("train", "4x4x8"), wanted("other", "4x4x4"))
    world.converge()
    uid = world.slice("train").uid
    world.wants(spec_of(scene, wanted("other", "4x4x4"), prune_grace_s=120.0))
    early = world.cycles(4)
    assert early.results == ()
    assert set(world.states()) == {"train", "other"}
    world.advance(60)
    late = world.cycle()
    assert done(late) == [("deform/train", "done")]
    assert world.states() == {"other": "ACTIVE"}
    assert ("slice-deformed", "train") in [(str(event), facts["slice"]) for event, facts in world.hooks.told]
    assert any("taken apart" in text for text in world.ports.slices.events("train", uid=uid))
    assert world.converge().results == ()
    assert [entry.name for entry in memory.load(world.ports, "test").memory.formed] == ["other"]


def test_slices_of_others_are_left_alone(scene: Rehearsal, reporter: Recorder) -> None:
    forming.form(scene.ports, reporter, "theirs", forming.request(topology.parse("4x4x8")))
    world = world_of(scene, reporter, wanted("train", "4x4x8"), prune_grace_s=0.0)
    uid = world.slice("theirs").uid
    world.converge()
    world.cycles(4)
    assert world.slice("theirs").uid == uid
    assert world.states() == {"theirs": "ACTIVE", "train": "ACTIVE"}


def test_pools_are_made_across_cycles_and_slices_follow(reporter: Recorder) -> None:
    with scene_of(cubes=3, ready_cubes=0, slice_controller=True) as scene:
        block = scene.ports.capacity.blocks()[0]
        world = world_of(
            scene,
            reporter,
            wanted("train", "4x4x8"),
            budgets=declared.Budgets(pool_operations_in_flight=2),
            block=declared.BlockSpec(name=block.name, cubes=3),
        )
        world.cycle()
        world.advance(30)
        started_s = scene.ports.clock.monotonic_s()
        begun = world.cycle()
        # It begins as many as it may, and waits for none of them.
        assert [became for _, became in done(begun)] == ["going on", "going on"]
        assert scene.ports.clock.monotonic_s() - started_s < 60
        with world.writes() as writes:
            world.cycle()
        assert [write for write in writes if "nodePools" in write.path] == []
        world.converge(limit=120)
        assert world.states() == {"train": "ACTIVE"}
        world.cycles(10)
        assert sum(cube.ready_hosts == 16 for cube in whole(scene).cubes) == 3
        assert scene.ports.capacity.has_policy(world.settings.pool_policy)
        created = [result for outcome in world.outcomes for result in outcome.results]
        assert sum(result.action.kind is Kind.CREATE_POOL for result in created) == 3


def test_a_pool_in_error_is_deleted_and_then_made_again(reporter: Recorder) -> None:
    stays = behaviour.Behaviour(error_pool_fills_in=False)
    with scene_of(cubes=2, ready_cubes=1, slice_controller=True, behaviour=stays) as scene:
        block = scene.ports.capacity.blocks()[0]
        bare = next(cube for cube in whole(scene).cubes if not cube.has_nodes).id
        scene.simulator.inject("cube-down", bare)
        spec = fleet.PoolSpec(names.pool_name(bare), block.reservation, block.name, bare, "tpuctl-4x4x4")
        scene.ports.capacity.create_policy(spec.policy)
        scene.ports.pools.create(spec)
        scene.simulator.advance(300)
        scene.simulator.inject("cube-up", bare)
        pools = declared.PoolSettings(error_grace_s=600.0)
        world = world_of(scene, reporter, block=declared.BlockSpec(name=block.name, pools=pools))
        early = world.cycles(10)
        assert early.decision.actions == ()
        world.cycles(50)
        acted = [entry for outcome in world.outcomes for entry in done(outcome)]
        assert acted == [(f"recreate-pool/{spec.name}", "going on"), (f"create-pool/{spec.name}", "going on")]
        assert sum(cube.ready_hosts == 16 for cube in whole(scene).cubes) == 2
        assert world.outcomes[-1].decision.actions == ()


def test_one_action_that_fails_leaves_the_others_alone(scene: Rehearsal, reporter: Recorder) -> None:
    world = world_of(scene, reporter, wanted("bad", "4x4x4", priority=9), wanted("good", "4x4x8"))
    world.cycle()
    world.advance(30)
    first = world.plan().decision.to_do[0]
    assert first.target == "bad"
    scene.simulator.inject("fail-activation", first.forming[0].partition_ids[0], times=9)
    found = world.cycle()
    assert dict(done(found)) == {"form/bad": "failed", "form/good": "done"}
    assert found.failure is None
    kept = memory.load(world.ports, "test").memory
    assert [(item.action, item.failures) for item in kept.attempts] == [("form/bad", 1)]
    held = world.cycle()
    assert held.results == ()
    assert held.decision.actions[0].stopped_by.startswith("attempts: 1 failed attempt")


def test_a_cube_that_no_slice_forms_with_is_left_out(scene: Rehearsal, reporter: Recorder) -> None:
    """It looks well, so it would be chosen again and again."""
    world = world_of(scene, reporter, wanted("train", "4x4x8"))
    world.cycle()
    [action] = world.plan().decision.actions
    bad = action.forming[0].partition_ids[1]
    scene.simulator.inject("fail-activation", bad, times=99)
    for _ in range(12):
        world.cycle()
        world.advance(120)
    item = world.slice("train")
    assert world.states() == {"train": "ACTIVE"}
    assert bad not in item.partition_ids
    assert bad in {entry.partition_id for entry in memory.load(world.ports, "test").memory.suspects}
