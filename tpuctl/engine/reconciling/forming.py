"""Form what is wanted and not there: by priority, gangs all or not at all, smaller shapes if need be.

See `granting` for what fits, and `awaiting` for who waits for more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.engine import placement
from tpuctl.engine.packing import plan as packing
from tpuctl.engine.packing import wishes
from tpuctl.engine.reconciling import awaiting, estimates, granting, ledger, making_room, wanted, words
from tpuctl.model import reconciling

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tpuctl.engine import preemption
    from tpuctl.engine.reconciling.draft import Draft

Kind = reconciling.ActionKind


def form(draft: Draft) -> tuple[wishes.Unit, ...]:
    """Propose what fits; the units that do not and could, the most urgent first."""
    missing = tuple(_missing(draft))
    if not missing:
        return ()
    units = wishes.units(missing)
    found = awaiting.pack(draft, units)
    left = _make_room(draft, units, found)
    for unit in granting.by_priority(units):
        grants = found.grants.get(unit.number)
        if grants:
            _form(draft, unit, grants)
    for unit in left:
        why = found.why.get(unit.number, "its cubes were needed for something more urgent")
        for name, _ in unit.members:
            draft.wait(name, why)
    return tuple(unit for unit in left if unit.number not in found.never)


def _missing(draft: Draft) -> Iterable[wishes.Wish]:
    """One wish for each wanted slice that is not there."""
    slices = draft.view.snapshot.slices_by_name
    for want in draft.view.wants.values():
        item = slices.get(want.name)
        if item is not None:
            if item.deleting:
                draft.wait(want.name, "it is being taken apart")
            continue
        if want.name in draft.view.busy:
            draft.wait(want.name, "an operation on it is open")
        elif want.name not in draft.left_alone:
            yield _wish(draft, want)


def _wish(draft: Draft, want: wanted.Want) -> wishes.Wish:
    entry = want.entry
    return wishes.Wish(
        name=want.name,
        shapes=want.shapes,
        gang=entry.gang,
        same_block=entry.same_block,
        priority=entry.priority,
        team=entry.team,
        preemptible=entry.preemptible,
        min_run_s=entry.min_run_s,
        allow_degraded=entry.allow_degraded,
        block=_only_block(draft, want),
    )


def _only_block(draft: Draft, want: wanted.Want) -> str | None:
    """Id of the block it must lie in: the declared one, or where the others of its gang are already."""
    if want.entry.block:
        return wanted.block_id(draft.view.snapshot, want.entry.block) or want.entry.block
    if want.entry.gang and want.entry.same_block:
        for other in draft.view.wants.values():
            item = draft.view.snapshot.slices_by_name.get(other.name)
            if other.entry.gang == want.entry.gang and item is not None:
                cubes = draft.view.members(item)
                if cubes:
                    return cubes[0].block
    return None


# -- room for what is more urgent ------------------------------------------------------------------------


def _make_room(draft: Draft, units: Sequence[wishes.Unit], found: granting.Found) -> tuple[wishes.Unit, ...]:
    """End lower slices for units that got nothing, or less than they want; who is left waits.

    What a lower unit was granted is taken back if the more urgent one will need those very cubes.
    """
    for unit in granting.by_priority(units):
        grants = found.grants.get(unit.number, ())
        if unit.is_gang or (grants and not grants[0].is_fallback) or _is_paused(draft, unit):
            continue
        if unit.members[0][0] in draft.comes:
            continue
        victims = _evict(draft, unit, found)
        if victims is None:
            continue
        found.grants.pop(unit.number, None)
        found.why[unit.number] = f"room is being made for it: {words.listed(victims.victims)}"
        _take_back(found, unit, units, frozenset(victims.placement.partition_ids))
    return tuple(unit for unit in granting.by_priority(units) if unit.number not in found.grants)


def _is_paused(draft: Draft, unit: wishes.Unit) -> bool:
    """If true, it failed a while ago: nobody is disturbed for it before it is tried again."""
    target = unit.members[0][0]
    ids = (f"{Kind.FORM}/{target}", ledger.AGAIN + target)
    return any(draft.gate.between_attempts(attempt_id) for attempt_id in ids)


def _evict(draft: Draft, unit: wishes.Unit, found: granting.Found) -> preemption.Eviction | None:
    """On the fleet with all that was granted to units as urgent or more."""
    kept = granting.Found(
        grants={
            number: grants
            for number, grants in found.grants.items()
            if grants[0].wish.priority >= unit.priority and number != unit.number
        }
    )
    request = placement.Request(
        topology=unit.shapes(0)[0],
        block=unit.first.block,
        allow_degraded=unit.tolerant,
        policy=draft.view.policy,
        priority=unit.priority,
    )
    name = unit.members[0][0]
    snapshot = draft.ours(granting.beside(draft, draft.snapshot, kept))
    return making_room.evict(draft, snapshot, name, unit.priority, request, beside_spares=True)


def _take_back(
    found: granting.Found, unit: wishes.Unit, units: Sequence[wishes.Unit], needed: frozenset[str]
) -> None:
    for other in units:
        grants = found.grants.get(other.number, ())
        given = {cube for grant in grants for cube in (*grant.cubes, *grant.partition_ids)}
        if other.priority < unit.priority and given & needed:
            del found.grants[other.number]
            found.why[other.number] = f"its cubes are kept for {unit.members[0][0]}, which is more urgent"


# -- actions ---------------------------------------------------------------------------------------------


def _form(draft: Draft, unit: wishes.Unit, grants: Sequence[packing.Grant]) -> None:
    target = unit.first.gang or unit.members[0][0]
    forming = tuple(map(granting.forming_of, grants))
    done = draft.propose(
        reconciling.Action(
            kind=Kind.FORM,
            target=target,
            reason=_reason(draft, unit, grants),
            forming=forming,
            estimate_s=estimates.forming_s(item.topology for item in forming),
        )
    )
    if done.stopped_by:
        for item in forming:
            draft.wait(item.name, done.stopped_by)


def _reason(draft: Draft, unit: wishes.Unit, grants: Sequence[packing.Grant]) -> str:
    blocks = words.listed(sorted({draft.label(grant.block) for grant in grants}))
    chips = sum(grant.topology.chips for grant in grants)
    room = f"{words.count(chips, 'chip')} free in block {blocks}"
    what = f"wanted (priority {unit.priority}) and not there; {room}"
    if unit.is_gang:
        what = f"{words.count(len(unit.members), 'slice')} together, {what}"
    smaller = [grant for grant in grants if grant.is_fallback]
    if smaller:
        what += f"; {smaller[0].wish.shapes[0]} does not fit now, so it falls back to {smaller[0].topology}"
    return what
