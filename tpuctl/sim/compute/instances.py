"""Instances: the VMs of node pools, their reset and the report of a faulty host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuctl.sim import hardware, partitions
from tpuctl.sim.compute import operations, policies, reservations
from tpuctl.sim.googleapis import errors, fields, times

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tpuctl.sim import behaviour as behaviours

MACHINE_TYPE = "tpu7x-standard-4t"
_SCHEDULES = ("FUTURE", "IMMEDIATE")
_BEHAVIORS = ("BEHAVIOR_UNSPECIFIED", "CHIP_ERROR", "PERFORMANCE", "SILENT_DATA_CORRUPTION")
"""What a TPU host may be reported for. Published; UNRECOVERABLE_GPU_ERROR is for GPUs only."""

REPORT = fields.Message(
    {
        "disruptionSchedule": fields.text,
        "faultReasons": fields.list_of(fields.Message({"behavior": fields.text, "description": fields.text})),
    }
)
"""The body of reportHostAsFaulty."""


class Instances:
    """The VMs on the hardware, as one project sees them."""

    def __init__(self, machines: hardware.Hardware, behaviour: behaviours.Behaviour, project: str) -> None:
        self._machines = machines
        self._clock = machines.clock
        self._behaviour = behaviour
        self._project = project

    def at(self, zone: operations.Place) -> Iterable[hardware.Host]:
        """Yield the hosts in a zone that carry a VM."""
        for cube in self._machines.subblocks():
            if cube.block.reservation.zone == zone.name:
                yield from (host for host in cube.hosts if host.vm is not None)

    def find(self, zone: operations.Place, name: str) -> tuple[hardware.Host, hardware.Vm]:
        """Return an instance, by name or numeric id, and its host; ApiError (404) if there is none."""
        for host in self.at(zone):
            if host.vm is not None and name in {host.vm.name, host.vm.id}:
                return host, host.vm
        raise errors.ApiError(404, f"The resource '{zone.path}/instances/{name}' was not found")

    def view(self, host: hardware.Host, vm: hardware.Vm) -> dict[str, Any]:
        """Return an Instance as JSON."""
        cube = host.subblock
        zone = operations.Place(self._project, "zone", cube.block.reservation.zone)
        group = f"projects/{self._project}/zones/{zone.name}/instanceGroupManagers/{vm.group}"
        view: dict[str, Any] = {
            "creationTimestamp": times.rfc3339(self._clock, vm.created_s),
            "id": vm.id,
            "kind": "compute#instance",
            "labels": {"goog-k8s-node-pool-name": vm.pool},
            "machineType": f"{zone.link}/machineTypes/{MACHINE_TYPE}",
            "metadata": {"items": [{"key": "created-by", "value": group}], "kind": "compute#metadata"},
            "name": vm.name,
            "reservationAffinity": {
                "consumeReservationType": "SPECIFIC_RESERVATION",
                "key": "compute.googleapis.com/reservation-name",
                "values": [cube.block.reservation.name],
            },
            "resourceStatus": self._resource_status(host),
            "scheduling": {"automaticRestart": True, "provisioningModel": "RESERVATION_BOUND"},
            "selfLink": f"{zone.link}/instances/{vm.name}",
            "status": str(vm.status),
            "zone": zone.link,
        }
        if vm.started_s is not None:
            view["lastStartTimestamp"] = times.rfc3339(self._clock, vm.started_s)
        return view

    def _resource_status(self, host: hardware.Host) -> dict[str, Any]:
        cube = host.subblock
        cluster = cube.block.reservation.cluster_id
        ids = {shape: host.partition_id(shape) for shape in partitions.SHAPES}
        status: dict[str, Any] = {
            "physicalHost": f"/{cluster}/{cube.block.id}/{cube.id}/{host.id}",
            "physicalHostTopology": {
                "additionalAttributes": {"acceleratorTopologyIds": ids},
                "block": cube.block.id,
                "cluster": cluster,
                "host": host.id,
                "subblock": cube.id,
            },
            "reservationConsumptionInfo": {
                "consumedReservation": reservations.link(cube.block.reservation),
                "consumedReservationBlock": reservations.block_link(cube.block),
                "consumedReservationSubBlock": reservations.subblock_link(cube),
            },
        }
        upcoming = reservations.upcoming_maintenance(cube, self._clock)
        return status if upcoming is None else {**status, "upcomingMaintenance": upcoming}

    def check_running(self, zone: operations.Place, vm: hardware.Vm) -> None:
        """ApiError unless the VM is RUNNING."""
        if vm.status is not hardware.VmStatus.RUNNING:
            raise errors.ApiError(
                400,
                f"The resource '{zone.path}/instances/{vm.name}' is not ready",
                reason="resourceNotReady",
            )

    def report_faulty(self, host: hardware.Host, vm: hardware.Vm, schedule: str) -> operations.Failure | None:
        """End a report: the repair begins soon, in place; the VM stops until it is over.

        Fails if the VM was deleted while the report was under way (published).
        """
        if host.vm is not vm:
            return operations.Failure("RESOURCE_NOT_FOUND", f"The instance {vm.name} was deleted.", 404)
        future = schedule == "FUTURE"
        wait_s = self._behaviour.future_repair_start_s if future else self._behaviour.repair_start_s
        repair = hardware.Fault.IN_REPAIR
        repair_s = self._behaviour.repair_s
        self._clock.call_later(
            wait_s, lambda: self._machines.host_down(host, repair, repair_after_s=repair_s)
        )
        return None


def check_report(report: dict[str, Any]) -> str:
    """Return the disruption schedule of a report; ApiError if the report is not one for a TPU host."""
    schedule = report.get("disruptionSchedule", "")
    if schedule not in _SCHEDULES:
        raise policies.bad_value("disruptionSchedule", schedule, f"Must be one of {_SCHEDULES}.")
    reasons = report.get("faultReasons", [])
    if not reasons:
        raise errors.ApiError(400, "Required field 'faultReasons' not specified", reason="required")
    for number, reason in enumerate(reasons):
        behavior = reason.get("behavior", "")
        if behavior not in _BEHAVIORS:
            field = f"faultReasons[{number}].behavior"
            raise policies.bad_value(field, behavior, f"For TPUs it must be one of {_BEHAVIORS}.")
    return str(schedule)
