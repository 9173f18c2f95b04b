"""Cubes that have to leave a slice: nothing else is done to a cube with work on it before that was tried."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tpuctl.engine import swapping
from tpuctl.engine.health import verdicts
from tpuctl.engine.remediation import findings, ladder
from tpuctl.model import health, repairs, states

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tpuctl.engine.remediation import world as worlds
    from tpuctl.model import fleet

Ailment = repairs.Ailment
_BROKEN = frozenset({states.Verdict.UNHEALTHY, states.Verdict.INCOMPLETE})
"""The loop swaps cubes of these verdicts by itself, and of no other."""


class Failover(NamedTuple):
    """A slice that can lose the cube."""

    slice: fleet.Slice
    ailment: Ailment
    plan: swapping.SwapPlan


class Stays(NamedTuple):
    """A slice on a bad cube that cannot lose it now, and why."""

    slice: fleet.Slice
    why: str


def of_cube(
    world: worlds.World, cube: fleet.Cube, found: Sequence[findings.Finding], *, busy: bool
) -> tuple[Failover | Stays, ...]:
    """What is to become of the slices on a cube that is not as it should be.

    `busy`: maintenance or a repair goes on; then only a slice that is down already is worth the move.
    """
    sick = any(finding.standing is findings.Standing.NEEDS for finding in found)
    judgement = world.judgement(cube)
    answers = []
    for name in world.snapshot.holders.get(cube.id, ()):
        item = world.snapshot.slices_by_name[name]
        ailment = _ailment(world, item, judgement, sick=sick)
        if ailment is not None and not item.deleting and not (busy and item.state.is_ready):
            answers.append(_answer(world, cube, item, ailment))
    return tuple(answers)


def _ailment(
    world: worlds.World, item: fleet.Slice, judgement: health.Judgement, *, sick: bool
) -> Ailment | None:
    if sick or judgement.verdict in _BROKEN:
        return Ailment.CUBE_BROKEN
    wanted = world.wanted.get(item.name)
    degraded = judgement.verdict is states.Verdict.DEGRADED and health.Domain.FABRIC in judgement.domains
    if degraded and not judgement.is_tolerated and wanted is not None and not wanted.allow_degraded:
        return Ailment.CUBE_DEGRADED
    return None


def _answer(world: worlds.World, cube: fleet.Cube, item: fleet.Slice, ailment: Ailment) -> Failover | Stays:
    if item.owner is not None:
        return Stays(item, f"slice {item.name} belongs to {item.owner}, which has to move it")
    refused = ladder.failover_refused(world, cube.id)
    if refused:
        return Stays(item, f"slice {item.name} stays: {refused}")
    wanted = world.wanted.get(item.name)
    wish = swapping.Wish(
        bad=(cube.id,),
        allow_degraded=wanted is not None and wanted.allow_degraded,
        policy=world.policy,
    )
    found = swapping.plan_swap(world.room, item, wish)
    if isinstance(found, swapping.SwapPlan):
        return Failover(item, ailment, found)
    if isinstance(found, swapping.Impossible):
        return Stays(item, f"slice {item.name} cannot be swapped: {found.why.value}")
    return Stays(item, f"slice {item.name} stays: no spare cube of its block can take the place")


def why_not_the_loop(world: worlds.World, cube: fleet.Cube, answer: Failover) -> str:
    """Why the loop does not swap the cube by itself, even where that is allowed; empty if it does.

    It mends the slices of the fleet file, and it needs to know that the cube is broken: a host that only fell
    silent proves nothing, as its work may still run.
    """
    item = answer.slice
    wanted = world.wanted.get(item.name)
    if wanted is None:
        return f"the fleet file does not name slice {item.name}"
    if item.topology not in wanted.shapes:
        return f"the fleet file wants slice {item.name} in another shape"
    if answer.ailment is Ailment.CUBE_DEGRADED or not cube.hosts:
        return ""
    verdict = verdicts.of(cube, world.policy, world.now).verdict
    if verdict in _BROKEN:
        return ""
    return f"cube {cube.id} is {verdict}, which alone is no reason to take slice {item.name} apart"
