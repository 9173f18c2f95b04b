"""What the packing gives to slices that are not there.

The packing is the same as that of `capacity plan`, in its fast mode, whose answer depends on nothing but the
fleet. What may not use the spares is packed last, with the spares out of the way.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.engine.packing import plan as packing
from tpuctl.engine.reconciling import budgets, making_room
from tpuctl.engine.reconciling import draft as drafts
from tpuctl.model import reconciling

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tpuctl.engine.packing import wishes
    from tpuctl.engine.reconciling.draft import Draft
    from tpuctl.model import fleet


@dataclasses.dataclass
class Found:
    """What the packing came to, by the number of the unit."""

    grants: dict[int, tuple[packing.Grant, ...]] = dataclasses.field(default_factory=dict)
    why: dict[int, str] = dataclasses.field(default_factory=dict)
    never: set[int] = dataclasses.field(default_factory=set)
    """Those for which even an empty fleet has no room: they wait for hardware, and hold up nobody."""

    def is_full(self, unit: wishes.Unit) -> bool:
        """If true, it got the shapes that it wants most."""
        grants = self.grants.get(unit.number, ())
        return bool(grants) and not any(grant.is_fallback for grant in grants)


def by_priority(units: Iterable[wishes.Unit]) -> list[wishes.Unit]:
    return sorted(units, key=lambda unit: (-unit.priority, unit.number))


def pack(draft: Draft, units: Sequence[wishes.Unit], snapshot: fleet.Fleet | None = None) -> Found:
    """Two rounds: who may use the spares, then the others beside what those got, without the spares.

    On the fleet as the draft has it, or on another one.
    """
    found = Found()
    first = [unit for unit in units if unit.priority >= draft.view.spec.spares_below]
    rest = [unit for unit in units if unit.priority < draft.view.spec.spares_below]
    snapshot = draft.ours(draft.snapshot if snapshot is None else snapshot)
    chips = budgets.team_chips(draft.view)
    if first:
        _round(draft, snapshot, first, chips, found)
        snapshot = beside(draft, snapshot, found)
    if rest:
        spares = {block: len(cubes) for block, cubes in draft.spares_in(snapshot).items()}
        _round(draft, draft.with_spares(snapshot), rest, chips, found, spares)
    return found


def _round(
    draft: Draft,
    snapshot: fleet.Fleet,
    units: Sequence[wishes.Unit],
    chips: dict[str, int],
    found: Found,
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
        if left.refusal is not None and left.refusal.never:
            found.never.add(unit.number)


def _why(draft: Draft, left: packing.Left, spares: Mapping[str, int]) -> str:
    """Counted reasons; a block that is not there is told as such."""
    block = left.unit.first.block
    if block is not None and all(item.id != block for item in draft.ours(draft.view.snapshot).blocks):
        return f"block {block} is not one of those that the loop looks after"
    if left.refusal is None:
        return left.why
    when = "never fits" if left.refusal.never else "does not fit now"
    return f"{max(left.unit.shapes(0))} {when}: {making_room.refused(left.refusal, spares)}"


def beside(draft: Draft, snapshot: fleet.Fleet, found: Found) -> fleet.Fleet:
    """The snapshot with the slices that were granted."""
    made = tuple(
        drafts.made(draft.view, forming_of(grant)) for grants in found.grants.values() for grant in grants
    )
    return dataclasses.replace(snapshot, slices=(*snapshot.slices, *made)) if made else snapshot


def forming_of(grant: packing.Grant) -> reconciling.Forming:
    return reconciling.Forming(
        grant.slice_name,
        grant.topology,
        grant.block,
        grant.partition_ids,
        grant.wish.priority,
        grant.wish.shapes[0],
    )
