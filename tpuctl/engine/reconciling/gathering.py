"""Sub-slices belong together: one that keeps a whole cube from others moves into a cube that is none anyway.

Only if the cube is needed: its block lacks spares, or something waits for a cube. Without pods it disturbs
nobody; with pods it is voluntary, and has to pay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tpuctl.engine import changes
from tpuctl.engine.health import verdicts
from tpuctl.engine.inventory import recent, stock
from tpuctl.engine.reconciling import consolidation, estimates, words
from tpuctl.engine.reconciling import draft as drafts
from tpuctl.model import reconciling, states, topology

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tpuctl.engine.packing import wishes
    from tpuctl.engine.reconciling import wanted
    from tpuctl.engine.reconciling.draft import Draft
    from tpuctl.model import fleet

_HOUR_S = 3600.0


class _Small(NamedTuple):
    """A sub-slice that may move."""

    want: wanted.Want
    item: fleet.Slice
    shape: topology.Topology


class _Move(NamedTuple):
    small: _Small
    block: str
    partition_id: str


def gather(draft: Draft, left: Sequence[wishes.Unit]) -> None:
    """Empty one cube of each block that needs one."""
    if not draft.view.spec.consolidation.enabled:
        return
    by_block: dict[str, dict[str, list[_Small]]] = {}
    for small in _small(draft):
        for cube in draft.view.members(small.item)[:1]:
            by_block.setdefault(cube.block, {}).setdefault(cube.id, []).append(small)
    for block_id, by_cube in sorted(by_block.items()):
        cubes = {cube_id: items for cube_id, items in by_cube.items() if _can_be_whole(draft, cube_id, items)}
        why, waits = _need(draft, block_id, len(cubes), left)
        if why and cubes:
            _empty_one(draft, block_id, cubes, why, waits=waits)


def _small(draft: Draft) -> Iterator[_Small]:
    for want in draft.view.wants.values():
        item = draft.view.snapshot.slices_by_name.get(want.name)
        if item is None or item.topology is None or not item.topology.is_sub_slice:
            continue
        if item.topology in want.shapes and consolidation.may_move(draft, want, item):
            yield _Small(want, item, item.topology)


def _can_be_whole(draft: Draft, cube_id: str, smalls: Sequence[_Small]) -> bool:
    """If true, nothing but these sub-slices keeps it from a slice of whole cubes."""
    cube = draft.view.snapshot.cubes_by_id[cube_id]
    return (
        verdicts.of(cube, draft.view.policy, draft.view.now).verdict is states.Verdict.HEALTHY
        and set(draft.snapshot.holders.get(cube_id, ())) == {small.item.name for small in smalls}
        and not draft.snapshot.claimants.get(cube_id)
    )


def _need(draft: Draft, block_id: str, cubes: int, left: Sequence[wishes.Unit]) -> tuple[str, bool]:
    """What a cube of the block is needed for, empty if for nothing; and whether somebody waits for it."""
    if block_id in draft.lacking:
        return f"{draft.lacking[block_id]} lacks a cube", True
    index = recent.of(draft.ours(draft.snapshot), stock.Terms(policy=draft.view.policy))
    number = index.number_of_block.get(block_id)
    if number is None:
        return "", False
    free = index.free[number].bit_count()
    for unit in left:
        name = unit.members[0][0]
        shape = max(unit.shapes(0))
        helps = free < shape.cubes <= free + cubes and unit.first.block in (None, block_id)
        if helps and not unit.is_gang and name not in draft.comes:
            return f"{name} ({shape}) lacks a cube", True
    block = next(found for found in draft.snapshot.blocks if found.id == block_id)
    spares = draft.spares_of(block, draft.view.spec.spares_below - 1)
    if free < spares:
        return f"block {block.label} has {free} of {words.count(spares, 'spare')}", False
    return "", False


def _empty_one(
    draft: Draft, block_id: str, by_cube: dict[str, list[_Small]], why: str, *, waits: bool
) -> None:
    """The cube with the least on it of which everything finds a place elsewhere."""
    order = sorted(by_cube, key=lambda cube_id: (sum(one.shape.chips for one in by_cube[cube_id]), cube_id))
    for cube_id in order:
        moves = _places(draft, block_id, cube_id, by_cube[cube_id])
        if moves:
            actions = [_action(draft, move, cube_id, why) for move in moves]
            settle_s = draft.view.spec.consolidation.settle_s
            if waits and not any(action.voluntary for action in actions):
                settle_s = 0.0
            sighting = draft.ledger.see(consolidation.ROOM, cube_id)
            pays = sum(action.gain_chip_h for action in actions) > sum(
                action.cost_chip_h for action in actions
            )
            if pays and draft.ledger.has_lasted(sighting, settle_s):
                draft.propose_together(actions)
            return


def _places(draft: Draft, block_id: str, cube_id: str, smalls: Sequence[_Small]) -> list[_Move]:
    """Places for all of them in cubes that no slice of whole cubes can use; none if one finds none."""
    names = [small.item.name for small in smalls]
    index = stock.Stock(
        changes.without_slices(draft.block(block_id), names), stock.Terms(policy=draft.view.policy)
    )
    avoid = 1 << index.slot_of_cube[cube_id].number
    moves = []
    for small in sorted(smalls, key=lambda one: (-one.shape.chips, one.item.name)):
        found = index.best_part(small.shape, only_spoiled=True, avoid=avoid)
        if found is None:
            return []
        slot, part = found
        index.take_part(small.item.name, slot, part)
        moves.append(_Move(small, block_id, part.id))
    return moves


def _action(draft: Draft, move: _Move, cube_id: str, why: str) -> reconciling.Action:
    """What has no pods interrupts no work, so it needs no window; the budget counts it like any other."""
    want, item, shape = move.small
    settings, pods = draft.view.spec.consolidation, draft.pods_on(item)
    return reconciling.Action(
        kind=reconciling.ActionKind.MOVE,
        target=item.name,
        reason=(
            f"moved beside others, so that cube {cube_id} is whole: {why}; "
            + (f"{words.count(pods, 'pod')} on it begin anew" if pods else "no pod is on it")
        ),
        forming=(
            reconciling.Forming(
                item.name, shape, move.block, (move.partition_id,), want.entry.priority, want.shapes[0]
            ),
        ),
        chips=drafts.chips_of(item),
        slices=drafts.running(item),
        pods_restarted=pods,
        voluntary=pods > 0,
        estimate_s=estimates.remaking_s([shape]),
        gain_chip_h=topology.CUBE.chips * settings.horizon_s / _HOUR_S,
        cost_chip_h=shape.chips * settings.move_cost_s / _HOUR_S if pods else 0.0,
    )
