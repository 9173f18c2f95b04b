"""Cubes with which something went wrong lately, though they look well: others are taken while there are some.

A formation that fails does not say which of its cubes is to blame, so all of them are suspected alike; those
that a slice runs on afterwards are cleared. A cube that failed under a slice is suspected as well: what comes
back and fails again within the day would interrupt the next job. Nothing waits for suspicion: where there is
no other room, as many are left out as there is room for, the worst first.
"""

from __future__ import annotations

import dataclasses
import datetime
from typing import TYPE_CHECKING

from tpuctl.engine import placement, swapping
from tpuctl.engine.reconciling import granting, words
from tpuctl.model import operations, reconciling

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tpuctl.engine.packing import wishes
    from tpuctl.engine.reconciling.draft import Draft
    from tpuctl.engine.reconciling.view import View
    from tpuctl.model import fleet

REMEMBERED = datetime.timedelta(days=1)
_TOLD_AFTER = 3
"""Formations that failed with a cube before people are told to look at it."""
_MOST = 1000
"""Entries kept: the memory is one small record."""


def carried_over(view: View, known: Iterable[reconciling.Suspect]) -> dict[str, reconciling.Suspect]:
    """Those of the last day that no slice has run on since."""
    left = {entry.partition_id: entry for entry in known if view.now - entry.last_at < REMEMBERED}
    if left:
        for item in view.snapshot.slices:
            if item.state.is_ready:
                for partition_id in item.partition_ids:
                    entry = left.get(partition_id)
                    if entry is not None and entry.last_at < item.since:
                        del left[partition_id]
    return left


def noted(
    known: Iterable[reconciling.Suspect], partition_ids: Iterable[str], at: datetime.datetime
) -> tuple[reconciling.Suspect, ...]:
    """The entries with one more failure of each of these."""
    entries = {entry.partition_id: entry for entry in known}
    for partition_id in partition_ids:
        before = entries.get(partition_id)
        failures = 1 if before is None else before.failures + 1
        entries[partition_id] = reconciling.Suspect(partition_id, failures, at)
    return tuple(sorted(sorted(entries.values(), key=lambda entry: entry.last_at)[-_MOST:]))


def suspect(draft: Draft, partition_ids: Iterable[str]) -> None:
    """A slice on these did not form, as the world shows it."""
    entries = noted(draft.ledger.suspects.values(), partition_ids, draft.view.now)
    draft.ledger.suspects = {entry.partition_id: entry for entry in entries}


def tell(draft: Draft) -> None:
    """Name cubes that formations fail with again and again."""
    for entry in draft.ledger.suspects.values():
        if entry.failures >= _TOLD_AFTER:
            draft.ledger.recommend(
                f"cube/{entry.partition_id}",
                f"{words.count(entry.failures, 'failure')} of slices with it, though it looks well: "
                f"tpuctl health show {entry.partition_id}; to keep slices off it: "
                f"tpuctl cube hold {entry.partition_id}",
            )


def pack(draft: Draft, units: Sequence[wishes.Unit]) -> granting.Found:
    """What is granted now, on as few suspects as will do."""
    found = granting.pack(draft, units)
    suspects = _in_order(draft)
    given = {
        partition_id
        for grants in found.grants.values()
        for grant in grants
        for partition_id in grant.partition_ids
    }
    if given.isdisjoint(suspects):
        return found
    best, fewest, most = found, 0, len(suspects)
    while fewest < most:  # the more are left out the less fits
        count = (fewest + most + 1) // 2
        tried = granting.pack(draft, units, _without(draft.snapshot, suspects[:count]))
        if _shapes(tried) == _shapes(found):
            best, fewest = tried, count
        else:
            most = count - 1
    return granting.Found(grants=best.grants, why=found.why)


def plan_swap(
    draft: Draft, snapshot: fleet.Fleet, item: fleet.Slice, wish: swapping.Wish
) -> swapping.SwapPlan | swapping.Whole | swapping.Impossible | placement.Refusal:
    """As `swapping.plan_swap`, without suspects among the replacements if that can be."""
    suspects = [cube_id for cube_id in _in_order(draft) if cube_id not in item.partition_ids]
    if suspects:
        found = swapping.plan_swap(_without(snapshot, suspects), item, wish)
        if isinstance(found, swapping.SwapPlan):
            return found
    return swapping.plan_swap(snapshot, item, wish)


def _in_order(draft: Draft) -> tuple[str, ...]:
    """The worst first."""
    entries = draft.ledger.suspects.values()
    return tuple(entry.partition_id for entry in sorted(entries, key=lambda entry: (-entry.failures, entry)))


def _without(snapshot: fleet.Fleet, suspects: Iterable[str]) -> fleet.Fleet:
    claims = tuple(operations.Claim(partition_id, "suspected") for partition_id in suspects)
    return dataclasses.replace(snapshot, claims=(*snapshot.claims, *claims))


def _shapes(found: granting.Found) -> dict[int, list[str]]:
    return {number: [str(grant.topology) for grant in grants] for number, grants in found.grants.items()}
