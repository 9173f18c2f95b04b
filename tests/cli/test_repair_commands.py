"""What people see of repairs, and what they can say to them."""

from __future__ import annotations

import json

import pytest

from tests.ops import repair_scenes as scenes
from tests.ops import test_swapping as swaps
from tests.ops.conftest import whole
from tpuctl.cli import rehearsal
from tpuctl.model import records
from tpuctl.ops import repairs as ops
from tpuctl.sim import simulator


@pytest.fixture
def scene():
    settings = simulator.Settings(cubes=3, ready_cubes=3, slice_controller=True)
    with rehearsal.rehearse(settings) as made:
        yield made


@pytest.fixture
def loop(scene):
    return scenes.Loop(scene, scenes.spec_of(scene))


@pytest.fixture
def item(scene, loop):
    """A reboot that is proposed."""
    scene.simulator.inject("host-crash", scenes.host_of(scene).name)
    [found] = loop.until(scenes.proposed).opened
    return found


def document(result):
    assert result.status == 0, result.err
    return json.loads(result.out)


def test_without_trouble_there_is_nothing_to_list(tpuctl, scene):
    found = tpuctl("repair", "list")
    assert (found.status, found.out, found.err) == (0, "", "No repairs.\n")
    assert document(tpuctl("repair", "list", "-o", "json"))["items"] == []
    missing = tpuctl("repair", "show", "r-00000000")
    assert missing.status == 5
    assert "there is no repair 'r-00000000'" in missing.err


def test_a_proposal_is_listed_with_what_it_hits_and_until_when(tpuctl, item):
    line = tpuctl("repair", "list", "--no-headers").out.split()
    assert line[:3] == [item.id, "reboot", item.case.host]
    assert "4 idle chips" in tpuctl("repair", "list").out
    assert tpuctl("repair", "list", "-o", "name").out == f"repair/{item.id}\n"
    [listed] = document(tpuctl("repair", "list", "-o", "json"))["items"]
    assert (listed["state"], listed["approvalsMissing"], listed["attempt"]) == ("proposed", 1, 1)
    assert listed["blastRadius"] == {"slices": [], "pods": 0, "hosts": 1, "chips": 4, "owners": []}
    assert {proof["origin"] for proof in listed["evidence"]} >= {"node", "VM"}
    assert listed["expiresAt"] > listed["proposedAt"]


def test_show_tells_a_person_what_to_decide_on(tpuctl, item):
    shown = tpuctl("repair", "show", f"repair/{item.id}").out
    for words in ("VM: host", "RUNNING", "0 slices, 0 running pods, 1 host, 4 chips", "1 of 2", "0 of 1"):
        assert words in shown
    assert "64 chips out of use for 2m to 20m (estimate" in shown
    assert document(tpuctl("repair", "show", item.id, "-o", "json"))["kind"] == "Repair"


def test_a_yes_is_asked_for_recorded_and_carried_out_by_the_loop(tpuctl, scene, loop, item):
    alone = tpuctl("repair", "approve", item.id)
    assert alone.status == 3
    assert "needs a confirmation" in alone.err
    declined = tpuctl("repair", "approve", item.id, stdin="n\n", terminal=True)
    assert declined.status == 3
    assert loop.items[0].approvals == ()
    done = tpuctl("repair", "approve", item.id, "--reason", "seen on the console", stdin="y\n", terminal=True)
    assert done.status == 0, done.err
    assert f"repair/{item.id} approved  reboot of host {item.case.host}" in done.out
    assert "blast radius: 0 slices" in done.err
    assert "the reconcile loop carries it out after another look" in done.err
    [approval] = loop.items[0].approvals
    assert (approval.by, approval.reason) == (me(scene), "seen on the console")
    again = tpuctl("repair", "approve", item.id, "--yes")
    assert (again.status, again.out.split()[1]) == (0, "unchanged")
    assert len(loop.cycle().executed) == 1
    running = document(tpuctl("repair", "show", item.id, "-o", "json"))
    assert (running["state"], running["step"]) == ("running", "the VM was reset")
    assert running["expectedTo"] > running["expectedFrom"]
    loop.until(scenes.closed)
    late = tpuctl("repair", "approve", item.id, "--yes")
    assert late.status == 6
    assert f"repair {item.id} is done" in late.err
    assert tpuctl("repair", "list").out == ""
    [over] = document(tpuctl("repair", "list", "--all", "-o", "json"))["items"]
    assert (over["id"], over["state"]) == (item.id, "done")


def me(scene):
    return scene.ports.identity.actor().rpartition("@")[0]


def test_a_no_needs_a_reason_and_stands(tpuctl, scene, item):
    assert tpuctl("repair", "reject", item.id).status == 64
    assert tpuctl("repair", "reject", item.id, "--reason", " ").status == 64
    done = tpuctl("repair", "reject", item.id, "--reason", "known", "-o", "json")
    found = document(done)
    assert (found["result"], found["state"], found["endedBy"], found["note"]) == (
        "rejected",
        "rejected",
        me(scene),
        "known",
    )
    assert tpuctl("repair", "reject", item.id, "--reason", "known").out.split()[1] == "unchanged"
    assert tpuctl("repair", "approve", item.id, "--yes").status == 6


def test_known_fault_69_cancel_says_which_step_was_done(tpuctl, loop, item):
    """NVSentinel#141: there was no way to stop what had begun."""
    assert tpuctl("repair", "approve", item.id, "--yes").status == 0
    loop.cycle()
    done = tpuctl("repair", "cancel", item.id, "--reason", "needed for a test")
    assert done.status == 0, done.err
    assert f"repair/{item.id} cancelled" in done.out
    assert "needed for a test (the VM was reset, which cannot be undone)" in done.err
    loop.cycle()
    assert tpuctl("repair", "cancel", item.id, "--reason", "again").status == 6


def test_known_fault_55_a_report_shows_when_the_host_may_be_back(tpuctl, scene, loop):
    """report-host-as-faulty limits: 3 to 14 days."""
    loop.spec = scenes.spec_of(scene, reboot=scenes.ALLOW, second_approver=True)
    scene.simulator.inject("chip-error", scenes.host_of(scene).name)
    [item] = loop.until(
        lambda review: "remove" in [one.case.remedy for one in review.opened], every_s=300
    ).opened
    shown = tpuctl("repair", "show", item.id).out
    assert (
        "64 chips out of use for 3d to 14d (published: repair in place takes 3 to 14 days or longer)" in shown
    )
    assert shown.count("reboot failed") >= 2
    first = tpuctl("repair", "approve", item.id, "--yes")
    assert (first.status, "approved, 1 more to approve" in first.out) == (0, True)
    same = tpuctl("repair", "approve", item.id, "--yes")
    assert same.status == 9
    assert "1 other person has to approve it too" in same.err
    ops.approve(scenes.as_person(scene.ports, "kim"), loop.reporter, item.id)
    loop.cycle()
    found = document(tpuctl("repair", "show", item.id, "-o", "json"))
    assert [approval["by"] for approval in found["approvals"]] == [me(scene), "kim"]
    assert found["step"] == "the host was reported as faulty"
    days = [int(found[key][8:10]) for key in ("startedAt", "expectedFrom", "expectedTo")]
    assert (days[1] - days[0], days[2] - days[0]) == (3, 14)
    assert "in repair: " in tpuctl("cube", "list", "-o", "wide").out


def test_what_interrupts_work_is_approved_by_its_name(tpuctl, scene, loop):

    loop.spec = scenes.spec_of(scene, failover=scenes.RECOMMEND)
    before = swaps.busy_slice(scene)
    swaps.break_host(scene, before.partition_ids[0])
    [item] = loop.until(scenes.proposed).opened
    wrong = tpuctl("repair", "approve", item.id, stdin="y\n", terminal=True)
    assert wrong.status == 3
    assert "1 slice, 16 running pods" in wrong.err
    assert "16 pods of train" in tpuctl("repair", "list").out
    assert tpuctl("repair", "approve", item.id, stdin=f"{item.id}\n", terminal=True).status == 0
    loop.cycle()
    assert before.partition_ids[0] not in whole(scene).slices_by_name["train"].partition_ids


def test_known_fault_75_a_damaged_record_is_named_and_not_passed_over(tpuctl, scene, item):
    """NVSentinel ADR-056: corrupt is not empty."""
    scene.ports.records.create("repair-broken", records.REPAIR, "{")
    found = tpuctl("repair", "list", "-o", "json")
    assert found.status == 1
    assert json.loads(found.out)["partial"] is True
    assert "record repair-broken is damaged" in found.err
    assert tpuctl("repair", "approve", item.id, "--yes").status == 1


def test_the_rules_are_a_table(tpuctl):
    found = tpuctl("repair", "rules")
    assert "chips-missing" in found.out
    assert "reboot, then remove" in found.out
    assert "left alone, and told: a degraded link" in found.err
    rules = document(tpuctl("repair", "rules", "-o", "json"))["items"]
    silent = next(rule for rule in rules if rule["ailment"] == "host-silent")
    assert (silent["remedies"], silent["graceSeconds"]) == (["reboot", "remove"], 600.0)


def test_an_empty_name_is_nothing_and_never_everything(tpuctl, item):
    for command in ("approve", "reject", "cancel"):
        options = ["--yes"] if command == "approve" else ["--reason", "x"]
        assert tpuctl("repair", command, "", *options).status == 5
        assert tpuctl("repair", command, *options).status == 64
