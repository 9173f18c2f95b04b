"""Node pools, the cluster and operations on the simulator, and through a relay that loses answers."""

from __future__ import annotations

import json

import pytest
import requests
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.cloud import scripted
from tpuctl.cloud import connect, gke
from tpuctl.model import errors, fleet, names, states, topology
from tpuctl.ops import ports as ports_module

POOLS = "/nodePools"
DONE, RUNNING, FAILED = (
    ports_module.OperationStatus.DONE,
    ports_module.OperationStatus.RUNNING,
    ports_module.OperationStatus.FAILED,
)
POLICY = "tpuctl-4x4x4"


def specs_of(world):
    """A spec for each sub-block, and the workload policy that they need."""
    ports = world.ports
    if not ports.capacity.has_policy(POLICY):
        ports.capacity.create_policy(POLICY)
    return [
        fleet.PoolSpec(names.pool_name(item.name), block.reservation, block.name, item.name, POLICY)
        for block in ports.capacity.blocks()
        for item in block.sub_blocks
    ]


def finished(world, operation, *, limit_s=3600):
    """The operation when it has ended; simulated time moves until then."""
    pools = world.ports.pools
    for _ in range(limit_s // 10):
        operation = pools.operation(operation.name)
        if operation.status is not RUNNING:
            return operation
        world.sim.advance(10)
    raise AssertionError(f"{operation} does not end")


def test_a_pool_from_creation_to_its_end(fresh):
    pools, spec = fresh.ports.pools, specs_of(fresh)[0]
    assert pools.list() == ()
    operation = pools.create(spec)
    assert (operation.kind, operation.target, operation.status) == ("CREATE_NODE_POOL", spec.name, RUNNING)
    assert [pool.status for pool in pools.list()] == [states.PoolStatus.PROVISIONING]
    assert finished(fresh, operation) == operation._replace(status=DONE)
    assert pools.list() == (
        fleet.NodePool(
            name=spec.name,
            status=states.PoolStatus.RUNNING,
            raw_status="RUNNING",
            sub_block=spec.sub_block,
            block=spec.block,
            reservation="sim-reservation",
            policy=POLICY,
            wanted_hosts=16,
            auto_upgrade=True,
        ),
    )
    ended = pools.delete(spec.name)
    assert (ended.kind, ended.target) == ("DELETE_NODE_POOL", spec.name)
    assert finished(fresh, ended).status is DONE
    assert pools.list() == ()


def test_the_slice_controller_is_turned_on(fresh):
    pools = fresh.ports.pools
    before = pools.cluster()
    assert (before.name, before.slice_controller, before.release_channel) == ("sim", False, "RAPID")
    operation = pools.enable_slice_controller()
    assert (operation.kind, operation.status) == ("UPDATE_CLUSTER", RUNNING)
    assert finished(fresh, operation).status is DONE
    assert pools.cluster().slice_controller


def test_a_cluster_that_is_busy(fresh):
    spec = specs_of(fresh)[0]
    fresh.ports.pools.enable_slice_controller()
    with pytest.raises(errors.Busy, match=f"cannot create node pool {spec.name}"):
        fresh.ports.pools.create(spec)
    assert fresh.clock.slept == [2.0], "only the policy was waited for: waiting for the cluster is for ops"


def test_refusals_of_a_create(fresh):
    pools, (spec, other, *_) = fresh.ports.pools, specs_of(fresh)
    finished(fresh, pools.create(spec))
    with pytest.raises(errors.Conflict):
        pools.create(spec)
    with pytest.raises(errors.UsageError, match="no-such-policy"):
        pools.create(other._replace(policy="no-such-policy"))
    with pytest.raises(errors.UsageError):
        pools.create(other._replace(sub_block="no-such-sub-block"))
    assert [pool.name for pool in pools.list()] == [spec.name]


def test_a_pool_that_is_not_there(fresh):
    with pytest.raises(errors.NotFound, match="cannot delete node pool nowhere"):
        fresh.ports.pools.delete("nowhere")
    with pytest.raises(errors.NotFound):
        fresh.ports.pools.operation("operation-nowhere")


def test_a_pool_under_a_slice_is_not_deleted(ready):
    ports = ready.ports
    cube = ports.fleet.observe([fleet.SourceName.NODES]).cubes[0]
    ports.slices.create(ports_module.SliceSpec("s", topology.CUBE, (cube.id,)))
    ready.sim.advance(120)
    with pytest.raises(errors.Conflict):
        ports.pools.delete(cube.hosts[0].pool)


@pytest.mark.parametrize("reply", [None, scripted.Reply(503, b""), scripted.Reply(200, b"<html>")])
def test_a_create_whose_answer_is_lost_is_adopted(fresh, reply):
    spec = specs_of(fresh)[0]
    fresh.relay.after("POST", POOLS, reply)
    operation = fresh.through_relay.pools.create(spec)
    assert (operation.kind, operation.target, operation.status) == ("CREATE_NODE_POOL", spec.name, RUNNING)
    assert len(fresh.relayed.asked("POST")) == 1
    assert finished(fresh, operation).status is DONE
    assert len(fresh.ports.pools.list()) == 1


def test_a_create_that_did_not_arrive_is_sent_again(fresh):
    spec = specs_of(fresh)[0]
    fresh.relay.before("POST", POOLS)
    assert fresh.through_relay.pools.create(spec).target == spec.name
    assert len(fresh.relayed.asked("POST")) == 2


def test_an_earlier_creation_of_the_same_name_is_not_taken_for_the_new_one(fresh):
    pools, spec = fresh.ports.pools, specs_of(fresh)[0]
    first = pools.create(spec)
    finished(fresh, first)
    finished(fresh, pools.delete(spec.name))
    fresh.relay.before("POST", POOLS)
    second = fresh.through_relay.pools.create(spec)
    assert second.name != first.name
    assert second.status is RUNNING


def test_a_delete_whose_answer_is_lost_is_adopted(fresh):
    pools, spec = fresh.ports.pools, specs_of(fresh)[0]
    finished(fresh, pools.create(spec))
    fresh.relay.after("DELETE", POOLS)
    operation = fresh.through_relay.pools.delete(spec.name)
    assert (operation.kind, operation.target) == ("DELETE_NODE_POOL", spec.name)
    assert len(fresh.relayed.asked("DELETE")) == 1
    assert finished(fresh, operation).status is DONE


def test_a_delete_that_did_not_arrive_is_sent_again(fresh):
    pools, spec = fresh.ports.pools, specs_of(fresh)[0]
    finished(fresh, pools.create(spec))
    fresh.relay.before("DELETE", POOLS)
    fresh.through_relay.pools.delete(spec.name)
    assert len(fresh.relayed.asked("DELETE")) == 2


def test_an_update_whose_answer_is_lost_is_adopted(fresh):
    fresh.relay.after("PUT", "/clusters/sim")
    operation = fresh.through_relay.pools.enable_slice_controller()
    assert operation.kind == "UPDATE_CLUSTER"
    assert len(fresh.relayed.asked("PUT")) == 1
    assert finished(fresh, operation).status is DONE


def test_operations_are_those_of_this_cluster_oldest_first(fresh):
    pools = fresh.ports.pools
    started = [pools.create(spec) for spec in specs_of(fresh)[:3]]
    assert list(pools.operations()) == sorted(started, key=lambda item: item.name)


def answering(body):
    return lambda _: scripted.Reply(200, body)


def pools_of(server, directory):
    return connect.connect(scripted.context(server.url, directory), clock=scripted.FakeClock()).pools


def operation_body(**changes):
    found = {
        "name": "op-1",
        "operationType": "CREATE_NODE_POOL",
        "status": "DONE",
        "targetLink": "https://container.googleapis.com/v1/projects/12345/locations/us-central1/clusters/c1/nodePools/p",
        "startTime": "2026-01-05T08:00:00Z",
    }
    return found | changes


@pytest.mark.parametrize(
    ("changes", "status", "error"),
    [
        ({}, DONE, ""),
        ({"status": "PENDING"}, RUNNING, ""),
        ({"status": "ABORTING"}, RUNNING, ""),
        ({"status": "SOMETHING_NEW"}, RUNNING, ""),
        ({"status": 77}, RUNNING, ""),
        ({"error": {"code": 8, "message": "no\nroom"}}, FAILED, "no room"),
        ({"error": {"code": 8}}, FAILED, "code 8"),
        ({"status": "RUNNING", "error": {"code": 8, "message": "soon over"}}, RUNNING, "soon over"),
    ],
)
def test_states_of_operations(tmp_path, changes, status, error):
    with scripted.Server(answering(operation_body(**changes))) as server:
        found = pools_of(server, tmp_path).operation("op-1")
    assert found == ports_module.Operation("op-1", "CREATE_NODE_POOL", "p", status, error)


def test_operations_of_other_clusters_are_left_out(tmp_path):
    link = operation_body()["targetLink"]
    mine, on_cluster = (
        operation_body(name="b"),
        operation_body(name="a", targetLink=link.rpartition("/nodePools")[0]),
    )
    others = [
        operation_body(name="x", targetLink=link.replace("/c1/", "/c11/")),
        {"name": "y", "status": "DONE"},
    ]
    with scripted.Server(answering({"operations": [mine, *others, on_cluster]})) as server:
        assert [(item.name, item.target) for item in pools_of(server, tmp_path).operations()] == [
            ("a", "c1"),
            ("b", "p"),
        ]


def test_a_list_of_operations_with_missing_zones_is_no_list(tmp_path):
    with (
        scripted.Server(answering({"operations": [], "missingZones": ["us-central1-c"]})) as server,
        pytest.raises(errors.Unavailable, match=r"us-central1-c.*nothing was assumed"),
    ):
        pools_of(server, tmp_path).operations()


def test_pools_of_other_kinds_are_listed_too(tmp_path):
    pools = [
        {"name": "z", "status": "RUNNING"},
        {
            "name": "a",
            "status": 77,
            "conditions": [{"code": "GCE_STOCKOUT", "message": "none left"}, {"canonicalCode": "INTERNAL"}],
        },
    ]
    with scripted.Server(answering({"nodePools": pools})) as server:
        first, second = pools_of(server, tmp_path).list()
    assert (first.name, first.status, first.raw_status) == ("a", states.PoolStatus.UNKNOWN, "77")
    assert (first.reservation, first.block, first.sub_block) == ("", "", "")
    assert first.conditions == ("GCE_STOCKOUT: none left", "INTERNAL: ")
    assert (second.name, second.status) == ("z", states.PoolStatus.RUNNING)


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (
            scripted.google_error(
                400, "Cluster is running incompatible operation op-7.", "FAILED_PRECONDITION"
            ),
            errors.Busy,
        ),
        (scripted.google_error(409, "Cluster has an operation in progress", "ABORTED"), errors.Busy),
        (
            scripted.google_error(429, "hits the concurrent operations quota 5", "RESOURCE_EXHAUSTED"),
            errors.Busy,
        ),
        (scripted.google_error(403, "Rate Limit Exceeded", reason="rateLimitExceeded"), errors.Busy),
        (scripted.google_error(400, "The pool is used by a slice.", "FAILED_PRECONDITION"), errors.Conflict),
        (scripted.google_error(409, "Already exists: p", "ALREADY_EXISTS"), errors.Conflict),
        (scripted.google_error(403, "Insufficient regional quota to satisfy request"), errors.DoesNotFit),
        (
            scripted.google_error(403, "Quota 'TPUS' exceeded. Limit: 4", reason="quotaExceeded"),
            errors.DoesNotFit,
        ),
        (scripted.google_error(400, "ZONE_RESOURCE_POOL_EXHAUSTED: none left"), errors.DoesNotFit),
        (scripted.google_error(403, "Required permission container.clusters.update"), errors.NotPermitted),
        (
            scripted.google_error(401, "invalid authentication credentials", "UNAUTHENTICATED"),
            errors.NotPermitted,
        ),
        (scripted.google_error(404, "Not found: cluster", "NOT_FOUND"), errors.NotFound),
        (scripted.google_error(400, "Invalid machine type", "INVALID_ARGUMENT"), errors.UsageError),
        (scripted.google_error(501, "not implemented", "UNIMPLEMENTED"), errors.Unavailable),
        (scripted.Reply(401, {"error": "invalid_token"}), errors.NotPermitted),
        (scripted.Reply(403, b"<html>proxy</html>"), errors.NotPermitted),
        (scripted.Reply(500, [{"error": {"code": 500}}]), errors.Unavailable),
    ],
)
def test_refusals_of_the_service(tmp_path, reply, error):
    spec = fleet.PoolSpec("p", "r1", "b", "s", POLICY)

    def script(request):
        if request.path.endswith("/operations"):
            return scripted.Reply(200, {})
        return reply if request.method == "POST" else scripted.google_error(404, "no pool", "NOT_FOUND")

    with scripted.Server(script) as server, pytest.raises(errors.TpuctlError) as caught:
        pools_of(server, tmp_path).create(spec)
    assert type(caught.value) is error
    assert caught.value.message.startswith("cannot create node pool p: ")
    assert "<html>" not in caught.value.message


def test_what_is_asked_of_a_new_pool(tmp_path):
    spec = fleet.PoolSpec("p", "projects/owner/reservations/r9", "b", "s", POLICY)
    with scripted.Server(answering(operation_body(status="RUNNING"))) as server:
        pools_of(server, tmp_path).create(spec)
        request = server.requests[0]
    assert request.path == "/v1/projects/p1/locations/us-central1/clusters/c1/nodePools"
    pool = request.body["nodePool"]
    assert pool["config"]["machineType"] == "tpu7x-standard-4t"
    assert pool["config"]["reservationAffinity"] == {
        "consumeReservationType": 3,  # SPECIFIC_RESERVATION; the client writes numbers
        "key": "compute.googleapis.com/reservation-name",
        "values": ["projects/owner/reservations/r9/reservationBlocks/b/reservationSubBlocks/s"],
    }
    assert pool["initialNodeCount"] == 16
    assert pool["locations"] == ["us-central1-c"]
    assert pool["placementPolicy"] == {"policyName": POLICY}
    assert "autoscaling" not in pool


@pytest.mark.parametrize(
    ("changes", "upgrades", "management"),
    [
        # Left to GKE: not sent, since a flag that is left out of the field would mean false.
        ({}, {"maxUnavailable": 16}, None),
        ({"max_unavailable": 8}, {"maxUnavailable": 8}, None),
        ({"max_surge": 1, "max_unavailable": 2}, {"maxSurge": 1, "maxUnavailable": 2}, None),
        ({"auto_upgrade": False}, {"maxUnavailable": 16}, {"autoRepair": True}),
        ({"auto_upgrade": False, "auto_repair": False}, {"maxUnavailable": 16}, {}),
    ],
)
def test_settings_of_a_new_pool_are_sent(tmp_path, changes, upgrades, management):
    spec = fleet.PoolSpec("p", "r1", "b", "s", POLICY)._replace(**changes)
    with scripted.Server(answering(operation_body(status="RUNNING"))) as server:
        pools_of(server, tmp_path).create(spec)
        pool = server.requests[0].body["nodePool"]
    assert pool["upgradeSettings"] == upgrades
    assert pool.get("management") == management


def test_a_release_channel_refuses_pools_without_upgrades_and_the_error_says_what_to_do(fresh):
    spec = specs_of(fresh)[0]._replace(auto_upgrade=False)
    with pytest.raises(errors.UsageError) as caught:
        fresh.through_relay.pools.create(spec)
    assert caught.value.message == (
        f"cannot create node pool {spec.name}: Auto_upgrade cannot be false when release_channel RAPID is "
        "set: leave autoRepair and autoUpgrade out of the fleet file, and keep node upgrades away with a "
        "maintenance exclusion of the cluster"
    )
    assert len(fresh.relayed.asked("POST")) == 1
    assert fresh.ports.pools.list() == ()
    assert finished(fresh, fresh.ports.pools.create(spec._replace(auto_upgrade=None))).status is DONE


@pytest.mark.parametrize("word", ["INVALID_ARGUMENT", "FAILED_PRECONDITION"])
def test_the_other_words_of_that_refusal(tmp_path, word):
    said = "Auto_upgrade and auto_repair cannot be false when release_channel REGULAR is set."
    with scripted.Server(lambda _: scripted.google_error(400, said, word)) as server:
        with pytest.raises(errors.UsageError, match="leave autoRepair and autoUpgrade out of the fleet file"):
            pools_of(server, tmp_path).create(fleet.PoolSpec("p", "r1", "b", "s", POLICY, auto_upgrade=False))
        assert len(server.requests) == 1


NOW = "Mon, 05 Jan 2026 08:00:00 GMT"
BEFORE, AFTER = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"


def exclusion(scope, *, start=BEFORE, end=AFTER, **options):
    window = {"startTime": start, "maintenanceExclusionOptions": {"scope": scope, **options}}
    return window if end is None else window | {"endTime": end}


@pytest.mark.parametrize(
    ("window", "excludes"),
    [
        (None, False),
        (exclusion("NO_UPGRADES"), True),
        (exclusion("NO_MINOR_OR_NODE_UPGRADES"), True),
        (exclusion("NO_MINOR_UPGRADES"), False),
        ({"startTime": BEFORE, "endTime": AFTER}, True),  # the scope that nobody named is NO_UPGRADES
        (exclusion("NO_UPGRADES", start=AFTER, end="2026-03-01T00:00:00Z"), False),
        (exclusion("NO_UPGRADES", start="2025-12-01T00:00:00Z", end=BEFORE), False),
        (exclusion("NO_MINOR_OR_NODE_UPGRADES", end=None, endTimeBehavior="UNTIL_END_OF_SUPPORT"), True),
    ],
)
def test_what_keeps_node_upgrades_away(tmp_path, window, excludes):
    found = {"name": "c1", "status": "RUNNING"}
    if window is not None:
        found["maintenancePolicy"] = {"window": {"maintenanceExclusions": {"x": window}}}
    with scripted.Server(lambda _: scripted.Reply(200, found, {"Date": NOW})) as server:
        assert pools_of(server, tmp_path).cluster().excludes_node_upgrades is excludes


@pytest.mark.parametrize(
    ("pool", "upgraded"),
    [
        ({}, False),
        ({"management": {"autoRepair": True}}, False),
        ({"management": {"autoUpgrade": True}}, True),
        (
            {
                "management": {"autoUpgrade": True},
                "maintenancePolicy": {"exclusionUntilEndOfSupport": {"enabled": True}},
            },
            False,
        ),
    ],
)
def test_which_pools_are_upgraded_by_gke(tmp_path, pool, upgraded):
    with scripted.Server(answering({"nodePools": [{"name": "p", **pool}]})) as server:
        assert [item.auto_upgrade for item in pools_of(server, tmp_path).list()] == [upgraded]


@pytest.mark.parametrize(
    ("path", "aim"),
    [
        ("", gke.Aim("")),
        ("r", gke.Aim("r")),
        ("r/reservationBlocks/b", gke.Aim("r", "b")),
        ("projects/p1/reservations/r/reservationBlocks/b/reservationSubBlocks/s", gke.Aim("r", "b", "s")),
        ("projects/p2/reservations/r/reservationBlocks/b", gke.Aim("projects/p2/reservations/r", "b")),
        ("projects/p2/reservations/r", gke.Aim("projects/p2/reservations/r")),
    ],
)
def test_reservation_paths(path, aim):
    assert gke.parse_reservation_path(path, "p1") == aim
    if aim.reservation:
        assert gke.parse_reservation_path(gke.reservation_path(aim, "p1"), "p1") == aim


def test_without_credentials_the_command_for_them_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    ports = connect.connect(
        scripted.context("http://127.0.0.1:1", tmp_path, token_file=None), clock=scripted.FakeClock()
    )
    with pytest.raises(errors.NotPermitted) as caught:
        ports.pools.list()
    assert caught.value.hint == "run: gcloud auth application-default login"


def test_a_token_file_is_read_again_for_each_request(tmp_path):
    with scripted.Server(answering({})) as server:
        pools = pools_of(server, tmp_path)
        pools.list()
        (tmp_path / "token").write_text("fresh")
        pools.list()
        assert [request.headers["authorization"] for request in server.requests] == [
            f"Bearer {scripted.TOKEN}",
            "Bearer fresh",
        ]


def test_a_missing_token_file(tmp_path):
    with scripted.Server(answering({})) as server:
        pools = pools_of(server, tmp_path)
        (tmp_path / "token").unlink()
        with pytest.raises(errors.NotPermitted, match="token file"):
            pools.list()
        assert server.requests == []


def test_retry_after_of_a_read_is_waited_for(tmp_path):
    left = [
        scripted.Reply(429, {"error": {"message": "slow"}}, {"Retry-After": "5"}),
        scripted.Reply(200, {}),
    ]
    clock = scripted.FakeClock()
    with scripted.Server(lambda _: left.pop(0)) as server:
        ports = connect.connect(scripted.context(server.url, tmp_path), clock=clock)
        assert ports.pools.list() == ()
    assert clock.slept == [5.0]


def test_a_service_that_does_not_answer(tmp_path, monkeypatch):
    monkeypatch.setattr("tpuctl.cloud.googleapis.TIMEOUT_S", 0.05)
    held = []

    def script(_):
        held[0].released.wait(10)
        return scripted.Reply(200, {})

    with scripted.Server(script) as server:
        held.append(server)
        with pytest.raises(errors.Unavailable, match="did not answer in time"):
            pools_of(server, tmp_path).list()
        server.released.set()


def test_a_list_may_take_longer_than_an_object_and_a_lost_one_is_asked_for_again(tmp_path, monkeypatch):
    """A list of 6,000 node pools comes in one answer."""
    waited_s = []
    real = requests.adapters.HTTPAdapter.send

    def send(adapter, request, *args, timeout, **options):
        waited_s.append(timeout)
        if len(waited_s) == 1:
            clock.now_s += timeout
            raise requests.exceptions.ReadTimeout("read timed out")
        return real(adapter, request, *args, timeout=timeout, **options)

    monkeypatch.setattr(requests.adapters.HTTPAdapter, "send", send)
    clock = scripted.FakeClock()
    with scripted.Server(lambda _: scripted.Reply(200, {})) as server:
        ports = connect.connect(scripted.context(server.url, tmp_path), clock=clock)
        assert ports.pools.list() == ()
        assert ports.pools.operations() == ()
    assert waited_s == [30.0, 30.0, 10.0]


def test_a_pool_whose_operation_is_not_listed_yet_is_waited_for(tmp_path):
    """After a lost answer the pool is there first, its operation a moment later."""
    listed = [{}, {}, {"operations": [operation_body(status="RUNNING")]}]

    def script(request):
        if request.method == "POST":
            return scripted.Reply(drop=True)
        if request.path.endswith("/operations"):
            return scripted.Reply(200, listed.pop(0))
        return scripted.Reply(200, {"name": "p", "status": "PROVISIONING"})

    with scripted.Server(script) as server:
        operation = pools_of(server, tmp_path).create(fleet.PoolSpec("p", "r1", "b", "s", POLICY))
        assert len(server.asked("POST")) == 1
    assert (operation.name, operation.status) == ("op-1", RUNNING)


def test_a_controller_that_is_on_already_is_done(tmp_path):
    def script(request):
        if request.method == "PUT":
            return scripted.Reply(drop=True)
        if request.path.endswith("/operations"):
            return scripted.Reply(200, {})
        return scripted.Reply(
            200, {"name": "c1", "addonsConfig": {"sliceControllerConfig": {"enabled": True}}}
        )

    with scripted.Server(script) as server:
        operation = pools_of(server, tmp_path).enable_slice_controller()
    assert (operation.kind, operation.target, operation.status) == ("UPDATE_CLUSTER", "c1", DONE)


def test_a_pool_that_is_gone_before_anybody_looked_is_done(tmp_path):
    def script(request):
        if request.method == "DELETE":
            return scripted.Reply(drop=True)
        if request.path.endswith("/operations"):
            return scripted.Reply(200, {})
        return scripted.google_error(404, "no pool", "NOT_FOUND")

    with scripted.Server(script) as server:
        operation = pools_of(server, tmp_path).delete("p")
    assert (operation.kind, operation.target, operation.status) == ("DELETE_NODE_POOL", "p", DONE)


def test_application_default_credentials_are_on_the_wire(tmp_path, monkeypatch):
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )

    def script(request):
        if request.path == "/token":
            return scripted.Reply(
                200, {"access_token": "exchanged", "expires_in": 3600, "token_type": "Bearer"}
            )
        return scripted.Reply(200, {})

    with scripted.Server(script) as server:
        account = {
            "type": "service_account",
            "client_email": "admin@p1.iam.gserviceaccount.com",
            "private_key": key.decode(),
            "private_key_id": "1",
            "project_id": "p1",
            "token_uri": f"{server.url}/token",
        }
        (tmp_path / "adc.json").write_text(json.dumps(account))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "adc.json"))
        context = scripted.context(server.url, tmp_path, token_file=None)
        assert connect.connect(context, clock=scripted.FakeClock()).pools.list() == ()
        assert server.requests[0].path == "/token"
        assert server.requests[-1].headers["authorization"] == "Bearer exchanged"


# -- lists that are read again and again -----------------------------------------------------------------


def test_pools_that_are_as_they_were_are_the_same_objects(fresh, monkeypatch):
    ports, specs = fresh.ports, specs_of(fresh)
    finished(fresh, ports.pools.create(specs[0]))
    before = ports.pools.list()
    refused = gke.GkePools._pool

    def refuse(*_):
        raise AssertionError("there is nothing new to read")

    monkeypatch.setattr(gke.GkePools, "_pool", refuse)
    assert ports.pools.list() is before
    monkeypatch.setattr(gke.GkePools, "_pool", refused)
    ports.pools.create(specs[1])
    after = ports.pools.list()
    assert [pool.name for pool in after] == sorted(spec.name for spec in specs[:2])


def test_the_same_answer_after_an_error_is_no_error(fresh):
    """An answer is compared only with that of a whole reading, whatever came in between."""
    ports = fresh.through_relay
    finished(fresh, ports.pools.create(specs_of(fresh)[0]))
    before = ports.pools.list()
    for reply in (
        scripted.Reply(drop=True),
        scripted.google_error(503, "later"),
        scripted.Reply(body=b"<html>"),
    ):
        fresh.relay.before("GET", POOLS, reply)
        try:
            found = ports.pools.list()
        except errors.Unavailable:
            found = ports.pools.list()
        assert found is before


def test_each_list_is_compared_with_itself(make_world):
    world = make_world(blocks=2, cubes=3)
    capacity = world.ports.capacity
    first, second = capacity.blocks()
    again = capacity.blocks()
    assert again == (first, second)
    assert [block.sub_blocks for block in again] == [first.sub_blocks, second.sub_blocks]
    assert all(now.sub_blocks is was.sub_blocks for now, was in zip(again, (first, second), strict=True))
    world.sim.inject("cube-degraded", second.sub_blocks[1].name)
    third = capacity.blocks()
    assert third[0].sub_blocks is first.sub_blocks
    assert third[1].sub_blocks != second.sub_blocks
