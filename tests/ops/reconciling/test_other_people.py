"""The loop beside people: their slices stay theirs, and work that starts meanwhile is not run over."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from tests import workloads
from tests.ops.conftest import Killed, Recorder
from tests.ops.reconciling.conftest import World, spec_of, wanted, world_of
from tpuctl.model import reconciling, topology
from tpuctl.ops import forming, locking, swapping
from tpuctl.ops.reconciling import acting, memory, outcomes

if TYPE_CHECKING:
    from collections.abc import Callable

    from tpuctl.cli.rehearsal import Rehearsal
    from tpuctl.ops.reconciling import desk as desks

Kind, Became = reconciling.ActionKind, outcomes.Became


def die(*_: object, **__: object) -> None:
    raise Killed


def swap_half(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    forming.form(world.ports, world.reporter, "mine", forming.request(topology.parse("4x4x8")))
    wish = swapping.Wish(cubes=(world.slice("mine").partition_ids[0],))
    shown = swapping.prepare(world.ports, "mine", wish)
    assert shown is not None
    monkeypatch.setattr(locking.Lock, "release", lambda _lock: None)
    monkeypatch.setattr(type(world.ports.slices), "create", die)
    swapping.swap(world.ports, world.reporter, shown, wish)


def form_half(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locking.Lock, "release", lambda _lock: None)
    monkeypatch.setattr(forming, "finish", die)
    forming.form(world.ports, world.reporter, "mine", forming.request(topology.parse("4x4x8")))


@pytest.mark.parametrize("half", [swap_half, form_half])
def test_a_slice_whose_operation_is_finished_for_a_person_stays_theirs(
    scene: Rehearsal,
    reporter: Recorder,
    monkeypatch: pytest.MonkeyPatch,
    half: Callable[[World, pytest.MonkeyPatch], None],
) -> None:
    world = world_of(scene, reporter, wanted("train", "4x4x4"))
    world.converge()
    with monkeypatch.context() as killing, pytest.raises(Killed):
        half(world, killing)
    world.advance(locking.DURATION_S + 1)
    world.cycles(30, every_s=60.0)
    done = [result.action.kind for outcome in world.outcomes for result in outcome.results]
    assert Kind.FINISH in done
    assert Kind.DEFORM not in done
    assert world.states() == {"train": "ACTIVE", "mine": "ACTIVE"}
    assert [entry.name for entry in memory.peek(world.ports).memory.formed] == ["train"]


def test_work_that_starts_between_decision_and_act_is_not_run_over(
    scene: Rehearsal, reporter: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Swaps come first in a cycle and take minutes; what was empty when it was decided need not be then."""
    world = world_of(scene, reporter, wanted("train", "4x4x8"), wanted("keep", "4x4x4"))
    world.converge()
    world.wants(dataclasses.replace(spec_of(scene, wanted("keep", "4x4x4")), prune_grace_s=0.0))
    deform = acting._ONE_BY_ONE[Kind.DEFORM]

    def late(desk: desks.Desk, action: reconciling.Action) -> tuple[outcomes.Became, str]:
        scene.submit(workloads.JOBS, workloads.job("work", "train", 32))
        world.advance(40)
        return deform(desk, action)

    monkeypatch.setitem(acting._ONE_BY_ONE, Kind.DEFORM, late)
    for _ in range(10):
        world.advance(30)
        found = world.cycle()
        if found.results:
            break
    [result] = found.results
    assert (result.action.id, result.became) == ("deform/train", Became.STOPPED)
    assert "32 pods run there by now, 0 when it was decided" in result.why
    assert world.states()["train"] == "ACTIVE"
