"""The fleet commands as users run them, on a simulated fleet of this process."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest
import yaml

from tests import workloads
from tpuctl.cli import rehearsal, wiring
from tpuctl.model import errors
from tpuctl.sim import simulator


@pytest.fixture
def scene():
    """Four cubes ready for use."""
    settings = simulator.Settings(cubes=4, ready_cubes=4, slice_controller=True)
    with rehearsal.rehearse(settings) as made:
        yield made


def document(result):
    assert result.status == 0, result.err
    return json.loads(result.out)


def comparable(found):
    """Without what differs by design: times, and block names, which slice commands do not ask Compute for."""
    kept = {key: value for key, value in found.items() if key not in ("observedAt", "sources", "events")}
    for item in [kept, *kept.get("items", [])]:
        if item.get("blocks") and isinstance(item["blocks"], list):
            item["blocks"] = [block["id"] for block in item["blocks"]]
    return kept


def test_a_slice_from_form_to_deform(tpuctl, scene):
    formed = tpuctl("slice", "form", "train", "--topology", "4x4x8")
    assert (formed.status, formed.out.split("  ")[:4]) == (
        0,
        ["slice/train formed", "4x4x8", "128 chips", formed.out.split("  ")[3]],
    )
    assert re.search(r"2 cubes of block \w{32}  ACTIVE  after \d\ds\n$", formed.out)
    again = tpuctl("slice", "form", "train", "--topology", "4x4x8")
    assert again.out.startswith("slice/train unchanged")
    listed = tpuctl("slice", "list", "--no-headers")
    assert listed.out.split()[:5] == ["train", "4x4x8", "128", "2", "ACTIVE"]
    assert tpuctl("slice", "list", "-o", "name").out == "slice/train\n"
    ended = tpuctl("slice", "deform", "train", "--yes")
    assert ended.status == 0
    assert ended.out.startswith("slice/train deformed  after ")
    assert "blast radius in context demo: 1 slice, 0 running pods, 32 hosts, 128 chips" in ended.err
    gone = tpuctl("slice", "deform", "train", "--yes")
    assert (gone.status, gone.out) == (0, "slice/train unchanged\n")
    assert tpuctl("slice", "list").err == "No slices found.\n"


def test_json_of_a_list_is_the_documented_envelope(tpuctl, scene):
    tpuctl("slice", "form", "train", "--topology", "4x4x8")
    found = document(tpuctl("slice", "list", "-o", "json"))
    assert (found["apiVersion"], found["kind"], found["partial"]) == ("tpuctl/v1", "SliceList", False)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", found["observedAt"])
    [item] = found["items"]
    assert (item["name"], item["chips"], item["state"], item["hosts"], item["pods"]) == (
        "train",
        128,
        "ACTIVE",
        32,
        0,
    )
    assert all(re.fullmatch("[0-9a-f]{32}", partition) for partition in item["partitionIds"])
    assert item["blocks"][0]["id"]
    same = yaml.safe_load(tpuctl("slice", "list", "-o", "yaml").out)
    assert same["items"] == found["items"]


def test_a_dry_run_shows_the_plan_and_stores_nothing(tpuctl, scene):
    shown = tpuctl("slice", "form", "train", "--topology", "4x4x8", "--dry-run")
    assert shown.status == 0
    assert "create-slice slice/train: create it with 2 partitions" in shown.out
    assert "4 of 4 usable" in shown.out
    plan = document(tpuctl("slice", "form", "train", "--topology", "4x4x8", "--dry-run", "-o", "json"))
    assert [step["name"] for step in plan["steps"]] == ["create-slice", "wait-ready"]
    assert plan["candidates"] == [
        {"block": plan["block"], "chosen": True, "usable": 4, "total": 4, "obstacles": {}}
    ]
    assert document(tpuctl("slice", "list", "-o", "json"))["items"] == []


def test_no_room_is_explained_and_has_its_code(tpuctl, scene):
    tpuctl("slice", "form", "train", "--topology", "4x4x12")
    refused = tpuctl("slice", "form", "more", "--topology", "4x4x8")
    assert refused.status == 8
    assert refused.out == ""
    assert "does not fit now: 2 cubes of one block needed, the best block has 1 usable" in refused.err
    assert "3 in use (slices: train 3)" in refused.err
    as_json = tpuctl("slice", "form", "more", "--topology", "4x4x8", "-o", "json")
    assert (as_json.status, json.loads(as_json.out)["code"]) == (8, "DoesNotFit")
    never = tpuctl("slice", "form", "more", "--topology", "16x16x16")
    assert never.status == 8
    assert "never fits" in never.err


@pytest.mark.parametrize("shape", ["4x8x4", "-4x4x4", "4x4", "4x4x4junk", "100x100x100", ""])
def test_illegal_shapes_end_before_anything_is_asked(tpuctl, scene, shape):
    refused = tpuctl("slice", "form", "train", f"--topology={shape}")
    assert refused.status == 64
    assert refused.err.count("error:") == 1
    assert "hint:" in refused.err


@pytest.mark.parametrize("name", ["Train", "1a", "a_b", "-a", "a" * 50])
def test_illegal_names(tpuctl, scene, name):
    refused = tpuctl("slice", "form", "--topology", "4x4x4", "--", name)
    assert refused.status == 64
    assert "slice name" in refused.err


def test_unknown_things_are_not_found(tpuctl, scene):
    assert tpuctl("slice", "show", "ghost").status == 5
    assert tpuctl("slice", "wait", "ghost").status == 5
    assert tpuctl("cube", "show", "ghost").status == 5
    assert tpuctl("cube", "list", "--block", "ghost").status == 5
    assert tpuctl("nodepool", "show", "ghost").status == 5
    gone = tpuctl("nodepool", "delete", "ghost", "--yes")
    assert (gone.status, gone.err) == (0, "there is no node pool ghost: unchanged\n")
    assert tpuctl("slice", "form", "a", "--topology", "4x4x4", "--block", "ghost").status == 5
    assert tpuctl("slice", "form", "a", "--topology", "4x4x4", "--cubes", "ghost").status == 5


def test_blocks_and_cubes_go_by_the_names_that_lists_show(tpuctl, scene):
    cube = document(tpuctl("cube", "list", "-o", "json"))["items"][2]
    block, sub_block = cube["block"]["name"], cube["subBlock"]
    planned = document(
        tpuctl("slice", "form", "a", "-t", "4x4x8", "--block", block, "--dry-run", "-o", "json")
    )
    assert planned["block"] == cube["block"]["id"]
    formed = tpuctl("slice", "form", "a", "-t", "4x4x4", "--cubes", sub_block)
    assert formed.status == 0, formed.err
    assert f"1 cube of block {block}" in formed.out
    assert tpuctl("slice", "show", "slice/a").status == 0
    assert tpuctl("cube", "show", f"cube/{cube['id']}").status == 0


def test_an_unset_variable_does_not_mean_any_cube(tpuctl, scene):
    refused = tpuctl("slice", "form", "a", "-t", "4x4x4", "--cubes", "")
    assert (refused.status, "unset" in refused.err) == (64, True)


def test_a_picture_is_no_document(tpuctl, scene):
    assert tpuctl("cube", "list", "--map", "-o", "json").status == 64


def test_a_cordoned_cube_is_named_with_its_host(tpuctl, scene):
    cube = document(tpuctl("cube", "list", "-o", "json"))["items"][0]
    store = scene.simulator.world.store
    node = document(tpuctl("cube", "show", cube["id"], "-o", "json"))["hosts"][0]["name"]

    def cordon(item):
        item["spec"]["unschedulable"] = True

    scene.simulator.call(lambda: store.mutate("nodes", None, node, cordon))
    assert "healthy,cordoned" in tpuctl("cube", "list").out
    refused = tpuctl("slice", "form", "a", "-t", "4x4x4", "--cubes", cube["id"])
    assert refused.status == 8
    assert f"cube {cube['id']}: cordoned (hosts {node})" in refused.err


def test_pools_offline(tpuctl, scene):
    path = tpuctl.cwd / "fleet.json"
    tpuctl("fleet", "dump", "-f", str(path))
    live = document(tpuctl("nodepool", "list", "-o", "json"))["items"]
    offline = document(tpuctl("nodepool", "list", "--fleet", str(path), "-o", "json"))["items"]
    assert sorted(offline, key=lambda pool: pool["name"]) == live
    assert tpuctl("nodepool", "show", live[0]["name"], "--fleet", str(path)).status == 0


def test_a_typo_is_answered_with_the_name_meant(tpuctl, scene):
    tpuctl("slice", "form", "train-a", "--topology", "4x4x4")
    assert "train-a" in tpuctl("slice", "show", "trian-a").err


def test_another_spec_under_a_name_is_a_conflict(tpuctl, scene):
    tpuctl("slice", "form", "train", "--topology", "4x4x8")
    refused = tpuctl("slice", "form", "train", "--topology", "4x4x4")
    assert refused.status == 6
    assert "it is 4x4x8, not 4x4x4" in refused.err


def test_cubes_by_list_and_by_one(tpuctl, scene):
    tpuctl("slice", "form", "train", "--topology", "4x4x8")
    cubes = document(tpuctl("cube", "list", "-o", "json"))["items"]
    assert [cube["slices"] for cube in cubes].count(["train"]) == 2
    assert {cube["verdict"] for cube in cubes} == {"healthy"}
    free = document(tpuctl("cube", "list", "--free", "-o", "json"))["items"]
    assert len(free) == 2
    one = cubes[0]["id"]
    shown = tpuctl("cube", "show", one)
    assert shown.status == 0
    assert shown.out.count("ready for") == 16
    assert "2x2x1  16 HEALTHY" in shown.out
    assert document(tpuctl("cube", "show", cubes[0]["subBlock"], "-o", "json"))["id"] == one
    piped = tpuctl("cube", "list")
    assert all(cube["id"] in piped.out for cube in cubes)
    assert len(piped.out.splitlines()) == 5


def test_a_broken_host_shows_in_list_map_and_reason(tpuctl, scene):
    cube = document(tpuctl("cube", "list", "-o", "json"))["items"][1]
    hardware = scene.simulator.world.hardware
    scene.simulator.call(lambda: hardware.host_down(hardware.find_subblock(cube["id"]).hosts[3]))
    scene.simulator.advance(120)
    shown = document(tpuctl("cube", "show", cube["id"], "-o", "json"))
    assert shown["verdict"] == "unhealthy"
    assert shown["readyHosts"] == 15
    assert any("does not report" in reason or "not ready" in reason for reason in shown["reasons"])
    picture = tpuctl("cube", "list", "--map")
    assert picture.status == 0
    assert "4 cubes, 3 free and healthy" in picture.out
    assert "x unhealthy" in picture.out


def test_the_map_marks_slices_by_letter_and_colours_a_terminal_only(tpuctl, scene):
    tpuctl("slice", "form", "train", "--topology", "4x4x8")
    plain = tpuctl("cube", "list", "--map")
    assert "\x1b" not in plain.out
    assert plain.out.splitlines()[1].split().count("a") == 2
    assert "a train (4x4x8, ACTIVE)" in plain.out
    coloured = tpuctl("cube", "list", "--map", terminal=True)
    assert "\x1b[1;32ma\x1b[0m" in coloured.out


def test_status_dump_and_reading_the_dump(tpuctl, scene):
    tpuctl("slice", "form", "train", "--topology", "4x4x8")
    status = document(tpuctl("fleet", "status", "-o", "json"))
    assert status["cubes"]["healthy"] == 4
    assert status["chips"] == {"ready": 256, "inSlices": 128}
    for name in ("fleet.yaml", "fleet.json"):
        path = tpuctl.cwd / name
        assert tpuctl("fleet", "dump", "-f", str(path)).status == 0
        for command in (("cube", "list"), ("slice", "list"), ("fleet", "status"), ("slice", "show", "train")):
            live = document(tpuctl(*command, "-o", "json"))
            offline = document(tpuctl(*command, "--fleet", str(path), "-o", "json"))
            assert comparable(offline) == comparable(live)


def test_a_dump_is_read_without_any_context(tpuctl, scene, monkeypatch):
    path = tpuctl.cwd / "fleet.json"
    tpuctl("fleet", "dump", "-f", str(path))
    with monkeypatch.context() as patched:
        patched.setattr("tpuctl.cli.wiring._override", [])
        assert tpuctl("cube", "list", "--fleet", str(path)).status == 0
        assert tpuctl("cube", "list").status == 64


def test_a_bad_dump_is_a_usage_error(tpuctl, scene):
    assert tpuctl("cube", "list", "--fleet", "nowhere.yaml").status == 5
    tpuctl.write("bad.yaml", "a: [")
    refused = tpuctl("cube", "list", "--fleet", str(tpuctl.cwd / "bad.yaml"))
    assert (refused.status, refused.err.count("error:")) == (64, 1)
    tpuctl.write("other.yaml", "kind: Deployment")
    assert "not a fleet dump" in tpuctl("cube", "list", "--fleet", str(tpuctl.cwd / "other.yaml")).err


def test_node_pools(tpuctl, scene):
    pools = document(tpuctl("nodepool", "list", "-o", "json"))["items"]
    assert [pool["readyHosts"] for pool in pools] == [16] * 4
    assert document(tpuctl("nodepool", "show", pools[0]["name"], "-o", "json"))["status"] == "RUNNING"
    planned = tpuctl("nodepool", "setup", "--dry-run")
    assert "Nothing to do" in planned.err
    tpuctl("slice", "form", "train", "--topology", "4x8x8")
    refused = tpuctl("nodepool", "delete", pools[0]["name"], "--yes")
    assert refused.status == 6
    assert "slice train" in refused.err
    tpuctl("slice", "deform", "train", "--yes")
    deleted = tpuctl("nodepool", "delete", pools[0]["name"], "--yes", "-o", "json")
    assert document(deleted)["items"] == [{"name": pools[0]["name"], "result": "deleted"}]
    planned = document(tpuctl("nodepool", "setup", "--dry-run", "-o", "json"))["items"]
    made = [action["purpose"] for action in planned if action["target"].startswith("nodepool/")]
    assert made == [pools[0]["subBlock"]]
    done = document(tpuctl("nodepool", "setup", "-o", "json"))["items"]
    assert [item["created"] for item in done].count(True) == 1


def test_typing_the_name_is_needed_while_pods_run(tpuctl, scene):
    tpuctl("slice", "form", "train", "--topology", "4x4x4")
    scene.submit(workloads.PODS, workloads.pod("p", "train"))
    scene.simulator.advance(30)
    for answer in ("y\n", "\n", "train-a\n", ""):
        declined = tpuctl("slice", "deform", "train", stdin=answer, terminal=True)
        assert declined.status == 3
    assert "1 running pod, 16 hosts, 64 chips" in declined.err
    assert tpuctl("slice", "deform", "train", stdin="train\n", terminal=True).status == 0


def test_a_protected_context_must_be_spelled_out(tpuctl, scene):
    protected = dataclasses.replace(scene.context, protected=True)
    with wiring.using(scene.ports, protected):
        refused = tpuctl("slice", "deform", "train", "--yes")
        assert refused.status == 9
        assert "--context demo" in refused.err
        assert tpuctl("slice", "deform", "train", "--yes", "--context", "demo").status == 0


def test_pools_that_gke_may_upgrade_by_itself_are_told_with_the_command_against_it(tpuctl, scene):
    cluster = scene.simulator.world.gke.cluster
    for command in ("list", "setup"):
        assert "may upgrade" not in tpuctl("nodepool", command).err
    scene.simulator.call(lambda: setattr(cluster, "maintenance_policy", None))
    for command in ("list", "setup"):
        found = tpuctl("nodepool", command, "-o", "json")
        assert (found.status, found.err.count("warning:")) == (0, 1)
        assert "GKE may upgrade the nodes of 4 node pools by itself" in found.err
        assert (
            "gcloud container clusters update sim --project=sim-project --location=us-central1 "
            "--add-maintenance-exclusion-name=no-node-upgrades "
            "--add-maintenance-exclusion-scope=no_minor_or_node_upgrades "
            "--add-maintenance-exclusion-start=START --add-maintenance-exclusion-end=END"
        ) in " ".join(found.err.split())
    pools = document(tpuctl("nodepool", "list", "-o", "json"))["items"]
    assert [pool["autoUpgrade"] for pool in pools] == [True] * 4


def test_upgrades_that_cannot_be_judged_do_not_spoil_what_was_done(tpuctl, scene, monkeypatch):
    def fails():
        raise errors.NotPermitted("cannot read cluster sim")

    pools = scene.ports.pools
    monkeypatch.setattr(pools, "cluster", fails)
    found = tpuctl("nodepool", "list")
    assert found.status == 0
    assert "not known whether GKE may upgrade nodes by itself: cannot read cluster sim" in found.err
