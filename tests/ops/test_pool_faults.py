"""Faults that other people's tools had with node pools and operations; each test names the public report."""

from __future__ import annotations

import contextlib
import dataclasses

import pytest
from starlette import responses

from tests.ops.conftest import Recorder, scene_of, whole
from tests.ops.test_carving import POLICY, counts, setup
from tpuctl.cli import rehearsal
from tpuctl.cloud import connect
from tpuctl.model import errors, names, states, topology
from tpuctl.ops import carving, forming, operations, pool_deletion, waiting
from tpuctl.ops import ports as ports_module
from tpuctl.sim import api_faults, behaviour

CREATES = {"api": "container", "verb": "create", "resource": "nodePools"}
QUOTA = (
    "Insufficient regional quota to satisfy request: resource 'TPUS_PER_TPU_FAMILY': request requires '64.0' "
    "and is short '64.0'; project has a quota of '192.0' with '0.0' available."
)


def another(scene: rehearsal.Rehearsal, **changes: object) -> ports_module.Ports:
    """Ports of a context that says something else."""
    context = dataclasses.replace(scene.context, **changes)
    return connect.connect(context, clock=rehearsal.DrivenClock(scene.simulator))


@contextlib.contextmanager
def answering(scene: rehearsal.Rehearsal, answer):
    """The GKE API asks `answer(request)` first; None lets the call through."""

    async def intercept(request, _proceed):
        return answer(request)

    with intercepted(scene, intercept):
        yield


@contextlib.contextmanager
def intercepted(scene: rehearsal.Rehearsal, hook):
    """Calls to the GKE API go through `hook(request, proceed)` first."""
    hooks = scene.simulator.world.gke.intercept
    scene.simulator.call(lambda: hooks.insert(0, hook))
    try:
        yield hook
    finally:
        scene.simulator.call(lambda: hooks.remove(hook))


@contextlib.contextmanager
def writes_counted(scene: rehearsal.Rehearsal):
    """Paths of all writing calls to all three APIs."""
    seen: list[str] = []

    async def note(request, _proceed):
        if request.method not in ("GET", "HEAD"):
            seen.append(f"{request.method} {request.url.path}")

    world = scene.simulator.world
    hooks = [api.intercept for api in (world.kube, world.gke, world.compute)]
    scene.simulator.call(lambda: [found.insert(0, note) for found in hooks])
    try:
        yield seen
    finally:
        scene.simulator.call(lambda: [found.remove(note) for found in hooks])


def started(scene: rehearsal.Rehearsal, kind: str) -> list:
    """All operations of a kind that were ever begun."""
    known = scene.simulator.world.gke.operations
    return scene.simulator.call(lambda: [item for item in known if item.kind == kind])


def quota_of(scene: rehearsal.Rehearsal, pools: int):
    """An answer to the creation of more pools than so many: the quota is used up."""
    cluster = scene.simulator.world.gke.cluster
    asked: list[str] = []

    def answer(request):
        if request.method != "POST" or not request.url.path.endswith("/nodePools"):
            return None
        asked.append(request.url.path)
        if len(cluster.pools) < pools:
            return None
        return responses.JSONResponse({"error": {"code": 403, "message": QUOTA}}, status_code=403)

    return answer, asked


# -- what is refused before anything is made -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("reservation", "block", "error", "says"),
    [
        ("a/b", None, errors.UsageError, "'a/b' is not a reservation"),
        ("projects/p/reservations", None, errors.UsageError, "is not a reservation"),
        ("no-such", None, errors.NotFound, "reservations/no-such' was not found"),
        ("projects/other/reservations/sim-reservation", None, errors.NotFound, "'projects/other' was not"),
        ("sim-reservation", "b9", errors.NotFound, "there is no reservation block 'b9'"),
    ],
)
def test_a_wrong_reservation_is_told_before_the_first_write(reservation, block, error, says) -> None:
    """xpk#476, xpk#434: a path that clashed left a pool in ERROR."""
    with scene_of(cubes=1) as scene, writes_counted(scene) as seen:
        ports = another(scene, reservations=(reservation,))
        with pytest.raises(error, match=says):
            carving.prepare(ports, policy=POLICY, block=block)
        assert seen == []
        assert scene.ports.pools.list() == ()


@pytest.mark.parametrize("wrong", ["us-central1-a", "us-east5"])
def test_a_location_of_the_wrong_kind_is_told_as_one(wrong) -> None:
    """python-container#2, terraform-provider-google#7851: a zonal call for a regional cluster."""
    with scene_of(cubes=1) as scene:
        ports = another(scene, location=wrong)
        for call in (ports.pools.cluster, ports.pools.list):
            with pytest.raises(errors.NotFound) as caught:
                call()
            hint = caught.value.hint or ""
            assert f"context 'demo' says location {wrong}" in hint
        assert ("a regional cluster needs location us-central1;" in hint) == (wrong == "us-central1-a")


def test_nothing_is_asked_of_a_full_reservation_when_all_is_there(reporter: Recorder) -> None:
    """xpk#1125: the check for room ran though nothing was to be made. All 32 hosts are in use here."""
    with scene_of(cubes=2, ready_cubes=2, slice_controller=True) as scene:
        [block] = scene.ports.capacity.blocks()
        assert {(item.hosts_in_use, item.hosts) for item in block.sub_blocks} == {(16, 16)}
        with writes_counted(scene) as seen:
            outcome = setup(scene, reporter)
        assert not outcome.changed
        assert counts(outcome) == {"full": 2, "partial": 0, "failed": 0}
        assert seen == []


# -- busy ----------------------------------------------------------------------------------------------------


def test_a_busy_cluster_is_waited_for_and_fails_no_cube(reporter: Recorder) -> None:
    """terraform-provider-google#10366, capg#1363: "incompatible operation" is no failure of the pool."""
    with scene_of(cubes=2, ready_cubes=1, slice_controller=True) as scene:
        scene.ports.pools.enable_slice_controller()  # somebody updates the cluster: 4 minutes
        with api_faults.injected(scene.simulator, api_faults.Observe(), **CREATES) as seen:
            outcome = setup(scene, reporter)
        assert seen.calls > 5
        assert len(started(scene, "CREATE_NODE_POOL")) == 2
        assert counts(outcome) == {"full": 2, "partial": 0, "failed": 0}
        assert reporter.warnings == []
        assert any("incompatible operation" in step for step in reporter.steps)


def test_a_deletion_waits_for_the_cluster_too(scene: rehearsal.Rehearsal, reporter: Recorder) -> None:
    """terraform-provider-google#3650, #758: the same for deletions."""
    pool = scene.ports.pools.list()[0]
    scene.ports.pools.enable_slice_controller()
    pool_deletion.execute(scene.ports, reporter, pool_deletion.prepare(scene.ports, [pool.name]))
    assert pool.name not in {item.name for item in scene.ports.pools.list()}
    assert len(started(scene, "DELETE_NODE_POOL")) == 1
    assert any("the cluster is busy, waiting" in step for step in reporter.steps)


def test_forty_pools_under_a_quota_of_five_operations(reporter: Recorder) -> None:
    """terraform-provider-google#15205: never more at once than the cluster takes, and all finish."""
    few = dataclasses.replace(behaviour.Behaviour(), operations_in_flight=5)
    with scene_of(cubes=40, behaviour=few) as scene:
        with api_faults.injected(scene.simulator, api_faults.Observe(), **CREATES) as seen:
            outcome = setup(scene, reporter)
        assert counts(outcome) == {"full": 40, "partial": 0, "failed": 0}
        assert reporter.warnings == []
        made = started(scene, "CREATE_NODE_POOL")
        assert len(made) == 40
        assert max(running_at(made, item.started_s) for item in made) == 5
        assert seen.calls <= 40 + 40, "each creation that succeeds is worth one more question, and no more"


def running_at(items, at_s: float) -> int:
    return sum(item.started_s <= at_s and (item.ended_s is None or at_s < item.ended_s) for item in items)


# -- answers that were lost ----------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", [api_faults.Reset(when="after"), api_faults.Error(503, when="after")])
def test_a_creation_whose_answer_is_lost_is_taken_up_by_its_name(reporter: Recorder, lost) -> None:
    """cb-spider#1334: it was made all the same, and a second one got a random suffix."""
    with scene_of(cubes=2, slice_controller=True) as scene:
        with api_faults.injected(scene.simulator, lost, times=2, **CREATES) as fault:
            outcome = setup(scene, reporter)
        assert fault.hits == 2
        assert counts(outcome) == {"full": 2, "partial": 0, "failed": 0}
        assert len(started(scene, "CREATE_NODE_POOL")) == 2
        [block] = scene.ports.capacity.blocks()
        wanted = {names.pool_name(item.name) for item in block.sub_blocks}
        assert {pool.name for pool in scene.ports.pools.list()} == wanted


FORGETFUL = dataclasses.replace(behaviour.Behaviour(), operation_memory_s=0.0)


def test_an_operation_that_the_service_forgot_is_judged_by_its_pool(reporter: Recorder) -> None:
    """nodejs-cloud-container#415, test-infra#25720: only the resource tells what came of it."""
    with scene_of(cubes=3, behaviour=FORGETFUL) as scene:
        outcome = setup(scene, reporter)  # the controller, the policy and three pools
        assert counts(outcome) == {"full": 3, "partial": 0, "failed": 0}
        assert scene.ports.pools.operations() == ()
        name = scene.ports.pools.list()[0].name
        pool_deletion.execute(scene.ports, reporter, pool_deletion.prepare(scene.ports, [name]))
        assert name not in {pool.name for pool in scene.ports.pools.list()}


def test_a_forgotten_operation_without_effect_is_a_failure(
    scene: rehearsal.Rehearsal, reporter: Recorder
) -> None:
    """The same: that nobody knows it any more is not success."""
    done = ports_module.OperationStatus
    pool = scene.ports.pools.list()[0].name

    def current(kind: str, target: str) -> ports_module.Operation:
        lost = ports_module.Operation("operation-lost", kind, target, done.RUNNING)
        return operations.current(scene.ports, lost)

    never_made = current("CREATE_NODE_POOL", "ghost")
    assert (never_made.status, "there is no such pool" in never_made.error) == (done.FAILED, True)
    still_there = current("DELETE_NODE_POOL", pool)
    assert (still_there.status, "the pool is RUNNING" in still_there.error) == (done.FAILED, True)
    assert current("DELETE_NODE_POOL", "ghost").status is done.DONE
    assert current("CREATE_NODE_POOL", pool).status is done.DONE
    assert current("UPDATE_CLUSTER", "sim").status is done.DONE
    with pytest.raises(errors.NotFound):
        current("SET_NODE_POOL_SIZE", pool)
    deadline = waiting.Deadline.after(scene.ports.clock, 60)
    lost = ports_module.Operation("operation-lost", "CREATE_NODE_POOL", "ghost", done.RUNNING)
    with pytest.raises(errors.TpuctlError, match="the service has forgotten operation operation-lost"):
        operations.finish(scene.ports, deadline, lost)


def test_a_pool_that_is_still_being_made_keeps_a_forgotten_operation_running(reporter: Recorder) -> None:
    with scene_of(cubes=1, slice_controller=True) as scene:
        spec = carving.prepare(scene.ports, policy=POLICY).plan.create[0]
        scene.ports.capacity.create_policy(POLICY)
        running = scene.ports.pools.create(spec)._replace(name="operation-lost")
        assert operations.current(scene.ports, running) == running
        assert scene.ports.pools.list()[0].status is states.PoolStatus.PROVISIONING
        operations.finish(scene.ports, waiting.Deadline.after(scene.ports.clock, 3600), running)
        assert scene.ports.pools.list()[0].status is states.PoolStatus.RUNNING


# -- quota and stockout --------------------------------------------------------------------------------------


def test_a_quota_refusal_names_the_numbers_and_is_forgotten_when_it_is_raised(reporter: Recorder) -> None:
    """k8s-config-connector#321: sticky error; cluster-toolkit#3225: make, fail, delete, again."""
    with scene_of(cubes=4, slice_controller=True) as scene:
        answer, asked = quota_of(scene, pools=3)
        with answering(scene, answer):
            outcome = setup(scene, reporter)
        assert counts(outcome) == {"full": 3, "partial": 0, "failed": 1}
        [failed] = [item for item in outcome.results if item.result is carving.Result.FAILED]
        for text in ("TPUS_PER_TPU_FAMILY", "requires '64.0'", "'0.0' available"):
            assert text in failed.why
        assert len(asked) == 4, "each pool was asked for once"
        assert started(scene, "DELETE_NODE_POOL") == []
        again = setup(scene, reporter)
        assert counts(again) == {"full": 4, "partial": 0, "failed": 0}
        assert [item.pool for item in again.results if item.made] == [failed.pool]
        assert all(item.why == "" for item in again.results)


# -- the instance group below a pool -------------------------------------------------------------------------


def test_an_instance_group_that_is_not_stable_is_named_and_not_hammered(
    scene: rehearsal.Rehearsal, reporter: Recorder
) -> None:
    """The skill "MIG stuck updating": SliceCreationFailed, and the cube is not to blame."""
    cube = whole(scene).cubes[0]
    pool = cube.hosts[0].pool
    sub_block = next(item.sub_block for item in scene.ports.pools.list() if item.name == pool)
    stuck = scene.simulator.inject("mig-unstable", sub_block)
    wish = forming.request(topology.CUBE, cubes=(cube.id,))
    creates = {"api": "kubernetes", "verb": "create", "resource": "slices"}
    with (
        api_faults.injected(scene.simulator, api_faults.Observe(), **creates) as seen,
        pytest.raises(errors.TpuctlError, match=f"instance group of node pool {pool} is not stable") as told,
    ):
        forming.form(scene.ports, reporter, "train", wish)
    assert "nothing was left behind" in told.value.message
    assert seen.calls == 3
    assert whole(scene).slices == ()
    scene.simulator.clear(stuck)
    scene.simulator.advance(60)
    formed = forming.form(scene.ports, reporter, "train", wish)
    assert formed.slice.state is states.SliceState.ACTIVE
