"""Whatever faults come in whatever order: the invariants hold, and clearing them mends everything."""

from __future__ import annotations

import contextlib

import hypothesis
from hypothesis import strategies

from tests.sim import cluster_world
from tpuctl.sim import faults
from tpuctl.sim.faults import table

CUBES = 2
NAMES = ("a", "b")

targets = strategies.tuples(
    strategies.sampled_from(NAMES), strategies.integers(0, CUBES - 1), strategies.integers(0, 15)
)
steps = strategies.one_of(
    strategies.tuples(
        strategies.just("inject"),
        strategies.sampled_from(sorted(table.FAULTS)),
        targets,
        strategies.sampled_from([None, 0.0, 30.0]),
        strategies.sampled_from([None, 45.0, 400.0]),
    ),
    strategies.tuples(strategies.just("form"), targets),
    strategies.tuples(strategies.just("delete"), targets),
    strategies.tuples(strategies.just("clear"), strategies.integers(0, 5)),
    strategies.tuples(strategies.just("wait"), strategies.integers(1, 200)),
)


def inject(cluster, name, target, after_s, for_s):
    fault = table.FAULTS[name]
    slice_name, cube, index = target
    place = cluster.cubes[cube].name
    aim = {"NODE": f"{place}/{index}", "SLICE": slice_name}.get(fault.target, place)
    parameters = {"after_s": after_s} if after_s is not None else {}
    if fault.lasting and for_s is not None:
        parameters["for_s"] = for_s
    if name == "partial":
        parameters["hosts"] = index
    # A refusal is an answer: no such slice, no guest up, down already.
    with contextlib.suppress(faults.UnknownTarget, faults.BadFault):
        cluster.world.faults.inject(name, aim, parameters)


def form(cluster, target):
    slice_name, cube, _ = target
    if cluster.reason(slice_name) is None:
        cluster.create(slice_name, "4x4x4", cluster.ids(cube))


def delete(cluster, target):
    if cluster.reason(target[0]) is not None:
        cluster.delete(target[0])


def clear(cluster, number):
    for entry in list(cluster.world.faults)[number : number + 1]:
        cluster.world.faults.clear(entry)


ACTIONS = {
    "inject": inject,
    "form": form,
    "delete": delete,
    "clear": clear,
    "wait": lambda cluster, seconds: cluster.advance(seconds),
}


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(history=strategies.lists(steps, max_size=20))
def test_no_history_of_faults_outlives_their_clearing(history):
    cluster = cluster_world.Cluster(cluster_world.make(cubes=CUBES))
    for action, *arguments in history:
        ACTIONS[action](cluster, *arguments)
        cluster_world.check_invariants(cluster.world)
    for entry in list(cluster.world.faults):
        cluster.world.faults.clear(entry)
    assert list(cluster.world.faults) == []
    cluster.advance(600)
    for name in NAMES:
        delete(cluster, (name,))
    cluster.advance(600)
    assert [cluster.reason(name) for name in NAMES] == [None, None]
    assert all(host.healthy and host.serving for cube in cluster.cubes for host in cube.hosts)
    assert {cluster.state(cube) for cube in range(CUBES)} == {"HEALTHY"}
    assert all(node["spec"]["taints"][0]["key"] == "google.com/tpu" for node in cluster.store.list("nodes"))
    assert all(len(node["spec"]["taints"]) == 1 for node in cluster.store.list("nodes"))
    cluster.form("last", "4x4x8", cluster.ids(0, 1))
    cluster_world.check_invariants(cluster.world)
