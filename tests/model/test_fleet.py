"""The snapshot: lookups, invariants, and the way to a file and back."""

import copy
import dataclasses
import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import builders
from tpuctl.model import codec, errors, fleet, invariants, operations, states, topology


def small() -> fleet.Fleet:
    return builders.fleet_of(
        builders.cube("c1"),
        builders.cube("c2", hosts=15),
        builders.cube("c3", "b2", state=states.PartitionState.DEGRADED),
        slices=(
            builders.slice_of("whole", "4x4x4", "c1"),
            builders.slice_of("part", "2x2x2", "c2.222.1"),
            builders.slice_of("gone", "4x4x4", "nowhere"),
        ),
        pods=(
            builders.pod("p0", "node-c1-00"),
            builders.pod("p1", "node-c1-01", phase="Succeeded"),
            builders.pod("p2", "node-c2-02"),
            builders.pod("p3", "node-c2-04"),
        ),
    )


def test_slices_hold_cubes_through_partitions_of_any_shape() -> None:
    snapshot = small()
    assert snapshot.holders == {"c1": ("whole",), "c2": ("part",), "nowhere": ("gone",)}
    assert [host.name for host in snapshot.hosts_of(snapshot.slices_by_name["part"])] == [
        "node-c2-02",
        "node-c2-03",
    ]
    assert snapshot.cubes_of(snapshot.slices_by_name["gone"]) == ()


def test_only_unfinished_pods_on_the_slices_own_hosts_count() -> None:
    snapshot = small()
    whole = snapshot.hosts_of(snapshot.slices_by_name["whole"])
    part = snapshot.hosts_of(snapshot.slices_by_name["part"])
    assert [pod.name for pod in snapshot.pods_on(whole)] == ["p0"]
    assert [pod.name for pod in snapshot.pods_on(part)] == ["p2"]


def test_a_cube_has_31_partitions_in_a_binary_tree() -> None:
    partitions = builders.cube("c1").partitions
    counts = {shape: sum(item.shape == shape for item in partitions) for shape in topology.PARTITION_SHAPES}
    assert [counts[shape] for shape in topology.PARTITION_SHAPES] == [16, 8, 4, 2, 1]
    assert all(item.is_complete for item in partitions)


def test_fifteen_hosts_spoil_one_partition_of_each_shape() -> None:
    incomplete = [item for item in builders.cube("c1", hosts=15).partitions if not item.is_complete]
    assert sorted(str(item.shape) for item in incomplete) == ["2x2x2", "2x2x4", "2x4x4", "4x4x4"]
    assert {item.state for item in incomplete} == {states.PartitionState.INCOMPLETE}


def test_hosts_that_contradict_each_other_make_the_state_unknown() -> None:
    healthy = builders.cube("c1")
    labels = (*healthy.hosts[3].partition_states[:-1], states.PartitionState.UNHEALTHY)
    assert builders.changed(healthy, 3, partition_states=labels).state is states.PartitionState.UNKNOWN


def test_dump_and_load_give_the_same_fleet() -> None:
    document = codec.dump(small())
    assert document["apiVersion"] == "tpuctl/v1"
    assert codec.load(document) == small()


@given(st.data())
def test_a_damaged_dump_is_an_error_and_never_a_smaller_fleet(data: st.DataObject) -> None:
    document = copy.deepcopy(codec.dump(small()))
    place = document["fleet"]
    while True:
        key = data.draw(st.sampled_from(sorted(place)) if isinstance(place, dict) else st.just(0))
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.booleans()):
            break
        place = inner
    if isinstance(place, dict):
        place[f"{key}X"] = place.pop(key)
    else:
        place[key] = {"surprise": 1}
    with pytest.raises(errors.UsageError) as refused:
        codec.load(document)
    assert refused.value.message.startswith("fleet")


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"apiVersion": "tpuctl/v2"}, "expected tpuctl/v1"),
        ({"kind": "SliceList"}, "found tpuctl/v1 SliceList"),
        ({"fleet": None}, "fleet: expected a mapping"),
    ],
)
def test_other_files_are_refused(change: dict, place: str) -> None:
    with pytest.raises(codec.DumpError, match=place):
        codec.load({**codec.dump(small()), **change})


def test_invariants_hold_in_a_sound_fleet() -> None:
    assert invariants.check_invariants(small()) == ()


def test_each_broken_invariant_is_named() -> None:
    cube = builders.cube("c1")
    twice = builders.fleet_of(
        cube,
        builders.cube("c2"),
        builders.changed(builders.cube("c3"), 0, slice_name="ghost"),
        builders.changed(builders.cube("c4"), 0, cube_id="c9"),
        builders.changed(builders.cube("c5"), 0, slice_name="one"),
        slices=(
            builders.slice_of("one", "4x4x4", "c1"),
            builders.slice_of("two", "2x2x1", "c1.221.7"),
            builders.slice_of("late", "4x4x4", "c1", state=states.SliceState.CREATION_FAILED),
        ),
    )
    assert invariants.check_invariants(twice) == (
        "host node-c4-00 is listed in cube c4 and labelled c9",
        "host node-c1-07 is held by slices one and two",
        "host node-c3-00 is labelled with slice ghost, which does not exist",
        "host node-c5-00 is labelled with slice one, which does not list it",
    )


def test_words_that_the_service_may_add_stay_unknown() -> None:
    assert states.slice_state("WARP") is states.SliceState.UNKNOWN
    assert states.slice_state(None) is states.SliceState.CREATED
    assert states.slice_state("SliceNotCreated") is states.SliceState.NOT_CREATED
    assert states.partition_state("FINE") is states.PartitionState.UNKNOWN
    assert states.partition_state(None) is states.PartitionState.UNKNOWN
    assert not states.PartitionState.UNKNOWN.is_usable
    assert states.pool_status("PAUSED") is states.PoolStatus.UNKNOWN


# -- the same snapshot with other fields -----------------------------------------------------------------

LATER = small().observed_at + datetime.timedelta(hours=1)


def test_another_time_keeps_everything_that_is_known() -> None:
    before = small()
    tables = ("cubes", "cubes_by_id", "cube_of_partition", "slices_by_name", "holders", "claimants")
    known = {name: getattr(before, name) for name in tables}
    after = before.amended(observed_at=LATER)
    assert after == dataclasses.replace(before, observed_at=LATER)
    assert all(getattr(after, name) is table for name, table in known.items())


@pytest.mark.parametrize("field", ["blocks", "slices", "claims", "pods"])
def test_what_rests_on_a_field_is_made_anew_with_it(field: str) -> None:
    before = small()
    changes = {
        "blocks": before.blocks[:1],
        "slices": before.slices[:1],
        "claims": (operations.Claim("c2", "somebody"),),
        "pods": before.pods[:1],
    }
    tables = ("cubes", "cubes_by_id", "cube_of_partition", "slices_by_name", "holders", "claimants")
    for name in tables:
        getattr(before, name)
    after = before.amended(**{field: changes[field]})
    fresh = dataclasses.replace(before, **{field: changes[field]})
    assert {name: getattr(after, name) for name in tables} == {name: getattr(fresh, name) for name in tables}
    assert after.cubes_of(before.slices[1]) == fresh.cubes_of(before.slices[1])


def _pod_names(snapshot: fleet.Fleet) -> list[str]:
    return [pod.name for pod in snapshot.pods]


def test_what_was_derived_holds_while_only_the_time_changes() -> None:
    before = small()
    found = before.derived(_pod_names)
    assert before.derived(_pod_names) is found
    later = before.amended(observed_at=LATER, sources=())
    assert later.derived(_pod_names) is found
    fewer = later.amended(pods=before.pods[:1])
    assert fewer.derived(_pod_names) == ["p0"]
    assert before.derived(_pod_names) == ["p0", "p1", "p2", "p3"]


def with_stray() -> fleet.Fleet:
    made, strays = builders.unlabelled(builders.cube("c1"), 3)
    return dataclasses.replace(builders.fleet_of(made), strays=strays)


def test_nodes_without_labels_survive_a_dump() -> None:
    snapshot = with_stray()
    assert codec.load(codec.dump(snapshot)) == snapshot
    assert snapshot.cubes[0].missing_hosts == 0


def test_a_dump_of_an_earlier_version_tells_less_of_them() -> None:
    document = codec.dump(with_stray())
    [cube] = document["fleet"]["blocks"][0]["cubes"]
    del cube["strays"]
    document["fleet"]["strays"] = [{"node": "n", "why": "it has no label"}]
    found = codec.load(document)
    assert found.strays == (fleet.Stray("n", "it has no label"),)
    assert (found.cubes[0].strays, found.cubes[0].missing_hosts) == ((), 1)


def test_a_stray_of_a_cube_is_one_of_the_fleet() -> None:
    broken = dataclasses.replace(with_stray(), strays=())
    assert invariants.check_invariants(broken) == (
        "node node-c1-03 is listed as a stray of cube c1, and not as one of the fleet",
    )
