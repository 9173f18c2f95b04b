"""A node pool's life on the hardware: created, filled as far as hosts allow, resized, deleted.

Incremental provisioning: a pool comes up with the hosts that can run a VM, at least one; the rest join when
their hosts are repaired. Which status and conditions such a pool shows is not published: see `Behaviour`.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from tpuctl.sim import hardware, partitions
from tpuctl.sim.gke import model, operations

if TYPE_CHECKING:
    from collections.abc import Callable

    from tpuctl.sim import behaviour as behaviours
    from tpuctl.sim.gke import requests

_GROWING = frozenset(
    {
        model.PoolStatus.PROVISIONING,
        model.PoolStatus.RUNNING,
        model.PoolStatus.RUNNING_WITH_ERROR,
        model.PoolStatus.RECONCILING,
    }
)


@dataclasses.dataclass(frozen=True)
class InjectedFailure:
    """A failure that the next creation shall meet, for rehearsals."""

    condition: str = "GCE_QUOTA_EXCEEDED"
    """One of the published condition codes."""
    message: str = 'Insufficient regional quota to satisfy request: resource "TPUS".'


@dataclasses.dataclass(eq=False)
class _Creation:
    """What is still open of a creation or a resize."""

    operation: operations.Operation
    earliest_end_s: float
    closing: bool = False


class Pools:
    """Creates, fills, resizes and deletes the pools of one cluster."""

    def __init__(
        self,
        cluster: model.Cluster,
        machines: hardware.Hardware,
        running: operations.Operations,
        behaviour: behaviours.Behaviour,
        *,
        on_join: Callable[[model.NodePool, hardware.Host], None],
        on_leave: Callable[[model.NodePool, hardware.Host], None],
    ) -> None:
        self._cluster = cluster
        self._machines = machines
        self._clock = machines.clock
        self._operations = running
        self._behaviour = behaviour
        self._on_join = on_join
        self._on_leave = on_leave
        self._taken: dict[str, model.NodePool] = {}
        self._open: dict[str, _Creation] = {}
        self._made = 0
        self.failures: list[InjectedFailure] = []
        """Failures for the creations to come, first one first."""
        machines.subscribe(self._hardware_changed)

    def owner(self, subblock: hardware.SubBlock) -> model.NodePool | None:
        """Return the pool that took this cube."""
        return self._taken.get(subblock.name)

    # Creating

    def create(self, request: dict[str, Any], target: requests.Target) -> operations.Operation:
        """Begin a pool from a checked request."""
        pool = self._new_pool(request, target)
        self._cluster.pools[pool.name] = pool
        operation = self._operations.start("CREATE_NODE_POOL", pool=pool.name, progress=_progress(pool))
        self._open[pool.name] = _Creation(operation, self._clock.now_s)
        if self.failures:
            self._fail_later(pool, self.failures.pop(0))
            return operation
        self._take(pool, self._choose(target))
        if pool.subblock is None:
            self._stockout_later(pool)
        else:
            self._clock.call_later(self._behaviour.pool_vm_request_s, lambda: self._request_vms(pool))
        return operation

    def _new_pool(self, request: dict[str, Any], target: requests.Target) -> model.NodePool:
        self._made += 1
        tag = partitions.opaque_id(self._machines.seed, "pool", request["name"], self._made)[:8]
        return model.NodePool(
            name=request["name"],
            request=request,
            size=request["initialNodeCount"],
            reservation=target.reservation.name,
            zone=target.reservation.zone,
            base_name=f"gke-tpu-{tag}",
            created_s=self._clock.now_s,
            changed_s=self._clock.now_s,
        )

    def _choose(self, target: requests.Target) -> hardware.SubBlock | None:
        """A free cube: the named one, or the first of the block with a host that runs, or the first."""
        named = [target.subblock] if target.subblock is not None else target.block.subblocks
        free = [cube for cube in named if cube.name not in self._taken]
        alive = [cube for cube in free if any(host.powered for host in cube.hosts)]
        return next(iter(alive or free), None)

    def _take(self, pool: model.NodePool, cube: hardware.SubBlock | None) -> None:
        pool.subblock = cube
        if cube is not None:
            self._taken[cube.name] = pool

    def _request_vms(self, pool: model.NodePool) -> None:
        pool.vms_requested = True
        for host in pool.hosts:
            self._start_vm(pool, host)
        self._settle(pool)

    def _start_vm(self, pool: model.NodePool, host: hardware.Host) -> None:
        if host.vm is not None or not host.powered:
            return
        pool.vms += 1
        pool.changed_s = self._clock.now_s
        digest = partitions.opaque_id(self._machines.seed, pool.base_name, pool.vms)
        vm = hardware.Vm(
            name=pool.instance_name(host),
            id=partitions.numeric_id(digest),
            pool=pool.name,
            group=pool.group,
            created_s=self._clock.now_s,
        )
        spread_s = self._behaviour.vm_boot_spread_s * int(digest[:4], 16) / 0xFFFF
        self._machines.start_vm(host, vm, boot_s=self._behaviour.vm_boot_s + spread_s)

    # Following the hardware

    def _hardware_changed(self, change: hardware.Change) -> None:
        pool = self._taken.get(change.subblock.name)
        host = change.host
        if pool is None or host is None or host not in pool.hosts:
            return
        if hardware.Fault.MISSING in host.faults and host.vm is not None:
            self._lose(pool, host)
        if not self._fills(pool):
            return
        if change.kind is hardware.ChangeKind.HOST:
            self._start_vm(pool, host)
        elif host.serving and host not in pool.joined:
            self._join(pool, host)
        self._settle(pool)

    def _lose(self, pool: model.NodePool, host: hardware.Host) -> None:
        """The machine was taken away: its VM and its node go, the pool wants another one."""
        pool.changed_s = self._clock.now_s
        if host in pool.joined:
            pool.joined.remove(host)
            self._on_leave(pool, host)
        self._machines.remove_vm(host)
        if pool.status in {model.PoolStatus.RUNNING, model.PoolStatus.RUNNING_WITH_ERROR}:
            self._judge(pool)

    def _fills(self, pool: model.NodePool) -> bool:
        if pool.status is model.PoolStatus.ERROR:
            return pool.vms_requested and self._behaviour.error_pool_fills_in
        return pool.vms_requested and pool.status in _GROWING

    def _join(self, pool: model.NodePool, host: hardware.Host) -> None:
        pool.joined.append(host)
        pool.changed_s = self._clock.now_s
        self._on_join(pool, host)
        if pool.name not in self._open:
            self._judge(pool)

    def _judge(self, pool: model.NodePool) -> None:
        """Set the status of a pool without open operation from how many nodes it has; ERROR stays."""
        if pool.status is model.PoolStatus.ERROR:
            return
        if pool.complete:
            pool.status, pool.conditions = model.PoolStatus.RUNNING, ()
            return
        pool.status = model.PoolStatus(self._behaviour.partial_pool_status)
        pool.conditions = (_stockout(pool, f"{len(pool.joined)} of {pool.size} nodes could be created"),)

    # Ending a creation or a resize

    def _settle(self, pool: model.NodePool) -> None:
        """Close the open operation once no VM is on its way any more."""
        opened = self._open.get(pool.name)
        if opened is None or opened.closing or any(_on_its_way(pool, host) for host in pool.hosts):
            return
        opened.closing = True
        if pool.size and not pool.joined:
            self._stockout_later(pool)
            return
        wait_s = max(self._behaviour.pool_finish_s, opened.earliest_end_s - self._clock.now_s)
        self._clock.call_later(wait_s, lambda: self._close(pool))

    def _close(self, pool: model.NodePool) -> None:
        opened = self._open[pool.name]
        opened.closing = False
        if any(_on_its_way(pool, host) for host in pool.hosts):
            return
        del self._open[pool.name]
        pool.status = model.PoolStatus.RUNNING
        self._judge(pool)
        failure = None
        if not pool.complete and self._behaviour.partial_pool_operation_fails:
            failure = operations.Failure("RESOURCE_EXHAUSTED", pool.conditions[0].message)
        self._operations.finish(opened.operation, failure)

    def _stockout_later(self, pool: model.NodePool) -> None:
        why = _stockout(pool, "no node could be created")
        end_s = pool.created_s + self._behaviour.pool_stockout_s
        self._clock.call_later(end_s - self._clock.now_s, lambda: self._fail(pool, why))

    def _fail_later(self, pool: model.NodePool, injected: InjectedFailure) -> None:
        why = model.Condition(injected.condition, injected.message, "RESOURCE_EXHAUSTED")
        self._clock.call_later(self._behaviour.pool_stockout_s, lambda: self._fail(pool, why))

    def _fail(self, pool: model.NodePool, why: model.Condition) -> None:
        opened = self._open[pool.name]
        opened.closing = False
        if any(_on_its_way(pool, host) or host in pool.joined for host in pool.hosts):
            self._settle(pool)
            return
        del self._open[pool.name]
        pool.status, pool.conditions = model.PoolStatus.ERROR, (why,)
        self._operations.finish(opened.operation, operations.Failure(why.canonical, why.message))

    # Resizing

    def resize(self, pool: model.NodePool, size: int) -> operations.Operation:
        """Begin a change of size. Going down takes the last hosts of the cube away."""
        operation = self._operations.start("SET_NODE_POOL_SIZE", pool=pool.name, progress=_progress(pool))
        end_s = self._clock.now_s + self._behaviour.pool_resize_s
        self._open[pool.name] = _Creation(operation, end_s)
        gone = pool.hosts[size:]
        pool.size = size
        pool.changed_s = self._clock.now_s
        pool.status = model.PoolStatus.RECONCILING
        self._clock.call_later(self._behaviour.pool_drain_s, lambda: self._resized(pool, gone))
        return operation

    def _resized(self, pool: model.NodePool, gone: tuple[hardware.Host, ...]) -> None:
        self._release(pool, gone)
        self._request_vms(pool)

    # Deleting

    def delete(self, pool: model.NodePool) -> operations.Operation:
        """Begin a deletion: the nodes leave first, the pool goes later."""
        operation = self._operations.start("DELETE_NODE_POOL", pool=pool.name, progress=_progress(pool))
        pool.status, pool.changed_s = model.PoolStatus.STOPPING, self._clock.now_s
        for host in pool.hosts:
            if host.vm is not None:
                host.vm.status = hardware.VmStatus.STOPPING
        self._clock.call_later(self._behaviour.pool_drain_s, lambda: self._release(pool, pool.hosts))
        self._clock.call_later(self._behaviour.pool_delete_s, lambda: self._deleted(pool, operation))
        return operation

    def _release(self, pool: model.NodePool, hosts: tuple[hardware.Host, ...]) -> None:
        pool.changed_s = self._clock.now_s
        for host in hosts:
            if host in pool.joined:
                pool.joined.remove(host)
                self._on_leave(pool, host)
            if host.vm is not None and host.vm.pool == pool.name:
                self._machines.remove_vm(host)

    def _deleted(self, pool: model.NodePool, operation: operations.Operation) -> None:
        if pool.subblock is not None:
            del self._taken[pool.subblock.name]
        del self._cluster.pools[pool.name]
        self._operations.finish(operation)


def _on_its_way(pool: model.NodePool, host: hardware.Host) -> bool:
    return host.vm is not None and host.powered and host not in pool.joined


def _progress(pool: model.NodePool) -> Callable[[], dict[str, int]]:
    return lambda: {"nodes done": len(pool.joined), "nodes total": pool.size}


def _stockout(pool: model.NodePool, what: str) -> model.Condition:
    message = (
        f"Instances of node pool {pool.name} in zone {pool.zone} hit ZONE_RESOURCE_POOL_EXHAUSTED: {what}, "
        f"the reservation {pool.reservation} does not have enough resources available to fulfill the request."
    )
    return model.Condition("GCE_STOCKOUT", message, "RESOURCE_EXHAUSTED")
