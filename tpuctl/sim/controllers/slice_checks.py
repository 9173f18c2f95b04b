"""What the slice controller checks before it forms a slice; each failed check gives SliceCreationFailed.

The causes are published; the texts are the simulator's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuctl.sim import rules
from tpuctl.sim.controllers import partition_states

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tpuctl.sim import hardware as hardwares
    from tpuctl.sim.controllers import holds as hold_book
    from tpuctl.sim.controllers import nodes as node_controller

_SHOWN = 4
"""So many ids are listed in a message; the rest is counted."""


class Checks:
    """Looks at a slice's partitions as the controller can see them."""

    def __init__(
        self,
        hardware: hardwares.Hardware,
        nodes: node_controller.NodeController,
        states: partition_states.PartitionStates,
        holds: hold_book.Holds,
    ) -> None:
        self._hardware = hardware
        self._nodes = nodes
        self._states = states
        self._holds = holds

    def problem(self, spec: dict[str, Any], holder: hold_book.Holder) -> str | None:
        """The first reason why a slice cannot be formed, or None."""
        topology, ids = spec["topology"], spec["partitionIds"]
        return (
            rules.topology_problem(topology)
            or rules.count_problem(topology, ids)
            or self._missing(topology, ids)
            or self._moving(self.hosts(ids))
            or self._unusable(ids)
            or self._overlap(self.hosts(ids), holder)
        )

    def hosts(self, ids: Iterable[str]) -> tuple[hardwares.Host, ...]:
        """The hosts of known partitions."""
        return tuple(host for one in ids for host in self._hardware.partition_hosts(one))

    def place_problem(self, hosts: Iterable[hardwares.Host]) -> str | None:
        """Whether the hosts are of different blocks or reservations: this gives FAILED (published)."""
        blocks = {host.subblock.block.id: host.subblock.block for host in hosts}.values()
        return rules.place_problem({(block.reservation.name, block.id) for block in blocks})

    def _missing(self, topology: str, ids: Sequence[str]) -> str | None:
        shape = rules.partition_shape(topology)
        unknown = [one for one in ids if not self._is_partition(one, shape)]
        if unknown:
            return f"no {shape} partition with id {_listed(unknown)}"
        without = [one for one in ids if not any(map(self._nodes.node_on, self.hosts([one])))]
        return f"no nodes for partition {_listed(without)}" if without else None

    def _moving(self, hosts: Sequence[hardwares.Host]) -> str | None:
        """Whether an instance group below the nodes is stuck in an update (published for super-slices).

        A group that only lacks hosts counts as usable: smaller partitions of such a cube form slices.
        """
        pools = sorted({host.vm.pool for host in hosts if host.subblock.group_stuck and host.vm is not None})
        return f"the instance group of node pool {_listed(pools)} is not stable" if pools else None

    def _is_partition(self, partition_id: str, shape: str) -> bool:
        try:
            return self._hardware.shape_of(partition_id) == shape
        except KeyError:
            return False

    def _unusable(self, ids: Sequence[str]) -> str | None:
        states = {one: self._states.published(one) for one in ids}
        bad = [f"{one} ({state})" for one, state in states.items() if state not in partition_states.USABLE]
        return f"partitions are not usable: {_listed(bad)}" if bad else None

    def _overlap(self, hosts: Sequence[hardwares.Host], holder: hold_book.Holder) -> str | None:
        holders = [other for host in hosts if (other := self._holds.holder_of(host)) is not None]
        others = [other for other in holders if other != holder]
        if others:
            names = sorted({other.name for other in others})
            return f"{len(others)} nodes are already used by slice {_listed(names)}"
        leaving = sorted({former.name for host in hosts if (former := self._holds.settling(host))})
        return f"an earlier slice is still attached to the nodes: {_listed(leaving)}" if leaving else None


def _listed(words: Sequence[str]) -> str:
    more = len(words) - _SHOWN
    return ", ".join(words[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
