"""Open operations come first: who began to take something apart has promised to make it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.engine.reconciling import draft as drafts
from tpuctl.engine.reconciling import estimates, guards, words
from tpuctl.model import operations, reconciling

if TYPE_CHECKING:
    from tpuctl.engine.reconciling.draft import Draft

Kind = operations.Kind
OPEN_FOR_S = 1800.0
"""An operation takes minutes. One that is open for longer hangs, and a person should look at it."""


def finish(draft: Draft) -> None:
    """One action for each open operation, those whose slice is away first, then the oldest."""
    order = sorted(
        draft.view.operations,
        key=lambda entry: (not guards.is_half_done(entry), entry.started_at, entry.id),
    )
    for operation in order:
        draft.propose(_action(draft, operation))
        draft.claim(
            operation.claims,
            operations.words_of_operation(operation.id, operation.actor),
            operation.slice_name,
        )
        draft.touched.add(operation.slice_name)
        if operation.note:
            draft.ledger.recommend(
                f"operation/{operation.id}",
                f"it stopped: {operation.note}; to go back: tpuctl operation abort {operation.id}",
            )
        elif (draft.view.now - operation.started_at).total_seconds() >= OPEN_FOR_S:
            draft.ledger.recommend(
                f"operation/{operation.id}",
                f"it has been open since {words.time(operation.started_at)}, and going on with it does not "
                f"end it; see: tpuctl operation show {operation.id}",
            )


def _action(draft: Draft, operation: operations.Operation) -> reconciling.Action:
    item = draft.view.snapshot.slices_by_name.get(operation.slice_name)
    old = item if item is not None and item.uid == operation.old_uid else None
    cuts = old is not None and not old.deleting and not operation.aborting and operation.kind is not Kind.FORM
    return reconciling.Action(
        kind=reconciling.ActionKind.FINISH,
        target=operation.id,
        reason=_reason(operation),
        chips=drafts.chips_of(old) if old is not None and cuts else 0,
        slices=drafts.running(old) if old is not None and cuts else (),
        pods_restarted=sum(pod.replaced for pod in operation.pods),
        pods_kept=sum(not pod.replaced for pod in operation.pods),
        estimate_s=estimates.SWAP_S
        if operation.kind is Kind.SWAP
        else estimates.remaking_s([operation.topology]),
    )


def _reason(operation: operations.Operation) -> str:
    what = f"{operation.kind} of {operation.slice_name}, begun by {operation.actor}"
    if operation.aborting:
        what += ", is on its way back"
    if guards.is_half_done(operation):
        return f"{what}, is between deletion and creation: its slice is away until it is finished"
    return f"{what}, is open at '{operation.intent}'"
