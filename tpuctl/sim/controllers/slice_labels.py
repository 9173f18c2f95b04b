"""The labels of formed slices on their nodes: which slice, and its topology.

That they come with activation and go with deactivation is published, not how soon: see
`behaviour.slice_label_latency_s`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.sim.controllers import node_object
from tpuctl.sim.controllers import nodes as node_controller

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tpuctl.sim import behaviour as behaviours
    from tpuctl.sim import clock as clocks
    from tpuctl.sim import hardware as hardwares
    from tpuctl.sim import store as stores

Changes = dict[str, str | None]
"""Label -> value, or None to remove it."""


class SliceLabels:
    """Puts labels on nodes and takes them away, a little later than it is told to."""

    def __init__(
        self,
        store: stores.Store,
        clock: clocks.Clock,
        behaviour: behaviours.Behaviour,
        nodes: node_controller.NodeController,
    ) -> None:
        self._store = store
        self._clock = clock
        self._behaviour = behaviour
        self._nodes = nodes

    def put_later(
        self, hosts: Sequence[hardwares.Host], name: str, topology: str, *, still: Callable[[], bool]
    ) -> None:
        """Label the nodes on `hosts` with a slice, if `still` says so when the time has come."""
        labels: Changes = {node_object.SLICE: name, node_object.TOPOLOGY: topology}

        def put() -> None:
            if still():
                self._relabel(hosts, lambda _present: labels)

        self._clock.call_later(self._behaviour.slice_label_latency_s, put)

    def take_later(
        self, hosts: Sequence[hardwares.Host], name: str, *, then: Callable[[Sequence[str]], None]
    ) -> None:
        """Take a slice's labels away; `then` is told the nodes that had them.

        A node that carries another slice's labels by then keeps them.
        """
        none: Changes = {node_object.SLICE: None, node_object.TOPOLOGY: None}

        def take() -> None:
            then(self._relabel(hosts, lambda present: none if present.get(node_object.SLICE) == name else {}))

        self._clock.call_later(self._behaviour.slice_label_latency_s, take)

    def _relabel(
        self, hosts: Sequence[hardwares.Host], changes: Callable[[dict[str, str]], Changes]
    ) -> list[str]:
        """Apply `changes` (of the present labels) to the nodes on `hosts`; names of those that changed."""
        changed = []
        for name in filter(None, map(self._nodes.node_on, hosts)):
            node = self._store.get(node_controller.NODES, None, name)
            if node is None:
                continue
            new = node_object.with_labels(node, changes(node["metadata"].get("labels", {})))
            if new is not node:
                self._store.replace(node_controller.NODES, new)
                changed.append(name)
        return changed
