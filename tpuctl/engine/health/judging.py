"""Judge a cube, a partition of one, or a slice from everything that a snapshot says about it.

The sources can disagree for a while: labels lag behind nodes, the reservation behind both. The worst counts,
and who says otherwise is named. What nobody said is UNKNOWN, which is never healthy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.engine import astray as astray_nodes
from tpuctl.engine.health import fusing, labels, pools, reservations
from tpuctl.engine.health import hosts as host_evidence
from tpuctl.engine.health import slices as slice_evidence
from tpuctl.model import health, states, topology

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tpuctl.model import fleet


def judge(
    cube: fleet.Cube,
    policy: health.HealthPolicy = health.DEFAULT_POLICY,
    now: datetime.datetime | None = None,
    *,
    slices: Iterable[fleet.Slice] = (),
) -> health.Judgement:
    """The judgement on one cube.

    `now` is the time of the snapshot; without it nothing is young enough to be excused. `slices` are those
    that hold the cube: their Ready conditions are evidence too.
    """
    found = [*_of_hosts(cube.hosts, policy, now), *pools.of_cube(cube)]
    well = not any(item.is_trouble and item.domain is health.Domain.VM for item in found)
    found += labels.of_cube(cube.hosts, hosts_are_well=well)
    if cube.sub_block is not None:
        found += reservations.of_sub_block(cube.sub_block, policy, now, missing_hosts=cube.missing_hosts)
    for item in slices:
        found.append(slice_evidence.about_cube(item, cube))
    return fusing.fuse(found, usable_hosts=_usable_hosts(cube, found))


def judge_part(
    hosts: tuple[fleet.Host, ...],
    shape: topology.Topology,
    policy: health.HealthPolicy = health.DEFAULT_POLICY,
    now: datetime.datetime | None = None,
    *,
    astray: Sequence[str] = (),
) -> health.Judgement:
    """The judgement on one partition smaller than a cube: its hosts and its own label, nothing around it.

    `astray` are nodes that may be hosts of it, though no label says so.
    """
    found = list(_of_part(hosts, shape, policy, now, astray))
    return fusing.fuse(found, usable_hosts=len(hosts) - len(_blamed(found)))


def judge_slice(
    snapshot: fleet.Fleet,
    item: fleet.Slice,
    judged: Mapping[str, health.Judgement],
    policy: health.HealthPolicy = health.DEFAULT_POLICY,
) -> health.Judgement:
    """The judgement on one slice: its Ready condition, its hosts, and the cubes in `judged` (by id).

    A sub-slice is isolated from the rest of its cube, so only its own part counts.
    """
    now, hosts = snapshot.observed_at, snapshot.hosts_of(item)
    astray = astray_nodes.names_of(snapshot, item)
    found = [slice_evidence.readiness(item, policy, now), *slice_evidence.hosts_there(item, hosts, astray)]
    if item.topology is not None and item.topology.is_sub_slice:
        found += _of_part(hosts, item.topology, policy, now, astray)
        return fusing.fuse(found, usable_hosts=len(hosts) - len(_blamed(found)))
    cubes = snapshot.cubes_of(item)
    found += slice_evidence.of_cubes({cube.id: judged[cube.id] for cube in cubes})
    return fusing.fuse(found, usable_hosts=sum(judged[cube.id].usable_hosts for cube in cubes))


def _of_part(
    hosts: tuple[fleet.Host, ...],
    shape: topology.Topology,
    policy: health.HealthPolicy,
    now: datetime.datetime | None,
    astray: Sequence[str],
) -> Iterator[health.Evidence]:
    yield from _of_hosts(hosts, policy, now)
    if astray and len(hosts) < shape.hosts <= len(hosts) + len(astray):
        says = astray_nodes.told(astray, "that may be of it")
        yield health.Evidence(health.Origin.NODE, "", says, states.Verdict.UNKNOWN)
    elif not hosts:
        yield health.Evidence(health.Origin.NODE, "", "no nodes", states.Verdict.INCOMPLETE)
    elif len(hosts) < shape.hosts:
        says = f"{len(hosts)} of {shape.hosts} hosts"
        yield health.Evidence(health.Origin.NODE, "", says, states.Verdict.INCOMPLETE, health.Domain.VM)
    yield from labels.of_parts(hosts, (shape,))


def _of_hosts(
    hosts: tuple[fleet.Host, ...], policy: health.HealthPolicy, now: datetime.datetime | None
) -> Iterator[health.Evidence]:
    return host_evidence.of_hosts(hosts, policy, now)


def _usable_hosts(cube: fleet.Cube, found: list[health.Evidence]) -> int:
    """Hosts that nobody blames; the reservation may count bad ones without naming them."""
    usable = len(cube.hosts) - len(_blamed(found))
    told = cube.sub_block.healthy_hosts if cube.sub_block is not None else None
    return usable if told is None else min(usable, told)


def _blamed(found: Iterable[health.Evidence]) -> set[str]:
    return {
        item.subject
        for item in found
        if item.is_trouble and item.domain is health.Domain.VM and item.subject.startswith("host ")
    }
