"""Cordons as a swap sees them: whose mark a node carries, told in one call for many hosts."""

from __future__ import annotations

import pytest

OPERATION = "swap-train-1"
NODES = "/api/v1/nodes"


def nodes_of(world):
    return sorted(
        world.sim.call(lambda: [node["metadata"]["name"] for node in world.sim.world.store.list("nodes")])
    )


@pytest.fixture
def hosts(ready):
    """Two hosts that carry the mark of our operation, one of another's, one of nobody's."""
    names = nodes_of(ready)[:4]
    workloads = ready.ports.workloads
    for host in names[:2]:
        assert workloads.cordon(host, OPERATION)
    assert workloads.cordon(names[2], "swap-other-1")
    return names


def asked(world):
    """How the nodes were read, as (how many lists, how many single nodes)."""
    paths = [request.path for request in world.relayed.asked("GET") if request.path.startswith(NODES)]
    return paths.count(NODES), len(paths) - paths.count(NODES)


def test_the_marks_of_many_hosts_are_one_call(ready, hosts):
    found = ready.through_relay.workloads.marked(hosts, OPERATION)
    assert found == dict(zip(hosts, (True, True, False, False), strict=True))
    assert asked(ready) == (1, 0)


def test_of_no_hosts_nothing_is_asked(ready):
    assert ready.through_relay.workloads.marked((), OPERATION) == {}
    assert asked(ready) == (0, 0)


def test_a_host_that_is_gone_is_left_out(ready, hosts):
    found = ready.through_relay.workloads.marked(["gke-gone-1", hosts[0]], OPERATION)
    assert found == {hosts[0]: True}


def test_a_node_whose_hostname_is_not_its_name_is_no_missing_node(ready, hosts):
    def rename(node):
        node["metadata"]["labels"]["kubernetes.io/hostname"] = "x"

    ready.sim.call(lambda: ready.sim.world.store.mutate("nodes", None, hosts[1], rename))
    assert ready.through_relay.workloads.marked(hosts[:2], OPERATION) == {hosts[0]: True, hosts[1]: True}
    assert asked(ready) == (1, 1)


def test_more_hosts_than_a_request_line_holds(ready):
    names = nodes_of(ready)
    assert len(names) == 64
    many = [*names, "gke-gone-1", "gke-gone-2"]
    assert ready.through_relay.workloads.marked(many, OPERATION) == dict.fromkeys(names, False)
    lists, _ = asked(ready)
    assert lists == 2
