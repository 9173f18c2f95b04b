"""Make node pools: one for each sub-block, so that reserved hardware becomes cubes.

Repeatable by names alone: a pool's name follows from its sub-block, so a run that was killed is finished by
running again. Creations are started one after the other and waited for together; "busy" is an answer of the
cluster, not a failure of a cube.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.engine import carving
from tpuctl.model import declared, errors, fleet, states, topology
from tpuctl.ops import locking, operations, waiting
from tpuctl.ops import ports as ports_module

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DEFAULT_TIMEOUT_S = 4 * 3600.0
DEFAULT_IN_FLIGHT = 20
"""Creations at once. How many GKE allows is not published: it says so by answering "busy", then fewer run."""
SETTLE_NODES_S = 300.0
"""How long after the last operation nodes may still be coming up before a cube is called partial."""


class Result(enum.StrEnum):
    """What became of a sub-block."""

    FULL = "full"
    PARTIAL = "partial"
    FAILED = "failed"


@dataclasses.dataclass(frozen=True, kw_only=True)
class CubeResult:
    """One line of the summary."""

    pool: str
    sub_block: str
    result: Result
    hosts: int
    made: bool
    """If true, this run created the pool."""
    why: str = ""


class Action(NamedTuple):
    """One thing that set-up would do."""

    verb: str
    target: str
    purpose: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prepared:
    """What set-up would do."""

    cluster: ports_module.Cluster
    policy: str
    block: str | None
    limit: int | None
    settings: declared.PoolSettings
    enable_controller: bool
    create_policy: bool
    plan: carving.CarvePlan
    expected_hosts: Mapping[str, int]
    """Sub-block -> hosts that the reservation calls healthy, so that nobody waits for a broken one."""

    @property
    def actions(self) -> tuple[Action, ...]:
        """What `execute` will do, in order."""
        cluster = f"cluster/{self.cluster.name}"
        return (
            *([Action("enable", cluster, "slice controller")] if self.enable_controller else ()),
            *([Action("create", f"policy/{self.policy}", "workload policy")] if self.create_policy else ()),
            *(Action("create", f"nodepool/{spec.name}", spec.sub_block) for spec in self.plan.create),
        )

    @property
    def is_noop(self) -> bool:
        return not self.actions


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What set-up did."""

    changed: bool
    results: tuple[CubeResult, ...]

    def count(self, result: Result) -> int:
        return sum(item.result is result for item in self.results)


def prepare(
    ports: ports_module.Ports,
    *,
    policy: str,
    block: str | None = None,
    limit: int | None = None,
    settings: declared.PoolSettings = carving.STANDARD,
) -> Prepared:
    """Read cluster, reservation and pools, and decide; writes nothing.

    Pools to make get `policy`, and of `settings` everything else.
    Raises NotFound for a block that no reservation has, Conflict for a policy or pool name used otherwise.
    """
    cluster = ports.pools.cluster()
    blocks = ports.capacity.blocks()
    if block is not None and not any(block in (item.name, item.physical_id) for item in blocks):
        known = ", ".join(item.name for item in blocks) or "none"
        raise errors.NotFound(f"there is no reservation block '{block}'", hint=f"blocks: {known}")
    plan = carving.plan_carving(
        blocks, ports.pools.list(), policy=policy, block=block, limit=limit, settings=settings
    )
    if plan.clashes:
        raise errors.Conflict("node pool names are taken", details=plan.clashes)
    return Prepared(
        cluster=cluster,
        policy=policy,
        block=block,
        limit=limit,
        settings=settings,
        enable_controller=not cluster.slice_controller,
        # Pools that exist may use another policy: one of ours is needed only to make more of them.
        create_policy=bool(plan.create) and not ports.capacity.has_policy(policy),
        plan=plan,
        expected_hosts={
            sub_block.name: topology.HOSTS_PER_CUBE
            if sub_block.healthy_hosts is None
            else sub_block.healthy_hosts
            for item in blocks
            for sub_block in item.sub_blocks
        },
    )


def execute(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    prepared: Prepared,
    *,
    in_flight: int = DEFAULT_IN_FLIGHT,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> Outcome:
    """Do it; the outcome has one line for each cube, failed ones included.

    Raises Conflict if somebody else makes or deletes node pools now, TimedOut.
    """
    if prepared.is_noop and not _being_made(prepared):
        return Outcome(changed=False, results=_judge(ports, reporter, prepared, {}))
    with locking.held(ports, reporter, locking.POOLS) as lock:
        fenced = locking.fenced(ports, lock)
        # Again, under the lock: what somebody else has made meanwhile is not made twice.
        now = prepare(
            fenced,
            policy=prepared.policy,
            block=prepared.block,
            limit=prepared.limit,
            settings=prepared.settings,
        )
        return _execute(fenced, reporter, now, in_flight, timeout_s)


def left_to_upgrades(ports: ports_module.Ports, pools: Iterable[fleet.NodePool]) -> tuple[str, ...]:
    """Those of the pools, by name, that are for cubes and whose nodes GKE may upgrade by itself.

    An upgrade under an active slice makes the slice FAILED.
    """
    found = tuple(pool.name for pool in pools if pool.reservation and pool.auto_upgrade)
    return found if found and not ports.pools.cluster().excludes_node_upgrades else ()


def _being_made(prepared: Prepared) -> bool:
    """If true, an earlier run has begun pools that are not finished."""
    return any(pool.status is states.PoolStatus.PROVISIONING for pool in prepared.plan.existing)


def _execute(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    prepared: Prepared,
    in_flight: int,
    timeout_s: float,
) -> Outcome:
    deadline = waiting.Deadline.after(ports.clock, timeout_s)
    reporter.going_on("GKE goes on with what was started; run the same command again to go on from there")
    if prepared.enable_controller:
        reporter.step("turning the slice controller on")
        operations.finish(ports, deadline, _enable(ports, reporter, deadline))
    if prepared.create_policy:
        reporter.step(f"creating workload policy {prepared.policy}")
        ports.capacity.create_policy(prepared.policy)
    batch = operations.Batch(ports, reporter, deadline, in_flight)
    failures = batch.run(prepared.plan.create, adopt=prepared.plan.existing)
    results = _judge(ports, reporter, prepared, failures)
    reporter.going_on("")
    return Outcome(changed=not prepared.is_noop, results=results)


def _judge(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    prepared: Prepared,
    failures: dict[str, str],
) -> tuple[CubeResult, ...]:
    """Judge by nodes, not by pool status: ERROR may be left over from a first attempt."""
    made = {spec.name: spec.sub_block for spec in prepared.plan.create}
    sub_blocks = {pool.name: pool.sub_block for pool in prepared.plan.existing} | made
    # Nodes register a little after the operation that made them is done.
    settle = waiting.Deadline.after(ports.clock, SETTLE_NODES_S if made else 0.0)
    while True:
        hosts = ready_hosts_by_pool(ports)
        short = [
            pool
            for pool, sub_block in sub_blocks.items()
            if hosts.get(pool, 0) < prepared.expected_hosts.get(sub_block, topology.HOSTS_PER_CUBE)
            and pool not in failures
        ]
        if not short or not settle.pause(operations.POLL_S):
            break
        reporter.progress(
            len(sub_blocks) - len(short), len(sub_blocks), f"waiting for nodes of {len(short)} pools"
        )
    status = {pool.name: pool for pool in ports.pools.list()}
    return tuple(
        _result(
            pool, sub_blocks[pool], hosts.get(pool, 0), pool in made, failures.get(pool), status.get(pool)
        )
        for pool in sorted(sub_blocks, key=lambda pool: sub_blocks[pool])
    )


def _enable(
    ports: ports_module.Ports, reporter: ports_module.Reporter, deadline: waiting.Deadline
) -> ports_module.Operation:
    """The operation that turns the slice controller on: one that an earlier run began, or a new one."""
    for found in ports.pools.operations():
        if found.kind == "UPDATE_CLUSTER" and found.status is ports_module.OperationStatus.RUNNING:
            reporter.step(f"waiting for operation {found.name}, which was begun before")
            operations.finish(ports, deadline, found)
    if ports.pools.cluster().slice_controller:
        return ports_module.Operation("", "UPDATE_CLUSTER", "", ports_module.OperationStatus.DONE)
    return operations.start(deadline, reporter, ports.pools.enable_slice_controller)


def ready_hosts_by_pool(ports: ports_module.Ports) -> dict[str, int]:
    """Node pool -> hosts that are ready, from the nodes themselves."""
    return ready_hosts(ports.fleet.observe((fleet.SourceName.NODES,)))


def ready_hosts(snapshot: fleet.Fleet) -> dict[str, int]:
    """Node pool -> hosts that are ready in a snapshot."""
    counts: dict[str, int] = {}
    for cube in snapshot.cubes:
        for host in cube.hosts:
            counts[host.pool] = counts.get(host.pool, 0) + (host.ready is True)
    return counts


def _result(
    pool: str, sub_block: str, hosts: int, made: bool, failure: str | None, found: fleet.NodePool | None
) -> CubeResult:
    if hosts == topology.HOSTS_PER_CUBE:
        return CubeResult(pool=pool, sub_block=sub_block, result=Result.FULL, hosts=hosts, made=made)
    conditions = "; ".join(found.conditions) if found is not None else ""
    if hosts and failure is None:
        why = conditions or "the other hosts join when they are repaired"
        return CubeResult(
            pool=pool, sub_block=sub_block, result=Result.PARTIAL, hosts=hosts, made=made, why=why
        )
    why = "; ".join(part for part in (failure or conditions, _no_nodes(found)) if part)
    return CubeResult(pool=pool, sub_block=sub_block, result=Result.FAILED, hosts=hosts, made=made, why=why)


def _no_nodes(found: fleet.NodePool | None) -> str:
    if found is None:
        return "the pool does not exist"
    if found.status is states.PoolStatus.ERROR:
        return f"the pool is in ERROR and has no ready nodes; see: tpuctl nodepool delete {found.name}"
    return f"the pool is {found.raw_status} and has no ready nodes"
