"""The way back from an open operation: looked at before it is gone.

What an operation has begun cannot always be taken back: its old cubes may be broken, which may be why it was
begun at all.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.engine import blast, health, placement, second_choice
from tpuctl.model import counts, errors, fleet, operations
from tpuctl.model import health as health_values
from tpuctl.ops import journal, refusals, running

if TYPE_CHECKING:
    from tpuctl.ops import ports as ports_module

SOURCES = (*running.SOURCES, fleet.SourceName.PODS)
_SHOWN_REASONS = 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Retreat:
    """What going back will do."""

    operation: operations.Operation
    steps: tuple[str, ...]
    """In order, one sentence each."""
    radius: blast.BlastRadius | None = None
    """What the slice that is taken away runs; None if none is."""
    obstacles: tuple[str, ...] = ()
    """Why the old cubes cannot form, one sentence a cube; empty if they can, or need not."""


def look(
    ports: ports_module.Ports,
    operation_id: str,
    policy: health_values.HealthPolicy = health_values.DEFAULT_POLICY,
) -> Retreat:
    """Raises NotFound, Conflict for an operation that can only be finished."""
    return of(ports, journal.find(ports, operation_id).operation, policy)


def of(
    ports: ports_module.Ports,
    operation: operations.Operation,
    policy: health_values.HealthPolicy = health_values.DEFAULT_POLICY,
) -> Retreat:
    """The way back from one operation as the world is now; raises Conflict if there is none."""
    if operation.why_no_way_back:
        raise errors.Conflict(
            f"operation {operation.id} {operation.why_no_way_back}",
            hint=f"finish it: tpuctl operation resume {operation.id}",
        )
    if operation.kind is operations.Kind.FORM:
        return _from_form(ports, operation)
    if operation.kind is operations.Kind.SWAP and operation.is_begun:
        return _from_swap(ports, operation, policy)
    cordoned = len(operation.cordons)
    open_again = (f"the cordon is taken off {counts.of(cordoned, 'host')} again",) if cordoned else ()
    steps = (f"slice {operation.slice_name} stays as it is: nothing was begun", *open_again)
    return Retreat(operation=operation, steps=steps)


def check(now: Retreat, *, accept_failure: bool, shown: Retreat | None = None) -> None:
    """Stop before a way back that ends badly, or is not the one that was shown.

    Raises DoesNotFit if the old cubes cannot form and `accept_failure` is not set, Conflict if pods that were
    not shown have come.
    """
    found = now.operation
    if now.obstacles and not accept_failure:
        raise errors.DoesNotFit(
            f"slice {found.slice_name} cannot go back: its old cubes do not form as they are; "
            "nothing was done",
            hint=f"go on with other cubes: tpuctl operation resume {found.id}, or go back when these are "
            "mended; --accept-failure goes back at once and leaves the slice failed",
            details=now.obstacles,
        )
    if shown is not None and _pods(now) - _pods(shown):
        raise errors.Conflict(
            f"pods have started on slice {found.slice_name} since it was shown: "
            f"{len(_pods(now) - _pods(shown))}; nothing was done",
            hint="run the command again to see them",
        )


def _pods(found: Retreat) -> set[str]:
    return {pod.uid for pod in found.radius.pods} if found.radius is not None else set()


def _from_form(ports: ports_module.Ports, operation: operations.Operation) -> Retreat:
    snapshot = ports.fleet.observe(SOURCES)
    item = snapshot.slices_by_name.get(operation.slice_name)
    if item is None or {*item.partition_ids} != {*operation.partitions}:
        steps = (f"slice {operation.slice_name} was not made; its cubes are given back",)
        return Retreat(operation=operation, steps=steps)
    if item.owner is not None:
        return Retreat(operation=operation, steps=(_left_alone(item),))
    steps = (f"slice {item.name} ({item.reason or item.state}) is deleted and its cubes are given back",)
    return Retreat(operation=operation, steps=steps, radius=blast.of_slice(snapshot, item))


def _from_swap(
    ports: ports_module.Ports, operation: operations.Operation, policy: health_values.HealthPolicy
) -> Retreat:
    snapshot = ports.fleet.observe(SOURCES)
    name = operation.slice_name
    item = snapshot.slices_by_name.get(name)
    if item is not None and item.uid == operation.old_uid and not item.deleting:
        return Retreat(operation=operation, steps=(f"slice {name} stays as it is: it was not deleted yet",))
    new = item if item is not None and item.uid != operation.old_uid else None
    if new is not None and new.owner is not None:
        return Retreat(operation=operation, steps=(_left_alone(new),))
    if new is not None and {*new.partition_ids} == {*operation.old_partitions}:
        steps = (f"slice {name} has its old cubes again and is waited for",)
        return Retreat(operation=operation, steps=steps)
    again = f"slice {name} is made again on its old cubes: {', '.join(operation.old_partitions)}"
    obstacles = _obstacles(snapshot, operation, policy)
    if new is None:
        return Retreat(operation=operation, steps=(again,), obstacles=obstacles)
    return Retreat(
        operation=operation,
        steps=(f"slice {name} ({new.reason or new.state}) with the new cubes is deleted", again),
        radius=blast.of_slice(snapshot, new),
        obstacles=obstacles,
    )


def _left_alone(item: fleet.Slice) -> str:
    stays = f"slice {item.name} was made by {item.owner} and stays as it is"
    return f"{stays}; what the operation kept is given back"


def _obstacles(
    snapshot: fleet.Fleet, operation: operations.Operation, policy: health_values.HealthPolicy
) -> tuple[str, ...]:
    old = operation.old_partitions
    if second_choice.can_form(snapshot, operation, old, policy):
        return ()
    without = second_choice.as_if_over(snapshot, operation)
    wish = placement.Request(
        topology=operation.topology,
        cubes=old,
        allow_degraded=True,
        policy=policy,
        slice_name=operation.slice_name,
    )
    lines = (
        f"{line}{_reasons(without, cube_id, policy)}"
        for cube_id in old
        if (line := refusals.why_not(without, cube_id, wish))
    )
    return tuple(lines) or ("they do not belong to one block any more",)


def _reasons(snapshot: fleet.Fleet, cube_id: str, policy: health_values.HealthPolicy) -> str:
    cube = snapshot.cubes_by_id.get(snapshot.cube_of_partition.get(cube_id, cube_id))
    found = () if cube is None else health.judge(cube, policy, now=snapshot.observed_at).reasons
    return f": {'; '.join(found[:_SHOWN_REASONS])}" if found else ""
