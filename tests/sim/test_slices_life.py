"""The life of a Slice: states and times, what is refused, what breaks, how it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.sim import cluster_world
from tpuctl.sim.controllers import slice_status, slices

if TYPE_CHECKING:
    from collections.abc import Iterator

FINALIZER = "accelerator.gke.io/slice-finalizer"


@pytest.fixture
def cluster() -> Iterator[cluster_world.Cluster]:
    made = cluster_world.Cluster(cluster_world.make())
    yield made
    cluster_world.check_invariants(made.world)


def test_one_cube_lives_through_the_published_states(cluster):
    cluster.create("a", "4x4x4", cluster.ids(0))
    assert cluster.history("a", 40) == [(0, ""), (1, "SliceNotCreated"), (3, "ACTIVATING"), (23, "ACTIVE")]
    cluster.delete("a")
    assert cluster.history("a", 40) == [(0, "DEACTIVATING"), (15, "INCOMPLETE"), (20, None)]


def test_formation_takes_longer_with_more_cubes():
    place = cluster_world.make(cubes=32)
    cluster = cluster_world.Cluster(place)
    cluster.create("a", "8x16x16", cluster.ids(*range(32)))
    assert cluster.history("a", 60)[-1] == (44, "ACTIVE")
    cluster.advance(1)
    assert len(cluster.labelled("a")) == 512
    cluster_world.check_invariants(place)


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        ("SliceNotCreated", "False"),
        ("SliceCreationFailed", "False"),
        ("ACTIVATING", "False"),
        ("ACTIVE", "True"),
        ("ACTIVE_DEGRADED", "True"),
        ("FAILED", "False"),
        ("DEACTIVATING", "False"),
        ("INCOMPLETE", "False"),
    ],
)
def test_status_of_each_reason(reason, status):
    obj = {}
    slice_status.set_ready(obj, reason, "text", "2026-01-05T08:00:00Z")
    [condition] = obj["status"]["conditions"]
    assert condition == {
        "type": "Ready",
        "status": status,
        "reason": reason,
        "message": "text",
        "lastTransitionTime": "2026-01-05T08:00:00Z",
    }


def test_transition_time_moves_with_the_reason_only():
    obj = {}
    slice_status.set_ready(obj, "ACTIVATING", "one", "2026-01-05T08:00:00Z")
    slice_status.set_ready(obj, "ACTIVATING", "two", "2026-01-05T08:00:10Z")
    assert obj["status"]["conditions"][0]["lastTransitionTime"] == "2026-01-05T08:00:00Z"
    slice_status.set_ready(obj, "FAILED", "two", "2026-01-05T08:00:20Z")
    assert obj["status"]["conditions"][0]["lastTransitionTime"] == "2026-01-05T08:00:20Z"


def test_finalizer_and_labels_follow_the_life(cluster):
    created = cluster.create("a", "4x4x8", cluster.ids(0, 1))
    assert "finalizers" not in created["metadata"]
    cluster.advance(1)
    assert cluster.slice("a")["metadata"]["finalizers"] == [FINALIZER]
    cluster.advance(26.5)
    assert cluster.reason("a") == "ACTIVE"
    assert cluster.labelled("a") == []
    cluster.advance(1)
    assert len(cluster.labelled("a")) == 32
    labels = cluster.node(1, 7)["metadata"]["labels"]
    assert labels["cloud.google.com/gke-tpu-topology"] == "4x4x8"
    cluster.delete("a")
    cluster.advance(1)
    assert cluster.labelled("a") == []
    assert "cloud.google.com/gke-tpu-topology" not in cluster.node(1, 7)["metadata"]["labels"]
    assert cluster.reason("a") == "DEACTIVATING"


def test_status_changes_leave_the_generation_alone(cluster):
    cluster.form("a", "4x4x4", cluster.ids(0))
    assert cluster.slice("a")["metadata"]["generation"] == 1


def test_a_slice_deleted_before_the_controller_saw_it_is_gone_at_once(cluster):
    cluster.create("a", "4x4x4", cluster.ids(0))
    cluster.delete("a")
    assert cluster.reason("a") is None
    cluster.advance(60)
    cluster.form("b", "4x4x4", cluster.ids(0))


def test_deletion_while_activating_gives_the_partitions_back(cluster):
    cluster.create("a", "4x4x4", cluster.ids(0))
    cluster.advance(10)
    assert cluster.reason("a") == "ACTIVATING"
    cluster.delete("a")
    cluster.advance(40)
    assert cluster.reason("a") is None
    cluster.form("b", "4x4x4", cluster.ids(0))
    assert cluster.labelled("a") == []


def test_events_tell_the_story(cluster):
    cluster.form("a", "4x4x4", cluster.ids(0))
    assert cluster.events("a") == ["SliceNotCreated", "ACTIVATING", "ACTIVE"]
    [event] = [one for one in cluster.store.list("events") if one["reason"] == "ACTIVE"]
    assert event["involvedObject"]["kind"] == "Slice"
    assert event["metadata"]["namespace"] == "default"
    assert event["type"] == "Normal"


def test_a_name_can_be_used_again_once_the_old_slice_is_gone(cluster):
    first = cluster.form("a", "4x4x4", cluster.ids(0))
    cluster.delete("a")
    cluster.advance(20)
    second = cluster.form("a", "4x4x4", cluster.ids(1))
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert len(cluster.labelled("a")) == 16


# Refusals of the controller


def refused(cluster: cluster_world.Cluster, name: str) -> str:
    cluster.advance(5)
    assert cluster.reason(name) == "SliceCreationFailed"
    assert cluster.condition(name)["status"] == "False"
    return cluster.message(name)


def test_unknown_partition(cluster):
    cluster.create("a", "4x4x8", [*cluster.ids(0), "0" * 32])
    assert "0" * 32 in refused(cluster, "a")


def test_partition_of_another_shape(cluster):
    cluster.create("a", "4x4x4", [cluster.part("2x2x2")])
    assert "no 4x4x4 partition" in refused(cluster, "a")


def test_wrong_count_that_the_webhook_did_not_see(cluster):
    cluster.create("a", "4x4x8", cluster.ids(0))
    assert "needs exactly 2 partitionIds, not 1" in refused(cluster, "a")


def test_cube_without_nodes():
    place = cluster_world.make(cubes=1, hardware_cubes=2)
    cluster = cluster_world.Cluster(place)
    cluster.create("a", "4x4x8", cluster.ids(0, 1))
    assert "no nodes for partition" in refused(cluster, "a")


@pytest.mark.parametrize("state", ["ACTIVATING", "ACTIVE", "DEACTIVATING", "INCOMPLETE"])
def test_overlap_with_a_slice_in_any_state_that_holds_hardware(cluster, state):
    cluster.create("a", "4x4x4", cluster.ids(0))
    cluster.advance(10 if state == "ACTIVATING" else 30)
    if state in ("DEACTIVATING", "INCOMPLETE"):
        cluster.delete("a")
        cluster.advance(12 if state == "INCOMPLETE" else 0)
    cluster.create("b", "4x4x8", cluster.ids(0, 1))
    cluster.advance(3)
    assert cluster.reason("a") == state
    assert cluster.reason("b") == "SliceCreationFailed"
    assert cluster.message("b").endswith("16 nodes are already used by slice a.")


@pytest.mark.parametrize(
    ("held", "wanted"), [("4x4x4", "2x2x2"), ("2x2x2", "4x4x4"), ("2x4x4", "2x2x1"), ("2x2x1", "2x2x4")]
)
def test_overlap_between_shapes(cluster, held, wanted):
    cluster.form("a", held, [cluster.part(held)])
    cluster.create("b", wanted, [cluster.part(wanted)])
    assert "already used by slice a" in refused(cluster, "b")


def test_first_of_two_overlapping_slices_wins(cluster):
    cluster.create("a", "4x4x8", cluster.ids(0, 1))
    cluster.create("b", "4x4x8", cluster.ids(1, 2))
    cluster.advance(60)
    assert (cluster.reason("a"), cluster.reason("b")) == ("ACTIVE", "SliceCreationFailed")


def test_partitions_settle_after_a_deletion(cluster):
    cluster.form("a", "4x4x4", cluster.ids(0))
    cluster.delete("a")
    cluster.advance(20)
    assert cluster.reason("a") is None
    cluster.create("b", "2x2x2", [cluster.part("2x2x2")])
    assert "an earlier slice is still attached to the nodes: a" in refused(cluster, "b")
    cluster.delete("b")
    cluster.advance(10)
    cluster.form("c", "2x2x2", [cluster.part("2x2x2")])


def test_a_refused_slice_stays_refused(cluster):
    cluster.form("a", "4x4x4", cluster.ids(0))
    cluster.create("b", "4x4x4", cluster.ids(0))
    refused(cluster, "b")
    cluster.delete("a")
    cluster.advance(600)
    assert cluster.reason("b") == "SliceCreationFailed"


def test_retry_annotation_tries_until_the_slice_forms(cluster):
    cluster.form("a", "4x4x4", cluster.ids(0))
    cluster.create("b", "4x4x4", cluster.ids(0), retry=True)
    refused(cluster, "b")
    cluster.delete("a")
    cluster.advance(20)
    assert cluster.reason("b") == "SliceCreationFailed"
    cluster.advance(60)
    assert cluster.reason("b") == "ACTIVE"


def test_retry_annotation_added_later_counts(cluster):
    cluster.form("a", "4x4x4", cluster.ids(0))
    cluster.create("b", "4x4x4", cluster.ids(0))
    refused(cluster, "b")
    cluster.delete("a")
    cluster.advance(60)

    def annotate(obj):
        obj["metadata"]["annotations"] = {"slice.gke.io/retry-on-failure": "true"}

    cluster.store.mutate(slices.SLICES, None, "b", annotate)
    cluster.advance(60)
    assert cluster.reason("b") == "ACTIVE"


def test_partitions_of_two_blocks_fail():
    place = cluster_world.make(cubes=3, blocks=2, hardware_cubes=2)
    cluster = cluster_world.Cluster(place)
    cluster.create("a", "4x4x8", cluster.ids(1, 2))
    assert cluster.history("a", 20)[1:] == [(1, "SliceNotCreated"), (3, "ACTIVATING"), (8, "FAILED")]
    assert "different reservation blocks" in cluster.message("a")
    assert cluster.labelled("a") == []
    cluster_world.check_invariants(place)


def test_formation_times_out_when_a_host_dies_meanwhile(cluster):
    cluster.create("a", "4x4x4", cluster.ids(0))
    cluster.advance(5)
    cluster.world.hardware.host_down(cluster.host(0, 3))
    assert cluster.history("a", 200)[1:] == [(178, "FAILED")]
    assert "timed out: 1 of 16 nodes" in cluster.message("a")


def test_formation_ends_when_the_host_comes_back_in_time(cluster):
    cluster.create("a", "4x4x4", cluster.ids(0))
    cluster.advance(5)
    cluster.world.hardware.host_down(cluster.host(0, 3), repair_after_s=20)
    cluster.advance(100)
    assert cluster.reason("a") == "ACTIVE"


# Sub-slices


def test_a_cube_takes_any_mix_that_is_a_tree(cluster):
    cluster.form("a", "2x2x4", [cluster.part("2x2x4", 0)])
    cluster.form("b", "2x2x2", [cluster.part("2x2x2", 2)])
    cluster.form("c", "2x2x1", [cluster.part("2x2x1", 6)])
    cluster.form("d", "2x4x4", [cluster.part("2x4x4", 1)])
    assert [len(cluster.labelled(name)) for name in "abcd"] == [4, 2, 1, 8]


def test_sub_slices_of_a_cube_are_isolated(cluster):
    cluster.form("a", "2x2x4", [cluster.part("2x2x4", 0)])
    cluster.form("b", "2x2x4", [cluster.part("2x2x4", 1)])
    cluster.world.hardware.host_down(cluster.host(0, 0))
    cluster.advance(60)
    assert (cluster.reason("a"), cluster.reason("b")) == ("FAILED", "ACTIVE")


def test_an_incomplete_cube_serves_its_complete_parts_only():
    place = cluster_world.make(cubes=0, hardware_cubes=1)
    cluster = cluster_world.Cluster(place)
    place.hardware.partial(cluster.cubes[0], hosts=15)
    cluster_world.ready.set_up(place, 1)
    assert cluster.state(0) == "INCOMPLETE"
    assert cluster.state(0, 14, "2x4x4") == "INCOMPLETE"
    assert cluster.state(0, 14, "2x2x1") == "HEALTHY"
    assert cluster.state(0, 0, "2x4x4") == "HEALTHY"
    cluster.create("a", "4x4x4", cluster.ids(0))
    assert "(INCOMPLETE)" in refused(cluster, "a")
    cluster.form("b", "2x4x4", [cluster.part("2x4x4", 0)])
    place.hardware.host_up(cluster.host(0, 15))
    cluster.advance(150)
    assert cluster.state(0, 15) == "HEALTHY"


# Health


def test_a_degraded_cube_degrades_its_slice_and_comes_back(cluster):
    cluster.form("a", "4x4x8", cluster.ids(0, 1))
    cluster.world.hardware.cube_degraded(cluster.cubes[1])
    assert cluster.history("a", 20)[1:] == [(10, "ACTIVE_DEGRADED")]
    assert cluster.condition("a")["status"] == "True"
    assert cluster.state(1) == "DEGRADED"
    assert cluster.state(1, 0, "2x4x4") == "HEALTHY"
    assert len(cluster.labelled("a")) == 32
    cluster.world.hardware.cube_restored(cluster.cubes[1])
    assert cluster.history("a", 20)[1:] == [(10, "ACTIVE")]


def test_a_slice_formed_from_a_degraded_cube_is_degraded(cluster):
    cluster.world.hardware.cube_degraded(cluster.cubes[0])
    cluster.advance(10)
    cluster.create("a", "4x4x4", cluster.ids(0))
    cluster.advance(30)
    assert cluster.reason("a") == "ACTIVE_DEGRADED"


def test_a_degraded_cube_does_not_touch_sub_slices(cluster):
    cluster.form("a", "2x4x4", [cluster.part("2x4x4")])
    cluster.world.hardware.cube_degraded(cluster.cubes[0])
    cluster.advance(30)
    assert cluster.reason("a") == "ACTIVE"


def test_a_dead_host_breaks_the_slice(cluster):
    cluster.form("a", "4x4x8", cluster.ids(0, 1))
    cluster.world.hardware.host_down(cluster.host(1, 4))
    assert cluster.history("a", 30)[1:] == [(5, "DEACTIVATING"), (20, "FAILED")]
    assert "deletionTimestamp" not in cluster.slice("a")["metadata"]
    assert "1 of 32 nodes failed" in cluster.message("a")
    assert cluster.labelled("a") == []
    assert cluster.events("a")[-1] == "FAILED"


def test_a_broken_slice_holds_its_partitions_until_it_is_deleted(cluster):
    cluster.form("a", "4x4x8", cluster.ids(0, 1))
    cluster.world.hardware.host_down(cluster.host(1))
    cluster.advance(30)
    cluster.create("b", "4x4x4", cluster.ids(0))
    assert "already used by slice a" in refused(cluster, "b")
    cluster.delete("a")
    cluster.delete("b")
    cluster.advance(60)
    cluster.form("c", "4x4x4", cluster.ids(0))


def test_failed_slices_may_be_set_to_hold_nothing():
    place = cluster_world.make(failed_slices_hold_partitions=False, broken_slices_deactivate=False)
    cluster = cluster_world.Cluster(place)
    cluster.form("a", "4x4x8", cluster.ids(0, 1))
    place.hardware.host_down(cluster.host(1))
    assert cluster.history("a", 30)[1:] == [(5, "FAILED")]
    cluster.form("b", "4x4x4", cluster.ids(0))
    cluster_world.check_invariants(place)


def test_a_broken_slice_can_be_deleted_while_it_deactivates(cluster):
    cluster.form("a", "4x4x4", cluster.ids(0))
    cluster.world.hardware.host_down(cluster.host(0))
    cluster.advance(8)
    assert cluster.reason("a") == "DEACTIVATING"
    cluster.delete("a")
    assert cluster.history("a", 60)[1:] == [(15, "INCOMPLETE"), (20, None)]


def test_dead_host_in_a_free_cube_makes_it_unusable(cluster):
    cluster.world.hardware.host_down(cluster.host(0, 5))
    cluster.advance(10)
    assert cluster.state(0) == "UNHEALTHY"
    assert cluster.state(0, 5, "2x2x1") == "UNHEALTHY"
    assert cluster.state(0, 4, "2x2x1") == "HEALTHY"
    cluster.create("a", "4x4x4", cluster.ids(0))
    assert "(UNHEALTHY)" in refused(cluster, "a")


def test_a_slice_formed_on_stale_labels_does_not_become_active(cluster):
    cluster.create("a", "4x4x4", cluster.ids(0))
    cluster.world.hardware.host_down(cluster.host(0))
    cluster.advance(3)
    assert cluster.reason("a") == "ACTIVATING"
    cluster.advance(30)
    assert cluster.reason("a") == "ACTIVATING"


# Force and switches


def test_taking_the_finalizer_by_force_leaves_the_hardware_attached(cluster):
    cluster.form("a", "4x4x4", cluster.ids(0))
    cluster.delete("a")
    cluster.store.remove_finalizer(slices.SLICES, None, "a", FINALIZER)
    assert cluster.reason("a") is None
    cluster.create("b", "4x4x4", cluster.ids(0))
    assert "already used by slice a" in refused(cluster, "b")
    cluster.delete("b")
    cluster.advance(60)
    cluster.form("c", "4x4x4", cluster.ids(0))


def test_finalizer_taken_before_the_deletion(cluster):
    cluster.form("a", "4x4x4", cluster.ids(0))
    cluster.store.remove_finalizer(slices.SLICES, None, "a", FINALIZER)
    cluster.delete("a")
    assert cluster.reason("a") is None
    cluster.create("b", "4x4x4", cluster.ids(0))
    assert "already used by slice a" in refused(cluster, "b")
    cluster.advance(30)
    assert cluster.labelled("a") == []


def test_slices_in_use_are_named_for_their_pools(cluster):
    cluster.form("a", "4x4x8", cluster.ids(0, 1))
    cluster.form("b", "2x2x1", [cluster.part("2x2x1", 0, cube=2)])
    assert cluster.world.slices.using_pool("cube-0001-0002") == ["a"]
    assert cluster.world.slices.using_pool("cube-0001-0003") == ["b"]
    assert cluster.world.slices.using_pool("cube-0001-0004") == []
    assert cluster.world.slices.topologies("cube-0001-0001") == [
        {"acceleratorTopology": "4x4x8", "state": "ACTIVE"}
    ]


def test_controller_switched_off_and_on_takes_over_what_is_there(cluster):
    cluster.form("a", "4x4x4", cluster.ids(0))
    cluster.create("b", "4x4x4", cluster.ids(1))
    cluster.world.slices.stop()
    cluster.advance(100)
    assert cluster.reason("b") == ""
    cluster.world.slices.start()
    cluster.advance(100)
    assert (cluster.reason("a"), cluster.reason("b")) == ("ACTIVE", "ACTIVE")
    cluster.create("c", "4x4x4", cluster.ids(0))
    assert "already used by slice a" in refused(cluster, "c")


def test_same_seed_and_calls_give_the_same_objects():
    def run(seed: int) -> list[dict]:
        cluster = cluster_world.Cluster(cluster_world.make(cubes=3, seed=seed))
        cluster.form("a", "4x4x8", cluster.ids(0, 1))
        cluster.world.hardware.host_down(cluster.host(0, 2))
        cluster.advance(30)
        cluster.delete("a")
        cluster.advance(60)
        keys = ("nodes", "events", slices.SLICES)
        return [obj for key in keys for obj in cluster.store.list(key)]

    assert run(7) == run(7)
    assert run(7) != run(8)
