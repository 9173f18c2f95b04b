"""Which slices are ours: those that the loop formed, and wanted ones that tpuctl made for somebody else.

A slice of another controller is never ours, whatever its name. A slice that was ours and is not there any
more was deleted by somebody: that is told once, and not fought over.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from tpuctl.engine.reconciling import draft as drafts
from tpuctl.engine.reconciling import words
from tpuctl.model import codec, declared, operations, states

if TYPE_CHECKING:
    from tpuctl.engine.reconciling import wanted
    from tpuctl.engine.reconciling.draft import Draft
    from tpuctl.model import fleet, reconciling

DELETED, DOWN = "foreign-deletion", "slice-down"
"""Kinds of sightings."""
_GOING = frozenset({states.SliceState.FAILED, states.SliceState.DEACTIVATING, states.SliceState.INCOMPLETE})


def sort_out(draft: Draft) -> None:
    """Adopt what is ours, notice what others have deleted, and forget what is neither there nor wanted."""
    for want in draft.view.wants.values():
        item = draft.view.snapshot.slices_by_name.get(want.name)
        if item is None:
            _absent(draft, want)
        else:
            _present(draft, want, item)
    for known in list(draft.ledger.formed.values()):
        if known.name not in draft.view.wants:
            _unwanted(draft, known)


def _present(draft: Draft, want: wanted.Want, item: fleet.Slice) -> None:
    if not drafts.may_be_ours(draft.view, item):
        draft.wait(want.name, f"a slice of this name belongs to {item.owner}; it is never touched")
        draft.ledger.recommend(
            f"slice/{want.name}",
            f"it is wanted and exists, but belongs to {item.owner}: rename the wanted one, or end the other",
        )
        return
    if want.name in draft.view.contested:
        draft.wait(want.name, "another slice names some of its hardware; neither is touched")
        text = "another slice names some of its hardware: see tpuctl slice show " + want.name
        draft.ledger.recommend(f"slice/{want.name}", text)
    if item.state in _GOING and not item.deleting:
        draft.ledger.see(DOWN, want.name)
    known = draft.ledger.formed.get(want.name)
    if known is not None and not known.uid and (item.deleting or _may_go(draft, want.name)):
        # The loop takes it apart, or may yet take its formation back: nobody else is to blame if it goes.
        return
    is_what_we_formed = known is not None and known.uid == item.uid
    # One that was to be formed when somebody else was faster is theirs, unless it is what is wanted.
    if is_what_we_formed or is_as_wanted(draft, want, item):
        draft.ledger.adopt(item)
        return
    # Who makes it anew in a shape that is not declared means something by it.
    draft.ledger.formed.pop(want.name, None)
    draft.wait(want.name, f"a slice of this name exists as {item.raw_topology}, which the loop did not form")
    draft.ledger.recommend(
        f"slice/{want.name}",
        f"it exists as {item.raw_topology} and was not formed by the loop; to have it as declared: "
        f"tpuctl slice deform {want.name}",
    )


def _may_go(draft: Draft, name: str) -> bool:
    """If true, an open operation forms it or takes it apart, whoever goes on with it."""
    kinds = (operations.Kind.FORM, operations.Kind.DEFORM)
    return any(found.slice_name == name and found.kind in kinds for found in draft.view.operations)


def is_as_wanted(draft: Draft, want: wanted.Want, item: fleet.Slice) -> bool:
    """If true, its shape is one of those declared, and it lies where it should."""
    if item.topology not in want.shapes:
        return False
    if not want.entry.block:
        return True
    label = {block.id: (block.id, block.name) for block in draft.view.snapshot.blocks}
    return all(want.entry.block in label.get(cube.block, ()) for cube in draft.view.members(item))


def _absent(draft: Draft, want: wanted.Want) -> None:
    ledger, known = draft.ledger, draft.ledger.formed.get(want.name)
    if known is None or want.name in draft.view.busy:
        return
    lost_by_itself = ledger.before_seen(DOWN, want.name) is not None
    wish = f"{want.name}@{_digest(want)}"
    told_of = ledger.subjects_before(DELETED, f"{want.name}@")
    # Who declares it otherwise after that wants to have it.
    is_wanted_anew = bool(told_of) and wish not in told_of
    if not known.uid or lost_by_itself or is_wanted_anew:
        del ledger.formed[want.name]
        return
    if want.entry.on_deletion is declared.OnDeletion.REFORM:
        del ledger.formed[want.name]
        ledger.failed_again(want.unit, f"slice {want.name} was deleted by somebody else")
        return
    ledger.see(DELETED, wish)
    draft.left_alone.add(want.name)
    draft.wait(want.name, "somebody else deleted it; it stays away until a person forms it")
    ledger.recommend(
        f"slice/{want.name}",
        f"somebody else deleted it; to have it again: tpuctl slice form {want.name} "
        f"--topology {want.shapes[0]}, or change the declared state",
    )


def _digest(want: wanted.Want) -> str:
    """Tells a declaration of a slice from an other one of the same name."""
    text = json.dumps(codec.encode(want.entry), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _unwanted(draft: Draft, known: reconciling.Formed) -> None:
    """Its record stays as long as the very slice does."""
    item = draft.view.snapshot.slices_by_name.get(known.name)
    if item is None and known.name not in draft.view.busy:
        del draft.ledger.formed[known.name]
    elif item is not None and not known.uid and item.created_at >= known.since:
        draft.ledger.adopt(item)
    elif item is not None and known.uid != item.uid and known.name not in draft.view.busy:
        del draft.ledger.formed[known.name]
        draft.ledger.recommend(
            f"slice/{known.name}",
            "it is not wanted any more, and somebody has made it anew since the loop formed it; "
            f"if nobody needs it: tpuctl slice deform {known.name}",
        )


def forgive(draft: Draft) -> None:
    """Attempts at what is in order now, or wanted no more, are forgotten."""
    view, ledger = draft.view, draft.ledger
    proposed = {action.id for action in draft.actions}
    for action_id in list(ledger.attempts):
        kind, _, target = action_id.partition("/")
        if action_id in proposed or _is_open(draft, kind, target):
            continue
        ledger.forgive(action_id)
    for want in view.wants.values():
        item = view.snapshot.slices_by_name.get(want.name)
        if item is not None and item.state is states.SliceState.ACTIVE_DEGRADED and not item.deleting:
            _tell_degraded(draft, want)


def _is_open(draft: Draft, kind: str, target: str) -> bool:
    """If true, what was tried is still wanted and still not there."""
    members = [want.name for want in draft.view.wants.values() if target in (want.name, want.unit)]
    if kind in ("again", "form", "swap", "deform", "grow", "move") and members:
        slices = draft.view.snapshot.slices_by_name
        return any(name not in slices or not slices[name].state.is_ready for name in members)
    return False


def _tell_degraded(draft: Draft, want: wanted.Want) -> None:
    if not want.entry.allow_degraded and want.name not in draft.touched:
        draft.ledger.recommend(
            f"slice/{want.name}",
            "it is ACTIVE_DEGRADED: it works, maybe slower; "
            f"{words.count(draft.pods_on(draft.view.snapshot.slices_by_name[want.name]), 'pod')} run on it",
        )
