"""What is wrong with the hosts and the node pool of a cube, and whether that is sure enough to act on.

Evidence that is missing, young or contradictory gives a finding that waits, never a remedy. Where somebody is
at work already, nothing is done by us.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.engine import astray
from tpuctl.engine.health import hosts as host_evidence
from tpuctl.engine.remediation import rules
from tpuctl.model import declared, fleet, health, repairs, states, topology

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterable, Iterator

    from tpuctl.engine.remediation import world as worlds

Ailment = repairs.Ailment
RUNNING = "RUNNING"
_AT_WORK = frozenset({"PROVISIONING", "STAGING", "STOPPING", "REPAIRING", "PENDING", "PENDING_STOP"})
"""Statuses of a VM on which Google or somebody else works."""
_STOPPED = frozenset({"TERMINATED", "STOPPED", "SUSPENDED", "SUSPENDING"})
_BUSY_POOLS = frozenset(
    {states.PoolStatus.PROVISIONING, states.PoolStatus.RECONCILING, states.PoolStatus.STOPPING}
)
_SMALLEST = topology.SUB_SLICE_SHAPES[0]
_UNSURE_LABELS = frozenset({states.PartitionState.UNKNOWN, states.PartitionState.UNSET})


class Standing(enum.Enum):
    """What follows from a finding."""

    NEEDS = "needs a remedy"
    UNSURE = "too young, or not known: wait"
    HANDS_OFF = "somebody is at work on it"
    TOLD = "nothing helps that may be done"


class Finding(NamedTuple):
    """One thing that is not well."""

    standing: Standing
    says: str
    ailment: Ailment | None = None
    host: fleet.Host | None = None
    since: datetime.datetime | None = None


def suspects(world: worlds.World) -> tuple[fleet.Host, ...]:
    """Hosts of the declared fleet about whose VM the Compute API must be asked."""
    return tuple(
        host
        for cube in world.troubled
        if world.block_spec(cube) is not None
        for host in cube.hosts
        if host.ready is not True and _outlasts(world, host)
    )


def of_hosts(world: worlds.World, cube: fleet.Cube) -> tuple[Finding, ...]:
    """Everything that is not well with the hosts of a cube."""
    return tuple(finding for host in cube.hosts for finding in of_host(world, host))


def of_host(world: worlds.World, host: fleet.Host) -> Iterator[Finding]:
    """Everything that is not well with one host; nothing at all if it is well."""
    leaving = next(
        (
            item
            for item in host_evidence.of_host(host, world.policy, world.now)
            if item.origin is health.Origin.TAINT and item.points_to is states.Verdict.UNHEALTHY
        ),
        None,
    )
    if leaving is not None:
        yield Finding(Standing.HANDS_OFF, f"host {host.name} is {leaving.says}", host=host)
    elif host.ready is True:
        yield from _of_ready_host(world, host)
    else:
        yield _of_other_host(world, host)


def _of_ready_host(world: worlds.World, host: fleet.Host) -> Iterator[Finding]:
    for item in host_evidence.of_host(host, world.policy, world.now):
        standing = _standing_of(world, item)
        if standing is not None and item.origin is health.Origin.CHIPS:
            says = f"host {host.name}: {item.says}"
            yield Finding(standing, says, Ailment.CHIPS_MISSING, host, item.since)
        elif standing is not None and item.origin is health.Origin.CONDITION:
            yield _of_condition(world, host, item, standing)
    label = host.state(_SMALLEST)
    chips = host.chips
    if not host.partition_id(_SMALLEST) or chips is None or chips < topology.CHIPS_PER_HOST:
        return
    says = f"host {host.name}: ready with all chips, but its partition {_SMALLEST} is labelled {label}"
    if label in _UNSURE_LABELS:
        yield Finding(Standing.UNSURE, says, host=host)
    elif label is states.PartitionState.UNHEALTHY:
        settling = host_evidence.is_settling(host, world.policy, world.now)
        standing = Standing.UNSURE if settling else Standing.NEEDS
        yield Finding(standing, says, Ailment.CHIPS_UNUSABLE, host)


def _standing_of(world: worlds.World, item: health.Evidence) -> Standing | None:
    """None for what the policy does not mind, or only somewhat."""
    if item.points_to is states.Verdict.UNHEALTHY:
        return Standing.NEEDS
    if item.points_to is states.Verdict.UNKNOWN:
        return Standing.UNSURE
    age_s = host_evidence.seconds_since(item.since, world.now)
    latched = item.points_to is not None and age_s is not None and age_s >= world.policy.latched_after_s
    return Standing.TOLD if latched else None


def _of_condition(
    world: worlds.World, host: fleet.Host, item: health.Evidence, standing: Standing
) -> Finding:
    """A condition that is as old as before the last repair of the host has nothing new to say."""
    says = f"host {host.name}: {item.says}"
    if standing is not Standing.NEEDS:
        return Finding(standing, says, host=host, since=item.since)
    tried = [rung for rung in world.ledger.rungs if rung.counts and rung.host == host.name]
    if tried and (item.since is None or item.since <= tried[-1].at):
        told = f"{says}; it has not changed since {host_evidence.when(tried[-1].at)}, when a repair ended"
        return Finding(Standing.TOLD, told, host=host, since=item.since)
    return Finding(Standing.NEEDS, says, Ailment.NODE_CONDITION, host, item.since)


def _of_other_host(world: worlds.World, host: fleet.Host) -> Finding:
    """A host that is not ready, or silent. Only with a VM that runs is it the guest's fault."""
    silent = host.ready is None
    ailment = Ailment.HOST_SILENT if silent else Ailment.HOST_NOT_READY
    since = f" since {host_evidence.when(host.ready_since)}" if host.ready_since else ""
    says = f"host {host.name} {'does not report' if silent else 'is not ready'}{since}"
    if not _outlasts(world, host):
        return Finding(Standing.UNSURE, f"{says}, within the grace for that", host=host)
    vm = world.vms.get(host.name)
    if vm == RUNNING:
        return Finding(Standing.NEEDS, f"{says} while its VM runs", ailment, host, host.ready_since)
    if vm in _AT_WORK:
        return Finding(Standing.HANDS_OFF, f"{says}; its VM is {vm}, which is worked on", host=host)
    if vm == "":
        return Finding(Standing.HANDS_OFF, f"{says}; its VM is gone, the node goes too", host=host)
    if vm in _STOPPED:
        told = f"{says}; its VM is {vm}: only a running VM can be reset or reported; start it first"
        return Finding(Standing.TOLD, told, host=host)
    return Finding(Standing.UNSURE, f"{says}; how its VM is, is not known", host=host)


def _outlasts(world: worlds.World, host: fleet.Host) -> bool:
    """If true, it has been so for longer than its grace; of unknown age, it never is."""
    if host_evidence.is_settling(host, world.policy, world.now):
        return False
    ailment = Ailment.HOST_SILENT if host.ready is None else Ailment.HOST_NOT_READY
    grace_s = max(rules.RULES[ailment].grace_s, world.policy.not_ready_grace_s)
    age_s = host_evidence.seconds_since(host.ready_since, world.now)
    return age_s is not None and age_s >= grace_s


def of_pool(world: worlds.World, cube: fleet.Cube, settings: declared.PoolSettings) -> Iterator[Finding]:
    """Whether the node pool should be made again; while hosts are in repair, fewer nodes are normal."""
    pool, sub_block, hosts = cube.pool, cube.sub_block, len(cube.hosts)
    if pool is None or hosts >= topology.HOSTS_PER_CUBE:
        return
    if cube.strays:
        yield Finding(Standing.UNSURE, astray.told(cube.strays, f"of node pool {pool.name}"))
        return
    says = f"node pool {pool.name} is {pool.raw_status or 'in no known status'} with {hosts} nodes"
    healthy = sub_block.healthy_hosts if sub_block is not None else None
    if pool.status is states.PoolStatus.UNKNOWN or healthy is None:
        yield Finding(Standing.UNSURE, f"{says}; how many hosts are healthy is not told")
    elif healthy <= hosts:
        says += f", and the reservation has {healthy} healthy hosts for it"
        yield Finding(Standing.HANDS_OFF, f"{says}: the others have to be repaired first")
    else:
        ailment = Ailment.POOL_SHORT if hosts else Ailment.POOL_ERROR
        grace_s = settings.incomplete_grace_s if hosts else settings.error_grace_s
        since = world.sighted(ailment, pool.name)
        age_s = host_evidence.seconds_since(since, world.now)
        ripe = age_s is not None and age_s >= grace_s
        says += f", though the reservation calls {healthy} of its hosts healthy"
        standing = Standing.NEEDS if ripe else Standing.UNSURE
        yield Finding(standing, says, ailment, None, since)


def at_work(world: worlds.World, cube: fleet.Cube) -> str:
    """Why the whole cube is to be left alone: maintenance, or GKE at work on its node pool; else empty."""
    lead_s, now = world.policy.maintenance_lead_s, world.now
    if cube.pool is not None and cube.pool.status in _BUSY_POOLS:
        return f"node pool {cube.pool.name} is {cube.pool.raw_status}"
    sub_block = cube.sub_block
    plans = [sub_block.maintenance if sub_block is not None else None, world.blocks[cube.block].maintenance]
    if any(plan is not None and plan.is_ongoing for plan in plans):
        return "maintenance is going on"
    if any(host.maintenance_ongoing for host in cube.hosts):
        return "maintenance is going on"
    starts = [plan.start for plan in plans if plan is not None]
    starts += [host.maintenance_at for host in cube.hosts if host.maintenance_at is not None]
    if sub_block is not None:
        starts.append(sub_block.maintenance_start)
    near = [start for start in starts if start is not None and _is_near(start, now, lead_s)]
    return f"maintenance is planned for {host_evidence.when(min(near))}" if near else ""


def _is_near(start: datetime.datetime, now: datetime.datetime, lead_s: float) -> bool:
    return -health.DAY_S < (start - now).total_seconds() < lead_s


def sightings(world: worlds.World) -> tuple[repairs.Sighting, ...]:
    """What has no beginning in any source, with since when it was seen; nothing else is kept."""
    found = sorted(set(_seen(world)))
    return tuple(
        repairs.Sighting(kind, subject, world.sighted(kind, subject) or world.now) for kind, subject in found
    )


def _seen(world: worlds.World) -> Iterable[tuple[str, str]]:
    for cube in world.troubled:
        spec = world.block_spec(cube)
        if spec is not None and cube.pool is not None and not at_work(world, cube):
            for finding in of_pool(world, cube, spec.pools):
                if finding.ailment is not None:
                    yield finding.ailment.value, cube.pool.name
    claimed = (world.snapshot.cubes_by_id.get(cube_id) for cube_id in world.snapshot.claimants)
    for cube in (*world.troubled, *(cube for cube in claimed if cube is not None)):
        if is_kept_away(world, cube):
            yield KEPT_AWAY, cube.id


KEPT_AWAY = "kept-away"


def is_kept_away(world: worlds.World, cube: fleet.Cube) -> bool:
    """If true, nothing is wrong with it, no slice is on it, and a hold or a cordon keeps it from use."""
    if world.snapshot.holders.get(cube.id) or not cube.hosts:
        return False
    marked = cube.id in world.snapshot.claimants or not all(host.schedulable for host in cube.hosts)
    return marked and world.judgement(cube).verdict is states.Verdict.HEALTHY
