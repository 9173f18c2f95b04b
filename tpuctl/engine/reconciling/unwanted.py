"""Slices of ours that nobody wants any more, or not as they are.

Only what the loop itself formed is ever taken apart, and only the very object that it formed. All others,
wanted or not, are somebody's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.engine.reconciling import belonging, estimates, fitting, swaps, words
from tpuctl.engine.reconciling import draft as drafts
from tpuctl.engine.reconciling import view as views
from tpuctl.model import declared, reconciling

if TYPE_CHECKING:
    from tpuctl.engine.reconciling import wanted
    from tpuctl.engine.reconciling.draft import Draft
    from tpuctl.model import fleet

Kind = reconciling.ActionKind


def prune(draft: Draft) -> None:
    """Take apart what the declared state does not name any more, after its grace."""
    view = draft.view
    leaving = [item for item in view.snapshot.slices if item.name not in view.wants and draft.is_ours(item)]
    if leaving and not view.spec.prune:
        for item in leaving:
            draft.ledger.recommend(
                f"slice/{item.name}", f"nobody wants it any more: tpuctl slice deform {item.name}"
            )
        return
    for item in sorted(leaving):
        sighting = draft.ledger.see(views.UNWANTED, item.name)
        if draft.ledger.has_lasted(sighting, view.spec.prune_grace_s):
            draft.propose(_deform(draft, item, sighting), _is_a_mistake(draft, item))


def _is_a_mistake(draft: Draft, item: fleet.Slice) -> str:
    """Why it is more likely that nobody means its end; empty if it seems to be meant."""
    if not draft.view.wants:
        return "unwanted: the declared state names no slice at all; end them by hand"
    if not item.state.may_run:
        return ""
    for entry in draft.view.spec.slices:
        base, _, number = item.name.rpartition("-")
        by_hand = f"if it shall end: tpuctl slice deform {item.name}"
        if entry.count > 1 and entry.name == item.name:
            return f"unwanted: entry {entry.name} is numbered now, so its slices have other names; {by_hand}"
        if entry.count == 1 and entry.name == base and number.isdecimal():
            return (
                f"unwanted: entry {entry.name} is not numbered any more, so its slice has another name; "
                f"{by_hand}"
            )
    return ""


def _deform(draft: Draft, item: fleet.Slice, sighting: reconciling.Sighting) -> reconciling.Action:
    pods = draft.pods_on(item)
    busy = f"; {words.count(pods, 'pod')} still on it" if pods else ""
    return reconciling.Action(
        kind=Kind.DEFORM,
        target=item.name,
        reason=f"the loop formed it and nobody wants it since {words.time(sighting.since)}{busy}",
        chips=drafts.chips_of(item),
        slices=drafts.running(item),
        pods_kept=pods,
        estimate_s=estimates.DEFORM_S,
    )


def reshape(draft: Draft) -> None:
    """Wanted slices of ours whose declared shape or block has changed: made again, in a window."""
    for want in draft.view.wants.values():
        item = draft.view.snapshot.slices_by_name.get(want.name)
        if item is None or not draft.is_ours(item) or belonging.is_as_wanted(draft, want, item):
            continue
        if item.state.is_ready or item.state.is_failed:
            _reshape_or_mend(draft, want, item)
        else:
            draft.wait(want.name, f"it is {item.raw_topology} and {item.reason or item.state}: left alone")


def _reshape_or_mend(draft: Draft, want: wanted.Want, item: fleet.Slice) -> None:
    """Who waits for another shape is mended as it is: work may run on it for long. One action for a slice."""
    waits_for_window = item.state.is_ready and not declared.is_open(draft.view.spec.windows, draft.view.now)
    if waits_for_window:
        swaps.mend_one(draft, want, item)
    if item.name not in draft.touched:
        _reshape(draft, want, item)
    if not waits_for_window and item.name not in draft.touched:
        swaps.mend_one(draft, want, item)


def _reshape(draft: Draft, want: wanted.Want, item: fleet.Slice) -> None:
    wish = " or ".join(map(str, want.shapes)) + (f" in block {want.entry.block}" if want.entry.block else "")
    if not draft.has_run_long_enough(want):
        draft.wait(
            want.name, f"it is {item.raw_topology} and shall be {wish}, but its minimum run is not over"
        )
        return
    place = fitting.best_option(draft, want, item)
    if place is None:
        draft.wait(want.name, f"it is {item.raw_topology} and shall be {wish}, which does not fit now")
        return
    old = item.topology.chips if item.topology is not None else 0
    done = draft.propose(
        reconciling.Action(
            kind=Kind.GROW if place.topology.chips > old else Kind.MOVE,
            target=want.name,
            reason=f"it is {item.raw_topology}, and {wish} is declared",
            forming=(
                reconciling.Forming(
                    want.name,
                    place.topology,
                    place.block,
                    place.partition_ids,
                    want.entry.priority,
                    want.shapes[0],
                ),
            ),
            chips=drafts.chips_of(item),
            slices=drafts.running(item),
            pods_restarted=draft.pods_on(item),
            voluntary=item.state.is_ready,
            estimate_s=estimates.remaking_s([place.topology]),
        )
    )
    if done.stopped_by:
        draft.wait(want.name, f"it is {item.raw_topology} and shall be {wish}; {done.stopped_by}")
