"""What is told of one cube: who holds it, what is wrong, what of it a slice has; and on narrow terminals."""

from __future__ import annotations

import json

import pytest

from tpuctl.cli import cube, rehearsal
from tpuctl.model import fleet, states
from tpuctl.sim import simulator


@pytest.fixture
def scene():
    """Four cubes ready for use."""
    settings = simulator.Settings(cubes=4, ready_cubes=4, slice_controller=True)
    with rehearsal.rehearse(settings) as made:
        yield made


@pytest.fixture
def some_cube(scene):
    return scene.ports.fleet.observe((fleet.SourceName.NODES,)).cubes[0]


def document(result):
    assert result.status in (0, 11), result.err
    return json.loads(result.out)


def row(result, title):
    [found] = [line for line in result.out.splitlines() if line.startswith(f"{title}:")]
    return found.partition(":")[2].strip()


def test_a_held_cube_is_shown_with_owner_reason_and_end(tpuctl, some_cube):
    assert row(tpuctl("cube", "show", some_cube.id), "Held") == "-"
    held = tpuctl("cube", "hold", some_cube.id, "--reason", "burn-in", "--until", "12h", "-o", "json")
    until = document(held)["until"]
    wanted = f"hold by sim-admin: burn-in, until {until}"
    assert row(tpuctl("cube", "show", some_cube.id), "Held") == wanted
    assert row(tpuctl("health", "show", some_cube.id), "Held") == wanted
    told = [{"by": "hold by sim-admin: burn-in", "until": until}]
    assert document(tpuctl("cube", "show", some_cube.id, "-o", "json"))["held"] == told
    assert document(tpuctl("health", "show", some_cube.id, "-o", "json"))["held"] == told
    assert tpuctl("cube", "list", "--state", "held", "-o", "name").out == f"cube/{some_cube.id}\n"
    assert wanted in tpuctl("cube", "list", "--state", "held", "-o", "wide").out


def test_every_verdict_can_be_asked_for():
    assert {*map(str, states.Verdict)} < {*map(str, cube.State)}


def test_states_select_by_verdict_or_mark(tpuctl, some_cube):
    tpuctl("cube", "hold", some_cube.id, "--reason", "burn-in")
    listed = tpuctl("cube", "list", "--state", "held", "--state", "unhealthy", "-o", "name")
    assert listed.out == f"cube/{some_cube.id}\n"
    assert len(tpuctl("cube", "list", "--state", "healthy", "-o", "name").out.splitlines()) == 4


def kill(scene, cube_id):
    """All machines of a cube die, and the nodes fall silent."""
    hardware = scene.simulator.world.hardware

    def down() -> None:
        for host in hardware.find_subblock(cube_id).hosts:
            hardware.host_down(host)

    scene.simulator.call(down)
    scene.simulator.advance(900)


def test_what_all_hosts_of_a_dead_cube_say_is_told_once(tpuctl, scene, some_cube):
    kill(scene, some_cube.id)
    shown = tpuctl("health", "show", some_cube.id)
    assert "all 16 hosts: Ready is unknown" in shown.out
    assert len(shown.out.splitlines()) < 30
    assert "chips can be used" not in shown.out
    evidence = document(tpuctl("health", "show", some_cube.id, "-o", "json"))["evidence"]
    assert sum(item["says"].startswith("Ready is unknown") for item in evidence) == 16
    lines = [line for line in tpuctl("cube", "show", some_cube.id).out.splitlines() if "silent" in line]
    assert len(lines) == 16
    for line in lines:
        assert line.count("node.kubernetes.io/unreachable:NoSchedule") == 1
        assert line.count("node.kubernetes.io/unreachable:NoExecute") == 1


def test_a_sub_slice_shows_its_partition_and_hosts(tpuctl, scene):
    assert tpuctl("slice", "form", "small", "--topology", "2x2x2").status == 0
    snapshot = scene.ports.fleet.observe((fleet.SourceName.NODES, fleet.SourceName.SLICES))
    item = snapshot.slices_by_name["small"]
    hosts = [host.name for host in snapshot.hosts_of(item)]
    shown = tpuctl("slice", "show", "small")
    assert row(shown, "Partition") == f"{item.partition_ids[0]}  2x2x2  HEALTHY"
    assert row(shown, "Hosts") == f"{hosts[0]}  ready"
    assert f"{hosts[1]}  ready" in shown.out
    assert document(tpuctl("slice", "show", "small", "-o", "json"))["hostNames"] == hosts
    tpuctl("slice", "form", "whole", "--topology", "4x4x4")
    assert "Partition:" not in tpuctl("slice", "show", "whole").out


def test_a_narrow_terminal_never_breaks_an_id(tpuctl, some_cube):
    narrow = {"COLUMNS": "80", "NO_COLOR": "1"}
    tpuctl("cube", "hold", some_cube.id, "--reason", "burn-in")
    tpuctl("slice", "form", "train-a-with-a-long-name", "--topology", "4x4x8")
    for command in (
        ("cube", "list"),
        ("cube", "list", "-o", "wide"),
        ("slice", "list"),
        ("slice", "list", "-o", "wide"),
        ("nodepool", "list", "-o", "wide"),
        ("capacity", "show"),
    ):
        shown = tpuctl(*command, terminal=True, env=narrow)
        assert max(map(len, shown.out.splitlines())) <= 80, command
        if command[0] != "capacity":  # its bars are dots
            assert "..." not in tpuctl(*command, env=narrow).out, command


def test_swap_of_an_idle_slice_asks_like_deform(tpuctl, scene):
    tpuctl("slice", "form", "idle", "--topology", "4x4x4")
    [old] = scene.ports.slices.get("idle").partition_ids
    asked = tpuctl("slice", "swap", "idle", "--cube", old, stdin="n\n", terminal=True)
    assert asked.status == 3
    assert "Delete slice idle and make it again? Nothing runs on it. [y/N]" in asked.err
    assert "[y/N]" in tpuctl("slice", "deform", "idle", stdin="n\n", terminal=True).err
    assert tpuctl("slice", "swap", "idle", "--cube", old, stdin="y\n", terminal=True).status == 0
    assert scene.ports.slices.get("idle").partition_ids != (old,)
