"""Long-running operations of the cluster: they run first and finish later.

Here are also the rules about what may run beside what. That a clash exists and how it reads is published;
which kinds clash is assumed: anything with a cluster update, and two operations on one pool.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.sim import partitions
from tpuctl.sim.googleapis import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tpuctl.sim import behaviour as behaviours
    from tpuctl.sim import clock as clocks


@dataclasses.dataclass(frozen=True)
class Failure:
    """Why an operation failed: a google.rpc.Status."""

    status: str
    """Canonical word, for example RESOURCE_EXHAUSTED."""
    message: str

    @property
    def code(self) -> int:
        """Number of google.rpc.Code."""
        return errors.RPC_CODES[self.status]


@dataclasses.dataclass(eq=False)
class Operation:
    """One operation. `pool` is None for an update of the cluster."""

    name: str
    kind: str
    pool: str | None
    started_s: float
    progress: Callable[[], dict[str, int]] | None
    """Gives the metrics of the moment; None if there are none, or no more."""
    ended_s: float | None = None
    failure: Failure | None = None

    @property
    def running(self) -> bool:
        return self.ended_s is None


class Operations:
    """All operations of one cluster since it was made."""

    def __init__(self, clock: clocks.Clock, behaviour: behaviours.Behaviour, *, seed: int) -> None:
        self._clock = clock
        self._behaviour = behaviour
        self._seed = seed
        self._all: dict[str, Operation] = {}
        self._running: dict[str, Operation] = {}

    def __iter__(self) -> Iterator[Operation]:
        """Those that the service still knows."""
        return iter([operation for operation in self._all.values() if self._is_known(operation)])

    def get(self, name: str) -> Operation | None:
        """None for a name that never was, or was forgotten."""
        found = self._all.get(name)
        return found if found is not None and self._is_known(found) else None

    def _is_known(self, operation: Operation) -> bool:
        if operation.ended_s is None:
            return True
        return self._clock.now_s - operation.ended_s <= self._behaviour.operation_memory_s

    def on_pool(self, pool: str) -> Operation | None:
        """Return the operation that runs on this pool."""
        return next((one for one in self._running.values() if one.pool == pool), None)

    def check_cluster_free(self) -> None:
        """ApiError if an update of the cluster cannot start now."""
        for running in self._running.values():
            raise _clash(running)

    def check_pool_free(self, pool: str) -> None:
        """ApiError if an operation on this pool cannot start now."""
        for running in self._running.values():
            if running.pool in {None, pool}:
                raise _clash(running)
        limit = self._behaviour.operations_in_flight
        if len(self._running) >= limit:
            raise errors.ApiError(
                429,
                f"Too many operations: {limit} already run on the cluster, the most it takes at once.",
            )

    def start(
        self, kind: str, *, pool: str | None = None, progress: Callable[[], dict[str, int]] | None = None
    ) -> Operation:
        """Begin an operation; whoever begins it calls `finish`."""
        number = len(self._all) + 1
        suffix = partitions.opaque_id(self._seed, "operation", number)
        start_ms = int(self._clock.now().timestamp() * 1000)
        name = f"operation-{start_ms}-{suffix[:8]}-{suffix[8:12]}-{suffix[12:16]}-{suffix[16:28]}"
        operation = Operation(name, kind, pool, self._clock.now_s, progress)
        self._all[name] = self._running[name] = operation
        return operation

    def finish(self, operation: Operation, failure: Failure | None = None) -> None:
        """End a running operation, well or with a failure."""
        operation.ended_s = self._clock.now_s
        operation.failure = failure
        operation.progress = None
        del self._running[operation.name]


def _clash(running: Operation) -> errors.ApiError:
    return errors.precondition(f"Cluster is running incompatible operation {running.name}.")
