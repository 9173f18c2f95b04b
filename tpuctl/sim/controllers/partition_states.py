"""The `-state` labels of partitions, which the slice controller keeps on the nodes.

The states are published; when they appear and how fast they follow the hardware is not, see
`behaviour.partition_label_latency_s`. What other controllers ask here is the published state, so that they
can be as wrong as the labels are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.sim import partitions
from tpuctl.sim.controllers import node_object
from tpuctl.sim.controllers import nodes as node_controller

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tpuctl.sim import behaviour as behaviours
    from tpuctl.sim import clock as clocks
    from tpuctl.sim import hardware as hardwares
    from tpuctl.sim import store as stores

HEALTHY, DEGRADED, UNHEALTHY, INCOMPLETE, UNSET = "HEALTHY", "DEGRADED", "UNHEALTHY", "INCOMPLETE", "UNSET"
USABLE = frozenset({HEALTHY, DEGRADED})
"""States of partitions from which a new slice can be formed."""


class PartitionStates:
    """Labels every node with the states of the five partitions it is part of, while switched on."""

    def __init__(
        self,
        store: stores.Store,
        clock: clocks.Clock,
        hardware: hardwares.Hardware,
        behaviour: behaviours.Behaviour,
        nodes: node_controller.NodeController,
    ) -> None:
        self._store = store
        self._clock = clock
        self._hardware = hardware
        self._behaviour = behaviour
        self._nodes = nodes
        self._on = False
        self._published: dict[str, str] = {}
        self._planned: dict[str, clocks.Timer] = {}
        self._followers: list[Callable[[hardwares.SubBlock], None]] = []
        hardware.subscribe(lambda change: self._plan(change.subblock))
        store.subscribe(node_controller.NODES, self._node_changed)

    def start(self) -> None:
        """Publish the states of all cubes, now and after every change."""
        self._on = True
        for cube in self._hardware.subblocks():
            if cube.used:
                self._plan(cube)

    def stop(self) -> None:
        """Leave the labels as they are: nobody looks after them any more."""
        self._on = False
        for timer in self._planned.values():
            timer.cancel()
        self._planned.clear()

    def follow(self, callback: Callable[[hardwares.SubBlock], None]) -> None:
        """Call `callback` with each cube whose published states changed."""
        self._followers.append(callback)

    def published(self, partition_id: str) -> str:
        """The state that the labels of a partition show; UNSET if none was published yet."""
        return self._published.get(partition_id, UNSET)

    def publish(self, cube: hardwares.SubBlock) -> None:
        """Bring the labels of a cube's nodes up to date at once."""
        before = {one: self._published.get(one) for ids in cube.partition_ids.values() for one in ids}
        for shape, ids in cube.partition_ids.items():
            self._published.update(
                (one, self._observe(shape, cube, number)) for number, one in enumerate(ids)
            )
        for host in cube.hosts:
            self._label(host)
        if any(self._published[one] != state for one, state in before.items()):
            for callback in self._followers:
                callback(cube)

    def _node_changed(self, kind: str, old: stores.Json | None, new: stores.Json | None) -> None:
        node = new or old
        if kind in ("ADDED", "DELETED") and node is not None:
            label = node_object.partition_label(partitions.CUBE)
            self._plan(self._hardware.find_subblock(node["metadata"]["labels"][label]))

    def _plan(self, cube: hardwares.SubBlock) -> None:
        if self._on and cube.id not in self._planned:
            wait_s = self._behaviour.partition_label_latency_s
            self._planned[cube.id] = self._clock.call_later(wait_s, lambda: self._due(cube))

    def _due(self, cube: hardwares.SubBlock) -> None:
        self._planned.pop(cube.id, None)
        self.publish(cube)

    def _observe(self, shape: partitions.Shape, cube: hardwares.SubBlock, number: int) -> str:
        hosts = [cube.hosts[index] for index in partitions.host_indices(shape, number)]
        return self._judge(shape, cube, hosts)

    def _judge(
        self, shape: partitions.Shape, cube: hardwares.SubBlock, hosts: Sequence[hardwares.Host]
    ) -> str:
        if any(self._nodes.node_on(host) is None for host in hosts):
            return INCOMPLETE
        unseen = self._behaviour.hung_guest_is_unseen
        if not all(host.serving or (unseen and host.hung) for host in hosts):
            return UNHEALTHY
        # A host that serves with a fault has a chip error.
        flawed = not all(host.healthy for host in hosts)
        if flawed and self._behaviour.chip_error_state != HEALTHY:
            return self._behaviour.chip_error_state
        # Published: only whole cubes show DEGRADED; smaller shapes do not use the optical links.
        return DEGRADED if cube.ocs_degraded and shape == partitions.CUBE else HEALTHY

    def _label(self, host: hardwares.Host) -> None:
        name = self._nodes.node_on(host)
        node = self._store.get(node_controller.NODES, None, name) if name else None
        if node is not None:
            states = {
                node_object.state_label(shape): self._published[host.partition_id(shape)]
                for shape in partitions.SHAPES
            }
            labelled = node_object.with_labels(node, dict(states))
            if labelled is not node:
                self._store.replace(node_controller.NODES, labelled)
