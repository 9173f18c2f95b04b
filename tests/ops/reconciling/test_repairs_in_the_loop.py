"""Repairs are judged in each cycle, before anything else; breaker, budget and pause hold for them too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.ops.conftest import Recorder, scene_of, whole
from tests.ops.reconciling.conftest import World, spec_of, wanted, world_of
from tpuctl.model import declared, repairs
from tpuctl.ops import repairs as repairing
from tpuctl.ops.reconciling import history, memory, pauses, status
from tpuctl.sim import behaviour

if TYPE_CHECKING:
    from tpuctl.cli.rehearsal import Rehearsal


@pytest.fixture
def hung(scene: Rehearsal, reporter: Recorder) -> World:
    """A host whose guest hangs: a reset would help."""
    world = world_of(scene, reporter)
    world.cycle()
    scene.simulator.inject("host-crash", whole(scene).cubes[0].hosts[4].name)
    return world


def proposed(world: World, *, limit: int = 80) -> repairs.Item:
    for _ in range(limit):
        found = world.cycle()
        assert found.failure is None
        if found.reviewed is not None and found.reviewed.items:
            return found.reviewed.items[0]
        world.advance(30)
    raise AssertionError("no repair was proposed")


def test_a_repair_is_proposed_once_and_waits_for_a_person(hung: World) -> None:
    item = proposed(hung)
    assert item.case.remedy is declared.Remedy.REBOOT
    assert hung.hooks.events() == ["repair-recommended"]
    with hung.writes() as writes:
        hung.cycles(3)
    assert [write for write in writes if not write.is_lead] == []
    assert hung.hooks.events() == ["repair-recommended"]
    # Who reads only what the loop says, or its status, learns of it too.
    assert hung.outcomes[-1].sentence.endswith("; 1 repair waits for a yes (tpuctl repair list).")
    [told] = status.read(hung.ports).to_approve
    assert told == f"{item.id}: reboot {item.case.target}; tpuctl repair show {item.id}"


def test_what_a_person_approved_is_carried_out_by_the_loop(hung: World) -> None:
    item = proposed(hung)
    pauses.pause(hung.ports, reason="wait")
    repairing.approve(hung.ports, hung.reporter, item.id, reason="seen on the console")
    said = history.read(hung.ports)[-1]
    assert said.text == f"reboot {item.case.target}: approved (seen on the console)"
    assert (said.subject, said.result) == (f"repair/{item.id}", "told")
    assert status.read(hung.ports).to_approve == ()
    with hung.writes() as writes:
        hung.cycles(2)
    assert [write.path for write in writes if write.path.endswith("/reset")] == []
    pauses.resume(hung.ports)
    with hung.writes() as writes:
        found = hung.cycle()
    assert [write.path for write in writes if write.path.endswith("/reset")] != []
    [done] = found.reviewed.executed
    assert found.sentence.endswith(f"; {done.text.rstrip('.')}.")
    assert "nothing to do" not in found.sentence
    assert item.case.cube in found.view.repairing
    assert history.read(hung.ports)[-1].subject == f"repair/{item.id}"
    hung.cycles(40)
    assert list(repairing.list_open(hung.ports)) == []
    assert whole(hung.scene).cubes_by_id[item.case.cube].ready_hosts == 16


def test_a_repair_under_a_slice_that_is_down_is_within_any_budget(
    scene: Rehearsal, reporter: Recorder
) -> None:
    """Nothing runs that it could interrupt."""
    world = world_of(scene, reporter, wanted("train", "4x4x8"))
    world.converge()
    item = world.slice("train")
    scene.simulator.inject("host-crash", whole(scene).cubes_of(item)[0].hosts[4].name)
    budgets = declared.Budgets(disrupted_chips_per_hour=0)
    off = declared.Remediation(failover=declared.Permission.OFF)
    world.wants(spec_of(scene, wanted("train", "4x4x8"), budgets=budgets, remediation=off))
    found = proposed(world)
    assert world.states() == {"train": "FAILED"}
    assert (found.case.remedy, found.case.blast.slices, found.case.blast.interrupted_chips) == (
        declared.Remedy.REBOOT,
        ("train",),
        0,
    )
    repairing.approve(world.ports, world.reporter, found.id)
    reviewed = world.cycle().reviewed
    assert [(done.item.id, done.chips) for done in reviewed.executed] == [(found.id, 0)]
    assert memory.load(world.ports, "test").memory.disruptions == ()


def test_a_silent_host_under_sound_labels_is_a_matter_for_a_person(reporter: Recorder) -> None:
    """Its work may still run: unknown alone ends no slice, and is not left to nobody either."""
    unseen = behaviour.Behaviour(hung_guest_is_unseen=True)
    with scene_of(cubes=4, ready_cubes=4, slice_controller=True, behaviour=unseen) as scene:
        world = world_of(scene, reporter, wanted("train", "4x4x8"))
        world.converge()
        before = world.slice("train")
        scene.simulator.inject("host-crash", whole(scene).cubes_of(before)[0].hosts[4].name)
        item = proposed(world)
        assert (item.case.remedy, item.approvals_needed) == (declared.Remedy.FAILOVER, 1)
        with world.writes() as writes:
            world.cycles(10)
        written = {write.path.rsplit("/", 1)[-1] for write in writes if not write.is_lead}
        assert written <= {memory.RECORD}
        assert (world.slice("train").uid, world.states()) == (before.uid, {"train": "ACTIVE"})
        repairing.approve(world.ports, world.reporter, item.id)
        world.cycles(10)
        after = world.slice("train")
        assert world.states() == {"train": "ACTIVE"}
        assert len({*after.partition_ids} & {*before.partition_ids}) == 1
        assert item.case.cube not in after.partition_ids


@pytest.mark.parametrize("limit", [127, 128])
def test_a_failover_of_a_running_slice_counts_all_of_it_before_it_begins(
    scene: Rehearsal, reporter: Recorder, limit: int
) -> None:
    """The slice is taken apart as a whole, though only one of its cubes goes."""
    world = world_of(scene, reporter, wanted("train", "4x4x8"))
    world.converge()
    before = world.slice("train")
    budgets = declared.Budgets(disrupted_chips_per_hour=limit)
    asked = declared.Remediation(failover=declared.Permission.RECOMMEND)
    world.wants(spec_of(scene, wanted("train", "4x4x8"), budgets=budgets, remediation=asked))
    world.advance(300)
    world.cycle()
    scene.simulator.inject("chip-error", whole(scene).cubes_of(before)[0].hosts[4].name)
    item = proposed(world)
    assert world.states() == {"train": "ACTIVE"}
    assert (item.case.remedy, item.case.blast.hosts, item.case.blast.chips) == (
        declared.Remedy.FAILOVER,
        16,
        128,
    )
    repairing.approve(world.ports, world.reporter, item.id)
    with world.writes() as writes:
        reviewed = world.cycle().reviewed
    counted = [(entry.chips, entry.action) for entry in memory.load(world.ports, "test").memory.disruptions]
    if limit < item.case.blast.chips:
        why = "disruption budget: it interrupts 128 chips, 127 are left in this hour"
        assert reviewed.waiting == ((item.id, why),)
        assert (counted, world.slice("train").uid) == ([], before.uid)
    else:
        assert [(done.item.id, done.chips) for done in reviewed.executed] == [(item.id, 128)]
        assert counted == [(128, f"repair/{item.id}")]
        steps = [(write.verb, write.path.rsplit("/", 1)[-1]) for write in writes]
        assert steps.index(("update", memory.RECORD)) < steps.index(("delete", "train"))
        assert item.case.cube not in world.slice("train").partition_ids
