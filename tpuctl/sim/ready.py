"""Cubes that are ready at the start: the same steps as through the APIs, without the waiting in between."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from tpuctl.sim.gke import requests, views

if TYPE_CHECKING:
    from tpuctl.sim import hardware, world

POLICY = "sim-cube"
_WORKLOAD_POLICY = {
    "type": "HIGH_THROUGHPUT",
    "acceleratorTopology": "4x4x4",
    "acceleratorTopologyMode": "PROVISION_ONLY",
}


def set_up(place: world.World, cubes: int) -> None:
    """Make node pools for the first `cubes` cubes, and let time pass until their nodes are there.

    ValueError if there are fewer cubes than that.
    """
    chosen = list(itertools.islice(place.hardware.subblocks(), cubes))
    if len(chosen) < cubes:
        raise ValueError(f"{cubes} ready cubes do not fit on {len(chosen)}")
    if not chosen:
        return
    policies = place.compute.policies
    policies.ready(policies.insert({"name": POLICY, "workloadPolicy": _WORKLOAD_POLICY}))
    for cube in chosen:
        _create_pool(place, cube)
    while any(operation.running for operation in place.gke.operations):
        due_s = place.clock.next_due_s()
        if due_s is None:
            raise RuntimeError("node pools wait for something that is not planned")
        place.clock.advance(max(due_s - place.clock.now_s, 0.0))
    place.clock.advance(place.settings.behaviour.partition_label_latency_s)


def pool_name(cube: hardware.SubBlock) -> str:
    """Name of the pool of a ready cube: numbers of its block and of itself, from 1."""
    blocks = cube.block.reservation.blocks
    return f"cube-{blocks.index(cube.block) + 1:04}-{cube.block.subblocks.index(cube) + 1:04}"


def _create_pool(place: world.World, cube: hardware.SubBlock) -> None:
    wanted = _request(cube)
    target = requests.check_pool(
        wanted,
        cluster=place.gke.cluster,
        machines=place.hardware,
        find_policy=place.compute.policies.find,
    )
    place.gke.pools.create(views.with_defaults(wanted, place.gke.cluster.version), target)


def _request(cube: hardware.SubBlock) -> dict[str, Any]:
    block = cube.block
    path = (
        f"projects/{block.reservation.project}/reservations/{block.reservation.name}"
        f"/reservationBlocks/{block.name}/reservationSubBlocks/{cube.name}"
    )
    return {
        "name": pool_name(cube),
        "initialNodeCount": len(cube.hosts),
        "locations": [block.reservation.zone],
        "config": {
            "machineType": requests.MACHINE_TYPE,
            "reservationAffinity": {
                "consumeReservationType": "SPECIFIC_RESERVATION",
                "key": requests.RESERVATION_KEY,
                "values": [path],
            },
        },
        "placementPolicy": {"policyName": POLICY},
        "maxPodsConstraint": {"maxPodsPerNode": "15"},
    }
