"""Kill -9, Ctrl-C, closed pipes, no terminal: nothing is lost, nothing is done twice."""

import signal
import subprocess
import sys
import time

from tests.e2e.conftest import Admin

SLOW = "20"
"""Simulated seconds a second: slow enough to be interrupted in the middle."""


def wait_for(process: subprocess.Popen[str], text: str) -> None:
    """Read stderr until `text` comes."""
    assert process.stderr is not None
    seen = []
    for line in process.stderr:
        seen.append(line)
        if text in line:
            return
    raise AssertionError(f"'{text}' never came: {seen}")


def test_set_up_that_was_killed_is_finished_by_the_next_run(admin: Admin) -> None:
    admin.ok("sim", "start", "--detach", "--cubes", "6", "--speed", "300")
    with admin.start("nodepool", "setup", "--max-in-flight", "2") as process:
        wait_for(process, "node pools being made")
        process.kill()
    assert process.returncode == -signal.SIGKILL
    admin.ok("nodepool", "setup")
    pools = admin.items("nodepool", "list")
    assert len(pools) == len({pool["subBlock"] for pool in pools}) == 6
    assert [pool["readyHosts"] for pool in pools] == [16] * 6
    assert "unchanged" in admin.ok("nodepool", "setup")


def test_set_up_that_was_killed_while_the_controller_is_turned_on_goes_on(admin: Admin) -> None:
    admin.ok("sim", "start", "--detach", "--cubes", "1", "--speed", "120")
    with admin.start("nodepool", "setup") as process:
        wait_for(process, "turning the slice controller on")
        time.sleep(0.3)
        process.kill()
    done = admin.run("nodepool", "setup")
    assert done.returncode == 0, done.stderr
    assert [pool["readyHosts"] for pool in admin.items("nodepool", "list")] == [16]


def test_forming_that_was_killed_is_finished_by_the_next_run(admin: Admin) -> None:
    admin.ok("sim", "start", "--detach", "--cubes", "4", "--ready-cubes", "4", "--speed", SLOW)
    with admin.start("slice", "form", "train", "--topology", "4x4x8") as process:
        wait_for(process, "created with 2 partitions")
        process.kill()
    [killed] = admin.items("slice", "list")
    assert killed["state"] != "ACTIVE"
    admin.ok("slice", "form", "train", "--topology", "4x4x8")
    [finished] = admin.items("slice", "list")
    assert (finished["state"], finished["uid"]) == ("ACTIVE", killed["uid"])
    assert "unchanged" in admin.ok("slice", "form", "train", "--topology", "4x4x8")


def test_taking_apart_that_was_killed_is_finished_by_the_next_run(admin: Admin) -> None:
    admin.ok("sim", "start", "--detach", "--cubes", "2", "--ready-cubes", "2", "--speed", SLOW)
    admin.ok("slice", "form", "train", "--topology", "4x4x4")
    with admin.start("slice", "deform", "train", "--yes") as process:
        wait_for(process, "deletion asked for")
        process.kill()
    admin.ok("slice", "deform", "train", "--yes")
    assert admin.items("slice", "list") == []
    assert "unchanged" in admin.ok("slice", "deform", "train", "--yes")


def test_ctrl_c_while_waiting_says_what_goes_on(admin: Admin) -> None:
    admin.ok("sim", "start", "--detach", "--cubes", "2", "--ready-cubes", "2", "--speed", SLOW)
    with admin.start("slice", "form", "train", "--topology", "4x4x4") as process:
        wait_for(process, "ACTIVATING")
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert stdout == ""
    assert "slice train goes on forming; follow it with: tpuctl slice wait train" in stderr
    assert "Traceback" not in stderr
    assert "ACTIVE" in admin.ok("slice", "wait", "train")


def test_sigterm_ends_with_its_own_code(admin: Admin) -> None:
    admin.ok("sim", "start", "--detach", "--cubes", "2", "--ready-cubes", "2", "--speed", SLOW)
    with admin.start("slice", "form", "train", "--topology", "4x4x4") as process:
        wait_for(process, "ACTIVATING")
        process.terminate()
        process.communicate(timeout=30)
    assert process.returncode == 143


def test_a_closed_pipe_ends_quietly(fleet_of_four: Admin) -> None:
    command = f"{sys.executable} -m tpuctl cube list -o json | head -1"
    done = subprocess.run(
        ["bash", "-c", command],
        env=fleet_of_four.env,
        cwd=fleet_of_four.home,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout == "{\n"
    assert done.stderr == ""


def test_without_a_terminal_and_without_yes_nothing_is_done(fleet_of_four: Admin) -> None:
    fleet_of_four.ok("slice", "form", "train", "--topology", "4x4x4")
    done = fleet_of_four.run("slice", "deform", "train")
    assert done.returncode == 3
    assert "--yes" in done.stderr
    assert [item["deleting"] for item in fleet_of_four.items("slice", "list")] == [False]


def test_two_admins_on_the_same_cubes_one_wins(fleet_of_four: Admin) -> None:
    cubes = ",".join(cube["id"] for cube in fleet_of_four.items("cube", "list")[:2])
    arguments = ("--topology", "4x4x8", "--cubes", cubes)
    both = [fleet_of_four.start("slice", "form", name, *arguments) for name in ("one", "two")]
    ends = [process.communicate(timeout=100) for process in both]
    codes = sorted(process.returncode for process in both)
    assert codes == [0, 6], ends
    winner = "one" if both[0].returncode == 0 else "two"
    assert winner in ends[both[0].returncode == 0][1]
    assert len(fleet_of_four.items("slice", "list")) == 1


def test_the_simulator_is_the_only_thing_that_stays(admin: Admin) -> None:
    admin.ok("sim", "start", "--detach", "--cubes", "1", "--ready-cubes", "1", "--speed", "60")
    before = time.monotonic()
    admin.ok("sim", "stop")
    assert time.monotonic() - before < 30
    assert not (admin.home / "state" / "tpuctl" / "sim" / "state.json").exists()
    done = admin.run("slice", "list")
    assert done.returncode == 64
    assert "tpuctl sim start --detach" in done.stderr
