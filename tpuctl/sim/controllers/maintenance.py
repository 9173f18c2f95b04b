"""What GKE writes on nodes about the maintenance of their hosts.

Labels and taint are published. Assumed is that they come at once, that the time stays until the window is
over, and that the taint comes with the opening of the window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.sim import hardware as hardwares
from tpuctl.sim.controllers import node_object
from tpuctl.sim.controllers import nodes as node_controller

if TYPE_CHECKING:
    from tpuctl.sim import clock as clocks
    from tpuctl.sim import store as stores

SCHEDULED = "cloud.google.com/scheduled-maintenance-time"
"""Start of the planned window, Unix seconds."""
ACTIVE = "cloud.google.com/active-node-maintenance"
TERMINATION = "cloud.google.com/impending-node-termination"
TERMINATION_TAINT: node_object.Object = {"key": TERMINATION, "effect": "NoSchedule"}


class MaintenanceMarks:
    """Keeps the marks on the nodes of a cube in step with its maintenance plan."""

    def __init__(
        self,
        store: stores.Store,
        clock: clocks.Clock,
        hardware: hardwares.Hardware,
        nodes: node_controller.NodeController,
    ) -> None:
        self._store = store
        self._clock = clock
        self._nodes = nodes
        hardware.subscribe(self._hardware_changed)
        store.subscribe(node_controller.NODES, self._node_changed)

    def _hardware_changed(self, change: hardwares.Change) -> None:
        if change.kind is hardwares.ChangeKind.MAINTENANCE:
            for host in change.subblock.hosts:
                self._mark(host)

    def _node_changed(self, kind: str, _old: stores.Json | None, new: stores.Json | None) -> None:
        host = self._nodes.host_of(new["metadata"]["name"]) if kind == "ADDED" and new is not None else None
        if host is not None and host.subblock.maintenance is not None:
            self._mark(host)

    def _mark(self, host: hardwares.Host) -> None:
        name = self._nodes.node_on(host)
        node = self._store.get(node_controller.NODES, None, name) if name else None
        if node is None:
            return
        plan = host.subblock.maintenance
        ongoing = plan is not None and plan.ongoing
        start_s = None if plan is None else int(self._clock.start.timestamp() + plan.window_start_s)
        labels = {
            SCHEDULED: None if start_s is None else str(start_s),
            ACTIVE: "ONGOING" if ongoing else None,
        }
        taints = [TERMINATION_TAINT] if ongoing else []
        marked = node_object.with_taints(
            node_object.with_labels(node, labels), add=taints, remove={TERMINATION}
        )
        if marked is not node:
            self._store.replace(node_controller.NODES, marked)
