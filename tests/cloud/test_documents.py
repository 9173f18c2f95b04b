"""Kubernetes JSON to records: what is missing or new is unknown, and nothing crashes."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cloud import manifests
from tpuctl.cloud import documents
from tpuctl.model import fleet, states, topology

NOW = datetime.datetime(2026, 1, 5, 12, tzinfo=datetime.UTC)
S, P = states.SliceState, states.PartitionState


def test_a_host_with_all_its_labels():
    placed = documents.node(manifests.node("n1", cube="cu", block="bl", sub_block="sb", pool="po", index=3))
    host = placed.host
    assert (placed.block, placed.sub_block) == ("bl", "sb")
    assert (host.name, host.cube_id, host.pool, host.uid) == ("n1", "cu", "po", "uid-n1")
    assert host.partition_ids == ("cu-2x2x1-3", "cu-2x2x2-1", "cu-2x2x4-0", "cu-2x4x4-0", "cu")
    assert host.partition_states == (P.HEALTHY,) * 5
    assert host.ready is True
    assert host.ready_since == datetime.datetime(2026, 1, 5, 8, tzinfo=datetime.UTC)
    assert host.schedulable
    assert host.slice_name == ""
    assert host.taints == ()


def test_what_health_needs_of_a_node():
    document = manifests.node("n", labels={"cloud.google.com/active-node-maintenance": "ONGOING"})
    document["metadata"]["creationTimestamp"] = "2026-01-05T07:00:00Z"
    document["spec"]["providerID"] = "gce://p/z/n"
    document["status"]["allocatable"] = {"google.com/tpu": "3"}
    document["status"]["conditions"] += [
        {"type": "KernelDeadlock", "status": "True", "reason": "Hung", "message": "m" * 1000},
        {"type": "PIDPressure", "status": "False"},
        {"type": "Mine"},
    ]
    host = documents.node(document).host
    assert host.maintenance_ongoing
    assert host.created_at == datetime.datetime(2026, 1, 5, 7, tzinfo=datetime.UTC)
    assert (host.provider_id, host.chips) == ("gce://p/z/n", 3)
    assert host.conditions == (
        fleet.NodeCondition("KernelDeadlock", "True", "Hung", "m" * 400, None),
        fleet.NodeCondition("Mine", "", "", "", None),
    )


@pytest.mark.parametrize(
    ("status", "chips"),
    [
        ({"capacity": {"google.com/tpu": "4"}}, 4),
        ({"capacity": {"google.com/tpu": "4"}, "allocatable": {"google.com/tpu": "2"}}, 2),
        ({"capacity": {"google.com/tpu": "4"}, "allocatable": {"cpu": "1"}}, 0),
        ({"capacity": {"google.com/tpu": 4}}, 4),
        ({"capacity": {"google.com/tpu": "many"}}, None),
        ({"capacity": {"google.com/tpu": None}}, None),
        ({"capacity": {}}, None),
        ({}, None),
    ],
)
def test_chips_that_pods_can_use(status, chips):
    document = manifests.node("n")
    document["status"] = status
    assert documents.node(document).host.chips == chips


@pytest.mark.parametrize("text", [None, "", "yesterday", 7, {}])
def test_times_that_cannot_be_read_are_not_known(text):
    document = manifests.node("n")
    document["metadata"]["creationTimestamp"] = text
    document["status"]["conditions"][1]["lastTransitionTime"] = text
    host = documents.node(document).host
    assert (host.created_at, host.ready_since) == (None, None)


@pytest.mark.parametrize(
    ("word", "ready"), [("True", True), ("False", False), ("Unknown", None), ("Odd", None)]
)
def test_ready(word, ready):
    assert documents.node(manifests.node("n", ready=word)).host.ready is ready


def test_a_node_that_says_nothing_is_not_ready_and_not_healthy():
    document = manifests.node("n", cube="cu")
    labels = document["metadata"]["labels"]
    kept = {key: labels[key] for key in labels if key.endswith(("topology-block", "4x4x4-id"))}
    host = documents.node({"metadata": {"name": "n", "labels": kept}}).host
    assert host.ready is None
    assert host.partition_states == (P.UNKNOWN,) * 5
    assert host.partition_ids == ("", "", "", "", "cu")


@pytest.mark.parametrize("word", ["SHINY", "healthy", "", "DEGRADED_MORE"])
def test_an_unknown_partition_state_is_unknown(word):
    document = manifests.node("n", labels={"cloud.google.com/gke-tpu-partition-4x4x4-state": word})
    assert documents.node(document).host.state(topology.CUBE) is P.UNKNOWN


def test_cordon_taints_and_maintenance():
    document = manifests.node("n", labels={"cloud.google.com/scheduled-maintenance-time": "1767600000"})
    document["spec"] = {
        "unschedulable": True,
        "taints": [
            {"key": "google.com/tpu"},
            {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
            {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
        ],
    }
    host = documents.node(document).host
    assert not host.schedulable
    assert host.taints == ("node.kubernetes.io/unreachable",) * 3
    assert host.told_taints == (
        "node.kubernetes.io/unreachable:NoSchedule",
        "node.kubernetes.io/unreachable:NoExecute",
    )
    assert host._replace(taint_effects=()).told_taints == ("node.kubernetes.io/unreachable",)
    assert host.maintenance_at == datetime.datetime(2026, 1, 5, 8, tzinfo=datetime.UTC)


@pytest.mark.parametrize("text", ["soon", "", "9" * 40])
def test_a_maintenance_time_that_cannot_be_read(text):
    document = manifests.node("n", labels={"cloud.google.com/scheduled-maintenance-time": text})
    assert documents.node(document).host.maintenance_at is None


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        ({"cloud.google.com/gke-tpu-partition-4x4x4-id": None}, "4x4x4-id"),
        ({"cloud.google.com/gce-topology-block": None}, "gce-topology-block"),
        (
            {
                "cloud.google.com/gke-tpu-partition-4x4x4-id": None,
                "cloud.google.com/gke-accelerator-topology-mode": "AUTO_CONNECT",
            },
            "AUTO_CONNECT",
        ),
        (
            {
                "cloud.google.com/gke-tpu-partition-4x4x4-id": None,
                "cloud.google.com/gke-tpu-accelerator": None,
            },
            "gke-tpu-accelerator",
        ),
    ],
)
def test_a_tpu_node_without_a_place_is_a_stray(labels, why):
    found = documents.node(manifests.node("n", labels=labels))
    assert isinstance(found, fleet.Stray)
    assert found.node == "n"
    assert why in found.why


def test_a_stray_tells_what_its_labels_still_say():
    document = manifests.node(
        "n",
        cube="c1",
        labels={
            "cloud.google.com/gke-tpu-partition-4x4x4-id": None,
            "cloud.google.com/gke-nodepool": "p1",
            "cloud.google.com/gke-tpu-slice": "train",
            "cloud.google.com/gke-tpu-partition-2x2x1-id": "part",
        },
    )
    document["spec"]["unschedulable"] = True
    found = documents.node(document)
    assert isinstance(found, fleet.Stray)
    assert (found.pool, found.slice_name, found.schedulable) == ("p1", "train", False)
    assert "part" in found.partition_ids
    assert found.uid == document["metadata"]["uid"]
    assert not found.is_static


@pytest.mark.parametrize(
    "document",
    [
        {"metadata": {"name": "cpu"}},
        {"metadata": {"name": "cpu", "labels": None}, "status": {"capacity": {"cpu": "4"}}},
        {
            "metadata": {"name": "v5e", "labels": {"cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite"}},
            "status": {"capacity": {"google.com/tpu": "4"}},
        },
    ],
)
def test_other_nodes_are_left_out(document):
    assert documents.node(document) is None


@pytest.mark.parametrize(
    ("reason", "status", "state"),
    [
        ("ACTIVE", "True", S.ACTIVE),
        ("ACTIVE", "Unknown", S.ACTIVE),
        ("ACTIVE", "False", S.UNKNOWN),
        ("ACTIVE_DEGRADED", "True", S.ACTIVE_DEGRADED),
        ("SliceNotCreated", "False", S.NOT_CREATED),
        ("SliceCreationFailed", "False", S.CREATION_FAILED),
        ("FAILED", "False", S.FAILED),
        ("INCOMPLETE", "False", S.INCOMPLETE),
        ("DEACTIVATING", "False", S.DEACTIVATING),
        ("MELTED", "True", S.UNKNOWN),
        ("", "True", S.UNKNOWN),
    ],
)
def test_slice_states(reason, status, state):
    item = documents.slice_(manifests.slice_("s", reason=reason, status=status), NOW)
    assert (item.state, item.reason, item.ready) == (state, reason, status)


@pytest.mark.parametrize(
    ("text", "priority"),
    [("5", 5), ("-7", -7), ("", 0), ("high", 0), ("1e3", 0), ("9" * 30, 0), (None, 0), (5, 0)],
)
def test_a_priority_that_is_no_whole_number_is_none(text, priority):
    document = manifests.slice_("s", reason="ACTIVE")
    document["metadata"]["annotations"] = {"tpuctl.dev/priority": text}
    assert documents.slice_(document, NOW).priority == priority


def test_a_slice_with_all_its_fields():
    document = manifests.slice_("s", partitions=("b", "a"), topology="4x4x8", reason="ACTIVE", message="m")
    document["metadata"] |= {
        "deletionTimestamp": "2026-01-05T10:00:00Z",
        "annotations": {"slice.gke.io/retry-on-failure": "true"},
    }
    item = documents.slice_(document, NOW)
    assert item.topology == topology.Topology(4, 4, 8)
    assert item.partition_ids == ("a", "b")
    assert item.message == "m"
    assert item.created_at == datetime.datetime(2026, 1, 5, 9, tzinfo=datetime.UTC)
    assert item.since == datetime.datetime(2026, 1, 5, 9, 30, tzinfo=datetime.UTC)
    assert item.deleting
    assert item.retries
    assert item.revision == "11"


@pytest.mark.parametrize(
    "document",
    [
        {"metadata": {"name": "s"}},
        {"metadata": {"name": "s"}, "spec": None, "status": None},
        {"metadata": {"name": "s"}, "spec": {}, "status": {"conditions": None}},
        {"metadata": {"name": "s"}, "spec": {"partitionIds": None}, "status": {"conditions": [{}]}},
    ],
)
def test_an_empty_slice(document):
    item = documents.slice_(document, NOW)
    assert (item.state, item.partition_ids, item.topology) == (S.CREATED, (), None)
    assert item.created_at == item.since == NOW


@pytest.mark.parametrize("text", ["4x8x4", "big", "", "9" * 5000 + "x4x4"])
def test_an_illegal_topology_is_kept_as_text(text):
    item = documents.slice_(manifests.slice_("s", topology=text), NOW)
    assert item.topology is None
    assert item.raw_topology == text


def test_the_older_condition_type_for_a_failed_creation():
    document = manifests.slice_("s")
    document["status"] = {"conditions": [{"type": "SliceCreationFailed", "status": "True", "message": "why"}]}
    item = documents.slice_(document, NOW)
    assert (item.state, item.reason, item.message) == (S.CREATION_FAILED, "SliceCreationFailed", "why")
    document["status"]["conditions"].append({"type": "Ready", "status": "True", "reason": "ACTIVE"})
    assert documents.slice_(document, NOW).state is S.ACTIVE


@pytest.mark.parametrize(
    ("metadata", "owner"),
    [
        (
            {
                "annotations": {
                    "accelerator.gke.io/owner-workload-name": "w",
                    "accelerator.gke.io/owner-workload-namespace": "ns",
                }
            },
            fleet.Owner("kueue", "Workload", "ns", "w"),
        ),
        (
            {
                "labels": {
                    "tpu-provisioner.cloud.google.com/owner-kind": "JobSet",
                    "tpu-provisioner.cloud.google.com/owner-name": "j",
                    "tpu-provisioner.cloud.google.com/owner-namespace": "ns",
                }
            },
            fleet.Owner("tpu-provisioner", "JobSet", "ns", "j"),
        ),
        (
            {
                "annotations": {"cloud.google.com/managed-by": "slice-scheduler"},
                "labels": {
                    "cloud.google.com/slice-owner-kind": "InferenceService",
                    "cloud.google.com/slice-owner-name": "i",
                },
            },
            fleet.Owner("ome", "InferenceService", "", "i"),
        ),
        (
            {"annotations": {"cloud.google.com/managed-by": "slice-scheduler"}},
            fleet.Owner("slice-scheduler", "", "", ""),
        ),
        ({"labels": {"app.kubernetes.io/managed-by": "Helm"}}, fleet.Owner("Helm", "", "", "")),
        (
            {
                "ownerReferences": [
                    {"apiVersion": "example.com/v1", "kind": "Fleet", "name": "f", "controller": True}
                ]
            },
            fleet.Owner("example.com", "Fleet", "", "f"),
        ),
        ({"labels": {"app.kubernetes.io/managed-by": "tpuctl"}}, None),
        ({"managedFields": [{"manager": "kueue"}]}, fleet.BY_HAND),
        ({"labels": None, "annotations": None}, fleet.BY_HAND),
        ({}, fleet.BY_HAND),
    ],
)
def test_owners(metadata, owner):
    assert documents.owner(metadata) == owner


def test_pods_that_ask_for_chips():
    document = {
        "metadata": {
            "namespace": "ns",
            "name": "p",
            "uid": "u",
            "ownerReferences": [{"kind": "Job", "name": "j", "controller": True}],
        },
        "spec": {
            "nodeName": "n1",
            "containers": [
                {"resources": {"requests": {"google.com/tpu": "2"}, "limits": {"google.com/tpu": "2"}}},
                {"resources": {"limits": {"google.com/tpu": 2}}},
                {"resources": {}},
            ],
            "initContainers": [{"resources": {"limits": {"google.com/tpu": "3"}}}],
        },
        "status": {"phase": "Running", "startTime": "2026-01-05T09:00:00Z"},
    }
    assert documents.pod(document) == fleet.Pod(
        "ns", "p", "u", "n1", "Running", 4, "Job/j", datetime.datetime(2026, 1, 5, 9, tzinfo=datetime.UTC)
    )


@pytest.mark.parametrize(
    "spec", [None, {}, {"containers": None}, {"containers": [{"resources": {"requests": {"cpu": "1"}}}]}]
)
def test_other_pods_are_left_out(spec):
    assert documents.pod({"metadata": {"name": "p"}, "spec": spec}) is None


def test_an_amount_that_cannot_be_read_still_makes_it_a_tpu_pod():
    spec = {"containers": [{"resources": {"limits": {"google.com/tpu": "many"}}}]}
    pod = documents.pod({"metadata": {"name": "p"}, "spec": spec})
    assert (pod.chips, pod.node, pod.phase, pod.owner) == (0, "", "", "")


@pytest.mark.parametrize("text", [None, 7, "", "yesterday", "2026-13-01T00:00:00Z", [], {}])
def test_times_that_cannot_be_read(text):
    assert documents.moment(text) is None


def test_times():
    assert documents.moment("2026-01-05T08:00:00Z") == datetime.datetime(2026, 1, 5, 8, tzinfo=datetime.UTC)
    assert documents.moment("2026-01-05T00:00:00.123456789-08:00").hour == 0
    assert documents.moment("2026-01-05T08:00:00").utcoffset() == datetime.timedelta()


def test_events_tell_when_they_last_happened():
    document = {
        "metadata": {},
        "reason": "Formed",
        "message": "in 40 s",
        "lastTimestamp": "2026-01-05T08:00:00Z",
    }
    assert documents.event(document)[1] == "Formed: in 40 s"
    document["series"] = {"lastObservedTime": "2026-01-05T09:00:00Z"}
    assert documents.event(document)[0].hour == 9
    assert documents.event({"metadata": {}})[1] == "Event:"


WORDS = st.one_of(st.none(), st.text(max_size=8), st.sampled_from([*S, "True", "False", "Unknown"]))
CONDITIONS = st.lists(
    st.fixed_dictionaries(
        {"type": st.one_of(st.just("Ready"), st.just("SliceCreationFailed"), WORDS)},
        optional={"status": WORDS, "reason": WORDS, "message": WORDS, "lastTransitionTime": WORDS},
    ),
    max_size=3,
)


@given(
    conditions=st.one_of(st.none(), CONDITIONS),
    shape=WORDS,
    ids=st.one_of(st.none(), st.lists(st.one_of(st.text(max_size=4), st.integers()), max_size=3)),
)
def test_no_slice_crashes_and_none_is_ready_by_mistake(conditions, shape, ids):
    document = {
        "metadata": {"name": "s"},
        "spec": {"topology": shape, "partitionIds": ids},
        "status": {"conditions": conditions},
    }
    item = documents.slice_(document, NOW)
    says_so = [
        condition
        for condition in conditions or ()
        if condition["type"] == "Ready"
        and condition.get("reason") in (S.ACTIVE, S.ACTIVE_DEGRADED)
        and condition.get("status") in ("True", "Unknown")
    ]
    assert not item.state.is_ready or says_so


@given(
    labels=st.dictionaries(
        st.sampled_from(sorted(manifests.node("n")["metadata"]["labels"])), st.text(max_size=9)
    )
)
def test_no_set_of_labels_crashes(labels):
    document = manifests.node("n")
    document["metadata"]["labels"] = labels
    found = documents.node(document)
    if isinstance(found, documents.PlacedHost):
        assert found.block
        assert found.host.cube_id
