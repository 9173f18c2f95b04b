"""The cheapest way to make a refused request fit, in one sentence; if the engine has verified it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.engine import advice, placement, tenancy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tpuctl.model import fleet

_BLOCKS = 2
"""So many blocks are looked at, those that lack least: a refusal must come at once. `tpuctl capacity why-not`
looks at all of them."""
_SHOWN = 3
_VERBS = {
    advice.Act.UNCORDON: "uncordon cube {target}",
    advice.Act.SWAP: "swap in slice {target}: {detail}",
    advice.Act.MOVE: "move slice {target} {detail}",
    advice.Act.WAIT: "wait until slice {target} has ended",
    advice.Act.PREEMPT: "end slice {target}",
    advice.Act.REPAIR: "repair cube {target} ({detail})",
}


def sentence(snapshot: fleet.Fleet, refusal: placement.Refusal, request: placement.Request) -> str | None:
    """What would make the request fit; None if nothing was found in the blocks that lack least."""
    question = advice.Question(request=request, tenants=tenancy.Tenants(), priority=request.priority or 0)
    found = advice.advise(_nearest(snapshot, refusal), question)
    if isinstance(found, placement.Placement) or not found.ways:
        return None
    return _said(snapshot, found.ways[0].actions)


def allowing_degraded_helps(snapshot: fleet.Fleet, request: placement.Request) -> bool:
    """If true, the request fits on cubes with a degraded link."""
    softer = dataclasses.replace(request, allow_degraded=True)
    return not request.allow_degraded and isinstance(placement.place(snapshot, softer), placement.Placement)


def _nearest(snapshot: fleet.Fleet, refusal: placement.Refusal) -> fleet.Fleet:
    """The blocks with most usable pieces, and the slices that lie in them."""
    if len(snapshot.blocks) <= _BLOCKS:
        return snapshot
    order = sorted(refusal.candidates, key=lambda one: (-one.usable, -one.total, one.block))
    kept = {candidate.block for candidate in order[:_BLOCKS]}
    part = snapshot.with_blocks(tuple(block for block in snapshot.blocks if block.id in kept))
    slices = tuple(item for item in snapshot.slices if part.cubes_of(item))
    return dataclasses.replace(part, slices=slices)


def _said(snapshot: fleet.Fleet, actions: Sequence[advice.Action]) -> str:
    if actions[0].act is advice.Act.ALLOW_DEGRADED:
        return "--allow-degraded would make it fit, with less bandwidth"
    steps = [_step(snapshot, action) for action in actions]
    rest = len(steps) - _SHOWN
    shown = "; ".join(steps[:_SHOWN]) + (f"; and {rest} more like it" if rest > 0 else "")
    return f"this would make it fit: {shown}"


def _step(snapshot: fleet.Fleet, action: advice.Action) -> str:
    if action.act is not advice.Act.RELEASE:
        return _VERBS[action.act].format(target=action.target, detail=action.detail)
    # A hold can be released by hand; an open operation, or pods that are left over, must come to their end.
    claims = snapshot.claimants.get(action.target, ())
    if all(claim.startswith("hold by ") for claim in claims):
        return f"tpuctl cube release {action.target}"
    return f"free cube {action.target} ({', '.join(claims)})"
