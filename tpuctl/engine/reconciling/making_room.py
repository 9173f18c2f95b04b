"""Room for what is more urgent: cubes kept back for it, and lower slices that end so that it fits."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING

from tpuctl.engine import placement, preemption
from tpuctl.engine.inventory import recent
from tpuctl.engine.reconciling import draft as drafts
from tpuctl.engine.reconciling import estimates
from tpuctl.model import reconciling

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    draft: Draft, snapshot: fleet.Fleet, name: str, priority: int, request: placement.Request
) -> preemption.Eviction | None:
    """End lower slices that allow it, if that makes the request fit; None if nothing comes of it.

    `snapshot` is the fleet on which it must fit. The request itself is served in a later cycle, when the room
    is really there; until then what it will need is kept for it.
    """
    if not may_begin(draft, name):
        return None
    eviction = choose(draft, snapshot, priority, request)
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
