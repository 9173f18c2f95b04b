"""Clusters that tpuctl did not make: what is there is used as it is, whatever it is called."""

import dataclasses

import pytest

from tests.ops.conftest import Recorder, scene_of, whole
from tests.ops.test_carving import POLICY, counts
from tests.ops.test_pool_faults import another, writes_counted
from tpuctl.cli import rehearsal
from tpuctl.model import fleet, states, topology
from tpuctl.ops import carving, forming, operations, waiting

SECOND = "second-reservation"


@pytest.fixture
def scene():
    """Two reservations of three sub-blocks each; of the first, two have pools that somebody made by hand."""
    with scene_of(cubes=3, slice_controller=True) as made:
        world = made.simulator.world

        def add() -> None:
            world.hardware.add_reservation(
                SECOND, project=world.settings.project, zone=world.settings.zone, blocks=1, cubes=3
            )

        made.simulator.call(add)
        by_hand(made)
        both = another(made, reservations=(*made.context.reservations, SECOND))
        yield dataclasses.replace(made, ports=both)


def by_hand(scene: rehearsal.Rehearsal) -> None:
    """Pools with names and a policy of somebody's own."""
    ports = scene.ports
    ports.capacity.create_policy("our-own-policy")
    [block] = ports.capacity.blocks()
    deadline = waiting.Deadline.after(ports.clock, 7200)
    for number, item in enumerate(block.sub_blocks[:2]):
        spec = fleet.PoolSpec(f"tpu-{number}", block.reservation, block.name, item.name, "our-own-policy")
        operations.finish(ports, deadline, ports.pools.create(spec))
    scene.simulator.advance(300)


def test_pools_made_by_hand_are_cubes_like_any_other(scene: rehearsal.Rehearsal, reporter: Recorder) -> None:
    """xpk#17, #161, #959: clusters that the tool did not make, with several reservations."""
    assert {cube.hosts[0].pool for cube in whole(scene).cubes if cube.hosts} == {"tpu-0", "tpu-1"}
    formed = forming.form(scene.ports, reporter, "train", forming.request(topology.parse("4x4x8")))
    assert formed.slice.state is states.SliceState.ACTIVE


def test_set_up_makes_what_is_missing_in_both_reservations_and_leaves_the_rest(
    scene: rehearsal.Rehearsal, reporter: Recorder
) -> None:
    before = {pool.name: pool for pool in scene.ports.pools.list()}
    prepared = carving.prepare(scene.ports, policy=POLICY)
    made = carving.execute(scene.ports, reporter, prepared)
    assert counts(made) == {"full": 6, "partial": 0, "failed": 0}
    assert sum(item.made for item in made.results) == 4
    after = {pool.name: pool for pool in scene.ports.pools.list()}
    assert {name: after[name] for name in before} == before
    assert {pool.reservation for pool in after.values()} == {scene.context.reservations[0], SECOND}
    with writes_counted(scene) as seen:
        again = carving.execute(scene.ports, reporter, carving.prepare(scene.ports, policy=POLICY))
    assert (again.changed, seen) == (False, [])


def test_slices_of_many_sizes_in_one_cluster_never_span_two_reservations(
    scene: rehearsal.Rehearsal, reporter: Recorder
) -> None:
    carving.execute(scene.ports, reporter, carving.prepare(scene.ports, policy=POLICY))
    for name, shape in (("large", "4x4x12"), ("one", "4x4x4"), ("pair", "4x4x8")):
        made = forming.form(scene.ports, reporter, name, forming.request(topology.parse(shape)))
        assert made.slice.state is states.SliceState.ACTIVE
    snapshot = whole(scene)
    reservations = {
        item.name: {cube.pool.reservation for cube in snapshot.cubes_of(item) if cube.pool}
        for item in snapshot.slices
    }
    assert all(len(found) == 1 for found in reservations.values()), reservations
    assert {name for found in reservations.values() for name in found} == {
        scene.context.reservations[0],
        SECOND,
    }


def test_a_slice_made_by_hand_holds_its_cubes(scene: rehearsal.Rehearsal, reporter: Recorder) -> None:
    """What is there holds its cubes, and is not touched on the way."""
    cube = whole(scene).cubes_by_id[next(cube.id for cube in whole(scene).cubes if cube.hosts)]
    scene.submit(
        "/apis/accelerator.gke.io/v1beta1/slices",
        {
            "apiVersion": "accelerator.gke.io/v1beta1",
            "kind": "Slice",
            "metadata": {"name": "by-hand"},
            "spec": {"type": "tpu7x", "topology": "4x4x4", "partitionIds": [cube.id]},
        },
    )
    scene.simulator.advance(120)
    made = whole(scene).slices_by_name["by-hand"]
    assert (made.state, made.owner) == (states.SliceState.ACTIVE, fleet.BY_HAND)
    other = forming.form(scene.ports, reporter, "ours", forming.request(topology.CUBE))
    assert other.slice.partition_ids != made.partition_ids
    assert whole(scene).slices_by_name["by-hand"] == made
