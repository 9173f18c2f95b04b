"""Swap, operations, locks and holds as users run them."""

from __future__ import annotations

import json

from tests.ops import test_swapping as swaps
from tests.ops.conftest import Recorder, whole
from tpuctl.ops import journal, locking
from tpuctl.sim import api_faults


def document(result):
    assert result.status == 0, result.err
    return json.loads(result.out)


def members(scene):
    return whole(scene).slices_by_name["train"].partition_ids


def test_auto_swap_shows_the_blast_radius_and_hits_just_that(tpuctl, scene):
    bad = members(scene)[0]
    swaps.break_host(scene, bad)
    dry = tpuctl("slice", "swap", "train", "--auto", "--dry-run")
    assert dry.status == 0
    assert f"{bad} -> " in dry.out
    assert "16 pods restart, 16 stay" in dry.out
    assert members(scene)[0] == bad
    done = tpuctl("slice", "swap", "train", "--auto", "--yes")
    assert done.status == 0, done.err
    assert "blast radius in context demo: 16 pods restart, 16 stay" in done.err
    assert "slice/train swapped  1 cube  16 pods restarted (16 run again)  16 kept  ACTIVE" in done.out
    assert bad not in members(scene)
    again = tpuctl("slice", "swap", "train", "--auto", "--yes")
    assert again.out == "slice/train unchanged: no cube of it is broken\n"


def test_a_slice_that_is_down_on_sound_cubes_is_not_called_unchanged(tpuctl, scene):
    """Its hosts are back, and the service does not form it again by itself."""
    name = next(cube.sub_block.name for cube in whole(scene).cubes if cube.id == members(scene)[0])
    scene.simulator.inject("cube-down", name)
    scene.simulator.advance(120)
    scene.simulator.inject("cube-up", name)
    scene.simulator.advance(300)
    result = tpuctl("slice", "swap", "train", "--auto", "--yes")
    assert (result.status, result.out) == (6, "")
    assert "slice train is FAILED, and no cube of it is known to be broken" in result.err
    assert "tpuctl slice deform train, then tpuctl slice form train --topology 4x4x8" in result.err


def test_swap_needs_to_know_which_cubes(tpuctl, scene):
    assert tpuctl("slice", "swap", "train").status == 64
    assert tpuctl("slice", "swap", "train", "--auto", "--cube", "x").status == 64
    assert tpuctl("slice", "swap", "ghost", "--auto").status == 5
    assert tpuctl("slice", "swap", "train", "--cube", "ghost").status == 5
    free = next(cube.id for cube in whole(scene).cubes if cube.id not in members(scene))
    refused = tpuctl("slice", "swap", "train", "--cube", free)
    assert refused.status == 6
    assert "it has no such cube" in refused.err


def test_swap_without_a_yes_does_nothing(tpuctl, scene):
    before = members(scene)
    assert tpuctl("slice", "swap", "train", "--cube", before[0]).status == 3
    declined = tpuctl("slice", "swap", "train", "--cube", before[0], stdin="yes\n", terminal=True)
    assert declined.status == 3
    assert members(scene) == before
    accepted = tpuctl("slice", "swap", "train", "--cube", before[0], stdin="train\n", terminal=True)
    assert accepted.status == 0
    assert members(scene) != before


def test_an_interrupted_swap_is_listed_shown_and_resumed(tpuctl, scene, monkeypatch):
    left = swaps.killed_at(scene, monkeypatch, 2)
    assert left is not None
    [listed] = document(tpuctl("operation", "list", "-o", "json"))["items"]
    assert (listed["id"], listed["intent"], listed["podsToRestart"]) == ("swap-train", "deleting", 16)
    shown = tpuctl("operation", "show", "swap-train")
    assert f"{left.exchanges[0].old} -> {left.exchanges[0].new}" in shown.out
    refused = tpuctl("slice", "deform", "train", "--yes")
    assert refused.status == 6
    assert "operation swap-train of" in refused.err
    resumed = tpuctl("operation", "resume", "swap-train")
    assert resumed.status == 0, resumed.err
    assert tpuctl("operation", "list").err == "No open operations.\n"
    assert tpuctl("operation", "resume", "swap-train").status == 5


def test_a_swap_that_ends_in_an_error_says_what_stays_open(tpuctl, scene):
    """The slice is deleted by then: that it is the right's fault alone is half of the news."""
    with api_faults.injected(
        scene.simulator, api_faults.Error(403), api="kubernetes", verb="create", resource="slices"
    ):
        result = tpuctl("slice", "swap", "train", "--cube", members(scene)[0], "--yes")
    assert result.status == 4
    assert "hint: ask for a role that allows this" in result.err
    told = "operation swap-train is open and its cubes are kept; finish it with: tpuctl operation resume"
    assert result.err.count(told) == 1
    assert document(tpuctl("operation", "list", "-o", "json"))["items"][0]["id"] == "swap-train"
    resumed = tpuctl("operation", "resume", "swap-train")
    assert resumed.status == 0, resumed.err


def test_an_interrupted_swap_can_be_taken_back(tpuctl, scene, monkeypatch):
    before = members(scene)
    assert swaps.killed_at(scene, monkeypatch, 2) is not None
    assert tpuctl("operation", "abort", "swap-train").status == 3
    taken_back = tpuctl("operation", "abort", "swap-train", "--yes")
    assert taken_back.status == 0, taken_back.err
    assert members(scene) == before
    assert journal.list_open(scene.ports) == []


def test_locks_are_shown_and_broken_with_a_reason(tpuctl, scene):
    assert tpuctl("lock", "show").err == "No locks: nobody is at work.\n"
    with locking.held(scene.ports, Recorder(), locking.slice_lock("train")):
        [shown] = document(tpuctl("lock", "show", "-o", "json"))["items"]
        assert (shown["name"], shown["held"]) == ("tpuctl-slice-train", True)
        blocked = tpuctl("slice", "deform", "train", "--yes")
        assert blocked.status == 6
        assert shown["holder"] in blocked.err
        assert "tpuctl lock break tpuctl-slice-train" in blocked.err
        assert tpuctl("lock", "break", "tpuctl-slice-train", "--reason", " ", "--yes").status == 64
        broken = tpuctl("lock", "break", "tpuctl-slice-train", "--reason", "dead laptop", "--yes")
        assert broken.status == 0
        assert shown["holder"] in broken.out
    assert tpuctl("slice", "deform", "train", "--yes").status == 0
    assert tpuctl("lock", "break", "ghost", "--reason", "x", "--yes").status == 5


def test_a_held_cube_is_left_out_until_it_is_released_or_its_time_is_over(tpuctl, scene):
    free = [cube.id for cube in whole(scene).cubes if cube.id not in members(scene)]
    held = tpuctl("cube", "hold", free[0], "--reason", "burn-in", "--until", "1h")
    assert held.status == 0
    assert f"cube/{free[0]} held  by sim-admin until " in held.out
    assert "unchanged" in tpuctl("cube", "hold", free[0], "--reason", "burn-in").out
    assert tpuctl("cube", "hold", free[0], "--reason", "other").status == 6
    refused = tpuctl("slice", "form", "pair", "--topology", "4x4x8")
    assert refused.status == 8
    assert "1 held (slices: train 2; hold by sim-admin: burn-in)" in refused.err
    named = tpuctl("slice", "form", "one", "--topology", "4x4x4", "--cubes", free[0])
    assert named.status == 6
    assert "hold by sim-admin: burn-in" in named.err
    scene.simulator.advance(3601)
    assert tpuctl("slice", "form", "one", "--topology", "4x4x4", "--cubes", free[0]).status == 0
    assert tpuctl("cube", "release", free[0]).status == 0
    assert "was not held" in tpuctl("cube", "release", free[0]).err
    assert tpuctl("cube", "hold", free[1], "--reason", " ").status == 64


def test_a_hold_leaves_the_slice_that_uses_the_cube_alone(tpuctl, scene):
    used = members(scene)[0]
    held = tpuctl("cube", "hold", used, "--reason", "suspect")
    assert "slice train uses it and keeps it" in held.err
    assert whole(scene).slices_by_name["train"].state.is_ready


def test_a_replacement_that_will_not_do_is_told_by_itself(tpuctl, scene):
    bad, other = members(scene)
    refused = tpuctl("slice", "swap", "train", "--cube", bad, "--with", other)
    assert refused.status == 8
    assert f"cube {other}: it is in slice train already" in refused.err


def test_a_damaged_record_is_listed_beside_the_others(tpuctl, scene, monkeypatch):
    assert swaps.killed_at(scene, monkeypatch, 1) is not None
    scene.ports.records.create("op-broken", "operation", "{")
    listed = tpuctl("operation", "list")
    assert listed.status == 1
    assert "swap-train" in listed.out
    assert "record op-broken is damaged" in listed.err
    assert tpuctl("slice", "form", "new", "--topology", "4x4x4").status == 1


def test_a_stuck_deletion_ends_at_the_timeout_that_was_given(tpuctl, scene):
    scene.simulator.inject("stuck-finalizer", "train")
    ended = tpuctl("slice", "deform", "train", "--yes", "--timeout", "2m")
    assert ended.status == 10
    assert "is not gone after 120 s" in ended.err
    assert "finish it with: tpuctl operation resume deform-train; if it stays so for over 15 min" in ended.err
