"""GKE over plain HTTP: authentication, strict bodies, error shapes and the rules for a pool's request."""

from __future__ import annotations

import copy

import pytest
import requests
from google.api_core import exceptions
from starlette import responses

from tests.sim import google_world as gw

CLUSTER = f"/v1/{gw.PARENT}"
POOLS = f"{CLUSTER}/nodePools"


@pytest.fixture(scope="module")
def world():
    built = gw.build()
    built.make_policy()
    built.make_policy("joined", acceleratorTopologyMode="AUTO_CONNECT")
    with gw.served(built):
        yield built


def call(world, verb, path, body=None, *, token=gw.TOKEN):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return requests.request(verb, world.host + path, json=body, headers=headers, timeout=10)


def error(answer):
    body = answer.json()["error"]
    assert body["code"] == answer.status_code
    (detail,) = body["errors"]
    assert detail["domain"] == "global"
    assert detail["message"] == body["message"]
    return answer.status_code, body["status"], detail["reason"]


@pytest.mark.parametrize("token", [None, "wrong"])
def test_every_call_needs_the_token(world, token):
    for path in (CLUSTER, "/v1/anything", "/compute/v1/projects/p/zones/z/reservations"):
        answer = call(world, "GET", path, token=token)
        assert answer.status_code == 401
        assert answer.json()["error"]["errors"][0]["reason"] == "authError"
    assert error(call(world, "GET", CLUSTER, token=token)) == (401, "UNAUTHENTICATED", "authError")


def test_a_missing_cluster_is_named_by_zone_or_location(world):
    regional = call(world, "GET", f"/v1/projects/{gw.PROJECT}/locations/{gw.LOCATION}/clusters/other")
    assert error(regional) == (404, "NOT_FOUND", "notFound")
    place = f"projects/{gw.PROJECT}/locations/{gw.LOCATION}"
    assert regional.json()["error"]["message"] == f"Not found: {place}/clusters/other."
    zonal = call(world, "GET", f"/v1/projects/{gw.PROJECT}/locations/{gw.ZONE}/clusters/sim")
    place = f"projects/{gw.PROJECT}/zones/{gw.ZONE}"
    assert zonal.json()["error"]["message"] == f"Not found: {place}/clusters/sim."


def test_a_missing_pool(world):
    answer = call(world, "GET", f"{POOLS}/other")
    assert error(answer) == (404, "NOT_FOUND", "notFound")
    assert answer.json()["error"]["message"] == f'nodePool "{gw.PARENT}/nodePools/other" not found'


def test_a_missing_operation(world):
    answer = call(world, "GET", f"/v1/projects/{gw.PROJECT}/locations/{gw.LOCATION}/operations/other")
    assert error(answer) == (404, "NOT_FOUND", "notFound")


def test_another_project_is_forbidden(world):
    answer = call(world, "GET", f"/v1/projects/other/locations/{gw.LOCATION}/clusters")
    assert error(answer) == (403, "PERMISSION_DENIED", "forbidden")


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("DELETE", CLUSTER),
        ("POST", f"/v1/projects/{gw.PROJECT}/locations/{gw.LOCATION}/clusters"),
        ("PUT", f"{POOLS}/any"),
        ("POST", f"{POOLS}/any:setManagement"),
        ("POST", f"/v1/projects/{gw.PROJECT}/locations/{gw.LOCATION}/operations/any:cancel"),
        ("GET", f"/v1/projects/{gw.PROJECT}/zones/{gw.ZONE}/clusters"),
        ("GET", "/v1/nothing"),
    ],
)
def test_what_is_not_simulated_says_so(world, verb, path):
    assert error(call(world, verb, path)) == (501, "UNIMPLEMENTED", "notImplemented")


def test_the_client_sees_unimplemented_methods(world):
    with pytest.raises(exceptions.MethodNotImplemented):
        world.container().delete_cluster(name=gw.PARENT)


def test_unknown_query_parameters_are_refused(world):
    assert error(call(world, "GET", f"{CLUSTER}?nonsense=1"))[:2] == (400, "INVALID_ARGUMENT")
    assert call(world, "GET", f"{CLUSTER}?alt=json&prettyPrint=false").status_code == 200
    assert error(call(world, "GET", f"{CLUSTER}?alt=proto"))[0] == 501
    assert error(call(world, "GET", f"{CLUSTER}?fields=name"))[0] == 501


def changed(**changes):
    """A request with dotted fields replaced; None removes one."""
    request = copy.deepcopy(gw.pool_request())
    for path, value in changes.items():
        *parents, last = path.split("__")
        target = request
        for parent in parents:
            target = target[parent]
        if value is None:
            del target[last]
        else:
            target[last] = value
    return {"nodePool": request}


AFFINITY = "config__reservationAffinity"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"nonsense": 1}, "Unknown name \"nonsense\" at 'nodePool'"),
        ({"config__nonsense": 1}, "Unknown name \"nonsense\" at 'nodePool.config'"),
        ({"initialNodeCount": "many"}, "nodePool.initialNodeCount"),
        ({"initialNodeCount": True}, "nodePool.initialNodeCount"),
        ({"locations": gw.ZONE}, "nodePool.locations"),
        ({"management__autoRepair": "yes"}, "nodePool.management.autoRepair"),
        (
            {"management__autoUpgrade": False},
            "Auto_upgrade cannot be false when release_channel RAPID is set.",
        ),
        (
            {"management": {}},
            "Auto_upgrade and auto_repair cannot be false when release_channel RAPID is set.",
        ),
        ({f"{AFFINITY}__consumeReservationType": 99}, "consumeReservationType"),
        ({"name": "Upper"}, "node_pool.name"),
        ({"name": "x" * 41}, "node_pool.name"),
        ({"name": "dash-"}, "node_pool.name"),
        ({"name": None}, "node_pool.name"),
        ({"config__machineType": "n1-standard-1"}, "machine type"),
        ({"config__machineType": None}, "machine type"),
        ({"config__imageType": "UBUNTU_CONTAINERD"}, "COS_CONTAINERD"),
        ({"initialNodeCount": 0}, "initial_node_count"),
        ({"initialNodeCount": None}, "initial_node_count"),
        ({"initialNodeCount": 17}, "initial_node_count"),
        ({"maxPodsConstraint__maxPodsPerNode": "7"}, "max_pods_per_node"),
        ({"version": "1.20.0"}, "1.20.0"),
        ({"upgradeSettings": {"strategy": "BLUE_GREEN"}}, "Blue-green"),
        ({"placementPolicy__policyName": "other"}, "other"),
        ({"placementPolicy": None}, "resource policy"),
        ({"placementPolicy__policyName": "joined"}, "PROVISION_ONLY"),
        ({"placementPolicy__tpuTopology": "4x4x4"}, "tpu_topology"),
        ({AFFINITY: None}, "SPECIFIC_RESERVATION"),
        ({f"{AFFINITY}__consumeReservationType": "ANY_RESERVATION"}, "SPECIFIC_RESERVATION"),
        ({f"{AFFINITY}__key": "name"}, "compute.googleapis.com/reservation-name"),
        ({f"{AFFINITY}__values": ["resv"]}, "one path"),
        ({f"{AFFINITY}__values": []}, "one path"),
        ({f"{AFFINITY}__values": [gw.cube_path(1), gw.cube_path(2)]}, "one path"),
        ({f"{AFFINITY}__values": [gw.cube_path(9)]}, "was not found"),
        ({f"{AFFINITY}__values": ["other/reservationBlocks/resv-block-0001"]}, "was not found"),
        ({f"{AFFINITY}__values": ["resv/reservationBlocks/other"]}, "was not found"),
        (
            {f"{AFFINITY}__values": ["projects/o/reservations/resv/reservationBlocks/resv-block-0001"]},
            "was not found",
        ),
        ({"locations": None}, "exactly one zone"),
        ({"locations": [gw.ZONE, f"{gw.LOCATION}-b"]}, "exactly one zone"),
        ({"locations": ["elsewhere-a"]}, "not a zone"),
        ({"locations": [f"{gw.LOCATION}-b"]}, "the reservation is in"),
    ],
)
def test_a_bad_request_is_refused_with_the_rule_it_breaks(world, changes, text):
    answer = call(world, "POST", POOLS, changed(**changes))
    assert error(answer)[:2] == (400, "INVALID_ARGUMENT")
    assert text in answer.json()["error"]["message"]
    assert world.gke.cluster.pools == {}


@pytest.mark.parametrize(
    "changes",
    [{"config__taints": []}, {"autoscaling": {"enabled": True}}, {"queuedProvisioning": {}}],
)
def test_a_real_field_without_effect_here_is_unimplemented(world, changes):
    assert error(call(world, "POST", POOLS, changed(**changes))) == (501, "UNIMPLEMENTED", "notImplemented")


def test_a_body_that_is_no_json(world):
    headers = {"Authorization": f"Bearer {gw.TOKEN}"}
    answer = requests.post(world.host + POOLS, data=b"{", headers=headers, timeout=10)
    assert error(answer)[:2] == (400, "INVALID_ARGUMENT")


def test_an_update_without_content_is_refused(world):
    assert error(call(world, "PUT", CLUSTER, {"update": {}}))[:2] == (400, "INVALID_ARGUMENT")
    other = {"update": {"desiredAddonsConfig": {"rayOperatorConfig": {"enabled": True}}}}
    assert error(call(world, "PUT", CLUSTER, other))[0] == 501


def test_names_in_snake_case_numbers_of_enumerations_and_nulls_are_read():
    world = gw.build()
    world.make_policy()
    request = gw.pool_request()
    request["initial_node_count"] = request.pop("initialNodeCount")
    request["config"]["reservationAffinity"]["consumeReservationType"] = 3
    request["autoscaling"] = None
    with gw.served(world):
        answer = call(world, "POST", POOLS, {"node_pool": request})
        assert answer.status_code == 200
        assert set(answer.json()) == {
            "name",
            "operationType",
            "selfLink",
            "startTime",
            "status",
            "targetLink",
            "zone",
        }
        world.clock.advance(300)
        pool = call(world, "GET", f"{POOLS}/cube-1").json()
        affinity = pool["config"]["reservationAffinity"]
        assert affinity["consumeReservationType"] == "SPECIFIC_RESERVATION"
        assert pool["maxPodsConstraint"] == {"maxPodsPerNode": "15"}
        assert pool["management"] == {"autoRepair": True, "autoUpgrade": True}
        assert "conditions" not in pool


def test_an_interceptor_may_answer_and_may_hide_a_committed_write():
    world = gw.build()
    world.make_policy()

    async def lose_answers(request, proceed):
        if request.method == "POST":
            assert (await proceed()).status_code == 200
            return responses.Response(status_code=503)
        return None

    world.gke.intercept.append(lose_answers)
    with gw.served(world):
        assert call(world, "POST", POOLS, changed()).status_code == 503
        assert call(world, "GET", f"{POOLS}/cube-1").json()["status"] == "PROVISIONING"
