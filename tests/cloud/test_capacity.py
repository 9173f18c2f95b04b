"""Reserved capacity and the workload policy on the simulator, and on servers that answer oddly."""

from __future__ import annotations

import datetime

import pytest

from tests.cloud import scripted
from tpuctl.cloud import connect
from tpuctl.model import errors, fleet

POLICIES = "/resourcePolicies"


def test_blocks_and_sub_blocks(make_world):
    world = make_world(blocks=2, cubes=3)
    first, second = world.ports.capacity.blocks()
    assert (first.reservation, first.name) == ("sim-reservation", "sim-reservation-block-0001")
    assert second.name == "sim-reservation-block-0002"
    assert first.physical_id != second.physical_id
    assert [item.name for item in first.sub_blocks] == [
        f"sim-reservation-block-0001-subblock-{number:04d}" for number in (1, 2, 3)
    ]
    item = first.sub_blocks[0]
    assert (item.health, item.healthy_hosts, item.degraded_hosts, item.hosts, item.hosts_in_use) == (
        "HEALTHY",
        16,
        0,
        16,
        0,
    )


def test_health_topologies_and_maintenance_of_the_simulator(ready):
    first = ready.ports.capacity.blocks()[0].sub_blocks[0]
    assert (first.healthy_infra, first.degraded_infra, first.status) == (1, 0, "READY")
    assert {(entry.shape, entry.state): entry.partitions for entry in first.topologies} == {
        (shape, "RUNNING"): 16 // hosts
        for shape, hosts in (("2x2x1", 1), ("2x2x2", 2), ("2x2x4", 4), ("2x4x4", 8), ("4x4x4", 16))
    }
    assert first.maintenance is None
    ready.sim.inject("cube-degraded", first.name)
    ready.sim.inject("maintenance", first.name, after_s=3600)
    block = ready.ports.capacity.blocks()[0]
    again = block.sub_blocks[0]
    assert (again.healthy_infra, again.degraded_infra, again.degraded_hosts) == (0, 1, 0)
    assert again.maintenance is not None
    assert (again.maintenance.status, again.maintenance.is_ongoing) == ("PENDING", False)
    assert again.maintenance_start == again.maintenance.start == block.maintenance.start
    ready.sim.advance(3700)
    ongoing = ready.ports.capacity.blocks()[0].sub_blocks[0].maintenance
    assert ongoing.is_ongoing
    assert ongoing.hosts_ongoing == 16


def test_a_reservation_that_is_not_there(fresh):
    with pytest.raises(errors.NotFound, match="nowhere"):
        fresh.connect(reservations=("nowhere",)).capacity.blocks()


def test_a_context_without_reservations(fresh):
    with pytest.raises(errors.UsageError, match="names no reservation"):
        fresh.connect(reservations=()).capacity.blocks()


@pytest.mark.parametrize(
    "text", ["", "a/b", "projects/p/reservations", "projects//reservations/r", "p/p/r/r"]
)
def test_a_reservation_that_is_no_name(fresh, text):
    with pytest.raises(errors.UsageError, match="is not a reservation"):
        fresh.connect(reservations=(text,)).capacity.blocks()


def test_the_policy_is_created_once(fresh):
    capacity = fresh.ports.capacity
    assert not capacity.has_policy("p")
    capacity.create_policy("p")
    assert capacity.has_policy("p")
    capacity.create_policy("p")
    assert fresh.clock.slept == [2.0]


@pytest.mark.parametrize("reply", [None, scripted.Reply(502, b"")])
def test_a_policy_whose_creation_was_not_answered_is_found(fresh, reply):
    fresh.relay.after("POST", POLICIES, reply)
    fresh.through_relay.capacity.create_policy("p")
    assert fresh.ports.capacity.has_policy("p")
    assert len(fresh.relayed.asked("POST")) <= 2


def test_a_policy_whose_creation_did_not_arrive_is_sent_again(fresh):
    fresh.relay.before("POST", POLICIES)
    fresh.through_relay.capacity.create_policy("p")
    assert fresh.ports.capacity.has_policy("p")
    assert len(fresh.relayed.asked("POST")) == 2


@pytest.mark.parametrize(
    ("workload", "difference"),
    [
        ({"type": "HIGH_AVAILABILITY"}, "type is HIGH_AVAILABILITY, needed is HIGH_THROUGHPUT"),
        ({"acceleratorTopology": "4x4x8"}, "accelerator topology is 4x4x8, needed is 4x4x4"),
        ({"acceleratorTopologyMode": None}, "accelerator topology mode is not set, needed is PROVISION_ONLY"),
    ],
)
def test_a_policy_for_something_else(tmp_path, workload, difference):
    good = {
        "type": "HIGH_THROUGHPUT",
        "acceleratorTopology": "4x4x4",
        "acceleratorTopologyMode": "PROVISION_ONLY",
    }
    found = {key: value for key, value in (good | workload).items() if value is not None}
    body = {"kind": "compute#resourcePolicy", "name": "p", "workloadPolicy": found}
    with scripted.Server(lambda _: scripted.Reply(200, body)) as server:
        capacity = connected(server, tmp_path).capacity
        with pytest.raises(errors.Conflict, match="not for dynamic slicing") as caught:
            capacity.has_policy("p")
        assert caught.value.details == (difference,)
        assert server.requests[0].path == "/compute/v1/projects/p1/regions/us-central1/resourcePolicies/p"


def connected(server, directory, **changes):
    return connect.connect(scripted.context(server.url, directory, **changes), clock=scripted.FakeClock())


def policy_server(operation):
    """A service whose policy is never there and whose operation says this."""

    def script(request):
        if "/operations/" in request.path or request.method == "POST":
            return scripted.Reply(
                200, {"kind": "compute#operation", "name": "op", "status": "RUNNING"} | operation
            )
        return scripted.google_error(404, "no policy")

    return script


def test_a_policy_whose_operation_fails(tmp_path):
    failed = {
        "status": "DONE",
        "error": {"errors": [{"code": "QUOTA_EXCEEDED", "message": "too many policies"}]},
    }
    with (
        scripted.Server(policy_server(failed)) as server,
        pytest.raises(errors.TpuctlError, match="too many policies"),
    ):
        connected(server, tmp_path).capacity.create_policy("p")


def test_a_policy_whose_operation_never_ends(tmp_path):
    with scripted.Server(policy_server({})) as server, pytest.raises(errors.TimedOut, match="op"):
        connected(server, tmp_path).capacity.create_policy("p")


def test_a_policy_that_is_not_there_in_the_end(tmp_path):
    with (
        scripted.Server(policy_server({"status": "DONE"})) as server,
        pytest.raises(errors.Unavailable, match="not there"),
    ):
        connected(server, tmp_path).capacity.create_policy("p")


def listing(kind, items, **more):
    return scripted.Reply(200, {"kind": kind, "id": "x", "items": items} | more)


SUB_BLOCK = {
    "name": "s1",
    "count": 16,
    "inUseCount": 3,
    "physicalTopology": {"cluster": "c", "block": "phys-b", "subBlock": "phys-s"},
    "healthInfo": {"healthStatus": "WORSE_THAN_EVER", "healthyHostCount": 15, "degradedHostCount": 1},
    "reservationSubBlockMaintenance": {
        "upcomingGroupMaintenance": {
            "windowStartTime": "2026-03-01T00:00:00.000-08:00",
            "windowEndTime": "2026-03-02T00:00:00.000-08:00",
            "maintenanceStatus": "PENDING",
            "type": "SCHEDULED",
            "canReschedule": True,
        }
    },
    "acceleratorTopologiesInfo": {
        "acceleratorTopologyInfos": [
            {
                "acceleratorTopology": "2x2x1",
                "infoPerTopologyStates": [
                    {"state": "RUNNING", "count": 15},
                    {"state": "A_NEW_WORD", "count": 1},
                ],
            }
        ]
    },
    "status": "READY",
}


def test_shared_reservations_pages_health_and_maintenance(tmp_path):
    def script(request):
        if request.path.endswith("/reservationSubBlocks"):
            if "pageToken" not in request.query:
                return listing("compute#reservationSubBlockList", [{"name": "s2"}], nextPageToken="t")
            return listing("compute#reservationSubBlockList", [SUB_BLOCK])
        ongoing = {"instanceMaintenanceOngoingCount": 2, "maintenanceOngoingCount": 1}
        block = {"name": "b1", "physicalTopology": {"block": "phys-b"}, "reservationMaintenance": ongoing}
        return listing("compute#reservationBlockList", [block])

    with scripted.Server(script) as server:
        shared = "projects/owner/reservations/r9"
        (block,) = connected(server, tmp_path, reservations=(shared,)).capacity.blocks()
        assert server.requests[0].path == (
            "/compute/v1/projects/owner/zones/us-central1-c/reservations/r9/reservationBlocks"
        )
    west = datetime.timezone(datetime.timedelta(hours=-8))
    assert (block.reservation, block.name, block.physical_id) == (shared, "b1", "phys-b")
    assert block.maintenance == fleet.Maintenance(None, None, hosts_ongoing=2)
    assert block.sub_blocks == (
        fleet.SubBlock(
            name="s1",
            physical_id="phys-s",
            health="WORSE_THAN_EVER",
            healthy_hosts=15,
            degraded_hosts=1,
            hosts=16,
            hosts_in_use=3,
            maintenance_start=datetime.datetime(2026, 3, 1, tzinfo=west),
            maintenance_end=datetime.datetime(2026, 3, 2, tzinfo=west),
            topologies=(
                fleet.TopologyCount("2x2x1", "RUNNING", 15),
                fleet.TopologyCount("2x2x1", "A_NEW_WORD", 1),
            ),
            maintenance=fleet.Maintenance(
                start=datetime.datetime(2026, 3, 1, tzinfo=west),
                end=datetime.datetime(2026, 3, 2, tzinfo=west),
                status="PENDING",
                kind="SCHEDULED",
                can_reschedule=True,
            ),
            status="READY",
        ),
        fleet.SubBlock("s2", "", "", None, None, 0, 0),
    )


def test_a_list_with_a_warning_that_it_is_not_whole_is_no_list(tmp_path):
    warning = {"code": "UNREACHABLE", "message": "zone is down"}
    reply = listing("compute#reservationBlockList", [], warning=warning)
    with (
        scripted.Server(lambda _: reply) as server,
        pytest.raises(errors.Unavailable, match=r"not whole.*zone is down"),
    ):
        connected(server, tmp_path).capacity.blocks()


def test_an_empty_reservation_has_no_blocks(tmp_path):
    warning = {"code": "NO_RESULTS_ON_PAGE", "message": "none"}
    reply = listing("compute#reservationBlockList", [], warning=warning)
    with scripted.Server(lambda _: reply) as server:
        assert connected(server, tmp_path).capacity.blocks() == ()


def test_a_page_that_fails_fails_the_list(tmp_path):
    def script(request):
        if "pageToken" in request.query:
            return scripted.google_error(403, "no more for you")
        return listing("compute#reservationBlockList", [{"name": "b1"}], nextPageToken="t")

    with (
        scripted.Server(script) as server,
        pytest.raises(errors.NotPermitted, match="no more for you"),
    ):
        connected(server, tmp_path).capacity.blocks()
