"""Form what is wanted and not there: by priority, gangs all or not at all, smaller shapes if need be.

The packing is the same as that of `capacity plan`, in its fast mode, whose answer depends on nothing but the
fleet. What may not use the spares is packed last, with the spares out of the way.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.engine import placement
from tpuctl.engine.packing import plan as packing
from tpuctl.engine.packing import wishes
from tpuctl.engine.reconciling import budgets, estimates, ledger, making_room, wanted, words
from tpuctl.engine.reconciling import draft as drafts
from tpuctl.model import fleet, reconciling

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tpuctl.engine import preemption
    from tpuctl.engine.reconciling.draft import Draft

Kind = reconciling.ActionKind


def form(draft: Draft) -> tuple[wishes.Unit, ...]:
    """Propose what fits; the units that do not, the most urgent first."""
    missing = tuple(_missing(draft))
    if not missing:
        return ()
    units = wishes.units(missing)
    found = _pack(draft, units)
    left = _make_room(draft, units, found)
    for unit in _by_priority(units):
        grants = found.grants.get(unit.number)
        if grants:
            _form(draft, unit, grants)
    for unit in left:
        why = found.why.get(unit.number, "its cubes were needed for something more urgent")
        for name, _ in unit.members:
            draft.wait(name, why)
    return left


@dataclasses.dataclass
class _Found:
    """What the packing came to, by the number of the unit."""

    grants: dict[int, tuple[packing.Grant, ...]] = dataclasses.field(default_factory=dict)
    why: dict[int, str] = dataclasses.field(default_factory=dict)


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


# -- packing ---------------------------------------------------------------------------------------------


def _pack(draft: Draft, units: Sequence[wishes.Unit]) -> _Found:
    """Two rounds: who may use the spares, then the others beside what those got, without the spares."""
    found = _Found()
    first = [unit for unit in units if unit.priority >= draft.view.spec.spares_below]
    rest = [unit for unit in units if unit.priority < draft.view.spec.spares_below]
    snapshot = draft.ours(draft.snapshot)
    chips = budgets.team_chips(draft.view)
    if first:
        _round(draft, snapshot, first, chips, found)
        snapshot = _beside(draft, snapshot, found)
    if rest:
        spares = {block: len(cubes) for block, cubes in draft.spares_in(snapshot).items()}
        _round(draft, draft.with_spares(snapshot), rest, chips, found, spares)
    return found


def _round(
    draft: Draft,
    snapshot: fleet.Fleet,
    units: Sequence[wishes.Unit],
    chips: dict[str, int],
    found: _Found,
    spares: Mapping[str, int] | None = None,
) -> None:
    by_name = {name: unit for unit in units for name, _ in unit.members}
    plan = packing.pack(
        snapshot,
        [wish for unit in units for wish in unit.wishes],
        packing.Settings(
            mode=packing.Mode.FAST,
            weights={team.name: team.weight for team in draft.view.spec.teams},
            team_chips=dict(chips),
            policy=draft.view.policy,
        ),
    )
    for grant in plan.grants:
        unit = by_name[grant.slice_name]
        found.grants[unit.number] = (*found.grants.get(unit.number, ()), grant)
        team = unit.first.team
        chips[team] = chips.get(team, 0) + grant.topology.chips
    for left in plan.left:
        unit = by_name[left.unit.members[0][0]]
        found.why[unit.number] = _why(draft, left, spares or {})


def _why(draft: Draft, left: packing.Left, spares: Mapping[str, int]) -> str:
    """Counted reasons; a block that is not there is told as such."""
    block = left.unit.first.block
    if block is not None and all(item.id != block for item in draft.ours(draft.view.snapshot).blocks):
        return f"block {block} is not one of those that the loop looks after"
    if left.refusal is None:
        return left.why
    when = "never fits" if left.refusal.never else "does not fit now"
    return f"{max(left.unit.shapes(0))} {when}: {making_room.refused(left.refusal, spares)}"


def _beside(draft: Draft, snapshot: fleet.Fleet, found: _Found) -> fleet.Fleet:
    """The snapshot with the slices that were granted."""
    made = tuple(
        drafts.made(draft.view, _forming(grant)) for grants in found.grants.values() for grant in grants
    )
    return dataclasses.replace(snapshot, slices=(*snapshot.slices, *made)) if made else snapshot


def _forming(grant: packing.Grant) -> reconciling.Forming:
    return reconciling.Forming(
        grant.slice_name,
        grant.topology,
        grant.block,
        grant.partition_ids,
        grant.wish.priority,
        grant.wish.shapes[0],
    )


# -- room for what is more urgent ------------------------------------------------------------------------


def _make_room(draft: Draft, units: Sequence[wishes.Unit], found: _Found) -> tuple[wishes.Unit, ...]:
    """End lower slices for units that got nothing, or less than they want; who is left waits.

    What a lower unit was granted is taken back if the more urgent one will need those very cubes.
    """
    for unit in _by_priority(units):
        grants = found.grants.get(unit.number, ())
        if unit.is_gang or (grants and not grants[0].is_fallback) or _is_paused(draft, unit):
            continue
        victims = _evict(draft, unit, found)
        if victims is None:
            continue
        found.grants.pop(unit.number, None)
        found.why[unit.number] = f"room is being made for it: {words.listed(victims.victims)}"
        _take_back(found, unit, units, frozenset(victims.placement.partition_ids))
    return tuple(unit for unit in _by_priority(units) if unit.number not in found.grants)


def _is_paused(draft: Draft, unit: wishes.Unit) -> bool:
    """If true, it failed a while ago: nobody is disturbed for it before it is tried again."""
    target = unit.members[0][0]
    ids = (f"{Kind.FORM}/{target}", ledger.AGAIN + target)
    return any(draft.gate.between_attempts(attempt_id) for attempt_id in ids)


def _evict(draft: Draft, unit: wishes.Unit, found: _Found) -> preemption.Eviction | None:
    """On the fleet with all that was granted to units as urgent or more."""
    kept = _Found(
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
    )
    if unit.priority < draft.view.spec.spares_below and draft.view.spec.blocks:
        request = dataclasses.replace(
            request, keep_free=max(block.spares for block in draft.view.spec.blocks)
        )
    name = unit.members[0][0]
    snapshot = draft.ours(_beside(draft, draft.snapshot, kept))
    return making_room.evict(draft, snapshot, name, unit.priority, request)


def _take_back(
    found: _Found, unit: wishes.Unit, units: Sequence[wishes.Unit], needed: frozenset[str]
) -> None:
    for other in units:
        grants = found.grants.get(other.number, ())
        given = {cube for grant in grants for cube in (*grant.cubes, *grant.partition_ids)}
        if other.priority < unit.priority and given & needed:
            del found.grants[other.number]
            found.why[other.number] = f"its cubes are kept for {unit.members[0][0]}, which is more urgent"


# -- actions ---------------------------------------------------------------------------------------------


def _by_priority(units: Iterable[wishes.Unit]) -> list[wishes.Unit]:
    return sorted(units, key=lambda unit: (-unit.priority, unit.number))


def _form(draft: Draft, unit: wishes.Unit, grants: Sequence[packing.Grant]) -> None:
    target = unit.first.gang or unit.members[0][0]
    forming = tuple(map(_forming, grants))
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
    labels = {block.id: block.label for block in draft.view.snapshot.blocks}
    blocks = words.listed(sorted({labels.get(grant.block, grant.block) for grant in grants}))
    chips = sum(grant.topology.chips for grant in grants)
    room = f"{words.count(chips, 'chip')} free in block {blocks}"
    what = f"wanted (priority {unit.priority}) and not there; {room}"
    if unit.is_gang:
        what = f"{words.count(len(unit.members), 'slice')} together, {what}"
    smaller = [grant for grant in grants if grant.is_fallback]
    if smaller:
        what += f"; {smaller[0].wish.shapes[0]} does not fit now, so it falls back to {smaller[0].topology}"
    return what
