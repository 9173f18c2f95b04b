"""What a swap tries when its slice does not form: other cubes, more cubes, or the old ones again."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.engine import health, placement, swapping
from tpuctl.model import operations, states

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tpuctl.model import fleet
    from tpuctl.model import health as health_values


def another_try(
    snapshot: fleet.Fleet, operation: operations.Operation, policy: health_values.HealthPolicy
) -> operations.Operation | None:
    """The operation with other cubes; None if there are none to be had.

    A cube that has broken since the swap began goes as well, whether it is one that came or one that was to
    stay, and its pods are restarted with the others. If none looks broken, all cubes that came are suspects.
    """
    came = {exchange.new: exchange.old for exchange in operation.exchanges}
    suspects = _broken(snapshot, operation.partitions, policy) or tuple(came)
    if not suspects:
        return None
    tried = tuple(sorted({*operation.tried, *came}))
    found = _replacements(snapshot, operation, tried, len(suspects), policy)
    if found is None:
        return None
    kept = tuple(exchange for exchange in operation.exchanges if exchange.new not in suspects)
    olds = (came.get(cube, cube) for cube in suspects)
    exchanges = (*kept, *map(operations.Exchange, olds, found))
    return dataclasses.replace(
        operation,
        exchanges=exchanges,
        partitions=_exchanged(operation.old_partitions, exchanges),
        pods=_pods(snapshot, operation.pods, {exchange.old for exchange in exchanges}),
        tried=tried,
    )


def way_back(operation: operations.Operation) -> operations.Operation:
    """The operation with the cubes that the slice had before."""
    tried = tuple(sorted({*operation.tried, *(exchange.new for exchange in operation.exchanges)}))
    return dataclasses.replace(operation, partitions=operation.old_partitions, tried=tried, aborting=True)


def can_form(
    snapshot: fleet.Fleet,
    operation: operations.Operation,
    partitions: tuple[str, ...],
    policy: health_values.HealthPolicy,
) -> bool:
    """Whether the slice could be formed from these cubes now, as far as can be seen.

    Cordons on cubes that the slice has had do not count, the operation's own among them: they keep new pods
    away, not the slice from what was its own.
    """
    request = placement.Request(
        topology=operation.topology,
        cubes=partitions,
        allow_degraded=True,
        policy=policy,
        slice_name=operation.slice_name,
    )
    return isinstance(placement.place(as_if_over(snapshot, operation), request), placement.Placement)


def other_holders(snapshot: fleet.Fleet, item: fleet.Slice) -> Sequence[str]:
    """Other slices that name partitions in the cubes of `item`."""
    cubes = {snapshot.cube_of_partition.get(part, part) for part in item.partition_ids}
    mine = {host.name for host in snapshot.hosts_of(item)}
    return sorted(
        {
            name
            for cube in cubes
            for name in snapshot.holders.get(cube, ())
            if name != item.name
            and mine & {host.name for host in snapshot.hosts_of(snapshot.slices_by_name[name])}
        }
    )


def as_if_over(snapshot: fleet.Fleet, operation: operations.Operation) -> fleet.Fleet:
    """The fleet without the operation's attempt, and with what was the slice's own open for it again."""
    own = {snapshot.cube_of_partition.get(part, part) for part in operation.old_partitions}

    def opened(cube: fleet.Cube) -> fleet.Cube:
        if cube.id not in own:
            return cube
        return dataclasses.replace(cube, hosts=tuple(host._replace(schedulable=True) for host in cube.hosts))

    blocks = (
        dataclasses.replace(block, cubes=tuple(map(opened, block.cubes)))
        if any(cube.id in own for cube in block.cubes)
        else block
        for block in snapshot.blocks
    )
    return snapshot.without_slice(operation.slice_name).with_blocks(tuple(blocks))


def _replacements(
    snapshot: fleet.Fleet,
    operation: operations.Operation,
    tried: Sequence[str],
    count: int,
    policy: health_values.HealthPolicy,
) -> tuple[str, ...] | None:
    request = placement.Request(
        topology=swapping.row_of(count),
        block=_block_of(snapshot, operation.old_partitions),
        allow_degraded=operation.allow_degraded,
        policy=policy,
        slice_name=operation.slice_name,
        without=(*operation.old_partitions, *tried),
    )
    found = placement.place(snapshot, request)
    return None if isinstance(found, placement.Refusal) else found.partition_ids


def _broken(
    snapshot: fleet.Fleet, partitions: Sequence[str], policy: health_values.HealthPolicy
) -> tuple[str, ...]:
    """Those that are unhealthy or incomplete, or of which no node is left; unknown is no reason to act.

    While nodes are there that no partition label places, one of them may be what is missed.
    """
    is_sure = all(stray.is_static for stray in snapshot.strays)
    bad = (states.Verdict.UNHEALTHY, states.Verdict.INCOMPLETE)
    found = []
    for partition in partitions:
        cube = snapshot.cubes_by_id.get(partition)
        if cube is None:
            found += [partition] * is_sure
        elif health.judge(cube, policy, now=snapshot.observed_at).verdict in bad:
            found.append(partition)
    return tuple(found)


def _exchanged(partitions: Sequence[str], exchanges: Sequence[operations.Exchange]) -> tuple[str, ...]:
    gone = {exchange.old for exchange in exchanges}
    return tuple(sorted({*partitions} - gone | {exchange.new for exchange in exchanges}))


def _pods(
    snapshot: fleet.Fleet, pods: Sequence[operations.PodRef], olds: set[str]
) -> tuple[operations.PodRef, ...]:
    """The pods, with those of cubes that go now marked for their restart."""
    cube_of = {host.name: cube.id for cube in snapshot.cubes for host in cube.hosts}
    return tuple(pod._replace(replaced=pod.replaced or cube_of.get(pod.node) in olds) for pod in pods)


def _block_of(snapshot: fleet.Fleet, partitions: Sequence[str]) -> str | None:
    known = (snapshot.cubes_by_id.get(partition) for partition in partitions)
    return next((cube.block for cube in known if cube is not None), None)
