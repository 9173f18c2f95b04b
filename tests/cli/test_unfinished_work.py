"""Open operations, leftovers and failed slices: whoever meets them is told what to run, and it works."""

from __future__ import annotations

import json

from tests.ops import test_swapping as swaps
from tests.ops.conftest import whole
from tpuctl.engine import leftovers
from tpuctl.model import operations
from tpuctl.ops import journal, locking, waiting


def document(result, status=0):
    assert result.status == status, result.err
    return json.loads(result.out)


def members(scene):
    return whole(scene).slices_by_name["train"].partition_ids


def half_swapped(scene, monkeypatch, *, broken=False):
    """The program died when `train` was deleted and not made again; the exchange."""
    if broken:
        swaps.break_host(scene, members(scene)[0])
    left = swaps.killed_at(scene, monkeypatch, 2)
    assert left is not None
    assert "train" not in whole(scene).slices_by_name
    return left.exchanges[0]


def interrupt(*_arguments, **_options):
    raise KeyboardInterrupt


# -- what a command says when it is stopped ------------------------------------------------------------------


def test_an_interrupted_deform_names_the_command_that_finishes_it(tpuctl, scene, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(waiting, "until_gone", interrupt)
        stopped = tpuctl("slice", "deform", "train", "--yes")
    assert stopped.status == 130
    assert stopped.err.endswith(
        "hint: slice train goes on being taken apart; operation deform-train is open and its cubes are kept; "
        "finish it with: tpuctl operation resume deform-train\n"
    )
    assert tpuctl("operation", "resume", "deform-train").status == 0
    assert "train" not in whole(scene).slices_by_name
    assert journal.list_open(scene.ports) == []


def test_waiting_for_a_slice_closes_the_forming_that_ran_out_of_time(tpuctl, scene):
    ended = tpuctl("slice", "form", "pair", "--topology", "4x4x8", "--timeout", "5s")
    assert (ended.status, "tpuctl slice wait pair" in ended.err) == (10, True)
    assert [entry.operation.id for entry in journal.list_open(scene.ports)] == ["form-pair"]
    waited = tpuctl("slice", "wait", "pair")
    assert (waited.status, waited.out) == (0, "slice/pair is ACTIVE\n")
    assert journal.list_open(scene.ports) == []
    assert scene.ports.leases.list() == []
    assert tpuctl("slice", "deform", "pair", "--yes").status == 0


def test_the_same_form_again_closes_it_too(tpuctl, scene):
    assert tpuctl("slice", "form", "pair", "--topology", "4x4x8", "--timeout", "5s").status == 10
    assert tpuctl("slice", "form", "pair", "--topology", "4x4x8").status == 0
    assert journal.list_open(scene.ports) == []


def test_a_forming_whose_program_lives_is_left_to_it(tpuctl, scene):
    assert tpuctl("slice", "form", "pair", "--topology", "4x4x8", "--timeout", "5s").status == 10
    lock = locking.slice_lock("pair")
    scene.ports.leases.create(lock, "jo@elsewhere:1", 300)
    waited = tpuctl("slice", "wait", "pair")
    assert waited.status == 0
    assert "operation form-pair is still open (tpuctl-slice-pair is locked by jo@elsewhere:1)" in waited.err
    assert scene.ports.leases.get(lock).holder == "jo@elsewhere:1"
    refused = tpuctl("slice", "deform", "pair", "--yes")
    assert refused.status == 6
    assert "hint: jo@elsewhere:1 is at work on it: wait until it has ended" in refused.err
    scene.simulator.advance(301)
    for command in (("deform", "pair", "--yes"), ("swap", "pair", "--auto", "--yes")):
        gone = tpuctl("slice", *command)
        assert gone.status == 6
        assert "the slice is ACTIVE and nobody is at work on it" in gone.err
        assert "tpuctl operation resume form-pair, then run the command again" in gone.err
    assert tpuctl("operation", "resume", "form-pair").status == 0
    assert tpuctl("slice", "deform", "pair", "--yes").status == 0


# -- a slice that is deleted and not made again --------------------------------------------------------------


def test_a_half_swapped_slice_is_listed_with_its_operation(tpuctl, scene, monkeypatch):
    half_swapped(scene, monkeypatch)
    listed = tpuctl("slice", "list")
    assert listed.status == 0
    header, row = listed.out.splitlines()
    assert header.split()[-1] == "NEXT"
    assert row.split()[:5] == ["train", "4x4x8", "128", "2", "deleting"]
    assert row.endswith("tpuctl operation resume swap-train")
    [item] = document(tpuctl("slice", "list", "-o", "json"))["items"]
    assert (item["name"], item["state"], item["operation"]["id"]) == ("train", None, "swap-train")
    assert tpuctl("slice", "list", "-o", "name").out == "slice/train\n"
    assert tpuctl("operation", "resume", "swap-train").status == 0
    again = tpuctl("slice", "list")
    assert "NEXT" not in again.out
    assert "ACTIVE" in again.out


def test_a_half_swapped_slice_is_shown_and_waited_for_by_name(tpuctl, scene, monkeypatch):
    exchange = half_swapped(scene, monkeypatch)
    shown = tpuctl("slice", "show", "train")
    assert shown.status == 0
    assert "it is deleted and not made again yet: operation swap-train of" in shown.out
    assert "tpuctl operation resume swap-train" in shown.out
    assert exchange.new in shown.out
    found = document(tpuctl("slice", "show", "train", "-o", "json"))
    assert (found["operation"]["id"], found["operation"]["intent"]) == ("swap-train", "deleting")
    waited = tpuctl("slice", "wait", "train")
    assert waited.status == 6
    assert "slice train is not there: it is deleted and not made again yet" in waited.err
    assert "tpuctl operation resume swap-train" in waited.err
    assert tpuctl("slice", "show", "ghost").status == 5
    assert tpuctl("slice", "wait", "ghost").status == 5


def test_a_half_swapped_slice_is_trouble(tpuctl, scene, monkeypatch):
    half_swapped(scene, monkeypatch)
    status = tpuctl("fleet", "status")
    assert "slice train: it is not there: operation swap-train is open" in status.out
    [missing] = document(tpuctl("fleet", "status", "-o", "json"))["slices"]["missing"]
    assert (missing["name"], missing["operation"]["id"]) == ("train", "swap-train")
    for arguments in ((), ("train",)):
        checked = tpuctl("health", "check", *arguments)
        assert checked.status == 11
        assert "operation swap-train of" in checked.out
        assert "tpuctl operation resume swap-train" in checked.out
    assert "operation swap-train of" in tpuctl("health", "show", "train").out
    assert tpuctl("operation", "resume", "swap-train").status == 0
    assert tpuctl("health", "check").status == 0


def test_a_dump_tells_of_a_half_swapped_slice_too(tpuctl, scene, monkeypatch):
    half_swapped(scene, monkeypatch)
    dump = str(tpuctl.cwd / "dump.yaml")
    assert tpuctl("fleet", "dump", "-f", dump).status == 0
    listed = tpuctl("slice", "list", "--fleet", dump)
    assert "tpuctl operation resume swap-train" in listed.out
    assert tpuctl("slice", "show", "train", "--fleet", dump).status == 0
    assert tpuctl("health", "check", "--fleet", dump).status == 11


def test_a_record_that_cannot_be_read_makes_the_list_partial(tpuctl, scene):
    scene.ports.records.create("op-broken", "operation", "{")
    listed = tpuctl("slice", "list", "-o", "json")
    assert "record op-broken is damaged" in listed.err
    found = document(listed)
    assert (found["partial"], [item["name"] for item in found["items"]]) == (True, ["train"])


# -- what keeps cubes, and what frees them -------------------------------------------------------------------


def test_pods_of_an_open_swap_are_never_called_leftovers(tpuctl, scene, monkeypatch):
    half_swapped(scene, monkeypatch)
    keepers = {
        operations.kept_by(claim.holder).keeper for claim in leftovers.with_leftovers(whole(scene)).claims
    }
    assert keepers == {operations.Keeper.OPERATION}
    refused = tpuctl("slice", "form", "big", "--topology", "4x4x12")
    assert refused.status == 8
    assert "3 in an open operation (operation swap-train of" in refused.err
    assert "finish those first: tpuctl operation resume swap-train" in refused.err
    asked = tpuctl("capacity", "why-not", "-t", "4x4x12").out
    assert "finish those first: tpuctl operation resume swap-train" in asked
    assert "kubectl delete" not in refused.err + asked
    assert "free cube" not in refused.err


def test_pods_that_are_left_over_are_ended_by_their_owner(tpuctl, scene):
    assert tpuctl("slice", "deform", "train", "--yes").status == 0
    assert "2 with pods of a former slice" in tpuctl("capacity", "show").out
    refused = tpuctl("slice", "form", "all", "--topology", "4x4x16")
    assert refused.status == 8
    assert "this would make it fit: kubectl delete job work -n default\n" in refused.err
    assert "kubectl delete job work -n default" in tpuctl("capacity", "why-not", "-t", "4x4x16").out


def test_a_taking_apart_that_is_open_is_finished_and_its_pods_are_ended(tpuctl, scene, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(waiting, "until_gone", interrupt)
        assert tpuctl("slice", "deform", "train", "--yes").status == 130
    scene.simulator.advance(120)
    found = document(tpuctl("capacity", "why-not", "-t", "4x4x16", "-o", "json"), 8)
    run = [command for action in found["ways"][0]["actions"] for command in action["run"]]
    assert run == ["tpuctl operation resume deform-train", "kubectl delete job work -n default"]


def test_a_hold_of_somebody_else_is_released_with_others(tpuctl, scene):
    [mine, theirs] = [cube.id for cube in whole(scene).cubes if cube.id not in members(scene)]
    assert tpuctl("cube", "hold", mine, "--reason", "burn-in").status == 0
    named = tpuctl("slice", "form", "one", "--topology", "4x4x4", "--cubes", mine)
    assert (named.status, f"or first: tpuctl cube release {mine}\n" in named.err) == (6, True)
    record = scene.ports.records.get(f"hold-{mine}")
    text = record.text.replace(mine, theirs).replace("sim-admin", "jo")
    scene.ports.records.create(f"hold-{theirs}", "hold", text)
    refused = tpuctl("slice", "form", "pair", "--topology", "4x4x8")
    assert "2 held" in refused.err
    commands = f"tpuctl cube release {mine}; tpuctl cube release {theirs} --others"
    other_order = f"tpuctl cube release {theirs} --others; tpuctl cube release {mine}"
    assert commands in refused.err or other_order in refused.err
    shown = tpuctl("capacity", "why-not", "-t", "4x4x8").out
    assert f"tpuctl cube release {theirs} --others" in shown
    assert tpuctl("cube", "release", theirs, "--others").status == 0
    assert tpuctl("cube", "release", mine).status == 0
    assert tpuctl("slice", "form", "pair", "--topology", "4x4x8").status == 0


def test_cubes_are_marked_by_what_keeps_them(tpuctl, scene, monkeypatch):
    exchange = half_swapped(scene, monkeypatch)
    free = next(cube.id for cube in reversed(whole(scene).cubes) if not tpuctl_claims(scene, cube.id))
    assert tpuctl("cube", "hold", free, "--reason", "burn-in").status == 0
    rows = {row.split()[0]: row for row in tpuctl("cube", "list").out.splitlines()}
    assert "healthy,held" in rows[free]
    assert "healthy,in operation" in rows[exchange.new]


def tpuctl_claims(scene, cube_id):
    return whole(scene).claimants.get(cube_id, ())


# -- going back ----------------------------------------------------------------------------------------------


def test_abort_is_offered_only_where_it_can_work(tpuctl, scene, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(waiting, "until_gone", interrupt)
        assert tpuctl("slice", "deform", "train", "--yes").status == 130
    scene.simulator.advance(120)
    refused = tpuctl("slice", "form", "train", "--topology", "4x4x4")
    assert refused.status == 6
    assert "finish it: tpuctl operation resume deform-train\n" in refused.err
    assert "abort" not in refused.err
    assert "abort" not in tpuctl("operation", "show", "deform-train").out
    aborted = tpuctl("operation", "abort", "deform-train", "--yes")
    assert aborted.status == 6
    assert "has begun to delete the slice, which cannot be undone" in aborted.err


def test_abort_looks_at_the_old_cubes_first(tpuctl, scene, monkeypatch):
    exchange = half_swapped(scene, monkeypatch, broken=True)
    refused = tpuctl("operation", "abort", "swap-train", "--yes")
    assert refused.status == 8
    assert f"cube {exchange.old}: " in refused.err
    assert "unhealthy: host " in refused.err
    assert "tpuctl operation resume swap-train" in refused.err
    assert whole(scene).slices == ()
    assert journal.find(scene.ports, "swap-train").operation.aborting is False
    accepted = tpuctl("operation", "abort", "swap-train", "--yes", "--accept-failure")
    assert accepted.status == 7
    assert journal.list_open(scene.ports) == []


def test_abort_says_what_it_will_do_before_it_asks(tpuctl, scene, monkeypatch):
    half_swapped(scene, monkeypatch)
    declined = tpuctl("operation", "abort", "swap-train", stdin="n\n", terminal=True)
    assert declined.status == 3
    plan, _, question = declined.err.partition("Take back swap-train")
    assert "slice train is made again on its old cubes: " in plan
    assert "[y/N]" in question
    assert whole(scene).slices == ()


def test_abort_of_a_forming_shows_whom_it_hits(tpuctl, scene):
    assert tpuctl("slice", "form", "pair", "--topology", "4x4x8", "--timeout", "5s").status == 10
    scene.simulator.advance(120)
    aborted = tpuctl("operation", "abort", "form-pair", "--yes")
    assert aborted.status == 0, aborted.err
    assert "slice pair (ACTIVE) is deleted and its cubes are given back" in aborted.err
    assert "blast radius: " in aborted.err
    assert "pair" not in whole(scene).slices_by_name


# -- locks and failed slices ---------------------------------------------------------------------------------


def test_breaking_a_free_lock_changes_nothing(tpuctl, scene):
    name = locking.slice_lock("train")
    lease = scene.ports.leases.create(name, "jo@elsewhere:1", 300)
    scene.ports.leases.free(lease)
    before = scene.ports.leases.get(name)
    broken = tpuctl("lock", "break", name, "--reason", "tidy up")
    assert (broken.status, broken.out, broken.err) == (0, f"lock/{name} unchanged: it is free already\n", "")
    after = scene.ports.leases.get(name)
    assert (after.revision, after.note) == (before.revision, "")
    done = tpuctl("slice", "deform", "train", "--yes")
    assert done.status == 0
    assert "broken by" not in done.err


def test_a_failed_slice_is_swapped_before_it_is_taken_apart(tpuctl, scene):
    swaps.break_host(scene, members(scene)[0])
    assert whole(scene).slices_by_name["train"].state.is_failed
    advice = "tpuctl slice swap train --auto exchanges its broken cubes and keeps the pods of the others; or "
    refused = tpuctl("slice", "form", "train", "--topology", "4x4x8")
    assert refused.status == 6
    assert f"hint: {advice}" in refused.err
    assert advice in tpuctl("slice", "show", "train").out
    waited = tpuctl("slice", "wait", "train")
    assert (waited.status, f"hint: {advice}" in waited.err) == (1, True)
    assert "tpuctl slice show train" in tpuctl("slice", "list").out
    assert tpuctl("slice", "swap", "train", "--auto", "--yes").status == 0


def test_a_failed_slice_without_a_spare_is_told_so(tpuctl, scene):
    for cube in whole(scene).cubes:
        if cube.id not in members(scene):
            assert tpuctl("cube", "hold", cube.id, "--reason", "burn-in").status == 0
    swaps.break_host(scene, members(scene)[0])
    refused = tpuctl("slice", "form", "train", "--topology", "4x4x8")
    assert "hint: 1 spare cube of its block is needed to swap in, 0 usable" in refused.err
    assert "or take it apart: tpuctl slice deform train" in refused.err
    swapped = tpuctl("slice", "swap", "train", "--auto", "--yes")
    assert swapped.status == 8
    assert "2 held (hold by sim-admin: burn-in)" in swapped.err
    assert "hint: this would make it fit: tpuctl cube release " in swapped.err
