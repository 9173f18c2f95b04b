"""Sub-slices that keep whole cubes from others."""

import dataclasses

import pytest

from tests import builders
from tests.engine.reconciling import stage
from tpuctl.engine import reconciling as engine
from tpuctl.model import declared, fleet, reconciling

Kind = reconciling.ActionKind
SETTLED_S = 900.0
APART = (
    builders.slice_of("s-0", "2x2x2", "b1-c00.222.0"),
    builders.slice_of("s-1", "2x2x2", "b1-c01.222.3"),
)
ON_EACH = (builders.pod("p", "node-b1-c00-00"), builders.pod("q", "node-b1-c01-07"))


def spares(count):
    return (declared.BlockSpec(name="b1", spares=count),)


def on(cubes, *entries, slices=APART, pods=(), blocks=(), **more):
    wanted = stage.spec(stage.want("s", "2x2x2", count=2), *entries, blocks=blocks)
    made = builders.fleet_of(*cubes, slices=slices, pods=pods)
    snapshot = made.with_blocks(tuple(dataclasses.replace(block, name=block.id) for block in made.blocks))
    return stage.view(snapshot, dataclasses.replace(wanted, **more))


def test_one_moves_beside_the_other_if_spares_are_missing():
    seen = on(stage.cubes(3), blocks=spares(2))
    first = engine.decide(seen)
    assert first.actions == ()
    assert engine.decide(stage.later(seen, first, SETTLED_S - 1)).actions == ()
    settled = stage.later(seen, first, SETTLED_S)
    found = engine.decide(settled)
    action = stage.one(found, Kind.MOVE)
    assert (action.target, action.forming[0].partition_ids) == ("s-0", ("b1-c01.222.2",))
    assert (action.voluntary, action.chips, action.slices, action.pods_restarted) == (False, 8, ("s-0",), 0)
    assert action.reason == (
        "moved beside others, so that cube b1-c00 is whole: block b1 has 1 of 2 spares; no pod is on it"
    )
    assert engine.decide(stage.carried_out(settled, found)).actions == ()


def test_a_slice_that_is_active_counts_in_the_budget_whether_or_not_pods_run_on_it():
    """The next job may be about to start there, and 0 means none."""
    seen = on(stage.cubes(3), blocks=spares(2), budgets=declared.Budgets(disrupted_chips_per_hour=7))
    _, found = stage.second_look(seen, SETTLED_S)
    assert found.to_do == ()
    [action] = found.actions
    assert "disruption budget: it interrupts 8 chips" in action.stopped_by


def test_not_if_nothing_is_missing():
    assert stage.second_look(on(stage.cubes(4), blocks=spares(2)), SETTLED_S)[1].actions == ()
    assert stage.second_look(on(stage.cubes(2)), SETTLED_S)[1].actions == ()


def test_for_a_slice_that_is_down_without_a_spare_it_is_not_put_off():
    train = stage.failed(builders.slice_of("train", "4x4x8", "b1-c02", "b1-c03"))
    cubes = [*stage.cubes(3), stage.sick(stage.cubes(1, first=3)[0])]
    seen = on(cubes, stage.want("train", "4x4x8"), slices=(*APART, train))
    again, found = stage.second_look(seen)
    assert stage.lines(found) == ["move/s-0"]
    assert "train lacks a cube" in found.to_do[0].reason
    assert stage.lines(engine.decide(stage.carried_out(again, found))) == ["swap/train"]


def test_for_a_slice_that_lacks_one_cube():
    seen = on(stage.cubes(3), stage.want("new", "4x4x8", priority=5))
    again, found = stage.second_look(seen)
    assert stage.lines(found) == ["move/s-0"]
    assert "new (4x4x8) lacks a cube" in found.to_do[0].reason
    assert stage.lines(engine.decide(stage.carried_out(again, found))) == ["form/new"]
    too_large = on(stage.cubes(3), stage.want("new", "4x8x8", priority=5))
    assert stage.second_look(too_large, SETTLED_S)[1].actions == ()


def test_with_pods_it_is_voluntary_and_has_to_pay():
    seen = on(stage.cubes(3), blocks=spares(2), pods=ON_EACH)
    _, found = stage.second_look(seen, SETTLED_S)
    action = stage.one(found, Kind.MOVE)
    assert (action.voluntary, action.chips, action.slices, action.pods_restarted) == (True, 8, ("s-0",), 1)
    assert (action.gain_chip_h, action.cost_chip_h) == (64 * 24.0, 8 * 0.5)
    never = declared.Window(name="w", days=(), start_minute=0, length_s=60.0)
    closed = on(stage.cubes(3), blocks=spares(2), pods=ON_EACH, windows=(never,))
    assert stage.one(stage.second_look(closed, SETTLED_S)[1], Kind.MOVE).stopped_by.startswith("window: ")
    poor = on(
        stage.cubes(3),
        blocks=spares(2),
        pods=ON_EACH,
        consolidation=declared.Consolidation(horizon_s=60.0, move_cost_s=86_400.0),
    )
    assert stage.second_look(poor, SETTLED_S)[1].actions == ()


def test_the_one_without_pods_goes_first_only_if_it_is_no_larger():
    larger = builders.slice_of("s-0", "2x2x4", "b1-c00.224.0")
    seen = on(stage.cubes(3), blocks=spares(2), slices=(larger, APART[1]))
    wanted = dataclasses.replace(seen.spec, slices=(stage.want("s-0", "2x2x4"), stage.want("s-1", "2x2x2")))
    _, found = stage.second_look(dataclasses.replace(seen, spec=wanted), SETTLED_S)
    assert stage.lines(found) == ["move/s-1"]


def test_into_what_is_left_of_a_broken_cube_with_all_that_share_theirs():
    """A cube that lacks a host is none anyway; so the whole one becomes a spare."""
    together = (APART[0], builders.slice_of("s-1", "2x2x2", "b1-c00.222.1"))
    cubes = [*stage.cubes(1), builders.cube("b1-c01", hosts=13)]
    again, found = stage.second_look(on(cubes, blocks=spares(1), slices=together), SETTLED_S)
    assert stage.lines(found) == ["move/s-0", "move/s-1"]
    parts = {action.forming[0].partition_ids[0] for action in found.to_do}
    assert len(parts) == 2
    assert all(part.startswith("b1-c01.222.") for part in parts)
    assert engine.decide(stage.carried_out(again, found)).actions == ()


@pytest.mark.parametrize(
    "other",
    [
        builders.slice_of("x", "2x2x1", "b1-c00.221.15", owner=fleet.Owner("kueue", "Workload", "d", "w")),
        builders.slice_of("x", "2x2x1", "b1-c00.221.15"),
    ],
)
def test_not_if_somebody_else_keeps_the_cube_as_well(other):
    """Moving it would free nothing; the other one goes where the stranger is."""
    seen = on(stage.cubes(3), blocks=spares(2), slices=(*APART, other))
    seen = dataclasses.replace(seen, memory=stage.memory(*APART))
    _, found = stage.second_look(seen, SETTLED_S)
    [action] = found.to_do
    assert (action.target, action.forming[0].partition_ids[0][:6]) == ("s-1", "b1-c00")


def test_not_before_its_minimum_run_and_not_what_is_down():
    seen = on(stage.cubes(3), blocks=spares(2))
    held = dataclasses.replace(
        seen.spec, slices=(stage.want("s", "2x2x2", count=2, min_run_s=10 * 86_400.0),)
    )
    assert stage.second_look(dataclasses.replace(seen, spec=held), SETTLED_S)[1].actions == ()
    off = dataclasses.replace(seen.spec, consolidation=declared.Consolidation(enabled=False))
    assert stage.second_look(dataclasses.replace(seen, spec=off), SETTLED_S)[1].actions == ()
