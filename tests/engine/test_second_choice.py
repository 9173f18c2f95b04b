"""Going on with a swap: slices of others are left alone, and the second choice is as strict as the first."""

from __future__ import annotations

import dataclasses

import pytest

from tests import builders
from tests.engine.reconciling import stage
from tpuctl.engine import second_choice, swapping
from tpuctl.model import fleet, health, operations, states

Intent, Step = operations.Intent, swapping.StepName
KUEUE = fleet.Owner("kueue", "Workload", "ml", "train")
OLD = ("b1-0", "b1-1")
FAULTY = fleet.NodeCondition("TpuFault", "True", "", "", builders.NOW)
STRICT = health.HealthPolicy(conditions=(*health.CONDITIONS, ("TpuFault", states.Verdict.UNHEALTHY)))


def operation(**changes: object) -> operations.Operation:
    """A swap of b1-1 for b1-2 whose slice is deleted."""
    begun = operations.Operation(
        schema=operations.SCHEMA,
        id="swap-train",
        kind=operations.Kind.SWAP,
        slice_name="train",
        topology=builders.slice_of("train", "4x4x8", *OLD).topology,
        actor="jo",
        started_at=builders.NOW,
        intent=Intent.CREATING,
        old_uid="uid-before",
        old_partitions=OLD,
        partitions=("b1-0", "b1-2"),
        exchanges=(operations.Exchange("b1-1", "b1-2"),),
    )
    return dataclasses.replace(begun, **changes)


def forming(**changes: object) -> operations.Operation:
    return operation(kind=operations.Kind.FORM, old_uid="", old_partitions=(), exchanges=(), **changes)


def world(
    *partitions: str, owner: fleet.Owner | None = KUEUE, cordoned: tuple[str, ...] = ()
) -> swapping.World:
    item = builders.slice_of("train", "4x4x8", *partitions, uid="uid-after", owner=owner)
    return swapping.World(item, 32, cordoned, frozenset(), frozenset(cordoned))


@pytest.mark.parametrize("owner", [KUEUE, fleet.BY_HAND])
@pytest.mark.parametrize("partitions", [OLD, ("b1-0", "b1-2"), ("b1-0", "b1-3")])
@pytest.mark.parametrize("begun", [operation(), operation(intent=Intent.DELETING), forming()])
def test_a_slice_that_somebody_made_meanwhile_stops_it(
    begun: operations.Operation, partitions: tuple[str, ...], owner: fleet.Owner
) -> None:
    step = swapping.next_step(begun, world(*partitions, owner=owner))
    assert step.name is Step.STOP
    assert f"by {owner}" in step.why


@pytest.mark.parametrize("partitions", [OLD, ("b1-0", "b1-2"), ("b1-0", "b1-3")])
@pytest.mark.parametrize(
    "begun", [second_choice.way_back(operation()), forming(aborting=True)], ids=["swap", "form"]
)
def test_the_way_back_ends_beside_it(begun: operations.Operation, partitions: tuple[str, ...]) -> None:
    assert swapping.next_step(begun, world(*partitions)).name is Step.CLOSE


def test_the_way_back_takes_its_own_cordons_away_first() -> None:
    begun = second_choice.way_back(operation(cordons=("h1",)))
    assert swapping.next_step(begun, world(*OLD, cordoned=("h1",))).name is Step.UNCORDON


def test_no_pods_are_restarted_for_it() -> None:
    pod = operations.PodRef("ml", "work-0", "uid-pod", "h1", replaced=True)
    begun = operation(intent=Intent.RESTARTING, pods=(pod,))
    lives = world("b1-0", "b1-2")._replace(live_pods=frozenset({"uid-pod"}))
    assert swapping.next_step(begun, lives).name is Step.CLOSE
    ours = world("b1-0", "b1-2", owner=None)._replace(live_pods=frozenset({"uid-pod"}))
    assert swapping.next_step(begun, ours).name is Step.RESTART_PODS


def test_an_attempt_of_ours_on_other_cubes_is_still_taken_away() -> None:
    assert (
        swapping.next_step(operation(tried=("b1-3",)), world("b1-0", "b1-3", owner=None)).name is Step.DELETE
    )


def test_the_second_choice_follows_the_health_policy_as_the_first_does() -> None:
    faulty = builders.changed(builders.cube("b1-3"), 3, conditions=(FAULTY,))
    cubes = [builders.cube("b1-0"), stage.sick(builders.cube("b1-1")), builders.cube("b1-2"), faulty]
    seen = builders.fleet_of(*cubes, builders.cube("b1-4"))
    found = second_choice.another_try(seen, operation(), STRICT)
    assert found is not None
    assert found.exchanges == (operations.Exchange("b1-1", "b1-4"),)
    mild = second_choice.another_try(seen, operation(), health.DEFAULT_POLICY)
    assert mild is not None
    assert mild.exchanges == (operations.Exchange("b1-1", "b1-3"),)
    assert not second_choice.can_form(seen, operation(), ("b1-0", "b1-3"), STRICT)
    assert second_choice.can_form(seen, operation(), ("b1-0", "b1-3"), health.DEFAULT_POLICY)


def test_a_cube_whose_nodes_may_have_lost_their_labels_is_not_exchanged_again() -> None:
    """Unknown is no reason to act: only cubes that came are tried again."""
    others = [builders.cube(name) for name in ("b1-2", "b1-4")]
    seen = builders.fleet_of(*others)
    gone = second_choice.another_try(seen, operation(), health.DEFAULT_POLICY)
    assert gone is not None
    assert operations.Exchange("b1-0", "b1-4") in gone.exchanges
    stray = dataclasses.replace(seen, strays=(builders.stray(builders.cube("b1-0").hosts[0]),))
    found = second_choice.another_try(stray, operation(), health.DEFAULT_POLICY)
    assert found is not None
    assert found.exchanges == (operations.Exchange("b1-1", "b1-4"),)
