"""Refusals of the engine as errors that people can act on."""

from __future__ import annotations

import dataclasses

from tpuctl.engine import forming, placement
from tpuctl.model import errors, fleet, topology
from tpuctl.ops import ways_out


def error_for(
    snapshot: fleet.Fleet, refusal: placement.Refusal, wish: placement.Request | None = None
) -> errors.TpuctlError:
    """The error for a refusal, with needed, usable and counted reasons for each block.

    If `wish` names cubes, the reasons are told for each of them; that somebody else has them is a conflict,
    not a lack of room.
    """
    if wish is not None and wish.cubes:
        return _of_named(snapshot, refusal, wish)
    labels = {block.id: block.label for block in snapshot.blocks}
    lines = [_candidate_line(labels[candidate.block], candidate, refusal) for candidate in refusal.candidates]
    when = "never fits: no block is that large" if refusal.never else "does not fit now"
    best = "" if refusal.never else f", the best block has {refusal.usable} usable"
    return errors.DoesNotFit(
        f"topology {refusal.topology} {when}: {refusal.needed} {refusal.unit} of one block needed{best}",
        hint=_hint(snapshot, refusal, wish),
        details=tuple(lines) or ("there are no cubes at all; make some with: tpuctl nodepool setup",),
    )


def clash(found: forming.Clash) -> errors.Conflict:
    """The error for a name that cannot be used."""
    name = found.slice.name
    hints = {
        forming.ClashKind.OTHER_SPEC: f"choose another name, or first: tpuctl slice deform {name}",
        forming.ClashKind.DELETING: "wait until it is gone, then run the command again",
        forming.ClashKind.FAILED: f"take it apart first: tpuctl slice deform {name}",
    }
    return errors.Conflict(f"slice {name}: {found.kind.value}: {found.why}", hint=hints[found.kind])


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
    snapshot: fleet.Fleet, refusal: placement.Refusal, wish: placement.Request
) -> errors.TpuctlError:
    takers = _takers(refusal)
    if takers:
        return errors.Conflict(
            f"the cubes named are taken: {', '.join(takers)}", hint="see: tpuctl cube list"
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
    mine = {placement.Obstacle.IN_USE, placement.Obstacle.HELD}
    wrong = _obstacles(refusal)
    if not wrong or wrong - mine:
        return ()
    slices = {f"slice {name}" for candidate in refusal.candidates for name, _ in candidate.holders}
    return tuple(sorted(slices | {who for candidate in refusal.candidates for who in candidate.claims}))


def _candidate_line(label: str, candidate: placement.Candidate, refusal: placement.Refusal) -> str:
    reasons = ", ".join(f"{count} {obstacle}" for obstacle, count in candidate.obstacles)
    holders = ", ".join(f"{name} {count}" for name, count in candidate.holders)
    who = "; ".join([f"slices: {holders}"] * bool(holders) + list(candidate.claims))
    parts = [
        f"block {label}: {candidate.usable} of {candidate.total} {refusal.unit} usable",
        f"; rest: {reasons}" if reasons else "",
        f" ({who})" if who else "",
    ]
    return "".join(parts)


def _hint(snapshot: fleet.Fleet, refusal: placement.Refusal, wish: placement.Request | None) -> str | None:
    """The cheapest way out that the engine has verified; else what is missing."""
    if refusal.never:
        return None
    found = ways_out.sentence(snapshot, refusal, wish) if wish is not None else None
    if found is not None:
        return f"{found}\n(other ways: tpuctl capacity why-not --topology {refusal.topology})"
    missing = refusal.needed - refusal.usable
    unit = refusal.unit.removesuffix("s") if missing == 1 else refusal.unit
    return f"{missing} more {unit} must become free or healthy in one block"
