"""Why a request waits: what is told must be so."""

from __future__ import annotations

import dataclasses

import pytest

from tests import builders
from tpuctl.engine import placement
from tpuctl.engine.packing import plan, wishes
from tpuctl.model import fleet, operations, topology

SPARED = "fits only into what is kept free as a spare"


def wish(name: str, shape: str, **changes: object) -> wishes.Wish:
    return wishes.Wish(name=name, shapes=(topology.parse(shape),), **changes)


def one_free_cube() -> fleet.Fleet:
    cubes = (builders.cube("c1", "b1"), builders.cube("c2", "b1"))
    return builders.fleet_of(*cubes, slices=(builders.slice_of("old", "4x4x4", "c2"),))


def why(snapshot: fleet.Fleet, asked: list[wishes.Wish], **changes: int) -> str:
    [left] = plan.pack(snapshot, asked, plan.Settings(mode=plan.Mode.FAST, **changes)).left
    return left.why


@pytest.mark.parametrize("by", ["settings", "claim"])
def test_what_would_fit_into_a_spare_is_told_so(by: str) -> None:
    snapshot = one_free_cube()
    changes = {"spares": 1, "spares_below": 1}
    if by == "claim":
        # As the loop keeps its spares.
        claim = operations.Claim("c1", str(placement.Obstacle.SPARE))
        snapshot, changes = dataclasses.replace(snapshot, claims=(claim,)), {}
    assert why(snapshot, [wish("a", "2x2x4")], **changes) == f"2x2x4 {SPARED}"
    assert why(snapshot, [wish("a", "4x4x4")], **changes) == (
        f"4x4x4 does not fit now: 1 cube of one block needed, 0 usable; it {SPARED}"
    )
    gang = [wish("a", "2x2x4", gang="g"), wish("b", "2x2x2", gang="g")]
    assert SPARED in why(snapshot, gang, **changes)


def test_nothing_is_told_of_spares_where_they_would_not_help() -> None:
    held = operations.Claim("c1", "hold by jo: burn-in")
    snapshot = dataclasses.replace(one_free_cube(), claims=(held,))
    assert why(snapshot, [wish("a", "2x2x4")]) == "no partition 2x2x4 is left"
    assert why(one_free_cube(), [wish("a", "4x4x8")], spares=1, spares_below=1) == (
        "4x4x8 does not fit now: 2 cubes of one block needed, 0 usable"
    )


def test_asking_changes_nothing() -> None:
    snapshot = dataclasses.replace(
        one_free_cube(), claims=(operations.Claim("c1", str(placement.Obstacle.SPARE)),)
    )
    found = plan.pack(snapshot, [wish("a", "2x2x4"), wish("b", "4x4x4")], plan.Settings(mode=plan.Mode.FAST))
    assert found.grants == ()
    assert [left.unit.first.name for left in found.left] == ["a", "b"]


def test_never_is_said_of_the_shapes_of_which_it_is_true() -> None:
    """A request with fallbacks waits for the largest of them that could ever fit."""
    asked = dataclasses.replace(
        wish("a", "4x4x12"), shapes=tuple(map(topology.parse, ("4x4x12", "4x4x8", "4x4x4")))
    )
    assert why(one_free_cube(), [asked], spares=1, spares_below=1) == (
        f"4x4x8 does not fit now: 2 cubes of one block needed, 0 usable; it {SPARED}; 4x4x12 never fits"
    )
    hopeless = dataclasses.replace(
        wish("a", "4x8x8"), shapes=(topology.parse("4x8x8"), topology.parse("4x4x12"))
    )
    assert why(one_free_cube(), [hopeless]) == (
        "4x8x8 and 4x4x12 never fit: 3 cubes of one block needed, 1 usable"
    )
