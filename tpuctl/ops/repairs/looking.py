"""What besides the snapshot has to be known: how VMs are, and what has become of what was asked for.

A question that gets no answer leaves the thing unknown: nothing is done on it, and nothing is taken for done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.engine import remediation
from tpuctl.engine.remediation import progress
from tpuctl.model import declared, errors, repairs
from tpuctl.ops import journal
from tpuctl.ops import ports as ports_module

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tpuctl.model import fleet

ASKED_AT_MOST = 64
"""VMs in one review; so many silent hosts at once are more likely the network's fault than theirs."""
REPORT_ASKED_FOR_S = 3600.0
"""A report takes 10 to 12 minutes; after an hour only the host itself tells anything new."""
Remote = progress.Remote
_REMOTE = {
    ports_module.OperationStatus.RUNNING: Remote.RUNNING,
    ports_module.OperationStatus.DONE: Remote.DONE,
    ports_module.OperationStatus.FAILED: Remote.FAILED,
}


def at_vms(
    ports: ports_module.Ports, reporter: ports_module.Reporter, hosts: Iterable[fleet.Host]
) -> dict[str, str]:
    """Host -> status of its VM, empty if it has none; hosts about which no answer came are left out."""
    wanted = sorted({host.name: host for host in hosts}.values())
    if len(wanted) > ASKED_AT_MOST:
        reporter.warn(
            f"{len(wanted)} hosts do not report at once: the network or the control plane may be to blame; "
            f"only {ASKED_AT_MOST} of them are looked at"
        )
    found: dict[str, str] = {}
    for host in wanted[:ASKED_AT_MOST]:
        try:
            instance = ports.instances.get(host.provider_id)
        except errors.TpuctlError as error:
            reporter.warn(f"how the VM of host {host.name} is, is not known: {error.message}")
            continue
        found[host.name] = "" if instance is None else instance.status
    return found


def hosts_to_ask(world: remediation.World, items: Sequence[repairs.Item]) -> Sequence[fleet.Host]:
    """Hosts that are silent, and those whose repair is under way."""
    running = [item for item in items if item.state is repairs.State.RUNNING]
    return [*remediation.suspects(world), *hosts_of(world, running)]


def hosts_of(world: remediation.World, items: Sequence[repairs.Item]) -> Sequence[fleet.Host]:
    """Hosts that items are about; for a cube as a whole, those of its hosts that are silent."""
    wanted = {item.case.host for item in items}
    cubes = {cube.id: cube for item in items if (cube := world.cube_of(item.case)) is not None}
    silent = {host.name for host in remediation.suspects(world)}
    named = wanted | (silent if "" in wanted else set())
    return [host for cube in cubes.values() for host in cube.hosts if host.name in named]


def at_signs(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    world: remediation.World,
    items: Sequence[repairs.Item],
) -> dict[str, remediation.Signs]:
    """What else tells how running items are."""
    found = {}
    for item in items:
        if item.state is not repairs.State.RUNNING:
            continue
        if item.case.remedy is declared.Remedy.FAILOVER:
            is_open = journal.of_slice(ports, item.case.slice) is not None
            found[item.id] = remediation.Signs(operation_open=is_open)
        elif item.case.remedy is declared.Remedy.REMOVE and _is_young(world, item):
            found[item.id] = _of_report(ports, reporter, item)
    return found


def _is_young(world: remediation.World, item: repairs.Item) -> bool:
    if not item.operation or item.step_at is None:
        return False
    return (world.now - item.step_at).total_seconds() < REPORT_ASKED_FOR_S


def _of_report(
    ports: ports_module.Ports, reporter: ports_module.Reporter, item: repairs.Item
) -> remediation.Signs:
    try:
        instance = ports.instances.get(item.case.provider_id)
        if instance is None:
            return remediation.Signs()
        operation = ports.instances.operation(instance, item.operation)
    except errors.TpuctlError as error:
        reporter.warn(f"how the report of host {item.case.host} is, is not known: {error.message}")
        return remediation.Signs()
    return remediation.Signs(remote=_REMOTE[operation.status], error=operation.error)
