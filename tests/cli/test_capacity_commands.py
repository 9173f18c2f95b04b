"""`tpuctl capacity` as users run it: offline on a dump, and on a simulated fleet."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re

import pytest
import yaml

from tests import builders
from tpuctl.cli import main, rehearsal
from tpuctl.model import codec, operations, states
from tpuctl.sim import simulator

EXAMPLE = pathlib.Path(main.__file__).parents[2] / "configs/requests.yaml"


def busy_fleet():
    """Block a: 3 cubes in use, 1 degraded, 1 short of hosts, 5 free. Block b: 2 in use, 1 in part, 5 free."""
    cubes = [builders.cube(f"a{i:02}", "a") for i in range(10)]
    cubes[3] = builders.cube("a03", "a", hosts=13)
    cubes[4] = builders.cube("a04", "a", state=states.PartitionState.DEGRADED)
    cubes += [builders.cube(f"b{i:02}", "b") for i in range(8)]
    slices = (
        builders.slice_of("old-train", "4x4x12", "a00", "a01", "a02"),
        builders.slice_of("bits", "2x2x4", "b00.224.0"),
        builders.slice_of("important", "4x4x8", "b01", "b02"),
    )
    return builders.fleet_of(*cubes, slices=slices)


@pytest.fixture
def offline(tpuctl):
    """Runs `capacity ... --fleet` on the busy fleet."""

    def run(*arguments, snapshot=None, **options):
        path = tpuctl.write("fleet.json", json.dumps(codec.dump(snapshot or busy_fleet())))
        return tpuctl("capacity", *arguments, "--fleet", str(path), **options)

    return run


def document(result, status=0):
    assert result.status == status, result.err
    return json.loads(result.out)


def test_what_fits_now(offline):
    found = document(offline("show", "-o", "json"))
    assert (found["freeChips"], found["strandedChips"]) == (640, 52 + 64 + 48)
    a, b = found["blocks"]
    assert (a["id"], a["freeCubes"], a["largest"], a["largestChips"]) == ("a", 5, "4x4x20", 320)
    assert a["obstacles"] == {"in use": 3, "degraded": 1, "incomplete": 1}
    assert b["holders"] == {"important": 2, "bits": 1}
    counts = {room["topology"]: room["slices"] for room in found["shapes"]}
    assert (counts["4x4x8"], counts["4x8x8"], counts["8x8x8"]) == (4, 2, 0)
    assert counts["2x4x4"] == 2 * 10 + 2 + 1 + 1
    shown = offline("show")
    assert "3 in use, 1 degraded, 1 incomplete" in shown.out
    assert "640 chips in free cubes, 164 chips stranded" in shown.out
    assert "##########.........." in shown.out


def test_degraded_cubes_count_if_they_may(offline):
    found = document(offline("show", "--allow-degraded", "-o", "json"))
    assert found["blocks"][0]["freeCubes"] == 6


def test_it_fits_and_says_where_and_why_not_elsewhere(offline):
    shown = offline("why-not", "--topology", "4x4x8")
    assert shown.status == 0
    assert "4x4x8 (128 chips) fits now in block a" in shown.out
    assert "equal" in shown.out
    full = offline("why-not", "--topology", "4x4x8", "--spares", "3")
    assert "fits now in block a" in full.out
    larger = offline("why-not", "--topology", "4x4x8", "--allow-degraded")
    assert "a larger hole, kept for larger slices" in larger.out
    assert "its cubes are less worn" in offline("why-not", "--topology", "2x2x4").out
    found = document(offline("why-not", "--chips", "128", "-o", "json"))
    assert (found["fits"], found["topology"]) == (True, "4x4x8")
    assert found["placement"]["partitionIds"] == ["a05", "a06"]
    assert [candidate["chosen"] for candidate in found["candidates"]] == [True, False]


def test_it_does_not_fit_and_says_what_would_help(offline):
    refused = offline("why-not", "-t", "8x8x8", "--fallback", "4x8x8")
    assert refused.status == 8
    assert "8 cubes of one block needed, the best block has 5 usable" in refused.out
    found = document(offline("why-not", "-t", "8x8x8", "--fallback", "4x8x8", "-o", "json"), 8)
    kinds = [way["actions"][0]["do"] for way in found["ways"]]
    assert kinds == ["move", "use the fallback"]
    assert [action["target"] for action in found["ways"][0]["actions"]] == ["important", "bits"]
    assert found["ways"][0]["costChipHours"] == 72.0
    never = document(offline("why-not", "-t", "8x16x16", "-o", "json"), 8)
    assert (never["never"], never["ways"]) == (True, [])


def test_a_hold_is_named_and_its_release_suggested(offline):
    claims = (operations.Claim("a05", "hold by jo: burn-in"),)
    held = dataclasses.replace(busy_fleet(), claims=claims)
    shown = offline("why-not", "-t", "4x4x20", "--block", "a", snapshot=held)
    assert shown.status == 8
    assert "hold by jo: burn-in" in shown.out
    assert "tpuctl cube release a05 --others" in shown.out


def test_only_who_is_told_to_be_preemptible_is(offline, tpuctl):
    plain = document(offline("why-not", "-t", "8x8x8", "--priority", "5", "-o", "json"), 8)
    assert not any(way["actions"][0]["do"] == "preempt" for way in plain["ways"])
    terms = document(
        offline("why-not", "-t", "8x8x8", "--priority", "5", "-f", str(EXAMPLE), "-o", "json"), 8
    )
    assert ["old-train"] in [
        [action["target"] for action in way["actions"]]
        for way in terms["ways"]
        if way["actions"][0]["do"] == "preempt"
    ]


def test_the_example_file_is_planned(offline):
    for way in ("--optimal", "--fast"):
        found = document(offline("plan", "-f", str(EXAMPLE), way, "-o", "json"), 8)
        assert [item["slice"] for item in found["placed"]][:2] == ["pretrain", "sweep-0"]
        # The file says that it may be ended, and that it is less urgent.
        assert found["evictions"] == [{"victims": ["old-train"], "chips": 192, "for": ["pretrain"]}]
        assert {tuple(item["slices"]) for item in found["left"]} >= {("sweep-1",), ("pair-0", "pair-1")}
        assert [report["priority"] for report in found["classes"]] == [10, 0]
        assert all(report["gap"] == 0 for report in found["classes"])
    shown = offline("plan", "-f", str(EXAMPLE))
    assert "in place of 8x16x16" in shown.out
    assert "optimal" in shown.out


def requests(tpuctl, body):
    return tpuctl.write("r.yaml", f"apiVersion: tpuctl/v1\nkind: PlacementRequests\n{body}")


@pytest.mark.parametrize(
    ("body", "line", "says"),
    [
        ("requests:\n- nam: a\n", 4, "unknown key 'nam' under 'requests'"),
        ("requests:\n- name: a\n", 4, "say either topology or chips"),
        ("requests:\n- name: a\n  topology: 4x8x4\n", 5, "topology: topology 4x8x4 is not allowed"),
        ("requests:\n- name: a\n  chips: 100\n", 5, "the nearest are 64 and 128"),
        ("requests:\n- name: a\n  chips: 64\n  count: 0\n", 6, "at least 1"),
        ("requests:\n- name: A_\n", 4, "slice name"),
        ("requests: 3\n", 3, "expected a list under 'requests'"),
        ("requests:\n- a\n", 4, "expected keys under 'requests'"),
        ("running:\n- priority: 1\n", 4, "needs a slice"),
        ("running:\n- slice: a\n  minRunTime: soon\n", 5, "not a span of time"),
        ("running:\n- slice: a\n  expectedEnd: soon\n", 5, "expected a time"),
        ("teams:\n  a: -1\n", 4, "above 0"),
        ("requests:\n- name: a\n  chips: 64\n  gang: 3\n", 6, "expected a text"),
    ],
)
def test_a_file_of_requests_is_read_strictly(offline, tpuctl, body, line, says):
    path = requests(tpuctl, body)
    refused = offline("plan", "-f", str(path))
    assert refused.status == 64
    assert f"{path}:{line}: " in refused.err
    assert says in refused.err


def test_a_file_without_its_kind_or_requests_is_refused(offline, tpuctl):
    assert "'apiVersion' is missing" in offline("plan", "-f", str(tpuctl.write("r.yaml", ""))).err
    empty = offline("plan", "-f", str(requests(tpuctl, "")))
    assert (empty.status, "holds no requests" in empty.err) == (64, True)
    ghost = requests(tpuctl, "requests:\n- name: a\n  chips: 64\n  block: ghost\n")
    assert offline("plan", "-f", str(ghost)).status == 5


def test_moves_are_weighed(offline):
    found = document(offline("defrag", "-t", "8x8x8", "-o", "json"))
    assert [move["slice"] for move in found["moves"]] == ["important", "bits"]
    assert (found["costChipHours"], found["gainChipHours"], found["pays"]) == (72.0, 512 * 24.0, True)
    shown = offline("defrag", "-t", "8x8x8", "--dry-run")
    assert "tpuctl slice form important --topology 4x4x8 --cubes a05,a06" in shown.out
    dear = offline("defrag", "-t", "8x8x8", "--move-cost", "30d", "--otherwise-wait", "1h")
    assert dear.status == 9
    assert "refused, moving does not pay: gain 512 chip-hours" in dear.out
    assert offline("defrag", "-t", "4x4x4").out == "4x4x4 fits now; nothing needs to move\n"
    assert offline("defrag", "-t", "8x16x16").status == 8


def test_a_moved_slice_keeps_its_priority_and_blocks_go_by_their_names(offline):
    plain = busy_fleet()
    slices = tuple(item._replace(priority=7) if item.name == "important" else item for item in plain.slices)
    blocks = tuple(dataclasses.replace(block, name=f"res-{block.id}") for block in plain.blocks)
    snapshot = dataclasses.replace(plain, slices=slices, blocks=blocks)
    shown = offline("defrag", "-t", "8x8x8", snapshot=snapshot)
    assert "tpuctl slice form important --topology 4x4x8 --priority 7 --cubes a05,a06" in shown.out
    assert re.search(r"important  4x4x8 +128 +res-b +res-a", shown.out)
    move = document(offline("defrag", "-t", "8x8x8", "-o", "json", snapshot=snapshot))["moves"][0]
    assert (move["fromBlock"], move["fromBlockName"]) == ("b", "res-b")
    assert (move["toBlock"], move["toBlockName"]) == ("a", "res-a")
    asked = document(offline("why-not", "-t", "8x8x8", "-o", "json", snapshot=snapshot), 8)
    moved = [one for way in asked["ways"] for one in way["actions"] if one["do"] == "move"]
    assert moved[0]["detail"] == "to block res-a"


def test_failures_and_repairs_are_imagined(offline, tpuctl):
    found = document(offline("what-if", "--fail", "a00", "--repair", "a03", "--add-block", "1", "-o", "json"))
    free = {block["id"]: block["freeCubes"] for block in found["after"]["blocks"]}
    assert free == {"a": 6, "b": 5, "new-0": 144}
    assert found["hits"] == [{"slice": "old-train", "cubes": ["a00"], "replacements": ["a03"]}]
    path = tpuctl.write(
        "c.yaml", "apiVersion: tpuctl/v1\nkind: FleetChanges\nendSlices: [important]\nfail: [pool-b03]\n"
    )
    ended = document(offline("what-if", "-f", str(path), "-o", "json"))
    assert {block["id"]: block["freeCubes"] for block in ended["after"]["blocks"]} == {"a": 5, "b": 6}
    assert "can be swapped" in offline("what-if", "--fail", "a00").out
    assert offline("what-if").status == 64
    assert offline("what-if", "--fail", "ghost").status == 5
    assert offline("what-if", "--end", "ghost").status == 5


def test_spares(offline):
    found = document(offline("spares", "--confidence", "0.99", "-o", "json"))["items"]
    assert [(line["block"], line["cubesInSlices"], line["neededSpares"]) for line in found] == [
        ("a", 3, 1),
        ("b", 2, 1),
    ]
    for wrong in ("2", "1", "0", "-0.5", "nan"):
        refused = offline("spares", "--confidence", wrong)
        assert refused.status == 64
        assert "between 0 and 1" in refused.err
    assert offline("spares", "--failures-per-host-day", "0").status == 64
    assert len(offline("spares", "--no-headers").out.splitlines()) == 2


def test_published_figures(tpuctl):
    for name in ("isca4", "isca6", "nsdi1", "table2"):
        found = document(tpuctl("capacity", "simulate", "--figure", name, "-o", "json"))
        assert found["agrees"], name
    shown = tpuctl("capacity", "simulate", "--figure", "isca6")
    assert "4x4x8    1.730      1.7" in shown.out
    assert "GKE does not offer twisted slices" in shown.out
    larger = document(tpuctl("capacity", "simulate", "--figure", "isca4", "--pod", "144", "-o", "json"))
    assert all(point["published"] is None for point in larger["points"])
    assert tpuctl("capacity", "simulate", "--figure", "nothing").status == 64


def test_a_run_of_a_block_is_repeatable_and_its_ledger_sums_up(tpuctl):
    arguments = ("simulate", "--days", "2", "--hosts-mtbf", "100d", "--cubes", "16", "-o", "json")
    found = document(tpuctl("capacity", *arguments))
    assert found == document(tpuctl("capacity", *arguments))
    for run in found["runs"]:
        assert sum(run["ledgerChipSeconds"].values()) == 16 * 64 * 2 * 86400
    assert tpuctl("capacity", "simulate", "--days", "1", "--cubes", "4", "--spares", "4").status == 64
    assert "Where the chip-hours went" in tpuctl("capacity", "simulate", "--days", "1", "--cubes", "8").out


def test_every_format_is_one_document_or_one_name(offline):
    for arguments in (
        ("show",),
        ("why-not", "-t", "4x4x4"),
        ("defrag", "-t", "4x4x4"),
        ("what-if", "--add-block", "1"),
        ("spares",),
    ):
        as_json = document(offline(*arguments, "-o", "json"))
        assert yaml.safe_load(offline(*arguments, "-o", "yaml").out) == as_json
        assert as_json["apiVersion"] == "tpuctl/v1"
        assert "/" in offline(*arguments, "-o", "name").out


def test_live_and_offline_give_the_same_answer(tpuctl):
    settings = simulator.Settings(cubes=4, ready_cubes=4, slice_controller=True)
    with rehearsal.rehearse(settings):
        tpuctl("slice", "form", "train", "--topology", "4x4x8")
        live = document(tpuctl("capacity", "why-not", "-t", "4x4x12", "-o", "json"), 8)
        path = tpuctl.cwd / "fleet.json"
        assert tpuctl("fleet", "dump", "-f", str(path)).status == 0
        saved = document(tpuctl("capacity", "why-not", "-t", "4x4x12", "--fleet", str(path), "-o", "json"), 8)
        assert {**live, "observedAt": None} == {**saved, "observedAt": None}
        assert live["candidates"][0]["holders"] == {"train": 2}


@pytest.fixture
def scene():
    """Four cubes ready for use."""
    settings = simulator.Settings(cubes=4, ready_cubes=4, slice_controller=True)
    with rehearsal.rehearse(settings) as made:
        yield made


def test_slices_by_chips_and_worked_down_through_smaller_sizes(tpuctl, scene):
    formed = tpuctl("slice", "form", "a", "--chips", "512", "--fallback", "4x4x12,4x4x8")
    assert formed.status == 0
    assert "8x8x8 never fits" in formed.err
    assert "slice/a formed  4x4x12  192 chips" in formed.out
    again = tpuctl("slice", "form", "a", "--chips", "512", "--fallback", "4x4x12,4x4x8")
    assert "slice/a unchanged" in again.out
    assert tpuctl("slice", "form", "b", "--chips", "100").status == 64
    assert tpuctl("slice", "form", "b").status == 64
    assert tpuctl("slice", "form", "b", "--chips", "128", "--fallback", "8x8x8").status == 8


def test_several_slices_of_one_command_are_formed_all_or_none(tpuctl, scene):
    refused = tpuctl("slice", "form", "s", "--topology", "4x4x8", "--count", "3")
    assert refused.status == 8
    assert "2 of 3 slices 4x4x8 fit" in refused.err
    planned = document(
        tpuctl("slice", "form", "s", "--chips", "128", "--count", "2", "--dry-run", "-o", "json")
    )
    assert [item["name"] for item in planned["items"]] == ["s-0", "s-1"]
    assert "create it" in tpuctl("slice", "form", "s", "--chips", "128", "--count", "2", "--dry-run").out
    assert tpuctl("slice", "list", "-o", "name").out == ""
    formed = document(tpuctl("slice", "form", "s", "--chips", "128", "--count", "2", "-o", "json"))
    assert [item["result"] for item in formed["items"]] == ["formed", "formed"]
    again = tpuctl("slice", "form", "s", "--chips", "128", "--count", "2")
    assert again.out.count("unchanged") == 2
    assert tpuctl("slice", "form", "s", "--chips", "64", "--count", "2", "--cubes", "x").status == 64


def test_priorities_are_written_shown_and_used(tpuctl, scene):
    assert tpuctl("slice", "form", "a", "--chips", "128", "--priority", "6").status == 0
    assert tpuctl("slice", "form", "b", "--chips", "128").status == 0
    assert tpuctl("slice", "form", "c", "--chips", "64", "--priority", "1e3").status == 64
    items = {item["name"]: item for item in document(tpuctl("slice", "list", "-o", "json"))["items"]}
    assert (items["a"]["priority"], items["b"]["priority"]) == (6, 0)
    wide = tpuctl("slice", "list", "-o", "wide").out.splitlines()
    place = wide[0].index("PRIORITY")
    assert [line[place:].split()[0] for line in wide[1:3]] == ["6", "0"]
    assert "PRIORITY" not in tpuctl("slice", "list").out
    assert document(tpuctl("slice", "show", "a", "-o", "json"))["priority"] == 6
    terms = tpuctl.write(
        "running.yaml",
        "apiVersion: tpuctl/v1\nkind: PlacementRequests\nrunning:\n"
        "- {slice: a, preemptible: true}\n- {slice: b, preemptible: true}\n",
    )
    found = document(
        tpuctl("capacity", "why-not", "-t", "4x4x8", "--priority", "5", "-f", str(terms), "-o", "json"), 8
    )
    ends = [
        [action["target"] for action in way["actions"]]
        for way in found["ways"]
        if way["actions"][0]["do"] == "preempt"
    ]
    assert ends == [["b"]]


def test_a_refusal_of_form_names_what_helps(tpuctl, scene):
    cube = document(tpuctl("cube", "list", "-o", "json"))["items"][0]["id"]
    assert tpuctl("cube", "hold", cube, "--reason", "burn-in").status == 0
    refused = tpuctl("slice", "form", "a", "--topology", "4x8x8")
    assert refused.status == 8
    assert f"this would make it fit: tpuctl cube release {cube}" in refused.err
    assert "tpuctl capacity why-not --topology 4x8x8" in refused.err


TERMS = """
requests:
- name: urgent
  topology: 8x8x8
  priority: 5
running:
- slice: busy
  preemptible: true
  minRunTime: 0s
"""
PATIENT = """
requests:
- name: patient
  topology: 8x8x8
running:
- slice: busy
  expectedEnd: 2030-01-01T00:00:00Z
"""


def full_fleet(tpuctl):
    """Eight cubes, four of them in a slice."""
    cubes = [builders.cube(f"c{number}", "b") for number in range(8)]
    busy = builders.slice_of("busy", "4x8x8", "c0", "c1", "c2", "c3")
    snapshot = builders.fleet_of(*cubes, slices=(busy,))
    return str(tpuctl.write("full.json", json.dumps(codec.dump(snapshot))))


def test_what_is_preemptible_has_to_end_first(tpuctl):
    file = full_fleet(tpuctl)
    arguments = ("capacity", "plan", "-f", str(requests(tpuctl, TERMS)), "--fleet", file)
    found = json.loads(tpuctl(*arguments, "-o", "json").out)
    assert found["evictions"] == [{"victims": ["busy"], "chips": 256, "for": ["urgent"]}]
    assert [item["slice"] for item in found["placed"]] == ["urgent"]
    shown = tpuctl(*arguments)
    assert shown.status == 0
    assert "Has to end first" in shown.out
    assert re.search(r"busy +256 +urgent", shown.out)


def test_what_has_to_wait_is_told_until_when(tpuctl):
    file = full_fleet(tpuctl)
    arguments = ("capacity", "plan", "-f", str(requests(tpuctl, PATIENT)), "--fleet", file)
    answer = tpuctl(*arguments, "-o", "json")
    assert answer.status == 8
    found = json.loads(answer.out)
    assert found["promise"] == {
        "slices": ["patient"],
        "at": "2030-01-01T00:00:00Z",
        "afterTheEndOf": ["busy"],
    }
    shown = tpuctl(*arguments)
    assert "when busy will have ended" in shown.out
