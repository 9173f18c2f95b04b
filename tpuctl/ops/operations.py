"""Run GKE operations: start one after the other, wait for many together.

"Busy" (another operation runs, or too many do) is an answer of the cluster and not a failure of the item.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.model import counts, errors, states
from tpuctl.ops import locking
from tpuctl.ops import ports as ports_module

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tpuctl.model import fleet
    from tpuctl.ops import waiting

CREATE_POOL, DELETE_POOL, UPDATE_CLUSTER = "CREATE_NODE_POOL", "DELETE_NODE_POOL", "UPDATE_CLUSTER"
POLL_S = 10.0
BUSY_PAUSE_S = 30.0
_Status = ports_module.OperationStatus


def start(
    deadline: waiting.Deadline,
    reporter: ports_module.Reporter,
    call: Callable[[], ports_module.Operation],
) -> ports_module.Operation:
    """Start one operation, waiting while the cluster is busy with others; raises TimedOut."""
    while True:
        try:
            return call()
        except errors.Busy as busy:
            reporter.step(f"the cluster is busy, waiting: {busy.message}")
            if not deadline.pause(BUSY_PAUSE_S):
                raise errors.TimedOut("the cluster stayed busy with other operations") from busy


def finish(ports: ports_module.Ports, deadline: waiting.Deadline, operation: ports_module.Operation) -> None:
    """Wait for one operation; raises TpuctlError if it failed."""
    while operation.status is _Status.RUNNING:
        if not deadline.pause(POLL_S):
            raise errors.TimedOut(
                f"operation {operation.name} ({operation.kind} {operation.target}) is still running",
                hint="it goes on; run the command again to wait for it",
            )
        operation = current(ports, operation)
    if operation.status is _Status.FAILED:
        raise errors.TpuctlError(f"{operation.kind} {operation.target} failed: {operation.error}")


def current(ports: ports_module.Ports, operation: ports_module.Operation) -> ports_module.Operation:
    """How an operation stands now; raises NotFound if neither it nor what it was about tells.

    The service forgets old operations. Then the resource itself is read: it says what came of it.
    """
    try:
        return ports.pools.operation(operation.name)
    except errors.NotFound:
        told = _by_its_resource(ports, operation)
        if told is None:
            raise
        return told


def _by_its_resource(
    ports: ports_module.Ports, operation: ports_module.Operation
) -> ports_module.Operation | None:
    if operation.kind == UPDATE_CLUSTER:
        cluster = ports.pools.cluster()
        if cluster.slice_controller:
            return operation._replace(status=_Status.DONE)
        return None if cluster.status == "RUNNING" else operation
    pool = next((pool for pool in ports.pools.list() if pool.name == operation.target), None)
    if operation.kind == DELETE_POOL:
        return _ended(operation, going_on=states.PoolStatus.STOPPING, pool=pool, good=pool is None)
    if operation.kind == CREATE_POOL:
        return _ended(operation, going_on=states.PoolStatus.PROVISIONING, pool=pool, good=pool is not None)
    return None


def _ended(
    operation: ports_module.Operation, *, going_on: states.PoolStatus, pool: fleet.NodePool | None, good: bool
) -> ports_module.Operation:
    """The operation as its node pool shows it: still running, done, or over without effect."""
    if pool is not None and pool.status is going_on:
        return operation
    if good:
        return operation._replace(status=_Status.DONE)
    there = f"the pool is {pool.raw_status}" if pool is not None else "there is no such pool"
    error = f"the service has forgotten operation {operation.name}, and {there}"
    return operation._replace(status=_Status.FAILED, error=error)


class Batch:
    """Creations that run side by side."""

    def __init__(
        self,
        ports: ports_module.Ports,
        reporter: ports_module.Reporter,
        deadline: waiting.Deadline,
        in_flight: int,
    ) -> None:
        self._ports = ports
        self._reporter = reporter
        self._deadline = deadline
        self._in_flight = in_flight
        self._running: dict[str, ports_module.Operation] = {}
        self._failures: dict[str, str] = {}
        self._done = 0
        self._total = 0

    def run(self, create: Sequence[fleet.PoolSpec], adopt: Sequence[fleet.NodePool]) -> dict[str, str]:
        """Make all pools, and wait for those that an earlier run has begun; pool -> why it failed."""
        self._adopt({pool.name for pool in adopt})
        waiting_specs = list(create)
        self._total = len(create) + len(self._running)
        while waiting_specs or self._running:
            while waiting_specs and len(self._running) < self._in_flight and self._try(waiting_specs[0]):
                waiting_specs.pop(0)
            self._report(len(waiting_specs))
            if not self._deadline.pause(POLL_S):
                raise errors.TimedOut(
                    f"{self._done} of {self._total} node pools are made, the rest are not",
                    hint="GKE goes on with those that were started; run the command again to go on",
                )
            self._collect()
        return self._failures

    def _adopt(self, pools: set[str]) -> None:
        for operation in self._ports.pools.operations() if pools else ():
            running = operation.status is _Status.RUNNING
            if running and operation.kind == CREATE_POOL and operation.target in pools:
                self._running[operation.name] = operation

    def _try(self, spec: fleet.PoolSpec) -> bool:
        """Start one; False if the cluster takes no more now."""
        try:
            operation = self._ports.pools.create(spec)
        except errors.Busy as busy:
            if not self._running:
                self._reporter.step(f"the cluster is busy, waiting: {busy.message}")
            else:
                # The service has shown its limit: stay at it rather than ask on every turn.
                self._in_flight = len(self._running)
            return False
        except locking.LostLock:
            raise
        except (errors.DoesNotFit, errors.UsageError, errors.Conflict) as refused:
            self._fail(spec.name, refused.message)
        else:
            self._running[operation.name] = operation
        return True

    def _collect(self) -> None:
        found = {operation.name: operation for operation in self._ports.pools.operations()}
        for name, before in list(self._running.items()):
            now = found.get(name) or current(self._ports, before)
            if now.status is _Status.RUNNING:
                continue
            del self._running[name]
            if now.status is _Status.FAILED:
                self._fail(before.target, now.error)
            else:
                self._done += 1

    def _fail(self, pool: str, why: str) -> None:
        self._failures[pool] = why
        self._reporter.warn(f"node pool {pool}: {why}")

    def _report(self, waiting_count: int) -> None:
        text = f"{counts.of(len(self._running), 'node pool')} being made, {waiting_count} to come"
        self._reporter.progress(self._done + len(self._failures), self._total, text)
