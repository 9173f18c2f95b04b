"""Whatever is asked and whatever breaks: no host in two slices, no wrong label, and everything ends free."""

from __future__ import annotations

import functools

import hypothesis
from hypothesis import strategies

from tests.sim import cluster_world
from tpuctl.sim import partitions
from tpuctl.sim.controllers import slices

NAMES = ("a", "b", "c")
CUBES = 2

numbers = strategies.integers(0, CUBES - 1)
steps = strategies.one_of(
    strategies.tuples(
        strategies.just("create"),
        strategies.sampled_from(NAMES),
        strategies.sampled_from(["4x4x8", *partitions.SHAPES]),
        strategies.integers(0, 15),
        strategies.booleans(),
    ),
    strategies.tuples(strategies.just("delete"), strategies.sampled_from(NAMES)),
    strategies.tuples(strategies.just("force"), strategies.sampled_from(NAMES)),
    strategies.tuples(strategies.just("down"), numbers, strategies.integers(0, 15)),
    strategies.tuples(strategies.just("up"), numbers, strategies.integers(0, 15)),
    strategies.tuples(strategies.just("degrade"), numbers),
    strategies.tuples(strategies.just("restore"), numbers),
    strategies.tuples(strategies.just("wait"), strategies.integers(1, 40)),
)


def create(cluster, name, topology, number, retry):
    if cluster.reason(name) is not None:
        return
    if topology == "4x4x8":
        ids = cluster.ids(0, 1)
    else:
        cube = cluster.cubes[number % CUBES]
        ids = [cube.partition_ids[topology][number % len(cube.partition_ids[topology])]]
    cluster.create(name, topology, ids, retry=retry)


def force(cluster, name):
    if cluster.reason(name):
        cluster.store.remove_finalizer(slices.SLICES, None, name, slices.FINALIZER)


def delete(cluster, name):
    if cluster.reason(name) is not None:
        cluster.delete(name)


ACTIONS = {
    "create": create,
    "delete": delete,
    "force": force,
    "down": lambda cluster, cube, index: cluster.world.hardware.host_down(cluster.host(cube, index)),
    "up": lambda cluster, cube, index: cluster.world.hardware.host_up(cluster.host(cube, index)),
    "degrade": lambda cluster, cube: cluster.world.hardware.cube_degraded(cluster.cubes[cube]),
    "restore": lambda cluster, cube: cluster.world.hardware.cube_restored(cluster.cubes[cube]),
    "wait": lambda cluster, seconds: cluster.advance(seconds),
}


@hypothesis.settings(max_examples=1500, deadline=None)
@hypothesis.given(history=strategies.lists(steps, max_size=25))
def test_no_history_breaks_the_invariants(history):
    cluster = cluster_world.Cluster(cluster_world.make(cubes=CUBES))
    for action, *arguments in history:
        ACTIONS[action](cluster, *arguments)
        cluster_world.check_invariants(cluster.world)
    end = functools.partial(cluster.advance, 600)
    for cube in range(CUBES):
        for index in range(16):
            ACTIONS["up"](cluster, cube, index)
    for name in NAMES:
        delete(cluster, name)
    end()
    assert [cluster.reason(name) for name in NAMES] == [None, None, None]
    assert not [name for name in NAMES if cluster.labelled(name)]
    cluster.create("last", "4x4x8", cluster.ids(0, 1))
    end()
    assert cluster.reason("last") in ("ACTIVE", "ACTIVE_DEGRADED")
