"""Cubes with which something went wrong lately, though they look well: others are taken while there are some.

A formation that fails does not say which of its cubes is to blame, so all of them are suspected alike; those
that a slice runs on afterwards are cleared. A cube that failed under a slice is suspected as well: what comes
back and fails again within the day would interrupt the next job. Nothing waits for suspicion: where there is
no other room, as many are left out as there is room for, the worst first.
"""

from __future__ import annotations

import dataclasses
import datetime
from typing import TYPE_CHECKING, TypeVar

from tpuctl.engine import swapping
from tpuctl.engine.reconciling import words
from tpuctl.model import operations, reconciling

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from tpuctl.engine import placement
    from tpuctl.engine.reconciling.draft import Draft
    from tpuctl.engine.reconciling.view import View
    from tpuctl.model import fleet

T = TypeVar("T")

REMEMBERED = datetime.timedelta(days=1)
_TOLD_AFTER = 3
"""Formations that failed with a cube before people are told to look at it."""
_MOST_TOLD = 20
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
    worst = sorted(draft.ledger.suspects.values(), key=lambda entry: (-entry.failures, entry))
    for entry in worst[:_MOST_TOLD]:
        if entry.failures >= _TOLD_AFTER:
            draft.ledger.recommend(
                f"cube/{entry.partition_id}",
                f"{words.count(entry.failures, 'failure')} of slices with it, though it looks well: "
                f"tpuctl health show {entry.partition_id}; to keep slices off it: "
                f"tpuctl cube hold {entry.partition_id}",
            )


def fewest(
    draft: Draft, attempt: Callable[[tuple[str, ...]], T | None], but: Container[str] = ()
) -> T | None:
    """What `attempt` comes to with as many suspects left out as will do, the worst first.

    None if it comes to nothing even with all of them. `but`: these are not left out. The more are left out,
    the less fits, so a bisection finds the most.
    """
    found = attempt(())
    suspects = tuple(entry for entry in _in_order(draft) if entry not in but) if found is not None else ()
    least, most = 0, len(suspects)
    while least < most:
        count = (least + most + 1) // 2
        tried = attempt(suspects[:count])
        if tried is None:
            most = count - 1
        else:
            found, least = tried, count
    return found


def plan_swap(
    draft: Draft, snapshot: fleet.Fleet, item: fleet.Slice, wish: swapping.Wish
) -> swapping.SwapPlan | swapping.Whole | swapping.Impossible | placement.Refusal:
    """As `swapping.plan_swap`, with as few suspects among the replacements as will do."""

    def attempt(left_out: tuple[str, ...]) -> swapping.SwapPlan | None:
        found = swapping.plan_swap(without(snapshot, left_out), item, wish)
        return found if isinstance(found, swapping.SwapPlan) else None

    return fewest(draft, attempt, item.partition_ids) or swapping.plan_swap(snapshot, item, wish)


def without(snapshot: fleet.Fleet, suspects: Iterable[str]) -> fleet.Fleet:
    """Nobody may take these."""
    claims = tuple(operations.Claim(partition_id, "suspected") for partition_id in suspects)
    return dataclasses.replace(snapshot, claims=(*snapshot.claims, *claims)) if claims else snapshot


def _in_order(draft: Draft) -> tuple[str, ...]:
    """The worst first."""
    entries = draft.ledger.suspects.values()
    return tuple(entry.partition_id for entry in sorted(entries, key=lambda entry: (-entry.failures, entry)))
