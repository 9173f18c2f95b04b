"""The simulated machines: ids, partitions, faults and what they do to VMs."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl.sim import behaviour as behaviours
from tpuctl.sim import clock as clocks
from tpuctl.sim import hardware, partitions

PROJECT, ZONE = "p", "z"


def machines(*, seed: int = 0, blocks: int = 1, cubes: int = 2) -> hardware.Hardware:
    built = hardware.Hardware(clocks.Clock(), seed=seed)
    built.add_reservation("resv", project=PROJECT, zone=ZONE, blocks=blocks, cubes=cubes)
    return built


def first_cube(built: hardware.Hardware) -> hardware.SubBlock:
    return next(built.subblocks())


def start_vm(built: hardware.Hardware, host: hardware.Host, name: str = "vm-1") -> hardware.Vm:
    vm = hardware.Vm(name=name, id="1", pool="pool", group="grp", created_s=built.clock.now_s)
    built.start_vm(host, vm, boot_s=60)
    return vm


def test_a_default_block_has_144_cubes_of_16_hosts():
    built = hardware.Hardware(clocks.Clock())
    reservation = built.add_reservation("resv", project=PROJECT, zone=ZONE)
    (block,) = reservation.blocks
    assert len(block.subblocks) == 144
    assert sum(len(cube.hosts) for cube in block.subblocks) == 2304


def test_names_follow_the_pattern_seen_in_the_service():
    cube = list(machines(blocks=2).subblocks())[-1]
    assert cube.name == "resv-block-0002-subblock-0002"
    assert cube.block.name == "resv-block-0002"


def test_ids_are_opaque_unique_and_share_nothing_with_names():
    built = machines(blocks=2, cubes=3)
    ids = [built.reservations["resv"].cluster_id]
    for block in built.reservations["resv"].blocks:
        ids.append(block.id)
        for cube in block.subblocks:
            ids += [cube.id, *(host.id for host in cube.hosts)]
            ids += [one for shape in cube.partition_ids.values() for one in shape]
    assert len(ids) == len(set(ids)) == 1 + 2 + 6 * (1 + 16 + 31)
    assert all(re.fullmatch("[0-9a-f]{32}", one) for one in ids)


def test_a_seed_decides_all_ids():
    assert first_cube(machines(seed=1)).cube_id == first_cube(machines(seed=1)).cube_id
    assert first_cube(machines(seed=1)).cube_id != first_cube(machines(seed=2)).cube_id


def test_the_partition_tree_nests():
    cube = first_cube(machines())
    counts = {shape: len(ids) for shape, ids in cube.partition_ids.items()}
    assert counts == {"2x2x1": 16, "2x2x2": 8, "2x2x4": 4, "2x4x4": 2, "4x4x4": 1}
    for smaller, larger in zip(partitions.SHAPES, partitions.SHAPES[1:], strict=False):
        parents = {}
        for host in cube.hosts:
            parents.setdefault(host.partition_id(smaller), set()).add(host.partition_id(larger))
        assert all(len(above) == 1 for above in parents.values())


@given(st.sampled_from(partitions.SHAPES), st.integers(0, 15))
def test_a_host_is_among_the_hosts_of_its_own_partition(shape, index):
    assert index in partitions.host_indices(shape, partitions.number_of(shape, index))


@pytest.mark.parametrize("index", [-1, 16])
def test_host_indices_outside_a_cube_are_refused(index):
    with pytest.raises(ValueError, match="hosts 0 to 15"):
        partitions.number_of("2x2x1", index)


def test_partitions_beyond_the_cube_are_refused():
    with pytest.raises(ValueError, match="2 partitions 2x4x4"):
        partitions.host_indices("2x4x4", 2)


def test_a_cube_is_found_by_name_topology_id_and_any_partition_id():
    built = machines()
    cube = first_cube(built)
    names = [cube.name, cube.id, cube.cube_id, cube.partition_ids["2x2x2"][3]]
    assert [built.find_subblock(name) for name in names] == [cube] * 4
    with pytest.raises(KeyError):
        built.find_subblock("nothing")


def test_hosts_of_a_partition_of_any_shape():
    built = machines()
    cube = first_cube(built)
    quarter = cube.partition_ids["2x2x4"][1]
    assert [host.index for host in built.partition_hosts(quarter)] == [4, 5, 6, 7]
    assert built.shape_of(quarter) == "2x2x4"


def test_a_host_is_found_by_id_by_place_and_by_its_vm():
    built = machines()
    host = first_cube(built).hosts[5]
    start_vm(built, host, "gke-tpu-x")
    assert built.find_host(host.id) is host
    assert built.find_host(f"{host.subblock.name}/5") is host
    assert built.find_host("gke-tpu-x") is host
    for wrong in ("gke-tpu-y", f"{host.subblock.name}/16", "a/b"):
        with pytest.raises(KeyError):
            built.find_host(wrong)
    built.remove_vm(host)
    with pytest.raises(KeyError):
        built.find_host("gke-tpu-x")


def test_a_vm_serves_after_its_boot_time():
    built = machines()
    host = first_cube(built).hosts[0]
    vm = start_vm(built, host)
    assert (vm.status, host.serving) == ("STAGING", False)
    built.clock.advance(59)
    assert not host.serving
    built.clock.advance(1)
    assert (vm.status, host.serving, vm.started_s) == ("RUNNING", True, 60)


def test_a_crash_stops_the_vm_and_a_repair_boots_it_on_the_same_host():
    built = machines()
    host = first_cube(built).hosts[0]
    vm = start_vm(built, host)
    built.clock.advance(60)
    built.host_down(host)
    assert (vm.status, host.serving, host.healthy, host.vm) == ("REPAIRING", False, False, vm)
    built.host_up(host)
    assert (vm.status, host.healthy, host.serving) == ("STAGING", True, False)
    built.clock.advance(built.behaviour.vm_boot_s)
    assert (vm.status, host.serving) == ("RUNNING", True)


def test_a_crash_during_boot_cancels_the_boot():
    built = machines()
    host = first_cube(built).hosts[0]
    vm = start_vm(built, host)
    built.clock.advance(30)
    built.host_down(host)
    built.clock.advance(3600)
    assert (vm.ready, vm.status) == (False, "REPAIRING")


def test_a_chip_error_leaves_the_vm_running():
    built = machines()
    host = first_cube(built).hosts[0]
    start_vm(built, host)
    built.clock.advance(60)
    built.host_down(host, hardware.Fault.CHIP_ERROR)
    assert (host.healthy, host.powered, host.serving) == (False, True, True)


def test_a_timed_repair_ends_by_itself_unless_somebody_is_faster():
    built = machines()
    slow, fast = first_cube(built).hosts[:2]
    for host in (slow, fast):
        built.host_down(host, hardware.Fault.IN_REPAIR, repair_after_s=100)
    built.host_up(fast)
    built.host_down(fast)
    built.clock.advance(100)
    assert slow.healthy
    assert fast.faults == {hardware.Fault.CRASHED}


def test_a_reset_keeps_the_status_and_takes_the_guest_away():
    built = machines()
    host = first_cube(built).hosts[0]
    vm = start_vm(built, host)
    built.clock.advance(60)
    built.reset_vm(host)
    assert (vm.status, host.serving) == ("RUNNING", False)
    built.clock.advance(built.behaviour.vm_boot_s)
    assert host.serving


def test_a_vm_needs_an_empty_powered_host():
    built = machines()
    one, two = first_cube(built).hosts[:2]
    start_vm(built, one)
    built.host_down(two)
    for host in (one, two):
        with pytest.raises(ValueError, match="cannot take"):
            start_vm(built, host, "other")
    with pytest.raises(ValueError, match="runs no VM"):
        built.reset_vm(two)


def test_a_partial_cube_lacks_its_last_hosts():
    built = machines()
    cube = first_cube(built)
    built.partial(cube, hosts=14)
    assert [host.index for host in cube.hosts if not host.powered] == [14, 15]
    built.host_up(cube.hosts[14])
    assert cube.hosts[14].powered
    built.partial(cube, hosts=16)
    assert all(host.healthy for host in cube.hosts)


def test_a_cube_in_use_does_not_become_partial():
    built = machines()
    cube = first_cube(built)
    start_vm(built, cube.hosts[0])
    with pytest.raises(ValueError, match="already carries 1 VMs"):
        built.partial(cube, hosts=3)
    with pytest.raises(ValueError, match="0 to 16"):
        built.partial(cube, hosts=17)


def test_planned_maintenance_opens_and_closes():
    built = machines()
    cube = first_cube(built)
    drain_s = built.behaviour.maintenance_drain_s
    built.plan_maintenance(cube, start_in_s=100, duration_s=drain_s + 50)
    assert not cube.maintenance.ongoing
    assert all(host.healthy for host in cube.hosts)
    built.clock.advance(100)
    assert cube.maintenance.ongoing
    assert all(host.powered for host in cube.hosts)
    built.clock.advance(drain_s)
    assert not any(host.powered for host in cube.hosts)
    built.clock.advance(50)
    assert cube.maintenance is None
    assert all(host.healthy for host in cube.hosts)


def test_a_replaced_maintenance_plan_does_nothing():
    built = machines()
    cube = first_cube(built)
    built.plan_maintenance(cube, start_in_s=100, duration_s=50)
    built.plan_maintenance(cube, start_in_s=1000, duration_s=50)
    built.clock.advance(500)
    assert all(host.healthy for host in cube.hosts)


def test_changes_are_told_once_and_only_if_something_changed():
    built = machines()
    cube = first_cube(built)
    told = []
    built.subscribe(lambda change: told.append((change.kind.name, change.host and change.host.index)))
    built.cube_degraded(cube)
    built.cube_degraded(cube)
    built.cube_restored(cube)
    built.host_down(cube.hosts[3])
    built.host_down(cube.hosts[3])
    built.host_up(cube.hosts[3])
    start_vm(built, cube.hosts[4])
    built.clock.advance(60)
    built.remove_vm(cube.hosts[4])
    built.remove_vm(cube.hosts[4])
    assert told == [
        ("FABRIC", None),
        ("FABRIC", None),
        ("HOST", 3),
        ("HOST", 3),
        ("VM", 4),
        ("VM", 4),
        ("VM", 4),
    ]


def test_reservations_are_checked_when_added():
    built = machines()
    with pytest.raises(ValueError, match="exists"):
        built.add_reservation("resv", project=PROJECT, zone=ZONE)
    with pytest.raises(ValueError, match="1 to 144"):
        built.add_reservation("other", project=PROJECT, zone=ZONE, cubes=145)


def test_formation_time_grows_slowly_with_the_number_of_cubes():
    table = behaviours.Behaviour()
    assert table.formation_s(1) == 20
    assert table.formation_s(32) == 41
    assert 20 < table.formation_s(2) < table.formation_s(144) < 60
