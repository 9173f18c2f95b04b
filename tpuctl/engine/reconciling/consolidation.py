"""Better places for what runs: larger shapes for slices that had to fall back, moves so that others fit.

Voluntary all of it: only in a window, only what is ours and has run long enough, only into room that has been
there for a while, and only if the chip-hours won are more than the chip-hours lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.engine import defrag, placement
from tpuctl.engine.health import verdicts
from tpuctl.engine.reconciling import draft as drafts
from tpuctl.engine.reconciling import estimates, fitting, making_room, words
from tpuctl.model import reconciling, states, topology

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tpuctl.engine.packing import wishes
    from tpuctl.engine.reconciling import wanted
    from tpuctl.engine.reconciling.draft import Draft
    from tpuctl.model import fleet

Kind = reconciling.ActionKind
ROOM = "room"
"""Kind of sighting: something larger would fit."""
_HOUR_S = 3600.0


def consolidate(draft: Draft, left: Sequence[wishes.Unit]) -> None:
    """Moves for the most urgent that waits; then growth of what waits for nobody more urgent."""
    if not draft.view.spec.consolidation.enabled:
        return
    for unit in left[:1]:
        _move_for(draft, unit)
    highest = max((unit.priority for unit in left), default=None)
    for members in _units(draft):
        if highest is None or min(want.entry.priority for want in members) > highest:
            _grow(draft, members)


# -- growing ---------------------------------------------------------------------------------------------


def _units(draft: Draft) -> Iterable[tuple[wanted.Want, ...]]:
    """Units of which a member had to fall back, the most urgent first."""
    by_unit: dict[str, list[wanted.Want]] = {}
    for want in draft.view.wants.values():
        by_unit.setdefault(want.unit, []).append(want)
    found = [
        tuple(members) for members in by_unit.values() if any(_fell_back(draft, want) for want in members)
    ]
    return sorted(found, key=lambda members: -min(want.entry.priority for want in members))


def _fell_back(draft: Draft, want: wanted.Want) -> bool:
    item = draft.view.snapshot.slices_by_name.get(want.name)
    return item is not None and item.topology in want.shapes[1:]


def _grow(draft: Draft, wants: Sequence[wanted.Want]) -> None:
    items = [draft.view.snapshot.slices_by_name.get(want.name) for want in wants]
    if not all(may_move(draft, want, item) for want, item in zip(wants, items, strict=True)):
        return
    there = [item for item in items if item is not None]
    option = max(_option(want, item) for want, item in zip(wants, there, strict=True))
    if fitting.free_cubes(draft) < _more_cubes(wants, there, option):
        return
    places = fitting.together(draft, wants, there, option)
    if places is None:
        return
    now = sum(drafts.chips_of(item) for item in there)
    won = sum(place.topology.chips for place in places) - now
    settings = draft.view.spec.consolidation
    gain, cost = won * settings.horizon_s / _HOUR_S, now * settings.move_cost_s / _HOUR_S
    if won <= 0 or gain <= cost:
        return
    sighting = draft.ledger.see(ROOM, wants[0].unit)
    if draft.ledger.has_lasted(sighting, settings.settle_s):
        draft.propose(_growth(draft, wants, there, places, gain, cost))


def may_move(draft: Draft, want: wanted.Want, item: fleet.Slice | None) -> bool:
    """Ours, up, and with nothing wrong: what is broken is mended, not moved."""
    if item is None or not item.state.is_ready or not draft.is_ours(item):
        return False
    if item.owner is not None or not draft.has_run_long_enough(want):
        return False
    verdict_of = (
        verdicts.of(cube, draft.view.policy, draft.view.now).verdict for cube in draft.view.members(item)
    )
    return all(verdict in (states.Verdict.HEALTHY, states.Verdict.DEGRADED) for verdict in verdict_of)


def _option(want: wanted.Want, item: fleet.Slice) -> int:
    return want.shapes.index(item.topology) if item.topology in want.shapes else 0


def _more_cubes(wants: Sequence[wanted.Want], items: Sequence[fleet.Slice], option: int) -> int:
    """Free cubes needed at least for the next larger shape: without them nothing need be tried."""
    bigger = sum(want.shapes[min(option - 1, len(want.shapes) - 1)].chips for want in wants)
    now = sum(drafts.chips_of(item) for item in items)
    return max((bigger - now) // topology.CUBE.chips, 0)


def _growth(
    draft: Draft,
    wants: Sequence[wanted.Want],
    items: Sequence[fleet.Slice],
    places: Sequence[fitting.Place],
    gain: float,
    cost: float,
) -> reconciling.Action:
    now = sum(drafts.chips_of(item) for item in items)
    more = sum(place.topology.chips for place in places) - now
    return reconciling.Action(
        kind=Kind.GROW,
        target=wants[0].unit,
        reason=(
            f"it fell back to {words.listed([item.raw_topology for item in items])}; "
            f"{words.count(more, 'chip')} more fit now, worth {gain:,.0f} chip-hours for {cost:,.0f} lost"
        ),
        forming=tuple(
            reconciling.Forming(
                want.name,
                place.topology,
                place.block,
                place.partition_ids,
                want.entry.priority,
                want.shapes[0],
            )
            for want, place in zip(wants, places, strict=True)
        ),
        chips=now,
        slices=tuple(item.name for item in items),
        pods_restarted=sum(map(draft.pods_on, items)),
        voluntary=True,
        estimate_s=estimates.remaking_s([place.topology for place in places]),
        gain_chip_h=gain,
        cost_chip_h=cost,
    )


# -- moving ----------------------------------------------------------------------------------------------


def _move_for(draft: Draft, unit: wishes.Unit) -> None:
    """Moves of lower slices after which the unit fits; it is formed when they are done."""
    shape = unit.shapes(0)[0]
    name = unit.members[0][0]
    if (
        unit.is_gang
        or name in draft.left_alone | draft.comes
        or fitting.free_cubes(draft) < max(shape.cubes, 1)
    ):
        return
    movable = frozenset(
        want.name
        for want in draft.view.wants.values()
        if want.entry.priority < unit.priority
        and not want.entry.gang
        and not want.entry.block
        and may_move(draft, want, draft.view.snapshot.slices_by_name.get(want.name))
    )
    if not movable or not making_room.may_begin(draft, name):
        return
    settings = draft.view.spec.consolidation
    snapshot = draft.ours(draft.snapshot)
    request = placement.Request(
        topology=shape,
        block=unit.first.block,
        allow_degraded=unit.tolerant,
        policy=draft.view.policy,
        priority=unit.priority,
    )
    costs = defrag.Costs(move_h=settings.move_cost_s / _HOUR_S, unknown_wait_h=settings.horizon_s / _HOUR_S)
    found = defrag.plan(snapshot, request, draft.tenants(movable), costs, making_room.spares(draft, snapshot))
    if not isinstance(found, defrag.Plan) or found.gain_chip_h <= found.cost_chip_h:
        return
    sighting = draft.ledger.see(ROOM, name)
    if draft.ledger.has_lasted(sighting, settings.settle_s):
        moves = draft.propose_together([_move(draft, move, found, name) for move in found.moves])
        if not moves[0].stopped_by:
            draft.ledger.see(making_room.MADE_ROOM, name)
        draft.claim(found.placement.partition_ids, f"kept for {name}", name)
        draft.wait(name, f"{words.count(len(found.moves), 'slice')} shall move so that it fits")


def _move(draft: Draft, move: defrag.Move, plan: defrag.Plan, name: str) -> reconciling.Action:
    item = draft.view.snapshot.slices_by_name[move.slice_name]
    want = draft.view.wants[move.slice_name]
    share = move.topology.chips / sum(other.topology.chips for other in plan.moves)
    return reconciling.Action(
        kind=Kind.MOVE,
        target=move.slice_name,
        reason=(
            f"moved to block {draft.label(move.to_block)}, so that {name} ({plan.request.topology}, more "
            f"urgent) fits; worth {plan.gain_chip_h:,.0f} chip-hours for {plan.cost_chip_h:,.0f} lost by all "
            "moves"
        ),
        forming=(
            reconciling.Forming(
                move.slice_name,
                move.topology,
                move.to_block,
                move.new_partitions,
                want.entry.priority,
                want.shapes[0],
            ),
        ),
        chips=drafts.chips_of(item),
        slices=drafts.running(item),
        pods_restarted=draft.pods_on(item),
        voluntary=True,
        estimate_s=estimates.remaking_s([move.topology]),
        gain_chip_h=plan.gain_chip_h * share,
        cost_chip_h=plan.cost_chip_h * share,
    )
