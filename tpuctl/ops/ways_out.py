"""Ways out of a refusal as commands that can be run, and the cheapest one in a sentence."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.engine import advice, mending, placement, tenancy
from tpuctl.model import operations, topology
from tpuctl.ops import remaking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tpuctl.model import fleet

_BLOCKS = 2
"""So many blocks are looked at, those that lack least: a refusal must come at once. `tpuctl capacity why-not`
looks at all of them."""
_SHOWN = 3
_CUBE_LABEL = f"cloud.google.com/gke-tpu-partition-{topology.CUBE}-id"
Keeper = operations.Keeper


def nobody() -> str:
    """In place of a name, where nobody can be asked who acts: in a dump, for example."""
    return ""


def sentence(
    snapshot: fleet.Fleet,
    refusal: placement.Refusal,
    request: placement.Request,
    me: Callable[[], str] = nobody,
) -> str | None:
    """What would make the request fit; None if nothing was found in the blocks that lack least.

    Only what the engine has verified. `me` tells who acts; it is asked only about holds.
    """
    question = advice.Question(request=request, tenants=tenancy.Tenants(), priority=request.priority or 0)
    found = advice.advise(_nearest(snapshot, refusal), question)
    if isinstance(found, placement.Placement) or not found.ways:
        return None
    actions = found.ways[0].actions
    if actions[0].act is advice.Act.ALLOW_DEGRADED:
        return "--allow-degraded would make it fit, with less bandwidth"
    return _said(snapshot, actions, me)


def opening(snapshot: fleet.Fleet, request: placement.Request, me: Callable[[], str] = nobody) -> str | None:
    """What would make the request fit without disturbing any slice; None if nothing was found."""
    found = advice.opening(snapshot, request)
    return None if found is None else _said(snapshot, found.actions, me)


def _said(snapshot: fleet.Fleet, actions: Iterable[mending.Action], me: Callable[[], str]) -> str:
    steps = [step for action in actions for step in commands(snapshot, action, me)]
    return f"this would make it fit: {first_few(steps)}"


def first_few(steps: Sequence[str]) -> str:
    """Commands in a row, and how many more there are."""
    rest = len(steps) - _SHOWN
    return "; ".join(steps[:_SHOWN]) + (f"; and {rest} more like it" if rest > 0 else "")


def allowing_degraded_helps(snapshot: fleet.Fleet, request: placement.Request) -> bool:
    """If true, the request fits on cubes with a degraded link."""
    softer = dataclasses.replace(request, allow_degraded=True)
    return not request.allow_degraded and isinstance(placement.place(snapshot, softer), placement.Placement)


def commands(
    snapshot: fleet.Fleet, action: mending.Action, me: Callable[[], str] = nobody
) -> tuple[str, ...]:
    """What to run for one action, in order; a sentence where nothing can be run."""
    act, target = action.act, action.target
    if act is mending.Act.RELEASE:
        return (_release(target, operations.kept_by(action.detail).name, me),)
    if act is mending.Act.MOVE:
        item = snapshot.slices_by_name[target]
        return remaking.commands(item, action.partition_ids)
    if act is mending.Act.SWAP:
        pairs = (pair.split(" for ") for pair in action.detail.split(", "))
        exchanged = " ".join(f"--cube {old} --with {new}" for old, new in pairs)
        return (f"tpuctl slice swap {target} --allow-degraded {exchanged}",)
    return (_SINGLE[act](action),)


_SINGLE: dict[mending.Act, Callable[[mending.Action], str]] = {
    mending.Act.UNCORDON: lambda action: f"kubectl uncordon -l {_CUBE_LABEL}={action.target}",
    mending.Act.FINISH: lambda action: f"tpuctl operation resume {action.target}",
    mending.Act.END_PODS: lambda action: _delete(action.target),
    mending.Act.ALLOW_DEGRADED: lambda _: "ask again with --allow-degraded",
    mending.Act.WAIT: lambda action: f"wait until slice {action.target} has ended",
    mending.Act.PREEMPT: lambda action: f"tpuctl slice deform {action.target}",
    mending.Act.REPAIR: lambda action: (
        f"repair cube {action.target} ({action.detail}), see: tpuctl health show {action.target}"
    ),
    mending.Act.FALL_BACK: lambda action: f"ask again with --topology {action.target}",
}


def freeing(
    snapshot: fleet.Fleet, cube_ids: Iterable[str], me: Callable[[], str] = nobody
) -> tuple[str, ...]:
    """What to run so that whoever keeps these cubes lets go of them; nothing for slices that use them."""
    wanted = {snapshot.cube_of_partition.get(cube_id, cube_id) for cube_id in cube_ids}
    found = [
        _let_go(cube_id, holder, me)
        for cube_id in sorted(wanted)
        for holder in snapshot.claimants.get(cube_id, ())
    ]
    return tuple(dict.fromkeys(command for command in found if command))


def open_operations(refusal: placement.Refusal) -> tuple[str, ...]:
    """Operations that keep cubes from a request, by id."""
    kept = (operations.kept_by(who) for candidate in refusal.candidates for who in candidate.claims)
    return tuple(sorted({one.name for one in kept if one.keeper is Keeper.OPERATION and one.name}))


def _let_go(cube_id: str, holder: str, me: Callable[[], str]) -> str:
    keeper, name = operations.kept_by(holder)
    if not name:
        return ""
    if keeper is Keeper.HOLD:
        return _release(cube_id, name, me)
    if keeper is Keeper.PODS:
        return _delete(name)
    return f"tpuctl operation resume {name}" if keeper is Keeper.OPERATION else f"tpuctl repair show {name}"


def _release(cube_id: str, owner: str, me: Callable[[], str]) -> str:
    """With --others for a hold of somebody else; also where it is not known who acts, for it does no harm."""
    others = "" if me() == owner else " --others"
    return f"tpuctl cube release {cube_id}{others}"


def _delete(owner: str) -> str:
    """Ending what owns the pods: pods alone would be made again."""
    namespace, kind, name = owner.split("/", 2)
    return f"kubectl delete {kind.lower()} {name} -n {namespace}"


def _nearest(snapshot: fleet.Fleet, refusal: placement.Refusal) -> fleet.Fleet:
    """The blocks with most usable pieces, and the slices that lie in them."""
    if len(snapshot.blocks) <= _BLOCKS:
        return snapshot
    order = sorted(refusal.candidates, key=lambda one: (-one.usable, -one.total, one.block))
    kept = {candidate.block for candidate in order[:_BLOCKS]}
    part = snapshot.with_blocks(tuple(block for block in snapshot.blocks if block.id in kept))
    slices = tuple(item for item in snapshot.slices if part.cubes_of(item))
    return dataclasses.replace(part, slices=slices)
