"""Who waits for cubes that are coming up, rather than to fall back on a smaller shape.

What it will need of what is free already is kept for it: less urgent slices would else take it, cube by cube,
while it waits for the rest. Both have an end (`arriving.waits_until`), since some hardware never comes.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.engine import changes
from tpuctl.engine.inventory import shelves, stock
from tpuctl.engine.reconciling import arriving, granting, suspicion, words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tpuctl.engine.packing import plan as packing
    from tpuctl.engine.packing import wishes
    from tpuctl.engine.reconciling.draft import Draft
    from tpuctl.model import topology


def pack(draft: Draft, units: Sequence[wishes.Unit]) -> granting.Found:
    """What is granted now, beside what is kept for those who wait for cubes."""
    found = _on_few_suspects(draft, units)
    coming = arriving.expected(draft)
    if not coming or all(map(found.is_full, units)):
        return found
    snapshot = changes.repaired(changes.without_claims(draft.snapshot, coming), coming)
    hoped = granting.pack(draft, units, snapshot)
    better = [unit for unit in units if hoped.is_full(unit) and not found.is_full(unit)]
    waiting = [unit for unit in better if arriving.may_wait(draft, _subject(unit))]
    if not waiting:
        return found
    _keep(draft, units, {unit.number for unit in waiting}, found, hoped)
    again = _on_few_suspects(draft, [unit for unit in units if unit not in waiting])
    for unit in waiting:
        draft.comes |= {name for name, _ in unit.members}
        again.why[unit.number] = _why(draft, unit, hoped.grants[unit.number], coming)
    return again


def _on_few_suspects(draft: Draft, units: Sequence[wishes.Unit]) -> granting.Found:
    """What is granted, on as few suspected cubes as will do: nothing gets less for it."""
    plain = granting.pack(draft, units)

    def attempt(left_out: tuple[str, ...]) -> granting.Found | None:
        found = (
            granting.pack(draft, units, suspicion.without(draft.snapshot, left_out)) if left_out else plain
        )
        return found if _shapes(found) == _shapes(plain) else None

    found = suspicion.fewest(draft, attempt) or plain
    return dataclasses.replace(plain, grants=found.grants)


def _shapes(found: granting.Found) -> dict[int, list[topology.Topology]]:
    return {number: [grant.topology for grant in grants] for number, grants in found.grants.items()}


def _subject(unit: wishes.Unit) -> str:
    return unit.first.gang or unit.members[0][0]


def _keep(
    draft: Draft,
    units: Sequence[wishes.Unit],
    waiting: set[int],
    found: granting.Found,
    hoped: granting.Found,
) -> None:
    """Claim cubes that are free, beside what is granted to those who are as urgent and need not wait."""
    index = stock.Stock(draft.ours(draft.snapshot), stock.Terms(policy=draft.view.policy))
    for unit in sorted(units, key=lambda unit: (-unit.priority, unit.number in waiting, unit.number)):
        if unit.number not in waiting:
            for grant in found.grants.get(unit.number, ()):
                index.take_ids(grant.slice_name, grant.partition_ids)
            continue
        for grant in hoped.grants[unit.number]:
            kept = _take(draft, index, grant, unit.priority)
            draft.claim(kept, f"kept for {grant.slice_name}, which waits for more", grant.slice_name)


def _take(draft: Draft, index: stock.Stock, grant: packing.Grant, priority: int) -> tuple[str, ...]:
    """Up to as many as it needs; a sub-slice, for which none is free, needs none that others could take."""
    block = index.number_of_block[grant.block]
    [home] = [found for found in draft.snapshot.blocks if found.id == grant.block]
    spares = draft.spares_of(home, priority)
    free = index.free[block]
    count = min(grant.topology.cubes, max(free.bit_count() - spares, 0))
    return index.take(grant.slice_name, block, shelves.first(free, count)) if count else ()


def _why(draft: Draft, unit: wishes.Unit, grants: Sequence[packing.Grant], coming: frozenset[str]) -> str:
    blocks = {grant.block for grant in grants}
    there = sum(
        cube.id in coming for block in draft.snapshot.blocks if block.id in blocks for cube in block.cubes
    )
    until = words.time(arriving.waits_until(draft, _subject(unit)))
    return (
        f"{max(unit.shapes(0))} does not fit yet: {words.count(there, 'cube')} of its block "
        f"{'is' if there == 1 else 'are'} coming up; it waits for that until {until} at the latest"
    )
