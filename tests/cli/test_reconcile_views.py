"""How plans, their ends, status and history of the loop look to a person at a terminal."""

from __future__ import annotations

import pytest

from tests.cli.reconcile_scene import DEBUG, TRAIN, document, stage_of
from tests.ops import test_swapping as swaps

BLOCK = "sim-reservation-block-0001"
NARROW = {"COLUMNS": "60", "NO_COLOR": "1"}


@pytest.fixture
def stage(tpuctl):
    with stage_of(tpuctl) as made:
        yield made


def test_a_head_that_is_wider_than_the_terminal_keeps_what_is_done_on_a_line_of_its_own(stage):
    stage.declare("  - {name: a-name-that-needs-much-room, topology: 4x4x8}\n" + DEBUG)
    shown = stage("plan", terminal=True, env=NARROW).out.splitlines()
    assert max(map(len, shown)) <= 60
    first, second = (shown.index(line) for line in shown if line.startswith("+  "))
    assert shown[first] == "+  a-name-that-needs-much-room"
    assert shown[first + 1] == f"   4x4x8 (128 chips) in {BLOCK}"
    assert shown[second] == f"+  debug  2x2x4 (16 chips) in {BLOCK}"


def test_what_a_plan_only_begins_is_told_with_what_to_do_next(tpuctl):
    with stage_of(tpuctl, cubes=3, ready_cubes=0) as stage:
        done = stage("apply", "-f", str(stage.file), "--yes", "-o", "json")
        found = document(done)
        assert {item["result"] for item in found["results"]} == {"going on"}
        assert [item["slice"] for item in found["waiting"]] == ["train", "debug"]
        assert (
            "not all is there yet: 3 going on at GKE, 2 waiting for room; look anew later with: " in done.err
        )


def test_all_there_needs_no_next_step(stage):
    assert "not all is there yet" not in stage("apply", "-f", str(stage.file), "--yes").err


def test_a_slice_taken_out_of_the_file_is_in_the_next_plan_and_goes_with_it(stage):
    stage("apply", "-f", str(stage.file), "--yes")
    stage.declare(TRAIN)
    found = document(stage("plan", "-o", "json"))
    assert [action["id"] for action in found["actions"]] == ["deform/debug"]
    assert found["blastRadius"]["chips"] == 16
    assert found["budget"] == {"disruptedChipsPerHour": 4096, "leftChips": 4096, "leftAfterChips": 4080}
    assert stage("apply", "-f", str(stage.file), "--yes").status == 0
    assert stage.slices() == {"train": "ACTIVE"}


def test_a_block_that_is_not_there_is_told(stage):
    text = stage.file.read_text().replace(BLOCK, "sim-reservation-block-0009")
    stage.file.write_text(text)
    shown = stage("plan").out
    assert (
        "For a person to do\n  block/sim-reservation-block-0009  reservation sim-reservation has no such"
        in shown
    )
    [told] = document(stage("plan", "-o", "json"))["recommendations"]
    assert told["subject"] == "block/sim-reservation-block-0009"
    assert f"(it has {BLOCK})" in told["text"]


def test_trouble_that_no_repair_is_proposed_for_is_told_once_a_cube(stage):
    stage.converged()
    spare = next(
        cube for cube in swaps.whole(stage.scene).cubes if cube.id not in swaps.whole(stage.scene).holders
    )
    stage.scene.simulator.inject("cube-down", spare.id)
    stage.scene.simulator.advance(900)
    assert stage.slices() == {"train": "ACTIVE", "debug": "ACTIVE"}
    shown = stage("plan").out
    told = shown.partition("Trouble without a repair\n")[2].partition("\n\n")[0].splitlines()
    [line] = told
    assert line.startswith(f"  cube {spare.id}: host ")
    assert line.endswith("its VM is REPAIRING, which is worked on (and 15 more of this cube)")
    found = document(stage("plan", "-o", "json"))
    assert (len(found["leftAlone"]), found["repairsWaiting"]) == (16, [])


def test_status_without_a_loop_says_how_to_start_one(stage):
    never = stage("status")
    assert never.status == 11
    assert never.err.startswith("hint: start a loop: tpuctl reconcile run -f FLEET --mode act")
    stage.act()
    assert "hint" not in stage("status").err


def test_history_is_folded_where_it_would_not_fit_and_names_what_was_told(stage):
    stage.converged()
    stage.tpuctl("slice", "deform", "debug", "--yes")
    stage.act()
    stage.act()
    [told] = [line for line in stage("history").out.splitlines() if " told " in line]
    assert "  slice/debug: somebody else deleted it; " in told
    folded = stage("history", terminal=True, env=NARROW).out.splitlines()
    assert max(map(len, folded)) <= 60
    assert any(line.startswith("     slice/debug: somebody else deleted it;") for line in folded)
