"""Resource policies, instances, instance groups and operations through the real Compute clients."""

from __future__ import annotations

import pytest
from google.api_core import exceptions

from tests.sim import google_world as gw
from tpuctl.sim import behaviour as behaviours
from tpuctl.sim import hardware

WHERE = {"project": gw.PROJECT, "zone": gw.ZONE}
REGION = {"project": gw.PROJECT, "region": gw.LOCATION}
POLICY = {
    "name": "made",
    "workload_policy": {
        "type_": "HIGH_THROUGHPUT",
        "accelerator_topology": "4x4x4",
        "accelerator_topology_mode": "PROVISION_ONLY",
    },
}


@pytest.fixture
def world():
    built = gw.build()
    built.make_policy()
    with gw.served(built):
        yield built


@pytest.fixture
def filled(world):
    gw.fill(world, 1)
    return world


def insert(world, policy=None, **request):
    body = {**REGION, "resource_policy_resource": policy or POLICY, **request}
    return world.policies().insert_unary(request=body)


def workload(**changes):
    return {**POLICY, "workload_policy": {**POLICY["workload_policy"], **changes}}


def region_operation(world, name):
    return world.region_operations().get(**REGION, operation=name)


def zone_operation(world, name):
    return world.zone_operations().get(**WHERE, operation=name)


# Policies


def test_a_policy_is_made_by_an_operation(world):
    operation = insert(world)
    assert (operation.status.name, operation.operation_type, operation.progress) == ("RUNNING", "insert", 0)
    assert operation.target_link.endswith(f"/regions/{gw.LOCATION}/resourcePolicies/made")
    assert operation.region.endswith(f"/regions/{gw.LOCATION}")
    policy = world.policies().get(**REGION, resource_policy="made")
    assert (policy.status, world.compute.policies.find("made")) == ("CREATING", None)
    world.clock.advance(2)
    done = region_operation(world, operation.name)
    assert (done.status.name, done.progress, done.user) == ("DONE", 100, "admin@example.com")
    assert done.end_time == "2026-01-05T08:00:02.000000Z"
    policy = world.policies().get(**REGION, resource_policy="made")
    assert (policy.status, policy.kind, policy.id) == ("READY", "compute#resourcePolicy", done.target_id)
    assert policy.workload_policy.accelerator_topology_mode == "PROVISION_ONLY"
    assert [one.name for one in world.policies().list(**REGION)] == [gw.POLICY, "made"]


def test_wait_answers_at_once(world):
    operation = insert(world)
    answer = world.region_operations().wait(**REGION, operation=operation.name)
    assert answer.status.name == "RUNNING"


def test_a_policy_name_is_taken_once(world):
    insert(world)
    with pytest.raises(exceptions.Conflict, match="already exists"):
        insert(world)


def test_the_same_request_id_begins_one_operation(world):
    first = insert(world, request_id="11111111-2222-3333-4444-555555555555")
    again = insert(world, request_id="11111111-2222-3333-4444-555555555555")
    assert again.name == first.name


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        ({**POLICY, "name": "Upper"}, "resource.name"),
        ({"name": "made"}, "workloadPolicy"),
        (workload(type_="FASTEST"), "workloadPolicy.type"),
        (workload(accelerator_topology="4x4x"), "acceleratorTopology"),
        (workload(accelerator_topology_mode="LATER"), "acceleratorTopologyMode"),
        (workload(max_topology_distance="BLOCK"), "cannot be combined"),
    ],
)
def test_a_bad_policy_is_refused(world, policy, text):
    with pytest.raises(exceptions.BadRequest, match=text):
        insert(world, policy)


def test_other_kinds_of_policy_are_not_simulated(world):
    with pytest.raises(exceptions.MethodNotImplemented):
        insert(world, {"name": "made", "group_placement_policy": {"vm_count": 2}})


def test_a_policy_in_use_is_not_deleted(filled):
    with pytest.raises(exceptions.BadRequest, match="already being used"):
        filled.policies().delete_unary(**REGION, resource_policy=gw.POLICY)


def test_a_policy_is_deleted_by_an_operation(world):
    operation = world.policies().delete_unary(**REGION, resource_policy=gw.POLICY)
    with pytest.raises(exceptions.BadRequest, match="not ready"):
        world.policies().delete_unary(**REGION, resource_policy=gw.POLICY)
    world.clock.advance(2)
    assert region_operation(world, operation.name).status.name == "DONE"
    with pytest.raises(exceptions.NotFound, match=f"resourcePolicies/{gw.POLICY}' was not found"):
        world.policies().get(**REGION, resource_policy=gw.POLICY)


def test_another_region_is_unknown(world):
    with pytest.raises(exceptions.BadRequest, match="Unknown region"):
        world.policies().get(project=gw.PROJECT, region="elsewhere", resource_policy="made")


# Instances


def first_host(world):
    return world.cubes[0].hosts[0]


def get_instance(world, host=None):
    host = host or first_host(world)
    return world.instances().get(**WHERE, instance=host.vm.name)


def test_an_instance_tells_where_it_is(filled):
    host = first_host(filled)
    instance = get_instance(filled)
    assert (instance.status, instance.id) == ("RUNNING", int(host.vm.id))
    assert instance.machine_type.endswith("/machineTypes/tpu7x-standard-4t")
    assert instance.scheduling.provisioning_model == "RESERVATION_BOUND"
    place = instance.resource_status.physical_host_topology
    assert (place.host, place.subblock, place.block) == (
        host.id,
        host.subblock.id,
        host.subblock.block.id,
    )
    ids = place.additional_attributes.accelerator_topology_ids
    assert dict(ids) == {
        shape: host.partition_id(shape) for shape in ("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4")
    }
    by_id = filled.instances().get(**WHERE, instance=host.vm.id)
    assert by_id.name == instance.name


def test_instances_are_listed_in_pages(filled):
    gw.fill(filled, 2)
    pager = filled.instances().list(request={**WHERE, "max_results": 20})
    assert [len(page.items) for page in pager.pages] == [20, 12]
    names = [one.name for one in filled.instances().list(**WHERE)]
    assert names == sorted({host.vm.name for cube in filled.cubes[:2] for host in cube.hosts})
    assert list(filled.instances().list(project=gw.PROJECT, zone=f"{gw.LOCATION}-b")) == []


def test_a_reset_reboots_the_guest(filled):
    host = first_host(filled)
    operation = filled.instances().reset_unary(**WHERE, instance=host.vm.name)
    assert (operation.operation_type, operation.status.name) == ("reset", "RUNNING")
    assert not host.serving
    assert get_instance(filled).status == "RUNNING"
    filled.clock.advance(60)
    assert host.serving
    assert zone_operation(filled, operation.name).status.name == "DONE"


def test_a_stopped_instance_is_not_reset_nor_reported(filled):
    filled.machines.host_down(first_host(filled))
    assert get_instance(filled).status == "REPAIRING"
    with pytest.raises(exceptions.BadRequest, match="not ready"):
        filled.instances().reset_unary(**WHERE, instance=first_host(filled).vm.name)
    with pytest.raises(exceptions.BadRequest, match="not ready"):
        report(filled)


def test_a_missing_instance(filled):
    with pytest.raises(exceptions.NotFound, match="instances/other' was not found"):
        filled.instances().get(**WHERE, instance="other")
    with pytest.raises(exceptions.NotFound):
        filled.instances().get(**WHERE, instance=first_host(filled).id)


def report(world, schedule="IMMEDIATE", behavior="CHIP_ERROR"):
    return world.instances().report_host_as_faulty_unary(
        **WHERE,
        instance=first_host(world).vm.name,
        instances_report_host_as_faulty_request_resource={
            "disruption_schedule": schedule,
            "fault_reasons": [{"behavior": behavior, "description": "chip 2 is gone"}],
        },
    )


def test_a_reported_host_is_repaired_in_place_after_days(filled):
    table, host = behaviours.Behaviour(), first_host(filled)
    vm = host.vm
    operation = report(filled)
    filled.clock.advance(599)
    assert zone_operation(filled, operation.name).status.name == "RUNNING"
    assert host.healthy
    filled.clock.advance(table.report_faulty_s - 599)
    assert zone_operation(filled, operation.name).status.name == "DONE"
    assert host.healthy
    filled.clock.advance(table.repair_start_s)
    assert host.faults == {hardware.Fault.IN_REPAIR}
    assert get_instance(filled).status == "REPAIRING"
    filled.clock.advance(table.repair_s + table.vm_boot_s)
    assert host.healthy
    assert (host.vm, host.serving) == (vm, True)


def test_a_future_report_disrupts_later(filled):
    report(filled, "FUTURE", "PERFORMANCE")
    filled.clock.advance(3600)
    assert first_host(filled).healthy
    filled.clock.advance(behaviours.DAY_S)
    assert first_host(filled).faults == {hardware.Fault.IN_REPAIR}


def test_a_report_fails_if_the_vm_is_deleted_meanwhile(filled):
    operation = report(filled)
    filled.container().delete_node_pool(name=f"{gw.PARENT}/nodePools/cube-1")
    filled.clock.advance(3600)
    ended = zone_operation(filled, operation.name)
    assert (ended.status.name, ended.http_error_status_code) == ("DONE", 404)
    assert ended.error.errors[0].code == "RESOURCE_NOT_FOUND"
    assert first_host(filled).healthy


@pytest.mark.parametrize(
    ("schedule", "behavior"),
    [("SOON", "CHIP_ERROR"), ("IMMEDIATE", "UNRECOVERABLE_GPU_ERROR"), ("IMMEDIATE", "BORED")],
)
def test_a_report_must_fit_a_tpu(filled, schedule, behavior):
    with pytest.raises(exceptions.BadRequest):
        report(filled, schedule, behavior)


def test_other_instance_methods_are_not_simulated(filled):
    with pytest.raises(exceptions.MethodNotImplemented):
        filled.instances().stop_unary(**WHERE, instance=first_host(filled).vm.name)


def test_an_operation_belongs_to_its_zone(filled):
    operation = report(filled)
    with pytest.raises(exceptions.NotFound):
        filled.zone_operations().get(project=gw.PROJECT, zone=f"{gw.LOCATION}-b", operation=operation.name)
    assert [one.name for one in filled.zone_operations().list(**WHERE)] == [operation.name]


# Instance groups


def get_group(world):
    name = world.gke.cluster.pools["cube-1"].group
    return world.groups().get(**WHERE, instance_group_manager=name)


def test_a_settled_group_is_stable(filled):
    group = get_group(filled)
    assert (group.target_size, group.status.is_stable) == (16, True)
    assert group.status.version_target.is_reached
    assert group.status.current_instance_statuses.running == 16
    assert [one.name for one in filled.groups().list(**WHERE)] == [group.name]
    assert list(group.status.applied_accelerator_topologies) == []


def test_a_group_is_unstable_while_it_changes_or_lacks_something(world):
    world.machines.partial(world.cubes[0], hosts=14)
    gw.make_pool(world, 1)
    assert not get_group(world).status.is_stable
    world.clock.advance(600)
    group = get_group(world)
    assert not group.status.is_stable
    assert (group.status.current_instance_statuses.running, group.current_actions.creating) == (14, 2)
    for host in world.cubes[0].hosts[14:]:
        world.machines.host_up(host)
    world.clock.advance(600)
    assert get_group(world).status.is_stable


def test_a_group_shows_the_slices_on_its_pool(filled):
    filled.topologies["cube-1"] = [{"acceleratorTopology": "4x4x8", "state": "ACTIVE"}]
    (applied,) = get_group(filled).status.applied_accelerator_topologies
    assert (applied.accelerator_topology, applied.state) == ("4x4x8", "ACTIVE")


def test_errors_of_single_vms_are_in_the_group(world):
    world.machines.partial(world.cubes[0], hosts=15)
    gw.fill(world, 1)
    group = world.gke.cluster.pools["cube-1"].group
    managed = list(world.groups().list_managed_instances(**WHERE, instance_group_manager=group))
    assert len(managed) == 16
    (missing,) = [one for one in managed if one.current_action == "CREATING"]
    assert missing.last_attempt.errors.errors[0].code == "ZONE_RESOURCE_POOL_EXHAUSTED"
    (failed,) = world.groups().list_errors(**WHERE, instance_group_manager=group)
    assert failed.error.code == "ZONE_RESOURCE_POOL_EXHAUSTED"
    assert failed.instance_action_details.instance == missing.instance
    world.machines.host_up(world.cubes[0].hosts[15])
    assert world.cubes[0].hosts[15].vm.name == missing.name
    world.clock.advance(600)
    assert list(world.groups().list_errors(**WHERE, instance_group_manager=group)) == []


def test_a_missing_group(world):
    with pytest.raises(exceptions.NotFound, match="instanceGroupManagers/other' was not found"):
        world.groups().get(**WHERE, instance_group_manager="other")
