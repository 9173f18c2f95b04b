"""Maintenance windows from two sources, told once."""

import dataclasses
import datetime

from tests import builders
from tpuctl.model import fleet
from tpuctl.ops import maintenance

NOW = builders.NOW
SOON = NOW + datetime.timedelta(hours=5, microseconds=123_456)
LATER = NOW + datetime.timedelta(days=60)


def on_nodes(cube: fleet.Cube, hosts: int, **changes: object) -> fleet.Cube:
    for index in range(hosts):
        cube = builders.changed(cube, index, **changes)
    return cube


def planned(cube: fleet.Cube, plan: fleet.Maintenance) -> fleet.Cube:
    told = fleet.SubBlock("s", "id", "HEALTHY", 16, 0, 16, 16, plan.start, plan.end, maintenance=plan)
    return dataclasses.replace(cube, sub_block=told)


def test_reservation_and_labels_that_say_the_same_are_one_window() -> None:
    """Labels tell whole seconds, the reservation fractions of them."""
    plan = fleet.Maintenance(SOON, LATER, "PENDING", "SCHEDULED", can_reschedule=True)
    cube = planned(on_nodes(builders.cube("c"), 16, maintenance_at=SOON.replace(microsecond=0)), plan)
    item = builders.slice_of("s", "4x4x4", "c")
    (window,) = maintenance.windows(builders.fleet_of(cube, slices=(item,)))
    assert (window.scope, window.block, window.cube, window.hosts) == ("cube", "b1", "c", 16)
    assert (window.start, window.end, window.status, window.kind) == (SOON, LATER, "planned", "SCHEDULED")
    assert (window.slices, window.can_reschedule) == (("s",), True)
    assert window.told_by == (maintenance.RESERVATION, maintenance.NODES)


def test_what_only_nodes_tell_is_counted_by_time() -> None:
    cube = on_nodes(builders.cube("c"), 5, maintenance_at=LATER)
    cube = on_nodes(cube, 2, maintenance_at=SOON)
    found = maintenance.windows(builders.fleet_of(cube))
    assert [(window.start, window.hosts, window.told_by) for window in found] == [
        (SOON.replace(microsecond=0), 2, (maintenance.NODES,)),
        (LATER, 3, (maintenance.NODES,)),
    ]


def test_what_goes_on_comes_first_and_then_the_nearest() -> None:
    now = on_nodes(builders.cube("a"), 16, maintenance_ongoing=True)
    near = on_nodes(builders.cube("z"), 1, maintenance_at=SOON)
    snapshot = builders.fleet_of(planned(builders.cube("k"), fleet.Maintenance(LATER, None)), now, near)
    found = maintenance.windows(snapshot)
    assert [(window.cube, window.status) for window in found] == [
        ("a", "ongoing"),
        ("z", "planned"),
        ("k", "planned"),
    ]
    assert found[0].start is None


def test_running_maintenance_of_reservation_and_nodes_is_one_window() -> None:
    plan = fleet.Maintenance(SOON, LATER, "ONGOING")
    cube = planned(on_nodes(builders.cube("c"), 16, maintenance_ongoing=True), plan)
    (window,) = maintenance.windows(builders.fleet_of(cube))
    assert window.status == "ongoing"
    assert window.told_by == (maintenance.RESERVATION, maintenance.NODES)


def test_a_block_with_a_plan_has_a_line_of_its_own() -> None:
    cubes = (builders.cube("c"), builders.cube("d"))
    item = builders.slice_of("s", "4x4x4", "d")
    snapshot = builders.fleet_of(*cubes, slices=(item,))
    block = dataclasses.replace(snapshot.blocks[0], name="res-1", maintenance=fleet.Maintenance(SOON, None))
    (window,) = maintenance.windows(snapshot.with_blocks((block,)))
    assert (window.scope, window.block, window.cube, window.hosts) == ("block", "res-1", "", 32)
    assert window.slices == ("s",)


def test_nothing_planned() -> None:
    assert maintenance.windows(builders.fleet_of(builders.cube("c"))) == ()


def test_maintenance_of_one_cube_is_not_told_of_its_whole_block() -> None:
    plan = fleet.Maintenance(SOON, LATER, "PENDING", "SCHEDULED")
    cubes = (planned(builders.cube("c"), plan), builders.cube("d"))
    slices = (builders.slice_of("hit", "4x4x4", "c"), builders.slice_of("spared", "4x4x4", "d"))
    snapshot = builders.fleet_of(*cubes, slices=slices)
    block = dataclasses.replace(snapshot.blocks[0], maintenance=plan)
    whole, one = maintenance.windows(snapshot.with_blocks((block,)))
    assert (whole.scope, whole.cubes, whole.cubes_of_block) == ("block", ("c",), 2)
    assert (whole.hosts, whole.slices) == (16, ("hit",))
    assert (one.scope, one.cube, one.slices) == ("cube", "c", ("hit",))


def test_what_sub_blocks_plan_for_another_time_is_not_the_blocks_plan() -> None:
    cubes = (planned(builders.cube("c"), fleet.Maintenance(LATER, None)), builders.cube("d"))
    snapshot = builders.fleet_of(*cubes)
    block = dataclasses.replace(snapshot.blocks[0], maintenance=fleet.Maintenance(SOON, None))
    whole, _ = maintenance.windows(snapshot.with_blocks((block,)))
    assert (whole.cubes, whole.hosts) == ((), 32)
