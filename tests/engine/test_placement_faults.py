"""What broke in other placement engines, and does not here; each test names the line of known faults."""

from __future__ import annotations

import dataclasses

import hypothesis
import pytest
from hypothesis import strategies as st

from tests import builders
from tpuctl.engine import changes, placement, swapping
from tpuctl.engine.inventory import stock
from tpuctl.engine.packing import plan, wishes
from tpuctl.model import errors, fleet, operations, states, topology

Obstacle = placement.Obstacle


def row(cubes: int) -> str:
    return f"4x4x{4 * cubes}"


def request(shape: str, **changes_: object) -> placement.Request:
    return placement.Request(topology=topology.parse(shape), **changes_)


def running(cubes: int, spare: int, *, elsewhere: int = 0) -> fleet.Fleet:
    """Slice `s` on so many cubes of block a, and free ones in a and b."""
    mine = [builders.cube(f"a{i:02}", "a") for i in range(cubes + spare)]
    others = [builders.cube(f"b{i:02}", "b") for i in range(elsewhere)]
    item = builders.slice_of("s", row(cubes), *(cube.id for cube in mine[:cubes]))
    return builders.fleet_of(*mine, *others, slices=(item,))


def test_degraded_is_a_choice_of_the_request() -> None:
    """Known fault 10: the default on DEGRADED flipped three times."""
    worn = builders.cube("c1", state=states.PartitionState.DEGRADED)
    refused = placement.place(builders.fleet_of(worn), request("4x4x4"))
    assert isinstance(refused, placement.Refusal)
    assert refused.candidates[0].obstacles == ((Obstacle.DEGRADED, 1),)
    allowed = placement.place(builders.fleet_of(worn), request("4x4x4", allow_degraded=True))
    assert isinstance(allowed, placement.Placement)


@pytest.mark.parametrize("chips", [0, -64])
def test_a_request_without_chips_is_no_request(chips: int) -> None:
    """Known fault 11: an empty value treated as a value."""
    with pytest.raises(errors.UsageError):
        wishes.most_cubic(chips)


CONSTRAINTS: dict[str, tuple[dict[str, object], placement.Obstacle]] = {
    "without": ({"without": ("c0",)}, Obstacle.NOT_ASKED),
    "cubes": ({"cubes": ("c1", "c2")}, Obstacle.NOT_ASKED),
    "spares": ({"keep_free": 1}, Obstacle.SPARE),
}


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_a_constraint_that_makes_it_infeasible_is_named(name: str) -> None:
    """Known fault 12: constraints added without a word, and taken back the next day."""
    snapshot = builders.fleet_of(*(builders.cube(f"c{i}") for i in range(3)))
    assert isinstance(placement.place(snapshot, request(row(3))), placement.Placement)
    more, obstacle = CONSTRAINTS[name]
    refused = placement.place(snapshot, request(row(3), **more))
    assert isinstance(refused, placement.Refusal)
    assert obstacle in dict(refused.candidates[0].obstacles)


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(
    st.lists(st.sampled_from(["HEALTHY", "HEALTHY", "DEGRADED", "UNHEALTHY"]), min_size=1, max_size=8),
    st.integers(1, 4),
    st.integers(0, 2),
    st.booleans(),
)
def test_every_piece_of_a_refusal_has_a_reason(
    kinds: list[str], cubes: int, keep_free: int, allow_degraded: bool
) -> None:
    """Known faults 12 and 14: what is not usable is counted, to the last cube."""
    snapshot = builders.fleet_of(
        *(builders.cube(f"c{i}", state=states.partition_state(kind)) for i, kind in enumerate(kinds))
    )
    found = placement.place(snapshot, request(row(cubes), keep_free=keep_free, allow_degraded=allow_degraded))
    for candidate in found.candidates:
        assert candidate.usable + sum(count for _, count in candidate.obstacles) == candidate.total


@pytest.mark.parametrize("chips", [20, 65, 96, 100, 9217])
def test_chips_that_no_shape_has_are_refused_and_not_rounded(chips: int) -> None:
    """Known fault 14: 5 VMs with a unit of 2 were admitted, and the rest waited for ever."""
    with pytest.raises(errors.UsageError) as raised:
        wishes.most_cubic(chips)
    assert "nearest" in (raised.value.hint or "")


def test_a_swap_without_a_spare_is_a_refusal_and_changes_nothing() -> None:
    """Known fault 16: an empty assignment read as success."""
    snapshot = changes.failed(running(2, 0), ["a00"])
    found = swapping.plan_swap(snapshot, snapshot.slices[0], swapping.Wish())
    assert isinstance(found, placement.Refusal)
    assert (found.needed, found.usable) == (1, 0)


def test_a_swap_stays_in_the_block_however_much_room_is_elsewhere() -> None:
    """Known fault 17: a replacement in the wrong domain."""
    snapshot = changes.failed(running(2, 0, elsewhere=5), ["a00"])
    assert isinstance(swapping.plan_swap(snapshot, snapshot.slices[0], swapping.Wish()), placement.Refusal)
    with_spare = changes.failed(running(2, 1, elsewhere=5), ["a00"])
    found = swapping.plan_swap(with_spare, with_spare.slices[0], swapping.Wish())
    assert isinstance(found, swapping.SwapPlan)
    assert found.exchanges == (operations.Exchange("a00", "a02"),)


def test_a_sub_slice_asked_for_in_a_cube_stays_in_that_cube() -> None:
    """Known fault 17, inside a cube."""
    full = builders.slice_of("s", "2x4x4", "c1.244.0")
    other = builders.slice_of("t", "2x4x4", "c1.244.1")
    snapshot = builders.fleet_of(builders.cube("c1"), builders.cube("c2"), slices=(full, other))
    assert isinstance(placement.place(snapshot, request("2x2x1", cubes=("c1",))), placement.Refusal)


def test_several_failures_are_one_plan() -> None:
    """Known fault 21: a second failure while the first was being handled evicted the whole job."""
    snapshot = changes.failed(running(16, 3), ["a03", "a07"])
    found = swapping.plan_swap(snapshot, snapshot.slices[0], swapping.Wish())
    assert isinstance(found, swapping.SwapPlan)
    assert [exchange.old for exchange in found.exchanges] == ["a03", "a07"]
    assert len({exchange.new for exchange in found.exchanges}) == 2


def test_a_place_that_failed_is_not_chosen_again() -> None:
    """Known fault 23: replacements sent back to the same bad place."""
    snapshot = changes.failed(running(2, 2), ["a00"])
    wish = swapping.Wish(without=("a02",))
    found = swapping.plan_swap(snapshot, snapshot.slices[0], wish)
    assert isinstance(found, swapping.SwapPlan)
    assert found.exchanges == (operations.Exchange("a00", "a03"),)


@pytest.mark.parametrize("what", ["uncordon", "release", "repair", "end"])
def test_whatever_makes_room_is_seen_with_the_next_snapshot(what: str) -> None:
    """Known fault 26: requests stayed pending after capacity had come back; the index is never stale."""
    closed = builders.changed(builders.cube("c1"), 0, schedulable=False)
    before = {
        "uncordon": builders.fleet_of(closed),
        "release": dataclasses.replace(
            builders.fleet_of(builders.cube("c1")), claims=(operations.Claim("c1", "hold by jo"),)
        ),
        "repair": changes.failed(builders.fleet_of(builders.cube("c1")), ["c1"]),
        "end": builders.fleet_of(builders.cube("c1"), slices=(builders.slice_of("s", "4x4x4", "c1"),)),
    }[what]
    assert isinstance(placement.place(before, request("4x4x4")), placement.Refusal)
    after = {
        "uncordon": lambda: changes.uncordoned(before, ["c1"]),
        "release": lambda: changes.without_claims(before, ["c1"]),
        "repair": lambda: changes.repaired(before, ["c1"]),
        "end": lambda: changes.without_slices(before, ["s"]),
    }[what]()
    assert isinstance(placement.place(after, request("4x4x4")), placement.Placement)


def test_a_cube_claimed_for_a_slice_is_kept_for_it() -> None:
    """Known fault 27: the repaired place was taken by a fresh job while the broken gang waited."""
    claims = (operations.Claim("c1", "operation swap of jo", "gang"),)
    snapshot = dataclasses.replace(builders.fleet_of(builders.cube("c1")), claims=claims)
    stranger = placement.place(snapshot, request("4x4x4", slice_name="fresh"))
    assert isinstance(stranger, placement.Refusal)
    assert stranger.candidates[0].claims == ("operation swap of jo",)
    assert isinstance(placement.place(snapshot, request("4x4x4", slice_name="gang")), placement.Placement)


@pytest.mark.parametrize("state", list(states.SliceState))
@pytest.mark.parametrize("deleting", [False, True])
def test_whoever_holds_a_partition_holds_it(state: states.SliceState, *, deleting: bool) -> None:
    """Known fault 5: the check looked at the slices of the same job only, and never saw the real holder."""
    holder = builders.slice_of("other", row(1), "c1", state=state, deleting=deleting)
    snapshot = builders.fleet_of(builders.cube("c1"), builders.cube("c2"), slices=(holder,))
    for shape in ("2x2x1", "4x4x4"):
        found = placement.place(snapshot, request(shape))
        assert isinstance(found, placement.Placement)
        assert found.cubes == ("c2",)
    refused = placement.place(snapshot, request(row(2)))
    assert isinstance(refused, placement.Refusal)
    assert refused.candidates[0].holders == (("other", 1),)


def test_what_an_operation_keeps_for_a_slice_is_no_conflict_with_itself() -> None:
    """Known fault 5: making the same slice again conflicted with itself."""
    claims = tuple(operations.Claim(f"c{i}", "operation swap of jo", "mine") for i in range(2))
    snapshot = dataclasses.replace(builders.fleet_of(builders.cube("c0"), builders.cube("c1")), claims=claims)
    found = placement.place(snapshot, request(row(2), slice_name="mine"))
    assert isinstance(found, placement.Placement)
    assert isinstance(placement.place(snapshot, request(row(2), slice_name="yours")), placement.Refusal)


def test_a_slice_of_one_cube_is_a_slice_of_whole_cubes() -> None:
    """Known fault 7: exactly one cube was taken for a job without a slice."""
    shared = builders.slice_of("s", "2x2x1", "c1.221.0")
    snapshot = builders.fleet_of(builders.cube("c1"), builders.cube("c2"), slices=(shared,))
    for found in (
        placement.place(snapshot, request("4x4x4")),
        *plan.pack(snapshot, [wishes.Wish(name="w", shapes=(topology.CUBE,))]).grants,
    ):
        assert not isinstance(found, placement.Refusal)
        assert (found.cubes, found.partition_ids) == (("c2",), ("c2",))
    assert (topology.CUBE.is_sub_slice, topology.CUBE.partitions) == (False, 1)


def test_what_is_used_is_counted_from_the_slices_there_are() -> None:
    """Known fault 24: what an owner had stayed taken for ever if it went while its block was out of sight."""
    held = builders.slice_of("s", row(2), "c0", "c1")
    cubes = [builders.cube(f"c{i}") for i in range(3)]
    seen = builders.fleet_of(*cubes, slices=(held,))
    blind = builders.fleet_of(slices=(held,))
    assert isinstance(placement.place(blind, request("4x4x4")), placement.Refusal)
    for after, free in ((seen, 1), (builders.fleet_of(*cubes), 3)):
        index = stock.Stock(after, stock.Terms())
        used = sum(index.hosts(slot).used for slot in index.slots[0])
        assert used == sum(item.topology.hosts for item in after.slices if item.topology is not None)
        assert index.free[0].bit_count() == free


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(st.permutations(range(6)), st.permutations(range(3)), st.sampled_from(["4x4x8", "2x2x1"]))
def test_the_order_of_the_lists_decides_nothing(cubes: list[int], slices: list[int], shape: str) -> None:
    """Known fault 33: ties were broken by what came first in a list."""
    running = [builders.slice_of(f"s{i}", "2x4x4", f"c{i}.244.{i % 2}") for i in range(3)]
    known = [builders.cube(f"c{i}", f"b{i % 2}") for i in range(6)]
    sorted_ = builders.fleet_of(*known, slices=tuple(running))
    shuffled = builders.fleet_of(*(known[i] for i in cubes), slices=tuple(running[i] for i in slices))
    assert placement.place(shuffled, request(shape)) == placement.place(sorted_, request(shape))
