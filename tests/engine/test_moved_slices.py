"""A slice that makes room goes only where it could be formed by itself."""

from __future__ import annotations

import dataclasses

from tests import builders
from tpuctl.engine import advice, changes, defrag, placement, swapping, tenancy
from tpuctl.model import fleet, operations, topology

Act = advice.Act
TWO_CUBES = placement.Request(topology=topology.parse("4x4x8"))
NOT_TOLD = tenancy.Tenants()
CONTENT = tenancy.Tenants({"run": tenancy.Tenancy(allow_degraded=True)})


def world(*cubes: str, on: str = "b1-0", shape: str = "4x4x4") -> fleet.Fleet:
    """Cubes as `b1-0`, or `b1-0 worn`; the slice `run` is on the one that is named."""
    made = []
    for text in cubes:
        cube_id, _, kind = text.partition(" ")
        made.append(builders.cube_of(cube_id, cube_id.split("-")[0], kind))
    return builders.fleet_of(*made, slices=(builders.slice_of("run", shape, on),))


def held(snapshot: fleet.Fleet, cube_id: str) -> fleet.Fleet:
    return dataclasses.replace(snapshot, claims=(operations.Claim(cube_id, "hold by jo: burn-in"),))


def moved_to(
    snapshot: fleet.Fleet,
    request: placement.Request,
    tenants: tenancy.Tenants = NOT_TOLD,
    spares: defrag.Spares | None = None,
) -> tuple[str, ...] | None:
    """Where `run` goes, None if no move helps; after the move the request fits as promised."""
    found = defrag.plan(snapshot, request, tenants, spares=spares)
    if isinstance(found, defrag.Hopeless):
        return None
    assert isinstance(found, defrag.Plan)
    [move] = found.moves
    after = changes.moved(snapshot, move.slice_name, move.new_partitions)
    assert placement.place(after, found.request) == found.placement
    return move.new_partitions


def ways(
    snapshot: fleet.Fleet, tenants: tenancy.Tenants = NOT_TOLD
) -> list[tuple[tuple[Act, str, tuple[str, ...]], ...]]:
    found = advice.advise(snapshot, advice.Question(request=TWO_CUBES, tenants=tenants))
    assert isinstance(found, advice.Advice)
    return [
        tuple((action.act, action.target, action.partition_ids) for action in way.actions)
        for way in found.ways
    ]


# -- by what it tolerates itself -------------------------------------------------------------------------


def test_a_request_that_is_content_with_degraded_cubes_moves_nobody_onto_them_who_is_not() -> None:
    content = dataclasses.replace(TWO_CUBES, allow_degraded=True)
    snapshot = world("b1-0", "b1-1", "b2-0 worn")
    assert moved_to(snapshot, content) is None
    assert moved_to(snapshot, content, CONTENT) == ("b2-0",)
    assert moved_to(world("b1-0", "b1-1", "b2-0 worn", "b3-0"), content) == ("b3-0",)


def test_who_does_not_mind_a_degraded_cube_makes_room_for_one_who_does() -> None:
    snapshot = world("b1-0", "b1-1", "b2-0 worn")
    assert moved_to(snapshot, TWO_CUBES) is None
    assert moved_to(snapshot, TWO_CUBES, CONTENT) == ("b2-0",)


# -- beside the spares -----------------------------------------------------------------------------------


def test_a_move_takes_no_spare_of_the_request() -> None:
    """In the same block it would: two cubes and a spare need all three, and the slice still has one."""
    one_spare = dataclasses.replace(TWO_CUBES, block="b1", keep_free=1)
    three = ("b1-0", "b1-1", "b1-2")
    assert moved_to(world(*three), one_spare) is None
    assert moved_to(world(*three, "b2-0"), one_spare) is None
    assert moved_to(world(*three, "b2-0", "b2-1"), one_spare) == ("b2-0",)


def test_a_sub_slice_breaks_into_no_spare_either() -> None:
    def part(*cubes: str) -> fleet.Fleet:
        return world("b1-0", "b1-1", *cubes, on="b1-0.221.0", shape="2x2x1")

    one_spare = placement.Request(topology=topology.parse("4x4x4"), block="b1", keep_free=1)
    assert moved_to(part("b2-0"), one_spare) is None
    assert moved_to(part("b2-0", "b2-1"), one_spare) == ("b2-0.221.0",)
    assert moved_to(part("b2-0", "b2-1 worn"), one_spare) == ("b2-1.221.0",)


def test_every_block_has_spares_of_its_own() -> None:
    """By the priority of who goes there: the request may use them, the slice that it moves may not."""
    kept = {"b1": 0, "b2": 1, "b3": 0}

    def spares(block_id: str, priority: int | None) -> int:
        return 0 if (priority or 0) >= 3 else kept[block_id]

    urgent = dataclasses.replace(TWO_CUBES, block="b1", priority=5)
    assert moved_to(world("b1-0", "b1-1", "b2-0"), urgent, spares=spares) is None
    assert moved_to(world("b1-0", "b1-1", "b2-0", "b3-0"), urgent, spares=spares) == ("b3-0",)
    # The tightest beside its spares: b2 has more free than b3, and fewer that it may have.
    room = ("b1-0", "b1-1", "b2-0", "b2-1", "b2-2", "b3-0", "b3-1", "b3-2")
    assert moved_to(world(*room), urgent, spares=spares) == ("b2-0",)
    as_urgent = tenancy.Tenants({"run": tenancy.Tenancy(priority=4)})
    assert moved_to(world("b1-0", "b1-1", "b2-0"), urgent, as_urgent, spares) == ("b2-0",)


def test_what_fits_beside_the_spares_of_one_block_needs_no_moves() -> None:
    def spares(block_id: str, _: int | None) -> int:
        return 2 if block_id == "b1" else 0

    found = defrag.plan(world("b1-0", "b1-1", "b2-0", "b2-1"), TWO_CUBES, NOT_TOLD, spares=spares)
    assert isinstance(found, placement.Placement)
    assert found.cubes == ("b2-0", "b2-1")
    hopeless = defrag.plan(world("b1-0", "b1-1", "b2-0"), TWO_CUBES, NOT_TOLD, spares=spares)
    assert isinstance(hopeless, defrag.Hopeless)
    assert [(one.block, one.usable) for one in hopeless.refusal.candidates] == [("b1", 0), ("b2", 1)]


# -- in combined ways ------------------------------------------------------------------------------------


def test_where_it_goes_is_mended_too() -> None:
    opened, move = (Act.UNCORDON, "b1-1", ()), (Act.MOVE, "run", ("b2-0",))
    sick = world("b1-0", "b1-1 cordoned", "b2-0 sick")
    assert ways(sick) == [(opened, (Act.REPAIR, "b2-0", ()), move)]
    kept = held(world("b1-0", "b1-1 cordoned", "b2-0"), "b2-0")
    assert ways(kept) == [(opened, (Act.RELEASE, "b2-0", ()), move)]
    assert ways(world("b1-0", "b1-1 cordoned", "b2-0")) == [(opened, move)]


def test_nothing_is_repaired_where_there_is_another_place() -> None:
    snapshot = world("b1-0", "b1-1 cordoned", "b2-0 sick", "b3-0")
    assert ways(snapshot) == [((Act.UNCORDON, "b1-1", ()), (Act.MOVE, "run", ("b3-0",)))]


def test_a_repair_for_the_moved_slice_is_waited_for() -> None:
    found = advice.advise(
        world("b1-0", "b1-1 cordoned", "b2-0 sick"), advice.Question(request=TWO_CUBES, tenants=NOT_TOLD)
    )
    assert isinstance(found, advice.Advice)
    [way] = found.ways
    # 64 chips lose half an hour, and 128 wait three days.
    assert (way.delay_h, way.cost_chip_h) == (72.0, 32.0 + 128 * 72.0)


# -- swaps -----------------------------------------------------------------------------------------------


def test_a_swap_is_named_only_if_it_can_be_made() -> None:
    def swaps(snapshot: fleet.Fleet) -> list[tuple[str, ...]]:
        found = [action for way in ways(snapshot, CONTENT) for action in way if action[0] is Act.SWAP]
        return [partition_ids for _, _, partition_ids in found]

    worn = world("b1-0", "b1-1", "b1-2 worn")
    assert swaps(worn) == [("b1-2",)]
    closed = cordoned(worn, "b1-2")
    assert swaps(closed) == []
    wish = swapping.Wish(bad=("b1-0",), replacements=("b1-2",), allow_degraded=True)
    assert isinstance(swapping.plan_swap(worn, worn.slices[0], wish), swapping.SwapPlan)
    assert isinstance(swapping.plan_swap(closed, closed.slices[0], wish), placement.Refusal)


def test_a_worn_cube_that_is_closed_does_not_hide_one_that_is_open() -> None:
    snapshot = cordoned(world("b1-0", "b1-1", "b1-2 worn", "b1-3 worn"), "b1-2")
    assert ((Act.SWAP, "run", ("b1-3",)),) in ways(snapshot, CONTENT)


def cordoned(snapshot: fleet.Fleet, cube_id: str) -> fleet.Fleet:
    """With one host of a cube cordoned."""
    cubes = [
        builders.changed(cube, 3, schedulable=False) if cube.id == cube_id else cube
        for cube in snapshot.cubes
    ]
    return builders.fleet_of(*cubes, slices=snapshot.slices)
