"""Why a cube or a partition cannot be taken."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from tpuctl.model import operations, states

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tpuctl.model import fleet


class Obstacle(enum.StrEnum):
    """Why a cube or a partition cannot be taken; the value is what people read."""

    IN_USE = "in use"
    HELD = "held"
    """By a person, or set aside in a decision."""
    OPERATION = "in an open operation"
    REBOOT = "being rebooted"
    PODS = "with pods of a former slice"
    UNHEALTHY = "unhealthy"
    DEGRADED = "degraded"
    INCOMPLETE = "incomplete"
    UNKNOWN = "state unknown"
    CORDONED = "cordoned"
    NO_NODES = "no nodes"
    SPARE = "kept as a spare"
    OTHER_BLOCK = "in another block"
    NOT_ASKED = "not in the given list"


_BY_KEEPER = {
    operations.Keeper.OPERATION: Obstacle.OPERATION,
    operations.Keeper.REBOOT: Obstacle.REBOOT,
    operations.Keeper.HOLD: Obstacle.HELD,
    operations.Keeper.PODS: Obstacle.PODS,
}
"""Of several, the first counts: what people can do least about."""
KEPT = frozenset(_BY_KEEPER.values())
"""Somebody keeps it, who is named beside the count."""

_BY_VERDICT = {
    states.Verdict.UNHEALTHY: Obstacle.UNHEALTHY,
    states.Verdict.INCOMPLETE: Obstacle.INCOMPLETE,
    states.Verdict.UNKNOWN: Obstacle.UNKNOWN,
}


def of_health(
    verdict: states.Verdict, hosts: Iterable[fleet.Host], *, allow_degraded: bool
) -> Obstacle | None:
    """What stands in the way of hosts with this verdict; None if nothing does."""
    if verdict in _BY_VERDICT:
        return _BY_VERDICT[verdict]
    if verdict is states.Verdict.DEGRADED and not allow_degraded:
        return Obstacle.DEGRADED
    return None if all(host.schedulable for host in hosts) else Obstacle.CORDONED


def of_claims(holders: Iterable[str]) -> Obstacle | None:
    """What keeps a cube, by the words of its claims; None if nobody does."""
    found = {_BY_KEEPER[operations.kept_by(holder).keeper] for holder in holders}
    return next((obstacle for obstacle in _BY_KEEPER.values() if obstacle in found), None)
