"""What keeps a cube is told in words of its own, and only what is known to free it is suggested."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import builders
from tpuctl.engine import advice, leftovers, mending, placement, tenancy
from tpuctl.model import fleet, operations, topology

Obstacle = placement.Obstacle
Keeper = operations.Keeper
ROW = topology.parse("4x4x12")
HOLD = "hold by jo: burn-in"
REBOOT = "repair r-1: host h is rebooted"
PODS = "16 pods of default/Job/work still run"


def operation(kind: operations.Kind) -> str:
    return operations.words_of_operation(f"{kind}-train", "jo@laptop:1")


def kept(*claims: operations.Claim) -> fleet.Fleet:
    """Three cubes, with these claims on them."""
    cubes = (builders.cube(f"c{number}") for number in range(3))
    return dataclasses.replace(builders.fleet_of(*cubes), claims=claims)


def ways(snapshot: fleet.Fleet) -> list[list[tuple[mending.Act, str]]]:
    question = advice.Question(request=placement.Request(topology=ROW), tenants=tenancy.Tenants())
    found = advice.advise(snapshot, question)
    assert isinstance(found, advice.Advice)
    return [[(action.act, action.target) for action in way.actions] for way in found.ways]


def obstacle(snapshot: fleet.Fleet) -> Obstacle:
    found = placement.place(snapshot, placement.Request(topology=ROW))
    assert isinstance(found, placement.Refusal)
    [(reason, count)] = found.candidates[0].obstacles
    assert count == 1
    return reason


@pytest.mark.parametrize(
    ("holder", "keeper", "name"),
    [
        (HOLD, Keeper.HOLD, "jo"),
        ("hold by system:serviceaccount:ml:ci: upgrade", Keeper.HOLD, "system:serviceaccount:ml:ci"),
        ("operation swap-train of jo@laptop:1", Keeper.OPERATION, "swap-train"),
        (REBOOT, Keeper.REBOOT, "r-1"),
        (PODS, Keeper.PODS, "default/Job/work"),
        ("1 pod of default/Pod/one still runs", Keeper.PODS, "default/Pod/one"),
        ("repair of tpuctl is open or has just ended", Keeper.HOLD, ""),
        ("kept as a spare", Keeper.HOLD, ""),
    ],
)
def test_the_words_of_a_claim_tell_what_keeps_the_cube(holder: str, keeper: Keeper, name: str) -> None:
    assert operations.kept_by(holder) == (keeper, name)


NAMES = st.text(
    alphabet=st.characters(whitelist_categories=("L", "N"), whitelist_characters="-._:@"), min_size=1
)


@given(NAMES, st.text(), st.integers(min_value=1))
def test_whatever_words_are_written_are_read_again(name: str, rest: str, count: int) -> None:
    written = {
        operations.words_of_hold(name, rest): (Keeper.HOLD, name),
        operations.words_of_operation(name, rest): (Keeper.OPERATION, name),
        operations.words_of_reboot(name, rest): (Keeper.REBOOT, name),
        operations.words_of_pods(count, f"{name}/Job/{name}"): (Keeper.PODS, f"{name}/Job/{name}"),
    }
    assert {words: operations.kept_by(words) for words in written} == written


@pytest.mark.parametrize(
    ("holders", "reason"),
    [
        ((HOLD,), Obstacle.HELD),
        ((operation(operations.Kind.SWAP),), Obstacle.OPERATION),
        ((REBOOT,), Obstacle.REBOOT),
        ((PODS,), Obstacle.PODS),
        ((HOLD, operation(operations.Kind.SWAP)), Obstacle.OPERATION),
        ((PODS, HOLD), Obstacle.HELD),
    ],
)
def test_each_kind_of_claim_is_counted_by_its_own_name(holders: tuple[str, ...], reason: Obstacle) -> None:
    assert obstacle(kept(*(operations.Claim("c1", holder) for holder in holders))) is reason


@pytest.mark.parametrize(
    ("holders", "actions"),
    [
        ((HOLD,), [(mending.Act.RELEASE, "c1")]),
        ((operation(operations.Kind.DEFORM),), [(mending.Act.FINISH, "deform-train")]),
        ((PODS,), [(mending.Act.END_PODS, "default/Job/work")]),
        (
            (operation(operations.Kind.DEFORM), PODS),
            [(mending.Act.FINISH, "deform-train"), (mending.Act.END_PODS, "default/Job/work")],
        ),
        # What these leave of the cube is not known before they have ended.
        ((operation(operations.Kind.SWAP),), None),
        ((operation(operations.Kind.FORM),), None),
        ((REBOOT,), None),
        ((HOLD, operation(operations.Kind.SWAP)), None),
    ],
)
def test_only_what_is_known_to_free_a_cube_is_suggested(
    holders: tuple[str, ...], actions: list[tuple[mending.Act, str]] | None
) -> None:
    found = ways(kept(*(operations.Claim("c1", holder) for holder in holders)))
    assert found == ([actions] if actions else [])


def test_one_operation_that_keeps_many_cubes_is_finished_once() -> None:
    holder = operation(operations.Kind.DEFORM)
    claims = (operations.Claim(f"c{number}", holder, "train") for number in range(3))
    assert ways(kept(*claims)) == [[(mending.Act.FINISH, "deform-train")]]


def test_a_broken_cube_that_is_held_is_left_to_its_holder() -> None:
    cubes = (builders.cube("c0"), builders.cube("c1", hosts=15), builders.cube("c2"))
    snapshot = dataclasses.replace(builders.fleet_of(*cubes), claims=(operations.Claim("c1", HOLD),))
    assert ways(snapshot) == []


@pytest.mark.parametrize(
    ("kind", "keepers"),
    [
        (operations.Kind.SWAP, {Keeper.OPERATION}),
        (operations.Kind.DEFORM, {Keeper.OPERATION, Keeper.PODS}),
    ],
)
def test_pods_that_a_swap_keeps_are_no_leftovers(kind: operations.Kind, keepers: set[Keeper]) -> None:
    pod = fleet.Pod("default", "work-0", "u1", "node-c1-00", "Running", 4, "Job/work")
    snapshot = kept(operations.Claim("c1", operation(kind), "train")).amended(pods=(pod,))
    found = leftovers.with_leftovers(snapshot)
    assert {operations.kept_by(claim.holder).keeper for claim in found.claims} == keepers
