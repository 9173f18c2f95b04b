"""What the partition state labels say: the cube's own, and those of the four smaller shapes.

The cube's DEGRADED means usable with less bandwidth. A smaller shape does not use the optical links, so its
trouble is inside the cube; the smallest one is a single host and tells which.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tpuctl.model import health, states, topology

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tpuctl.model import fleet

Verdict = states.Verdict
Domain = health.Domain

BY_STATE = {
    states.PartitionState.HEALTHY: Verdict.HEALTHY,
    states.PartitionState.DEGRADED: Verdict.DEGRADED,
    states.PartitionState.UNHEALTHY: Verdict.UNHEALTHY,
    states.PartitionState.INCOMPLETE: Verdict.INCOMPLETE,
    states.PartitionState.UNSET: Verdict.UNKNOWN,
    states.PartitionState.UNKNOWN: Verdict.UNKNOWN,
}
_ALL_HEALTHY = (states.PartitionState.HEALTHY,) * len(topology.PARTITION_SHAPES)


def of_cube(hosts: tuple[fleet.Host, ...], *, hosts_are_well: bool) -> Iterator[health.Evidence]:
    """Evidence from all five labels; `hosts_are_well` decides where the trouble of a whole cube is."""
    if not hosts:
        return
    if all(host.partition_states == _ALL_HEALTHY for host in hosts):
        yield _cube_says("HEALTHY", Verdict.HEALTHY, None)
        yield _parts_are_well()
        return
    parts = list(of_parts(hosts))
    yield _of_whole(hosts, inside_is_well=hosts_are_well and not any(item.is_trouble for item in parts))
    yield from parts


def of_parts(
    hosts: tuple[fleet.Host, ...], shapes: tuple[topology.Topology, ...] = topology.SUB_SLICE_SHAPES
) -> Iterator[health.Evidence]:
    """Evidence from smaller shapes, the smallest first.

    What a smaller shape has told is not told again by a larger one around it. A shape without an id is not
    published by this version of GKE, and says nothing.
    """
    blamed: set[str] = set()
    any_label = False
    for shape in shapes:
        for part in _partitions(hosts, shape):
            any_label = True
            verdict = BY_STATE[part.state]
            if verdict is Verdict.HEALTHY or blamed.intersection(part.hosts):
                continue
            blamed.update(part.hosts)
            yield _of_part(shape, part, verdict, hosts)
    if any_label and not blamed:
        yield _parts_are_well()


class _Part(NamedTuple):
    state: states.PartitionState
    said: str
    hosts: tuple[str, ...]


def _of_whole(hosts: tuple[fleet.Host, ...], *, inside_is_well: bool) -> health.Evidence:
    part = _part(list(hosts), topology.PARTITION_SHAPES.index(topology.CUBE))
    verdict = BY_STATE[part.state]
    domain = None
    if verdict is Verdict.DEGRADED or (verdict is Verdict.UNHEALTHY and inside_is_well):
        domain = Domain.FABRIC
    elif verdict in (Verdict.UNHEALTHY, Verdict.INCOMPLETE):
        domain = Domain.VM
    return _cube_says(part.said, verdict, domain)


def _of_part(
    shape: topology.Topology, part: _Part, verdict: states.Verdict, hosts: tuple[fleet.Host, ...]
) -> health.Evidence:
    single = shape.hosts == 1
    subject = f"host {part.hosts[0]}" if single else ""
    says = f"label of partition {shape} says {part.said}"
    if not single:
        says += f" on {len(part.hosts)} of {len(hosts)} hosts"
    # Each host by itself is in order here, so what fails is between them.
    inside = shape.hosts > 1 and verdict in (Verdict.UNHEALTHY, Verdict.DEGRADED) and _singles_told(hosts)
    domain = Domain.FABRIC if inside else Domain.VM
    return health.Evidence(health.Origin.PART_LABEL, subject, says, verdict, domain)


def _singles_told(hosts: tuple[fleet.Host, ...]) -> bool:
    smallest = topology.SUB_SLICE_SHAPES[0]
    return all(host.partition_id(smallest) for host in hosts)


def _partitions(hosts: tuple[fleet.Host, ...], shape: topology.Topology) -> list[_Part]:
    index = topology.PARTITION_SHAPES.index(shape)
    by_id: dict[str, list[fleet.Host]] = {}
    for host in hosts:
        if host.partition_ids[index]:
            by_id.setdefault(host.partition_ids[index], []).append(host)
    return [_part(members, index) for members in by_id.values()]


def _part(members: list[fleet.Host], index: int) -> _Part:
    found = {host.partition_states[index] for host in members}
    state = next(iter(found)) if len(found) == 1 else states.PartitionState.UNKNOWN
    said = " and ".join(sorted(str(item) for item in found))
    return _Part(state, said, tuple(host.name for host in members))


def _cube_says(said: str, verdict: states.Verdict, domain: health.Domain | None) -> health.Evidence:
    usable = ", which still is usable" if verdict is Verdict.DEGRADED else ""
    says = f"partition label says {said}{usable}"
    return health.Evidence(health.Origin.CUBE_LABEL, "", says, verdict, domain)


def _parts_are_well() -> health.Evidence:
    says = "the labels of all smaller partitions say HEALTHY"
    return health.Evidence(health.Origin.PART_LABEL, "", says, Verdict.HEALTHY)
