"""Faults of hosts, cubes and maintenance: what the three APIs show, and how each is taken back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.sim import cluster_world
from tests.sim.fault_clients import CLUSTER, ask
from tpuctl.sim import behaviour as behaviours
from tpuctl.sim import faults, simulator
from tpuctl.sim.faults import table

if TYPE_CHECKING:
    from collections.abc import Iterator

POOL = "cube-0001-0001"
ZONE = "/compute/v1/projects/sim-project/zones/us-central1-a"
BLOCK = "sim-reservation-block-0001"
SUBBLOCKS = f"{ZONE}/reservations/sim-reservation/reservationBlocks/{BLOCK}/reservationSubBlocks"
SLICES = "/apis/accelerator.gke.io/v1beta1/slices"
DAY_S = 86_400


class Fleet:
    """A simulator, asked over HTTP like a user's."""

    def __init__(self, sim: simulator.Simulator) -> None:
        self.sim = sim
        self.node_names = [node["metadata"]["name"] for node in self.get("/api/v1/nodes")["items"]]
        self.name = self.nodes_of(POOL)[0]["metadata"]["name"]
        """Node of the first host of the first cube."""

    def get(self, path: str) -> Any:
        answer = ask(self.sim, "GET", path)
        assert answer.status == 200, answer.body
        return json.loads(answer.body)

    def nodes_of(self, pool: str) -> list[dict]:
        query = f"?labelSelector=cloud.google.com/gke-nodepool%3D{pool}"
        return self.get(f"/api/v1/nodes{query}")["items"]

    def node(self) -> dict:
        return self.get(f"/api/v1/nodes/{self.name}")

    def ready(self) -> str:
        return next(one["status"] for one in self.node()["status"]["conditions"] if one["type"] == "Ready")

    def labels(self) -> dict[str, str]:
        return self.node()["metadata"]["labels"]

    def state(self, shape: str = "4x4x4") -> str:
        return self.labels()[f"cloud.google.com/gke-tpu-partition-{shape}-state"]

    def taints(self) -> set[str]:
        return {taint["key"] for taint in self.node()["spec"]["taints"]}

    def instance(self) -> dict:
        return self.get(f"{ZONE}/instances/{self.name}")

    def subblock(self, number: int = 1) -> dict:
        return self.get(f"{SUBBLOCKS}/{BLOCK}-subblock-{number:04}")["resource"]

    def degraded_hosts(self) -> int:
        return self.subblock()["healthInfo"]["degradedHostCount"]

    def pool(self) -> dict:
        return self.get(f"{CLUSTER}/nodePools/{POOL}")

    def form(self, name: str, cubes: int = 1) -> None:
        self.create_slice(name, cubes)
        self.sim.advance(90)
        assert self.slice_state(name) == "ACTIVE"

    def create_slice(self, name: str, cubes: int = 1) -> None:
        world = self.sim.world
        ids = self.sim.call(lambda: [cube.cube_id for cube in world.hardware.subblocks()])[:cubes]
        topology = {1: "4x4x4", 2: "4x4x8"}[cubes]
        body = {
            "apiVersion": "accelerator.gke.io/v1beta1",
            "kind": "Slice",
            "metadata": {"name": name},
            "spec": {"type": "tpu7x", "topology": topology, "partitionIds": ids},
        }
        assert ask(self.sim, "POST", SLICES, body).status == 201

    def slice_state(self, name: str) -> str | None:
        answer = ask(self.sim, "GET", f"{SLICES}/{name}")
        return answer.json["status"]["conditions"][0]["reason"] if answer.status == 200 else None

    def faults(self) -> list[tuple[str, str, str]]:
        listed = self.get("/sim/v1/faults")["faults"]
        return [(one["fault"], one["target"], one["state"]) for one in listed]


def start(**behaviour: Any) -> simulator.Simulator:
    settings = simulator.Settings(
        cubes=3, ready_cubes=2, slice_controller=True, behaviour=behaviours.Behaviour(**behaviour)
    )
    return simulator.Simulator(settings)


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with start() as sim:
        yield Fleet(sim)
        sim.call(lambda: cluster_world.check_invariants(sim.world))


# Hosts


def test_a_dead_host_is_seen_by_kubernetes_and_by_compute(fleet):
    fleet.sim.inject("host-down", fleet.name)
    fleet.sim.advance(50)
    assert (fleet.ready(), fleet.state(), fleet.state("2x2x1")) == ("Unknown", "UNHEALTHY", "UNHEALTHY")
    assert (fleet.instance()["status"], fleet.degraded_hosts()) == ("REPAIRING", 1)
    assert "node.kubernetes.io/unreachable" in fleet.taints()
    fleet.sim.inject("host-up", fleet.name)
    fleet.sim.advance(120)
    assert (fleet.ready(), fleet.state(), fleet.degraded_hosts(), fleet.faults()) == (
        "True",
        "HEALTHY",
        0,
        [],
    )


def test_a_hung_guest_is_seen_by_kubernetes_alone(fleet):
    fleet.sim.inject("host-crash", fleet.name)
    fleet.sim.advance(50)
    assert (fleet.ready(), fleet.state()) == ("Unknown", "UNHEALTHY")
    assert (fleet.instance()["status"], fleet.degraded_hosts()) == ("RUNNING", 0)
    assert ask(fleet.sim, "POST", f"{ZONE}/instances/{fleet.name}/reset").status == 200
    fleet.sim.advance(120)
    assert (fleet.ready(), fleet.state(), fleet.faults()) == ("True", "HEALTHY", [])


@pytest.mark.parametrize("mend", ["host-up", "clear", "for"])
def test_a_hung_guest_boots_again(fleet, mend):
    entry = fleet.sim.inject("host-crash", fleet.name, **({"for_s": 100} if mend == "for" else {}))
    fleet.sim.advance(50)
    assert fleet.ready() == "Unknown"
    if mend == "host-up":
        fleet.sim.inject("host-up", fleet.name)
    elif mend == "clear":
        fleet.sim.clear(entry)
    fleet.sim.advance(150)
    assert (fleet.ready(), fleet.faults()) == ("True", [])


def test_only_a_guest_that_is_up_can_hang(fleet):
    fleet.sim.inject("host-down", fleet.name)
    with pytest.raises(faults.BadFault, match="no VM is up"):
        fleet.sim.inject("host-crash", fleet.name)


def test_a_host_that_is_gone_takes_its_node_along(fleet):
    entry = fleet.sim.inject("host-gone", fleet.name)
    assert ask(fleet.sim, "GET", f"/api/v1/nodes/{fleet.name}").status == 404
    assert ask(fleet.sim, "GET", f"{ZONE}/instances/{fleet.name}").status == 404
    assert fleet.pool()["status"] == "RUNNING_WITH_ERROR"
    assert fleet.pool()["conditions"][0]["code"] == "GCE_STOCKOUT"
    fleet.sim.advance(20)
    others = fleet.nodes_of(POOL)
    assert len(others) == 15
    label = "cloud.google.com/gke-tpu-partition-4x4x4-state"
    assert {node["metadata"]["labels"][label] for node in others} == {"INCOMPLETE"}
    # By the name that no VM has any more.
    fleet.sim.inject("host-up", fleet.name)
    fleet.sim.advance(180)
    assert (fleet.ready(), fleet.state(), fleet.pool()["status"]) == ("True", "HEALTHY", "RUNNING")
    assert fleet.faults() == []
    assert entry.state == "over"


def test_a_host_goes_missing_once(fleet):
    fleet.sim.inject("host-gone", fleet.name)
    with pytest.raises(faults.BadFault, match="carries no VM"):
        fleet.sim.inject("host-gone", fleet.name)


def test_pods_of_a_node_that_came_back_run_on_through_later_changes(fleet):
    """A node of an old name is a new node: nothing on it is taken for lost."""
    world = fleet.sim.world
    fleet.sim.inject("host-gone", fleet.name, for_s=60)
    fleet.sim.advance(300)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {
            "nodeName": fleet.name,
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i", "resources": {"limits": {"google.com/tpu": "4"}}}],
        },
    }
    assert ask(fleet.sim, "POST", "/api/v1/namespaces/default/pods", pod).status == 201
    fleet.sim.advance(10)
    fleet.sim.inject("chip-error", fleet.name, for_s=30)
    fleet.sim.advance(60)
    assert fleet.sim.call(lambda: world.store.get("pods", "default", "p"))["status"]["phase"] == "Running"


def test_a_chip_error_leaves_the_node_ready_and_breaks_the_slice(fleet):
    fleet.form("a")
    fleet.sim.inject("chip-error", fleet.name)
    fleet.sim.advance(30)
    assert (fleet.ready(), fleet.state(), fleet.instance()["status"]) == ("True", "UNHEALTHY", "RUNNING")
    assert (fleet.degraded_hosts(), fleet.slice_state("a")) == (1, "FAILED")
    infos = fleet.subblock()["acceleratorTopologiesInfo"]["acceleratorTopologyInfos"]
    [cube] = [one for one in infos if one["acceleratorTopology"] == "4x4x4"]
    assert cube["infoPerTopologyStates"] == [{"count": 1, "state": "DEGRADED"}]


def test_a_chip_error_may_be_set_to_stay_unseen():
    with start(chip_error_state="HEALTHY", chip_error_breaks_slices=False) as sim:
        fleet = Fleet(sim)
        fleet.form("a")
        sim.inject("chip-error", fleet.name)
        sim.advance(60)
        assert (fleet.ready(), fleet.state(), fleet.slice_state("a")) == ("True", "HEALTHY", "ACTIVE")


def test_a_hung_guest_may_be_set_to_stay_unseen():
    with start(hung_guest_is_unseen=True) as sim:
        fleet = Fleet(sim)
        fleet.form("a")
        sim.inject("host-crash", fleet.name)
        sim.advance(600)
        assert (fleet.ready(), fleet.state(), fleet.slice_state("a")) == ("Unknown", "HEALTHY", "ACTIVE")
        sim.inject("host-down", fleet.name)
        sim.advance(60)
        assert (fleet.state(), fleet.slice_state("a")) == ("UNHEALTHY", "FAILED")


def test_a_repair_takes_days(fleet):
    fleet.sim.inject("host-repair", fleet.name)
    fleet.sim.advance(4 * DAY_S)
    assert (fleet.ready(), fleet.instance()["status"]) == ("Unknown", "REPAIRING")
    assert fleet.faults() == [("host-repair", fleet.name, "active")]
    fleet.sim.advance(DAY_S + 120)
    assert (fleet.ready(), fleet.faults()) == ("True", [])


def test_a_host_that_dies_later_and_for_a_while(fleet):
    fleet.sim.inject("host-down", fleet.name, after_s=100, for_s=200)
    assert fleet.faults() == [("host-down", fleet.name, "planned")]
    fleet.sim.advance(99)
    assert fleet.instance()["status"] == "RUNNING"
    fleet.sim.advance(100)
    assert (fleet.ready(), fleet.faults()) == ("Unknown", [("host-down", fleet.name, "active")])
    fleet.sim.advance(200)
    assert (fleet.ready(), fleet.faults()) == ("True", [])


def test_flapping_ends_with_the_host_up(fleet):
    fleet.sim.inject("flapping", fleet.name, every_s=200, for_s=1000)
    seen = []
    for _ in range(5):
        fleet.sim.advance(199)
        seen.append(fleet.ready())
        fleet.sim.advance(1)
    assert seen == ["Unknown", "True", "Unknown", "True", "Unknown"]
    fleet.sim.advance(1000)
    assert (fleet.ready(), fleet.faults()) == ("True", [])


def test_a_repair_ends_the_flapping(fleet):
    fleet.sim.inject("flapping", fleet.name, every_s=100)
    fleet.sim.advance(50)
    fleet.sim.inject("host-up", fleet.name)
    assert fleet.faults() == []
    fleet.sim.advance(3600)
    assert fleet.ready() == "True"


def test_faults_of_one_host_are_taken_back_one_by_one(fleet):
    down = fleet.sim.inject("host-down", fleet.name)
    chip = fleet.sim.inject("chip-error", fleet.name)
    fleet.sim.clear(down)
    fleet.sim.advance(120)
    assert (fleet.ready(), fleet.state()) == ("True", "UNHEALTHY")
    fleet.sim.clear(chip)
    fleet.sim.advance(20)
    assert fleet.state() == "HEALTHY"


def test_a_timer_does_not_end_a_later_fault_of_the_same_kind(fleet):
    fleet.sim.inject("host-down", fleet.name, for_s=500)
    fleet.sim.inject("host-up", fleet.name)
    fleet.sim.advance(120)
    fleet.sim.inject("host-down", fleet.name)
    fleet.sim.advance(600)
    assert (fleet.ready(), fleet.faults()) == ("Unknown", [("host-down", fleet.name, "active")])


# Cubes


def test_a_whole_cube_goes_down_and_comes_up(fleet):
    fleet.sim.inject("cube-down", POOL)
    fleet.sim.advance(50)
    conditions = [one for node in fleet.nodes_of(POOL) for one in node["status"]["conditions"]]
    assert {one["status"] for one in conditions if one["type"] == "Ready"} == {"Unknown"}
    assert fleet.degraded_hosts() == 16
    with pytest.raises(faults.BadFault, match="down already"):
        fleet.sim.inject("cube-down", POOL)
    fleet.sim.inject("cube-up", POOL)
    fleet.sim.advance(120)
    assert (fleet.state(), fleet.degraded_hosts(), fleet.faults()) == ("HEALTHY", 0, [])


def test_clearing_a_cube_leaves_a_host_that_was_down_before(fleet):
    fleet.sim.inject("host-down", fleet.name)
    fleet.sim.clear(fleet.sim.inject("cube-down", POOL))
    fleet.sim.advance(120)
    assert (fleet.ready(), fleet.degraded_hosts()) == ("Unknown", 1)


def test_a_degraded_link_shows_on_the_cube_and_on_its_slice(fleet):
    fleet.form("a")
    fleet.sim.inject("cube-degraded", POOL, for_s=100)
    fleet.sim.advance(30)
    assert (fleet.state(), fleet.state("2x4x4"), fleet.ready()) == ("DEGRADED", "HEALTHY", "True")
    assert fleet.slice_state("a") == "ACTIVE_DEGRADED"
    assert fleet.subblock()["healthInfo"]["degradedInfraCount"] == 1
    fleet.sim.advance(100)
    assert (fleet.state(), fleet.slice_state("a")) == ("HEALTHY", "ACTIVE")


def test_a_partial_cube_can_be_made_whole(fleet):
    entry = fleet.sim.inject("partial", f"{BLOCK}-subblock-0003", hosts=14)
    assert fleet.subblock(3)["healthInfo"]["degradedHostCount"] == 2
    fleet.sim.clear(entry)
    assert fleet.subblock(3)["healthInfo"]["degradedHostCount"] == 0


def test_an_unstable_group_keeps_slices_from_forming(fleet):
    group = fleet.pool()["instanceGroupUrls"][0].partition("/compute/v1/")[2]
    fleet.sim.inject("mig-unstable", POOL)
    status = fleet.get(f"/compute/v1/{group}")["status"]
    assert (status["isStable"], status["versionTarget"]["isReached"]) == (False, False)
    fleet.create_slice("a", 2)
    fleet.sim.advance(60)
    assert fleet.slice_state("a") == "SliceCreationFailed"
    answer = ask(fleet.sim, "GET", f"{SLICES}/a").json
    assert f"node pool {POOL} is not stable" in answer["status"]["conditions"][0]["message"]
    fleet.sim.inject("mig-stable", POOL)
    assert fleet.get(f"/compute/v1/{group}")["status"]["isStable"] is True
    ask(fleet.sim, "DELETE", f"{SLICES}/a")
    fleet.sim.advance(60)
    fleet.form("a", 2)
    assert fleet.faults() == []


# Maintenance

SCHEDULED = "cloud.google.com/scheduled-maintenance-time"
ACTIVE = "cloud.google.com/active-node-maintenance"
TERMINATION = "cloud.google.com/impending-node-termination"


def test_maintenance_is_announced_opens_and_closes(fleet):
    now_s = fleet.sim.call(lambda: fleet.sim.world.clock.now().timestamp())
    fleet.sim.inject("maintenance", POOL, after_s=1000, for_s=600)
    assert fleet.labels()[SCHEDULED] == str(int(now_s + 1000))
    assert ACTIVE not in fleet.labels()
    assert TERMINATION not in fleet.taints()
    info = fleet.subblock()["reservationSubBlockMaintenance"]
    assert (info["maintenancePendingCount"], info["maintenanceOngoingCount"]) == (1, 0)
    assert fleet.instance()["resourceStatus"]["upcomingMaintenance"]["maintenanceStatus"] == "PENDING"
    fleet.sim.advance(1010)
    assert fleet.labels()[ACTIVE] == "ONGOING"
    assert TERMINATION in fleet.taints()
    assert fleet.ready() == "True"
    fleet.sim.advance(150)
    assert (fleet.ready(), fleet.instance()["status"]) == ("Unknown", "REPAIRING")
    assert fleet.subblock()["reservationSubBlockMaintenance"]["maintenanceOngoingCount"] == 1
    fleet.sim.advance(600)
    assert (fleet.ready(), fleet.state(), fleet.faults()) == ("True", "HEALTHY", [])
    assert {SCHEDULED, ACTIVE}.isdisjoint(fleet.labels())
    assert TERMINATION not in fleet.taints()


def test_maintenance_of_a_block_is_that_of_its_cubes(fleet):
    fleet.sim.inject("maintenance", BLOCK)
    block = fleet.get(SUBBLOCKS.rpartition("/")[0])["resource"]
    assert block["reservationMaintenance"]["maintenancePendingCount"] == 3
    [entry] = fleet.get("/sim/v1/faults")["faults"]
    assert entry["parameters"] == {"after_s": 90 * DAY_S, "for_s": 4 * 3600}
    fleet.sim.inject("maintenance-end", BLOCK)
    assert SCHEDULED not in fleet.labels()
    assert fleet.faults() == []
    fleet.sim.advance(91 * DAY_S)
    assert fleet.ready() == "True"


def test_a_node_that_joins_meanwhile_is_marked_too(fleet):
    fleet.sim.inject("host-gone", fleet.name, for_s=60)
    fleet.sim.inject("maintenance", POOL, after_s=DAY_S)
    fleet.sim.advance(300)
    assert SCHEDULED in fleet.labels()


def test_maintenance_that_ends_before_the_vms_stop(fleet):
    entry = fleet.sim.inject("maintenance", POOL, after_s=100)
    fleet.sim.advance(110)
    fleet.sim.clear(entry)
    fleet.sim.advance(600)
    assert (fleet.ready(), fleet.instance()["status"]) == ("True", "RUNNING")
    assert TERMINATION not in fleet.taints()


# The table


def test_every_fault_says_what_it_is_and_how_it_is_undone():
    for name, fault in table.FAULTS.items():
        assert fault.summary, name
        assert fault.lasting or not fault.undone_by, name
        assert not fault.undone_by or not table.FAULTS[fault.undone_by].lasting, name


@pytest.mark.parametrize(
    ("name", "target", "parameters", "error", "text"),
    [
        ("host-dwn", "x", {}, faults.UnknownFault, "unknown fault 'host-dwn'"),
        ("host-down", "nobody", {}, faults.UnknownTarget, "unknown node 'nobody'"),
        ("cube-down", "nowhere", {}, faults.UnknownTarget, "unknown cube 'nowhere'"),
        ("maintenance", "nowhere", {}, faults.UnknownTarget, "unknown cube or block"),
        ("stuck-finalizer", "none", {}, faults.UnknownTarget, "unknown slice 'none'"),
        ("fail-activation", "Not_A_Name", {}, faults.UnknownTarget, "unknown slice or cube"),
        ("release-finalizer", "none", {}, faults.BadFault, "not held"),
        ("partial", POOL, {}, faults.BadFault, "needs hosts"),
        ("host-up", POOL, {"for_s": 1}, faults.BadFault, "takes no for_s"),
    ],
)
def test_what_does_not_fit_is_refused(fleet, name, target, parameters, error, text):
    with pytest.raises(error, match=text):
        fleet.sim.inject(name, target, **parameters)
    assert fleet.faults() == []


def test_a_planned_fault_that_does_not_fit_says_so(fleet):
    fleet.sim.inject("host-crash", fleet.name, after_s=100)
    fleet.sim.inject("host-down", fleet.name)
    fleet.sim.advance(200)
    listed = fleet.get("/sim/v1/faults")["faults"]
    failed = [one for one in listed if one["state"] == "failed"]
    assert [one["message"].partition(" on ")[0] for one in failed] == ["no VM is up"]
