"""Why a cube or a partition cannot be taken."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from tpuctl.model import states

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tpuctl.model import fleet


class Obstacle(enum.StrEnum):
    """Why a cube or a partition cannot be taken; the value is what people read."""

    IN_USE = "in use"
    HELD = "held"
    UNHEALTHY = "unhealthy"
    DEGRADED = "degraded"
    INCOMPLETE = "incomplete"
    UNKNOWN = "state unknown"
    CORDONED = "cordoned"
    NO_NODES = "no nodes"
    SPARE = "kept as a spare"
    OTHER_BLOCK = "in another block"
    NOT_ASKED = "not in the given list"


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
