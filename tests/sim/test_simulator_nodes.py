"""Nodes and their labels: as they join, fail, recover and leave."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.sim import cluster_world
from tpuctl.sim import hardware, partitions, ready, world
from tpuctl.sim.controllers import events, node_object

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def cluster() -> Iterator[cluster_world.Cluster]:
    made = cluster_world.Cluster(cluster_world.make(cubes=2))
    yield made
    cluster_world.check_invariants(made.world)


def taints(node: dict) -> list[tuple[str, str]]:
    return [(taint["key"], taint["effect"]) for taint in node["spec"]["taints"]]


def ready_status(node: dict) -> str:
    return next(one["status"] for one in node["status"]["conditions"] if one["type"] == "Ready")


def test_a_node_looks_like_one_of_gke(cluster):
    node, host = cluster.node(0, 5), cluster.host(0, 5)
    metadata, labels = node["metadata"], node["metadata"]["labels"]
    name = metadata["name"]
    assert labels["cloud.google.com/gke-tpu-accelerator"] == "tpu7x"
    assert labels["cloud.google.com/gke-accelerator-topology-mode"] == "PROVISION_ONLY"
    assert labels["cloud.google.com/gke-nodepool"] == "cube-0001-0001"
    assert labels["cloud.google.com/gce-topology-block"] == host.subblock.block.id
    assert labels["cloud.google.com/reservation-name"] == "sim-reservation"
    assert labels["kubernetes.io/hostname"] == name
    for shape in partitions.SHAPES:
        assert labels[f"cloud.google.com/gke-tpu-partition-{shape}-id"] == host.partition_id(shape)
        assert labels[f"cloud.google.com/gke-tpu-partition-{shape}-state"] == "HEALTHY"
    assert metadata["annotations"]["container.googleapis.com/instance_id"] == host.vm.id
    assert "generation" not in metadata
    assert node["spec"]["providerID"] == f"gce://sim-project/us-central1-a/{name}"
    assert taints(node) == [("google.com/tpu", "NoSchedule")]
    assert (
        node["status"]["capacity"]["google.com/tpu"] == node["status"]["allocatable"]["google.com/tpu"] == "4"
    )
    assert ready_status(node) == "True"


def test_addresses_and_pod_ranges_are_unique(cluster):
    nodes = cluster.store.list("nodes")
    assert len({node["status"]["addresses"][0]["address"] for node in nodes}) == 32
    assert len({node["spec"]["podCIDR"] for node in nodes}) == 32


def test_a_node_has_the_size_of_a_real_one(cluster):
    assert 4_000 < len(cluster.store.encoded(cluster.node(0))) < 7_000


def test_hosts_of_a_cube_nest_as_a_binary_tree(cluster):
    for shape, hosts in partitions.HOSTS.items():
        label = f"cloud.google.com/gke-tpu-partition-{shape}-id"
        values = [cluster.node(0, index)["metadata"]["labels"][label] for index in range(16)]
        assert all(values.count(value) == hosts for value in values)


def test_without_slice_controller_nobody_says_how_partitions_are():
    place = world.World(world.Settings(cubes=1))
    ready.set_up(place, 1)
    labels = place.store.list("nodes")[0]["metadata"]["labels"]
    assert not [label for label in labels if label.endswith("-state")]
    place.slices.start()
    place.clock.advance(10)
    labels = place.store.list("nodes")[0]["metadata"]["labels"]
    assert labels["cloud.google.com/gke-tpu-partition-4x4x4-state"] == "HEALTHY"


def test_a_dead_host_silences_its_node(cluster):
    cluster.world.hardware.host_down(cluster.host(0, 3))
    cluster.advance(39)
    assert ready_status(cluster.node(0, 3)) == "True"
    assert cluster.state(0) == "UNHEALTHY"
    cluster.advance(1)
    node = cluster.node(0, 3)
    assert ready_status(node) == "Unknown"
    assert {one["reason"] for one in node["status"]["conditions"] if one["status"] == "Unknown"} == {
        "NodeStatusUnknown"
    }
    assert taints(node)[1:] == [
        ("node.kubernetes.io/unreachable", "NoSchedule"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
    ]
    assert "NodeNotReady" in cluster.events(node["metadata"]["name"])


def test_a_repaired_host_comes_back(cluster):
    host = cluster.host(0, 3)
    cluster.world.hardware.host_down(host)
    cluster.advance(100)
    cluster.world.hardware.host_up(host)
    cluster.advance(59)
    assert ready_status(cluster.node(0, 3)) == "Unknown"
    cluster.advance(2)
    assert ready_status(cluster.node(0, 3)) == "True"
    assert taints(cluster.node(0, 3)) == [("google.com/tpu", "NoSchedule")]
    cluster.advance(10)
    assert cluster.state(0) == "HEALTHY"


def test_a_short_absence_is_not_noticed_by_the_node(cluster):
    name = cluster.node(0)["metadata"]["name"]
    cluster.world.hardware.host_down(cluster.host(0), repair_after_s=5)
    cluster.advance(30)
    cluster.world.hardware.host_down(cluster.host(0), hardware.Fault.CHIP_ERROR)
    assert "NodeNotReady" not in cluster.events(name)


def test_a_broken_chip_leaves_the_node_ready(cluster):
    cluster.world.hardware.host_down(cluster.host(0, 2), hardware.Fault.CHIP_ERROR)
    cluster.advance(60)
    assert ready_status(cluster.node(0, 2)) == "True"
    assert cluster.state(0) == "UNHEALTHY"
    assert cluster.state(0, 2, "2x2x1") == "UNHEALTHY"
    assert cluster.state(0, 3, "2x2x1") == "HEALTHY"


def test_cordoning_and_its_taint(cluster):
    name = cluster.node(0)["metadata"]["name"]
    cluster.store.mutate("nodes", None, name, lambda node: node["spec"].update(unschedulable=True))
    assert ("node.kubernetes.io/unschedulable", "NoSchedule") in taints(cluster.node(0))
    cluster.store.mutate("nodes", None, name, lambda node: node["spec"].pop("unschedulable"))
    assert taints(cluster.node(0)) == [("google.com/tpu", "NoSchedule")]


def test_a_node_leaves_with_its_vm_and_the_cube_is_incomplete(cluster):
    name = cluster.node(0, 9)["metadata"]["name"]
    cluster.world.nodes.leave(cluster.host(0, 9))
    cluster.world.nodes.leave(cluster.host(0, 9))
    assert cluster.store.get("nodes", None, name) is None
    cluster.advance(10)
    assert cluster.state(0) == "INCOMPLETE"
    assert cluster.state(0, 8, "2x2x2") == "INCOMPLETE"
    assert cluster.state(0, 8, "2x2x1") == "HEALTHY"
    assert cluster.state(0, 0, "2x4x4") == "HEALTHY"


def test_joining_twice_changes_nothing(cluster):
    before = cluster.node(0)
    cluster.world.nodes.join("cube-0001-0001", cluster.host(0))
    assert cluster.node(0) is before


def test_a_host_without_vm_has_no_node():
    place = world.World(world.Settings(cubes=1))
    with pytest.raises(ValueError, match="no VM runs"):
        place.nodes.join("pool", next(place.hardware.subblocks()).hosts[0])


def test_changes_share_what_they_leave_alone(cluster):
    node = cluster.node(0)
    labelled = node_object.with_labels(node, {"a": "b", "kubernetes.io/os": None})
    assert labelled["status"] is node["status"]
    assert labelled["metadata"]["labels"]["a"] == "b"
    assert "kubernetes.io/os" not in labelled["metadata"]["labels"]
    assert "a" not in node["metadata"]["labels"]
    assert node_object.with_labels(node, {"kubernetes.io/os": "linux", "none": None}) is node


def test_events_are_counted_and_forgotten(cluster):
    ledger, node = events.Ledger(cluster.store), cluster.node(0)
    for _ in range(3):
        ledger.record("tester", node, events.NORMAL, "Thing", "it happened")
    [event] = [one for one in cluster.store.list("events") if one["reason"] == "Thing"]
    assert event["count"] == 3
    cluster.advance(events.TIME_TO_LIVE_S - 10)
    ledger.record("tester", node, events.NORMAL, "Thing", "it happened")
    cluster.advance(20)
    ledger.record("tester", node, events.NORMAL, "Other", "text")
    assert [one["count"] for one in cluster.store.list("events") if one["reason"] == "Thing"] == [4]
    cluster.advance(events.TIME_TO_LIVE_S + 10)
    ledger.record("tester", node, events.NORMAL, "Last", "text")
    assert not [one for one in cluster.store.list("events") if one["reason"] == "Thing"]
