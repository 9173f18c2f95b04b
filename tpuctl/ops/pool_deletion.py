"""Delete node pools: never under a slice, and only after a second look."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from tpuctl.model import errors, fleet
from tpuctl.ops import carving, operations, waiting

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tpuctl.ops import ports as ports_module


def prepare(ports: ports_module.Ports, pool_names: Sequence[str]) -> tuple[fleet.NodePool, ...]:
    """The pools to delete.

    Raises NotFound for a name that no pool has, Conflict if a slice uses one of them: GKE does not delete a
    pool under an active slice, and a slice that is failed or going away still names its partitions.
    """
    pools = {pool.name: pool for pool in ports.pools.list()}
    missing = [name for name in pool_names if name not in pools]
    if missing:
        raise errors.NotFound(f"there is no node pool '{missing[0]}'", hint="see: tpuctl nodepool list")
    snapshot = ports.fleet.observe((fleet.SourceName.NODES, fleet.SourceName.SLICES))
    used = dict(_users(snapshot, set(pool_names)))
    if used:
        raise errors.Conflict(
            f"{len(used)} of {len(pool_names)} node pools are used by slices; nothing was deleted",
            hint="take the slices apart first: tpuctl slice deform NAME",
            details=tuple(f"{pool}: slice {', '.join(names)}" for pool, names in sorted(used.items())),
        )
    return tuple(pools[name] for name in pool_names)


def execute(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    pools: Sequence[fleet.NodePool],
    *,
    timeout_s: float = carving.DEFAULT_TIMEOUT_S,
) -> None:
    """Delete them, looking again first. Raises what `prepare` raises, and TimedOut."""
    deadline = waiting.Deadline.after(ports.clock, timeout_s)
    prepare(ports, [pool.name for pool in pools])
    reporter.going_on("GKE goes on deleting node pools; see: tpuctl nodepool list")
    running = []
    for pool in pools:
        start = functools.partial(ports.pools.delete, pool.name)
        running.append(operations.start(deadline, reporter, start))
        reporter.step(f"node pool {pool.name}: deletion asked for")
    for operation in running:
        operations.finish(ports, deadline, operation)
    reporter.going_on("")


def _users(snapshot: fleet.Fleet, pools: set[str]) -> Iterable[tuple[str, tuple[str, ...]]]:
    for cube in snapshot.cubes:
        names = snapshot.holders.get(cube.id, ())
        for pool in {host.pool for host in cube.hosts} & pools:
            if names:
                yield pool, names
