"""Repairs are judged in each cycle, before anything else; breaker, budget and pause hold for them too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.ops.conftest import Recorder, whole
from tests.ops.reconciling.conftest import World, spec_of, wanted, world_of
from tpuctl.model import declared, repairs
from tpuctl.ops import repairs as repairing
from tpuctl.ops.reconciling import history, memory, pauses

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


def test_what_a_person_approved_is_carried_out_by_the_loop(hung: World) -> None:
    item = proposed(hung)
    pauses.pause(hung.ports, reason="wait")
    repairing.approve(hung.ports, hung.reporter, item.id)
    with hung.writes() as writes:
        hung.cycles(2)
    assert [write.path for write in writes if write.path.endswith("/reset")] == []
    pauses.resume(hung.ports)
    with hung.writes() as writes:
        found = hung.cycle()
    assert [write.path for write in writes if write.path.endswith("/reset")] != []
    assert len(found.reviewed.executed) == 1
    assert item.case.cube in found.view.repairing
    assert history.read(hung.ports)[-1].subject == f"repair/{item.id}"
    hung.cycles(40)
    assert list(repairing.list_open(hung.ports)) == []
    assert whole(hung.scene).cubes_by_id[item.case.cube].ready_hosts == 16


@pytest.mark.parametrize("chips", [0, 128])
def test_a_repair_counts_against_the_budget_before_it_begins(
    scene: Rehearsal, reporter: Recorder, chips: int
) -> None:
    world = world_of(scene, reporter, wanted("train", "4x4x8"))
    world.converge()
    item = world.slice("train")
    crashed = whole(scene).cubes_of(item)[0].hosts[4].name
    scene.simulator.inject("host-crash", crashed)
    budgets = declared.Budgets(disrupted_chips_per_hour=chips)
    off = declared.Remediation(failover=declared.Permission.OFF)
    world.wants(spec_of(scene, wanted("train", "4x4x8"), budgets=budgets, remediation=off))
    found = proposed(world)
    assert found.case.blast.chips == 128
    repairing.approve(world.ports, world.reporter, found.id)
    with world.writes() as writes:
        reviewed = world.cycle().reviewed
    kept = memory.load(world.ports, "test").memory
    if chips:
        assert [done.item.id for done in reviewed.executed] == [found.id]
        assert [(entry.chips, entry.action) for entry in kept.disruptions] == [(128, f"repair/{found.id}")]
        paths = [write.path for write in writes]
        reset = next(path for path in paths if path.endswith("/reset"))
        assert any(path.endswith(memory.RECORD) for path in paths[: paths.index(reset)])
    else:
        [(_, why)] = reviewed.waiting
        assert why == "disruption budget: it interrupts 128 chips, 0 are left in this hour"
        assert [write.path for write in writes if write.path.endswith("/reset")] == []
        assert kept.disruptions == ()
