"""Which repairs begin now, which have to wait and for what, and how long a yes lasts meanwhile."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.engine.health import hosts as host_evidence
from tpuctl.model import declared, repairs

if TYPE_CHECKING:
    import datetime
    from collections.abc import Mapping, Sequence

    from tpuctl.engine.remediation import cases
    from tpuctl.engine.remediation import world as worlds

State = repairs.State
Remedy = declared.Remedy


def to_begin(
    world: worlds.World, items: Sequence[repairs.Item], examined: Mapping[str, cases.Examined]
) -> tuple[tuple[repairs.Item, ...], tuple[tuple[str, str], ...]]:
    """Items to carry out now, and those that wait with why.

    The budget counts what runs, taken from the items themselves.
    """
    budget = world.spec.budgets.cubes_in_repair_per_block
    running = {item.id: item for item in items if item.state is State.RUNNING}
    begin = [item for item in running.values() if must_go_on(item)]
    waiting = []
    agreed = [item for item in items if _is_agreed(world, item)]
    for item in sorted(agreed, key=lambda one: (not _is_failover(one), one.proposed_at, one.id)):
        why = _why_not_now(world, item, examined) or _in_the_way(item, tuple(running.values()), budget)
        if why:
            waiting.append((item.id, why))
        else:
            begin.append(item)
            running[item.id] = item
    return tuple(begin), tuple(waiting)


def _in_the_way(item: repairs.Item, running: Sequence[repairs.Item], budget: int) -> str:
    """Another repair of the cube, or too many in its block. A host that Google repairs is in nobody's way."""
    case = item.case
    beside = [one for one in running if one.case.cube == case.cube and one.step is not repairs.Step.REPORTED]
    if beside:
        return f"repair {beside[0].id} of the same cube is under way"
    if _is_failover(item):
        return ""  # it takes no cube out of use that was in use
    cubes = {one.case.cube for one in running if one.case.block == case.block and not _is_failover(one)}
    if len(cubes | {case.cube}) > budget:
        return f"repair budget: {len(cubes)} of {budget} cubes of block {case.block} are in repair"
    return ""


def must_go_on(item: repairs.Item) -> bool:
    """If true, it was interrupted: a step was announced or prepared, and not written down as done."""
    return item.state is State.RUNNING and (item.step.is_open_ended or item.step is repairs.Step.HELD)


def may_begin(world: worlds.World, item: repairs.Item, examined: Mapping[str, cases.Examined]) -> bool:
    """If true, people have said yes, and at most other repairs are in its way: its turn may come any moment.

    What only waits for a maintenance window leaves its cube in use: that may take a week.
    """
    return item.state is State.APPROVED and not _why_not_now(world, item, examined)


def _is_failover(item: repairs.Item) -> bool:
    return item.case.remedy is Remedy.FAILOVER


def _is_agreed(world: worlds.World, item: repairs.Item) -> bool:
    if world.mode is declared.Mode.OBSERVE:
        return False
    allowed = item.state is State.PROPOSED and item.approvals_needed == 0
    return item.state is State.APPROVED or allowed


def _why_not_now(world: worlds.World, item: repairs.Item, examined: Mapping[str, cases.Examined]) -> str:
    cube = world.cube_of(item.case)
    found = examined[cube.id] if cube is not None else None
    if found is None or all(case.key != item.case.key for case in found.cases):
        return f"not sure any more: {found.says[0] if found is not None and found.says else 'look again'}"
    if (
        item.state is State.PROPOSED
        and (world.now - item.proposed_at).total_seconds() < world.policy.settle_s
    ):
        return "it has to be seen again first"
    if item.case.voluntary and not declared.is_open(world.spec.windows, world.now):
        opening = declared.next_window(world.spec.windows, world.now)
        when = f": the next opens at {host_evidence.when(opening.starts_at)}" if opening is not None else ""
        return f"it interrupts work, and no maintenance window is open{when}"
    return ""


def lasting(world: worlds.World, item: repairs.Item) -> repairs.Item:
    """The item with the time until which it counts: a yes lasts until it could be acted on.

    That is to the end of the first maintenance window that opens after the yes, if it waits for one. Counted
    from the yes, it is the same in every review.
    """
    if item.state is not State.APPROVED or not item.case.voluntary or not item.approvals:
        return item
    opening = declared.next_window(world.spec.windows, _agreed_at(item))
    if opening is None or opening.ends_at <= item.expires_at:
        return item
    return dataclasses.replace(item, expires_at=opening.ends_at)


def _agreed_at(item: repairs.Item) -> datetime.datetime:
    return max(approval.at for approval in item.approvals)
