"""Actions on slices that exist: finish what is open, swap, take apart, make again.

Each prepares anew what a person's command would do, and goes on only if that is what was decided.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.model import declared, errors, operations, reconciling
from tpuctl.ops import deforming, journal, locking, operating, swapping, waiting
from tpuctl.ops.reconciling import desk as desks
from tpuctl.ops.reconciling import forms, gates, memory, outcomes, telling

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tpuctl.model import fleet

WAIT_S = 300.0
"""How long one operation is waited for; one that takes longer stays open, and the next cycle goes on."""
LONG_OPEN_S, LONG_OPEN_WAIT_S = 1800.0, 10.0
"""What is open for so long hangs, and is only looked at: others are not kept waiting for it in each cycle."""
_Became = outcomes.Became
_Event = declared.HookEvent
_DOWN = (operations.Intent.DELETING, operations.Intent.CREATING)


def is_between(desk: desks.Desk, action: reconciling.Action) -> bool:
    """If true, it finishes an operation whose slice is deleted and not made again yet."""
    return action.kind is reconciling.ActionKind.FINISH and any(
        found.id == action.target and found.kind is operations.Kind.SWAP and found.intent in _DOWN
        for found in desk.view.operations
    )


def finish(desk: desks.Desk, action: reconciling.Action) -> tuple[outcomes.Became, str]:
    """Go on with an open operation, unless somebody is at work on it."""
    try:
        found = journal.find(desk.ports, action.target).operation
    except errors.NotFound:
        return _Became.STOPPED, "somebody else has finished it"
    lock = desk.ports.leases.get(locking.slice_lock(found.slice_name))
    if lock is not None and lock.is_held and not desk.ports.identity.is_dead(lock.holder):
        return _Became.STOPPED, f"{lock.holder} is at work on it"
    if _is_slow(desk, found) and operating.let_go(desk.ports, desk.reporter, found.id):
        # Waiting for it again and again would hold up everything else; a formation that hangs is taken back.
        return _Became.DONE, "it goes on forming without its operation"
    wait_s = LONG_OPEN_WAIT_S if _open_s(desk, found) >= LONG_OPEN_S else WAIT_S
    ended = operating.resume(
        desk.ports, desk.reporter, found.id, timeout_s=wait_s, policy=desk.settings.policy
    )
    if isinstance(ended, swapping.Outcome):
        return _swapped(desk, action, ended)
    item = desk.ports.slices.get(found.slice_name)
    if found.kind is operations.Kind.DEFORM:
        desk.teller.hook(_Event.SLICE_DEFORMED, slice=found.slice_name, reason=action.reason)
    elif item is not None and not ended.aborting:
        _formed(desk, action, item)
    return _Became.DONE, ""


def _is_slow(desk: desks.Desk, operation: operations.Operation) -> bool:
    is_slow = _open_s(desk, operation) >= waiting.DEFAULT_TIMEOUT_S
    return operation.kind is operations.Kind.FORM and is_slow


def _open_s(desk: desks.Desk, operation: operations.Operation) -> float:
    return (desk.now - operation.started_at).total_seconds()


def swap(desk: desks.Desk, action: reconciling.Action) -> tuple[outcomes.Became, str]:
    """Exchange exactly the cubes that were decided."""
    item = _still_there(desk, action.target)
    wish = swapping.Wish(
        in_place=not action.exchanges,
        cubes=tuple(exchange.old for exchange in action.exchanges),
        replacements=tuple(exchange.new for exchange in action.exchanges),
        allow_degraded=desk.allows_degraded(item.name),
        force_foreign=desk.is_adopted(item),
        policy=desk.settings.policy,
    )
    try:
        prepared = swapping.prepare(desk.ports, item.name, wish)
    except errors.DoesNotFit as refused:
        raise desks.Drift(refused.message, details=refused.details) from refused
    if prepared is None or prepared.plan.slice.uid != item.uid:
        raise desks.Drift(f"slice {item.name} is another one by now")
    if set(prepared.exchanges) != set(action.exchanges):
        raise desks.Drift("other cubes would be exchanged")
    facts = telling.facts_of(desk.snapshot, item)
    facts |= {"exchanges": _listed(action.exchanges), "reason": action.reason}
    desk.teller.hook(_Event.SWAP_STARTED, **facts)
    outcome = swapping.swap(desk.ports, desk.reporter, prepared, wish, timeout_s=WAIT_S)
    return _swapped(desk, action, outcome)


def deform(desk: desks.Desk, action: reconciling.Action) -> tuple[outcomes.Became, str]:
    """Take a slice apart that nobody wants."""
    prepared = _prepared(desk, action.target)
    _refuse_more_pods(action, [prepared])
    return _taken_apart(desk, action, prepared)


def remake(desk: desks.Desk, action: reconciling.Action) -> tuple[outcomes.Became, str]:
    """Make slices again elsewhere or in another shape: apart, then together, and nothing in between.

    With exchanges it is a swap of healthy cubes, which is one operation with its own way back.
    """
    if action.exchanges:
        return swap(desk, action)
    names = [one.name for one in action.forming]
    prepared = [_prepared(desk, name) for name in names]
    _refuse_more_pods(action, prepared)
    # Their absence in between is our own doing: whoever finds them gone makes them again.
    desk.remember(memory.expecting(desk.loaded.memory, names, desk.now))
    for one in prepared:
        became, why = _taken_apart(desk, action, one)
        if became is not _Became.DONE:
            return became, why
        # From here on a pause would leave a slice away for as long as it lasts.
        desk = dataclasses.replace(desk, ports=gates.committed(desk.ports))
    failures: list[errors.TpuctlError] = []
    [result] = forms.form(desk, [action], failures)
    if failures:
        raise failures[0]
    return result.became, result.why


def _prepared(desk: desks.Desk, name: str) -> deforming.Prepared | None:
    """The very slice that was decided on, as it is now; None if it is gone already."""
    item = desk.snapshot.slices_by_name.get(name)
    if item is None:
        return None
    prepared = deforming.prepare(desk.ports, name, force_foreign=desk.is_adopted(item))
    if prepared is not None and prepared.slice.uid != item.uid:
        raise desks.Drift(f"slice {name} was replaced by another one")
    return prepared


def _refuse_more_pods(action: reconciling.Action, prepared: Iterable[deforming.Prepared | None]) -> None:
    """What was decided as the end of so many pods, or of none, is another thing once more have come."""
    now = sum(len(one.radius.pods) for one in prepared if one is not None)
    shown = action.pods_restarted + action.pods_kept
    if now > shown:
        raise desks.Drift(f"{now} pods run there by now, {shown} when it was decided")


def _taken_apart(
    desk: desks.Desk, action: reconciling.Action, prepared: deforming.Prepared | None
) -> tuple[outcomes.Became, str]:
    """Exactly what was looked at: pods that have come since stop it."""
    if prepared is None:
        return _Became.DONE, "it was gone already"
    item = prepared.slice
    # Who is made again elsewhere, or makes room, takes its pods along: left behind they keep the chips.
    with_pods = action.pods_restarted > 0
    deforming.deform(desk.ports, desk.reporter, prepared, timeout_s=WAIT_S, with_pods=with_pods)
    desk.teller.of_slice(item, "Deformed", f"taken apart by tpuctl reconcile: {action.reason}")
    facts = telling.facts_of(desk.snapshot, item)
    desk.teller.hook(_Event.SLICE_DEFORMED, reason=action.reason, **facts)
    return _Became.DONE, ""


def _swapped(
    desk: desks.Desk, action: reconciling.Action, outcome: swapping.Outcome
) -> tuple[outcomes.Became, str]:
    item, exchanges = outcome.slice, _listed(outcome.exchanges)
    desk.formed.append(item)
    facts = telling.facts_of(desk.snapshot, item)
    facts |= {"exchanges": exchanges, "reason": action.reason}
    desk.teller.hook(_Event.SWAP_DONE, result="went back" if outcome.went_back else "done", **facts)
    if outcome.went_back:
        desk.teller.of_slice(item, "SwapFailed", f"it has its old cubes again: {action.reason}", warning=True)
        return _Became.FAILED, "no other cubes would do, it has its old ones again"
    if action.kind is reconciling.ActionKind.SWAP and not action.voluntary:
        desk.suspects += [exchange.old for exchange in outcome.exchanges]
    desk.teller.of_slice(item, "Swapped", f"{exchanges}: {action.reason}")
    for exchange in outcome.exchanges:
        cube = desk.snapshot.cubes_by_id.get(exchange.old)
        text = f"its cube was swapped out of slice {item.name}: {action.reason}"
        desk.teller.of_hosts(cube.hosts if cube is not None else (), "SwappedOut", text)
    lost = f"; pods that should have stayed and did not: {', '.join(outcome.lost)}" if outcome.lost else ""
    return _Became.DONE, f"{exchanges}{lost}"


def _formed(desk: desks.Desk, action: reconciling.Action, item: fleet.Slice) -> None:
    """An operation that somebody had begun has formed it."""
    desk.formed.append(item)
    forms.tell_formed(desk, item, f"operation {action.target} was gone on with")


def _still_there(desk: desks.Desk, name: str) -> fleet.Slice:
    item = desk.snapshot.slices_by_name.get(name)
    if item is None:
        raise desks.Drift(f"slice {name} is gone")
    return item


def _listed(exchanges: tuple[operations.Exchange, ...]) -> str:
    return ", ".join(f"{exchange.old} -> {exchange.new}" for exchange in exchanges)
