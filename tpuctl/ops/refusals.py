"""Refusals of the engine as errors that people can act on."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.engine import forming, placement
from tpuctl.engine.inventory import obstacles
from tpuctl.model import errors, fleet, topology
from tpuctl.ops import next_steps, ways_out

if TYPE_CHECKING:
    from collections.abc import Callable


def error_for(
    snapshot: fleet.Fleet,
    refusal: placement.Refusal,
    wish: placement.Request | None = None,
    *,
    me: Callable[[], str] = ways_out.nobody,
) -> errors.TpuctlError:
    """The error for a refusal, with needed, usable and counted reasons for each block.

    If `wish` names cubes, the reasons are told for each of them; that somebody else has them is a conflict,
    not a lack of room. `me` tells who acts, so that commands to run can be exact.
    """
    if wish is not None and wish.cubes:
        return _of_named(snapshot, refusal, wish, me)
    labels = snapshot.block_labels
    lines = [_candidate_line(labels[candidate.block], candidate, refusal) for candidate in refusal.candidates]
    when = "never fits: no block is that large" if refusal.never else "does not fit now"
    best = "" if refusal.never else f", the best block has {refusal.usable} usable"
    return errors.DoesNotFit(
        f"topology {refusal.topology} {when}: {refusal.demand}{best}",
        hint=_hint(snapshot, refusal, wish, me),
        details=tuple(lines) or ("there are no cubes at all; make some with: tpuctl nodepool setup",),
    )


def clash(found: forming.Clash, snapshot: fleet.Fleet) -> errors.Conflict:
    """The error for a name that cannot be used; the snapshot is the one that was decided on."""
    name = found.slice.name
    hints = {
        forming.ClashKind.OTHER_SPEC: f"choose another name, or first: tpuctl slice deform {name}",
        forming.ClashKind.DELETING: "wait until it is gone, then run the command again",
    }
    hint = hints.get(found.kind) or next_steps.of_failed(snapshot, found.slice)
    return errors.Conflict(f"slice {name}: {found.kind.value}: {found.why}", hint=hint)


def foreign(name: str, owner: fleet.Owner) -> errors.GuardStopped:
    """The error for a slice that is not ours to change."""
    if owner == fleet.BY_HAND:
        return errors.GuardStopped(
            f"slice {name} was made by hand or by an unknown program, not by tpuctl",
            hint="make sure that nobody needs it, then add --force-foreign",
        )
    return errors.GuardStopped(
        f"slice {name} belongs to {owner}, which would make it again",
        hint=f"act on that {owner.kind or 'object'} instead, or add --force-foreign",
    )


def _of_named(
    snapshot: fleet.Fleet, refusal: placement.Refusal, wish: placement.Request, me: Callable[[], str]
) -> errors.TpuctlError:
    takers = _takers(refusal)
    if takers:
        freeing = "; ".join(ways_out.freeing(snapshot, wish.cubes, me))
        return errors.Conflict(
            f"the cubes named are taken: {', '.join(takers)}",
            hint=f"name others, or first: {freeing}" if freeing else "see: tpuctl cube list",
        )
    lines = [line for cube in wish.cubes if (line := why_not(snapshot, cube, wish))]
    degraded = ways_out.allowing_degraded_helps(snapshot, wish)
    return errors.DoesNotFit(
        f"{len(lines)} of the {len(wish.cubes)} cubes named cannot be used",
        hint="--allow-degraded would make it fit, with less bandwidth" if degraded else None,
        details=tuple(lines),
    )


def why_not(snapshot: fleet.Fleet, cube_id: str, wish: placement.Request) -> str:
    """What stands in the way of one named cube or partition, by itself; empty if nothing does."""
    shape = wish.topology if wish.topology.is_sub_slice else topology.CUBE
    alone = dataclasses.replace(wish, topology=shape, cubes=(cube_id,))
    found = placement.place(snapshot, alone)
    if isinstance(found, placement.Placement):
        return ""
    reasons = sorted(map(str, _obstacles(found)))
    cube = snapshot.cubes_by_id.get(snapshot.cube_of_partition.get(cube_id, cube_id))
    cordoned = [host.name for host in cube.hosts if not host.schedulable] if cube else []
    hosts = f" (hosts {', '.join(cordoned[:3])})" if cordoned else ""
    return f"cube {cube_id}: {', '.join(reasons) or 'no such partition'}{hosts}"


def _obstacles(refusal: placement.Refusal) -> set[placement.Obstacle]:
    """Whatever stands in the way of the cubes that were named."""
    return {
        obstacle
        for candidate in refusal.candidates
        for obstacle, _ in candidate.obstacles
        if obstacle is not placement.Obstacle.NOT_ASKED
    }


def _takers(refusal: placement.Refusal) -> tuple[str, ...]:
    """Who has the cubes that were named, if that is all that is wrong with them."""
    mine = {placement.Obstacle.IN_USE, *obstacles.KEPT}
    wrong = _obstacles(refusal)
    if not wrong or wrong - mine:
        return ()
    slices = {f"slice {name}" for candidate in refusal.candidates for name, _ in candidate.holders}
    return tuple(sorted(slices | {who for candidate in refusal.candidates for who in candidate.claims}))


def _candidate_line(label: str, candidate: placement.Candidate, refusal: placement.Refusal) -> str:
    reasons = ", ".join(f"{count} {obstacle}" for obstacle, count in candidate.obstacles)
    holders = ", ".join(f"{name} {count}" for name, count in candidate.holders)
    if sum(count for _, count in candidate.holders) > dict(candidate.obstacles).get(
        placement.Obstacle.IN_USE, 0
    ):
        holders += ", some in one cube"
    who = "; ".join([f"slices: {holders}"] * bool(holders) + list(candidate.claims))
    parts = [
        f"block {label}: {candidate.usable} of {candidate.total} {refusal.unit} usable",
        f"; rest: {reasons}" if reasons else "",
        f" ({who})" if who else "",
    ]
    return "".join(parts)


def _asked_again(snapshot: fleet.Fleet, refusal: placement.Refusal, wish: placement.Request | None) -> str:
    """The same question to `capacity why-not`, with all that was asked for."""
    words = [f"tpuctl capacity why-not --topology {refusal.topology}"]
    if wish is not None and wish.block is not None:
        words.append(f"--block {snapshot.block_labels.get(wish.block, wish.block)}")
    if wish is not None and wish.priority:
        words.append(f"--priority {wish.priority}")
    if wish is not None and wish.allow_degraded:
        words.append("--allow-degraded")
    return " ".join(words)


def _hint(
    snapshot: fleet.Fleet,
    refusal: placement.Refusal,
    wish: placement.Request | None,
    me: Callable[[], str],
) -> str | None:
    """The cheapest way out that the engine has verified; else what is missing."""
    if refusal.never:
        return None
    found = ways_out.sentence(snapshot, refusal, wish, me) if wish is not None else None
    if found is not None:
        return f"{found}\n(other ways: {_asked_again(snapshot, refusal, wish)})"
    missing = refusal.needed - refusal.usable
    unit = refusal.unit.removesuffix("s") if missing == 1 else refusal.unit
    lacking = f"{missing} more {unit} must become free or healthy in one block"
    kept = ways_out.open_operations(refusal)
    if not kept:
        return lacking
    finishing = "; ".join(f"tpuctl operation resume {name}" for name in kept)
    return f"{lacking}\nopen operations keep some, finish those first: {finishing}"
