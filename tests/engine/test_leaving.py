"""Sub-slices stay away from cubes that go away as a whole, and still fill those that are only incomplete."""

from __future__ import annotations

import dataclasses
import datetime

import pytest

from tests import builders
from tpuctl.engine import placement
from tpuctl.engine.inventory import stock
from tpuctl.model import fleet, reserved, states, topology

Obstacle = placement.Obstacle
NOW = builders.NOW
HOUR = datetime.timedelta(hours=1)
HALF = topology.parse("2x4x4")
SUB_SLICES = ("2x2x1", "2x2x2", "2x2x4", "2x4x4")


def request(shape: str, **changes: object) -> placement.Request:
    return placement.Request(topology=topology.parse(shape), **changes)


def with_pool(cube: fleet.Cube, status: states.PoolStatus) -> fleet.Cube:
    pool = reserved.NodePool(f"pool-{cube.id}", status, status.value, "sb", "b1", "r", "p", 16)
    return dataclasses.replace(cube, pool=pool)


def with_sub_block(cube: fleet.Cube, **changes: object) -> fleet.Cube:
    plain = reserved.SubBlock("sb", "", "HEALTHY", 16, 0, 16, 16)
    return dataclasses.replace(cube, sub_block=plain._replace(**changes))


def planned(cube: fleet.Cube, start: datetime.datetime, **status: object) -> fleet.Cube:
    end = start + 4 * HOUR
    window = reserved.Maintenance(start, end, **status)
    return with_sub_block(cube, maintenance=window, maintenance_start=start, maintenance_end=end)


def leaving(how: str, cube_id: str = "c0") -> fleet.Cube:
    """A cube that says of itself that all is well, and goes away."""
    cube = builders.cube(cube_id)
    return {
        "deleted": with_pool(cube, states.PoolStatus.STOPPING),
        "upgraded": with_pool(cube, states.PoolStatus.RECONCILING),
        "strange": with_pool(cube, states.PoolStatus.UNKNOWN),
        "in maintenance": planned(cube, NOW, status="ONGOING", hosts_ongoing=16),
        "soon in maintenance": planned(cube, NOW + HOUR),
        "given up": with_sub_block(cube, status="DELETING"),
        "invalid": with_sub_block(cube, status="INVALID"),
        "a word of tomorrow": with_sub_block(cube, status="MOVING"),
    }[how]


OBSTACLES = {
    "deleted": Obstacle.UNHEALTHY,
    "upgraded": Obstacle.DEGRADED,
    "strange": Obstacle.UNKNOWN,
    "in maintenance": Obstacle.UNHEALTHY,
    "soon in maintenance": Obstacle.DEGRADED,
    "given up": Obstacle.UNHEALTHY,
    "invalid": Obstacle.UNHEALTHY,
    "a word of tomorrow": Obstacle.UNKNOWN,
}


@pytest.mark.parametrize("shape", SUB_SLICES)
@pytest.mark.parametrize("how", OBSTACLES)
def test_no_sub_slice_goes_to_a_cube_that_goes_away(how: str, shape: str) -> None:
    snapshot = builders.fleet_of(leaving(how), builders.cube("c1"))
    found = placement.place(snapshot, request(shape))
    assert isinstance(found, placement.Placement)
    assert found.cubes == ("c1",)


@pytest.mark.parametrize("named", [(), ("c0",), ("c0.244.0", "c0.244.1")])
@pytest.mark.parametrize("how", OBSTACLES)
def test_the_refusal_says_what_is_wrong_with_it(how: str, named: tuple[str, ...]) -> None:
    refused = placement.place(builders.fleet_of(leaving(how)), request("2x4x4", cubes=named))
    assert isinstance(refused, placement.Refusal)
    assert dict(refused.candidates[0].obstacles) == {OBSTACLES[how]: 2}


@pytest.mark.parametrize("how", ["upgraded", "soon in maintenance"])
def test_a_tolerant_sub_slice_goes_there_when_nothing_else_is_left(how: str) -> None:
    wish = request("2x4x4", allow_degraded=True)
    snapshot = builders.fleet_of(leaving(how), builders.cube("c1"))
    order = []
    for number in range(4):
        found = placement.place(snapshot, wish)
        assert isinstance(found, placement.Placement)
        order.append(found.cubes[0])
        item = builders.slice_of(f"s{number}", "2x4x4", *found.partition_ids)
        snapshot = dataclasses.replace(snapshot, slices=(*snapshot.slices, item))
    assert order == ["c1", "c1", "c0", "c0"]


@pytest.mark.parametrize("how", ["upgraded", "soon in maintenance"])
def test_a_tolerant_slice_of_whole_cubes_takes_it_last(how: str) -> None:
    worn = builders.cube("c2", state=states.PartitionState.DEGRADED)
    snapshot = builders.fleet_of(leaving(how), builders.cube("c1"), worn)
    for cubes, wanted in ((1, ("c2",)), (2, ("c1", "c2")), (3, ("c0", "c1", "c2"))):
        found = placement.place(snapshot, request(f"4x4x{4 * cubes}", allow_degraded=True))
        assert isinstance(found, placement.Placement)
        assert found.cubes == wanted
    elsewhere = dataclasses.replace(builders.cube("d0"), block="b2")
    found = placement.place(
        builders.fleet_of(leaving(how), elsewhere), request("4x4x4", allow_degraded=True, keep_free=1)
    )
    assert isinstance(found, placement.Placement)
    assert found.cubes == ("c0",)


@pytest.mark.parametrize(
    "cube",
    [
        with_pool(builders.cube("c1", hosts=15), states.PoolStatus.RUNNING_WITH_ERROR),
        with_pool(builders.cube("c1", hosts=15), states.PoolStatus.PROVISIONING),
        with_pool(builders.cube("c1", hosts=15), states.PoolStatus.ERROR),
        with_sub_block(builders.cube("c1", hosts=15), status="CREATING"),
        with_sub_block(builders.changed(builders.cube("c1"), 9, ready=False), degraded_hosts=1),
        with_sub_block(builders.cube("c1"), health="DEGRADED", degraded_infra=2, healthy_infra=14),
        builders.cube("c1", state=states.PartitionState.DEGRADED),
    ],
    ids=["partly usable", "provisioning", "failed", "being made", "a host is broken", "OCS", "label"],
)
def test_what_only_whole_cubes_lose_is_still_filled_first(cube: fleet.Cube) -> None:
    found = placement.place(builders.fleet_of(builders.cube("c0"), cube), request("2x4x4"))
    assert isinstance(found, placement.Placement)
    assert found.cubes == ("c1",)


def test_maintenance_of_next_month_bars_nothing() -> None:
    later = planned(builders.cube("c0"), NOW + 30 * 24 * HOUR)
    index = stock.Stock(builders.fleet_of(later), stock.Terms())
    assert index.best_part(HALF) is not None


def test_nothing_of_it_counts_as_free_and_its_return_opens_it() -> None:
    index = stock.Stock(builders.fleet_of(leaving("deleted"), builders.cube("c1")), stock.Terms())
    index.take("s", 0, 0b10)
    slot = index.slot_of_cube["c0"]
    assert index.hosts(slot) == (0, 0, 16)
    assert index.best_part(HALF) is None
    index.replace(builders.cube("c0"))
    assert index.hosts(slot) == (16, 0, 0)
    found = index.best_part(HALF)
    assert found is not None
    assert found[0] is slot
