"""One fleet from all sources, on the simulator and on broken ones."""

from __future__ import annotations

import pytest

from tests.cloud import manifests, scripted
from tpuctl.cloud import connect, parallel
from tpuctl.model import errors, fleet, invariants, states

ALL = list(fleet.SourceName)
Name = fleet.SourceName


def test_all_sources_of_a_working_fleet(ready):
    found = ready.ports.fleet.observe(ALL)
    assert [len(block.cubes) for block in found.blocks] == [4]
    assert found.blocks[0].name == "sim-reservation-block-0001"
    for cube in found.cubes:
        assert len(cube.hosts) == 16
        assert cube.pool.sub_block == cube.sub_block.name
        assert cube.sub_block.hosts_in_use == 16
        assert cube.state is states.PartitionState.HEALTHY
    assert found.strays == ()
    assert [source.name for source in found.sources] == ALL
    assert invariants.check_invariants(found) == ()


def test_times_and_revisions_are_the_servers(ready):
    found = ready.ports.fleet.observe(ALL)
    now = ready.sim.now()
    assert found.observed_at.isoformat().replace("+00:00", "Z") == now
    revisions = {source.name: source.revision for source in found.sources}
    assert revisions[Name.NODES] == revisions[Name.SLICES] != ""
    assert revisions[Name.CAPACITY] == ""


def test_the_same_world_gives_the_same_snapshot(ready):
    assert ready.ports.fleet.observe(ALL) == ready.ports.fleet.observe(ALL)


def test_only_what_was_asked_for_is_read(ready):
    ports = ready.through_relay
    found = ports.fleet.observe([Name.NODES])
    assert {request.path for request in ready.relayed.requests} == {"/api/v1/nodes"}
    assert found.has(Name.NODES)
    assert not found.has(Name.SLICES)


def test_a_fleet_without_nodes_is_seen_through_its_reservation(fresh):
    found = fresh.ports.fleet.observe([Name.NODES, Name.NODE_POOLS, Name.CAPACITY])
    assert len(found.cubes) == 4
    assert not any(cube.has_nodes for cube in found.cubes)
    assert {cube.sub_block.hosts for cube in found.cubes} == {16}


def test_a_large_list_is_read_in_pages(make_world):
    world = make_world(cubes=40, ready_cubes=40)
    found = world.through_relay.fleet.observe([Name.NODES])
    assert sum(len(cube.hosts) for cube in found.cubes) == 640
    assert len(world.relayed.requests) == 2


def test_a_page_lost_half_way_is_read_again(make_world):
    world = make_world(cubes=40, ready_cubes=40)
    world.relay.after("GET", "/api/v1/nodes")
    assert len(world.through_relay.fleet.observe([Name.NODES]).cubes) == 40


def test_one_source_that_fails_fails_the_whole(ready):
    ready.relay.before("GET", "/slices", scripted.status(403, "Forbidden", "no slices for you"))
    with pytest.raises(errors.NotPermitted, match="no slices for you"):
        ready.through_relay.fleet.observe([Name.NODES, Name.SLICES])


@pytest.mark.parametrize("source", ALL)
def test_a_wrong_token_is_never_an_empty_fleet(ready, source):
    token = ready.directory / "wrong"
    token.write_text("wrong")
    ports = ready.connect(kubeconfig=None, token_file=str(token))
    with pytest.raises(errors.NotPermitted):
        ports.fleet.observe([source])


@pytest.mark.parametrize("source", ALL)
@pytest.mark.parametrize(
    "reply",
    [
        scripted.Reply(200, b"<html><title>Sign in</title></html>", {"Content-Type": "text/html"}),
        scripted.Reply(200, {"error": {"code": 503, "message": "backend error"}}),
        scripted.Reply(200, b'{"items": ['),
        scripted.Reply(200, ["odd"]),
        scripted.Reply(500, b"<html>"),
        scripted.Reply(drop=True),
    ],
)
def test_nonsense_from_any_source_is_one_clear_error(tmp_path, source, reply):
    with scripted.Server(lambda _: reply) as server:
        ports = connect.connect(scripted.context(server.url, tmp_path), clock=scripted.FakeClock())
        with pytest.raises(errors.Unavailable) as caught:
            ports.fleet.observe([source])
    assert caught.value.message.startswith("cannot ")
    assert "<html>" not in caught.value.message
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize("source", ALL)
def test_every_api_gets_the_token(tmp_path, source):
    with scripted.Server(lambda _: scripted.Reply(403, b"")) as server:
        ports = connect.connect(scripted.context(server.url, tmp_path), clock=scripted.FakeClock())
        with pytest.raises(errors.NotPermitted):
            ports.fleet.observe([source])
        assert server.requests[0].headers["authorization"] == f"Bearer {scripted.TOKEN}"


@pytest.mark.parametrize("source", ALL)
def test_a_server_that_is_down(tmp_path, source):
    ports = connect.connect(scripted.context("http://127.0.0.1:1", tmp_path), clock=scripted.FakeClock())
    with pytest.raises(errors.Unavailable, match="Connection refused"):
        ports.fleet.observe([source])


def test_strays_are_told(tmp_path):
    lost = manifests.node("lost", labels={"cloud.google.com/gce-topology-block": None})
    body = {"kind": "NodeList", "metadata": {"resourceVersion": "3"}, "items": [*manifests.cube("c1"), lost]}
    with scripted.Server(lambda _: scripted.Reply(200, body)) as server:
        ports = connect.connect(scripted.context(server.url, tmp_path), clock=scripted.FakeClock())
        found = ports.fleet.observe([Name.NODES])
    assert [stray.node for stray in found.strays] == ["lost"]
    assert [cube.id for cube in found.cubes] == ["c1"]
    assert found.cluster == "p1/us-central1/c1"
    assert found.observed_at == scripted.MOMENT


def test_no_source_is_an_empty_snapshot_of_this_moment(tmp_path):
    clock = scripted.FakeClock()
    ports = connect.connect(scripted.context("http://127.0.0.1:1", tmp_path), clock=clock)
    found = ports.fleet.observe([])
    assert (found.sources, found.observed_at) == ((), clock.now())


# -- read again ------------------------------------------------------------------------------------------


def test_read_again_what_has_not_changed_is_the_same_object(ready):
    reader = ready.ports.fleet
    before = reader.observe(ALL)
    ready.sim.advance(60)
    after = reader.observe(ALL)
    assert after.observed_at > before.observed_at
    assert after.blocks is before.blocks
    ready.sim.inject("host-crash", before.cubes[1].hosts[0].name)
    ready.sim.advance(120)
    changed = reader.observe(ALL)
    assert [cube.id for cube in changed.cubes if cube is not before.cubes_by_id[cube.id]] == [
        before.cubes[1].id
    ]
    assert changed == ready.ports.fleet.observe(ALL)


def test_other_sources_in_between_do_no_harm(ready):
    reader = ready.ports.fleet
    whole = reader.observe(ALL)
    assert reader.observe([Name.SLICES]).blocks == ()
    assert all(cube.pool is None for cube in reader.observe([Name.NODES, Name.SLICES]).cubes)
    assert reader.observe(ALL) == whole


def test_while_a_fleet_is_read_the_caller_is_asked_now_and_then(ready, monkeypatch):
    """A lock that lasts a minute must be renewed while 100,000 nodes are read."""
    monkeypatch.setattr(parallel, "LOOK_EVERY_S", 0.001)
    asked = []
    found = ready.ports.fleet.observe(ALL, meanwhile=lambda: asked.append(1))
    assert found == ready.ports.fleet.observe(ALL)
    assert asked

    def lost():
        raise errors.Conflict("the lock is gone")

    with pytest.raises(errors.Conflict, match="the lock is gone"):
        ready.ports.fleet.observe(ALL, meanwhile=lost)
