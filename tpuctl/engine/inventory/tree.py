"""The partitions inside one cube, with the ids that the fleet gives them.

A partition that is not usable stays in the tree with its obstacle, so that refusals can count it. Sets of
hosts are bits of an integer: bit i is the cube's i-th host in order of names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tpuctl.engine import health
from tpuctl.engine.health import hosts as hosts_health
from tpuctl.engine.inventory import obstacles
from tpuctl.model import states, topology

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterator

    from tpuctl.model import fleet
    from tpuctl.model import health as health_values


_ALL_HEALTHY = (states.PartitionState.HEALTHY,) * len(topology.PARTITION_SHAPES)
_LARGER = {
    shape: tuple(other for other in topology.SUB_SLICE_SHAPES if other.chips > shape.chips)
    for shape in topology.SUB_SLICE_SHAPES
}


class Part(NamedTuple):
    """A partition: smaller than a cube."""

    id: str
    hosts: int
    """Its hosts, as bits."""
    obstacle: obstacles.Obstacle | None
    """What is wrong with it, whoever uses it."""


class Tree:
    """Partitions of one cube by shape."""

    __slots__ = ("parts",)

    def __init__(
        self,
        cube: fleet.Cube,
        policy: health_values.HealthPolicy,
        now: datetime.datetime,
        *,
        allow_degraded: bool,
        leaving: states.Verdict | None = None,
    ) -> None:
        """`leaving` is what it comes to that the whole cube goes away: no partition is better than that."""
        self.parts: dict[topology.Topology, list[Part]] = {shape: [] for shape in topology.SUB_SLICE_SHAPES}
        quiet = all(
            hosts_health.is_quiet(host) and host.partition_states == _ALL_HEALTHY for host in cube.hosts
        )
        of_all = None
        if leaving is not None:
            of_all = obstacles.of_health(leaving, (), allow_degraded=allow_degraded)
        for index, shape in enumerate(topology.PARTITION_SHAPES[:-1]):
            for partition_id, mask in _hosts_by_id(cube.hosts, index).items():
                obstacle = of_all
                if obstacle is None and (not quiet or mask.bit_count() != shape.hosts):
                    hosts = tuple(host for bit, host in enumerate(cube.hosts) if mask >> bit & 1)
                    verdict = health.judge_part(hosts, shape, policy, now).verdict
                    obstacle = obstacles.of_health(verdict, hosts, allow_degraded=allow_degraded)
                self.parts[shape].append(Part(partition_id, mask, obstacle))
        for found in self.parts.values():
            found.sort()

    def free(self, shape: topology.Topology, used: int) -> Iterator[Part]:
        """Partitions of a shape that can be taken while the hosts in `used` are."""
        for part in self.parts[shape]:
            if part.obstacle is None and not part.hosts & used:
                yield part

    def has_free(self, shape: topology.Topology, used: int) -> bool:
        return any(True for _ in self.free(shape, used))

    def best(self, shape: topology.Topology, used: int) -> Part | None:
        """The partition whose taking breaks up the least: the smallest free piece around it counts."""
        found = list(self.free(shape, used))
        return min(found, key=lambda part: (self._broken_up(shape, part, used), part.id), default=None)

    def usable_hosts(self) -> int:
        """Hosts, as bits, that can serve at least the smallest shape."""
        mask = 0
        for part in self.parts[topology.SUB_SLICE_SHAPES[0]]:
            if part.obstacle is None:
                mask |= part.hosts
        return mask

    def _broken_up(self, shape: topology.Topology, part: Part, used: int) -> int:
        """How many larger free partitions it is a part of."""
        return sum(
            1 for larger in _LARGER[shape] for other in self.free(larger, used) if other.hosts & part.hosts
        )


def _hosts_by_id(hosts: tuple[fleet.Host, ...], shape: int) -> dict[str, int]:
    """Partition id -> its hosts, as bits; hosts without an id belong to no partition of the shape."""
    found: dict[str, int] = {}
    for bit, host in enumerate(hosts):
        partition_id = host.partition_ids[shape]
        if partition_id:
            found[partition_id] = found.get(partition_id, 0) | 1 << bit
    return found
