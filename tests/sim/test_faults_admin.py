"""Faults through the simulator's own API, and through `tpuctl sim`."""

from __future__ import annotations

import io
import json
import pathlib
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.sim.fault_clients import CONFIGMAPS, NODES, ask, config_map
from tpuctl.cli import main
from tpuctl.sim import process, simulator
from tpuctl.sim.faults import requests, table

if TYPE_CHECKING:
    from collections.abc import Iterator

POOL = "cube-0001-0001"


@pytest.fixture
def sim() -> Iterator[simulator.Simulator]:
    with simulator.Simulator(simulator.Settings(cubes=1, ready_cubes=1, slice_controller=True)) as running:
        yield running


def post(sim, name, /, **body):
    answer = ask(sim, "POST", f"/sim/v1/{name}", body)
    return answer.status, answer.json


def listed(sim):
    return ask(sim, "GET", "/sim/v1/faults").json["faults"]


def test_an_api_fault_by_the_admin_api(sim):
    code, found = post(
        sim,
        "inject",
        fault="api-error",
        api="kubernetes",
        verb="list",
        resource="nodes",
        code=429,
        retryAfterSeconds=3,
        call=2,
    )
    assert (code, found["id"], found["state"], found["calls"]) == (200, "a1", "active", 0)
    assert [ask(sim, "GET", NODES).status for _ in range(3)] == [200, 429, 200]
    [shown] = listed(sim)
    assert (shown["state"], shown["calls"], shown["hits"]) == ("spent", 3, 1)
    assert shown["parameters"] == {
        "code": 429,
        "when": "before",
        "retry_after_s": 3,
        "api": "kubernetes",
        "verb": "list",
        "resource": "nodes",
        "call": 2,
    }
    assert post(sim, "next", id="a1")[1]["parameters"]["call"] == 3
    assert [ask(sim, "GET", NODES).status for _ in range(3)] == [200, 200, 429]
    assert post(sim, "clear", ids=["a1"]) == (200, {"cleared": ["a1"]})
    assert listed(sim) == []


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"fault": "api-eror"}, "unknown fault"),
        ({"fault": 7}, "fault must be a string"),
        ({"fault": "api-error", "target": "x"}, "takes no target"),
        ({"fault": "api-error", "cod": 503}, "takes no cod"),
        ({"fault": "api-error", "code": "503"}, "code must be a whole number"),
        ({"fault": "api-error", "code": 418}, "code must be one of"),
        ({"fault": "api-error", "verb": "lst"}, "unknown verb"),
        ({"fault": "api-slow", "delaySeconds": True}, "delaySeconds must be a number"),
        ({"fault": "host-down"}, "needs a target (NODE)"),
        ({"fault": "host-down", "target": POOL, "forSeconds": 0}, "forSeconds must be"),
        ({"fault": "host-down", "target": POOL, "afterSeconds": -1}, "afterSeconds must be"),
        ({"fault": "host-down", "target": POOL, "code": 503}, "takes no code"),
    ],
)
def test_the_admin_api_refuses(sim, body, text):
    code, found = post(sim, "inject", **body)
    assert code == 400
    assert text in found["error"]
    assert listed(sim) == []


def test_a_slip_comes_with_similar_names(sim):
    assert "api-error" in post(sim, "inject", fault="api-eror")[1]["near"]
    assert "code" in post(sim, "inject", fault="api-error", cod=503)[1]["near"]


def test_clear_takes_all_or_nothing(sim):
    post(sim, "inject", fault="cube-degraded", target=POOL)
    post(sim, "inject", fault="api-slow", delaySeconds=0.01, api="compute")
    code, found = post(sim, "clear", ids=["f1", "a9"])
    assert (code, found["near"]) == (404, ["f1", "a1"])
    assert len(listed(sim)) == 2
    assert post(sim, "clear") == (200, {"cleared": ["f1", "a1"]})
    assert listed(sim) == []
    assert not sim.call(lambda: next(sim.world.hardware.subblocks()).ocs_degraded)


def test_next_is_for_api_faults(sim):
    post(sim, "inject", fault="cube-degraded", target=POOL)
    assert post(sim, "next", id="f1")[0] == 404


@pytest.mark.parametrize("name", requests.NAMES)
def test_every_fault_names_the_fields_it_accepts(name):
    accepted = requests.accepted(name)
    assert ("afterSeconds" in accepted) is (name in table.FAULTS)
    assert ("call" in accepted) is (name not in table.FAULTS)


# The command line


class Done(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Iterator[pathlib.Path]:
    """A home in which a detached simulator runs."""
    folder = tmp_path_factory.mktemp("home")
    directory = folder / "state" / "tpuctl" / "sim"
    settings = simulator.Settings(cubes=1, ready_cubes=1, slice_controller=True, speed=0.001)
    process.spawn(settings, directory)
    yield folder
    process.stop(directory)


def tpuctl(home: pathlib.Path, *arguments: str) -> Done:
    out, err = io.StringIO(), io.StringIO()
    status = main.main(
        arguments,
        program="tpuctl",
        env={"HOME": str(home), "XDG_STATE_HOME": str(home / "state"), "TERM": "xterm"},
        cwd=home,
        stdin=io.StringIO(),
        stdout=out,
        stderr=err,
    )
    return Done(status, out.getvalue(), err.getvalue())


def in_json(home: pathlib.Path, *arguments: str) -> Any:
    done = tpuctl(home, *arguments, "-o", "json")
    assert done.status == 0, done.err
    return json.loads(done.out)


def test_faults_from_the_command_line(home):
    done = tpuctl(home, "sim", "inject", "cube-degraded", POOL, "--for", "3600")
    assert done.status == 0, done.err
    assert "an optical link of" in done.out
    command = (
        "sim inject api-error --api kubernetes --verb list --resource nodes --code 503 --call 3 --times 2"
    )
    found = in_json(home, *command.split())
    assert (found["kind"], found["state"], found["parameters"]["times"]) == ("Fault", "active", 2)
    shown = in_json(home, "sim", "faults", "list")["items"]
    assert [one["fault"] for one in shown] == ["cube-degraded", "api-error"]
    table_lines = tpuctl(home, "sim", "faults", "list").out.splitlines()
    assert table_lines[0].split() == ["ID", "FAULT", "TARGET", "STATE", "CALLS", "HITS", "ENDS", "WHAT"]
    assert len(table_lines) == 3
    found = in_json(home, "sim", "faults", "next", "a1")
    assert found["parameters"]["call"] == 4
    done = tpuctl(home, "sim", "faults", "clear", "a1")
    assert (done.status, done.out.split()) == (0, ["Cleared:", "a1"])
    assert tpuctl(home, "sim", "faults", "clear").status == 0
    assert in_json(home, "sim", "faults", "list")["items"] == []


@pytest.mark.parametrize(
    ("line", "status", "texts"),
    [
        ("inject host-dwn x", 64, ["unknown fault 'host-dwn'", "did you mean host-down"]),
        ("inject host-up x --hosts 3", 64, ["host-up takes no --hosts", "it takes --after"]),
        ("inject host-down", 64, ["host-down needs a target: NODE"]),
        ("inject api-error x", 64, ["api-error takes no target", "--api"]),
        ("inject api-error --code 418", 64, ["code must be one of"]),
        ("inject host-down nobody", 5, ["unknown node 'nobody'"]),
        ("inject cube-down cube-0001-0002", 5, ["unknown cube", "did you mean cube-0001-0001"]),
        ("faults clear f99", 5, ["no fault has the id 'f99'"]),
        ("faults next a99", 5, ["no API fault has the id 'a99'"]),
    ],
)
def test_the_command_line_refuses(home, line, status, texts):
    done = tpuctl(home, "sim", *line.split())
    assert done.status == status, done.err
    assert all(text in done.err for text in texts), done.err


def test_all_kinds_are_listed_without_a_simulator(tmp_path):
    items = in_json(tmp_path, "sim", "faults", "kinds")["items"]
    assert [one["fault"] for one in items] == list(requests.NAMES)
    assert all(one["summary"] and one["options"] for one in items)


def test_faults_need_a_running_simulator(tmp_path):
    done = tpuctl(tmp_path, "sim", "inject", "host-down", "x")
    assert done.status == 5
    assert "no simulator is running" in done.err


def test_a_fault_of_the_process_reaches_its_clients(home):
    """The same engine in the detached process: a creation is done and its answer lost."""
    state = process.read(home / "state" / "tpuctl" / "sim")
    assert state is not None
    remote = _Remote(state)
    assert tpuctl(home, "sim", "inject", "api-reset", "--when", "after", "--verb", "create").status == 0
    with pytest.raises(ConnectionResetError):
        ask(remote, "POST", CONFIGMAPS, config_map("done"))
    assert ask(remote, "GET", f"{CONFIGMAPS}/done").status == 200
    assert tpuctl(home, "sim", "faults", "clear").status == 0


class _Remote:
    """What `ask` needs of a simulator in another process."""

    def __init__(self, state: process.State) -> None:
        self.url = state.url
        self.token = pathlib.Path(state.context["tokenFile"]).read_text()
