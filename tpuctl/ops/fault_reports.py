"""Report a faulty host to Google: what it hits, a second look, the report.

Rules of Google's page on faulty hosts in All Capacity mode: the VM must be running and bound to the
reservation, and must not be deleted while the report runs (10 to 12 minutes). The host is repaired in place,
which takes 3 to 14 days or longer; the VM is not moved to another host.
"""

from __future__ import annotations

import dataclasses
import enum

from tpuctl.engine import blast
from tpuctl.model import errors, fleet
from tpuctl.ops import ports as ports_module
from tpuctl.ops import waiting

SOURCES = (fleet.SourceName.NODES, fleet.SourceName.SLICES, fleet.SourceName.PODS)
RUNNING = "RUNNING"
RESERVATION_BOUND = "RESERVATION_BOUND"
REPAIR = "the host is repaired in place, which takes 3 to 14 days or longer; the VM is not moved elsewhere"
KEEP = "do not delete the VM or its node pool while the report runs: it would fail"
DEFAULT_TIMEOUT_S = 1800.0
"""The operation takes 10 to 12 minutes."""
POLL_S = 10.0


class Behavior(enum.StrEnum):
    """What is wrong, in the words of the API; UNRECOVERABLE_GPU_ERROR is for GPUs only."""

    PERFORMANCE = "PERFORMANCE"
    SILENT_DATA_CORRUPTION = "SILENT_DATA_CORRUPTION"
    CHIP_ERROR = "CHIP_ERROR"
    BEHAVIOR_UNSPECIFIED = "BEHAVIOR_UNSPECIFIED"


class Disruption(enum.StrEnum):
    """When the VM may be stopped."""

    IMMEDIATE = "IMMEDIATE"
    """About a minute after the report has ended."""
    FUTURE = "FUTURE"
    """Later, at a time that Google chooses."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prepared:
    """The host as seen, its VM, and what its stop would hit."""

    host: fleet.Host
    cube: fleet.Cube
    instance: ports_module.Instance
    report: ports_module.FaultReport
    radius: blast.BlastRadius


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of it."""

    operation: ports_module.Operation
    waited_s: float | None
    """None if the operation was not waited for."""


def prepare(
    ports: ports_module.Ports,
    host_name: str,
    *,
    behavior: Behavior,
    reason: str,
    disruption: Disruption,
) -> Prepared:
    """Observe and check the rules.

    Raises NotFound for a host that is no node of a cube or has no VM, Conflict if the VM is not running, not
    bound to the reservation, or reported already, UsageError for an empty reason.
    """
    if not reason.strip():
        raise errors.UsageError(
            "the reason is empty", hint="say what was seen: whoever repairs it reads this"
        )
    snapshot = ports.fleet.observe(SOURCES)
    cube, host = _find(snapshot, host_name)
    instance = ports.instances.get(host.provider_id)
    if instance is None:
        raise errors.NotFound(f"host {host.name} has no VM any more: {host.provider_id} does not exist")
    _check_state(instance)
    _check_not_reported(ports, instance)
    return Prepared(
        host=host,
        cube=cube,
        instance=instance,
        report=ports_module.FaultReport(str(behavior), reason.strip(), str(disruption)),
        radius=blast.of_hosts(snapshot, (host,)),
    )


def execute(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    prepared: Prepared,
    *,
    wait: bool = False,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> Outcome:
    """Look again, then report what was shown.

    Raises what `prepare` raises, Conflict if slices or pods have come that the user did not see, TpuctlError
    if the report fails, TimedOut.
    """
    report = prepared.report
    now = prepare(
        ports,
        prepared.host.name,
        behavior=Behavior(report.behavior),
        reason=report.description,
        disruption=Disruption(report.disruption),
    )
    _check_unmoved(prepared, now)
    started_s = ports.clock.monotonic_s()
    operation = ports.instances.report_faulty(now.instance, report)
    reporter.step(f"host {now.host.name}: report {operation.name} runs, for 10 to 12 minutes")
    if not wait:
        return Outcome(operation=operation, waited_s=None)
    reporter.going_on(f"the report goes on as operation {operation.name}; {KEEP}")
    ended = _finish(ports, now, operation, timeout_s)
    reporter.going_on("")
    return Outcome(operation=ended, waited_s=ports.clock.monotonic_s() - started_s)


def _find(snapshot: fleet.Fleet, name: str) -> tuple[fleet.Cube, fleet.Host]:
    for cube in snapshot.cubes:
        for host in cube.hosts:
            if host.name == name:
                return cube, host
    raise errors.NotFound(
        f"there is no host '{name}' in any cube", hint="see: tpuctl health check, tpuctl cube show CUBE"
    )


def _check_state(instance: ports_module.Instance) -> None:
    if instance.status != RUNNING:
        raise errors.Conflict(
            f"the VM {instance.name} is {instance.status or 'in no known state'}; "
            "only a running VM can be reported as faulty",
            hint="a VM that is REPAIRING is worked on already; start a stopped one first",
        )
    if instance.provisioning_model not in ("", RESERVATION_BOUND):
        raise errors.Conflict(
            f"the VM {instance.name} is provisioned as {instance.provisioning_model}; "
            f"only {RESERVATION_BOUND} ones on All Capacity mode capacity can be reported as faulty"
        )


def _check_not_reported(ports: ports_module.Ports, instance: ports_module.Instance) -> None:
    running = _running(ports, instance)
    if running is not None:
        raise errors.Conflict(
            f"the VM {instance.name} is reported already: operation {running.name} runs",
            hint=f"it takes 10 to 12 minutes; {REPAIR}",
        )


def _running(ports: ports_module.Ports, instance: ports_module.Instance) -> ports_module.Operation | None:
    found = ports.instances.reports(instance)
    return next((item for item in found if item.status is ports_module.OperationStatus.RUNNING), None)


def _check_unmoved(before: Prepared, now: Prepared) -> None:
    if now.host.uid != before.host.uid:
        raise errors.Conflict(f"host {before.host.name} was replaced meanwhile; nothing was done")
    seen = {pod.uid for pod in before.radius.pods}
    new = [f"pod {pod.namespace}/{pod.name}" for pod in now.radius.pods if pod.uid not in seen]
    new += [f"slice {name}" for name in now.radius.slices if name not in before.radius.slices]
    if new:
        raise errors.Conflict(
            f"more than was shown now depends on host {before.host.name}; nothing was done",
            hint="run the command again to see it",
            details=tuple(sorted(new)[:5]),
        )


def _finish(
    ports: ports_module.Ports,
    prepared: Prepared,
    operation: ports_module.Operation,
    timeout_s: float,
) -> ports_module.Operation:
    deadline = waiting.Deadline.after(ports.clock, timeout_s)
    while operation.status is ports_module.OperationStatus.RUNNING:
        if not deadline.pause(POLL_S):
            raise errors.TimedOut(f"the report of host {prepared.host.name} still runs: {operation.name}")
        operation = ports.instances.operation(prepared.instance, operation.name)
    if operation.status is ports_module.OperationStatus.FAILED:
        raise errors.TpuctlError(f"the report of host {prepared.host.name} failed: {operation.error}")
    return operation
