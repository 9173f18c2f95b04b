"""What breaks is mended, and what was begun is finished, whoever began it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from tests import workloads
from tests.ops.conftest import Killed, Recorder, whole
from tests.ops.reconciling.conftest import World, wanted, world_of
from tests.ops.test_swapping import break_host
from tpuctl.model import declared, fleet, operations, reconciling, states
from tpuctl.ops import deforming, journal, locking, operating
from tpuctl.ops.reconciling import history, memory, outcomes

if TYPE_CHECKING:
    from tpuctl.cli.rehearsal import Rehearsal

Became = outcomes.Became


@pytest.fixture
def train(scene: Rehearsal, reporter: Recorder) -> World:
    """A slice of two cubes, and what it takes to look after it."""
    world = world_of(scene, reporter, wanted("train", "4x4x8"), wanted("other", "4x4x4"))
    world.converge()
    world.hooks.told.clear()
    return world


def mended(world: World, *, limit: int = 20) -> outcomes.Outcome:
    """Cycles until one acts."""
    for _ in range(limit):
        found = world.cycle()
        assert found.failure is None
        if found.results:
            return found
        world.advance(30)
    raise AssertionError("nothing was done")


def test_a_dead_host_is_answered_by_a_swap(train: World) -> None:
    before = train.slice("train")
    break_host(train.scene, before.partition_ids[0])
    found = mended(train)
    [result] = found.results
    assert (result.action.kind, result.became) == (reconciling.ActionKind.SWAP, Became.DONE)
    now = train.slice("train")
    assert now.state is states.SliceState.ACTIVE
    assert before.partition_ids[0] not in now.partition_ids
    assert before.partition_ids[1] in now.partition_ids
    assert train.hooks.events() == ["swap-started", "swap-done"]
    assert train.hooks.told[1][1]["result"] == "done"
    kept = {entry.name: entry for entry in memory.load(train.ports, "test").memory.formed}
    assert kept["train"].uid == now.uid
    # It has been wanted and there since before; a swap is no new beginning.
    assert kept["train"].since == before.created_at
    assert history.read(train.ports)[-1].subject == "train"
    assert train.converge().results == ()


def test_the_hosts_that_went_are_told(train: World) -> None:
    before = train.slice("train")
    break_host(train.scene, before.partition_ids[0])
    mended(train)
    store = train.scene.simulator.world.store
    told = train.scene.simulator.call(
        lambda: [item for item in store.list("events") if item["reason"] == "SwappedOut"]
    )
    gone = {host.name for host in whole(train.scene).cubes_by_id[before.partition_ids[0]].hosts}
    assert {item["involvedObject"]["name"] for item in told} == gone
    assert {item["involvedObject"]["kind"] for item in told} == {"Node"}
    swapped = train.slice("train")
    texts = train.ports.slices.events("train", uid=swapped.uid)
    assert any("->" in text for text in texts)


def test_disruption_is_counted_before_the_act(train: World, monkeypatch: pytest.MonkeyPatch) -> None:
    break_host(train.scene, train.slice("train").partition_ids[0])
    seen: list[tuple[reconciling.Disruption, ...]] = []
    begin = journal.begin

    def note(ports: object, operation: operations.Operation) -> journal.Entry:
        seen.append(memory.load(train.ports, "test").memory.disruptions)
        return begin(ports, operation)  # type: ignore[arg-type] # as it was given

    monkeypatch.setattr(journal, "begin", note)
    found = mended(train)
    chips = found.results[0].action.chips
    assert [sum(item.chips for item in entry) for entry in seen] == [chips]


def test_what_a_dead_loop_left_is_finished_first(train: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """kill -9 between deletion and creation: the next leader makes the slice again."""
    before = train.slice("train")
    break_host(train.scene, before.partition_ids[0])
    slices = type(train.ports.slices)
    release = locking.Lock.release

    def die(*_arguments: object, **_options: object) -> None:
        monkeypatch.setattr(locking.Lock, "release", lambda _lock: None)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(slices, "create", die)
        with pytest.raises(Killed):
            mended(train)
    monkeypatch.setattr(locking.Lock, "release", release)
    assert "train" not in train.states()
    train.advance(locking.DURATION_S + 1)
    found = train.cycle()
    assert [(result.action.id, result.became) for result in found.results] == [
        ("finish/swap-train", Became.DONE)
    ]
    assert train.slice("train").state is states.SliceState.ACTIVE
    assert journal.list_open(train.ports) == []
    assert train.hooks.events() == ["swap-started", "swap-done"]


def test_an_operation_that_somebody_is_at_work_on_is_left_to_them(train: World) -> None:
    item = train.slice("train")
    operation = operations.Operation(
        schema=operations.SCHEMA,
        id="deform-train",
        kind=operations.Kind.DEFORM,
        slice_name="train",
        topology=item.topology,
        actor="jo@laptop:7",
        started_at=item.created_at,
        intent=operations.Intent.PLANNED,
        old_uid=item.uid,
        old_partitions=item.partition_ids,
        partitions=(),
    )
    with locking.held(train.ports, train.reporter, locking.slice_lock("train")):
        journal.begin(train.ports, operation)
        started_s = train.ports.clock.monotonic_s()
        found = train.cycle()
        assert train.ports.clock.monotonic_s() - started_s < locking.WAIT_S
    [result] = found.results
    assert (result.action.id, result.became) == ("finish/deform-train", Became.STOPPED)
    assert "is at work on it" in result.why
    assert train.slice("train").uid == item.uid
    operating.abort(train.ports, train.reporter, "deform-train")


def test_a_slice_that_had_to_fall_back_grows_when_there_is_room(scene: Rehearsal, reporter: Recorder) -> None:
    world = world_of(
        scene,
        reporter,
        wanted("big", "4x8x8", "4x4x8"),
        wanted("early", "4x4x8", "4x4x4", priority=5),
        wanted("last", "4x4x4", priority=7),
        consolidation=declared.Consolidation(settle_s=60.0),
    )
    world.converge()
    assert world.slice("big").raw_topology == "4x4x8"
    world.wants(
        world.settings.spec.__class__(
            name="test",
            reservations=world.settings.spec.reservations,
            slices=(wanted("big", "4x8x8", "4x4x8"), wanted("last", "4x4x4", priority=7)),
            prune_grace_s=0.0,
            consolidation=declared.Consolidation(settle_s=60.0),
        )
    )
    world.hooks.told.clear()
    grown = None
    for _ in range(12):
        grown = world.cycle()
        if any(result.action.kind is reconciling.ActionKind.GROW for result in grown.results):
            break
        world.advance(30)
    assert [(result.action.id, result.became) for result in grown.results] == [("grow/big", Became.DONE)]
    assert world.slice("big").raw_topology == "4x8x8"
    assert world.hooks.events()[-2:] == ["slice-deformed", "slice-formed"]
    kept = memory.load(world.ports, "test").memory
    assert {entry.name: entry.uid for entry in kept.formed}["big"] == world.slice("big").uid
    world.advance(30)
    assert world.cycle().results == ()


def pods_of(world: World, job: str) -> dict[str, str]:
    """uid -> host of the unfinished pods of a job."""
    pods = world.ports.fleet.observe((fleet.SourceName.PODS,)).pods
    return {pod.uid: pod.node for pod in pods if pod.owner == f"Job/{job}" and not pod.is_finished}


def test_who_is_made_again_elsewhere_takes_its_pods_along(scene: Rehearsal, reporter: Recorder) -> None:
    """Pods outlive their slice: left behind they would keep the old cubes, and work that is no more."""
    world = world_of(
        scene,
        reporter,
        wanted("big", "4x8x8", "4x4x8"),
        wanted("early", "4x4x8", "4x4x4", priority=5),
        wanted("last", "4x4x4", priority=7),
        consolidation=declared.Consolidation(settle_s=60.0),
    )
    world.converge()
    world.scene.submit(workloads.JOBS, workloads.job("work", "big", 32))
    world.advance(60)
    before = pods_of(world, "work")
    assert len(before) == 32
    world.wants(
        dataclasses.replace(
            world.settings.spec,
            slices=(wanted("big", "4x8x8", "4x4x8"), wanted("last", "4x4x4", priority=7)),
            prune_grace_s=0.0,
        )
    )
    for _ in range(12):
        found = world.cycle()
        if any(result.action.kind is reconciling.ActionKind.GROW for result in found.results):
            break
        world.advance(30)
    [grown] = found.results
    assert (grown.action.pods_restarted, grown.became) == (32, Became.DONE)
    assert world.slice("big").raw_topology == "4x8x8"
    world.advance(120)
    after = pods_of(world, "work")
    assert len(after) == 32
    assert not after.keys() & before.keys()
    big = world.slice("big")
    snapshot = whole(scene)
    assert set(after.values()) <= {host.name for host in snapshot.hosts_of(big)}
    assert world.cycle().results == ()


def test_who_finishes_such_a_move_ends_the_pods_too(train: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed right after the slice was gone: the record names the pods, so nobody has to guess."""
    train.scene.submit(workloads.JOBS, workloads.job("work", "train", 32))
    train.advance(60)
    before = pods_of(train, "work")
    prepared = deforming.prepare(train.ports, "train", force_foreign=False)
    assert prepared is not None

    def dies(*_arguments: object, **_named: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(type(train.ports.workloads), "delete_pod", dies)
        with pytest.raises(Killed):
            deforming.deform(train.ports, train.reporter, prepared, with_pods=True)
    assert pods_of(train, "work").keys() == before.keys()
    assert "train" not in train.states()
    train.advance(120)
    operating.resume(train.ports, train.reporter, "deform-train")
    train.advance(60)
    assert not pods_of(train, "work").keys() & before.keys()
    assert journal.list_open(train.ports) == []


def test_a_slice_that_is_down_on_sound_cubes_is_made_again_under_its_pods(train: World) -> None:
    """kueue#15277's kind: nothing is exchanged where nothing is broken."""
    train.scene.submit(workloads.JOBS, workloads.job("work", "train", 32))
    train.advance(60)
    old = train.slice("train")
    host = break_host(train.scene, old.partition_ids[0])
    train.scene.simulator.inject("host-up", host)
    train.advance(300)
    assert train.slice("train").state is states.SliceState.FAILED
    assert {cube.ready_hosts for cube in whole(train.scene).cubes_of(old)} == {16}
    before = pods_of(train, "work")
    assert len(before) == 32
    found = mended(train)
    [result] = found.results
    assert (result.action.kind, result.action.exchanges) == (reconciling.ActionKind.SWAP, ())
    assert (result.action.pods_restarted, result.became) == (0, Became.DONE)
    now = train.slice("train")
    assert now.state is states.SliceState.ACTIVE
    assert now.uid != old.uid
    assert now.partition_ids == old.partition_ids
    placed = {uid: host for uid, host in before.items() if host}
    assert len(placed) >= 31
    assert placed.items() <= pods_of(train, "work").items()
    assert train.converge().results == ()
