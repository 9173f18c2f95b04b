"""Counts of a fleet: from the objects, each chip once."""

from __future__ import annotations

import dataclasses

import pytest

from tests import builders
from tpuctl.model import declared, health, operations, reserved, states
from tpuctl.ops import gauges

CLASS = gauges.ChipClass
POLICY = health.DEFAULT_POLICY
RESERVED = reserved.SubBlock("sub-9", "9", "HEALTHY", 16, 0, 16, 0)


def counted(*cubes, blocks=(), claims=(), slices=()):
    snapshot = dataclasses.replace(builders.fleet_of(*cubes, slices=slices), claims=claims)
    found = gauges.count(snapshot, POLICY, blocks)
    assert sum(found.chips.values()) == 64 * len(cubes)
    return found


def chips(found):
    return {chip_class.value: number for chip_class, number in found.chips.items() if number}


def test_an_empty_fleet_counts_nothing_of_every_kind():
    found = gauges.count(builders.fleet_of(), POLICY)
    assert set(found.cubes) == set(states.Verdict)
    assert set(found.slices) == set(states.SliceState)
    assert set(found.chips) == set(CLASS)
    assert not any((*found.cubes.values(), *found.slices.values(), *found.chips.values()))


def test_each_cube_is_in_the_class_of_what_it_does():
    activating = states.SliceState.ACTIVATING
    found = counted(
        builders.cube("a00", "a"),
        builders.cube("a01", "a"),
        builders.cube("a02", "a"),
        builders.cube("a03", "a", hosts=13),
        builders.cube("a04", "a"),
        builders.changed(builders.cube("a05", "a"), 3, schedulable=False),
        builders.changed(builders.cube("a06", "a"), 3, maintenance_ongoing=True),
        builders.cube("a07", "a"),
        builders.cube("a08", "a"),
        dataclasses.replace(builders.cube("sub-9", "a", hosts=0), sub_block=RESERVED),
        slices=(
            builders.slice_of("run", "4x4x4", "a00"),
            builders.slice_of("new", "4x4x4", "a01", state=activating, reason="ACTIVATING", ready="False"),
            builders.slice_of("part", "2x2x4", "a02.224.0"),
        ),
        claims=(operations.Claim("a04", "hold by jo: burn-in"),),
        blocks=(declared.BlockSpec(name="a", spares=1),),
    )
    assert chips(found) == {
        "productive": 64 + 16,
        "restart": 64,
        "stranded": 48 + 52,
        "broken": 12,
        "drained": 64 + 64,
        "maintenance": 64,
        "spare": 64,
        "queue_idle": 64,
        "unprovisioned": 64,
    }
    assert (found.slices[states.SliceState.ACTIVE], found.slices[activating]) == (2, 1)
    assert found.cubes[states.Verdict.INCOMPLETE] == 2


def test_what_nobody_vouches_for_is_broken_not_free():
    unknown = builders.cube("a00", "a", state=states.PartitionState.UNKNOWN)
    found = counted(unknown)
    assert found.cubes[states.Verdict.UNKNOWN] == 1
    assert chips(found) == {"broken": 64}


def test_a_slice_being_deleted_is_not_productive():
    found = counted(builders.cube("a00"), slices=(builders.slice_of("x", "4x4x4", "a00", deleting=True),))
    assert chips(found) == {"restart": 64}


def test_a_host_that_two_slices_name_counts_once():
    both = (builders.slice_of("x", "4x4x4", "a00"), builders.slice_of("y", "4x4x4", "a00"))
    assert chips(counted(builders.cube("a00"), slices=both)) == {"productive": 64}


@pytest.mark.parametrize(("spares", "spare", "idle"), [(0, 0, 192), (2, 128, 64), (9, 192, 0)])
def test_spares_are_counted_up_to_the_declared_number(spares, spare, idle):
    cubes = [builders.cube(f"a{i:02}", "a") for i in range(3)]
    found = counted(*cubes, blocks=(declared.BlockSpec(name="a", spares=spares),))
    assert (found.chips[CLASS.SPARE], found.chips[CLASS.QUEUE_IDLE]) == (spare, idle)
