"""Contexts: which one is meant, and what `context` shows and stores."""

from __future__ import annotations

import contextlib
import fcntl
import json

import pytest

from tests.cli.conftest import PROD
from tpuctl.cli import session, terminal

TWO = PROD + PROD.partition("\n")[2].replace("prod", "test").replace("c1", "c2")


def current(tpuctl, *arguments, env=None):
    """Name of the current context and who chose it."""
    result = tpuctl("config", "view", "-o", "json", *arguments, env=env)
    item = json.loads(result.out)["items"][0]
    return item["value"], item["origin"]


@pytest.fixture
def simulator(tpuctl):
    """What a detached simulator leaves, lock held."""
    folder = tpuctl.home / ".local/state/tpuctl/sim"
    folder.mkdir(parents=True)
    context = {
        "project": "sim-project",
        "location": "sim-region1",
        "zone": "sim-region1-a",
        "cluster": "sim",
        "reservations": ["sim-reservation"],
        "kubeconfig": str(folder / "kubeconfig"),
        "kubeconfigContext": "sim",
        "endpoints": dict.fromkeys(("kubernetes", "container", "compute"), "http://127.0.0.1:8123"),
        "tokenFile": str(folder / "token"),
        "clockScale": 60.0,
    }
    (folder / "state.json").write_text(json.dumps({"pid": 1, "context": context}))
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def test_list(tpuctl):
    tpuctl.write("~/.config/tpuctl/config.yaml", TWO)
    assert tpuctl("context", "list", "--context", "test").out == (
        "CURRENT  NAME  PROJECT  LOCATION     CLUSTER\n"
        "-        prod  p1       us-central1  c1\n"
        "*        test  p1       us-central1  c2\n"
    )
    assert tpuctl("context", "list", "-o", "name").out == "context/prod\ncontext/test\n"
    document = json.loads(tpuctl("context", "list", "-o", "json", "--context", "test").out)
    assert document["kind"] == "ContextList"
    assert document["items"][1] == {
        "name": "test",
        "current": True,
        "project": "p1",
        "location": "us-central1",
        "zone": "us-central1-c",
        "cluster": "c2",
        "reservations": ["r1", "projects/other/reservations/r2"],
        "origin": f"{tpuctl.home}/.config/tpuctl/config.yaml:8",
    }


def test_show(prod):
    document = json.loads(prod("context", "show", "-o", "json").out)
    assert document == {
        "apiVersion": "tpuctl/v1",
        "kind": "Context",
        "name": "prod",
        "project": "p1",
        "location": "us-central1",
        "zone": "us-central1-c",
        "cluster": "c1",
        "reservations": ["r1", "projects/other/reservations/r2"],
        "policy": "tpuctl-4x4x4",
        "kubeconfig": None,
        "kubeconfigContext": None,
        "endpoints": {"kubernetes": None, "container": None, "compute": None},
        "tokenFile": None,
        "clockScale": 1.0,
        "protected": False,
        "policyFile": None,
        "observedAt": None,
        "partial": False,
    }
    lines = prod("context", "show").out.splitlines()
    assert lines[0] == "Name:                prod"
    assert lines[-1] == "Protected:           no"
    assert lines[5:7] == ["Reservations:        r1", "                     projects/other/reservations/r2"]


def test_paths_are_relative_to_the_file(tpuctl):
    tpuctl.write("sub/conf.yaml", PROD + "    kubeconfig: kube/config\n    tokenFile: ~/token\n")
    document = json.loads(tpuctl("context", "show", "--config", "sub/conf.yaml", "-o", "json").out)
    assert document["kubeconfig"] == f"{tpuctl.cwd}/sub/kube/config"
    assert document["tokenFile"] == f"{tpuctl.home}/token"


def test_no_context_at_all(tpuctl):
    result = tpuctl("context", "show")
    assert result.status == 64
    assert result.err.startswith("error: there is no context to work on\nhint: `tpuctl sim start --detach`")
    assert f"{tpuctl.home}/.config/tpuctl/config.yaml" in result.err
    assert tpuctl("context", "list").err == "No contexts found. `tpuctl sim start --detach` makes one.\n"


def test_the_example_in_the_message_is_a_working_file(tpuctl):
    example = tpuctl("context", "show").err.partition("at least:\n")[2]
    tpuctl.write("~/.config/tpuctl/config.yaml", example)
    assert json.loads(tpuctl("context", "show", "-o", "json").out)["cluster"] == "my-cluster"


def test_several_and_none_chosen(tpuctl):
    tpuctl.write("~/.config/tpuctl/config.yaml", TWO)
    result = tpuctl("context", "show")
    assert result.status == 64
    assert result.err == (
        "error: no context is chosen; there are prod, test\n"
        "hint: pass --context NAME, or choose one with `tpuctl context use NAME`\n"
    )


def test_unknown_context(prod):
    result = prod("context", "show", "prdo")
    assert (result.status, result.err) == (5, "error: there is no context 'prdo'\nhint: contexts are: prod\n")
    result = prod("context", "show", env={"TPUCTL_CONTEXT": "gone"})
    assert result.err.startswith("error: there is no context 'gone' (chosen by TPUCTL_CONTEXT)\n")
    assert prod("context", "show", "sim").err.endswith(
        "hint: no simulator is running; start one with `tpuctl sim start --detach`\n"
    )


def test_who_chooses(tpuctl):
    path = tpuctl.write("~/.config/tpuctl/config.yaml", TWO + "currentContext: prod\n")
    assert current(tpuctl) == ("prod", f"{path}:14")
    assert tpuctl("context", "use", "test").err == "Commands work on context 'test' now.\n"
    state = tpuctl.home / ".local/state/tpuctl/current-context"
    assert current(tpuctl) == ("test", str(state))
    assert path.read_text() == TWO + "currentContext: prod\n"
    assert state.stat().st_mode & 0o777 == 0o600
    project = tpuctl.write("tpuctl.yaml", "currentContext: prod\n")
    assert current(tpuctl) == ("prod", f"{project}:1")
    assert tpuctl("context", "use", "test").err == (
        f"warning: stored, but {project}:1 is stronger and says 'prod'\n"
    )
    assert current(tpuctl, env={"TPUCTL_CONTEXT": "test"}) == ("test", "TPUCTL_CONTEXT")
    assert current(tpuctl, "--context", "prod", env={"TPUCTL_CONTEXT": "test"}) == ("prod", "--context")


def test_use_refuses_what_is_not_there_or_not_whole(prod):
    assert prod("context", "use", "gone").status == 5
    prod.write("tpuctl.yaml", "contexts: {half: {project: p}}\n")
    result = prod("context", "use", "half")
    assert (result.status, result.err) == (
        64,
        "error: context 'half' has no location\nhint: set it in the file, or with TPUCTL_LOCATION\n",
    )
    assert not (prod.home / ".local").exists()


def test_use_says_why_it_cannot_store(prod):
    prod.write("~/.local/state", "a file where a folder belongs")
    result = prod("context", "use", "prod")
    assert result.status == 1
    assert result.err.startswith(f"error: cannot write {prod.home}/.local/state/tpuctl/current-context: ")


def test_damaged_choice(prod):
    path = prod.write("~/.local/state/tpuctl/current-context", "a b\n")
    result = prod("context", "show")
    assert result.status == 64
    assert result.err.startswith(f"error: {path}: cannot be read: ")


def test_a_context_is_one_unit(prod):
    prod.write("tpuctl.yaml", "contexts: {prod: {project: p9, location: l9, zone: z9-a, cluster: c9}}\n")
    document = json.loads(prod("context", "show", "-o", "json").out)
    assert (document["project"], document["cluster"], document["reservations"]) == ("p9", "c9", [])


def test_variables_replace_values_of_the_chosen_context_only(tpuctl):
    tpuctl.write("tpuctl.yaml", TWO)
    env = {"TPUCTL_CLUSTER": "c9", "TPUCTL_PROTECTED": "yes", "TPUCTL_CONTEXT": "prod"}
    chosen = json.loads(tpuctl("context", "show", "-o", "json", env=env).out)
    other = json.loads(tpuctl("context", "show", "test", "-o", "json", env=env).out)
    assert (chosen["cluster"], chosen["protected"]) == ("c9", True)
    assert (other["cluster"], other["protected"]) == ("c2", False)


def test_variables_alone_are_a_context(tpuctl):
    env = {"TPUCTL_PROJECT": "p", "TPUCTL_LOCATION": "r1", "TPUCTL_CLUSTER": "c", "TPUCTL_ZONE": "r1-a"}
    assert tpuctl("context", "show", "-o", "name", env=env).out == "context/environment\n"
    del env["TPUCTL_ZONE"]
    assert tpuctl("context", "show", env=env).err.startswith("error: context 'environment' has no zone\n")


def test_values_that_no_fleet_can_have(tpuctl):
    tpuctl.write("tpuctl.yaml", PROD + "    endpoints: {container: 'http://example.com'}\n")
    result = tpuctl("context", "show")
    assert result.status == 64
    assert "endpoint container" in result.err


def test_running_simulator_is_the_default(tpuctl, simulator):
    document = json.loads(tpuctl("context", "show", "-o", "json").out)
    assert (document["name"], document["clockScale"]) == ("sim", 60.0)
    assert document["kubeconfig"] == str(simulator / "kubeconfig")
    assert current(tpuctl) == ("sim", "the running simulator")


def test_simulator_gives_way_to_a_configured_context(prod, simulator):
    assert current(prod) == ("prod", "the only context")
    assert prod("context", "list", "-o", "name").out == "context/prod\ncontext/sim\n"
    assert prod("context", "show", "-o", "name", "--context", "sim").out == "context/sim\n"


def test_configured_context_of_that_name_hides_the_simulator(tpuctl, simulator):
    tpuctl.write("tpuctl.yaml", PROD.replace("prod", "sim"))
    assert json.loads(tpuctl("context", "show", "sim", "-o", "json").out)["project"] == "p1"


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"context": 3}'])
def test_simulator_that_is_starting_is_no_context(tpuctl, simulator, damage):
    (simulator / "state.json").write_text(damage)
    assert tpuctl("context", "list", "-o", "name").out == ""


def test_dead_simulator_is_no_context(tpuctl, simulator):
    with contextlib.ExitStack() as stack:
        lock = stack.enter_context((simulator / "lock2").open("w"))
        (simulator / "lock2").rename(simulator / "lock")
        assert not lock.closed
        assert tpuctl("context", "show").status == 64


def test_simulator_from_a_newer_program(tpuctl, simulator):
    state = json.loads((simulator / "state.json").read_text())
    state["context"]["novelty"] = 1
    (simulator / "state.json").write_text(json.dumps(state))
    assert tpuctl("context", "list").err == (
        f"error: {simulator}: the simulator's context has an unknown key 'novelty'\n"
    )


def test_session_gives_commands_the_context(prod):
    streams = terminal.Streams(None, None, None)
    found = session.Session(arguments=(), program="tpuctl", env=prod.env, cwd=prod.cwd, streams=streams)
    assert found.context().fleet == "p1/us-central1/c1"
