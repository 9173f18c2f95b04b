"""Room for what is more urgent: cubes kept back for it, and lower slices that end so that it fits."""

from __future__ import annotations

import dataclasses
import types
from typing import TYPE_CHECKING

from tpuctl.engine import placement, preemption
from tpuctl.engine.inventory import recent
from tpuctl.engine.reconciling import draft as drafts
from tpuctl.engine.reconciling import estimates
from tpuctl.model import reconciling

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tpuctl.engine import defrag
    from tpuctl.engine.reconciling.draft import Draft
    from tpuctl.model import fleet

MADE_ROOM = "made-room"
"""Kind of sighting: others were disturbed so that a slice fits."""
COMES_WITHIN_S = 900.0
"""Taking a slice apart, and the end of its pods, take at most about so long."""
_NO_SPARES: Mapping[str, int] = types.MappingProxyType({})


def refused(found: placement.Refusal, spares: Mapping[str, int] = _NO_SPARES) -> str:
    """Counted reasons, those of the block that comes nearest; `spares` by block are kept free."""
    best = max(found.candidates, key=lambda candidate: candidate.usable, default=None)
    asked = f"{found.needed} {found.unit} of one block needed, {found.usable} usable"
    if best is None:
        return f"{asked}: there is no such block"
    counts = [
        f"{number} {obstacle}"
        for obstacle, number in _with_spares(dict(best.obstacles), spares.get(best.block, 0))
        if number and obstacle is not placement.Obstacle.NOT_ASKED
    ]
    return f"{asked}{' (' + ', '.join(counts) + ')' if counts else ''}"


def _with_spares(counts: dict[placement.Obstacle, int], spares: int) -> list[tuple[placement.Obstacle, int]]:
    """Spares are held by a claim of the decision; people hear what they are."""
    counts[placement.Obstacle.HELD] = counts.get(placement.Obstacle.HELD, 0) - spares
    counts[placement.Obstacle.SPARE] = spares
    return sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))


def keep_free_cubes(draft: Draft, request: placement.Request, holder: str) -> None:
    """Claim what the block of a request has free, up to what is asked for."""
    if request.block is None:
        return
    snapshot = draft.block(request.block)
    index = recent.of(snapshot, request.terms)
    number = index.number_of_block.get(request.block)
    if number is None:
        return
    free = [slot.cube.id for slot in index.slots[number] if index.free[number] >> slot.number & 1]
    usable = [cube_id for cube_id in free if cube_id not in request.without]
    draft.claim(usable[: request.topology.cubes], holder, request.slice_name)


def may_begin(draft: Draft, name: str) -> bool:
    """False as long as room that was made for it may still come: pods take a while to end.

    Otherwise each cycle would disturb somebody else for the same slice.
    """
    made = draft.ledger.before_seen(MADE_ROOM, name)
    if made is None or (draft.view.now - made.since).total_seconds() >= COMES_WITHIN_S:
        return True
    draft.ledger.see(MADE_ROOM, name)
    return False


def evict(
    draft: Draft,
    snapshot: fleet.Fleet,
    name: str,
    priority: int,
    request: placement.Request,
    *,
    beside_spares: bool = False,
) -> preemption.Eviction | None:
    """End lower slices that allow it, if that makes the request fit; None if nothing comes of it.

    `snapshot` is the fleet on which it must fit, in each block beside its spares if that is asked for. The
    request itself is served in a later cycle, when the room is really there; until then what it will need is
    kept for it.
    """
    if not may_begin(draft, name):
        return None
    asked = _by_spares(draft, snapshot, request, priority) if beside_spares else [(snapshot, request)]
    found = [choose(draft, part, priority, wish) for part, wish in asked]
    eviction = min((one for one in found if one is not None), key=_disturbance, default=None)
    if eviction is None:
        return None
    done = draft.propose_together([_deform(draft, victim, name, priority) for victim in eviction.victims])
    if done[0].stopped_by:
        return None
    draft.ledger.see(MADE_ROOM, name)
    draft.claim(eviction.placement.partition_ids, f"kept for {name}", request.slice_name or name)
    for victim in eviction.victims:
        draft.ledger.expect_absence(victim)
        draft.wait(victim, f"it made room for {name}")
    return eviction


def spares(draft: Draft, snapshot: fleet.Fleet) -> defrag.Spares:
    """What each block keeps free, by the priority of who wants to go there."""
    blocks = {block.id: block for block in snapshot.blocks}

    def spares_of(block_id: str, priority: int | None) -> int:
        return draft.spares_of(blocks[block_id], priority or 0)

    return spares_of


def _by_spares(
    draft: Draft, snapshot: fleet.Fleet, request: placement.Request, priority: int
) -> list[tuple[fleet.Fleet, placement.Request]]:
    """The blocks that keep as many cubes free as each other, and what is asked for there."""
    found: dict[int, list[fleet.Block]] = {}
    for block in snapshot.blocks:
        found.setdefault(draft.spares_of(block, priority), []).append(block)
    return [
        (
            snapshot if len(found) == 1 else snapshot.with_blocks(tuple(blocks)),
            dataclasses.replace(request, keep_free=count),
        )
        for count, blocks in found.items()
    ]


def _disturbance(eviction: preemption.Eviction) -> tuple[int, int, tuple[str, ...]]:
    return eviction.chips, len(eviction.victims), eviction.victims


def choose(
    draft: Draft, snapshot: fleet.Fleet, priority: int, request: placement.Request
) -> preemption.Eviction | None:
    """The cheapest set of lower slices of ours whose end would do; None if there is none."""
    movable = frozenset(
        item.name
        for item in snapshot.slices
        if item.name in draft.view.wants
        and draft.view.wants[item.name].entry.preemptible
        and draft.view.wants[item.name].entry.priority < priority
        and (item.state.is_ready or item.state.is_failed)
        and draft.is_ours(item)
    )
    if not movable:
        return None
    return preemption.choose(snapshot, request, draft.tenants(movable), priority)


def _deform(draft: Draft, victim: str, name: str, priority: int) -> reconciling.Action:
    item = draft.view.snapshot.slices_by_name[victim]
    lower = draft.view.wants[victim].entry.priority
    return reconciling.Action(
        kind=reconciling.ActionKind.DEFORM,
        target=victim,
        reason=f"preempted: {name} (priority {priority}) needs its cubes, it has priority {lower}",
        chips=drafts.chips_of(item),
        slices=drafts.running(item),
        pods_restarted=draft.pods_on(item),
        estimate_s=estimates.DEFORM_S,
    )
