"""Placement: which cubes, why these, and why not."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import builders
from tpuctl.engine import forming, health, placement
from tpuctl.model import fleet, invariants, states, topology

CUBE = topology.CUBE
PAIR = topology.parse("4x4x8")


def request(shape: str, **changes: object) -> placement.Request:
    return placement.Request(topology=topology.parse(shape), **changes)


def test_the_smallest_block_that_suffices_is_chosen_and_cubes_in_order_of_id() -> None:
    snapshot = builders.fleet_of(
        *(builders.cube(f"a{i}", "big") for i in range(5)),
        *(builders.cube(f"b{i}", "fits") for i in range(3)),
        builders.cube("c0", "tiny"),
    )
    found = placement.place(snapshot, request("4x4x8"))
    assert isinstance(found, placement.Placement)
    assert (found.block, found.partition_ids) == ("fits", ("b0", "b1"))
    assert [(c.block, c.usable) for c in found.candidates] == [("big", 5), ("fits", 3), ("tiny", 1)]


def test_equal_blocks_are_decided_by_id() -> None:
    snapshot = builders.fleet_of(builders.cube("z", "b2"), builders.cube("y", "b1"))
    found = placement.place(snapshot, request("4x4x4"))
    assert isinstance(found, placement.Placement)
    assert found.block == "b1"


def broken(cube_id: str, how: str) -> fleet.Cube:
    if how == "incomplete":
        return builders.cube(cube_id, hosts=15)
    if how == "not ready":
        return builders.changed(builders.cube(cube_id), 4, ready=False)
    if how == "silent":
        return builders.changed(builders.cube(cube_id), 4, ready=None)
    if how == "cordoned":
        return builders.changed(builders.cube(cube_id), 4, schedulable=False)
    if how == "no nodes":
        return dataclasses.replace(builders.cube(cube_id), hosts=())
    return builders.cube(cube_id, state=states.partition_state(how))


@pytest.mark.parametrize(
    ("how", "obstacle"),
    [
        ("UNHEALTHY", placement.Obstacle.UNHEALTHY),
        ("UNSET", placement.Obstacle.UNKNOWN),
        ("a word of tomorrow", placement.Obstacle.UNKNOWN),
        ("DEGRADED", placement.Obstacle.DEGRADED),
        ("incomplete", placement.Obstacle.INCOMPLETE),
        ("not ready", placement.Obstacle.UNHEALTHY),
        ("silent", placement.Obstacle.UNKNOWN),
        ("cordoned", placement.Obstacle.CORDONED),
        ("no nodes", placement.Obstacle.NO_NODES),
    ],
)
def test_what_keeps_a_cube_out_is_counted_by_reason(how: str, obstacle: placement.Obstacle) -> None:
    snapshot = builders.fleet_of(broken("c1", how), builders.cube("c2"))
    found = placement.place(snapshot, request("4x4x8"))
    assert isinstance(found, placement.Refusal)
    assert found.candidates[0].obstacles == ((obstacle, 1),)
    assert (found.needed, found.usable, found.never) == (2, 1, False)


def test_degraded_is_usable_when_allowed_and_unhealthy_never_is() -> None:
    degraded = builders.cube("c1", state=states.PartitionState.DEGRADED)
    unhealthy = builders.cube("c2", state=states.PartitionState.UNHEALTHY)
    allowed = request("4x4x4", allow_degraded=True)
    assert isinstance(placement.place(builders.fleet_of(degraded), allowed), placement.Placement)
    assert isinstance(placement.place(builders.fleet_of(unhealthy), allowed), placement.Refusal)


def test_cubes_of_two_blocks_are_never_joined() -> None:
    snapshot = builders.fleet_of(builders.cube("a", "b1"), builders.cube("b", "b2"))
    found = placement.place(snapshot, request("4x4x8"))
    assert isinstance(found, placement.Refusal)
    assert found.never


@pytest.mark.parametrize(
    "state", [states.SliceState.FAILED, states.SliceState.CREATION_FAILED, states.SliceState.DEACTIVATING]
)
def test_a_slice_holds_its_cubes_until_its_object_is_gone(state: states.SliceState) -> None:
    snapshot = builders.fleet_of(
        builders.cube("c1"), slices=(builders.slice_of("old", "4x4x4", "c1", state=state, deleting=True),)
    )
    found = placement.place(snapshot, request("4x4x4"))
    assert isinstance(found, placement.Refusal)
    assert found.candidates[0].holders == (("old", 1),)


def test_a_sub_slice_in_a_cube_takes_the_whole_cube_from_larger_shapes_only() -> None:
    used = builders.slice_of("s", "2x2x2", "c1.222.0")
    snapshot = builders.fleet_of(builders.cube("c1"), slices=(used,))
    assert isinstance(placement.place(snapshot, request("4x4x4")), placement.Refusal)
    half = placement.place(snapshot, request("2x4x4"))
    assert isinstance(half, placement.Placement)
    assert half.partition_ids == ("c1.244.1",)


def test_sub_slices_go_to_spoiled_cubes_first_then_to_shared_ones() -> None:
    short = builders.cube("c2", hosts=15)
    held = (builders.slice_of("s", "2x2x1", "c3.221.0"), builders.slice_of("t", "2x4x4", "c2.244.0"))
    snapshot = builders.fleet_of(builders.cube("c1"), short, builders.cube("c3"), slices=held)
    for shape, wanted in (("2x2x1", "c2.221.14"), ("2x2x4", "c2.224.2"), ("2x4x4", "c3.244.1")):
        found = placement.place(snapshot, request(shape))
        assert isinstance(found, placement.Placement)
        assert found.partition_ids == (wanted,)
    unused = builders.fleet_of(builders.cube("c1"), builders.cube("c2", hosts=15))
    half = placement.place(unused, request("2x4x4"))
    assert isinstance(half, placement.Placement)
    assert half.partition_ids == ("c2.244.0",)


def test_given_cubes_are_used_or_refused_but_never_exchanged() -> None:
    snapshot = builders.fleet_of(*(builders.cube(f"c{i}") for i in range(4)))
    found = placement.place(snapshot, request("4x4x8", cubes=("c3", "c1")))
    assert isinstance(found, placement.Placement)
    assert found.partition_ids == ("c1", "c3")
    taken = dataclasses.replace(snapshot, slices=(builders.slice_of("s", "4x4x4", "c1"),))
    refused = placement.place(taken, request("4x4x8", cubes=("c3", "c1")))
    assert isinstance(refused, placement.Refusal)
    assert dict(refused.candidates[0].obstacles) == {
        placement.Obstacle.NOT_ASKED: 2,
        placement.Obstacle.IN_USE: 1,
    }


STATES = st.sampled_from(
    ["HEALTHY", "HEALTHY", "HEALTHY", "DEGRADED", "UNHEALTHY", "UNSET", "incomplete", "silent", "cordoned"]
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["b1", "b2", "b3"]), STATES), min_size=1, max_size=12), st.data())
def test_any_sequence_of_placements_keeps_the_rules(
    kinds: list[tuple[str, str]], data: st.DataObject
) -> None:
    cubes = [
        dataclasses.replace(broken(f"c{i:02}", how), block=block) for i, (block, how) in enumerate(kinds)
    ]
    snapshot = builders.fleet_of(*cubes)
    shapes = st.sampled_from(["4x4x4", "4x4x8", "4x4x12", "2x2x1", "2x2x4", "2x4x4"])
    for number in range(8):
        wish = request(data.draw(shapes), allow_degraded=data.draw(st.booleans()))
        found = placement.place(snapshot, wish)
        assert found == placement.place(snapshot, wish)
        if isinstance(found, placement.Refusal):
            assert found.usable < found.needed
            continue
        assert len(found.partition_ids) == len(set(found.partition_ids)) == wish.topology.partitions
        chosen = [snapshot.cubes_by_id[cube_id] for cube_id in found.cubes]
        assert {cube.block for cube in chosen} == {found.block}
        if not wish.topology.is_sub_slice:
            good = {states.Verdict.HEALTHY} | ({states.Verdict.DEGRADED} if wish.allow_degraded else set())
            assert {health.judge(cube).verdict for cube in chosen} <= good
        item = builders.slice_of(f"s{number}", str(wish.topology), *found.partition_ids)
        snapshot = dataclasses.replace(snapshot, slices=(*snapshot.slices, item))
        assert invariants.check_invariants(snapshot) == ()


def test_forming_again_as_asked_is_unchanged_whatever_the_order_of_cubes() -> None:
    there = builders.slice_of("s", "4x4x8", "c1", "c2")
    snapshot = builders.fleet_of(builders.cube("c1"), builders.cube("c2"), slices=(there,))
    for wish in (request("4x4x8"), request("4x4x8", cubes=("c2", "c1")), request("4x4x8", block="b1")):
        assert forming.plan_form(snapshot, "s", wish) == forming.Unchanged(slice=there)


@pytest.mark.parametrize(
    ("wish", "kind", "why"),
    [
        (request("4x4x4"), forming.ClashKind.OTHER_SPEC, "it is 4x4x8, not 4x4x4"),
        (request("4x4x8", cubes=("c1", "c3")), forming.ClashKind.OTHER_SPEC, "it uses other cubes"),
        (request("4x4x8", block="b2"), forming.ClashKind.OTHER_SPEC, "it is in block b1, not b2"),
    ],
)
def test_another_spec_under_the_name_is_a_clash(
    wish: placement.Request, kind: forming.ClashKind, why: str
) -> None:
    there = builders.slice_of("s", "4x4x8", "c1", "c2")
    snapshot = builders.fleet_of(*(builders.cube(f"c{i}") for i in range(1, 4)), slices=(there,))
    found = forming.plan_form(snapshot, "s", wish)
    assert isinstance(found, forming.Clash)
    assert (found.kind, found.why) == (kind, why)


def test_failed_and_dying_slices_are_not_taken_for_the_wish() -> None:
    failed = builders.slice_of(
        "s", "4x4x4", "c1", state=states.SliceState.FAILED, reason="FAILED", message="no"
    )
    found = forming.plan_form(builders.fleet_of(builders.cube("c1"), slices=(failed,)), "s", request("4x4x4"))
    assert isinstance(found, forming.Clash)
    assert (found.kind, found.why) == (forming.ClashKind.FAILED, "it is FAILED: no")
    dying = failed._replace(deleting=True)
    found = forming.plan_form(builders.fleet_of(builders.cube("c1"), slices=(dying,)), "s", request("4x4x4"))
    assert isinstance(found, forming.Clash)
    assert found.kind is forming.ClashKind.DELETING
