"""Checks before every write: that we still lead, and that nobody has paused the loop.

Ops functions get ports that ask by themselves, so that no way of theirs goes round the checks. The pause is
asked for where something begins (a record of an operation, a node pool, a reset); what has begun is finished,
since a slice that was deleted and not made again helps nobody.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.model import records
from tpuctl.ops import locking
from tpuctl.ops.reconciling import pauses

if TYPE_CHECKING:
    from collections.abc import Callable

    from tpuctl.model import operations
    from tpuctl.ops import ports as ports_module
    from tpuctl.ops.reconciling import leadership


def guarded(ports: ports_module.Ports, leader: leadership.Leader) -> ports_module.Ports:
    """The same ports, behind the checks. Locks that are held may be given back by one who does not lead."""

    def begin() -> None:
        refuse_if_paused(ports)

    fenced = locking.fenced(ports, leader)
    return dataclasses.replace(
        fenced,
        pools=_Pools(fenced.pools, begin),
        records=_Records(fenced.records, begin),
        leases=_Leases(ports.leases, leader.check),
        capacity=_Capacity(ports.capacity, leader.check),
        instances=_Instances(ports.instances, leader.check, begin),
        events=_Events(ports.events, leader.check),
    )


def committed(ports: ports_module.Ports) -> ports_module.Ports:
    """Guarded ports for what has begun: no pause stops it half-way, the loss of the lead still does."""
    found = ports.records
    return dataclasses.replace(ports, records=found.fenced) if isinstance(found, _Records) else ports


def refuse_if_paused(ports: ports_module.Ports) -> None:
    """Raise Paused if somebody has paused the loop."""
    found = pauses.current(ports)
    if found is not None:
        raise pauses.Paused(
            f"the loop is {pauses.sentence(found)}", hint="let it go on with: tpuctl reconcile resume"
        )


class _Pools:
    def __init__(self, pools: ports_module.Pools, begin: Callable[[], None]) -> None:
        self._pools = pools
        self._begin = begin
        self.cluster = pools.cluster
        self.list = pools.list
        self.operations = pools.operations
        self.operation = pools.operation
        self.enable_slice_controller = pools.enable_slice_controller

    def create(self, spec: ports_module.PoolSpec) -> ports_module.Operation:
        self._begin()
        return self._pools.create(spec)

    def delete(self, name: str) -> ports_module.Operation:
        self._begin()
        return self._pools.delete(name)


class _Records:
    def __init__(self, records_: ports_module.Records, begin: Callable[[], None]) -> None:
        self.fenced = records_
        """Without the question for a pause."""
        self._begin = begin
        self.list = records_.list
        self.get = records_.get
        self.replace = records_.replace
        self.delete = records_.delete

    def create(self, name: str, kind: str, text: str) -> ports_module.Record:
        if kind == records.OPERATION:
            self._begin()
        return self.fenced.create(name, kind, text)


class _Leases:
    """Locks of operations; the leader's own is handled by itself."""

    def __init__(self, leases: ports_module.Leases, check: Callable[[], None]) -> None:
        self._leases = leases
        self._check = check
        self.list = leases.list
        self.get = leases.get
        self.delete = leases.delete
        self.free = leases.free

    def create(self, name: str, holder: str, duration_s: float) -> operations.Lease:
        self._check()
        return self._leases.create(name, holder, duration_s)

    def renew(
        self, lease: operations.Lease, holder: str, duration_s: float, *, told: str = ""
    ) -> operations.Lease:
        self._check()
        return self._leases.renew(lease, holder, duration_s, told=told)


class _Capacity:
    def __init__(self, capacity: ports_module.Capacity, check: Callable[[], None]) -> None:
        self._capacity = capacity
        self._check = check
        self.blocks = capacity.blocks
        self.has_policy = capacity.has_policy

    def create_policy(self, name: str) -> None:
        self._check()
        self._capacity.create_policy(name)


class _Instances:
    def __init__(
        self, instances: ports_module.Instances, check: Callable[[], None], begin: Callable[[], None]
    ) -> None:
        self._instances = instances
        self._check = check
        self._begin = begin
        self.get = instances.get
        self.reports = instances.reports
        self.resets = instances.resets
        self.operation = instances.operation

    def report_faulty(
        self, instance: ports_module.Instance, report: ports_module.FaultReport
    ) -> ports_module.Operation:
        self._check()
        self._begin()
        return self._instances.report_faulty(instance, report)

    def reset(self, instance: ports_module.Instance, request_id: str) -> ports_module.Operation:
        self._check()
        self._begin()
        return self._instances.reset(instance, request_id)


class _Events:
    def __init__(self, events: ports_module.Events, check: Callable[[], None]) -> None:
        self._events = events
        self._check = check

    def emit(self, about: ports_module.About, reason: str, message: str, *, warning: bool = False) -> None:
        self._check()
        self._events.emit(about, reason, message, warning=warning)
