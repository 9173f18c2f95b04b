"""Jobs, their pods and where these run."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.sim import cluster_world
from tpuctl.sim.controllers import job_pods, jobs, scheduling
from tpuctl.sim.kube import defaults, resources

if TYPE_CHECKING:
    from collections.abc import Iterator

JOBS, PODS = "jobs.batch", "pods"


@pytest.fixture
def cluster() -> Iterator[cluster_world.Cluster]:
    made = cluster_world.Cluster(cluster_world.make(cubes=3))
    yield made
    cluster_world.check_invariants(made.world)


def job_object(
    name: str = "train", *, pods: int = 16, slice_name: str = "a", topology: str = "4x4x4", **spec: Any
) -> dict:
    annotations = spec.pop("annotations", {})
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "completions": pods,
            "parallelism": pods,
            "completionMode": "Indexed",
            "template": {
                "metadata": {"annotations": annotations},
                "spec": {
                    "nodeSelector": {
                        "cloud.google.com/gke-tpu-slice": slice_name,
                        "cloud.google.com/gke-tpu-topology": topology,
                        "cloud.google.com/gke-tpu-accelerator": "tpu7x",
                    },
                    "subdomain": "headless",
                    "restartPolicy": "Never",
                    "containers": [
                        {
                            "name": "jax",
                            "image": "python:3.12",
                            "resources": {"limits": {"google.com/tpu": "4"}},
                        }
                    ],
                },
            },
            **spec,
        },
    }


def create(cluster: cluster_world.Cluster, **options: Any) -> dict:
    return cluster.store.create(
        JOBS,
        defaults.fill(resources.Registry(cluster.store).find("batch", "v1", "jobs"), job_object(**options)),
    )


def job(cluster: cluster_world.Cluster, name: str = "train") -> dict:
    found = cluster.store.get(JOBS, "default", name)
    assert found is not None
    return found


def true_conditions(cluster: cluster_world.Cluster, name: str = "train") -> list[str]:
    return [
        one["type"] for one in job(cluster, name)["status"].get("conditions", []) if one["status"] == "True"
    ]


def pods(cluster: cluster_world.Cluster) -> list[dict]:
    return cluster.store.list(PODS)


def by_index(cluster: cluster_world.Cluster, index: int) -> dict:
    [pod] = [
        one
        for one in pods(cluster)
        if job_pods.index_of(one) == index and not one["metadata"].get("deletionTimestamp")
    ]
    return pod


def phases(cluster: cluster_world.Cluster) -> set[str]:
    return {pod["status"]["phase"] for pod in pods(cluster)}


def start(cluster: cluster_world.Cluster, **options: Any) -> None:
    """A slice of one cube and a Job that runs on all of it."""
    cluster.form("a", "4x4x4", cluster.ids(0))
    create(cluster, **options)
    cluster.advance(5)
    assert phases(cluster) == {"Running"}


def test_sixteen_pods_run_one_on_each_host(cluster):
    start(cluster)
    assert len({pod["spec"]["nodeName"] for pod in pods(cluster)}) == 16
    assert {pod["spec"]["nodeName"] for pod in pods(cluster)} == set(cluster.labelled("a"))
    status = job(cluster)["status"]
    assert (status["active"], status["ready"]) == (16, 16)
    assert "succeeded" not in status


def test_pods_are_made_as_the_job_controller_makes_them(cluster):
    start(cluster, annotations={"cloud.google.com/gke-tpu-slice-topology": "4x4x4"})
    pod = by_index(cluster, 11)
    metadata = pod["metadata"]
    stem, _, suffix = metadata["name"].rpartition("-")
    assert (stem, len(suffix)) == ("train-11", 5)
    assert metadata["labels"]["batch.kubernetes.io/job-name"] == metadata["labels"]["job-name"] == "train"
    assert metadata["labels"]["batch.kubernetes.io/job-completion-index"] == "11"
    assert metadata["annotations"] == {
        "batch.kubernetes.io/job-completion-index": "11",
        "cloud.google.com/gke-tpu-slice-topology": "4x4x4",
    }
    assert metadata["ownerReferences"][0]["uid"] == job(cluster)["metadata"]["uid"]
    assert metadata["finalizers"] == ["batch.kubernetes.io/job-tracking"]
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("train-11", "headless")
    assert {"key": "google.com/tpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"} in pod[
        "spec"
    ]["tolerations"]
    assert [one["name"] for one in pod["spec"]["containers"][0]["env"]] == ["JOB_COMPLETION_INDEX"]


def test_pods_wait_for_their_slice_and_say_why(cluster):
    create(cluster)
    cluster.advance(5)
    [condition] = by_index(cluster, 0)["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "PodScheduled",
        "False",
        "Unschedulable",
    )
    assert (
        condition["message"]
        == "0/48 nodes are available: 48 node(s) didn't match Pod's node affinity/selector."
    )
    assert "FailedScheduling" in cluster.events(by_index(cluster, 0)["metadata"]["name"])
    cluster.form("a", "4x4x4", cluster.ids(0))
    assert phases(cluster) == {"Running"}


def test_a_second_job_waits_for_chips(cluster):
    start(cluster)
    create(cluster, name="second", pods=2)
    cluster.advance(5)
    [waiting, _] = [pod for pod in pods(cluster) if pod["metadata"]["labels"]["job-name"] == "second"]
    message = waiting["status"]["conditions"][0]["message"]
    assert message == (
        "0/48 nodes are available: 16 Insufficient google.com/tpu, "
        "32 node(s) didn't match Pod's node affinity/selector."
    )
    cluster.store.delete(JOBS, "default", "train")
    cluster.advance(10)
    assert {pod["metadata"]["labels"]["job-name"] for pod in pods(cluster)} == {"second"}
    assert phases(cluster) == {"Running"}


def test_a_job_with_an_end_completes(cluster):
    start(cluster, annotations={"sim.tpuctl.dev/run-seconds": "30"})
    cluster.advance(40)
    status = job(cluster)["status"]
    assert status["succeeded"] == 16
    assert status["completedIndexes"] == "0-15"
    assert true_conditions(cluster) == ["SuccessCriteriaMet", "Complete"]
    assert status["completionTime"]
    assert phases(cluster) == {"Succeeded"}
    assert all("finalizers" not in pod["metadata"] for pod in pods(cluster))


def test_a_deleted_pod_is_made_again_under_a_new_uid(cluster):
    start(cluster)
    old = by_index(cluster, 3)
    cluster.store.delete(PODS, "default", old["metadata"]["name"], grace_s=30)
    cluster.advance(2.5)
    assert cluster.store.get(PODS, "default", old["metadata"]["name"]) is None
    cluster.advance(20)
    new = by_index(cluster, 3)
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    assert new["status"]["phase"] == "Running"
    assert job(cluster)["status"]["failed"] == 1
    assert len(pods(cluster)) == 16


def test_the_second_failure_waits_twice_as_long(cluster):
    start(cluster, pods=1)
    gaps = []
    for _ in range(3):
        cluster.store.delete(PODS, "default", by_index(cluster, 0)["metadata"]["name"], grace_s=30)
        deleted_s = cluster.world.clock.now_s
        while not [pod for pod in pods(cluster) if "deletionTimestamp" not in pod["metadata"]]:
            cluster.advance(1)
        gaps.append(round(cluster.world.clock.now_s - deleted_s, -1))
        cluster.advance(10)
    assert gaps == [10, 20, 40]


def test_one_deleted_pod_fails_a_job_without_retries(cluster):
    start(cluster, backoffLimit=0)
    cluster.store.delete(PODS, "default", by_index(cluster, 3)["metadata"]["name"], grace_s=30)
    cluster.advance(60)
    assert true_conditions(cluster) == ["FailureTarget", "Failed"]
    [failed] = [one for one in job(cluster)["status"]["conditions"] if one["type"] == "Failed"]
    assert failed["reason"] == "BackoffLimitExceeded"
    assert pods(cluster) == []
    assert job(cluster)["status"]["failed"] == 16


def test_with_a_limit_per_index_many_deleted_pods_come_back_together(cluster):
    start(cluster, backoffLimitPerIndex=2)
    for index in range(16):
        name = by_index(cluster, index)["metadata"]["name"]
        cluster.store.delete(PODS, "default", name, grace_s=30)
    cluster.advance(20)
    assert [pod["status"]["phase"] for pod in pods(cluster)] == ["Running"] * 16
    counts = {pod["metadata"]["annotations"][jobs.INDEX_FAILURES] for pod in pods(cluster)}
    assert counts == {"1"}
    assert job(cluster)["status"]["failed"] == 16
    assert true_conditions(cluster) == []


def test_an_index_that_fails_too_often_fails_alone_and_the_job_at_the_end(cluster):
    start(cluster, pods=2, backoffLimitPerIndex=1, annotations={"sim.tpuctl.dev/run-seconds": "200"})
    for _ in range(2):
        cluster.store.delete(PODS, "default", by_index(cluster, 0)["metadata"]["name"], grace_s=30)
        cluster.advance(20)
    assert job(cluster)["status"]["failedIndexes"] == "0"
    assert true_conditions(cluster) == []
    cluster.advance(300)
    [failed] = [one for one in job(cluster)["status"]["conditions"] if one["type"] == "Failed"]
    assert (failed["reason"], job(cluster)["status"]["completedIndexes"]) == ("FailedIndexes", "1")


def test_more_failed_indexes_than_allowed_end_the_job_at_once(cluster):
    start(cluster, pods=3, backoffLimitPerIndex=0, maxFailedIndexes=0)
    cluster.store.delete(PODS, "default", by_index(cluster, 1)["metadata"]["name"], grace_s=30)
    cluster.advance(60)
    [failed] = [one for one in job(cluster)["status"]["conditions"] if one["type"] == "Failed"]
    assert failed["reason"] == "MaxFailedIndexesExceeded"


def test_failing_containers_use_up_the_backoff_limit(cluster):
    annotations = {"sim.tpuctl.dev/run-seconds": "5", "sim.tpuctl.dev/exit-code": "3"}
    cluster.form("a", "4x4x4", cluster.ids(0))
    create(cluster, pods=1, backoffLimit=1, annotations=annotations)
    cluster.advance(120)
    assert true_conditions(cluster) == ["FailureTarget", "Failed"]
    assert phases(cluster) == {"Failed"}
    assert len(pods(cluster)) == 2
    assert pods(cluster)[0]["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3


def test_deleting_a_job_takes_its_pods_along(cluster):
    start(cluster)
    cluster.store.delete(JOBS, "default", "train")
    assert all("deletionTimestamp" in pod["metadata"] for pod in pods(cluster))
    cluster.advance(10)
    assert pods(cluster) == []


def test_suspension_takes_the_pods_and_resuming_brings_them_back(cluster):
    start(cluster)
    cluster.store.mutate(JOBS, "default", "train", lambda obj: obj["spec"].update(suspend=True))
    cluster.advance(10)
    assert pods(cluster) == []
    assert true_conditions(cluster) == ["Suspended"]
    assert "startTime" not in job(cluster)["status"]
    cluster.store.mutate(JOBS, "default", "train", lambda obj: obj["spec"].update(suspend=False))
    cluster.advance(10)
    assert phases(cluster) == {"Running"}
    assert "failed" not in job(cluster)["status"]


def test_deadline_and_time_to_live(cluster):
    start(cluster, activeDeadlineSeconds=60, ttlSecondsAfterFinished=100)
    cluster.advance(70)
    assert true_conditions(cluster) == ["FailureTarget", "Failed"]
    assert job(cluster)["status"]["conditions"][-1]["reason"] == "DeadlineExceeded"
    cluster.advance(110)
    assert cluster.store.get(JOBS, "default", "train") is None


def test_a_plain_job_runs_its_pods_without_indexes(cluster):
    cluster.form("a", "4x4x4", cluster.ids(0))
    options = {"completionMode": "NonIndexed", "completions": 4, "parallelism": 2}
    create(cluster, annotations={"sim.tpuctl.dev/run-seconds": "10"}, **options)
    cluster.advance(5)
    assert len(pods(cluster)) == 2
    assert "hostname" not in pods(cluster)[0]["spec"]
    cluster.advance(60)
    assert job(cluster)["status"]["succeeded"] == 4
    assert true_conditions(cluster) == ["SuccessCriteriaMet", "Complete"]


# Faults


def test_a_dead_host_fails_its_pod_after_the_toleration(cluster):
    start(cluster)
    victim = by_index(cluster, 0)
    host = cluster.world.nodes.host_of(victim["spec"]["nodeName"])
    cluster.world.hardware.host_down(host)
    cluster.advance(330)
    assert (
        "deletionTimestamp" not in cluster.store.get(PODS, "default", victim["metadata"]["name"])["metadata"]
    )
    cluster.advance(20)
    stuck = cluster.store.get(PODS, "default", victim["metadata"]["name"])
    assert "deletionTimestamp" in stuck["metadata"]
    [disruption] = [one for one in stuck["status"]["conditions"] if one["type"] == "DisruptionTarget"]
    assert disruption["reason"] == "DeletionByTaintManager"
    assert job(cluster)["status"]["failed"] == 1
    cluster.world.hardware.host_up(host)
    cluster.advance(120)
    assert cluster.store.get(PODS, "default", victim["metadata"]["name"]) is None


def test_a_reboot_within_the_toleration_fails_the_pod(cluster):
    start(cluster)
    victim = by_index(cluster, 0)
    host = cluster.world.nodes.host_of(victim["spec"]["nodeName"])
    cluster.world.hardware.reset_vm(host)
    cluster.advance(61)
    found = cluster.store.get(PODS, "default", victim["metadata"]["name"])
    assert found["status"]["phase"] == "Failed"
    assert (
        found["status"]["containerStatuses"][0]["state"]["terminated"]["reason"] == "ContainerStatusUnknown"
    )


def test_pods_outlive_their_slice_in_the_api(cluster):
    start(cluster)
    cluster.delete("a")
    cluster.advance(60)
    assert cluster.reason("a") is None
    assert phases(cluster) == {"Running"}


def test_pods_may_be_set_to_fail_with_their_slice():
    place = cluster_world.make(cubes=1, pods_fail_with_their_slice=True)
    cluster = cluster_world.Cluster(place)
    start(cluster, backoffLimit=0)
    cluster.delete("a")
    cluster.advance(5)
    assert phases(cluster) == {"Failed"}
    cluster_world.check_invariants(place)


def test_pods_of_a_removed_node_are_collected(cluster):
    start(cluster)
    victim = by_index(cluster, 0)
    cluster.store.delete("nodes", None, victim["spec"]["nodeName"])
    cluster.advance(45)
    assert cluster.store.get(PODS, "default", victim["metadata"]["name"]) is None
    assert job(cluster)["status"]["failed"] == 1


def test_cordoned_nodes_get_no_pods(cluster):
    cluster.form("a", "4x4x4", cluster.ids(0))
    name = cluster.node(0, 0)["metadata"]["name"]
    cluster.store.mutate("nodes", None, name, lambda node: node["spec"].update(unschedulable=True))
    create(cluster)
    cluster.advance(5)
    assert sum(pod["status"]["phase"] == "Running" for pod in pods(cluster)) == 15
    [waiting] = [pod for pod in pods(cluster) if pod["status"]["phase"] == "Pending"]
    assert "1 node(s) were unschedulable" in waiting["status"]["conditions"][0]["message"]
    cluster.store.mutate("nodes", None, name, lambda node: node["spec"].pop("unschedulable"))
    cluster.advance(5)
    assert phases(cluster) == {"Running"}


def test_other_schedulers_bind_for_themselves(cluster):
    cluster.form("a", "4x4x4", cluster.ids(0))
    made = job_object(pods=1)
    made["spec"]["template"]["spec"]["schedulerName"] = "mine"
    cluster.store.create(JOBS, made)
    cluster.advance(10)
    [pod] = pods(cluster)
    assert "nodeName" not in pod["spec"]
    node = cluster.labelled("a")[5]
    cluster.store.mutate(
        PODS, "default", pod["metadata"]["name"], lambda pod: pod["spec"].update(nodeName=node)
    )
    cluster.advance(5)
    assert phases(cluster) == {"Running"}


def test_a_block_sized_job_runs_within_a_second_of_cpu_time():
    place = cluster_world.make(cubes=32)
    cluster = cluster_world.Cluster(place)
    cluster.form("a", "8x16x16", cluster.ids(*range(32)))
    begun_s = time.process_time()
    create(cluster, pods=512, topology="8x16x16")
    cluster.advance(5)
    assert phases(cluster) == {"Running"}
    assert time.process_time() - begun_s < 1.0
    assert len({pod["spec"]["nodeName"] for pod in pods(cluster)}) == 512
    cluster_world.check_invariants(place)


# Small parts


@pytest.mark.parametrize(
    ("indexes", "text"),
    [([], ""), ([4], "4"), ([0, 1], "0,1"), ([0, 1, 2], "0-2"), ([5, 3, 4, 1, 7, 8], "1,3-5,7,8")],
)
def test_completed_indexes(indexes, text):
    assert job_pods.ranges(indexes) == text
    assert job_pods.parse_ranges(text) == set(indexes)


TAINT = {"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "google.com/tpu", "operator": "Exists"}, True),
        ({"key": "google.com/tpu", "value": "present"}, True),
        ({"key": "google.com/tpu", "value": "absent"}, False),
        ({"key": "google.com/tpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"operator": "Equal", "value": "present"}, False),
    ],
)
def test_tolerations(toleration, expected):
    assert scheduling.tolerates(toleration, TAINT) is expected


@pytest.mark.parametrize(
    ("operator", "values", "expected"),
    [
        ("In", ["HEALTHY", "DEGRADED"], True),
        ("In", ["UNHEALTHY"], False),
        ("NotIn", ["UNHEALTHY"], True),
        ("Exists", [], True),
        ("DoesNotExist", [], False),
        ("Gt", ["1"], False),
    ],
)
def test_node_affinity(operator, values, expected):
    requirement = {"key": "state", "operator": operator, "values": values}
    required = {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    pod = {"spec": {"affinity": affinity, "containers": []}}
    node = {"metadata": {"name": "n", "labels": {"state": "HEALTHY"}}}
    assert scheduling.matches(pod, node) is expected


def test_what_is_not_simulated_is_not_scheduled(cluster):
    made = job_object(pods=1)
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname"}]}
    made["spec"]["template"]["spec"]["affinity"] = {"podAntiAffinity": rule}
    cluster.store.create(JOBS, made)
    cluster.advance(5)
    [pod] = pods(cluster)
    assert pod["status"]["conditions"][0]["message"] == "not simulated: spec.affinity.podAntiAffinity"
