"""The simulator over HTTP: time, tokens, its own API, the parts working together, and as a process."""

from __future__ import annotations

import email.utils
import json
import os
import pathlib
import signal
import socket
import ssl
import stat
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from tests.sim import cluster_world
from tpuctl.sim import process, server, simulator

if TYPE_CHECKING:
    from collections.abc import Iterator

OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
SLICES = "/apis/accelerator.gke.io/v1beta1/slices"


@pytest.fixture
def sim() -> Iterator[simulator.Simulator]:
    settings = simulator.Settings(cubes=2, ready_cubes=2, slice_controller=True)
    with simulator.Simulator(settings) as running:
        yield running
        running.call(lambda: cluster_world.check_invariants(running.world))


def ask(
    sim: simulator.Simulator,
    method: str,
    path: str,
    body: Any = None,
    *,
    token: str | None = "",
    url: str = "",
) -> tuple[int, Any, Any]:
    """(code, parsed body, headers) of one request; `token` "" stands for the right one."""
    headers = {"Content-Type": "application/json"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token or sim.token}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request((url or sim.url) + path, data=data, method=method, headers=headers)
    try:
        with OPENER.open(request, timeout=20) as answer:
            return answer.status, json.loads(answer.read()), answer.headers
    except urllib.error.HTTPError as error:
        with error:
            content = error.read()
            is_json = error.headers.get_content_type() == "application/json"
            return error.code, json.loads(content) if is_json else content.decode(), error.headers


def admin(sim: simulator.Simulator, call: str, **body: Any) -> tuple[int, Any]:
    code, answer, _ = ask(sim, "POST", f"/sim/v1/{call}", body)
    return code, answer


def slice_body(sim: simulator.Simulator, name: str, topology: str = "4x4x4", cubes: int = 1) -> dict:
    ids = sim.call(lambda: [cube.cube_id for cube in sim.world.hardware.subblocks()])
    return {
        "apiVersion": "accelerator.gke.io/v1beta1",
        "kind": "Slice",
        "metadata": {"name": name},
        "spec": {"type": "tpu7x", "topology": topology, "partitionIds": ids[:cubes]},
    }


# Time


def test_answers_carry_simulated_time(sim):
    _, _, headers = ask(sim, "GET", "/version")
    assert headers.get_all("date") == [
        email.utils.format_datetime(sim.call(sim.world.clock.now), usegmt=True)
    ]
    before = email.utils.parsedate_to_datetime(headers["date"])
    sim.advance(3600)
    _, _, headers = ask(sim, "GET", "/version")
    assert (email.utils.parsedate_to_datetime(headers["date"]) - before).total_seconds() == 3600


def test_a_clock_with_speed_forms_a_slice_by_itself():
    settings = simulator.Settings(cubes=1, ready_cubes=1, slice_controller=True, speed=2_000)
    with simulator.Simulator(settings) as sim:
        active = threading.Event()

        def follow(_kind, _old, new):
            if new and new.get("status", {}).get("conditions", [{}])[0].get("reason") == "ACTIVE":
                active.set()

        sim.call(lambda: sim.world.store.subscribe("slices.accelerator.gke.io", follow))
        assert ask(sim, "POST", SLICES, slice_body(sim, "a"))[0] == 201
        assert active.wait(10)


def test_a_clock_without_speed_stands_still(sim):
    first = ask(sim, "GET", "/sim/v1/status")[1]["elapsedSeconds"]
    assert ask(sim, "GET", "/sim/v1/status")[1]["elapsedSeconds"] == first


# The parts together


def test_webhook_and_controller_meet_at_the_api(sim):
    code, body, _ = ask(sim, "POST", SLICES, slice_body(sim, "a", "4x8x4", 2))
    assert (code, body["reason"]) == (403, "Forbidden")
    assert "non-decreasing" in body["message"]
    code, _, _ = ask(sim, "POST", SLICES, slice_body(sim, "a", "4x4x8", 2))
    assert code == 201
    sim.advance(60)
    _, body, _ = ask(sim, "GET", f"{SLICES}/a")
    assert body["status"]["conditions"][0]["reason"] == "ACTIVE"
    _, nodes, _ = ask(sim, "GET", "/api/v1/nodes?labelSelector=cloud.google.com/gke-tpu-slice%3Da")
    assert len(nodes["items"]) == 32


def test_a_spec_update_is_denied_over_the_api(sim):
    ask(sim, "POST", SLICES, slice_body(sim, "a"))
    _, body, _ = ask(sim, "GET", f"{SLICES}/a")
    body["spec"] = slice_body(sim, "a", "4x4x8", 2)["spec"]
    code, answer, _ = ask(sim, "PUT", f"{SLICES}/a", body)
    assert (code, answer["reason"]) == (403, "Forbidden")
    assert "immutable" in answer["message"]


def test_a_fresh_cluster_has_no_slices_until_the_controller_is_on():
    with simulator.Simulator(simulator.Settings(cubes=1)) as sim:
        assert ask(sim, "GET", "/sim/v1/status")[1]["sliceController"] is False
        cluster = "/v1/projects/sim-project/locations/us-central1/clusters/sim"
        code, _, _ = ask(sim, "GET", "/apis/accelerator.gke.io", token="")
        assert code == 404
        body = {"update": {"desiredAddonsConfig": {"sliceControllerConfig": {"enabled": True}}}}
        assert ask(sim, "PUT", cluster, body)[0] == 200
        sim.advance(300)
        assert ask(sim, "GET", SLICES)[1]["items"] == []
        body = {"update": {"desiredAddonsConfig": {"sliceControllerConfig": {"enabled": False}}}}
        assert ask(sim, "PUT", cluster, body)[0] == 200
        sim.advance(300)
        # Turning the controller off leaves the definition to the admin.
        assert ask(sim, "GET", SLICES)[1]["items"] == []
        assert ask(sim, "POST", SLICES, slice_body(sim, "a"))[0] == 201
        sim.advance(600)
        assert "status" not in ask(sim, "GET", f"{SLICES}/a")[1]


def test_ready_cubes_are_the_same_as_those_made_through_the_api():
    settings = simulator.Settings(cubes=1, slice_controller=True)
    with simulator.Simulator(settings) as sim:
        policy = {
            "name": "sim-cube",
            "workloadPolicy": {
                "type": "HIGH_THROUGHPUT",
                "acceleratorTopology": "4x4x4",
                "acceleratorTopologyMode": "PROVISION_ONLY",
            },
        }
        path = "/compute/v1/projects/sim-project/regions/us-central1/resourcePolicies"
        assert ask(sim, "POST", path, policy)[0] == 200
        sim.advance(5)
        target = (
            "projects/sim-project/reservations/sim-reservation/reservationBlocks/sim-reservation-block-0001"
            "/reservationSubBlocks/sim-reservation-block-0001-subblock-0001"
        )
        affinity = {
            "consumeReservationType": "SPECIFIC_RESERVATION",
            "key": "compute.googleapis.com/reservation-name",
            "values": [target],
        }
        pool = {
            "name": "cube-0001-0001",
            "initialNodeCount": 16,
            "locations": ["us-central1-a"],
            "config": {"machineType": "tpu7x-standard-4t", "reservationAffinity": affinity},
            "placementPolicy": {"policyName": "sim-cube"},
            "maxPodsConstraint": {"maxPodsPerNode": "15"},
        }
        cluster = "/v1/projects/sim-project/locations/us-central1/clusters/sim"
        assert ask(sim, "POST", f"{cluster}/nodePools", {"nodePool": pool})[0] == 200
        sim.advance(600)
        made = sim.call(lambda: sim.world.store.list("nodes"))
    ready = cluster_world.make(cubes=1).store.list("nodes")
    assert [timeless(node) for node in made] == [timeless(node) for node in ready]


def timeless(node: dict) -> dict:
    """A node without what says when it was made."""
    metadata = {
        name: value
        for name, value in node["metadata"].items()
        if name not in ("uid", "creationTimestamp", "resourceVersion")
    }
    conditions = [
        {name: value for name, value in one.items() if not name.endswith("Time")}
        for one in node["status"]["conditions"]
    ]
    return {**node, "metadata": metadata, "status": {**node["status"], "conditions": conditions}}


def test_too_many_ready_cubes():
    with pytest.raises(ValueError, match="3 ready cubes do not fit on 2"):
        simulator.Simulator(simulator.Settings(cubes=2, ready_cubes=3))


# The simulator's own API


def test_status(sim):
    code, body, _ = ask(sim, "GET", "/sim/v1/status")
    assert code == 200
    wanted = {"nodes": 32, "nodePools": 2, "completeNodePools": 2, "slices": 0, "pods": 0, "pid": os.getpid()}
    assert {name: body[name] for name in wanted} == wanted


@pytest.mark.parametrize("token", [None, "wrong"])
@pytest.mark.parametrize(("method", "call"), [("GET", "status"), ("POST", "advance"), ("POST", "shutdown")])
def test_every_call_needs_the_token(sim, token, method, call):
    code, body, _ = ask(sim, method, f"/sim/v1/{call}", token=token)
    assert code == 401
    assert "token" in body["error"]


def test_advance(sim):
    before = sim.call(lambda: sim.world.clock.now_s)
    code, body = admin(sim, "advance", seconds=90.5)
    assert (code, body["elapsedSeconds"]) == (200, before + 90.5)


@pytest.mark.parametrize("seconds", [-1, "60", None, True, 1e12])
def test_advance_refuses(sim, seconds):
    code, body = admin(sim, "advance", seconds=seconds)
    assert code == 400
    assert "seconds" in body["error"]


def test_unknown_fields_and_calls_are_refused(sim):
    assert admin(sim, "advance", seconds=1, minutes=2) == (400, {"error": "unknown fields: minutes"})
    assert admin(sim, "explode")[0] == 404
    assert ask(sim, "POST", "/sim/v1/advance", [1])[0] == 400


def test_faults_reach_the_hardware(sim):
    node = sim.call(lambda: sim.world.store.list("nodes")[0])["metadata"]["name"]
    cube = sim.call(lambda: sim.world.hardware.find_host(node)).subblock
    assert admin(sim, "inject", fault="host-down", target=node)[0] == 200
    assert not sim.call(lambda: sim.world.hardware.find_host(node).healthy)
    assert admin(sim, "inject", fault="host-up", target=node)[0] == 200
    assert sim.call(lambda: sim.world.hardware.find_host(node).healthy)
    for target in (cube.name, cube.cube_id, "cube-0001-0001", "cube-0001-0002"):
        assert admin(sim, "inject", fault="cube-degraded", target=target)[0] == 200
    assert cube.ocs_degraded
    assert admin(sim, "inject", fault="cube-restored", target=cube.name)[0] == 200
    assert not cube.ocs_degraded


def test_partial_needs_a_cube_without_vms():
    with simulator.Simulator(simulator.Settings(cubes=2, ready_cubes=1)) as sim:
        [used, free] = sim.call(lambda: list(sim.world.hardware.subblocks()))
        assert admin(sim, "inject", fault="partial", target=free.name, hosts=15)[0] == 200
        assert sum(host.powered for host in free.hosts) == 15
        code, body = admin(sim, "inject", fault="partial", target=used.name, hosts=15)
        assert code == 400
        assert "already carries 16 VMs" in body["error"]
        assert admin(sim, "inject", fault="partial", target=free.name)[1] == {
            "error": "fault partial needs hosts"
        }
        assert admin(sim, "inject", fault="partial", target=free.name, hosts=17)[0] == 400
        assert admin(sim, "inject", fault="host-up", target=free.name + "/3", hosts=1)[0] == 400


def test_unknown_faults_and_targets_come_with_similar_names(sim):
    code, body = admin(sim, "inject", fault="host-dwn", target="x")
    assert (code, body["near"][0]) == (400, "host-down")
    node = sim.call(lambda: sim.world.store.list("nodes")[0])["metadata"]["name"]
    code, body = admin(sim, "inject", fault="host-down", target=node[:-1])
    assert code == 404
    assert node in body["near"]
    code, body = admin(
        sim, "inject", fault="cube-degraded", target="sim-reservation-block-0001-subblock-0009"
    )
    assert code == 404
    assert body["near"]


# TLS, tokens, files


def test_the_kubernetes_endpoint_speaks_tls(sim, tmp_path):
    path = sim.kubeconfig(tmp_path / "kubeconfig")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    config = json.loads(path.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    assert cluster["server"] == sim.tls_url
    assert user == {"token": sim.token}
    assert config["current-context"] == "sim"
    authority = simulator.base64.b64decode(cluster["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=authority)
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    request = urllib.request.Request(
        f"{sim.tls_url}/version", headers={"Authorization": f"Bearer {sim.token}"}
    )
    with opener.open(request, timeout=20) as answer:
        assert json.loads(answer.read())["major"] == "1"


def test_the_context_names_everything_a_client_needs(sim, tmp_path):
    sim.token_file(tmp_path / "token")
    context = sim.context()
    assert context["endpoints"] == {"container": sim.url, "compute": sim.url, "kubernetes": sim.tls_url}
    assert context["reservations"] == ["sim-reservation"]
    assert pathlib.Path(context["tokenFile"]).read_text() == sim.token
    assert "kubeconfig" not in context
    assert sim.token not in json.dumps(context)


def test_a_taken_port_is_an_error(sim):
    port = int(sim.url.rpartition(":")[2])
    with pytest.raises(OSError, match="in use"):
        simulator.Simulator(simulator.Settings(cubes=1, port=port)).start()


def test_errors_of_a_call_reach_the_caller(sim):
    def fail():
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        sim.call(fail)


def test_what_goes_wrong_on_the_server_is_raised_at_the_end():
    sim = simulator.Simulator(simulator.Settings(cubes=1, speed=100))
    sim.start()

    def explode():
        raise ZeroDivisionError

    sim.call(lambda: sim.world.clock.call_later(1, explode))
    sim.wait()
    with pytest.raises(RuntimeError, match="failed while it ran") as caught:
        sim.stop()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_watches_end_when_the_simulator_stops():
    with simulator.Simulator(simulator.Settings(cubes=1)) as sim:
        request = urllib.request.Request(
            f"{sim.url}/api/v1/namespaces?watch=1", headers={"Authorization": f"Bearer {sim.token}"}
        )
        stream = OPENER.open(request, timeout=20)
        assert json.loads(stream.readline())["type"] == "ADDED"
        sim.stop()
        with stream:
            stream.read()


# As a process


def test_a_connection_that_comes_while_it_stops_is_ended_as_well(monkeypatch):
    """A transport that outlives its loop is never closed; slow machines let one in after the last look."""
    monkeypatch.setattr(server, "_LAST_ANSWERS_S", 0.0)
    made = server._Protocol.connection_made
    transports = []

    def noted(protocol, transport):
        transports.append(transport)
        made(protocol, transport)

    monkeypatch.setattr(server._Protocol, "connection_made", noted)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with simulator.Simulator(simulator.Settings(cubes=1)) as sim:
        address = urllib.parse.urlsplit(sim.tls_url)
        listeners = sim._running()._uvicorns[1].servers
        plain = socket.create_connection((address.hostname, address.port), timeout=5)
        sim.request_stop()
        while any(listener.is_serving() for listener in listeners):
            time.sleep(0.001)
        with context.wrap_socket(plain):
            sim.wait()
    assert transports
    assert all(transport.is_closing() for transport in transports)


@pytest.fixture
def directory(tmp_path) -> Iterator[pathlib.Path]:
    place = tmp_path / "sim"
    yield place
    process.stop(place)


SMALL = simulator.Settings(cubes=1, seed=3)


def test_a_process_of_its_own(directory):
    state = process.spawn(SMALL, directory)
    assert process.is_running(directory)
    assert process.read(directory) == state
    assert state.pid != os.getpid()
    assert state.settings["seed"] == 3
    status = process.request(state, "GET", "status")
    assert (status["pid"], status["instance"]) == (state.pid, state.instance)
    assert process.request(state, "POST", "advance", {"seconds": 60})["elapsedSeconds"] == 60
    assert "error" in process.request(state, "POST", "inject", {"fault": "x", "target": "y"})
    assert {path.name for path in directory.iterdir()} == {"state.json", "token", "kubeconfig", "log", "lock"}
    for name in ("state.json", "token", "kubeconfig", "log"):
        assert stat.S_IMODE((directory / name).stat().st_mode) == 0o600
    with pytest.raises(process.AlreadyRunningError):
        process.spawn(SMALL, directory)
    assert process.stop(directory) is True
    assert not process.is_running(directory)
    assert {path.name for path in directory.iterdir()} == {"log", "lock"}
    assert process.stop(directory) is False


def test_a_killed_process_leaves_a_stale_state(directory):
    state = process.spawn(SMALL, directory)
    os.kill(state.pid, signal.SIGKILL)
    os.waitpid(state.pid, 0)
    assert process.read(directory) == state
    assert not process.is_running(directory)
    with pytest.raises(process.UnreachableError):
        process.request(state, "GET", "status")
    again = process.spawn(SMALL, directory)
    assert again.instance != state.instance


def test_a_process_that_cannot_start_says_why(directory):
    with simulator.Simulator(simulator.Settings(cubes=1)) as other:
        port = int(other.url.rpartition(":")[2])
        with pytest.raises(process.ProcessError, match="in use"):
            process.spawn(simulator.Settings(cubes=1, port=port), directory)
    assert process.read(directory) is None


def test_another_simulator_at_the_recorded_address_is_left_alone(directory):
    state = process.spawn(SMALL, directory)
    with simulator.Simulator(simulator.Settings(cubes=1), instance="other") as other:
        other.token_file(directory / "token")
        forged = {**state.to_json(), "url": other.url}
        simulator.write_private(directory / "state.json", json.dumps(forged).encode())
        with pytest.raises(process.ProcessError, match="another simulator"):
            process.stop(directory)
        assert process.request(process.read(directory), "GET", "status")["instance"] == "other"
    os.kill(state.pid, signal.SIGTERM)


def test_termination_ends_it_cleanly(directory):
    state = process.spawn(SMALL, directory)
    os.kill(state.pid, signal.SIGTERM)
    assert os.waitpid(state.pid, 0) == (state.pid, 0)
    assert process.read(directory) is None


def test_an_unreadable_state_is_an_error(tmp_path):
    (tmp_path / "state.json").write_text("{}")
    with pytest.raises(process.ProcessError, match=r"state\.json"):
        process.read(tmp_path)


def test_settings_survive_the_way_to_the_process():
    settings = simulator.Settings(cubes=3, speed=10.0, seed=9)
    values = json.loads(json.dumps(process.dataclasses.asdict(settings)))
    assert process.settings_from(values) == settings
    with pytest.raises(TypeError):
        process.settings_from({**values, "unknown": 1})


# What belongs to a deleted Job


@pytest.fixture
def working(sim) -> simulator.Simulator:
    """A Job of two pods that run."""
    container = {"name": "c", "image": "python:3.12", "resources": {"limits": {"google.com/tpu": 4}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "template": template}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}
    assert ask(sim, "POST", JOBS, job)[0] == 201
    sim.advance(10)
    assert [pod["status"]["phase"] for pod in pods(sim)] == ["Running"] * 2
    return sim


JOBS = "/apis/batch/v1/namespaces/default/jobs"


def pods(sim: simulator.Simulator) -> list[dict]:
    return ask(sim, "GET", "/api/v1/namespaces/default/pods")[1]["items"]


def test_a_job_deleted_without_a_policy_leaves_its_pods_and_a_warning(working):
    code, _, headers = ask(working, "DELETE", f"{JOBS}/j")
    assert code == 200
    assert "child pods are preserved by default" in headers["Warning"]
    working.advance(60)
    assert ask(working, "GET", f"{JOBS}/j")[0] == 404
    assert [pod["status"]["phase"] for pod in pods(working)] == ["Running"] * 2
    assert not any("ownerReferences" in pod["metadata"] for pod in pods(working))
    assert not any("finalizers" in pod["metadata"] for pod in pods(working))


def test_background_deletion_takes_the_pods_afterwards(working):
    _, _, headers = ask(working, "DELETE", f"{JOBS}/j?propagationPolicy=Background")
    assert "Warning" not in headers
    assert ask(working, "GET", f"{JOBS}/j")[0] == 404
    assert all("deletionTimestamp" in pod["metadata"] for pod in pods(working))
    working.advance(10)
    assert pods(working) == []


def test_foreground_deletion_takes_the_pods_first(working):
    ask(working, "DELETE", f"{JOBS}/j", {"propagationPolicy": "Foreground"})
    _, job, _ = ask(working, "GET", f"{JOBS}/j")
    assert job["metadata"]["finalizers"] == ["foregroundDeletion"]
    working.advance(10)
    assert pods(working) == []
    assert ask(working, "GET", f"{JOBS}/j")[0] == 404


def test_a_pod_deleted_through_the_api_is_made_again(working):
    old = pods(working)[0]
    assert ask(working, "DELETE", f"/api/v1/namespaces/default/pods/{old['metadata']['name']}")[0] == 200
    working.advance(30)
    now = pods(working)
    assert len(now) == 2
    assert old["metadata"]["uid"] not in {pod["metadata"]["uid"] for pod in now}


def test_pods_made_through_the_api_get_the_toleration(sim):
    container = {"name": "c", "image": "python:3.12", "resources": {"limits": {"google.com/tpu": 4}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    code, made, _ = ask(sim, "POST", "/api/v1/namespaces/default/pods", pod)
    assert code == 201
    assert made["spec"]["tolerations"][-1]["key"] == "google.com/tpu"
    sim.advance(10)
    assert [pod["status"]["phase"] for pod in pods(sim)] == ["Running"]
