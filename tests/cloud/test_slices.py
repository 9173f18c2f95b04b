"""Slices on the simulator, and through a relay that loses answers."""

from __future__ import annotations

import pytest

from tests.cloud import manifests, scripted
from tpuctl.cloud import connect
from tpuctl.model import errors, fleet, states, topology
from tpuctl.ops import ports

PATH = "/apis/accelerator.gke.io/v1beta1/slices"
NODES, SLICES = fleet.SourceName.NODES, fleet.SourceName.SLICES


@pytest.fixture
def spec(ready):
    return spec_of(ready, "train-a")


def spec_of(world, name, *, first=0):
    cubes = world.ports.fleet.observe([NODES]).cubes
    return ports.SliceSpec(name, topology.Topology(4, 4, 8), (cubes[first + 1].id, cubes[first].id))


def stored(world):
    return world.sim.call(
        lambda: [item["metadata"]["name"] for item in world.sim.world.store.list("slices.accelerator.gke.io")]
    )


def test_a_slice_from_creation_to_its_end(ready, spec):
    slices = ready.ports.slices
    assert slices.get("train-a") is None
    created = slices.create(spec)
    assert (created.name, created.topology, created.owner) == ("train-a", spec.topology, None)
    assert created.partition_ids == tuple(sorted(spec.partition_ids))
    ready.sim.advance(120)
    found = slices.get("train-a")
    assert (found.state, found.uid) == (states.SliceState.ACTIVE, created.uid)
    assert slices.labelled_hosts("train-a") == 32
    assert slices.labelled_hosts("train") == 0
    assert slices.events("train-a", uid=created.uid)[-1].startswith("ACTIVE")
    slices.delete("train-a", uid=created.uid)
    assert slices.get("train-a").deleting
    with pytest.raises(errors.Conflict, match="still being deleted"):
        slices.create(spec)
    ready.sim.advance(120)
    assert slices.get("train-a") is None
    assert slices.labelled_hosts("train-a") == 0
    slices.delete("train-a", uid=created.uid)


def test_a_priority_is_an_annotation_of_the_slice(ready, spec):
    slices = ready.ports.slices
    assert slices.create(spec._replace(priority=-3)).priority == -3
    assert slices.get("train-a").priority == -3
    [stored_one] = ready.sim.call(lambda: ready.sim.world.store.list("slices.accelerator.gke.io"))
    assert stored_one["metadata"]["annotations"]["tpuctl.dev/priority"] == "-3"
    plain = slices.create(spec_of(ready, "train-b", first=2))
    assert plain.priority == 0
    names = {
        item["metadata"]["name"]: item["metadata"]
        for item in ready.sim.call(lambda: ready.sim.world.store.list("slices.accelerator.gke.io"))
    }
    assert "annotations" not in names["train-b"]


def test_a_dry_run_stores_nothing(ready, spec):
    assert ready.ports.slices.create(spec, validate_only=True).name == "train-a"
    assert stored(ready) == []


def test_creating_the_same_again_gives_the_same(ready, spec):
    slices = ready.ports.slices
    created = slices.create(spec)
    turned = spec._replace(partition_ids=spec.partition_ids[::-1])
    assert slices.create(turned).uid == created.uid


def test_another_slice_of_that_name_is_a_conflict(ready, spec):
    slices = ready.ports.slices
    slices.create(spec)
    other = spec_of(ready, "train-a", first=1)
    with pytest.raises(errors.Conflict, match="another one") as caught:
        slices.create(other)
    assert caught.value.details == ("it has 2 partitions, 1 of the 2 wanted ones among them",)
    with pytest.raises(errors.Conflict) as caught:
        slices.create(spec._replace(topology=topology.CUBE, partition_ids=spec.partition_ids[:1]))
    assert caught.value.details[0] == "its topology is 4x4x8, wanted is 4x4x4"


def test_what_the_servers_rules_refuse_is_a_usage_error(ready, spec):
    with pytest.raises(errors.UsageError, match="cannot create slice train-a"):
        ready.ports.slices.create(spec._replace(partition_ids=spec.partition_ids[:1]))
    assert stored(ready) == []


def test_only_the_object_that_was_shown_is_deleted(ready, spec):
    slices = ready.ports.slices
    slices.create(spec)
    with pytest.raises(errors.Conflict, match="replaced"):
        slices.delete("train-a", uid="00000000-0000-0000-0000-000000000000")
    assert not slices.get("train-a").deleting


@pytest.mark.parametrize("reply", [None, scripted.Reply(504, b"timeout"), scripted.Reply(200, b"<html>")])
def test_a_create_whose_answer_is_lost_is_found_and_not_repeated(ready, spec, reply):
    ready.relay.after("POST", PATH, reply)
    created = ready.through_relay.slices.create(spec)
    assert created.uid == ready.ports.slices.get("train-a").uid
    assert len(ready.relayed.asked("POST")) == 1


def test_a_create_that_was_reset_before_it_arrived_is_sent_again(ready, spec):
    ready.relay.before("POST", PATH)
    ready.through_relay.slices.create(spec)
    kinds = [request.method for request in ready.relayed.requests if PATH in request.path]
    assert kinds == ["POST", "GET", "POST"], "looks before it writes again"
    assert stored(ready) == ["train-a"]


def test_an_unreadable_look_does_not_lead_to_a_blind_write(ready, spec):
    ready.relay.after("POST", PATH)
    ready.relay.before("GET", PATH, scripted.Reply(503, b""))
    ready.relay.before("GET", PATH)
    ready.through_relay.slices.create(spec)
    assert len(ready.relayed.asked("POST")) == 1


def test_a_throttled_create_waits_as_told_and_is_sent_again(ready, spec):
    ready.relay.before("POST", PATH, scripted.Reply(429, b"", {"Retry-After": "3"}))
    ready.through_relay.slices.create(spec)
    assert ready.clock.slept == [3.0]


def test_an_open_outcome_that_stays_open_says_so(ready, spec):
    for _ in range(200):
        ready.relay.before("POST", PATH, scripted.Reply(504, b""))
        ready.relay.before("GET", PATH + "/train-a", scripted.Reply(504, b""))
    with pytest.raises(errors.Unavailable) as caught:
        ready.through_relay.slices.create(spec)
    assert "not known" in caught.value.hint


def test_a_delete_whose_answer_is_lost_is_not_repeated(ready, spec):
    created = ready.ports.slices.create(spec)
    ready.sim.advance(120)
    ready.relay.after("DELETE", PATH)
    ready.through_relay.slices.delete("train-a", uid=created.uid)
    assert len(ready.relayed.asked("DELETE")) == 1
    assert ready.ports.slices.get("train-a").deleting


def test_a_delete_that_did_not_arrive_is_sent_again(ready, spec):
    created = ready.ports.slices.create(spec)
    ready.relay.before("DELETE", PATH)
    ready.through_relay.slices.delete("train-a", uid=created.uid)
    assert len(ready.relayed.asked("DELETE")) == 2


def test_without_a_slice_controller_the_command_for_it_is_told(fresh):
    slices = fresh.ports.slices
    for call in (
        lambda: slices.get("s"),
        lambda: slices.create(ports.SliceSpec("s", topology.CUBE, ("x",))),
        lambda: slices.delete("s", uid="u"),
        lambda: fresh.ports.fleet.observe([SLICES]),
    ):
        with pytest.raises(errors.NotFound, match="slice controller is off") as caught:
            call()
        assert (
            "gcloud container clusters update sim --location=us-central1 --enable-slice-controller"
            in caught.value.hint
        )


def test_a_controller_switched_off_meanwhile_is_not_a_missing_slice(ready):
    slices = ready.ports.slices
    assert slices.get("s") is None
    ready.sim.call(
        lambda: ready.sim.world.store.delete(
            "customresourcedefinitions.apiextensions.k8s.io", None, "slices.accelerator.gke.io"
        )
    )
    with pytest.raises(errors.NotFound, match="slice controller is off"):
        slices.get("s")


def serving(versions, items=()):
    """A script for a server with these versions of the Slice group."""
    group = {
        "kind": "APIGroup",
        "name": "accelerator.gke.io",
        "versions": [{"groupVersion": f"accelerator.gke.io/{name}", "version": name} for name in versions],
        "preferredVersion": {"version": versions[0]} if versions else {},
    }

    def script(request):
        if request.path == "/apis/accelerator.gke.io":
            return scripted.Reply(200, group)
        return scripted.Reply(
            200, {"kind": "SliceList", "metadata": {"resourceVersion": "5"}, "items": list(items)}
        )

    return script


def slices_of(server, directory):
    return connect.connect(scripted.context(server.url, directory), clock=scripted.FakeClock())


def test_the_known_version_is_used_even_if_another_is_preferred(tmp_path):
    with scripted.Server(serving(["v2", "v1beta1"])) as server:
        slices_of(server, tmp_path).fleet.observe([SLICES])
        assert server.requests[-1].path == PATH


def test_an_unknown_version_is_read_with_care_and_never_written(tmp_path):
    with scripted.Server(serving(["v2"], [manifests.slice_("s")])) as server:
        found = slices_of(server, tmp_path)
        assert [item.name for item in found.fleet.observe([SLICES]).slices] == ["s"]
        with pytest.raises(errors.UsageError, match="v1beta1"):
            found.slices.create(ports.SliceSpec("s", topology.CUBE, ("x",)))
        with pytest.raises(errors.UsageError, match="v1beta1"):
            found.slices.delete("s", uid="u")
        assert {request.method for request in server.requests} == {"GET"}


def test_an_unknown_version_without_partitions_is_not_taken_for_free_cubes(tmp_path):
    changed = manifests.slice_("s")
    changed["spec"] = {"parts": ["x"]}
    with (
        scripted.Server(serving(["v2"], [changed])) as server,
        pytest.raises(errors.Unavailable, match="nothing was assumed"),
    ):
        slices_of(server, tmp_path).fleet.observe([SLICES])


def test_a_group_that_names_no_version(tmp_path):
    with scripted.Server(serving([])) as server, pytest.raises(errors.Unavailable, match="versions"):
        slices_of(server, tmp_path).slices.get("s")
