"""Delete node pools: never under a slice, and only after a second look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.engine import astray
from tpuctl.model import errors, fleet, states
from tpuctl.ops import carving, holding, locking, operations, running, waiting, ways_out
from tpuctl.ops import ports as ports_module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

SOURCES = (*running.SOURCES, fleet.SourceName.PODS, fleet.SourceName.NODE_POOLS)


def prepare(ports: ports_module.Ports, pool_names: Sequence[str]) -> tuple[fleet.NodePool, ...]:
    """The pools to delete; names that no pool has are left out: there is nothing to do for them.

    Raises Conflict if a slice, a hold or an operation uses one of them: GKE does not delete a pool under an
    active slice, and a slice that is failed or going away still names its partitions. Nodes without partition
    labels may be those of a slice, and so may a pool without labelled nodes.
    """
    pools = {pool.name: pool for pool in ports.pools.list()}
    snapshot = ports.fleet.observe(SOURCES)
    used = dict(_users(snapshot, [pools[name] for name in pool_names if name in pools]))
    if used:
        raise errors.Conflict(
            f"{len(used)} of {len(pool_names)} node pools are in use; nothing was deleted",
            hint=_way_out(snapshot, [pools[name] for name in used], lambda: holding.owner_name(ports)),
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

    A deletion that runs already is waited for and not asked for again. Raises what `prepare` raises, and
    TimedOut.
    """
    with locking.held(ports, reporter, locking.POOLS) as lock:
        fenced = locking.fenced(ports, lock)
        deadline = waiting.Deadline.after(fenced.clock, timeout_s)
        started = _start_all(fenced, reporter, deadline, [pool.name for pool in pools])
        for operation in started if wait else ():
            operations.finish(fenced, waiting.Deadline.after(fenced.clock, timeout_s), operation)
    reporter.going_on("")


def _start_all(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    deadline: waiting.Deadline,
    names: Sequence[str],
) -> list[ports_module.Operation]:
    """Begin every deletion. While the cluster is busy, others may choose cubes; then all is read again."""
    started: dict[str, ports_module.Operation] = {}
    while True:
        left = [name for name in names if name not in started]
        with locking.held(ports, reporter, locking.PLACEMENT) as choice:
            # While nobody chooses cubes: no slice can be formed on these pools between look and deletion.
            choosing = locking.fenced(ports, choice)
            try:
                found = prepare(choosing, left)
            except errors.Conflict as conflict:
                conflict.details += tuple(f"{name}: its deletion was asked for" for name in started)
                raise
            reporter.going_on("GKE goes on deleting node pools; see: tpuctl nodepool list")
            stopping = {pool.name for pool in found if pool.status is states.PoolStatus.STOPPING}
            deletions = operations.running(choosing, operations.DELETE_POOL, stopping)
            started |= {operation.target: operation for operation in deletions}
            busy = _ask(choosing, reporter, found, started)
        if busy is None:
            return list(started.values())
        reporter.step(f"the cluster is busy, waiting: {busy.message}")
        if not deadline.pause(operations.BUSY_PAUSE_S):
            raise errors.TimedOut(operations.STAYED_BUSY) from busy


def _ask(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    pools: Sequence[fleet.NodePool],
    started: dict[str, ports_module.Operation],
) -> errors.Busy | None:
    """Ask for the deletions that are not `started`, until the cluster is busy."""
    for pool in pools:
        if pool.name in started:
            continue
        try:
            started[pool.name] = ports.pools.delete(pool.name)
        except errors.Busy as busy:
            return busy
        except errors.NotFound:
            reporter.step(f"node pool {pool.name} is gone already")
            continue
        reporter.step(f"node pool {pool.name}: deletion asked for")
    return None


def _users(snapshot: fleet.Fleet, pools: Iterable[fleet.NodePool]) -> Iterable[tuple[str, tuple[str, ...]]]:
    """Who uses a pool, by its cube; a pool without nodes is known by its sub-block only."""
    cubes = _cubes(snapshot)
    for pool in pools:
        cube_id = cubes.get(pool.name, "")
        slices = tuple(f"slice {name}" for name in snapshot.holders.get(cube_id, ()))
        claims = {
            holder: None for key in (cube_id, pool.sub_block) for holder in snapshot.claimants.get(key, ())
        }
        astray_users = astray.users_of_pool(snapshot, pool)
        users = tuple(dict.fromkeys((*slices, *claims, *astray_users)))
        if users:
            yield pool.name, users


def _cubes(snapshot: fleet.Fleet) -> Mapping[str, str]:
    """Pool -> the cube of its nodes."""
    return {host.pool: cube.id for cube in snapshot.cubes for host in cube.hosts}


def _way_out(snapshot: fleet.Fleet, used: Iterable[fleet.NodePool], me: Callable[[], str]) -> str:
    """What to run first. A slice with an open operation cannot be taken apart before that has ended."""
    cubes = _cubes(snapshot)
    keys = [cubes.get(pool.name, pool.sub_block) for pool in used]
    in_operation = {claim.slice_name for claim in snapshot.claims}
    slices = {name for key in keys for name in snapshot.holders.get(key, ())} - in_operation
    commands = [f"tpuctl slice deform {name}" for name in sorted(slices)]
    commands += ways_out.freeing(snapshot, keys, me)
    if not commands:
        return "see: tpuctl slice list, tpuctl operation list"
    return f"first: {ways_out.first_few(commands)}"
