"""Faults of other people's tools that concern decisions, and are not shown elsewhere in this folder."""

import dataclasses
import datetime

import pytest

from tests import builders
from tests.engine.reconciling import stage
from tpuctl.engine import reconciling as engine
from tpuctl.model import declared, fleet, operations, reconciling, states

Kind = reconciling.ActionKind
CUBES = stage.cubes(8)
TRAIN = builders.slice_of("train", "4x8x8", *(cube.id for cube in CUBES[:4]))
SPEC = stage.spec(stage.want("train", "4x8x8"))


def on(*changed, slices=(TRAIN,), pods=(), wanted=SPEC, **more):
    snapshot = stage.with_cubes(builders.fleet_of(*CUBES, slices=slices, pods=pods), *changed)
    return stage.view(snapshot, wanted, **more)


def test_a_slice_that_is_being_deleted_still_holds_its_cubes():
    """xpk #1022, #1078: partitions handed out while somebody still had them."""
    leaving = TRAIN._replace(name="old", deleting=True)
    found = engine.decide(on(slices=(leaving,), wanted=stage.spec(stage.want("new", "8x8x8"))))
    assert found.actions == ()
    assert "(4 in use)" in dict(found.waiting)["new"]


def test_a_condition_that_nobody_clears_is_not_mended_over_and_over():
    """npd #215, #728, #936, #474: conditions made of log lines that stay True for ever."""
    since = stage.NOW - datetime.timedelta(days=17)
    latched = fleet.NodeCondition("KernelDeadlock", "True", "DockerHung", "", since)
    cube = builders.changed(
        CUBES[0], 0, conditions=(latched,), ready_since=since - datetime.timedelta(days=1)
    )
    seen = on(cube)
    for _ in range(4):
        found = engine.decide(seen)
        assert found.actions == ()
        seen = stage.later(seen, found, 3600.0)


def test_a_condition_of_an_unknown_type_is_no_fault():
    """npd #1011: types that were removed from the configuration linger on nodes."""
    odd = fleet.NodeCondition("SomethingOfTheirs", "True", "x", "", stage.LONG_AGO)
    _, found = stage.second_look(on(builders.changed(CUBES[0], 0, conditions=(odd,))))
    assert found.actions == ()


def test_a_host_that_has_just_booted_lacks_its_chips_for_a_moment():
    """HyperPod 3.9.0: a device counted as missing right after the boot."""
    up = stage.NOW - datetime.timedelta(seconds=30)
    seen = on(builders.changed(CUBES[0], 0, chips=0, ready_since=up))
    again, found = stage.second_look(seen)
    assert found.actions == ()
    later = stage.later(again, found, 90.0)
    decided = engine.decide(stage.later(later, engine.decide(later)))
    assert stage.lines(decided) == ["swap/train"]


def test_a_fault_that_came_while_another_was_mended_is_not_lost():
    """NVSentinel #1536: a new fault during a repair was dropped."""
    entry = stage.operation(TRAIN, operations.Kind.SWAP, operations.Intent.RESTARTING)
    seen = on(stage.sick(CUBES[2]), operations=(entry,))
    first = engine.decide(seen)
    assert [action.kind for action in first.actions] == [Kind.FINISH]
    done = stage.carried_out(seen, first)
    _, found = stage.second_look(done)
    assert stage.one(found, Kind.SWAP).exchanges[0].old == "b1-c02"


def test_an_operation_that_stopped_is_told_once():
    """Resuming is tried again, with the pauses of attempts; to go back is for a person."""
    entry = stage.operation(TRAIN, operations.Kind.SWAP, operations.Intent.CREATING, note="no cubes left")
    seen = on(slices=(), operations=(entry,))
    first = engine.decide(seen)
    assert stage.lines(first) == [f"finish/{entry.id}"]
    [told] = first.memory.recommendations
    assert told.subject == f"operation/{entry.id}"
    assert f"tpuctl operation abort {entry.id}" in told.text
    assert engine.decide(stage.later(seen, first)).memory.recommendations == (told,)


def test_the_oldest_open_operation_of_those_whose_slice_is_away_comes_first():
    other = builders.slice_of("other", "4x4x4", "b1-c05")
    young = stage.operation(other, operations.Kind.SWAP, operations.Intent.DELETING)
    old = stage.operation(TRAIN, operations.Kind.FORM, operations.Intent.CREATING, started_at=stage.LONG_AGO)
    found = engine.decide(on(slices=(), operations=(old, young)))
    assert stage.lines(found)[:2] == [f"finish/{young.id}", f"finish/{old.id}"]


def test_finishing_a_swap_that_was_only_planned_counts_what_it_will_interrupt():
    entry = stage.operation(TRAIN, operations.Kind.SWAP, operations.Intent.PLANNED)
    poor = dataclasses.replace(SPEC, budgets=declared.Budgets(disrupted_chips_per_hour=255))
    [action] = engine.decide(on(operations=(entry,), wanted=poor)).actions
    assert (action.chips, action.slices) == (256, ("train",))
    assert action.stopped_by.startswith("disruption budget: ")
    back = dataclasses.replace(entry, aborting=True)
    assert engine.decide(on(operations=(back,), wanted=poor)).actions[0].chips == 0


def test_cubes_that_an_operation_claims_are_not_used():
    entry = stage.operation(TRAIN, operations.Kind.SWAP, operations.Intent.CREATING, partitions=("b1-c04",))
    wanted = stage.spec(stage.want("train", "4x8x8"), stage.want("new", "4x4x12"))
    found = engine.decide(on(slices=(), operations=(entry,), wanted=wanted))
    assert stage.one(found, Kind.FORM).forming[0].partition_ids == ("b1-c05", "b1-c06", "b1-c07")


@pytest.mark.parametrize("cycles", [2, 6])
def test_nobody_else_is_disturbed_while_room_that_was_made_is_still_coming(cycles):
    """koordinator and armada: victims without end for one request, since the first ones' room never came."""
    lows = tuple(
        builders.slice_of(f"low-{number}", "4x4x8", f"b1-c{2 * number:02}", f"b1-c{2 * number + 1:02}")
        for number in range(4)
    )
    wanted = stage.spec(
        stage.want("low", "4x4x8", count=4, preemptible=True), stage.want("high", "4x4x8", priority=5)
    )
    pods = tuple(builders.pod(f"p-{cube.id}", f"node-{cube.id}-00") for cube in CUBES)
    seen = on(slices=lows, pods=pods, wanted=wanted)
    victims = []
    for _ in range(cycles):
        found = engine.decide(seen)
        victims += [action.target for action in found.to_do if action.kind is Kind.DEFORM]
        seen = stage.carried_out(seen, found)  # the pods stay
    assert len(victims) == 1


def test_a_team_with_less_for_its_weight_goes_first():
    there = builders.slice_of("a-0", "4x4x4", "b1-c00")
    wanted = stage.spec(
        stage.want("a", "4x4x4", count=2, team="a"),
        stage.want("b", "4x4x4", team="b"),
        teams=(declared.Team(name="a", weight=1.0), declared.Team(name="b", weight=1.0)),
    )
    snapshot = builders.fleet_of(*stage.cubes(2), slices=(there,))
    assert stage.lines(engine.decide(stage.view(snapshot, wanted))) == ["form/b"]


def test_equal_times_do_not_make_the_order_of_the_lists_matter():
    """kueue #13914: ties of times that were broken by chance."""
    others = tuple(builders.slice_of(f"x-{number}", "4x4x4", cube.id) for number, cube in enumerate(CUBES))
    wanted = stage.spec(
        stage.want("else", "8x8x12"),
        prune_grace_s=0.0,
        budgets=declared.Budgets(disrupted_chips_per_hour=192),
    )
    _, found = stage.second_look(on(slices=others, wanted=wanted))
    _, turned = stage.second_look(on(slices=others[::-1], wanted=wanted))
    assert stage.lines(found) == ["deform/x-0", "deform/x-1", "deform/x-2"]
    assert found.actions == turned.actions


def test_a_state_of_the_reason_that_tomorrow_brings_is_neither_up_nor_gone():
    odd = TRAIN._replace(state=states.SliceState.UNKNOWN, reason="HIBERNATING", ready="False")
    _, found = stage.second_look(on(slices=(odd,), wanted=stage.spec(stage.want("train", "4x4x8"))))
    assert found.actions == ()
    unwanted = stage.spec(stage.want("else", "8x8x12"), prune_grace_s=0.0)
    _, pruned = stage.second_look(on(slices=(odd,), wanted=unwanted))
    assert stage.one(pruned, Kind.DEFORM).chips == 256  # it may run
