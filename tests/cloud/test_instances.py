"""VMs and reports of faulty hosts, on the simulator and on services that answer oddly."""

from __future__ import annotations

import pytest

from tests.cloud import scripted
from tpuctl.cloud import connect, instances
from tpuctl.model import errors, fleet
from tpuctl.ops import ports as ports_module

REPORT = ports_module.FaultReport("CHIP_ERROR", "chip 2 fails its self-test", "IMMEDIATE")
Status = ports_module.OperationStatus
RESET_ID = "0706207d-e7a5-5675-8d9c-84ab0f71b675"


def a_host(world):
    return world.ports.fleet.observe([fleet.SourceName.NODES]).cubes[0].hosts[0]


def test_the_vm_behind_a_node(ready):
    host = a_host(ready)
    found = ready.ports.instances.get(host.provider_id)
    assert found == ports_module.Instance(
        project="sim-project",
        zone="us-central1-a",
        name=host.name,
        status="RUNNING",
        provisioning_model="RESERVATION_BOUND",
    )
    assert ready.ports.instances.get("gce://sim-project/us-central1-a/nothing") is None


@pytest.mark.parametrize(
    "text", ["", "gce://", "gce://p/z", "gce://p//n", "gce://p/z/n/more", "aws:///z/n", "p/z/n"]
)
def test_a_provider_id_that_names_no_vm(ready, text):
    with pytest.raises(errors.UsageError, match="does not tell its VM"):
        ready.ports.instances.get(text)


def test_a_report_runs_first_and_ends_later(ready):
    api = ready.ports.instances
    instance = api.get(a_host(ready).provider_id)
    assert api.reports(instance) == ()
    operation = api.report_faulty(instance, REPORT)
    assert (operation.kind, operation.target, operation.status) == (
        "reportHostAsFaulty",
        instance.name,
        Status.RUNNING,
    )
    assert api.reports(instance) == (operation,)
    ready.sim.advance(700)
    assert api.operation(instance, operation.name).status is Status.DONE
    assert [item.status for item in api.reports(instance)] == [Status.DONE]
    other = api.get(ready.ports.fleet.observe([fleet.SourceName.NODES]).cubes[1].hosts[0].provider_id)
    assert api.reports(other) == ()


@pytest.mark.parametrize("reply", [None, scripted.Reply(502, b"")], ids=["reset", "502"])
def test_a_report_whose_answer_was_lost_is_found_and_not_made_twice(ready, reply):
    ready.relay.after("POST", "/reportHostAsFaulty", reply)
    api = ready.through_relay.instances
    instance = api.get(a_host(ready).provider_id)
    operation = api.report_faulty(instance, REPORT)
    assert operation.status is Status.RUNNING
    assert len(ready.ports.instances.reports(instance)) == 1


def test_a_report_that_did_not_arrive_is_sent_again(ready):
    ready.relay.before("POST", "/reportHostAsFaulty")
    api = ready.through_relay.instances
    instance = api.get(a_host(ready).provider_id)
    api.report_faulty(instance, REPORT)
    sent = ready.relayed.asked("POST")
    assert len(sent) == 2
    assert sent[0].query["requestId"] == sent[1].query["requestId"]
    assert sent[0].body == {
        "disruptionSchedule": "IMMEDIATE",
        "faultReasons": [{"behavior": "CHIP_ERROR", "description": "chip 2 fails its self-test"}],
    }


def test_a_vm_that_stopped_meanwhile_is_refused_by_the_service(ready):
    host = a_host(ready)
    instance = ready.ports.instances.get(host.provider_id)
    ready.sim.inject("host-down", host.name)
    with pytest.raises(errors.TpuctlError, match="is not ready"):
        ready.ports.instances.report_faulty(instance, REPORT)


def connected(server, directory):
    return connect.connect(scripted.context(server.url, directory), clock=scripted.FakeClock()).instances


VM = ports_module.Instance("p1", "us-central1-c", "n1", "RUNNING", "")


def operation(name, target="n1", **fields):
    link = f"https://www.googleapis.com/compute/v1/projects/p1/zones/us-central1-c/instances/{target}"
    plain = {"name": name, "operationType": instances.REPORT, "targetLink": link, "status": "RUNNING"}
    return plain | {"insertTime": f"2026-01-05T08:00:0{name[-1]}Z"} | fields


def listing(*items, **more):
    return scripted.Reply(200, {"kind": "compute#operationList", "id": "x", "items": list(items)} | more)


def test_only_reports_of_this_vm_on_all_pages_oldest_first(tmp_path):
    def script(request):
        if "pageToken" not in request.query:
            return listing(
                operation("op3"),
                operation("op4", target="xn1"),
                operation("op5", target="n11"),
                nextPageToken="t",
            )
        failed = {"errors": [{"code": "RESOURCE_NOT_FOUND", "message": "the VM is gone"}]}
        return listing(operation("op1", status="DONE", error=failed), operation("op2", operationType="reset"))

    with scripted.Server(script) as server:
        found = connected(server, tmp_path).reports(VM)
        assert [(item.name, item.status, item.error) for item in found] == [
            ("op1", Status.FAILED, "the VM is gone"),
            ("op3", Status.RUNNING, ""),
        ]
        asked = server.requests
        assert {request.path for request in asked} == {
            "/compute/v1/projects/p1/zones/us-central1-c/operations"
        }
        # The service leaves out what is about other VMs: the history of a large zone is long.
        about_n1 = 'targetLink eq ".*/zones/us-central1-c/instances/n1"'
        assert [request.query["filter"] for request in asked] == [about_n1] * 2


def test_a_list_of_operations_that_is_not_whole_is_no_list(tmp_path):
    reply = listing(warning={"code": "UNREACHABLE", "message": "zone is down"})
    with (
        scripted.Server(lambda _: reply) as server,
        pytest.raises(errors.Unavailable, match=r"not whole.*zone is down"),
    ):
        connected(server, tmp_path).reports(VM)


@pytest.mark.parametrize(("code", "error"), [(401, errors.NotPermitted), (403, errors.NotPermitted)])
def test_not_permitted_is_no_missing_vm(tmp_path, code, error):
    with (
        scripted.Server(lambda _: scripted.google_error(code, "no")) as server,
        pytest.raises(error),
    ):
        connected(server, tmp_path).get("gce://p1/us-central1-c/n1")


def test_a_reset_restarts_the_guest_and_is_known_again_by_its_id(ready):
    api = ready.ports.instances
    instance = api.get(a_host(ready).provider_id)
    assert api.resets(instance) == ()
    operation = api.reset(instance, RESET_ID)
    assert (operation.kind, operation.target, operation.status) == ("reset", instance.name, Status.RUNNING)
    assert api.reset(instance, RESET_ID).name == operation.name
    assert api.resets(instance) == (operation,)
    assert api.reports(instance) == ()
    ready.sim.advance(50)
    assert api.get(a_host(ready).provider_id).status == "RUNNING"
    assert a_host(ready).ready is not True
    ready.sim.advance(120)
    assert a_host(ready).ready is True


@pytest.mark.parametrize("reply", [None, scripted.Reply(502, b"")], ids=["reset", "502"])
def test_a_reset_whose_answer_was_lost_happens_once(ready, reply):
    ready.relay.after("POST", "/reset", reply)
    instance = ready.ports.instances.get(a_host(ready).provider_id)
    operation = ready.through_relay.instances.reset(instance, RESET_ID)
    assert [item.name for item in ready.ports.instances.resets(instance)] == [operation.name]
    sent = ready.relayed.asked("POST")
    assert {request.query["requestId"] for request in sent} == {RESET_ID}


def test_a_stopped_vm_cannot_be_reset(ready):
    host = a_host(ready)
    instance = ready.ports.instances.get(host.provider_id)
    ready.sim.inject("host-down", host.name)
    with pytest.raises(errors.Busy, match="not ready"):
        ready.ports.instances.reset(instance, RESET_ID)
