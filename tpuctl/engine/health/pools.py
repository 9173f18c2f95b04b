"""What the node pool says, and whether all its nodes are there.

A pool's status may be left over from the first attempt to make it: while all 16 nodes are there, ERROR bears
on nothing. A node that is there without the label of its cube is not missing: how the cube is, is unknown
then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.engine import astray
from tpuctl.model import health, states, topology

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tpuctl.model import fleet

Verdict = states.Verdict
Status = states.PoolStatus
Domain = health.Domain

_LACKS_NODES = frozenset({Status.PROVISIONING, Status.ERROR, Status.RUNNING_WITH_ERROR})


def of_cube(cube: fleet.Cube) -> Iterator[health.Evidence]:
    """Evidence from the count of nodes and from the pool."""
    yield from _count(cube)
    if cube.pool is not None:
        yield from _pool(cube.pool, is_complete=not cube.missing_hosts)


def _count(cube: fleet.Cube) -> Iterator[health.Evidence]:
    hosts, wanted = len(cube.hosts), topology.HOSTS_PER_CUBE
    if cube.strays:
        yield from _count_with_strays(cube)
    elif not hosts:
        says = "no node pool" if cube.pool is None else f"node pool {cube.pool.name} has no nodes"
        yield health.Evidence(health.Origin.NODE, "", says, Verdict.INCOMPLETE)
    elif hosts < wanted:
        yield health.Evidence(
            health.Origin.NODE, "", f"{hosts} of {wanted} hosts", Verdict.INCOMPLETE, Domain.VM
        )


def _count_with_strays(cube: fleet.Cube) -> Iterator[health.Evidence]:
    says = astray.told(cube.strays, "of its node pool")
    yield health.Evidence(health.Origin.NODE, "", says, Verdict.UNKNOWN)
    if cube.missing_hosts:
        there = topology.HOSTS_PER_CUBE - cube.missing_hosts
        says = f"{there} of {topology.HOSTS_PER_CUBE} hosts have a node"
        yield health.Evidence(health.Origin.NODE, "", says, Verdict.INCOMPLETE, Domain.VM)


def _pool(pool: fleet.NodePool, *, is_complete: bool) -> Iterator[health.Evidence]:
    subject = f"node pool {pool.name}"
    points_to, remark = _meaning(pool.status, is_complete=is_complete)
    says = f"{pool.raw_status or 'status not told'}{remark}"
    domain = None if points_to in (None, Verdict.HEALTHY) else Domain.VM
    yield health.Evidence(health.Origin.POOL, subject, says, points_to, domain)
    for condition in pool.conditions:
        bears, where = (None, None) if is_complete else (Verdict.INCOMPLETE, Domain.VM)
        yield health.Evidence(health.Origin.POOL, subject, condition, bears, where)


def _meaning(status: states.PoolStatus, *, is_complete: bool) -> tuple[states.Verdict | None, str]:
    if status is Status.RUNNING:
        return Verdict.HEALTHY, ""
    if status in _LACKS_NODES:
        if not is_complete:
            return Verdict.INCOMPLETE, ""
        return None, ", though all its nodes are there"
    if status is Status.RECONCILING:
        return Verdict.DEGRADED, ", its nodes may go away meanwhile"
    if status is Status.STOPPING:
        return Verdict.UNHEALTHY, ", it is being deleted"
    return Verdict.UNKNOWN, ", a status that is not known"
