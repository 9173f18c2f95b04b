"""Delete node pools: never under a slice, and only after a second look."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from tpuctl.model import errors, fleet
from tpuctl.ops import carving, locking, operations, running, waiting

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tpuctl.ops import ports as ports_module


def prepare(ports: ports_module.Ports, pool_names: Sequence[str]) -> tuple[fleet.NodePool, ...]:
    """The pools to delete; names that no pool has are left out: there is nothing to do for them.

    Raises Conflict if a slice, a hold or an operation uses one of them: GKE does not delete a pool under an
    active slice, and a slice that is failed or going away still names its partitions.
    """
    pools = {pool.name: pool for pool in ports.pools.list()}
    snapshot = ports.fleet.observe(running.SOURCES)
    used = dict(_users(snapshot, [pools[name] for name in pool_names if name in pools]))
    if used:
        raise errors.Conflict(
            f"{len(used)} of {len(pool_names)} node pools are in use; nothing was deleted",
            hint="take the slices apart first: tpuctl slice deform NAME",
            details=tuple(f"{pool}: {', '.join(users)}" for pool, users in sorted(used.items())),
        )
    return tuple(pools[name] for name in pool_names if name in pools)


def execute(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    pools: Sequence[fleet.NodePool],
    *,
    wait: bool = True,
    timeout_s: float = carving.DEFAULT_TIMEOUT_S,
) -> None:
    """Delete them, looking again first; with `wait` false, leave the rest to GKE once it has begun.

    Raises what `prepare` raises, and TimedOut.
    """
    with locking.held(ports, reporter, locking.POOLS) as lock:
        with locking.held(ports, reporter, locking.PLACEMENT) as choice:
            # While nobody chooses cubes: no slice can be formed on these pools between look and deletion.
            prepare(ports, [pool.name for pool in pools])
            fenced = locking.fenced(ports, lock, choice)
            deadline = waiting.Deadline.after(fenced.clock, timeout_s)
            started = [_start(fenced, reporter, deadline, pool) for pool in pools]
        fenced = locking.fenced(ports, lock)
        for operation in started if wait else ():
            operations.finish(fenced, waiting.Deadline.after(fenced.clock, timeout_s), operation)
    reporter.going_on("")


def _start(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    deadline: waiting.Deadline,
    pool: fleet.NodePool,
) -> ports_module.Operation:
    reporter.going_on("GKE goes on deleting node pools; see: tpuctl nodepool list")
    operation = operations.start(deadline, reporter, functools.partial(ports.pools.delete, pool.name))
    reporter.step(f"node pool {pool.name}: deletion asked for")
    return operation


def _users(snapshot: fleet.Fleet, pools: Iterable[fleet.NodePool]) -> Iterable[tuple[str, tuple[str, ...]]]:
    """Who uses a pool, by its cube; a pool without nodes is known by its sub-block only."""
    cubes = {host.pool: cube.id for cube in snapshot.cubes for host in cube.hosts}
    for pool in pools:
        cube_id = cubes.get(pool.name, "")
        slices = tuple(f"slice {name}" for name in snapshot.holders.get(cube_id, ()))
        claims = {
            holder: None for key in (cube_id, pool.sub_block) for holder in snapshot.claimants.get(key, ())
        }
        if slices or claims:
            yield pool.name, (*slices, *claims)
