"""`tpuctl reconcile plan` and `apply` as people and programs use them."""

from __future__ import annotations

import json
import stat

import pytest

from tests.cli.reconcile_scene import DEBUG, FLEET, TRAIN, document, stage_of
from tests.ops import test_swapping as swaps


@pytest.fixture
def stage(tpuctl):
    with stage_of(tpuctl) as made:
        yield made


def test_a_fleet_without_node_pools_gets_them_first(tpuctl):
    with stage_of(tpuctl, cubes=3, ready_cubes=0) as stage:
        found = document(stage("plan", "-o", "json"))
        assert [(action["sign"], action["kind"]) for action in found["actions"]] == [("*", "create-pool")] * 3
        assert {action["nodePool"]["hosts"] for action in found["actions"]} == {16}
        assert [entry["slice"] for entry in found["waiting"]] == ["train", "debug"]
        assert found["estimatedSeconds"] == found["actions"][0]["estimatedSeconds"] > 0
        shown = stage("plan", "--detailed-exitcode")
        assert shown.status == 2
        assert shown.out.count("create the node pool") == 3
        waits = "train  4x4x8 does not fit yet: 3 cubes of its block are coming up"
        assert f"Wanted slices that wait\n  {waits}" in shown.out


def test_a_plan_says_what_where_and_why_and_changes_nothing(stage):
    before = stage.records()
    found = document(stage("plan", "-o", "json"))
    assert (found["kind"], found["apiVersion"]) == ("ReconcilePlan", "tpuctl/v1")
    assert (found["fleet"], found["changes"], found["waiting"]) == ("small", True, [])
    train, debug = found["actions"]
    assert (train["id"], train["sign"], train["stoppedBy"]) == ("form/train", "+", None)
    [formed] = train["forming"]
    assert (formed["topology"], formed["chips"], formed["priority"]) == ("4x4x8", 128, 10)
    assert len(formed["partitionIds"]) == 2
    assert (debug["id"], debug["forming"][0]["topology"]) == ("form/debug", "2x2x4")
    assert found["blastRadius"] == {"slices": [], "chips": 0, "podsToRestart": 0, "podsToKeep": 0}
    assert found["budget"] == {
        "disruptedChipsPerHour": 4096,
        "leftChips": 4096,
        "leftAfterChips": 4096,
    }
    shown = stage("plan")
    assert shown.status == 0
    assert "+  train  4x4x8 (128 chips) in sim-reservation-block-0001  " in shown.out
    assert "Actions:       2 to do\nBlast radius:  no running slice is interrupted\n" in shown.out
    assert "Estimate:      about " in shown.out
    assert ", from typical durations, no promise" in shown.out
    assert stage("plan", "-o", "name").out == "form/train\nform/debug\n"
    assert stage.records() == before
    assert stage.slices() == {}


def test_the_form_of_a_plan_for_programs_is_a_contract(stage):
    found = document(stage("plan", "-o", "json"))
    assert list(found) == [
        "apiVersion",
        "kind",
        "id",
        "fleet",
        "cluster",
        "mode",
        "changes",
        "actions",
        "blastRadius",
        "budget",
        "guards",
        "waiting",
        "repairsWaiting",
        "leftAlone",
        "recommendations",
        "estimatedSeconds",
        "sentence",
        "observedAt",
        "partial",
    ]
    assert list(found["actions"][0]) == [
        "id",
        "kind",
        "sign",
        "target",
        "what",
        "reason",
        "stoppedBy",
        "voluntary",
        "interruptedChips",
        "interruptedSlices",
        "podsToRestart",
        "podsToKeep",
        "estimatedSeconds",
        "gainChipHours",
        "costChipHours",
        "forming",
        "exchanges",
        "nodePool",
    ]
    assert {tuple(guard) for guard in found["guards"]} == {("name", "state", "says")}
    assert found["observedAt"].endswith("Z")


def test_applied_and_then_there_is_nothing_to_do(stage):
    refused = stage("apply", "-f", str(stage.file))
    assert refused.status == 3
    assert "applying a plan needs a confirmation, and there is no terminal" in refused.err
    assert (stage.slices(), stage.records()) == ({}, set())
    done = stage("apply", "-f", str(stage.file), "--yes")
    assert done.status == 0, done.err
    first, second = done.out.splitlines()
    assert first.startswith("form/train  done  ")
    assert second.startswith("form/debug  done  ")
    assert "2 actions: 2 done" in done.err
    assert stage.slices() == {"train": "ACTIVE", "debug": "ACTIVE"}
    assert stage("plan", "--detailed-exitcode").status == 0
    again = stage("apply", "-f", str(stage.file), "--yes")
    assert again.status == 0
    assert again.out.startswith("fleet/small unchanged: 5 cubes healthy of 5; 2 slices ACTIVE of 2; ")


def test_both_ends_have_the_same_form(stage):
    keys = [
        "apiVersion",
        "kind",
        "fleet",
        "result",
        "results",
        "waiting",
        "sentence",
        "observedAt",
        "partial",
    ]
    done = document(stage("apply", "-f", str(stage.file), "--yes", "-o", "json"))
    assert (list(done), done["result"]) == (keys, "done")
    assert [(item["id"], item["result"]) for item in done["results"]] == [
        ("form/train", "done"),
        ("form/debug", "done"),
    ]
    assert list(done["results"][0]) == ["id", "kind", "target", "result", "why", "waitedSeconds"]
    nothing = document(stage("apply", "-f", str(stage.file), "--yes", "-o", "json"))
    assert (list(nothing), nothing["result"], nothing["results"]) == (keys, "unchanged", [])


def test_forming_is_asked_for_with_yes_and_no(stage):
    declined = stage("apply", "-f", str(stage.file), terminal=True, stdin="\n")
    assert declined.status == 3
    assert "Carry out 2 actions on fleet small in context demo? [y/N] " in declined.err
    assert stage.slices() == {}
    done = stage("apply", "-f", str(stage.file), terminal=True, stdin="y\n")
    assert done.status == 0
    assert stage.slices() == {"train": "ACTIVE", "debug": "ACTIVE"}


def test_what_takes_something_away_is_asked_for_with_the_fleets_name(stage):
    stage.converged()
    swaps.break_host(stage.scene, train_cubes(stage)[0])
    before = train_cubes(stage)
    found = document(stage("plan", "-o", "json"))
    [swap] = [action for action in found["actions"] if action["kind"] == "swap"]
    assert (swap["sign"], swap["target"]) == ("~", "train")
    assert swap["exchanges"][0]["old"] == before[0]
    declined = stage("apply", "-f", str(stage.file), terminal=True, stdin="y\n")
    assert declined.status == 3
    assert "Type small to go ahead: " in declined.err
    assert train_cubes(stage) == before
    done = stage("apply", "-f", str(stage.file), terminal=True, stdin="small\n")
    assert done.status == 0, done.err
    assert before[0] not in train_cubes(stage)


def train_cubes(stage):
    return swaps.whole(stage.scene).slices_by_name["train"].partition_ids


# -- saved plans -----------------------------------------------------------------------------------------


@pytest.fixture
def saved(stage):
    """A plan in a file."""
    path = stage.tpuctl.cwd / "plan.json"
    done = stage("plan", "--out", str(path))
    assert done.status == 0
    assert f"once: tpuctl reconcile apply {path}" in done.err
    return path


def test_a_saved_plan_is_for_its_owner_and_for_one_use(stage, saved):
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600
    done = stage("apply", str(saved))
    assert done.status == 0, done.err
    assert stage.slices() == {"train": "ACTIVE", "debug": "ACTIVE"}
    again = stage("apply", str(saved))
    assert again.status == 6
    assert "was used already, by sim-admin@" in again.err
    assert "done: form/train" in again.err
    resumed = stage("apply", str(saved), "--resume")
    assert (resumed.status, resumed.out) == (0, "fleet/small unchanged: nothing to do\n")


def test_its_id_is_shown_with_it(stage, tmp_path):
    path = tmp_path / "p.json"
    found = document(stage("plan", "--out", str(path), "-o", "json"))
    assert found["id"] == json.loads(path.read_text())["plan"]["id"]
    assert document(stage("plan", "-o", "json"))["id"] is None


def test_a_moved_world_refuses_it_and_names_what_moved(stage, saved):
    cube = next(item["id"] for item in document(stage("plan", "-o", "json"))["actions"])
    assert cube == "form/train"
    stage.tpuctl("slice", "form", "train", "--topology", "4x4x4")
    moved = document(stage("apply", str(saved), "-o", "json"), 6)
    assert (moved["kind"], moved["code"]) == ("Error", "Conflict")
    assert any("slice train" in line for line in moved["details"])
    assert stage.slices() == {"train": "ACTIVE"}


def test_heartbeats_are_no_drift(stage, saved):
    stage.scene.simulator.advance(900)
    assert stage("apply", str(saved)).status == 0


def test_it_expires(stage, saved):
    stage.scene.simulator.advance(3700)
    expired = stage("apply", str(saved))
    assert (expired.status, "expired at" in expired.err) == (9, True)
    assert stage.slices() == {}


def test_a_plan_that_was_edited_or_is_none_is_refused(stage, saved):
    text = saved.read_text()
    saved.write_text(text.replace('"4x4x8"', '"4x4x4"').replace("2x2x4", "2x2x1"))
    edited = stage("apply", str(saved))
    assert (edited.status, "is not as it was written" in edited.err) == (64, True)
    saved.write_text("{}")
    assert stage("apply", str(saved)).status == 64
    assert stage("apply", str(saved.with_name("ghost"))).status == 5


def test_another_declared_state_beside_it_is_refused(stage, saved):
    stage.declare(TRAIN)
    other = stage("apply", str(saved), "-f", str(stage.file))
    assert (other.status, "declared state: the plan is for" in other.err) == (6, True)
    stage.declare(TRAIN + DEBUG)
    assert stage("apply", str(saved), "-f", str(stage.file)).status == 0


def test_what_to_apply_must_be_said(stage):
    assert "say what to apply" in stage("apply").err
    assert stage("apply", "-f", str(stage.file), "--resume").status == 64
    assert stage("apply").status == 64


def test_a_paused_loop_holds_plans_back_too(stage, saved):
    stage("pause", "--reason", "benchmark")
    held = stage("apply", "-f", str(stage.file), "--yes")
    assert (held.status, "stopped by a guard" in held.err) == (9, True)
    assert stage("apply", str(saved)).status == 9
    assert stage.slices() == {}
    shown = stage("plan", "--detailed-exitcode")
    assert shown.status == 2
    assert "Actions:       0 to do, 2 stopped by a guard" in shown.out
    assert "  pause  stops everything  " in shown.out


# -- terminals -------------------------------------------------------------------------------------------


def test_a_narrow_terminal_folds_sentences_and_a_pipe_folds_nothing(stage):
    narrow = stage("plan", terminal=True, env={"COLUMNS": "80", "NO_COLOR": "1"})
    assert max(map(len, narrow.out.splitlines())) <= 80
    assert "\n     wanted (priority 10) and not there" in narrow.out
    wide = stage("plan", terminal=True, env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert wide.out == stage("plan").out
    assert "\x1b" not in wide.out
    assert "\x1b[32m+\x1b[0m" in stage("plan", terminal=True, env={"COLUMNS": "200"}).out


def test_differences_from_the_policy_before(stage):
    found = document(stage("shadow", "-o", "json"))
    assert (found["kind"], found["legacy"]) == ("PolicyComparison", "maximizer")
    assert found["totals"].keys() == {"tpuctl", "maximizer"}
    assert {tuple(row) for row in found["differences"]} <= {("subject", "sameGoal", "tpuctl", "maximizer")}
    train = next(row for row in found["differences"] if row["subject"] == "slice/train")
    assert train["tpuctl"]["does"] == "form 4x4x8"
    shown = stage("shadow")
    assert shown.status == 0
    assert "  slice/train  tpuctl     form 4x4x8  " in shown.out
    assert "WHO        ACTS  CHIPS  PODS  IDLED-CHIPS" in shown.out
    narrow = stage("shadow", terminal=True, env={"COLUMNS": "80", "NO_COLOR": "1"})
    assert max(map(len, narrow.out.splitlines())) <= 80
    assert stage.records() == set()
    refused = stage("shadow", "--legacy", "minimizer")
    assert (refused.status, "the only one is maximizer" in refused.err) == (64, True)


def test_the_schema_is_printed_offline(tpuctl):
    found = json.loads(tpuctl("reconcile", "schema").out)
    assert found["$schema"].startswith("https://json-schema.org/")
    assert "slices" in found["properties"]


# -- contexts --------------------------------------------------------------------------------------------


def test_a_fleet_file_is_about_its_own_context(prod):
    def declared_for(name):
        return prod.write("f.yaml", FLEET.format(slices=TRAIN, spares=0, more=f"context: {name}"))

    path = declared_for("prod")
    wrong = prod("reconcile", "plan", "-f", str(path), "--context", "other")
    assert (wrong.status, "is declared for context prod, not for other" in wrong.err) == (64, True)
    missing = prod("reconcile", "plan", "-f", str(declared_for("ghost")))
    assert missing.status == 5
    assert "declared for context ghost, and there is no such context" in missing.err


def test_faults_of_the_file_are_told_with_their_line(tpuctl):
    path = tpuctl.write("f.yaml", "apiVersion: tpuctl/v1\nkind: Fleet\nname: f\nslice: []\n")
    refused = tpuctl("reconcile", "plan", "-f", str(path))
    assert refused.status == 64
    assert f"{path}:4: " in refused.err
    assert tpuctl("reconcile", "plan", "-f", str(tpuctl.cwd / "none.yaml")).status in (5, 64)
