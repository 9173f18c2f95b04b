"""What has become of a repair that was begun: judged by the world, not by what we asked for.

A request that was accepted has not happened yet. A reboot is done when the host is well again and has stayed
so; a report is done when there is evidence of repair; a lookup that failed says nothing.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.engine.health import hosts as host_evidence
from tpuctl.engine.remediation import findings, rules
from tpuctl.model import declared, repairs, topology

if TYPE_CHECKING:
    from tpuctl.engine.remediation import world as worlds
    from tpuctl.model import fleet

State = repairs.State
Step = repairs.Step
Remedy = declared.Remedy


class Remote(enum.Enum):
    """How the remote operation of an item is."""

    UNKNOWN = "not known"
    """The service does not remember it, was not asked, or did not answer."""
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class Signs(NamedTuple):
    """What besides the snapshot tells how a running repair is."""

    remote: Remote = Remote.UNKNOWN
    error: str = ""
    """Why the remote operation failed."""
    operation_open: bool = False
    """If true, an operation of tpuctl on the slice is open: the swap goes on."""


def judge(world: worlds.World, item: repairs.Item, signs: Signs) -> repairs.Item:
    """The item as it is now: the same, with another note, or over."""
    if item.step_at is not None and world.now < item.step_at:
        return item  # the view is older than what we did
    by_remedy = {
        Remedy.REBOOT: _reboot,
        Remedy.REPROVISION: _reprovision,
        Remedy.FAILOVER: _failover,
        Remedy.REMOVE: _remove,
    }
    return by_remedy[item.case.remedy](world, item, signs)


def _over(world: worlds.World, item: repairs.Item, state: State, note: str) -> repairs.Item:
    return item.ended(state, world.now, note)


def _late(world: worlds.World, item: repairs.Item, still: str) -> repairs.Item:
    """Failed if its time is over, else as it is."""
    if item.due_at is None or world.now < item.due_at:
        return item
    return _over(world, item, State.FAILED, f"it did not help in time: {still}")


def _absent(world: worlds.World, item: repairs.Item, what: str) -> repairs.Item:
    return _over(world, item, State.CANCELLED, f"target absent: {what} is gone")


def _host(world: worlds.World, item: repairs.Item) -> fleet.Host | None:
    cube = world.snapshot.cubes_by_id.get(item.case.cube)
    hosts = cube.hosts if cube is not None else ()
    return next((host for host in hosts if host.name == item.case.host), None)


def _is_well(world: worlds.World, host: fleet.Host) -> bool:
    """Ready for as long as the policy wants, all chips there, nothing said against it."""
    settling = host_evidence.is_settling(host, world.policy, world.now)
    full = host.ready is True and host.chips == topology.CHIPS_PER_HOST
    return full and not settling and not tuple(findings.of_host(world, host))


def _reboot(world: worlds.World, item: repairs.Item, _signs: Signs) -> repairs.Item:
    host = _host(world, item)
    if host is None:
        return _absent(world, item, f"host {item.case.host}")
    if _is_well(world, host):
        return _over(
            world, item, State.DONE, f"ready since {_when(host.ready_since)}, nothing is said against it"
        )
    trouble = next((finding.says for finding in findings.of_host(world, host)), "it is settling")
    return _late(world, item, trouble)


def _reprovision(world: worlds.World, item: repairs.Item, _signs: Signs) -> repairs.Item:
    cube = world.cube_of(item.case)
    if cube is None:
        return _absent(world, item, f"sub-block {item.case.sub_block or item.case.cube}")
    if item.step is not Step.DELETED or item.step_at is None:
        return item
    since = item.step_at
    fresh = [host for host in cube.hosts if host.created_at is not None and host.created_at > since]
    healthy = cube.sub_block.healthy_hosts if cube.sub_block is not None else None
    wanted = topology.HOSTS_PER_CUBE if healthy is None else min(healthy, topology.HOSTS_PER_CUBE)
    if fresh and len(fresh) == len(cube.hosts) >= wanted and all(host.ready is True for host in fresh):
        return _over(world, item, State.DONE, f"the node pool was made again, with {len(fresh)} ready hosts")
    return _late(world, item, f"{len(fresh)} of {wanted} hosts came")


def _failover(world: worlds.World, item: repairs.Item, signs: Signs) -> repairs.Item:
    if signs.operation_open:
        return item
    found = world.snapshot.slices_by_name.get(item.case.slice)
    if found is None or found.deleting:
        return _absent(world, item, f"slice {item.case.slice}")
    cubes = {world.snapshot.cube_of_partition.get(one, one) for one in found.partition_ids}
    if item.case.cube in cubes:
        return _late(world, item, f"slice {found.name} still has the cube")
    if found.state.is_ready:
        return _over(world, item, State.DONE, f"slice {found.name} is {found.state} without the cube")
    return _late(world, item, f"slice {found.name} is {found.reason or found.state}")


def _remove(world: worlds.World, item: repairs.Item, signs: Signs) -> repairs.Item:
    """Done only on evidence of repair; there is no time after which a faulty host counts as repaired."""
    if item.step is not Step.REPORTED or item.step_at is None:
        return item
    if signs.remote is Remote.FAILED:
        return _over(world, item, State.FAILED, f"the report failed: {signs.error}")
    cube = world.cube_of(item.case)
    if cube is None or (not cube.hosts and cube.pool is None):
        return _absent(world, item, f"node pool {item.case.pool}")
    host = _host(world, item)
    if host is None or signs.remote is Remote.RUNNING:
        return _overdue(world, item)
    restarted = host.ready_since is not None and host.ready_since > item.step_at
    runs = world.vms.get(host.name) == findings.RUNNING
    if restarted and runs and _is_well(world, host) and _hardware_agrees(cube):
        note = (
            f"repaired: its VM runs, the host is ready since {_when(host.ready_since)}, after the report, "
            "with all chips; no source says otherwise"
        )
        return _over(world, item, State.DONE, note)
    return _overdue(world, item)


def _hardware_agrees(cube: fleet.Cube) -> bool:
    """The reservation counts no bad host; where it does not count, it cannot object."""
    return cube.sub_block is None or not cube.sub_block.degraded_hosts


def _overdue(world: worlds.World, item: repairs.Item) -> repairs.Item:
    since = item.step_at or world.now
    if (world.now - since).total_seconds() <= rules.REPAIR_TO_S:
        return item
    end = since + datetime.timedelta(seconds=rules.REPAIR_TO_S)
    note = f"overdue since {_when(end)}: no evidence of repair after 14 days; ask Google Cloud support"
    return dataclasses.replace(item, note=note)


def _when(moment: datetime.datetime | None) -> str:
    return host_evidence.when(moment) if moment is not None else "a time not told"
