"""Node pools through the real GKE client: their life, their limits and what hardware does to them."""

from __future__ import annotations

import pytest
from google.api_core import exceptions
from google.cloud import container_v1

from tests.sim import google_world as gw
from tpuctl.sim import behaviour as behaviours
from tpuctl.sim.gke import pools

Status = container_v1.NodePool.Status
Done = container_v1.Operation.Status.DONE
Running = container_v1.Operation.Status.RUNNING
CREATION_S = 300
"""Longer than any creation or deletion takes."""


@pytest.fixture
def world():
    built = gw.build()
    built.make_policy()
    with gw.served(built):
        yield built


@pytest.fixture
def client(world):
    return world.container()


def create(client, name="cube-1", **request):
    wanted = gw.pool_message(gw.pool_request(name, **request))
    return client.create_node_pool(parent=gw.PARENT, node_pool=wanted)


def refresh(client, operation):
    place = f"projects/{gw.PROJECT}/locations/{gw.LOCATION}"
    return client.get_operation(name=f"{place}/operations/{operation.name}")


def get(client, name="cube-1"):
    return client.get_node_pool(name=f"{gw.PARENT}/nodePools/{name}")


def metrics(operation):
    return {metric.name: metric.int_value for metric in operation.progress.metrics}


def test_creation_runs_first_and_is_done_later(world, client):
    operation = create(client)
    assert operation.status == Running
    assert operation.operation_type == container_v1.Operation.Type.CREATE_NODE_POOL
    assert operation.zone == gw.LOCATION
    assert operation.target_link.endswith("/clusters/sim/nodePools/cube-1")
    assert operation.self_link.endswith(f"/operations/{operation.name}")
    assert get(client).status == Status.PROVISIONING
    assert metrics(operation) == {}
    world.clock.advance(145)
    midway = refresh(client, operation)
    assert midway.status == Running
    assert 0 < metrics(midway)["nodes done"] < metrics(midway)["nodes total"] == 16
    world.clock.advance(CREATION_S)
    done = refresh(client, operation)
    assert (done.status, done.error.code) == (Done, 0)
    assert done.end_time > done.start_time
    assert metrics(done) == {}
    assert get(client).status == Status.RUNNING
    assert len(world.joined) == 16
    assert len({vm for _, vm in world.joined}) == 16


def test_the_server_fills_in_what_the_client_left_out(world, client):
    create(client)
    world.clock.advance(CREATION_S)
    pool = get(client)
    assert pool.version == "1.36.0-gke.3712000"
    assert pool.self_link.endswith(f"/v1/{gw.PARENT}/nodePools/cube-1")
    assert pool.instance_group_urls[0].endswith("-grp")
    assert pool.pod_ipv4_cidr_size == 27
    assert pool.etag
    assert pool.config.disk_size_gb == 100
    assert pool.config.image_type == "COS_CONTAINERD"
    assert pool.upgrade_settings.strategy == container_v1.NodePoolUpdateStrategy.SURGE
    assert (pool.management.auto_repair, pool.management.auto_upgrade) == (True, True)
    assert pool.max_pods_constraint.max_pods_per_node == 15
    assert pool.placement_policy.policy_name == gw.POLICY
    assert pool.locations == [gw.ZONE]


def test_a_named_cube_is_taken_and_a_block_gives_free_ones(world, client):
    create(client, "named", path=gw.cube_path(1, short=True))
    create(client, "any-1")
    create(client, "any-2")
    world.clock.advance(CREATION_S)
    taken = {cube.name[-1]: world.gke.pools.owner(cube).name for cube in world.cubes}
    assert taken == {"1": "named", "2": "any-1", "3": "any-2"}
    assert [pool.name for pool in client.list_node_pools(parent=gw.PARENT).node_pools] == [
        "named",
        "any-1",
        "any-2",
    ]
    assert client.get_cluster(name=gw.PARENT).current_node_count == 48


def test_a_block_target_passes_over_a_cube_without_hosts(world, client):
    world.machines.partial(world.cubes[0], hosts=0)
    create(client)
    assert world.gke.cluster.pools["cube-1"].subblock is world.cubes[1]


def test_a_taken_cube_is_a_stockout(world, client):
    create(client, "first", path=gw.cube_path(1))
    operation = create(client, "second", path=gw.cube_path(1))
    world.clock.advance(CREATION_S)
    failed = refresh(client, operation)
    assert failed.status == Done
    assert failed.error.code == 8
    assert "ZONE_RESOURCE_POOL_EXHAUSTED" in failed.error.message
    pool = get(client, "second")
    assert pool.status == Status.ERROR
    assert pool.conditions[0].code == container_v1.StatusCondition.Code.GCE_STOCKOUT
    assert {name for name, _ in world.joined} == {"first"}


def test_a_partial_cube_gives_a_partial_pool_that_fills_after_repair(world, client):
    cube = world.cubes[0]
    world.machines.partial(cube, hosts=15)
    operation = create(client)
    world.clock.advance(CREATION_S)
    assert (refresh(client, operation).status, refresh(client, operation).error.code) == (Done, 0)
    pool = get(client)
    assert pool.status == Status.RUNNING_WITH_ERROR
    assert "15 of 16" in pool.conditions[0].message
    assert len(world.joined) == 15
    world.machines.host_up(cube.hosts[15])
    world.clock.advance(30)
    assert len(world.joined) == 15
    world.clock.advance(120)
    assert len(world.joined) == 16
    assert (get(client).status, list(get(client).conditions)) == (Status.RUNNING, [])


def test_what_a_partial_pool_shows_is_a_setting():
    table = behaviours.Behaviour(partial_pool_status="RUNNING", partial_pool_operation_fails=True)
    world = gw.build(table)
    world.make_policy()
    world.machines.partial(world.cubes[0], hosts=1)
    with gw.served(world):
        client = world.container()
        operation = create(client)
        world.clock.advance(CREATION_S)
        assert get(client).status == Status.RUNNING
        assert refresh(client, operation).error.code == 8


def test_a_cube_without_healthy_hosts_ends_in_error_and_may_fill_in_later(world, client):
    world.machines.partial(world.cubes[0], hosts=0)
    operation = create(client, path=gw.cube_path(1))
    world.clock.advance(CREATION_S)
    failed = refresh(client, operation)
    assert (failed.status, failed.error.code) == (Done, 8)
    assert "ZONE_RESOURCE_POOL_EXHAUSTED" in failed.error.message
    assert get(client).status == Status.ERROR
    world.machines.host_up(world.cubes[0].hosts[0])
    world.clock.advance(CREATION_S)
    assert len(world.joined) == 1
    assert get(client).status == Status.ERROR


def test_a_host_that_dies_while_the_pool_is_made_is_not_waited_for(world, client):
    operation = create(client, path=gw.cube_path(1))
    world.clock.advance(61)
    for host in world.cubes[0].hosts[:2]:
        world.machines.host_down(host)
    world.clock.advance(CREATION_S)
    assert refresh(client, operation).status == Done
    assert len(world.joined) == 14
    assert get(client).status == Status.RUNNING_WITH_ERROR
    world.machines.host_up(world.cubes[0].hosts[0])
    world.clock.advance(CREATION_S)
    assert len(world.joined) == 15


def test_a_host_repaired_in_the_nick_of_time_saves_the_pool(world, client):
    world.machines.partial(world.cubes[0], hosts=0)
    operation = create(client, path=gw.cube_path(1))
    world.clock.advance(100)
    world.machines.host_up(world.cubes[0].hosts[7])
    world.clock.advance(CREATION_S)
    assert (refresh(client, operation).status, refresh(client, operation).error.code) == (Done, 0)
    assert get(client).status == Status.RUNNING_WITH_ERROR


def test_a_host_lost_later_leaves_the_pool_and_its_node(world, client):
    create(client, path=gw.cube_path(1))
    world.clock.advance(CREATION_S)
    world.machines.host_down(world.cubes[0].hosts[0])
    world.clock.advance(CREATION_S)
    assert get(client).status == Status.RUNNING
    assert world.left == []
    assert len(world.gke.cluster.pools["cube-1"].joined) == 16


def test_an_injected_quota_failure(world, client):
    world.gke.pools.failures.append(pools.InjectedFailure())
    operation = create(client)
    world.clock.advance(CREATION_S)
    failed = refresh(client, operation)
    assert (failed.error.code, "quota" in failed.error.message) == (8, True)
    pool = get(client)
    assert pool.status == Status.ERROR
    assert pool.conditions[0].code == container_v1.StatusCondition.Code.GCE_QUOTA_EXCEEDED
    create(client, "next")
    world.clock.advance(CREATION_S)
    assert get(client, "next").status == Status.RUNNING


def test_deletion_takes_time_and_frees_the_cube(world, client):
    create(client, path=gw.cube_path(1))
    world.clock.advance(CREATION_S)
    operation = client.delete_node_pool(name=f"{gw.PARENT}/nodePools/cube-1")
    assert operation.operation_type == container_v1.Operation.Type.DELETE_NODE_POOL
    assert (operation.status, get(client).status) == (Running, Status.STOPPING)
    assert world.left == []
    world.clock.advance(60)
    assert len(world.left) == 16
    assert world.cubes[0].used == 0
    assert get(client).status == Status.STOPPING
    world.clock.advance(120)
    assert refresh(client, operation).status == Done
    with pytest.raises(exceptions.NotFound):
        get(client)
    create(client, "again", path=gw.cube_path(1))
    world.clock.advance(CREATION_S)
    assert get(client, "again").status == Status.RUNNING
    assert {vm for name, vm in world.joined if name == "again"}.isdisjoint(vm for _, vm in world.left)


def test_a_pool_in_error_can_be_deleted(world, client):
    create(client, "first", path=gw.cube_path(1))
    create(client, "second", path=gw.cube_path(1))
    world.clock.advance(CREATION_S)
    client.delete_node_pool(name=f"{gw.PARENT}/nodePools/second")
    world.clock.advance(CREATION_S)
    assert list(world.gke.cluster.pools) == ["first"]
    assert world.gke.pools.owner(world.cubes[0]).name == "first"


def test_a_pool_under_a_slice_is_not_deleted_nor_shrunk(world, client):
    create(client)
    world.clock.advance(CREATION_S)
    world.slices["cube-1"] = ["train-a"]
    with pytest.raises(exceptions.BadRequest, match="train-a"):
        client.delete_node_pool(name=f"{gw.PARENT}/nodePools/cube-1")
    with pytest.raises(exceptions.BadRequest, match="train-a"):
        client.set_node_pool_size(request={"name": f"{gw.PARENT}/nodePools/cube-1", "node_count": 8})
    assert get(client).status == Status.RUNNING


def test_resizing_down_and_up_again(world, client):
    create(client, path=gw.cube_path(1))
    world.clock.advance(CREATION_S)
    name = f"{gw.PARENT}/nodePools/cube-1"
    operation = client.set_node_pool_size(request={"name": name, "node_count": 4})
    assert operation.operation_type == container_v1.Operation.Type.SET_NODE_POOL_SIZE
    assert get(client).status == Status.RECONCILING
    world.clock.advance(CREATION_S)
    assert refresh(client, operation).status == Done
    assert (world.cubes[0].used, len(world.left), get(client).status) == (4, 12, Status.RUNNING)
    client.set_node_pool_size(request={"name": name, "node_count": 16})
    world.clock.advance(CREATION_S)
    assert (world.cubes[0].used, len(world.joined), get(client).status) == (16, 28, Status.RUNNING)


def test_resizing_to_nothing(world, client):
    create(client, path=gw.cube_path(1))
    world.clock.advance(CREATION_S)
    operation = client.set_node_pool_size(request={"name": f"{gw.PARENT}/nodePools/cube-1", "node_count": 0})
    world.clock.advance(CREATION_S)
    assert (refresh(client, operation).status, get(client).status) == (Done, Status.RUNNING)
    assert world.cubes[0].used == 0


def test_a_resize_beyond_the_cube_is_refused(world, client):
    create(client)
    world.clock.advance(CREATION_S)
    with pytest.raises(exceptions.BadRequest, match="0 to 16"):
        client.set_node_pool_size(request={"name": f"{gw.PARENT}/nodePools/cube-1", "node_count": 17})


def test_a_name_is_taken_until_its_pool_is_gone(world, client):
    create(client)
    with pytest.raises(exceptions.Conflict, match="Already exists"):
        create(client)
    world.clock.advance(CREATION_S)
    client.delete_node_pool(name=f"{gw.PARENT}/nodePools/cube-1")
    with pytest.raises(exceptions.Conflict, match="Already exists"):
        create(client)


def test_two_operations_on_one_pool_clash(world, client):
    first = create(client)
    with pytest.raises(exceptions.BadRequest, match="incompatible operation") as caught:
        client.delete_node_pool(name=f"{gw.PARENT}/nodePools/cube-1")
    assert first.name in str(caught.value)


def test_too_many_operations_at_once():
    world = gw.build(behaviours.Behaviour(operations_in_flight=2))
    world.make_policy()
    with gw.served(world):
        client = world.container()
        create(client, "one")
        create(client, "two")
        with pytest.raises(exceptions.TooManyRequests, match="2 already run"):
            create(client, "three")
        world.clock.advance(CREATION_S)
        assert create(client, "three").status == Running


def test_the_slice_controller_is_switched_on_and_off(world, client):
    assert not client.get_cluster(name=gw.PARENT).addons_config.slice_controller_config.enabled
    for enabled in (True, False):
        addons = {"slice_controller_config": {"enabled": enabled}}
        operation = client.update_cluster(
            request={"name": gw.PARENT, "update": {"desired_addons_config": addons}}
        )
        assert operation.operation_type == container_v1.Operation.Type.UPDATE_CLUSTER
        assert client.get_cluster(name=gw.PARENT).status == container_v1.Cluster.Status.RECONCILING
        with pytest.raises(exceptions.BadRequest, match="incompatible operation"):
            create(client)
        assert world.switched == [True][: int(not enabled)]
        world.clock.advance(300)
        assert refresh(client, operation).status == Done
        cluster = client.get_cluster(name=gw.PARENT)
        assert cluster.status == container_v1.Cluster.Status.RUNNING
        assert cluster.addons_config.slice_controller_config.enabled is enabled
    assert world.switched == [True, False]


def test_a_cluster_update_clashes_with_a_running_creation(world, client):
    create(client)
    addons = {"slice_controller_config": {"enabled": True}}
    request = {"name": gw.PARENT, "update": {"desired_addons_config": addons}}
    with pytest.raises(exceptions.BadRequest, match="incompatible operation"):
        client.update_cluster(request=request)
    world.clock.advance(CREATION_S)
    assert client.update_cluster(request=request).status == Running


def test_the_controller_stays_on_while_slices_exist(world, client):
    world.slices["cube-1"] = ["train-a"]
    off = {"slice_controller_config": {"enabled": False}}
    with pytest.raises(exceptions.BadRequest, match="train-a"):
        client.update_cluster(request={"name": gw.PARENT, "update": {"desired_addons_config": off}})


def test_operations_are_listed_in_order(world, client):
    names = [create(client, name).name for name in ("one", "two")]
    for location in (gw.LOCATION, "-"):
        listed = client.list_operations(parent=f"projects/{gw.PROJECT}/locations/{location}")
        assert [operation.name for operation in listed.operations] == names
    elsewhere = client.list_operations(parent=f"projects/{gw.PROJECT}/locations/other")
    assert list(elsewhere.operations) == []


def test_a_whole_block_of_pools_is_made_in_waves():
    world = gw.build(cubes=144)
    world.make_policy()
    with gw.served(world):
        client = world.container()
        waiting = [f"cube-{number:03}" for number in range(144)]
        while waiting:
            try:
                create(client, waiting[0])
            except exceptions.TooManyRequests:
                world.clock.advance(30)
            else:
                waiting.pop(0)
        world.clock.advance(CREATION_S)
        assert client.get_cluster(name=gw.PARENT).current_node_count == 2304
        assert len({vm for _, vm in world.joined}) == 2304


def test_a_pool_that_found_no_cube_is_not_resized(world, client):
    create(client, "first", path=gw.cube_path(1))
    create(client, "second", path=gw.cube_path(1))
    world.clock.advance(CREATION_S)
    with pytest.raises(exceptions.BadRequest, match="has no nodes"):
        client.set_node_pool_size(request={"name": f"{gw.PARENT}/nodePools/second", "node_count": 4})
