"""Trouble that lasts: a loop that has said or asked what there is to say rests, and does not read all anew.

Whether a repair is opened is judged alike by a mere look and by a full cycle: else the look calls for a full
cycle at every interval, which then opens nothing.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from tests.ops.conftest import Recorder, whole
from tests.ops.reconciling import test_steady as steady
from tests.ops.reconciling.conftest import World, settings_of, spec_of, wanted, world_of
from tpuctl.model import declared, repairs
from tpuctl.ops import repairs as repairing
from tpuctl.ops.reconciling import cycle, pauses, views

if TYPE_CHECKING:
    from tpuctl.cli.rehearsal import Rehearsal
    from tpuctl.ops.reconciling import outcomes

LOOKS = steady.QUIET
SETTLES = 3
"""Cycles in which a watch begins and what is newly seen is told; all later ones are alike."""
LIST_ALL = steady.Call("list", "nodes")
TRAIN = wanted("train", "4x4x8")
CLOSED = declared.Window(name="sunday", days=(declared.Weekday.SUN,), start_minute=120, length_s=3600.0)
"""It is a Monday."""


def looks(world: World) -> list[outcomes.Outcome]:
    """What a loop with a watch says at its intervals; none of them reads everything anew."""
    found = steady.cycles(world, SETTLES + LOOKS)[SETTLES:]
    assert [outcome.failure for outcome, _ in found] == [None] * LOOKS
    assert [asked.count(LIST_ALL) for _, asked in found] == [0] * LOOKS
    return [outcome for outcome, _ in found]


@pytest.fixture
def worn(scene: Rehearsal, reporter: Recorder) -> World:
    """A slice that wants healthy cubes, and of which one has a broken link."""
    world = world_of(scene, reporter, TRAIN)
    world.converge()
    scene.simulator.inject("cube-degraded", world.slice("train").partition_ids[0])
    world.advance(120)
    return world


def test_a_degraded_link_whose_swap_waits_for_a_window(worn: World) -> None:
    worn.wants(spec_of(worn.scene, TRAIN, windows=(CLOSED,)))
    for outcome in looks(worn):
        assert outcome.decision is not None
        [action] = outcome.decision.actions
        assert (action.id, "window" in action.stopped_by) == ("swap/train", True)
        assert outcome.reviewed is not None
        assert outcome.reviewed.items == ()


def test_a_degraded_link_with_nothing_free_but_spares(worn: World) -> None:
    name = worn.ports.capacity.blocks()[0].name
    worn.wants(spec_of(worn.scene, TRAIN, block=declared.BlockSpec(name=name, spares=4)))
    for outcome in looks(worn):
        assert outcome.decision is not None
        assert outcome.decision.actions == ()
        assert [entry.subject for entry in outcome.decision.memory.recommendations] == ["slice/train"]


def test_a_repair_that_a_person_is_asked_about(scene: Rehearsal, reporter: Recorder) -> None:
    world = world_of(scene, reporter)
    world.cycle()
    scene.simulator.inject("host-crash", whole(scene).cubes[0].hosts[4].name)
    world.advance(900)
    for outcome in looks(world):
        assert outcome.reviewed is not None
        assert [item.state for item in outcome.reviewed.items] == [repairs.State.PROPOSED]
    assert world.hooks.events() == ["repair-recommended"]


def test_a_repair_that_was_approved_and_waits_for_a_window(worn: World) -> None:
    """The yes is kept for days, and nothing is read anew for it before the window opens."""
    remediation = declared.Remediation(failover=declared.Permission.RECOMMEND)
    worn.wants(spec_of(worn.scene, TRAIN, windows=(CLOSED,), remediation=remediation))
    worn.cycles(2)
    [item] = repairing.list_open(worn.ports)
    repairing.approve(worn.ports, worn.reporter, item.id)
    for outcome in looks(worn):
        assert outcome.reviewed is not None
        assert [one.state for one in outcome.reviewed.items] == [repairs.State.APPROVED]
        assert item.case.cube not in outcome.reviewed.repairing
    [kept] = repairing.list_open(worn.ports)
    assert kept.expires_at.strftime("%a %H:%M") == "Sun 03:00"
    worn.wants(spec_of(worn.scene, TRAIN, remediation=remediation))
    assert [done.item.id for done in worn.cycle().reviewed.executed] == [item.id]


def test_a_paused_loop_with_something_to_propose(scene: Rehearsal, reporter: Recorder) -> None:
    """It opens nothing while it is paused, so there is no reason to read all anew either."""
    world = world_of(scene, reporter)
    world.cycle()
    pauses.pause(world.ports, reason="freeze")
    scene.simulator.inject("host-crash", whole(scene).cubes[0].hosts[4].name)
    world.advance(900)
    looks(world)
    assert list(repairing.list_open(world.ports)) == []
    pauses.resume(world.ports)
    world.cycle()
    assert [item.case.remedy for item in repairing.list_open(world.ports)] == [declared.Remedy.REBOOT]


@pytest.mark.parametrize("permission", [declared.Permission.ALLOW, declared.Permission.RECOMMEND])
def test_a_look_and_a_cycle_come_to_the_same(worn: World, permission: declared.Permission) -> None:
    """So does the plan that a person reads before: it shows what the loop's own mode would do."""
    remediation = declared.Remediation(failover=permission)
    worn.settings = settings_of(
        spec_of(worn.scene, TRAIN, windows=(CLOSED,), remediation=remediation), hooks=worn.hooks
    )
    view = views.observe(worn.ports, worn.settings).view
    looked = cycle.look(worn.ports, worn.reporter, worn.settings, view)
    planned = worn.plan()
    done = worn.cycle()
    keys = [
        [item.case.key for item in reviewed.opened]
        for reviewed in (looked.reviewed, planned.reviewed, done.reviewed)
        if reviewed is not None
    ]
    asked = permission is declared.Permission.RECOMMEND
    assert [len(one) for one in keys] == [int(asked)] * 3
    assert keys[0] == keys[1] == keys[2]
    observing = dataclasses.replace(worn.settings, mode=declared.Mode.OBSERVE)
    assert cycle.look(worn.ports, worn.reporter, observing, view).reviewed.executed == ()
