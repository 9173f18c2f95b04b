"""Slices that fail or get stuck, and what becomes of the pods on them meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.sim import cluster_world
from tests.sim.test_jobs_life import by_index, create, pods
from tpuctl.sim.controllers import job_pods, slices

if TYPE_CHECKING:
    from collections.abc import Iterator

PODS = "pods"


@pytest.fixture
def cluster() -> Iterator[cluster_world.Cluster]:
    made = cluster_world.Cluster(cluster_world.make(cubes=4))
    yield made
    cluster_world.check_invariants(made.world)


def inject(cluster, name, target, **parameters):
    return cluster.world.faults.inject(name, target, parameters)


def states(history):
    return [state for _, state in history]


# Activation


def test_the_next_formations_of_a_slice_fail(cluster):
    inject(cluster, "fail-activation", "a", times=2)
    for _ in range(2):
        cluster.create("a", "4x4x4", cluster.ids(0))
        assert states(cluster.history("a", 60))[-2:] == ["ACTIVATING", "FAILED"]
        assert "injected fault" in cluster.message("a")
        assert cluster.labelled("a") == []
        cluster.delete("a")
        cluster.advance(60)
    cluster.form("a", "4x4x4", cluster.ids(0))
    assert list(cluster.world.faults) == []


def test_the_next_formation_on_a_cube_fails_whoever_makes_it(cluster):
    inject(cluster, "fail-activation", cluster.cubes[1].name)
    cluster.form("elsewhere", "4x4x4", cluster.ids(0))
    cluster.create("b", "4x4x8", cluster.ids(1, 2))
    cluster.advance(60)
    assert cluster.reason("b") == "FAILED"


def test_a_failure_can_be_taken_back(cluster):
    entry = inject(cluster, "fail-activation", "a", times=5)
    cluster.world.faults.clear(entry)
    cluster.form("a", "4x4x4", cluster.ids(0))


def test_a_failed_slice_holds_its_partitions(cluster):
    inject(cluster, "fail-activation", "a")
    cluster.create("a", "4x4x4", cluster.ids(0))
    cluster.advance(60)
    cluster.create("b", "4x4x4", cluster.ids(0))
    cluster.advance(60)
    assert (cluster.reason("a"), cluster.reason("b")) == ("FAILED", "SliceCreationFailed")


# Deactivation


def test_a_dismantling_that_fails_is_tried_again(cluster):
    cluster.form("a", "4x4x4", cluster.ids(0))
    inject(cluster, "fail-deactivation", "a")
    cluster.delete("a")
    history = states(cluster.history("a", 150))
    assert history == ["DEACTIVATING", "FAILED", "DEACTIVATING", "INCOMPLETE", None]
    assert list(cluster.world.faults) == []


def test_a_failed_dismantling_still_holds_object_and_hosts(cluster):
    cluster.form("a", "4x4x4", cluster.ids(0))
    inject(cluster, "fail-deactivation", "a")
    cluster.delete("a")
    cluster.advance(30)
    assert cluster.reason("a") == "FAILED"
    assert cluster.slice("a")["metadata"]["finalizers"] == [slices.FINALIZER]
    assert "deletionTimestamp" in cluster.slice("a")["metadata"]
    cluster.create("b", "4x4x4", cluster.ids(0))
    cluster.advance(20)
    assert cluster.reason("b") == "SliceCreationFailed"


@pytest.mark.parametrize("how", ["release", "clear"])
def test_a_stuck_slice_stays_in_deactivating_until_it_is_released(cluster, how):
    cluster.form("a", "4x4x4", cluster.ids(0))
    entry = inject(cluster, "stuck-finalizer", "a")
    cluster.delete("a")
    cluster.advance(3600)
    assert cluster.reason("a") == "DEACTIVATING"
    if how == "release":
        inject(cluster, "release-finalizer", "a")
    else:
        cluster.world.faults.clear(entry)
    assert states(cluster.history("a", 30)) == ["INCOMPLETE", None]
    assert list(cluster.world.faults) == []


def test_a_stuck_slice_is_released_by_time(cluster):
    cluster.form("a", "4x4x4", cluster.ids(0))
    inject(cluster, "stuck-finalizer", "a", for_s=900)
    cluster.delete("a")
    cluster.advance(899)
    assert cluster.reason("a") == "DEACTIVATING"
    cluster.advance(30)
    assert cluster.reason("a") is None


def test_taking_the_finalizer_by_force_leaves_the_hardware_held(cluster):
    cluster.form("a", "4x4x4", cluster.ids(0))
    inject(cluster, "stuck-finalizer", "a")
    cluster.delete("a")
    cluster.advance(60)
    cluster.store.remove_finalizer(slices.SLICES, None, "a", slices.FINALIZER)
    cluster.advance(60)
    assert cluster.reason("a") is None
    cluster.create("b", "4x4x4", cluster.ids(0))
    cluster.advance(60)
    assert cluster.reason("b") == "SliceCreationFailed"
    inject(cluster, "release-finalizer", "a")
    cluster.advance(60)
    cluster.delete("b")
    cluster.advance(60)
    cluster.form("c", "4x4x4", cluster.ids(0))


def test_a_hold_without_a_deletion_does_nothing(cluster):
    cluster.form("a", "4x4x4", cluster.ids(0))
    inject(cluster, "stuck-finalizer", "a", for_s=60)
    cluster.advance(600)
    assert cluster.reason("a") == "ACTIVE"
    cluster.delete("a")
    cluster.advance(60)
    assert cluster.reason("a") is None


# Pods through a swap


def identity(pod):
    status = pod["status"]["containerStatuses"][0]
    return pod["metadata"]["uid"], pod["status"]["startTime"], status["restartCount"], status["state"]


def test_pods_on_healthy_nodes_live_through_a_swap_of_the_other_cube(cluster):
    """The slice is deleted and made again with one cube replaced: 16 pods are new, 16 never noticed."""
    cluster.form("a", "4x4x8", cluster.ids(0, 1))
    create(cluster, pods=32, topology="4x4x8", backoffLimit=1000)
    cluster.advance(10)
    before = {job_pods.index_of(pod): identity(pod) for pod in pods(cluster)}
    assert len(before) == 32
    bad = {cluster.node(1, index)["metadata"]["name"] for index in range(16)}
    lost = {job_pods.index_of(pod) for pod in pods(cluster) if pod["spec"]["nodeName"] in bad}
    cluster.delete("a")
    cluster.advance(60)
    assert cluster.reason("a") is None
    assert {job_pods.index_of(pod): identity(pod) for pod in pods(cluster)} == before

    for index in lost:
        pod = by_index(cluster, index)
        cluster.store.delete(PODS, "default", pod["metadata"]["name"], grace_s=30)
    cluster.advance(700)  # past the back-off of a Job with sixteen failures at once
    waiting = [by_index(cluster, index) for index in lost]
    assert {pod["status"]["phase"] for pod in waiting} == {"Pending"}
    assert all("nodeName" not in pod["spec"] for pod in waiting)

    cluster.form("a", "4x4x8", cluster.ids(0, 2))
    cluster.advance(10)
    after = {job_pods.index_of(pod): pod for pod in pods(cluster)}
    spares = {cluster.node(2, index)["metadata"]["name"] for index in range(16)}
    assert {index for index, pod in after.items() if identity(pod) != before[index]} == lost
    assert {after[index]["spec"]["nodeName"] for index in lost} == spares
    assert {pod["status"]["phase"] for pod in after.values()} == {"Running"}


def test_a_container_that_restarts_in_place_is_counted(cluster):
    cluster.form("a", "4x4x4", cluster.ids(0))
    made = create(cluster, pods=1, annotations={"sim.tpuctl.dev/run-seconds": "30"})
    template = made["spec"]["template"]["spec"]
    assert template["restartPolicy"] == "Never"
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "again",
            "namespace": "default",
            "annotations": {"sim.tpuctl.dev/run-seconds": "30"},
        },
        "spec": {**template, "restartPolicy": "Always", "nodeName": cluster.node(1)["metadata"]["name"]},
        "status": {"phase": "Pending"},
    }
    cluster.store.create(PODS, pod)
    cluster.advance(110)
    found = cluster.store.get(PODS, "default", "again")
    assert found["status"]["containerStatuses"][0]["restartCount"] == 3
