"""Which rung comes next: attempts, cooldowns and refusals, all counted from what was done, never kept."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.engine.health import hosts as host_evidence
from tpuctl.engine.remediation import rules
from tpuctl.model import declared, repairs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tpuctl.engine.remediation import world as worlds

State = repairs.State
Remedy = declared.Remedy
_AFRESH = frozenset({Remedy.REMOVE, Remedy.REPROVISION})
"""After one of these that helped, the hardware or its VMs are new, and counting begins anew."""


class Next(NamedTuple):
    """The rung to take."""

    remedy: Remedy
    attempt: int
    previous: tuple[repairs.Rung, ...]
    skipped: tuple[Remedy, ...]
    """Milder remedies that the policy has switched off."""


def next_rung(world: worlds.World, cube: str, host: str, remedies: Sequence[Remedy]) -> Next | str:
    """The next remedy for a cube, or one host of it; a sentence if there is none now."""
    policy = world.spec.remediation
    previous = tried(world, cube, host)
    skipped: list[Remedy] = []
    for remedy in remedies:
        if policy.permission(remedy) is declared.Permission.OFF:
            skipped.append(remedy)
            continue
        attempts = sum(rung.remedy is remedy for rung in previous)
        if attempts >= policy.attempts:
            continue
        refused = _refused(world, cube, host, remedy)
        return refused or Next(remedy, attempts + 1, previous, tuple(skipped))
    if not previous:
        return "the policy switches every remedy for it off"
    return "every remedy that the policy allows was tried: " + ", ".join(
        f"{rung.remedy} {rung.state} at {host_evidence.when(rung.at)}" for rung in previous
    )


def tried(world: worlds.World, cube: str, host: str) -> tuple[repairs.Rung, ...]:
    """What was carried out on this target lately, oldest first; failovers take nothing from it."""
    start = world.now - datetime.timedelta(seconds=rules.ATTEMPTS_WINDOW_S)
    found: list[repairs.Rung] = []
    for rung in world.ledger.rungs:
        if rung.cube != cube or not rung.counts or rung.at < start:
            continue
        if rung.remedy in _AFRESH and rung.state is State.DONE and rung.host in ("", host):
            found = []
        elif rung.host == host and rung.remedy is not Remedy.FAILOVER:
            found.append(rung)
    return tuple(found)


def cooling_until(world: worlds.World, cube: str) -> datetime.datetime | None:
    """When the cooldown after the last finished repair of the cube ends; None if there is none."""
    ends = [
        rung.at + datetime.timedelta(seconds=world.spec.remediation.cooldown_s)
        for rung in world.ledger.rungs
        if rung.cube == cube and rung.counts
    ]
    return max((end for end in ends if end > world.now), default=None)


def _refused(world: worlds.World, cube: str, host: str, remedy: Remedy) -> str:
    """Why it is not proposed although it would be its turn: a person said no, or stopped it."""
    policy = world.spec.remediation
    for rung in reversed(world.ledger.rungs):
        if (rung.cube, rung.host, rung.remedy) != (cube, host, remedy):
            continue
        age_s = (world.now - rung.at).total_seconds()
        when = host_evidence.when(rung.at)
        if rung.state is State.REJECTED and age_s < policy.expiry_s:
            return f"{remedy} was rejected at {when}: {rung.note}"
        if rung.state is State.CANCELLED and age_s < policy.cooldown_s:
            return f"{remedy} was cancelled at {when}: {rung.note}"
        return ""
    return ""


def failover_refused(world: worlds.World, cube: str) -> str:
    """The same for a failover, which no attempts are counted for."""
    if world.spec.remediation.permission(Remedy.FAILOVER) is declared.Permission.OFF:
        return "the policy switches failover off"
    attempts = [
        rung
        for rung in world.ledger.rungs
        if rung.cube == cube and rung.remedy is Remedy.FAILOVER and rung.state is State.FAILED
    ]
    start = world.now - datetime.timedelta(seconds=rules.ATTEMPTS_WINDOW_S)
    failed = sum(rung.at >= start for rung in attempts)
    if failed >= world.spec.remediation.attempts:
        return f"failover failed {failed} times, the last time: {attempts[-1].note}"
    return _refused(world, cube, "", Remedy.FAILOVER)
