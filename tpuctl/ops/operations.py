"""Run GKE operations: start one after the other, wait for many together.

"Busy" (another operation runs, or too many do) is an answer of the cluster and not a failure of the item.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING

from tpuctl.model import counts, errors, states
from tpuctl.ops import locking
from tpuctl.ops import ports as ports_module

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from tpuctl.model import fleet
    from tpuctl.ops import waiting

CREATE_POOL, DELETE_POOL, UPDATE_CLUSTER = "CREATE_NODE_POOL", "DELETE_NODE_POOL", "UPDATE_CLUSTER"
POLL_S = 10.0
BUSY_PAUSE_S = 30.0
STAYED_BUSY = "the cluster stayed busy with other operations"
PATIENCE_S = 600.0
"""An outage in which nothing is heard of creations that run is waited out for so long."""
MAX_TRIES = 3
"""So often a pool is asked for whose creation was never answered and never seen."""
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
                raise errors.TimedOut(STAYED_BUSY) from busy


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


def running(
    ports: ports_module.Ports, kind: str, targets: Collection[str]
) -> Sequence[ports_module.Operation]:
    """Operations of a kind that somebody has begun on these and that still run."""
    return [
        operation
        for operation in (ports.pools.operations() if targets else ())
        if operation.kind == kind and operation.target in targets and operation.status is _Status.RUNNING
    ]


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
    """Creations that run side by side.

    How many the cluster takes at once is not published. "Busy" while some run makes these the limit; each
    creation that succeeds raises it by one, up to `in_flight`, since other causes of "busy" pass.
    """

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
        self._most_in_flight = in_flight
        self._in_flight = in_flight
        self._to_come: collections.deque[fleet.PoolSpec] = collections.deque()
        self._running: dict[str, ports_module.Operation] = {}
        self._open: dict[str, tuple[fleet.PoolSpec, str]] = {}
        """Pools of which it is not known whether they are being made, and why."""
        self._tries: collections.Counter[str] = collections.Counter()
        """How often the outcome was open."""
        self._failures: dict[str, str] = {}
        self._done = 0
        self._total = 0
        self._heard_s = ports.clock.monotonic_s()

    def run(self, create: Sequence[fleet.PoolSpec], adopt: Sequence[fleet.NodePool]) -> dict[str, str]:
        """Make all pools, and wait for those that an earlier run has begun; pool -> why it failed."""
        begun = running(self._ports, CREATE_POOL, {pool.name for pool in adopt})
        self._running = {operation.name: operation for operation in begun}
        self._to_come.extend(create)
        self._total = len(create) + len(self._running)
        while self._to_come or self._running or self._open:
            while self._has_room and self._try(self._to_come.popleft()):
                pass
            self._report()
            if not self._deadline.pause(POLL_S):
                raise errors.TimedOut(
                    f"{self._done} of {self._total} node pools are made, the rest are not",
                    hint="GKE goes on with those that were started; run the command again to go on",
                )
            self._look()
        return self._failures

    @property
    def _has_room(self) -> bool:
        return bool(self._to_come) and len(self._running) + len(self._open) < self._in_flight

    def _try(self, spec: fleet.PoolSpec) -> bool:
        """Start one; False if no more is to be asked for in this turn."""
        try:
            operation = self._ports.pools.create(spec)
        except errors.Busy as busy:
            self._to_come.appendleft(spec)
            if not self._running:
                self._reporter.step(f"the cluster is busy, waiting: {busy.message}")
            else:
                # The service has shown its limit: stay at it rather than ask on every turn.
                self._in_flight = len(self._running)
            return False
        except locking.LostLock:
            raise
        except errors.Unavailable as lost:
            self._doubt(spec, lost)
            return False
        except (errors.DoesNotFit, errors.UsageError, errors.Conflict) as refused:
            if isinstance(refused, errors.Conflict) and self._tries[spec.name]:
                self._doubt(spec, refused)  # the name may be taken by what we asked for before
            else:
                self._fail(spec.name, refused.message)
        else:
            self._running[operation.name] = operation
        return True

    def _doubt(self, spec: fleet.PoolSpec, error: errors.TpuctlError) -> None:
        """The outcome for one pool is open: its name tells later, and the others go on."""
        self._tries[spec.name] += 1
        self._open[spec.name] = spec, error.message
        self._reporter.step(f"node pool {spec.name} is looked at again: {error.message}")

    def _look(self) -> None:
        """See what came of everything that was started; a service that does not answer is waited for."""
        try:
            found = self._ports.pools.operations()
            self._collect({operation.name: operation for operation in found})
            self._settle(found)
        except (errors.Unavailable, errors.Busy) as trouble:
            if self._ports.clock.monotonic_s() - self._heard_s > PATIENCE_S:
                raise
            self._reporter.step(f"how the creations stand cannot be seen, waiting: {trouble.message}")
        else:
            self._heard_s = self._ports.clock.monotonic_s()

    def _collect(self, found: Mapping[str, ports_module.Operation]) -> None:
        for name, before in list(self._running.items()):
            now = found.get(name) or current(self._ports, before)
            if now.status is _Status.RUNNING:
                continue
            del self._running[name]
            if now.status is _Status.FAILED:
                self._fail(before.target, now.error)
            else:
                self._done += 1
                self._in_flight = min(self._in_flight + 1, self._most_in_flight)

    def _settle(self, found: Sequence[ports_module.Operation]) -> None:
        """Find out what became of pools whose creation was not answered: operations first, pools after."""
        for operation in found:
            is_ours = operation.kind == CREATE_POOL and operation.status is _Status.RUNNING
            if is_ours and self._open.pop(operation.target, None) is not None:
                self._running[operation.name] = operation
        pools = {pool.name: pool for pool in self._ports.pools.list()} if self._open else {}
        for name, (spec, why) in list(self._open.items()):
            pool = pools.get(name)
            if pool is not None and pool.status is states.PoolStatus.PROVISIONING:
                continue  # its operation is listed a moment later
            del self._open[name]
            if pool is not None:
                self._done += 1
            elif self._tries[name] < MAX_TRIES:
                self._to_come.append(spec)
            else:
                self._fail(name, why)

    def _fail(self, pool: str, why: str) -> None:
        self._failures[pool] = why
        self._reporter.warn(f"node pool {pool}: {why}")

    def _report(self) -> None:
        to_come = len(self._to_come) + len(self._open)
        text = f"{counts.of(len(self._running), 'node pool')} being made, {to_come} to come"
        self._reporter.progress(self._done + len(self._failures), self._total, text)
