"""What the Ready condition of a Slice says, about the slice and about its cubes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.engine import astray as astray_nodes
from tpuctl.engine.health import hosts as host_evidence
from tpuctl.model import health, states

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterator, Mapping, Sequence

    from tpuctl.model import fleet

Verdict = states.Verdict
State = states.SliceState
Domain = health.Domain

_BY_STATE = {
    State.CREATED: Verdict.INCOMPLETE,
    State.NOT_CREATED: Verdict.INCOMPLETE,
    State.ACTIVATING: Verdict.INCOMPLETE,
    State.ACTIVE: Verdict.HEALTHY,
    State.ACTIVE_DEGRADED: Verdict.DEGRADED,
    State.CREATION_FAILED: Verdict.UNHEALTHY,
    State.FAILED: Verdict.UNHEALTHY,
    State.DEACTIVATING: Verdict.UNHEALTHY,
    State.INCOMPLETE: Verdict.INCOMPLETE,
    State.UNKNOWN: Verdict.UNKNOWN,
}


def readiness(
    item: fleet.Slice, policy: health.HealthPolicy, now: datetime.datetime | None
) -> health.Evidence:
    """The Ready condition as evidence about the slice.

    DEACTIVATING without a deletion is a critical failure; with one, somebody takes the slice apart.
    """
    points_to = _BY_STATE[item.state]
    says = item.reason or str(item.state)
    if item.deleting:
        says, points_to = f"{says}, it is being taken apart", Verdict.INCOMPLETE
    elif item.state is State.DEACTIVATING:
        says += ", though nobody deleted it"
    elif item.state.is_ready and item.ready != "True":
        # Health checks of the service hiccup so: the slice goes on, and nobody knows how it is.
        says, points_to = f"{says}, but Ready is {item.ready or 'not told'}", Verdict.UNKNOWN
    if item.message:
        says += f": {item.message}"
    degraded = points_to is Verdict.DEGRADED
    return health.Evidence(
        health.Origin.SLICE,
        "",
        says,
        points_to,
        Domain.FABRIC if degraded else None,
        item.since,
        tolerated=degraded and host_evidence.is_tolerated(item.since, policy, now),
    )


def about_cube(item: fleet.Slice, cube: fleet.Cube) -> health.Evidence:
    """The Ready condition as evidence about a cube of the slice.

    ACTIVE vouches for every cube of it. Any other state does not tell which cube is to blame, unless there
    is only one.
    """
    points_to = None
    if not item.deleting and item.ready == "True":
        if item.state is State.ACTIVE and cube.id in item.partition_ids:
            points_to = Verdict.HEALTHY
        elif item.state is State.ACTIVE_DEGRADED and item.partition_ids == (cube.id,):
            points_to = Verdict.DEGRADED
    domain = Domain.FABRIC if points_to is Verdict.DEGRADED else None
    says = item.reason or str(item.state)
    return health.Evidence(health.Origin.SLICE, f"slice {item.name}", says, points_to, domain, item.since)


def hosts_there(
    item: fleet.Slice, hosts: tuple[fleet.Host, ...], astray: Sequence[str] = ()
) -> Iterator[health.Evidence]:
    """Whether all hosts of the slice are there, and carry its label once it is ready.

    `astray` are nodes that may be hosts of it, though no partition label says so: those are not missing.
    """
    wanted = item.topology.hosts if item.topology is not None else None
    if wanted is None:
        says = f"topology '{item.raw_topology}' is no shape that is known"
        yield health.Evidence(health.Origin.SLICE, "", says, Verdict.UNKNOWN)
    elif astray and len(hosts) < wanted <= len(hosts) + len(astray):
        says = f"{len(hosts)} of {wanted} hosts are told by labels; "
        says += astray_nodes.told(astray, "that may be of it")
        yield health.Evidence(health.Origin.NODE, "", says, Verdict.UNKNOWN)
    elif len(hosts) < wanted:
        says = f"{len(hosts)} of {wanted} hosts have a node"
        yield health.Evidence(health.Origin.NODE, "", says, Verdict.INCOMPLETE, Domain.VM)
    labelled = sum(host.slice_name == item.name for host in hosts)
    if item.state.is_ready and not item.deleting and labelled < len(hosts):
        # Workloads choose nodes by that label: before it is there the slice is of no use to them.
        says = f"{labelled} of {len(hosts)} hosts carry the slice's label"
        yield health.Evidence(health.Origin.NODE, "", says, Verdict.INCOMPLETE)


def of_cubes(judged: Mapping[str, health.Judgement]) -> Iterator[health.Evidence]:
    """What is wrong with the cubes, and that nothing is with the others."""
    well = sum(judgement.verdict is Verdict.HEALTHY for judgement in judged.values())
    if well:
        says = f"{well} of {len(judged)} cubes healthy"
        points_to = Verdict.HEALTHY if well == len(judged) else None
        yield health.Evidence(health.Origin.CUBE_LABEL, "", says, points_to)
    for cube_id, judgement in judged.items():
        for item in judgement.troubles:
            if item.origin is not health.Origin.SLICE:
                yield item._replace(subject=", ".join(filter(None, (f"cube {cube_id}", item.subject))))
