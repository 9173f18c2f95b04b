"""Hot swap: one cube changes, its pods restart, all else stays; every interruption can be finished."""

import contextlib
import dataclasses
from collections.abc import Iterable

import pytest

from tests import workloads
from tests.ops.conftest import Killed, Recorder, scene_of, whole
from tpuctl.cli.rehearsal import Rehearsal
from tpuctl.model import errors, fleet, operations, records, states, topology
from tpuctl.ops import forming, journal, locking, operating, running, swapping

NODES = "nodes"


def busy_slice(scene: Rehearsal, shape: str = "4x4x8", **options: int) -> fleet.Slice:
    """Slice `train` with a pod on each host."""
    size = topology.parse(shape)
    outcome = forming.form(scene.ports, Recorder(), "train", forming.request(size))
    limits = options or {"backoffLimitPerIndex": 5}
    scene.submit(workloads.JOBS, workloads.job("work", "train", size.hosts, **limits))
    scene.simulator.advance(30)
    assert sum(pod.phase == "Running" for pod in whole(scene).pods) == size.hosts
    return outcome.slice


def break_host(scene: Rehearsal, cube_id: str) -> str:
    hardware = scene.simulator.world.hardware

    def down() -> str:
        host = hardware.find_subblock(cube_id).hosts[3]
        hardware.host_down(host)
        return host.vm.name

    name = scene.simulator.call(down)
    scene.simulator.advance(120)
    return name


def prepared_swap(scene: Rehearsal, wish: swapping.Wish) -> swapping.Prepared:
    found = swapping.prepare(scene.ports, "train", wish)
    assert found is not None
    return found


def nothing_left(scene: Rehearsal) -> None:
    assert journal.list_open(scene.ports) == []
    assert scene.ports.leases.list() == []
    assert whole(scene).claims == ()
    marked = [
        node["metadata"]["name"]
        for node in scene.simulator.call(lambda: scene.simulator.world.store.list(NODES))
        if "tpuctl.dev/cordoned-by" in node["metadata"].get("annotations", {})
    ]
    assert marked == []


def test_pods_are_counted_on_the_hosts_of_the_cubes_and_not_over_the_whole_cluster(
    scene: Rehearsal, reporter: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster has a hundred thousand pods, and 16 of them restart."""
    before = busy_slice(scene)
    workloads_port = scene.ports.workloads
    [host, *_] = [pod.node for pod in whole(scene).pods]
    assert workloads_port.running_on(host) == 1
    assert workloads_port.running_on("gke-gone-1") == 0
    assert workloads_port.unfinished("default") == {pod.uid for pod in whole(scene).pods}
    assert workloads_port.unfinished("elsewhere") == frozenset()
    shown = prepared_swap(scene, swapping.Wish(cubes=before.partition_ids[:1]))
    observed: list[frozenset[fleet.SourceName]] = []
    observe = type(scene.ports.fleet).observe

    def noted(self: object, sources: Iterable[fleet.SourceName], **options: object) -> fleet.Fleet:
        observed.append(frozenset(sources))
        return observe(self, sources, **options)

    monkeypatch.setattr(type(scene.ports.fleet), "observe", noted)
    outcome = swapping.swap(scene.ports, reporter, shown, swapping.Wish(cubes=before.partition_ids[:1]))
    assert (outcome.restarted, outcome.running_again, outcome.kept) == (16, 16, 16)
    assert sum(fleet.SourceName.PODS in sources for sources in observed) == 1


def test_one_dead_host_costs_one_cube_and_sixteen_pods(scene: Rehearsal, reporter: Recorder) -> None:
    before = busy_slice(scene)
    bad = before.partition_ids[0]
    uids = {pod.uid: pod for pod in whole(scene).pods}
    dead = break_host(scene, bad)
    shown = prepared_swap(scene, swapping.Wish())
    assert [exchange.old for exchange in shown.exchanges] == [bad]
    assert shown.kept == 16
    outcome = swapping.swap(scene.ports, reporter, shown, swapping.Wish())
    assert outcome.slice.state is states.SliceState.ACTIVE
    assert set(before.partition_ids) - set(outcome.slice.partition_ids) == {bad}
    assert len(outcome.slice.partition_ids) == 2
    # The dead host cannot end its own pod: that one stays behind in the API until the node is gone.
    after = {pod.uid: pod for pod in whole(scene).pods if pod.node not in dead}
    stayed = set(after) & set(uids)
    assert len(stayed) == outcome.kept == 16
    assert {after[uid].started_at for uid in stayed} == {uids[uid].started_at for uid in stayed}
    assert sum(pod.phase == "Running" for pod in after.values()) == 32
    assert (outcome.restarted, outcome.running_again) == (16, 16)
    assert (outcome.lost, outcome.went_back) == ((), False)
    nothing_left(scene)


def test_a_sound_slice_has_nothing_to_swap(scene: Rehearsal) -> None:
    busy_slice(scene)
    assert swapping.prepare(scene.ports, "train", swapping.Wish()) is None


def test_a_swapped_slice_keeps_its_priority(scene: Rehearsal, reporter: Recorder) -> None:
    wish = forming.request(topology.parse("4x4x8"), priority=9)
    before = forming.form(scene.ports, reporter, "train", wish).slice
    break_host(scene, before.partition_ids[0])
    shown = prepared_swap(scene, swapping.Wish())
    outcome = swapping.swap(scene.ports, reporter, shown, swapping.Wish())
    assert outcome.slice.uid != before.uid
    assert (before.priority, outcome.slice.priority) == (9, 9)
    nothing_left(scene)


def test_two_failed_cubes_go_in_one_operation(scene: Rehearsal, reporter: Recorder) -> None:
    """kueue#14244: a second failure is not a reason to give everything up."""
    before = busy_slice(scene, "4x4x12")
    for bad in before.partition_ids[:2]:
        break_host(scene, bad)
    shown = prepared_swap(scene, swapping.Wish())
    assert len(shown.exchanges) == 2
    outcome = swapping.swap(scene.ports, reporter, shown, swapping.Wish())
    assert set(before.partition_ids) & set(outcome.slice.partition_ids) == {before.partition_ids[2]}
    nothing_left(scene)


def test_without_a_spare_the_slice_is_left_as_it_is(reporter: Recorder) -> None:
    """kueue#6913: an empty answer is not a success."""
    with scene_of(cubes=2, ready_cubes=2, slice_controller=True) as scene:
        before = busy_slice(scene)
        break_host(scene, before.partition_ids[0])
        with pytest.raises(errors.DoesNotFit, match="was left as it is: 1 spare cube of its block"):
            swapping.prepare(scene.ports, "train", swapping.Wish())
        assert [item.uid for item in whole(scene).slices] == [before.uid]
        nothing_left(scene)


def test_a_replacement_never_comes_from_another_block() -> None:
    """kueue#9733: the block confines the choice."""
    with scene_of(blocks=2, cubes=2, ready_cubes=4, slice_controller=True) as scene:
        before = busy_slice(scene)
        break_host(scene, before.partition_ids[0])
        with pytest.raises(errors.DoesNotFit):
            swapping.prepare(scene.ports, "train", swapping.Wish())


def test_a_named_cube_for_a_named_cube(scene: Rehearsal, reporter: Recorder) -> None:
    before = busy_slice(scene)
    free = next(cube.id for cube in reversed(whole(scene).cubes) if cube.id not in before.partition_ids)
    wish = swapping.Wish(cubes=(before.partition_ids[1],), replacements=(free,))
    outcome = swapping.swap(scene.ports, reporter, prepared_swap(scene, wish), wish)
    assert set(outcome.slice.partition_ids) == {before.partition_ids[0], free}
    assert (outcome.restarted, outcome.kept) == (16, 16)


def test_a_job_that_cannot_bear_it_is_not_killed_by_the_way(scene: Rehearsal) -> None:
    before = busy_slice(scene, backoffLimit=0)
    wish = swapping.Wish(cubes=before.partition_ids[:1])
    with pytest.raises(errors.GuardStopped) as refused:
        swapping.prepare(scene.ports, "train", wish)
    assert refused.value.details == (
        "job default/work: 16 of its pods restart, its backoffLimit leaves room for 0",
    )
    assert prepared_swap(scene, dataclasses.replace(wish, accept_job_failure=True)).restarted == 16


def test_the_world_that_moved_since_the_plan_stops_it(scene: Rehearsal, reporter: Recorder) -> None:
    before = busy_slice(scene)
    wish = swapping.Wish(cubes=before.partition_ids[:1])
    shown = prepared_swap(scene, wish)
    forming.form(
        scene.ports, reporter, "other", forming.request(topology.CUBE, cubes=(shown.exchanges[0].new,))
    )
    with pytest.raises(errors.Conflict, match="world moved"):
        swapping.swap(scene.ports, reporter, shown, wish)
    assert whole(scene).slices_by_name["train"].uid == before.uid
    nothing_left(scene)


def test_a_cordon_of_somebody_else_is_never_undone(scene: Rehearsal, reporter: Recorder) -> None:
    """NVIDIA/gpu-operator#304: foreign marks stay."""
    before = busy_slice(scene)
    wish = swapping.Wish(cubes=before.partition_ids[:1])
    store = scene.simulator.world.store
    theirs = next(host.name for host in whole(scene).cubes_by_id[before.partition_ids[0]].hosts)

    def cordon(node: dict) -> None:
        node["spec"]["unschedulable"] = True

    scene.simulator.call(lambda: store.mutate(NODES, None, theirs, cordon))
    swapping.swap(scene.ports, reporter, prepared_swap(scene, wish), wish)
    unschedulable = [
        node["metadata"]["name"]
        for node in scene.simulator.call(lambda: store.list(NODES))
        if node["spec"].get("unschedulable")
    ]
    assert unschedulable == [theirs]
    nothing_left(scene)


def killed_at(scene: Rehearsal, monkeypatch: pytest.MonkeyPatch, step: int) -> operations.Operation | None:
    """Swap until `step` steps are done, then die without any clean-up; the operation left behind."""
    before = whole(scene).slices_by_name["train"]
    wish = swapping.Wish(cubes=before.partition_ids[:1])
    shown = prepared_swap(scene, wish)
    done = 0
    real = running.Runner._perform

    def perform(self: running.Runner, *arguments: object) -> None:
        nonlocal done
        if done == step:
            raise Killed
        done += 1
        real(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(running.Runner, "_perform", perform)
        patched.setattr(locking.Lock, "release", lambda _: None)
        with contextlib.suppress(Killed):
            swapping.swap(scene.ports, Recorder(), shown, wish)
    scene.simulator.advance(locking.DURATION_S + 1)
    left = journal.of_slice(scene.ports, "train")
    return left.operation if left is not None else None


@pytest.mark.parametrize("step", range(8))
def test_killed_after_any_step_another_machine_finishes_it(
    scene: Rehearsal, reporter: Recorder, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """slurm-operator#249: a crash between 'old deleted' and 'new formed' resumes at forming."""
    before = busy_slice(scene)
    stay = {pod.uid for pod in whole(scene).pods if host_cube(scene, pod.node) == before.partition_ids[1]}
    left = killed_at(scene, monkeypatch, step)
    if left is not None:
        assert left.kind is operations.Kind.SWAP
        outcome = operating.resume(scene.ports, reporter, left.id)
        assert isinstance(outcome, swapping.Outcome)
        assert outcome.lost == ()
    found = whole(scene).slices_by_name["train"]
    assert found.state is states.SliceState.ACTIVE
    assert set(found.partition_ids) & set(before.partition_ids) == {before.partition_ids[1]}
    assert stay <= {pod.uid for pod in whole(scene).pods}
    assert sum(pod.phase == "Running" for pod in whole(scene).pods) == 32
    for lease in scene.ports.leases.list():
        locking.break_lock(scene.ports, lease.name, reason="its holder is dead")
        scene.ports.leases.delete(scene.ports.leases.get(lease.name))
    nothing_left(scene)


@pytest.mark.parametrize("step", range(1, 6))
def test_killed_after_any_step_it_can_be_taken_back(
    scene: Rehearsal, reporter: Recorder, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    before = busy_slice(scene)
    left = killed_at(scene, monkeypatch, step)
    assert left is not None
    operating.abort(scene.ports, reporter, left.id)
    found = whole(scene).slices_by_name["train"]
    assert found.state is states.SliceState.ACTIVE
    assert found.partition_ids == before.partition_ids
    assert journal.list_open(scene.ports) == []


def host_cube(scene: Rehearsal, node: str) -> str:
    return next(host.cube_id for cube in whole(scene).cubes for host in cube.hosts if host.name == node)


def test_while_a_swap_is_open_nobody_gets_its_cubes(
    scene: Rehearsal, reporter: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """volcano#5805: what the broken slice needs is kept for it."""
    busy_slice(scene, "4x4x12")
    left = killed_at(scene, monkeypatch, 3)
    assert left is not None
    with pytest.raises(errors.Conflict, match="operation swap-train of"):
        forming.form(
            scene.ports, reporter, "greedy", forming.request(topology.CUBE, cubes=(left.partitions[0],))
        )
    with pytest.raises(errors.DoesNotFit) as refused:
        forming.form(scene.ports, reporter, "greedy", forming.request(topology.parse("4x4x12")))
    assert "operation swap-train of" in " ".join(refused.value.details)
    with pytest.raises(errors.Conflict, match="operation swap-train of"):
        swapping.prepare(scene.ports, "train", swapping.Wish())
    operating.resume(scene.ports, reporter, left.id)


def test_a_damaged_record_stops_everything_that_needs_it(scene: Rehearsal, reporter: Recorder) -> None:
    """NVSentinel ADR-056: corrupt is not empty."""
    busy_slice(scene)
    for text in ("{", "[]", '{"schema": 99}', '{"schema": 1}'):
        scene.ports.records.create("op-other", records.OPERATION, text)
        with pytest.raises(records.DamagedRecord):
            forming.form(scene.ports, reporter, "new", forming.request(topology.CUBE))
        with pytest.raises(records.DamagedRecord):
            journal.list_open(scene.ports)
        record = scene.ports.records.get("op-other")
        assert record is not None
        scene.ports.records.delete(record)
    assert [item.name for item in whole(scene).slices] == ["train"]


def test_a_lost_lock_stops_before_the_next_write(scene: Rehearsal, reporter: Recorder) -> None:
    """python-base#278: who lost the lease does not go on."""
    with locking.held(scene.ports, reporter, "tpuctl-slice-x") as lock:
        fenced = locking.fenced(scene.ports, lock)
        locking.break_lock(scene.ports, "tpuctl-slice-x", reason="test")
        with pytest.raises(locking.LostLock):
            fenced.records.create("hold-x", records.HOLD, "{}")
        with pytest.raises(locking.LostLock):
            fenced.workloads.cordon("n", "op")
        with pytest.raises(locking.LostLock):
            fenced.slices.delete("x", uid="u")
    assert not scene.ports.records.list(records.HOLD)


def test_a_lock_is_renewed_while_waiting_and_free_after_its_holder_died(
    scene: Rehearsal, reporter: Recorder
) -> None:
    with locking.held(scene.ports, reporter, "tpuctl-slice-x") as lock:
        fenced = locking.fenced(scene.ports, lock)
        fenced.clock.sleep(5 * locking.DURATION_S)
        fenced.workloads.uncordon("nowhere", "op")
    dead = scene.ports.leases.create("tpuctl-slice-x", "dead@host:1", locking.DURATION_S)
    assert dead.is_held
    with (
        pytest.raises(errors.Conflict, match="locked by dead@host:1"),
        locking.held(scene.ports, reporter, "tpuctl-slice-x", wait_s=5),
    ):
        raise AssertionError("the lock was had")
    scene.simulator.advance(locking.DURATION_S)
    with locking.held(scene.ports, reporter, "tpuctl-slice-x", wait_s=5):
        found = scene.ports.leases.get("tpuctl-slice-x")
        assert found is not None
        assert found.transitions == 1
