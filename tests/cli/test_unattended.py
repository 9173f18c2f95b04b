"""Nobody is at the terminal: no question hangs or is answered by itself, no failure looks like success."""

from __future__ import annotations

import inspect
import json
import sys

import pytest

from tests.cli.conftest import Result, Stream
from tests.cli.reconcile_scene import FLEET, TRAIN
from tests.ops import repair_scenes
from tests.ops import test_repairs as repairs
from tests.ops import test_swapping as swaps
from tests.ops.conftest import whole
from tpuctl.cli import main, rehearsal
from tpuctl.ops import locking
from tpuctl.sim import simulator


def member(scene):
    return whole(scene).slices_by_name["train"].partition_ids[0]


def free_cube(scene):
    snapshot = whole(scene)
    return next(cube for cube in snapshot.cubes if not snapshot.holders.get(cube.id))


def deform(_tpuctl, _scene, _monkeypatch):
    return ["slice", "deform", "train"]


def swap(_tpuctl, scene, _monkeypatch):
    return ["slice", "swap", "train", "--cube", member(scene)]


def delete_pool(_tpuctl, scene, _monkeypatch):
    return ["nodepool", "delete", free_cube(scene).hosts[0].pool]


def break_lock(_tpuctl, scene, _monkeypatch):
    scene.ports.leases.create(locking.slice_lock("train"), "jo@elsewhere:1", locking.DURATION_S)
    return ["lock", "break", locking.slice_lock("train"), "--reason", "dead laptop"]


def abort(_tpuctl, scene, monkeypatch):
    assert swaps.killed_at(scene, monkeypatch, 2) is not None
    return ["operation", "abort", "swap-train"]


def report(_tpuctl, scene, _monkeypatch):
    words = ["--behavior", "CHIP_ERROR", "--reason", "self-test fails"]
    return ["health", "report-faulty", free_cube(scene).hosts[0].name, *words]


def apply(tpuctl, _scene, _monkeypatch):
    text = FLEET.format(slices=TRAIN.replace("train", "other"), more="", spares=0)
    return ["reconcile", "apply", "-f", str(tpuctl.write("fleet.yaml", text))]


def approve(_tpuctl, scene, _monkeypatch):
    loop = repair_scenes.Loop(scene, repair_scenes.spec_of(scene))
    scene.simulator.inject("host-crash", free_cube(scene).hosts[5].name)
    [item] = loop.until(repair_scenes.proposed).opened
    return ["repair", "approve", item.id]


ASKS = {
    "slice deform": deform,
    "slice swap": swap,
    "nodepool delete": delete_pool,
    "lock break": break_lock,
    "operation abort": abort,
    "health report-faulty": report,
    "reconcile apply": apply,
    "repair approve": approve,
}
"""Every command that asks before it acts -> the words that make it ask."""


def test_the_table_names_every_command_that_asks(tpuctl):
    found = set()
    for group in main.GROUPS:
        assert tpuctl(group, "--help").status == 0
        for command in sys.modules[main.GROUPS[group][0]].app.registered_commands:
            if "yes" in inspect.signature(command.callback).parameters:
                found.add(f"{group} {command.name or command.callback.__name__}")
    assert found == set(ASKS)


def state(scene):
    """Everything that a write would change."""
    world = scene.simulator.world
    return scene.simulator.call(lambda: (world.store.revision, len(list(world.gke.operations))))


class Interrupted(Stream):
    """Somebody who answers with Ctrl-C."""

    def readline(self, *_):
        raise KeyboardInterrupt


def run(tpuctl, arguments, stdin, *, stderr_is_terminal=False) -> Result:
    out, err = Stream(), Stream(is_terminal=stderr_is_terminal)
    status = main.main(arguments, env=tpuctl.env, cwd=tpuctl.cwd, stdin=stdin, stdout=out, stderr=err)
    return Result(status, out.getvalue(), err.getvalue())


@pytest.mark.parametrize("name", ASKS)
def test_without_a_terminal_nothing_is_asked_accepted_or_done(tpuctl, scene, monkeypatch, name):
    """terragrunt#317, spec-kit#3236: it hung, or aborted oddly; astra-tools#51: it said yes by itself."""
    arguments = ASKS[name](tpuctl, scene, monkeypatch)
    before = state(scene)
    unattended = [
        (None, False),  # closed
        (Stream(""), False),  # /dev/null
        (Stream("y\ny\ny\n"), False),  # a pipe
        (Stream("y\n"), True),  # a pipe, with a terminal to ask on
        (Stream("y\n", is_terminal=True), False),  # a terminal, with the question going to a file
    ]
    for stdin, stderr_is_terminal in unattended:
        refused = run(tpuctl, arguments, stdin, stderr_is_terminal=stderr_is_terminal)
        assert (refused.status, refused.out) == (3, ""), refused.err
        assert "--yes" in refused.err
        assert "[y/N]" not in refused.err
        assert "to go ahead:" not in refused.err
    assert state(scene) == before


@pytest.mark.parametrize("name", ASKS)
def test_no_and_ctrl_c_are_two_ends_and_neither_is_success(tpuctl, scene, monkeypatch, name):
    """cdkd#2275, VEAF#874: Abort was taken for Ctrl-C; gcluster: declining ended with 0."""
    arguments = ASKS[name](tpuctl, scene, monkeypatch)
    before = state(scene)
    for answer in ("\n", "n\n", ""):
        declined = run(tpuctl, arguments, Stream(answer, is_terminal=True), stderr_is_terminal=True)
        assert declined.status == 3, declined.err
        assert "nothing was done" in declined.err
    stopped = run(tpuctl, arguments, Interrupted(is_terminal=True), stderr_is_terminal=True)
    assert (stopped.status, stopped.out) == (130, ""), stopped.err
    assert state(scene) == before


# -- some of many --------------------------------------------------------------------------------------------


def test_one_of_eight_that_fails_is_neither_success_nor_hidden(tpuctl):
    """kongctl#57, kmesh#1880, kubernetes#34633: the error was printed, the status was 0."""
    with rehearsal.rehearse(simulator.Settings(cubes=8, slice_controller=True)) as scene:
        hardware = scene.simulator.world.hardware

        def kill():
            cube = list(hardware.subblocks())[4]
            for host in cube.hosts:
                hardware.host_down(host)
            return cube.name

        dead = scene.simulator.call(kill)
        done = tpuctl("nodepool", "setup", "-o", "json")
        assert done.status == 7, done.err
        found = json.loads(done.out)["items"]
        assert {item["subBlock"]: item["result"] for item in found if item["result"] != "full"} == {
            dead: "failed"
        }
        assert len(found) == 8
        shown = tpuctl("nodepool", "setup")
        assert (shown.status, "8 cubes unchanged: 7 full, 0 partial, 1 failed" in shown.out) == (7, True)
        assert "ERROR" in shown.out


def test_if_none_of_them_can_be_had_it_has_failed(tpuctl):
    with rehearsal.rehearse(simulator.Settings(cubes=1, slice_controller=True)) as scene:
        hardware = scene.simulator.world.hardware
        scene.simulator.call(
            lambda: [hardware.host_down(host) for cube in hardware.subblocks() for host in cube.hosts]
        )
        assert tpuctl("nodepool", "setup").status == 1


def test_a_batch_of_deletions_with_one_in_use_deletes_none(tpuctl, scene):
    used = next(cube for cube in whole(scene).cubes if cube.id == member(scene)).hosts[0].pool
    before = state(scene)
    refused = tpuctl("nodepool", "delete", free_cube(scene).hosts[0].pool, used, "--yes")
    assert (refused.status, f"{used}: slice train" in refused.err) == (6, True)
    assert state(scene) == before


def test_a_hint_names_the_repair_that_was_declined(tpuctl, scene, monkeypatch):
    """The way out of every refusal is the same command with --yes, and then it goes ahead."""
    arguments = approve(tpuctl, scene, monkeypatch)
    assert "pass --yes to go ahead" in run(tpuctl, arguments, None).err
    assert run(tpuctl, [*arguments, "--yes"], None).status == 0
    [item] = repairs.ops.list_open(scene.ports)
    assert item.state is repairs.State.APPROVED
