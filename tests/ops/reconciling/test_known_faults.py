"""Faults that other people's loops had, on the simulator; each test names the public report it answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.ops import test_pool_faults as pools
from tests.ops.conftest import Recorder, scene_of, whole
from tests.ops.reconciling.conftest import World, spec_of, wanted, world_of
from tpuctl.model import declared, names, reconciling, states
from tpuctl.ops import journal
from tpuctl.ops.reconciling import history, memory, status
from tpuctl.sim import api_faults, behaviour

if TYPE_CHECKING:
    from tpuctl.cli.rehearsal import Rehearsal


def acted(world: World) -> list[tuple[str, str]]:
    """Everything that the loop has done, in order."""
    return [
        (result.action.id, str(result.became)) for outcome in world.outcomes for result in outcome.results
    ]


def kept(world: World) -> reconciling.Memory:
    return memory.load(world.ports, "test").memory


# -- what other people do ------------------------------------------------------------------------------------


def test_a_slice_that_somebody_deletes_is_told_once_and_not_fought_over(
    scene: Rehearsal, reporter: Recorder
) -> None:
    """xpk#1043, #1028: the controller hung on what was gone, or made it again and again."""
    world = world_of(scene, reporter, wanted("train", "4x4x8"), wanted("other", "4x4x4"))
    world.converge()
    scene.ports.slices.delete("train", uid=world.slice("train").uid)
    world.advance(120)
    world.outcomes.clear()
    last = world.cycles(40)
    assert acted(world) == []
    assert set(world.states()) == {"other"}
    [told] = [item for item in last.decision.memory.recommendations if item.subject == "slice/train"]
    assert told.since == world.outcomes[0].at
    assert kept(world).recommendations == last.decision.memory.recommendations


# -- what the loop takes away --------------------------------------------------------------------------------


def test_everything_that_is_evicted_says_by_whom_for_whom_and_in_which_plan(
    scene: Rehearsal, reporter: Recorder
) -> None:
    """armada#3881, #4845: reason and requester of every preemption, for every member of a gang."""
    low = wanted("low", "4x4x8", count=3, preemptible=True, priority=1)
    world = world_of(scene, reporter, low)
    world.converge()
    uids = {name: world.slice(name).uid for name in world.states()}
    assert len(uids) == 3
    world.wants(spec_of(scene, low, wanted("high", "4x8x8", priority=9)))
    world.outcomes.clear()
    for _ in range(20):
        world.cycle()
        world.advance(30)
    assert world.states()["high"] == "ACTIVE"
    gone = sorted(set(uids) - set(world.states()))
    assert len(gone) == 2
    entries = {entry.subject: entry for entry in history.read(world.ports) if entry.text.startswith("-")}
    assert sorted(entries) == gone
    for name in gone:
        entry = entries[name]
        assert entry.actor == world.ports.identity.actor()
        assert "high" in entry.text
        assert entry.plan == next(item.plan_id for item in world.outcomes if item.cycle == entry.cycle) != ""
        events = world.ports.slices.events(name, uid=uids[name])
        assert any("high" in text for text in events), events


# -- slices that nobody forms --------------------------------------------------------------------------------


def test_a_formation_that_nobody_works_on_is_taken_back_and_tried_less_and_less_often(
    reporter: Recorder,
) -> None:
    """xpk#859, #943, #968: stuck in creation, never looked at again; and nothing else waits behind it."""
    deaf = behaviour.Behaviour(slice_accept_s=1e9)  # the slice controller hears of nothing new
    with scene_of(cubes=4, ready_cubes=4, slice_controller=True, behaviour=deaf) as scene:
        world = world_of(scene, reporter, wanted("train", "4x4x4"))
        world.cycles(40, every_s=60.0)
        assert acted(world)[:4] == [
            ("form/train", "going on"),
            ("finish/form-train", "going on"),
            ("finish/form-train", "done"),
            ("deform/train", "done"),
        ]
        [attempt] = kept(world).attempts
        assert (attempt.action, attempt.why) == ("again/train", "CREATED for more than 30 min")
        assert journal.list_open(scene.ports) == []
        quick = [item.duration_s for item in world.outcomes if not item.results]
        assert max(quick) < 10, "a slice that hangs keeps no cycle waiting"
        world.cycles(80, every_s=600.0)
        formed = [action for action, _ in acted(world) if action == "form/train"]
        assert 4 <= len(formed) <= 17, "every half hour at first, then with pauses of up to an hour"
        assert any("again/train" in line for line in status.read(scene.ports).stuck)
        for item in whole(scene).slices:
            scene.ports.slices.delete(item.name, uid=item.uid)


def test_a_formation_that_is_only_slow_is_not_taken_back(reporter: Recorder) -> None:
    """The same, the other way round: twenty minutes are long, and end well."""
    slow = behaviour.Behaviour(slice_accept_s=1200.0)
    with scene_of(cubes=2, ready_cubes=2, slice_controller=True, behaviour=slow) as scene:
        world = world_of(scene, reporter, wanted("train", "4x4x4"))
        world.cycles(30, every_s=60.0)
        assert world.states() == {"train": "ACTIVE"}
        assert [action for action, _ in acted(world)].count("form/train") == 1
        assert (kept(world).attempts, journal.list_open(scene.ports)) == ((), [])


# -- node pools ----------------------------------------------------------------------------------------------


@pytest.fixture
def bare(reporter: Recorder):
    """Four sub-blocks without node pools, each of which is wanted."""
    with scene_of(cubes=4, slice_controller=True) as scene:
        block = scene.ports.capacity.blocks()[0]
        world = world_of(scene, reporter, block=declared.BlockSpec(name=block.name, cubes=4))
        world.cycle()
        world.advance(30)
        yield world


def test_a_quota_makes_no_storm_and_is_forgotten_when_it_is_raised(bare: World) -> None:
    """cluster-toolkit#3225: up to the limit, idle, delete, again; k8s-config-connector#321: sticky error."""
    answer, asked = pools.quota_of(bare.scene, pools=3)
    with pools.answering(bare.scene, answer):
        bare.cycles(48, every_s=300.0)  # four hours
    assert len(bare.ports.pools.list()) == 3
    assert len(asked) < 3 + 12
    assert pools.started(bare.scene, "DELETE_NODE_POOL") == []
    [attempt] = kept(bare).attempts
    assert "TPUS_PER_TPU_FAMILY" in attempt.why
    bare.cycles(36, every_s=300.0)
    assert len(bare.ports.pools.list()) == 4
    assert sum(cube.ready_hosts == 16 for cube in whole(bare.scene).cubes) == 4
    assert kept(bare).attempts == ()
    assert bare.outcomes[-1].decision.actions == ()


@pytest.mark.parametrize("lost", [api_faults.Reset(when="after"), api_faults.Error(504, when="after")])
def test_a_pool_whose_creation_was_not_answered_is_not_made_twice(bare: World, lost) -> None:
    """cb-spider#1334, ai-on-gke#427: a lost answer, and a second pool under another name."""
    with api_faults.injected(bare.scene.simulator, lost, times=2, **pools.CREATES) as fault:
        bare.cycle()
    assert fault.hits == 2
    bare.cycles(30, every_s=60.0)
    [block] = bare.ports.capacity.blocks()
    assert {pool.name for pool in bare.ports.pools.list()} == {
        names.pool_name(item.name) for item in block.sub_blocks
    }
    assert len(pools.started(bare.scene, "CREATE_NODE_POOL")) == 4


def test_a_busy_cluster_costs_no_attempt(bare: World) -> None:
    """terraform-provider-google#10366, capg#1363: busy is an answer, not a failure."""
    bare.ports.pools.enable_slice_controller()  # somebody's update of the cluster: 4 minutes
    bare.cycles(3)
    assert {became for _, became in acted(bare)} == {"stopped"}
    assert bare.ports.pools.list() == ()
    assert kept(bare).attempts == ()
    bare.cycles(30, every_s=60.0)
    assert sum(cube.ready_hosts == 16 for cube in whole(bare.scene).cubes) == 4


# -- the instance group below a pool -------------------------------------------------------------------------


def test_an_unstable_instance_group_is_waited_for_and_no_reason_to_swap(
    scene: Rehearsal, reporter: Recorder
) -> None:
    """The skill "MIG stuck updating": SliceCreationFailed is not the cube's fault, and no storm helps."""
    world = world_of(scene, reporter, wanted("train", "4x4x4"))
    world.cycle()
    world.advance(30)
    by_pool = {pool.name: pool.sub_block for pool in scene.ports.pools.list()}
    stuck = [
        scene.simulator.inject("mig-unstable", by_pool[found.hosts[0].pool]) for found in whole(scene).cubes
    ]
    creates = {"api": "kubernetes", "verb": "create", "resource": "slices"}
    with api_faults.injected(scene.simulator, api_faults.Observe(), **creates) as seen:
        world.cycles(24, every_s=300.0)  # two hours
    assert {action for action, _ in acted(world)} == {"form/train"}
    assert seen.calls <= 3 * 10
    assert len(acted(world)) <= 10
    [attempt] = kept(world).attempts
    assert "is not stable" in attempt.why
    assert all(cube.id not in world.outcomes[-1].decision.sentence for cube in whole(scene).cubes)
    for entry in stuck:
        scene.simulator.clear(entry)
    world.cycles(16, every_s=300.0)
    assert world.slice("train").state is states.SliceState.ACTIVE
    assert kept(world).attempts == ()
