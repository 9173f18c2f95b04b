"""Slices of ours that nobody wants any more, or not as they are.

Only what the loop itself formed is ever taken apart, and only the very object that it formed. All others,
wanted or not, are somebody's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.engine.reconciling import belonging, estimates, fitting, words
from tpuctl.engine.reconciling import draft as drafts
from tpuctl.model import reconciling

if TYPE_CHECKING:
    from tpuctl.engine.reconciling import wanted
    from tpuctl.engine.reconciling.draft import Draft
    from tpuctl.model import fleet

Kind = reconciling.ActionKind
UNWANTED = "unwanted"
"""Kind of sighting."""


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
    # An empty list is more likely a mistake than a wish to end everything.
    reservation = "" if view.wants else "unwanted: the declared state names no slice at all; end them by hand"
    for item in sorted(leaving):
        sighting = draft.ledger.see(UNWANTED, item.name)
        if draft.ledger.has_lasted(sighting, view.spec.prune_grace_s):
            draft.propose(_deform(draft, item, sighting), reservation)


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
            _reshape(draft, want, item)
        else:
            draft.wait(want.name, f"it is {item.raw_topology} and {item.reason or item.state}: left alone")


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
