"""Verdicts: every source alone, the worst of all counts, contradictions are named, silence is unknown."""

import dataclasses
import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import builders
from tpuctl.engine import health
from tpuctl.model import fleet, states, topology
from tpuctl.model import health as values

Verdict = states.Verdict
Domain = values.Domain
Origin = values.Origin
NOW = builders.NOW


def ago(**span: float) -> datetime.datetime:
    return NOW - datetime.timedelta(**span)


def judged(cube: fleet.Cube, policy: values.HealthPolicy = values.DEFAULT_POLICY) -> values.Judgement:
    return health.judge(cube, policy, NOW)


def with_host(**changes: object) -> fleet.Cube:
    """A cube whose host 5 is different."""
    return builders.changed(builders.cube("c"), 5, **changes)


def condition(kind: str, status: str = "True", since: datetime.datetime | None = None) -> fleet.NodeCondition:
    return fleet.NodeCondition(kind, status, "Because", "text", since or ago(hours=1))


def sub_block(**changes: object) -> fleet.SubBlock:
    plain = fleet.SubBlock("s", "id-s", "HEALTHY", 16, 0, 16, 16, healthy_infra=1, degraded_infra=0)
    return plain._replace(**changes)


def on(sub_block_: fleet.SubBlock, hosts: int = 16) -> fleet.Cube:
    return dataclasses.replace(builders.cube("c", hosts=hosts), sub_block=sub_block_)


def in_pool(status: str, hosts: int = 16, **changes: object) -> fleet.Cube:
    pool = fleet.NodePool("p", states.pool_status(status), status, "s", "b", "r", "policy", 16)
    return dataclasses.replace(builders.cube("c", hosts=hosts), pool=pool._replace(**changes))


def counts(**by_state: int) -> tuple[fleet.TopologyCount, ...]:
    """`CUBE_RUNNING=1, HOST_DEGRADED=1` as acceleratorTopologiesInfo has it."""
    shapes = {"CUBE": "4x4x4", "HOST": "2x2x1", "HALF": "2x4x4"}
    return tuple(
        fleet.TopologyCount(shapes[key.partition("_")[0]], key.partition("_")[2], count)
        for key, count in by_state.items()
    )


def test_a_sound_cube_is_healthy_with_evidence_and_without_reasons() -> None:
    found = judged(builders.cube("c"))
    assert (found.verdict, found.reasons, found.domains) == (Verdict.HEALTHY, (), ())
    assert (found.usable_hosts, found.disagreements) == (16, ())
    assert {item.origin for item in found.evidence} == {
        Origin.NODE,
        Origin.CHIPS,
        Origin.CUBE_LABEL,
        Origin.PART_LABEL,
    }


# -- nodes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "verdict", "reason"),
    [
        ({"ready": False}, Verdict.UNHEALTHY, "not ready"),
        ({"ready": None}, Verdict.UNKNOWN, "Ready is unknown, its kubelet does not report"),
        ({"chips": 3}, Verdict.UNHEALTHY, "3 of 4 chips can be used"),
        ({"chips": None}, Verdict.UNKNOWN, "the node does not tell its chips"),
        (
            {"conditions": (condition("KernelDeadlock"),)},
            Verdict.UNHEALTHY,
            "condition KernelDeadlock is True (Because)",
        ),
        (
            {"conditions": (condition("DiskPressure"),)},
            Verdict.DEGRADED,
            "condition DiskPressure is True (Because)",
        ),
        (
            {"conditions": (condition("ReadonlyFilesystem", "Unknown"),)},
            Verdict.UNKNOWN,
            "condition ReadonlyFilesystem is Unknown (Because)",
        ),
        (
            {"taints": ("cloud.google.com/impending-node-termination",)},
            Verdict.UNHEALTHY,
            "about to be terminated (taint cloud.google.com/impending-node-termination)",
        ),
        (
            {"taints": ("node.kubernetes.io/unreachable",) * 2},
            Verdict.UNKNOWN,
            "taint node.kubernetes.io/unreachable",
        ),
        (
            {"taints": ("node.kubernetes.io/disk-pressure",)},
            Verdict.DEGRADED,
            "taint node.kubernetes.io/disk-pressure",
        ),
        ({"maintenance_ongoing": True}, Verdict.UNHEALTHY, "maintenance is going on"),
        (
            {"maintenance_at": NOW + datetime.timedelta(hours=2)},
            Verdict.DEGRADED,
            "maintenance planned for 2026-01-05 10:00 UTC",
        ),
    ],
)
def test_what_one_node_says(changes: dict[str, object], verdict: Verdict, reason: str) -> None:
    if "conditions" in changes:
        changes["ready_since"] = ago(days=30)
    found = judged(with_host(**changes))
    assert found.verdict is verdict
    assert f"host node-c-05: {reason}" in found.reasons
    assert found.domains in ((Domain.VM,), ())


@pytest.mark.parametrize(
    "changes",
    [
        {"schedulable": False, "taints": ("node.kubernetes.io/unschedulable",)},
        {"taints": ("example.com/mine",)},
        {"maintenance_at": NOW + datetime.timedelta(days=80)},
        {"maintenance_at": ago(days=40)},
    ],
)
def test_what_bears_on_no_verdict_is_still_evidence(changes: dict[str, object]) -> None:
    found = judged(with_host(**changes))
    assert (found.verdict, found.reasons, found.usable_hosts) == (Verdict.HEALTHY, (), 16)
    assert any(item.subject == "host node-c-05" and item.points_to is None for item in found.evidence)


def test_a_silent_node_is_one_fact_however_many_conditions_and_taints_repeat_it() -> None:
    """Never a reason to delete: silence alone stays unknown, however long it lasts."""
    silent = with_host(
        ready=None,
        ready_since=ago(days=3),
        conditions=(condition("MemoryPressure", "Unknown"), condition("DiskPressure", "Unknown")),
        taints=("node.kubernetes.io/unreachable", "node.kubernetes.io/unreachable"),
    )
    found = judged(silent)
    assert found.verdict is Verdict.UNKNOWN
    assert found.reasons == ("host node-c-05: Ready is unknown, its kubelet does not report",)
    assert found.usable_hosts == 15


def test_the_same_of_many_hosts_is_told_once() -> None:
    cube = builders.cube("c")
    gone = tuple(host._replace(ready=None, ready_since=ago(minutes=5)) for host in cube.hosts)
    found = judged(dataclasses.replace(cube, hosts=gone))
    assert found.reasons == ("16 hosts: Ready is unknown, its kubelet does not report",)
    assert found.troubles[0].since == ago(minutes=5)
    assert len([item for item in found.evidence if item.is_trouble]) == 16


# -- time ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("up_s", "verdict"), [(30, Verdict.UNKNOWN), (119, Verdict.UNKNOWN), (120, Verdict.UNHEALTHY)]
)
def test_chips_missing_right_after_boot_are_settling(up_s: float, verdict: Verdict) -> None:
    """HyperPod v3.9.0: devices missing right after boot; settling at 30 s, a fault after 120 s."""
    found = judged(with_host(chips=0, ready_since=ago(seconds=up_s)))
    assert found.verdict is verdict
    assert ("settling" in found.reasons[0]) is (verdict is Verdict.UNKNOWN)


def test_a_new_node_that_is_not_ready_yet_is_settling() -> None:
    young = with_host(ready=False, ready_since=ago(seconds=100), created_at=ago(seconds=100))
    assert judged(young).reasons == ("host node-c-05: not ready, settling after its start",)
    assert judged(young).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("age_s", "verdict"), [(0, Verdict.UNKNOWN), (59, Verdict.UNKNOWN), (60, Verdict.UNHEALTHY)]
)
def test_not_ready_has_a_grace(age_s: float, verdict: Verdict) -> None:
    assert judged(with_host(ready=False, ready_since=ago(seconds=age_s))).verdict is verdict


def test_without_a_time_nothing_is_excused() -> None:
    cube = with_host(ready=False, ready_since=NOW)
    assert health.judge(cube).verdict is Verdict.UNHEALTHY
    assert health.judge(with_host(ready=False, ready_since=None)).verdict is Verdict.UNHEALTHY
    assert health.judge(with_host(chips=0, ready_since=NOW)).verdict is Verdict.UNHEALTHY


def test_the_policy_sets_the_times() -> None:
    strict = values.HealthPolicy(not_ready_grace_s=0, settle_s=0, maintenance_lead_s=0)
    assert judged(with_host(ready=False, ready_since=NOW), strict).verdict is Verdict.UNHEALTHY
    assert judged(with_host(chips=0, ready_since=NOW), strict).verdict is Verdict.UNHEALTHY
    soon = with_host(maintenance_at=NOW + datetime.timedelta(hours=2))
    assert judged(soon, strict).verdict is Verdict.HEALTHY


def test_a_latched_condition_counts_as_degraded_and_shows_its_age() -> None:
    """npd#215, #728, #936, #474: conditions made of log lines never clear."""
    latched = with_host(conditions=(condition("KernelDeadlock", since=ago(days=17)),))
    found = judged(latched)
    assert found.verdict is Verdict.DEGRADED
    assert "may be latched" in found.reasons[0]
    assert found.troubles[0].since == ago(days=17)
    assert found.disagreements != ()


def test_a_boot_ends_a_condition_from_before_it() -> None:
    """npd#215: a reboot clears tpuctl's copy, and the condition is still shown."""
    booted = with_host(
        ready_since=ago(hours=1), conditions=(condition("KernelDeadlock", since=ago(days=17)),)
    )
    found = judged(booted)
    assert (found.verdict, found.reasons) == (Verdict.HEALTHY, ())
    (kept,) = [item for item in found.evidence if item.origin is Origin.CONDITION]
    assert "from before the host last came up" in kept.says
    assert kept.since == ago(days=17)


@pytest.mark.parametrize("status", ["True", "Unknown", "", "Perhaps"])
def test_unknown_condition_types_are_listed_and_bear_on_nothing(status: str) -> None:
    """npd#1011: condition types removed from the configuration linger on nodes."""
    found = judged(with_host(conditions=(condition("RemovedLongAgo", status),)))
    assert found.verdict is Verdict.HEALTHY
    assert any("RemovedLongAgo" in item.says for item in found.evidence)


def test_the_policy_decides_what_a_condition_means() -> None:
    deadlock = with_host(conditions=(condition("KernelDeadlock"), condition("Mine")))
    ours = values.HealthPolicy(conditions=(("Mine", Verdict.DEGRADED),))
    found = judged(deadlock, ours)
    assert found.verdict is Verdict.DEGRADED
    assert found.reasons == ("host node-c-05: condition Mine is True (Because)",)


def test_degraded_is_tolerated_while_it_is_young() -> None:
    patient = values.HealthPolicy(degraded_tolerance_s=600)
    young = with_host(conditions=(condition("DiskPressure", since=ago(seconds=599)),))
    old = with_host(conditions=(condition("DiskPressure", since=ago(seconds=600)),))
    assert judged(young, patient).verdict is judged(old, patient).verdict is Verdict.DEGRADED
    assert judged(young, patient).is_tolerated
    assert not judged(old, patient).is_tolerated
    assert not values.FailOn.DEGRADED.is_trouble(judged(young, patient))
    assert values.FailOn.DEGRADED.is_trouble(judged(old, patient))
    assert not values.FailOn.UNHEALTHY.is_trouble(judged(old, patient))
    label = builders.cube("c", state=states.PartitionState.DEGRADED)
    assert not judged(label, patient).is_tolerated


# -- labels ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "verdict", "domains"),
    [
        ("DEGRADED", Verdict.DEGRADED, (Domain.FABRIC,)),
        ("UNHEALTHY", Verdict.UNHEALTHY, (Domain.FABRIC,)),
        ("UNSET", Verdict.UNKNOWN, ()),
        ("INCOMPLETE", Verdict.INCOMPLETE, (Domain.VM,)),
        ("a word of tomorrow", Verdict.UNKNOWN, ()),
    ],
)
def test_the_label_of_the_cube(word: str, verdict: Verdict, domains: tuple[Domain, ...]) -> None:
    found = judged(builders.cube("c", state=states.partition_state(word)))
    assert (found.verdict, found.domains) == (verdict, domains)


def test_a_link_fault_leaves_the_hosts_usable() -> None:
    found = judged(builders.cube("c", state=states.PartitionState.DEGRADED))
    assert (found.verdict, found.where, found.usable_hosts) == (Verdict.DEGRADED, "fabric", 16)
    assert found.reasons == ("partition label says DEGRADED, which still is usable",)


def labelled(cube: fleet.Cube, index: int, shapes: dict[str, states.PartitionState]) -> fleet.Cube:
    """The cube with other labels on one host."""
    words = list(cube.hosts[index].partition_states)
    for shape, word in shapes.items():
        words[topology.PARTITION_SHAPES.index(topology.parse(shape))] = word
    return builders.changed(cube, index, partition_states=tuple(words))


UNHEALTHY, UNSET = states.PartitionState.UNHEALTHY, states.PartitionState.UNSET


def test_the_smallest_shape_tells_the_host_and_larger_ones_around_it_add_nothing() -> None:
    cube = builders.cube("c", state=UNHEALTHY)
    for index, shapes in (
        (4, ("2x2x1", "2x2x2", "2x2x4", "2x4x4")),
        (5, ("2x2x2", "2x2x4", "2x4x4")),
        (6, ("2x2x4", "2x4x4")),
        (7, ("2x2x4", "2x4x4")),
        *((i, ("2x4x4",)) for i in (0, 1, 2, 3)),
    ):
        cube = labelled(cube, index, dict.fromkeys(shapes, UNHEALTHY))
    found = judged(cube)
    assert (found.verdict, found.where, found.usable_hosts) == (Verdict.UNHEALTHY, "VM", 15)
    assert found.reasons == (
        "host node-c-04: label of partition 2x2x1 says UNHEALTHY",
        "partition label says UNHEALTHY",
    )


def test_a_larger_part_that_is_broken_while_its_hosts_are_well_is_fabric() -> None:
    cube = builders.cube("c")
    for index in (0, 1):
        cube = labelled(cube, index, {"2x2x2": UNHEALTHY})
    found = judged(cube)
    assert (found.verdict, found.where, found.usable_hosts) == (Verdict.UNHEALTHY, "fabric", 16)
    assert "label of partition 2x2x2 says UNHEALTHY on 2 of 16 hosts" in found.reasons


def test_hosts_that_contradict_each_other_about_their_cube_make_it_unknown() -> None:
    found = judged(labelled(builders.cube("c"), 3, {"4x4x4": UNHEALTHY}))
    assert found.verdict is Verdict.UNKNOWN
    assert found.reasons == ("partition label says HEALTHY and UNHEALTHY",)


def test_early_versions_have_the_label_of_the_cube_only() -> None:
    cube = builders.cube("c")
    unknown = states.PartitionState.UNKNOWN
    early = tuple(
        host._replace(
            partition_ids=("", "", "", "", "c"),
            partition_states=(unknown, unknown, unknown, unknown, states.PartitionState.HEALTHY),
        )
        for host in cube.hosts
    )
    assert judged(dataclasses.replace(cube, hosts=early)).verdict is Verdict.HEALTHY


# -- pools and counts ------------------------------------------------------------------------------------


def test_fifteen_hosts_are_incomplete() -> None:
    found = judged(builders.cube("c", hosts=15))
    assert (found.verdict, found.where, found.usable_hosts) == (Verdict.INCOMPLETE, "VM", 15)
    assert "15 of 16 hosts" in found.reasons
    assert "partition label says INCOMPLETE" in found.reasons


def test_no_pool_and_no_nodes_are_told_apart() -> None:
    bare = dataclasses.replace(builders.cube("c"), hosts=())
    assert (judged(bare).verdict, judged(bare).reasons) == (Verdict.INCOMPLETE, ("no node pool",))
    empty = dataclasses.replace(in_pool("PROVISIONING"), hosts=())
    assert judged(empty).reasons == ("node pool p has no nodes", "node pool p: PROVISIONING")


@pytest.mark.parametrize(
    ("status", "hosts", "verdict"),
    [
        ("RUNNING", 16, Verdict.HEALTHY),
        ("RUNNING", 15, Verdict.INCOMPLETE),
        ("PROVISIONING", 16, Verdict.HEALTHY),
        ("PROVISIONING", 3, Verdict.INCOMPLETE),
        ("ERROR", 16, Verdict.HEALTHY),
        ("ERROR", 15, Verdict.INCOMPLETE),
        ("RUNNING_WITH_ERROR", 16, Verdict.HEALTHY),
        ("RECONCILING", 16, Verdict.DEGRADED),
        ("STOPPING", 16, Verdict.UNHEALTHY),
        ("A_WORD_OF_TOMORROW", 16, Verdict.UNKNOWN),
        ("", 16, Verdict.UNKNOWN),
    ],
)
def test_a_pool_is_judged_by_its_nodes(status: str, hosts: int, verdict: Verdict) -> None:
    assert judged(in_pool(status, hosts)).verdict is verdict


def test_pool_conditions_count_while_nodes_are_missing() -> None:
    text = "GCE_STOCKOUT: no room"
    assert judged(in_pool("ERROR", 16, conditions=(text,))).reasons == ()
    assert f"node pool p: {text}" in judged(in_pool("ERROR", 15, conditions=(text,))).reasons


# -- the reservation -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "verdict", "where"),
    [
        ({}, Verdict.HEALTHY, ""),
        ({"health": ""}, Verdict.UNKNOWN, ""),
        ({"health": "HEALTH_STATUS_UNSPECIFIED"}, Verdict.UNKNOWN, ""),
        ({"health": "DEGRADED", "healthy_hosts": 15, "degraded_hosts": 1}, Verdict.UNHEALTHY, "VM"),
        ({"health": "HEALTHY", "degraded_hosts": 2}, Verdict.UNHEALTHY, "VM"),
        (
            {"health": "DEGRADED", "healthy_infra": 0, "degraded_infra": 1},
            Verdict.DEGRADED,
            "fabric",
        ),
        (
            {"health": "DEGRADED", "degraded_hosts": 1, "degraded_infra": 1},
            Verdict.UNHEALTHY,
            "VM and fabric",
        ),
        ({"health": "DEGRADED"}, Verdict.DEGRADED, "fabric"),
        ({"health": "DEGRADED", "degraded_hosts": None, "degraded_infra": None}, Verdict.DEGRADED, ""),
        ({"status": "INVALID"}, Verdict.UNHEALTHY, ""),
        ({"status": "CREATING"}, Verdict.INCOMPLETE, ""),
        ({"status": "SOMETHING"}, Verdict.UNKNOWN, ""),
        ({"status": "READY"}, Verdict.HEALTHY, ""),
        ({"topologies": counts(CUBE_RUNNING=1, HOST_RUNNING=16)}, Verdict.HEALTHY, ""),
        ({"topologies": counts(CUBE_AVAILABLE=1)}, Verdict.HEALTHY, ""),
        ({"topologies": counts(CUBE_DEGRADED=1, HOST_RUNNING=15, HOST_DEGRADED=1)}, Verdict.UNHEALTHY, "VM"),
        ({"topologies": counts(CUBE_DEGRADED=1, HOST_RUNNING=16)}, Verdict.UNHEALTHY, "fabric"),
        ({"topologies": counts(CUBE_UNHEALTHY=1)}, Verdict.UNHEALTHY, ""),
        ({"topologies": counts(CUBE_RUNNING=1, HALF_DEGRADED=1)}, Verdict.UNHEALTHY, ""),
        ({"topologies": counts(CUBE_TOPOLOGY_STATE_UNSPECIFIED=1)}, Verdict.UNKNOWN, ""),
        ({"topologies": counts(HOST_RUNNING=16)}, Verdict.UNKNOWN, ""),
    ],
)
def test_what_the_reservation_says(changes: dict[str, object], verdict: Verdict, where: str) -> None:
    found = judged(on(sub_block(**changes)))
    assert (found.verdict, found.where) == (verdict, where), found.reasons


def test_the_two_meanings_of_degraded_stay_apart() -> None:
    """The node label's DEGRADED is usable, the one of acceleratorTopologiesInfo is not."""
    label = builders.cube("c", state=states.PartitionState.DEGRADED)
    assert judged(label).verdict is Verdict.DEGRADED
    unusable = counts(CUBE_DEGRADED=1, HOST_RUNNING=16)
    found = judged(dataclasses.replace(label, sub_block=sub_block(topologies=unusable)))
    assert found.verdict is Verdict.UNHEALTHY
    assert "reservation: not usable (DEGRADED in the API's sense): 1 of 1 4x4x4" in found.reasons
    (fabric,) = found.disagreements
    assert fabric.domain is Domain.FABRIC
    assert dict(fabric.claims)[Origin.CUBE_LABEL] is Verdict.DEGRADED
    assert dict(fabric.claims)[Origin.TOPOLOGIES] is Verdict.UNHEALTHY


def test_bad_hardware_under_missing_nodes_makes_it_incomplete_and_no_worse() -> None:
    fifteen = sub_block(
        health="DEGRADED",
        healthy_hosts=15,
        degraded_hosts=1,
        topologies=counts(CUBE_DEGRADED=1, HOST_RUNNING=15, HOST_DEGRADED=1),
    )
    assert judged(on(fifteen, hosts=15)).verdict is Verdict.INCOMPLETE
    assert judged(on(fifteen, hosts=16)).verdict is Verdict.UNHEALTHY
    two = fifteen._replace(healthy_hosts=14, degraded_hosts=2)
    assert judged(on(two, hosts=15)).verdict is Verdict.UNHEALTHY


def test_hosts_that_the_reservation_counts_as_bad_are_not_usable() -> None:
    found = judged(on(sub_block(health="DEGRADED", healthy_hosts=13, degraded_hosts=3)))
    assert found.usable_hosts == 13


@pytest.mark.parametrize(
    ("plan", "verdict", "where"),
    [
        (fleet.Maintenance(NOW + datetime.timedelta(days=60), None, "PENDING"), Verdict.HEALTHY, ""),
        (fleet.Maintenance(NOW + datetime.timedelta(hours=23), None, "PENDING"), Verdict.DEGRADED, ""),
        (
            fleet.Maintenance(ago(hours=1), NOW + datetime.timedelta(hours=1), "PENDING"),
            Verdict.DEGRADED,
            "",
        ),
        (fleet.Maintenance(ago(hours=4), ago(hours=2), "PENDING"), Verdict.HEALTHY, ""),
        (fleet.Maintenance(ago(hours=1), None, "ONGOING"), Verdict.UNHEALTHY, "VM"),
        (fleet.Maintenance(None, None, hosts_ongoing=16), Verdict.UNHEALTHY, "VM"),
        (fleet.Maintenance(None, None, infra_ongoing=1), Verdict.UNHEALTHY, "fabric"),
    ],
)
def test_planned_and_running_maintenance(plan: fleet.Maintenance, verdict: Verdict, where: str) -> None:
    told = sub_block(maintenance=plan, maintenance_start=plan.start, maintenance_end=plan.end)
    found = judged(on(told))
    assert (found.verdict, found.where) == (verdict, where)


# -- several sources -------------------------------------------------------------------------------------


def test_the_worst_counts_and_who_says_otherwise_is_named() -> None:
    """The label lags behind the node: both are shown, and that they disagree."""
    found = judged(with_host(ready=False))
    assert (found.verdict, found.where) == (Verdict.UNHEALTHY, "VM")
    (vms,) = found.disagreements
    assert vms.domain is Domain.VM
    assert dict(vms.claims) == {
        Origin.NODE: Verdict.UNHEALTHY,
        Origin.CUBE_LABEL: Verdict.HEALTHY,
        Origin.PART_LABEL: Verdict.HEALTHY,
    }
    assert str(vms) == "VMs: unhealthy by node; healthy by partition label, sub-partition labels"


def test_a_node_that_is_ready_does_not_contradict_a_broken_link() -> None:
    cube = builders.cube("c", state=states.PartitionState.DEGRADED)
    told = sub_block(health="DEGRADED", healthy_infra=0, degraded_infra=1)
    assert judged(dataclasses.replace(cube, sub_block=told)).disagreements == ()


def test_a_missing_node_does_not_contradict_sound_hardware() -> None:
    assert judged(on(sub_block(), hosts=15)).disagreements == ()


def test_a_ready_condition_vouches_for_the_cubes_of_its_slice() -> None:
    cube = builders.cube("c", state=states.PartitionState.UNHEALTHY)
    active = builders.slice_of("s", "4x4x8", "c", "d")
    found = health.judge(cube, now=NOW, slices=(active,))
    assert found.verdict is Verdict.UNHEALTHY
    assert any(Origin.SLICE in dict(one.claims) for one in found.disagreements)
    forming = active._replace(state=states.SliceState.ACTIVATING, reason="ACTIVATING", ready="False")
    assert health.judge(builders.cube("c"), now=NOW, slices=(forming,)).verdict is Verdict.HEALTHY


def test_a_degraded_slice_of_one_cube_is_about_that_cube() -> None:
    one = builders.slice_of(
        "s", "4x4x4", "c", state=states.SliceState.ACTIVE_DEGRADED, reason="ACTIVE_DEGRADED"
    )
    two = one._replace(partition_ids=("c", "d"))
    assert health.judge(builders.cube("c"), now=NOW, slices=(one,)).verdict is Verdict.DEGRADED
    assert health.judge(builders.cube("c"), now=NOW, slices=(two,)).verdict is Verdict.HEALTHY


# -- slices ----------------------------------------------------------------------------------------------


def slice_judged(
    *cubes: fleet.Cube, policy: values.HealthPolicy = values.DEFAULT_POLICY, **changes: object
) -> values.Judgement:
    """The judgement on slice `s` over these cubes, whose hosts carry its label."""
    labelled_cubes = [
        dataclasses.replace(cube, hosts=tuple(host._replace(slice_name="s") for host in cube.hosts))
        for cube in cubes
    ]
    shape = str(changes.pop("shape", {1: "4x4x4", 2: "4x4x8"}[len(cubes)]))
    ids = changes.pop("ids", tuple(cube.id for cube in cubes))
    item = builders.slice_of("s", shape, *ids, since=ago(minutes=5), **changes)
    snapshot = builders.fleet_of(*labelled_cubes, slices=(item,))
    judgements = {cube.id: health.judge(cube, policy, NOW) for cube in labelled_cubes}
    return health.judge_slice(snapshot, item, judgements, policy)


STATE = states.SliceState


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, Verdict.HEALTHY),
        ({"ready": "Unknown"}, Verdict.UNKNOWN),
        ({"state": STATE.ACTIVE_DEGRADED, "reason": "ACTIVE_DEGRADED"}, Verdict.DEGRADED),
        ({"state": STATE.FAILED, "reason": "FAILED", "ready": "False"}, Verdict.UNHEALTHY),
        ({"state": STATE.CREATION_FAILED, "reason": "SliceCreationFailed"}, Verdict.UNHEALTHY),
        ({"state": STATE.DEACTIVATING, "reason": "DEACTIVATING"}, Verdict.UNHEALTHY),
        ({"state": STATE.DEACTIVATING, "reason": "DEACTIVATING", "deleting": True}, Verdict.INCOMPLETE),
        ({"state": STATE.ACTIVATING, "reason": "ACTIVATING", "ready": "False"}, Verdict.INCOMPLETE),
        ({"state": STATE.CREATED, "reason": "", "ready": ""}, Verdict.INCOMPLETE),
        ({"state": STATE.UNKNOWN, "reason": "A_WORD_OF_TOMORROW", "ready": "True"}, Verdict.UNKNOWN),
    ],
)
def test_the_ready_condition_of_a_slice(changes: dict[str, object], verdict: Verdict) -> None:
    found = slice_judged(builders.cube("c"), builders.cube("d"), **changes)
    assert found.verdict is verdict, found.reasons


def test_a_node_that_is_gone_flags_its_slice_in_the_same_look() -> None:
    """jobset#574: a deleted node is trouble at once, not when something times out."""
    found = slice_judged(builders.cube("c", hosts=15), builders.cube("d"))
    assert found.verdict is Verdict.INCOMPLETE
    assert "31 of 32 hosts have a node" in found.reasons


def test_a_slice_whose_label_is_not_on_its_nodes_yet_is_not_ready() -> None:
    """skypilot#10140: ready too early."""
    cube = builders.cube("c")
    item = builders.slice_of("s", "4x4x4", "c")
    snapshot = builders.fleet_of(cube, slices=(item,))
    found = health.judge_slice(snapshot, item, {"c": health.judge(cube, now=NOW)})
    assert (found.verdict, found.reasons) == (
        Verdict.INCOMPLETE,
        ("0 of 16 hosts carry the slice's label",),
    )


def test_a_slice_is_as_ill_as_its_worst_cube_and_names_it() -> None:
    broken = builders.changed(builders.cube("d"), 2, chips=3)
    found = slice_judged(builders.cube("c"), broken)
    assert (found.verdict, found.where, found.usable_hosts) == (Verdict.UNHEALTHY, "VM", 31)
    assert found.reasons == ("cube d, host node-d-02: 3 of 4 chips can be used",)
    assert any(Origin.SLICE in dict(one.claims) for one in found.disagreements)


def test_a_degraded_slice_is_tolerated_for_a_while() -> None:
    degraded = {"state": STATE.ACTIVE_DEGRADED, "reason": "ACTIVE_DEGRADED"}
    patient = values.HealthPolicy(degraded_tolerance_s=600)
    assert slice_judged(builders.cube("c"), policy=patient, **degraded).is_tolerated
    assert not slice_judged(builders.cube("c"), **degraded).is_tolerated


def test_a_sub_slice_does_not_care_for_the_rest_of_its_cube() -> None:
    """Sub-slices of one cube are isolated from each other."""
    cube = builders.cube("c", state=states.PartitionState.UNHEALTHY)
    cube = builders.changed(cube, 9, ready=False)
    well = slice_judged(cube, shape="2x2x2", ids=("c.222.1",))
    assert (well.verdict, well.usable_hosts) == (Verdict.HEALTHY, 2)
    ill = slice_judged(cube, shape="2x2x2", ids=("c.222.4",))
    assert (ill.verdict, ill.usable_hosts) == (Verdict.UNHEALTHY, 1)


def test_a_part_is_judged_by_its_own_hosts_and_label() -> None:
    cube = builders.changed(builders.cube("c", state=UNHEALTHY), 0, ready=False)
    shape = topology.parse("2x2x2")
    assert health.judge_part(cube.hosts[2:4], shape, now=NOW).verdict is Verdict.HEALTHY
    assert health.judge_part(cube.hosts[0:2], shape, now=NOW).verdict is Verdict.UNHEALTHY
    assert health.judge_part(cube.hosts[2:3], shape, now=NOW).verdict is Verdict.INCOMPLETE
    assert health.judge_part((), shape, now=NOW).verdict is Verdict.INCOMPLETE


# -- whatever happens ------------------------------------------------------------------------------------

BAD_HOSTS = st.sampled_from(
    [
        {"ready": None},
        {"ready": False},
        {"chips": None},
        {"chips": 0},
        {"taints": ("cloud.google.com/impending-node-termination",)},
        {"conditions": (condition("KernelDeadlock", ""),)},
        {"conditions": (condition("DiskPressure", "Unknown"),)},
        {"partition_states": (states.PartitionState.UNKNOWN,) * 5},
        {"partition_states": (*(states.PartitionState.HEALTHY,) * 4, states.PartitionState.UNSET)},
        {"partition_states": (states.PartitionState.UNSET, *(states.PartitionState.HEALTHY,) * 4)},
    ]
)
BAD_CUBES = st.sampled_from(
    [
        {"sub_block": sub_block(health="")},
        {"sub_block": sub_block(health="NEW_WORD")},
        {"sub_block": sub_block(status="NEW_WORD")},
        {"sub_block": sub_block(topologies=counts(CUBE_=1))},
        {"pool": in_pool("NEW_WORD").pool},
        {"pool": in_pool("").pool},
    ]
)


@settings(max_examples=200, deadline=None)
@given(
    bad_hosts=st.dictionaries(st.integers(0, 15), BAD_HOSTS, max_size=4),
    bad_cube=st.none() | BAD_CUBES,
    up_s=st.integers(0, 10_000),
    settle_s=st.floats(0, 1e6),
    grace_s=st.floats(0, 1e6),
    with_now=st.booleans(),
)
def test_nothing_missing_or_unknown_is_ever_healthy(
    bad_hosts: dict[int, dict[str, object]],
    bad_cube: dict[str, object] | None,
    up_s: int,
    settle_s: float,
    grace_s: float,
    with_now: bool,
) -> None:
    cube = builders.cube("c")
    for index, changes in bad_hosts.items():
        cube = builders.changed(cube, index, **{"ready_since": ago(seconds=up_s), **changes})
    cube = dataclasses.replace(cube, **(bad_cube or {}))
    policy = values.HealthPolicy(settle_s=settle_s, not_ready_grace_s=grace_s)
    found = health.judge(cube, policy, NOW if with_now else None)
    # A condition from before the boot is over; every other fault on the lists must be seen.
    over = all("conditions" in changes for changes in bad_hosts.values()) and bad_cube is None
    if (bad_hosts or bad_cube) and not over:
        assert found.verdict is not Verdict.HEALTHY
        assert found.reasons
    if not bad_hosts and not bad_cube:
        assert found.verdict is Verdict.HEALTHY
    assert found.verdict is min(
        (item.points_to for item in found.evidence if item.points_to is not None),
        key=values.WORST_FIRST.index,
    )
    assert found == health.judge(cube, policy, NOW if with_now else None)
    assert 0 <= found.usable_hosts <= 16


@settings(max_examples=100, deadline=None)
@given(st.permutations(range(16)), st.integers(0, 15))
def test_the_order_of_hosts_does_not_matter(order: list[int], index: int) -> None:
    cube = builders.changed(builders.cube("c"), index, ready=False)
    shuffled = dataclasses.replace(cube, hosts=tuple(cube.hosts[i] for i in order))
    one, other = judged(cube), judged(shuffled)
    assert (one.verdict, one.reasons, one.domains) == (other.verdict, other.reasons, other.domains)
