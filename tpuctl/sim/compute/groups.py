"""Managed instance groups: one below each node pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuctl.sim import hardware, partitions
from tpuctl.sim.compute import operations
from tpuctl.sim.gke import model
from tpuctl.sim.googleapis import times

if TYPE_CHECKING:
    from collections.abc import Callable

    from tpuctl.sim import behaviour as behaviours
    from tpuctl.sim import clock as clocks

Json = dict[str, Any]

_CHANGING = frozenset(
    {model.PoolStatus.PROVISIONING, model.PoolStatus.RECONCILING, model.PoolStatus.STOPPING}
)
_ACTIONS = {
    hardware.VmStatus.RUNNING: "none",
    hardware.VmStatus.PROVISIONING: "creating",
    hardware.VmStatus.STAGING: "creating",
    hardware.VmStatus.REPAIRING: "recreating",
    hardware.VmStatus.STOPPING: "deleting",
}

_UPDATE_POLICY: Json = {
    "maxSurge": {"fixed": 1},
    "maxUnavailable": {"fixed": 1},
    "minimalAction": "REPLACE",
    "replacementMethod": "SUBSTITUTE",
    "type": "OPPORTUNISTIC",
}


class Groups:
    """Shows node pools as the instance groups that make their VMs."""

    def __init__(
        self,
        clock: clocks.Clock,
        behaviour: behaviours.Behaviour,
        project: str,
        topologies: Callable[[str], list[Json]],
    ) -> None:
        """`topologies` gives the `appliedAcceleratorTopologies` of a pool by its name."""
        self._clock = clock
        self._behaviour = behaviour
        self._project = project
        self._topologies = topologies

    def stable(self, pool: model.NodePool) -> bool:
        """True if the group has what it wants and has not changed for a while."""
        settled = self._clock.now_s - pool.changed_s >= self._behaviour.group_settle_s
        quiet = pool.status not in _CHANGING and not _stuck(pool)
        return quiet and settled and all(_runs(host) for host in pool.hosts)

    def view(self, pool: model.NodePool) -> Json:
        """Return an InstanceGroupManager as JSON."""
        zone = self._zone(pool)
        link = f"{zone.link}/instanceGroupManagers/{pool.group}"
        template = f"{operations.COMPUTE}/projects/{self._project}/global/instanceTemplates/{pool.base_name}"
        counts = self._counts(pool)
        actions: dict[str, int] = {}
        for status, count in counts.items():
            action = _ACTIONS[status] if status is not None else "creating"
            actions[action] = actions.get(action, 0) + count
        return {
            "baseInstanceName": pool.base_name,
            "creationTimestamp": times.rfc3339(self._clock, pool.created_s),
            "currentActions": actions,
            "fingerprint": partitions.opaque_id(pool.base_name, pool.size)[:11] + "=",
            "id": partitions.numeric_id(link),
            "instanceGroup": f"{zone.link}/instanceGroups/{pool.group}",
            "instanceLifecyclePolicy": {"defaultActionOnFailure": "REPAIR", "forceUpdateOnRepair": "YES"},
            "instanceTemplate": template,
            "kind": "compute#instanceGroupManager",
            "name": pool.group,
            "selfLink": link,
            "status": self._status(pool, counts),
            "targetSize": pool.size,
            "updatePolicy": _UPDATE_POLICY,
            "zone": zone.link,
        }

    def _status(self, pool: model.NodePool, counts: dict[hardware.VmStatus | None, int]) -> Json:
        names = {
            "pending" if status is None else str(status).lower(): count for status, count in counts.items()
        }
        status: Json = {
            "currentInstanceStatuses": names,
            "isStable": self.stable(pool),
            "versionTarget": {"isReached": not _stuck(pool)},
        }
        applied = self._topologies(pool.name)
        return {**status, "appliedAcceleratorTopologies": applied} if applied else status

    def managed(self, pool: model.NodePool) -> list[Json]:
        """Return the ManagedInstances of a pool, those included that no host can take now."""
        return [self._managed(pool, host) for host in pool.hosts]

    def _managed(self, pool: model.NodePool, host: hardware.Host) -> Json:
        zone = self._zone(pool)
        name = pool.instance_name(host)
        view: Json = {"instance": f"{zone.link}/instances/{name}", "name": name, "targetStatus": "RUNNING"}
        vm = host.vm
        if vm is not None:
            action = _ACTIONS[vm.status].upper()
            return {**view, "id": vm.id, "instanceStatus": str(vm.status), "currentAction": action}
        view["currentAction"] = "CREATING"
        return {**view, "lastAttempt": {"errors": {"errors": [_error(pool)]}}} if pool.vms_requested else view

    def errors(self, pool: model.NodePool) -> list[Json]:
        """Return what listErrors shows: one entry for each VM that could not be created."""
        zone = self._zone(pool)
        return [
            {
                "error": _error(pool),
                "instanceActionDetails": {
                    "action": "CREATING",
                    "instance": f"{zone.link}/instances/{pool.instance_name(host)}",
                },
                "timestamp": times.rfc3339(self._clock, pool.changed_s),
            }
            for host in pool.hosts
            if host.vm is None and pool.vms_requested
        ]

    def _zone(self, pool: model.NodePool) -> operations.Place:
        return operations.Place(self._project, "zone", pool.zone)

    @staticmethod
    def _counts(pool: model.NodePool) -> dict[hardware.VmStatus | None, int]:
        """VMs by status; None stands for those that are not there."""
        counts: dict[hardware.VmStatus | None, int] = {}
        for host in pool.hosts:
            status = host.vm.status if host.vm is not None else None
            counts[status] = counts.get(status, 0) + 1
        return counts


def _runs(host: hardware.Host) -> bool:
    return host.vm is not None and host.vm.status is hardware.VmStatus.RUNNING


def _stuck(pool: model.NodePool) -> bool:
    return pool.subblock is not None and pool.subblock.group_stuck


def _error(pool: model.NodePool) -> Json:
    message = f"The zone '{pool.zone}' does not have enough resources available to fulfill the request."
    return {"code": "ZONE_RESOURCE_POOL_EXHAUSTED", "message": message}
