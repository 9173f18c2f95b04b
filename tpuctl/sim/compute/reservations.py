"""Reservations, their blocks and their sub-blocks as JSON, computed from the hardware at each call.

Counts of VMs and hosts are equal here: one VM has one host. What the infra counts of a TPU sub-block mean is
not published; assumed here is that they count its optical links as one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuctl.sim import partitions
from tpuctl.sim.compute import operations
from tpuctl.sim.googleapis import projects, times

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tpuctl.sim import clock as clocks
    from tpuctl.sim import hardware

Json = dict[str, Any]

MAINTENANCE_COUNTS = (
    "maintenanceOngoingCount",
    "maintenancePendingCount",
    "instanceMaintenanceOngoingCount",
    "instanceMaintenancePendingCount",
    "subblockInfraMaintenanceOngoingCount",
    "subblockInfraMaintenancePendingCount",
)


def place(shown: hardware.Reservation) -> operations.Place:
    """Return the zone a reservation is in."""
    return operations.Place(shown.project, "zone", shown.zone)


def link(shown: hardware.Reservation) -> str:
    return f"{place(shown).link}/reservations/{shown.name}"


def block_link(shown: hardware.Block) -> str:
    return f"{link(shown.reservation)}/reservationBlocks/{shown.name}"


def subblock_link(shown: hardware.SubBlock) -> str:
    return f"{block_link(shown.block)}/reservationSubBlocks/{shown.name}"


def reservation(shown: hardware.Reservation, clock: clocks.Clock) -> Json:
    """Return a Reservation. For TPUs it counts chips, not VMs."""
    cubes = [cube for block in shown.blocks for cube in block.subblocks]
    degraded = sum(not all(_healthy(cube) for cube in block.subblocks) for block in shown.blocks)
    chips = partitions.CUBE_HOSTS * partitions.CHIPS_PER_HOST * len(cubes)
    used = partitions.CHIPS_PER_HOST * sum(cube.used for cube in cubes)
    return {
        **_common("compute#reservation", shown.name, link(shown), place(shown), clock),
        "advancedDeploymentControl": {"reservationOperationalMode": "ALL_CAPACITY"},
        "aggregateReservation": {
            "inUseResources": [_chips(shown, used)],
            "reservedResources": [_chips(shown, chips)],
            "vmFamily": "VM_FAMILY_CLOUD_TPU_POD_SLICE_TPU7X",
        },
        "deploymentType": "DENSE",
        "reservationSharingPolicy": {"serviceShareType": "DISALLOW_ALL"},
        "resourceStatus": {
            "healthInfo": {
                "degradedBlockCount": degraded,
                "healthStatus": _word(degraded == 0),
                "healthyBlockCount": len(shown.blocks) - degraded,
            },
            "reservationBlockCount": len(shown.blocks),
            "reservationMaintenance": _maintenance(cubes, clock),
        },
        "schedulingType": "GROUPED",
        "shareSettings": {"shareType": "LOCAL"},
        "specificReservationRequired": True,
        "status": "READY",
    }


def _chips(shown: hardware.Reservation, count: int) -> Json:
    kind = f"{place(shown).link}/acceleratorTypes/tpu7x"
    return {"accelerator": {"acceleratorCount": count, "acceleratorType": kind}}


def block(shown: hardware.Block, clock: clocks.Clock, *, full: bool = False) -> Json:
    """Return a ReservationBlock; with `full` it names every instance and where it is."""
    cubes = shown.subblocks
    degraded = sum(not _healthy(cube) for cube in cubes)
    used = sum(cube.used for cube in cubes)
    physical: Json = {"block": shown.id, "cluster": shown.reservation.cluster_id}
    if full:
        physical["instances"] = [
            _instance(host) for cube in cubes for host in cube.hosts if host.vm is not None
        ]
    return {
        **_common("compute#reservationBlock", shown.name, block_link(shown), place(shown.reservation), clock),
        "count": partitions.CUBE_HOSTS * len(cubes),
        "healthInfo": {
            "degradedSubBlockCount": degraded,
            "healthStatus": _word(degraded == 0),
            "healthySubBlockCount": len(cubes) - degraded,
        },
        "inUseCount": used,
        "inUseHostCount": used,
        "physicalTopology": physical,
        "reservationMaintenance": _maintenance(cubes, clock),
        "reservationSubBlockCount": len(cubes),
        "reservationSubBlockInUseCount": sum(cube.used > 0 for cube in cubes),
        "selfLinkWithId": _with_id(block_link(shown)),
        "status": "READY",
    }


def _instance(host: hardware.Host) -> Json:
    cube = host.subblock
    return {
        "instanceId": host.vm.id if host.vm is not None else "",
        "physicalHostTopology": {"host": host.id, "subBlock": cube.id},
        "projectId": projects.number(cube.block.reservation.project),
    }


def subblock(shown: hardware.SubBlock, clock: clocks.Clock) -> Json:
    """Return a ReservationSubBlock."""
    home = shown.block.reservation
    degraded = sum(not host.healthy for host in shown.hosts)
    return {
        **_common("compute#reservationSubBlock", shown.name, subblock_link(shown), place(home), clock),
        "acceleratorTopologiesInfo": {
            "acceleratorTopologyInfos": [_states(shown, s) for s in partitions.SHAPES]
        },
        "count": len(shown.hosts),
        "healthInfo": {
            "degradedHostCount": degraded,
            "degradedInfraCount": int(shown.ocs_degraded),
            "healthStatus": _word(_healthy(shown)),
            "healthyHostCount": len(shown.hosts) - degraded,
            "healthyInfraCount": int(not shown.ocs_degraded),
        },
        "inUseCount": shown.used,
        "inUseHostCount": shown.used,
        "physicalTopology": {"block": shown.block.id, "cluster": home.cluster_id, "subBlock": shown.id},
        "reservationSubBlockMaintenance": _maintenance([shown], clock),
        "selfLinkWithId": _with_id(subblock_link(shown)),
        "status": "READY",
    }


def _states(cube: hardware.SubBlock, shape: partitions.Shape) -> Json:
    """Count the partitions of a shape by state. DEGRADED is "not usable" here, unlike in node labels."""
    counts: dict[str, int] = {}
    for number in range(len(cube.partition_ids[shape])):
        hosts = [cube.hosts[index] for index in partitions.host_indices(shape, number)]
        state = _state(hosts)
        counts[state] = counts.get(state, 0) + 1
    states = [{"count": count, "state": state} for state, count in sorted(counts.items())]
    return {"acceleratorTopology": shape, "infoPerTopologyStates": states}


def _state(hosts: list[hardware.Host]) -> str:
    if not all(host.healthy for host in hosts):
        return "DEGRADED"
    return "RUNNING" if any(host.vm is not None for host in hosts) else "AVAILABLE"


def _healthy(cube: hardware.SubBlock) -> bool:
    return not cube.ocs_degraded and all(host.healthy for host in cube.hosts)


def _word(healthy: bool) -> str:
    return "HEALTHY" if healthy else "DEGRADED"


def _maintenance(cubes: Iterable[hardware.SubBlock], clock: clocks.Clock) -> Json:
    """A GroupMaintenanceInfo. A cube's maintenance counts once, and once for each of its VMs."""
    info: Json = {**dict.fromkeys(MAINTENANCE_COUNTS, 0), "schedulingType": "GROUPED"}
    planned = [cube for cube in cubes if cube.maintenance is not None]
    for cube in planned:
        phase = "Ongoing" if cube.maintenance is not None and cube.maintenance.ongoing else "Pending"
        info[f"maintenance{phase}Count"] += 1
        info[f"instanceMaintenance{phase}Count"] += cube.used
    upcoming = [view for cube in planned if (view := upcoming_maintenance(cube, clock)) is not None]
    if upcoming:
        info["upcomingGroupMaintenance"] = min(upcoming, key=lambda view: str(view["windowStartTime"]))
    return info


def upcoming_maintenance(cube: hardware.SubBlock, clock: clocks.Clock) -> Json | None:
    """Return an UpcomingMaintenance for a cube and its instances; None if nothing is planned."""
    plan = cube.maintenance
    if plan is None:
        return None
    return {
        "canReschedule": not plan.ongoing,
        "latestWindowStartTime": times.rfc3339(clock, plan.window_start_s),
        "maintenanceStatus": "ONGOING" if plan.ongoing else "PENDING",
        "type": "SCHEDULED",
        "windowEndTime": times.rfc3339(clock, plan.window_end_s),
        "windowStartTime": times.rfc3339(clock, plan.window_start_s),
    }


def names(self_link: str) -> tuple[str, str]:
    """Return what addresses a resource in a path: its name, or its id instead."""
    return self_link.rpartition("/")[2], partitions.numeric_id(self_link)


def _with_id(self_link: str) -> str:
    return f"{self_link.rpartition('/')[0]}/{partitions.numeric_id(self_link)}"


def _common(kind: str, name: str, self_link: str, zone: operations.Place, clock: clocks.Clock) -> Json:
    return {
        "creationTimestamp": times.rfc3339(clock, 0.0),
        "id": partitions.numeric_id(self_link),
        "kind": kind,
        "name": name,
        "selfLink": self_link,
        "zone": zone.link,
    }
