"""Locks for commands that change something: taken before, renewed while waiting, checked before each write.

A lock is a Lease. Whether one has expired is judged by the server's clock. A lost lock means: somebody else
may act now, so nothing more is written by us.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING

from tpuctl.model import errors, operations

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from tpuctl.model import fleet
    from tpuctl.ops import ports as ports_module

PLACEMENT = "tpuctl-placement"
"""Held while cubes are chosen and claimed: two choices at once could choose the same."""
POOLS = "tpuctl-nodepools"
"""Held while node pools are made or deleted."""
DURATION_S = 60.0
"""A dead holder blocks others for so long."""
WAIT_S = 30.0
"""How long a command waits for a lock before it gives up; the work under PLACEMENT takes about a second."""
_RENEWALS = 3
"""A lock is renewed when a third of its time is over."""
_POLL_S = 1.0


def stretched(clock: ports_module.Clock, seconds: float) -> float:
    """`seconds`, or more on a simulator so fast that they would pass within the time of a few requests."""
    return seconds * max(clock.scale / 2, 1.0)


def slice_lock(name: str) -> str:
    """The lock for everything that is done to one slice."""
    return f"tpuctl-slice-{name}"


class LostLock(errors.Conflict):
    """Somebody else has the lock now, or it is gone."""


class Lock:
    """A lock that we hold."""

    def __init__(self, ports: ports_module.Ports, lease: operations.Lease, holder: str) -> None:
        self._ports = ports
        self._lease = lease
        self._holder = holder
        self._duration_s = stretched(ports.clock, DURATION_S)
        self._told = lease.told
        self._renewed_s = ports.clock.monotonic_s()

    @property
    def is_due(self) -> bool:
        """If true, it should be renewed."""
        return self._ports.clock.monotonic_s() - self._renewed_s >= self._duration_s / _RENEWALS

    def check(self) -> None:
        """Ask the server whether it is still ours; raises LostLock if not. Renews it when due."""
        found = self._ports.leases.get(self._lease.name)
        if found is None or found.uid != self._lease.uid or found.holder != self._holder:
            now = f"{found.holder} has it" if found is not None and found.holder else "it is gone"
            raise LostLock(f"lock {self._lease.name} was lost: {now}; nothing more was written")
        if not found.is_held:
            raise LostLock(f"lock {self._lease.name} has expired; nothing more was written")
        self._lease = found
        if self.is_due:
            self._renew(found)

    def _renew(self, found: operations.Lease) -> None:
        try:
            self._lease = self._ports.leases.renew(found, self._holder, self._duration_s, told=self._told)
        except LostLock:
            raise  # another lock, without which this one is not to be had
        except errors.Conflict as conflict:
            raise LostLock(
                f"lock {found.name} was changed by somebody else; nothing more was written"
            ) from conflict
        self._renewed_s = self._ports.clock.monotonic_s()

    def renew_if_due(self) -> None:
        if self.is_due:
            self.check()

    def release(self) -> None:
        """Give it back; one that is lost already stays with whoever has it."""
        found = self._ports.leases.get(self._lease.name)
        if found is not None and found.uid == self._lease.uid and found.holder == self._holder:
            self._ports.leases.delete(found)


@contextlib.contextmanager
def held(
    ports: ports_module.Ports, reporter: ports_module.Reporter, name: str, *, wait_s: float = WAIT_S
) -> Iterator[Lock]:
    """Hold lock `name`; raises Conflict that names the holder if it cannot be had in time.

    A lock that cannot be given back is no failure of what was done under it: it ends by itself.
    """
    holder = ports.identity.actor()
    lock = Lock(ports, acquire(ports, reporter, name, holder, wait_s), holder)
    try:
        yield lock
    except BaseException:
        # What went wrong is the news; a lock that cannot be given back ends by itself.
        with contextlib.suppress(errors.TpuctlError):
            lock.release()
        raise
    try:
        lock.release()
    except errors.TpuctlError as error:
        reporter.warn(f"lock {name} could not be given back and ends by itself: {error.message}")


@contextlib.contextmanager
def slices_held(
    ports: ports_module.Ports, reporter: ports_module.Reporter, names: Iterable[str], *, wait_s: float
) -> Iterator[dict[str, Lock]]:
    """Hold the locks of several slices, by name of the slice; raises as `held` does.

    They are taken in order of names, so that two who want some of the same cannot wait for each other.
    """
    locks: dict[str, Lock] = {}
    with contextlib.ExitStack() as stack:
        for name in sorted(names):
            # Many take a while, and each may be waited for: those that we have must not expire over it.
            waiting = fenced(ports, *locks.values())
            locks[name] = stack.enter_context(held(waiting, reporter, slice_lock(name), wait_s=wait_s))
            for lock in locks.values():
                lock.renew_if_due()
        yield locks


def fenced(ports: ports_module.Ports, *locks: Lock, beside: Iterable[Lock] = ()) -> ports_module.Ports:
    """The same ports, with every write preceded by a check of the locks; sleep and long reads renew them.

    `beside`: further locks that are held at the same time. They are renewed as well, and no write here
    depends on them.
    """
    fence = _Fence(locks, tuple(beside))
    return dataclasses.replace(
        ports,
        clock=_Clock(ports.clock, fence),
        fleet=_Fleet(ports.fleet, fence),
        slices=_Slices(ports.slices, fence),
        pools=_Pools(ports.pools, fence),
        records=_Records(ports.records, fence),
        workloads=_Workloads(ports.workloads, fence),
        instances=_Instances(ports.instances, fence),
    )


def find(ports: ports_module.Ports, name: str) -> operations.Lease:
    """A lock, held or free; raises NotFound."""
    found = ports.leases.get(name)
    if found is None:
        raise errors.NotFound(f"there is no lock {name}", hint="see: tpuctl lock show")
    return found


def at_work(ports: ports_module.Ports, name: str) -> str:
    """Who holds a lock and is, as far as can be told, alive; empty if nobody, or if it is this program."""
    found = ports.leases.get(name)
    if found is None or _why_free(ports, found) or found.holder == ports.identity.actor():
        return ""
    return found.holder


def break_lock(ports: ports_module.Ports, name: str, *, reason: str) -> operations.Lease:
    """Take a lock away from its holder, who notices at its next write; returns the lock as it was.

    Who broke it and why stays with the lock until it is next taken. One that is free already is left as it
    is. Raises NotFound.
    """
    found = find(ports, name)
    if not found.holder:
        return found
    ports.leases.free(found, note=f"broken by {ports.identity.actor()}: {reason}")
    return found


def acquire(
    ports: ports_module.Ports, reporter: ports_module.Reporter, name: str, holder: str, wait_s: float
) -> operations.Lease:
    """Take a lock that is free, expired or left by a dead process; raises Conflict that names the holder."""
    end_s = ports.clock.monotonic_s() + stretched(ports.clock, wait_s)
    duration_s = stretched(ports.clock, DURATION_S)
    told = False
    while True:
        found = ports.leases.get(name)
        try:
            if found is None:
                return ports.leases.create(name, holder, duration_s)
            why_free = _why_free(ports, found)
            if why_free:
                if found.holder or found.note:
                    reporter.warn(f"lock {name} {why_free}; it was taken over")
                return ports.leases.renew(found, holder, duration_s, told=found.told)
        except LostLock:
            raise  # another lock, without which this one is not to be had
        except errors.Conflict:
            found = ports.leases.get(name)  # somebody was faster
            if found is None:
                continue
        if ports.clock.monotonic_s() >= end_s:
            raise errors.Conflict(
                f"{name} is locked by {found.holder}",
                hint=f"wait for it, or if it is dead: tpuctl lock break {name} --reason TEXT",
            )
        if not told:
            reporter.step(f"waiting for lock {name}, held by {found.holder}")
            told = True
        ports.clock.sleep(_POLL_S)


def _why_free(ports: ports_module.Ports, found: operations.Lease) -> str:
    """Why a lock may be taken over; empty if it may not."""
    if not found.holder:
        return f"is free ({found.note})" if found.note else "is free"
    if not found.is_held:
        return f"of {found.holder} has expired"
    return (
        f"of {found.holder} is left over, the process is dead" if ports.identity.is_dead(found.holder) else ""
    )


class _Fence:
    def __init__(self, locks: Sequence[Lock], beside: Sequence[Lock]) -> None:
        self._locks = locks
        self._beside = beside

    def check(self) -> None:
        for lock in self._locks:
            lock.check()
        self._renew_beside()

    def renew_if_due(self) -> None:
        for lock in self._locks:
            lock.renew_if_due()
        self._renew_beside()

    def _renew_beside(self) -> None:
        for lock in self._beside:
            # One that is lost stops whoever writes under it, at that write.
            with contextlib.suppress(LostLock):
                lock.renew_if_due()


class _Clock:
    """Sleeps in pieces short enough to renew the locks in time."""

    def __init__(self, clock: ports_module.Clock, fence: _Fence) -> None:
        self._clock = clock
        self._fence = fence

    @property
    def scale(self) -> float:
        return self._clock.scale

    def monotonic_s(self) -> float:
        return self._clock.monotonic_s()

    def sleep(self, seconds: float) -> None:
        longest_s = stretched(self._clock, DURATION_S) / _RENEWALS / 2
        left_s = seconds
        while left_s > 0:
            piece_s = min(left_s, longest_s)
            self._clock.sleep(piece_s)
            left_s -= piece_s
            self._fence.renew_if_due()


class _Fleet:
    """Reads the fleet, and keeps the locks while a large one is being read: that may take longer than they
    last."""

    def __init__(self, reader: ports_module.FleetReader, fence: _Fence) -> None:
        self._reader = reader
        self._fence = fence

    def observe(
        self, sources: Collection[fleet.SourceName], *, meanwhile: Callable[[], None] | None = None
    ) -> fleet.Fleet:
        def renew() -> None:
            self._fence.renew_if_due()
            if meanwhile is not None:
                meanwhile()

        return self._reader.observe(sources, meanwhile=renew)


class _Slices:
    def __init__(self, slices: ports_module.Slices, fence: _Fence) -> None:
        self._fence = fence
        self.get = slices.get
        self.labelled_hosts = slices.labelled_hosts
        self.events = slices.events
        self._slices = slices

    def create(self, spec: ports_module.SliceSpec, *, validate_only: bool = False) -> fleet.Slice:
        self._fence.check()
        return self._slices.create(spec, validate_only=validate_only)

    def delete(self, name: str, *, uid: str) -> None:
        self._fence.check()
        self._slices.delete(name, uid=uid)


class _Pools:
    def __init__(self, pools: ports_module.Pools, fence: _Fence) -> None:
        self._fence = fence
        self.cluster = pools.cluster
        self.list = pools.list
        self.operations = pools.operations
        self.operation = pools.operation
        self._pools = pools

    def enable_slice_controller(self) -> ports_module.Operation:
        self._fence.check()
        return self._pools.enable_slice_controller()

    def create(self, spec: ports_module.PoolSpec) -> ports_module.Operation:
        self._fence.check()
        return self._pools.create(spec)

    def delete(self, name: str) -> ports_module.Operation:
        self._fence.check()
        return self._pools.delete(name)


class _Records:
    def __init__(self, records: ports_module.Records, fence: _Fence) -> None:
        self._fence = fence
        self.list = records.list
        self.get = records.get
        self._records = records

    def create(self, name: str, kind: str, text: str) -> ports_module.Record:
        self._fence.check()
        return self._records.create(name, kind, text)

    def replace(self, record: ports_module.Record, text: str) -> ports_module.Record:
        self._fence.check()
        return self._records.replace(record, text)

    def delete(self, record: ports_module.Record) -> None:
        self._fence.check()
        self._records.delete(record)


class _Workloads:
    def __init__(self, workloads: ports_module.Workloads, fence: _Fence) -> None:
        self._fence = fence
        self.marked = workloads.marked
        self.live_pods = workloads.live_pods
        self.running_on = workloads.running_on
        self.unfinished = workloads.unfinished
        self.job_budget = workloads.job_budget
        self._workloads = workloads

    def cordon(self, host: str, operation: str) -> bool:
        self._fence.check()
        return self._workloads.cordon(host, operation)

    def uncordon(self, host: str, operation: str) -> bool:
        self._fence.check()
        return self._workloads.uncordon(host, operation)

    def delete_pod(self, namespace: str, name: str, *, uid: str) -> None:
        self._fence.check()
        self._workloads.delete_pod(namespace, name, uid=uid)


class _Instances:
    def __init__(self, instances: ports_module.Instances, fence: _Fence) -> None:
        self._fence = fence
        self.get = instances.get
        self.reports = instances.reports
        self.resets = instances.resets
        self.operation = instances.operation
        self._instances = instances

    def report_faulty(
        self, instance: ports_module.Instance, report: ports_module.FaultReport
    ) -> ports_module.Operation:
        self._fence.check()
        return self._instances.report_faulty(instance, report)

    def reset(self, instance: ports_module.Instance, request_id: str) -> ports_module.Operation:
        self._fence.check()
        return self._instances.reset(instance, request_id)
