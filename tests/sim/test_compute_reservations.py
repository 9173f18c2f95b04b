"""Reservations, blocks and sub-blocks through the real Compute clients."""

from __future__ import annotations

import pytest
import requests
from google.api_core import exceptions

from tests.sim import google_world as gw

WHERE = {"project": gw.PROJECT, "zone": gw.ZONE}
BLOCK = "resv-block-0001"
PARENT = f"reservations/resv/reservationBlocks/{BLOCK}"


@pytest.fixture
def world():
    built = gw.build(cubes=5, blocks=2)
    built.make_policy()
    with gw.served(built):
        yield built


def get_cube(world, number):
    answer = world.subblocks().get(
        **WHERE, parent_name=PARENT, reservation_sub_block=f"{BLOCK}-subblock-{number:04}"
    )
    return answer.resource


def get_block(world, **view):
    request = {**WHERE, "reservation": "resv", "reservation_block": BLOCK, **view}
    return world.blocks().get(request=request).resource


def topologies(cube):
    return {
        info.accelerator_topology: {state.state: state.count for state in info.info_per_topology_states}
        for info in cube.accelerator_topologies_info.accelerator_topology_infos
    }


def test_a_reservation_counts_chips_and_blocks(world):
    gw.fill(world, 1)
    (home,) = world.reservations().list(**WHERE)
    assert home == world.reservations().get(**WHERE, reservation="resv")
    assert (home.name, home.status, home.deployment_type, home.scheduling_type) == (
        "resv",
        "READY",
        "DENSE",
        "GROUPED",
    )
    assert home.advanced_deployment_control.reservation_operational_mode == "ALL_CAPACITY"
    reserved = home.aggregate_reservation.reserved_resources[0].accelerator
    assert reserved.accelerator_count == 2 * 5 * 64
    assert reserved.accelerator_type.endswith("/acceleratorTypes/tpu7x")
    assert home.aggregate_reservation.in_use_resources[0].accelerator.accelerator_count == 64
    assert home.resource_status.reservation_block_count == 2
    assert home.resource_status.health_info.health_status == "HEALTHY"
    assert home.resource_status.health_info.healthy_block_count == 2


def test_blocks_count_hosts_and_cubes(world):
    world.machines.partial(world.cubes[2], hosts=15)
    gw.fill(world, 1, 2)
    first, second = world.blocks().list(**WHERE, reservation="resv")
    assert (first.count, first.in_use_count, first.in_use_host_count) == (80, 32, 32)
    assert (first.reservation_sub_block_count, first.reservation_sub_block_in_use_count) == (5, 2)
    health = first.health_info
    assert (health.health_status, health.healthy_sub_block_count, health.degraded_sub_block_count) == (
        "DEGRADED",
        4,
        1,
    )
    assert (second.in_use_count, second.health_info.health_status) == (0, "HEALTHY")
    cube = world.cubes[0]
    assert first.physical_topology.block == cube.block.id
    assert first.physical_topology.cluster == cube.block.reservation.cluster_id
    assert first.physical_topology.block != second.physical_topology.block
    assert BLOCK not in first.physical_topology.block


def test_only_the_full_view_of_a_block_names_instances(world):
    gw.fill(world, 2)
    assert len(get_block(world).physical_topology.instances) == 0
    assert len(get_block(world, view="BASIC").physical_topology.instances) == 0
    shown = get_block(world, view="FULL").physical_topology.instances
    cube = world.cubes[1]
    assert [int(one.instance_id) for one in shown] == [int(host.vm.id) for host in cube.hosts]
    assert {one.physical_host_topology.sub_block for one in shown} == {cube.id}
    assert [one.physical_host_topology.host for one in shown] == [host.id for host in cube.hosts]


def test_a_wrong_view_is_refused(world):
    answer = requests.get(
        f"{world.host}/compute/v1/projects/{gw.PROJECT}/zones/{gw.ZONE}/{PARENT}?view=SOME",
        headers={"Authorization": f"Bearer {gw.TOKEN}"},
        timeout=10,
    )
    assert answer.status_code == 400


def test_a_sub_block_in_full(world):
    cube = get_cube(world, 1)
    assert (cube.name, cube.count, cube.in_use_count, cube.status) == (
        f"{BLOCK}-subblock-0001",
        16,
        0,
        "READY",
    )
    physical = world.cubes[0]
    assert cube.physical_topology.sub_block == physical.id
    assert cube.physical_topology.block == physical.block.id
    health = cube.health_info
    assert (health.health_status, health.healthy_host_count, health.degraded_host_count) == ("HEALTHY", 16, 0)
    assert topologies(cube) == {
        "2x2x1": {"AVAILABLE": 16},
        "2x2x2": {"AVAILABLE": 8},
        "2x2x4": {"AVAILABLE": 4},
        "2x4x4": {"AVAILABLE": 2},
        "4x4x4": {"AVAILABLE": 1},
    }
    assert cube.reservation_sub_block_maintenance.scheduling_type == "GROUPED"
    assert cube.id > 0


def test_a_broken_host_degrades_every_shape_it_is_in(world):
    gw.fill(world, 1)
    world.machines.host_down(world.cubes[0].hosts[5])
    cube = get_cube(world, 1)
    assert cube.health_info.health_status == "DEGRADED"
    assert (cube.health_info.healthy_host_count, cube.health_info.degraded_host_count) == (15, 1)
    assert cube.in_use_count == 16
    assert topologies(cube) == {
        "2x2x1": {"RUNNING": 15, "DEGRADED": 1},
        "2x2x2": {"RUNNING": 7, "DEGRADED": 1},
        "2x2x4": {"RUNNING": 3, "DEGRADED": 1},
        "2x4x4": {"RUNNING": 1, "DEGRADED": 1},
        "4x4x4": {"DEGRADED": 1},
    }


def test_a_broken_link_shows_in_the_infra_counts_only(world):
    world.machines.cube_degraded(world.cubes[0])
    health = get_cube(world, 1).health_info
    assert (health.health_status, health.degraded_host_count, health.degraded_infra_count) == (
        "DEGRADED",
        0,
        1,
    )
    assert topologies(get_cube(world, 1))["4x4x4"] == {"AVAILABLE": 1}


def test_planned_maintenance_shows_at_every_level(world):
    gw.fill(world, 1)
    world.machines.plan_maintenance(world.cubes[0], start_in_s=3600, duration_s=7200)
    info = get_cube(world, 1).reservation_sub_block_maintenance
    assert (info.maintenance_pending_count, info.instance_maintenance_pending_count) == (1, 16)
    assert info.upcoming_group_maintenance.maintenance_status == "PENDING"
    assert info.upcoming_group_maintenance.window_start_time == "2026-01-05T09:05:00.000000Z"
    assert get_block(world).reservation_maintenance.maintenance_pending_count == 1
    world.clock.advance(3600)
    info = get_cube(world, 1).reservation_sub_block_maintenance
    assert (info.maintenance_pending_count, info.maintenance_ongoing_count) == (0, 1)
    assert info.upcoming_group_maintenance.maintenance_status == "ONGOING"
    world.clock.advance(7200)
    assert get_cube(world, 1).reservation_sub_block_maintenance.maintenance_ongoing_count == 0


def test_lists_come_in_pages(world):
    pager = world.subblocks().list(request={**WHERE, "parent_name": PARENT, "max_results": 2})
    pages = [[cube.name[-4:] for cube in page.items] for page in pager.pages]
    assert pages == [["0001", "0002"], ["0003", "0004"], ["0005"]]


def test_a_page_token_that_was_never_given_is_refused(world):
    request = {**WHERE, "parent_name": PARENT, "page_token": "nonsense"}
    with pytest.raises(exceptions.BadRequest, match="pageToken"):
        world.subblocks().list(request=request)
    request = {**WHERE, "parent_name": PARENT, "max_results": 501}
    with pytest.raises(exceptions.BadRequest, match="maxResults"):
        world.subblocks().list(request=request)


@pytest.mark.parametrize(
    "extra",
    [
        {"filter": "name=x"},
        {"filter": '(name eq ".*1") (status eq "READY")'},
        {"order_by": "creationTimestamp desc"},
    ],
)
def test_other_filters_and_orders_are_not_simulated(world, extra):
    with pytest.raises(exceptions.MethodNotImplemented):
        world.subblocks().list(request={**WHERE, "parent_name": PARENT, **extra})


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('name eq ".*000[12]"', ["0001", "0002"]),
        ("name eq '.*0003'", ["0003"]),
        ("name ne .*000[1-4]", ["0005"]),
        ('name eq "0001"', []),
    ],
)
def test_a_filter_matches_the_whole_of_one_field(world, text, left):
    found = world.subblocks().list(request={**WHERE, "parent_name": PARENT, "filter": text, "max_results": 1})
    assert [cube.name[-4:] for cube in found] == left


@pytest.mark.parametrize("text", ['colour eq "red"', 'name eq "*"'])
def test_a_filter_that_makes_no_sense_is_refused(world, text):
    with pytest.raises(exceptions.BadRequest, match="Invalid list filter expression"):
        world.subblocks().list(request={**WHERE, "parent_name": PARENT, "filter": text})


def test_what_does_not_exist(world):
    with pytest.raises(exceptions.NotFound, match="reservations/other' was not found"):
        world.reservations().get(**WHERE, reservation="other")
    with pytest.raises(exceptions.NotFound, match="reservationBlocks/other' was not found"):
        world.blocks().get(**WHERE, reservation="resv", reservation_block="other")
    with pytest.raises(exceptions.NotFound, match="reservationSubBlocks/other' was not found"):
        world.subblocks().get(**WHERE, parent_name=PARENT, reservation_sub_block="other")
    with pytest.raises(exceptions.NotFound, match="projects/other"):
        world.reservations().get(project="other", zone=gw.ZONE, reservation="resv")
    with pytest.raises(exceptions.BadRequest, match="Unknown zone"):
        world.reservations().get(project=gw.PROJECT, zone="nowhere", reservation="resv")
    assert list(world.reservations().list(project=gw.PROJECT, zone=f"{gw.LOCATION}-b")) == []


def test_errors_have_the_shape_of_the_service(world):
    answer = requests.get(
        f"{world.host}/compute/v1/projects/{gw.PROJECT}/zones/{gw.ZONE}/reservations/other",
        headers={"Authorization": f"Bearer {gw.TOKEN}"},
        timeout=10,
    )
    text = f"The resource 'projects/{gw.PROJECT}/zones/{gw.ZONE}/reservations/other' was not found"
    assert answer.status_code == 404
    assert answer.json() == {
        "error": {
            "code": 404,
            "errors": [{"domain": "global", "message": text, "reason": "notFound"}],
            "message": text,
        }
    }


def test_changing_reservations_is_not_simulated(world):
    with pytest.raises(exceptions.MethodNotImplemented):
        world.reservations().delete_unary(**WHERE, reservation="resv")


def test_ids_are_strings_and_counts_are_numbers(world):
    answer = requests.get(
        f"{world.host}/compute/v1/projects/{gw.PROJECT}/zones/{gw.ZONE}/{PARENT}/reservationSubBlocks",
        headers={"Authorization": f"Bearer {gw.TOKEN}"},
        timeout=10,
    ).json()
    assert answer["kind"] == "compute#reservationSubBlock"
    assert isinstance(answer["items"][0]["id"], str)
    assert answer["items"][0]["count"] == 16
