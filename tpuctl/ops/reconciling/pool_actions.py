"""Node pools: begin to make or to delete them. What takes minutes is judged by the cycles that follow."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from tpuctl.engine.reconciling import wanted
from tpuctl.model import declared, errors
from tpuctl.ops import carving, locking, pool_deletion
from tpuctl.ops.reconciling import desk as desks
from tpuctl.ops.reconciling import outcomes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tpuctl.model import fleet, reconciling
    from tpuctl.ops import ports as ports_module

_Became = outcomes.Became


def create(
    desk: desks.Desk, actions: Sequence[reconciling.Action], failures: list[errors.TpuctlError]
) -> list[outcomes.Result]:
    """Begin the creation of pools; one that the cluster is too busy for waits for another cycle."""
    try:
        with locking.held(desk.ports, desk.reporter, locking.POOLS, wait_s=0.0) as lock:
            maker = _Maker(desk, locking.fenced(desk.ports, lock))
            results = []
            for action in actions:
                if failures:
                    break
                make = functools.partial(maker.make, action)
                results.append(desks.attempt(desk, action, make, failures))
            return results
    except errors.Conflict as conflict:
        if isinstance(conflict, desks.FATAL):
            raise
        return [outcomes.Result(action, *desks.judged(conflict)) for action in actions]


def recreate(desk: desks.Desk, action: reconciling.Action) -> tuple[outcomes.Became, str]:
    """Delete a pool; that it is missing then is a reason to make it, when its deletion has ended."""
    pools = pool_deletion.prepare(desk.ports, [action.target])
    if not pools:
        raise desks.Drift(f"there is no node pool {action.target}")
    try:
        pool_deletion.execute(desk.ports, desk.reporter, pools, wait=False, timeout_s=0.0)
    except errors.TimedOut as busy:
        return _Became.STOPPED, busy.message
    hosts = [host for cube in desk.snapshot.cubes for host in cube.hosts if host.pool == action.target]
    desk.teller.of_hosts(
        hosts, "PoolRecreated", f"its node pool is made again: {action.reason}", warning=True
    )
    return _Became.GOING_ON, "its deletion has begun"


class _Maker:
    """Makes pools under the lock, with one look at each block."""

    def __init__(self, desk: desks.Desk, ports: ports_module.Ports) -> None:
        self._desk = desk
        self._ports = ports
        self._seen: dict[tuple[str, str, declared.PoolSettings], carving.Prepared] = {}
        self._busy = ""

    def make(self, action: reconciling.Action) -> tuple[outcomes.Became, str]:
        spec = action.pool
        if spec is None:
            raise AssertionError("a pool to create is described")
        if self._busy:
            return _Became.STOPPED, self._busy
        prepared = self._look(spec)
        made = next((found for found in prepared.plan.create if _aim(found) == _aim(spec)), None)
        if made is None:
            raise desks.Drift(f"sub-block {spec.sub_block} has a node pool by now, or is no more")
        if prepared.create_policy and not self._ports.capacity.has_policy(spec.policy):
            self._desk.reporter.step(f"creating workload policy {spec.policy}")
            self._ports.capacity.create_policy(spec.policy)
        try:
            started = self._ports.pools.create(made)
        except errors.Busy as busy:
            self._busy = f"the cluster is busy: {busy.message}"
            return _Became.STOPPED, self._busy
        except errors.Conflict as taken:
            if isinstance(taken, desks.FATAL):
                raise
            return _Became.FAILED, taken.message  # it does not go away by looking again
        return _Became.GOING_ON, f"GKE operation {started.name} has begun"

    def _look(self, spec: fleet.PoolSpec) -> carving.Prepared:
        settings = self._settings(spec)
        key = (spec.policy, spec.block, settings)
        if key not in self._seen:
            self._seen[key] = carving.prepare(
                self._ports, policy=spec.policy, block=spec.block, settings=settings
            )
        return self._seen[key]

    def _settings(self, spec: fleet.PoolSpec) -> declared.PoolSettings:
        """What the declared state says of pools in this block."""
        for block in self._desk.snapshot.blocks:
            if (wanted.tail(block.reservation), block.name) == _aim(spec)[:2]:
                found = wanted.spec_of_block(self._desk.settings.spec, block)
                if found is not None:
                    return found.pools
        raise desks.Drift(f"block {spec.block} is not declared, or is no more")


def _aim(spec: fleet.PoolSpec) -> tuple[str, str, str]:
    """What a pool is for; a reservation is written as a name, or as a path that ends in it."""
    return (spec.reservation.rsplit("/", maxsplit=1)[-1], spec.block, spec.sub_block)
