"""The loop detector: an action that is repeated and changes nothing is held back for a growing while.

Only what was carried out counts. What fails has pauses of its own (`Ledger.next_attempt`), and what died with
its loop has shown nothing about itself.
"""

from __future__ import annotations

import datetime
import hashlib
from typing import TYPE_CHECKING

from tpuctl.engine.reconciling import words
from tpuctl.model import reconciling

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tpuctl.engine.reconciling import ledger as ledgers

LIMIT = 3
"""Times that the same is done on the same facts before it is held back."""
_REMEMBERED_S = 1800.0
"""Between two of the same there may be other cycles: making and breaking in turns is churn as well."""
_POOL_REMEMBERED_S = 24 * 3600.0
"""A node pool takes half an hour to come, and an hour of grace passes before it is made again."""
_POOLS = tuple(
    f"{kind}/" for kind in (reconciling.ActionKind.CREATE_POOL, reconciling.ActionKind.RECREATE_POOL)
)
_MOST = 1000
"""Entries kept: a fleet that begins does thousands of things once, and the memory is one small record."""
_FIRST_PAUSE_S = 600.0
_LONGEST_PAUSE_S = 6 * 3600.0


def carry_over(ledger: ledgers.Ledger) -> None:
    """Forget what has not been repeated for a while."""
    for entry in ledger.before.churn:
        quiet_s = (ledger.now - entry.last_at).total_seconds()
        if quiet_s < _pause_s(entry.failures) + _remembered_s(entry.action):
            ledger.churn[entry.action] = entry


def _remembered_s(action_id: str) -> float:
    return _POOL_REMEMBERED_S if action_id.startswith(_POOLS) else _REMEMBERED_S


def held_until(ledger: ledgers.Ledger, action: reconciling.Action) -> datetime.datetime | None:
    """When it may be done once more; None if nothing holds it back."""
    known = ledger.churn.get(action.id)
    if known is None or known.why != fingerprint(action) or known.failures < LIMIT:
        return None
    until = known.last_at + datetime.timedelta(seconds=_pause_s(known.failures))
    return until if until > ledger.now else None


def carried_out(
    entries: Iterable[reconciling.Attempt], actions: Iterable[reconciling.Action], at: datetime.datetime
) -> tuple[reconciling.Attempt, ...]:
    """The entries with these actions, which were done; on other facts than last time, it had an effect."""
    counted = {entry.action: entry for entry in entries}
    for action in actions:
        if action.kind is reconciling.ActionKind.FINISH:
            continue  # somebody else may be at work on it, again and again
        facts = fingerprint(action)
        known = counted.get(action.id)
        times = known.failures + 1 if known is not None and known.why == facts else 1
        counted[action.id] = reconciling.Attempt(action.id, times, at, facts)
    return shortened(counted.values())


def shortened(entries: Iterable[reconciling.Attempt]) -> tuple[reconciling.Attempt, ...]:
    """The entries to remember, in order of names; what was repeated most stays."""
    kept = sorted(entries, key=lambda entry: (-entry.failures, entry.action))[:_MOST]
    return tuple(sorted(kept))


def fingerprint(action: reconciling.Action) -> str:
    """What the action rests on, without where it goes: other free cubes make it no other action."""
    kinds = {"slice", "pool", "operation"}
    text = "\n".join(":".join(fact) for fact in action.facts if fact.kind in kinds)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def guard(ledger: ledgers.Ledger, held: int) -> reconciling.Guard:
    if held:
        says = f"{words.count(held, 'action')} done {LIMIT} times in a row without effect"
        return reconciling.Guard("churn", reconciling.GuardState.STOPS_SOME, says)
    repeated = max((entry.failures for entry in ledger.churn.values()), default=0)
    says = f"nothing is repeated without effect (at most {words.count(repeated, 'time')})"
    return reconciling.Guard("churn", reconciling.GuardState.CLEAR, says)


def _pause_s(times: int) -> float:
    """Nothing below the limit; then 10 minutes, doubled each time, 6 hours at most."""
    if times < LIMIT:
        return 0.0
    doublings = min(times - LIMIT, 10)
    return min(_FIRST_PAUSE_S * 2.0**doublings, _LONGEST_PAUSE_S)
