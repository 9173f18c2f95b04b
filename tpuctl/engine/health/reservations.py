"""What the Compute API says about the sub-block under a cube: health, topologies, maintenance.

Its healthStatus has two words only, so its counts decide how bad DEGRADED is. In acceleratorTopologiesInfo
the word DEGRADED means "not usable", unlike in the label of the same name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.engine.health import hosts as host_evidence
from tpuctl.model import health, states, topology

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterator

    from tpuctl.model import fleet

Verdict = states.Verdict
Domain = health.Domain
Origin = health.Origin

_GOOD_STATES = frozenset({"AVAILABLE", "RUNNING"})
_BAD_STATES = frozenset({"DEGRADED", "UNHEALTHY"})
"""UNHEALTHY is deprecated."""
_BY_STATUS = {
    "CREATING": Verdict.INCOMPLETE,
    "DELETING": Verdict.UNHEALTHY,
    "INVALID": Verdict.UNHEALTHY,
}
_SILENT_STATUSES = frozenset({"", "READY", "STATUS_UNSPECIFIED"})


def of_sub_block(
    sub_block: fleet.SubBlock,
    policy: health.HealthPolicy,
    now: datetime.datetime | None,
    *,
    missing_hosts: int,
) -> Iterator[health.Evidence]:
    """All evidence of a sub-block.

    `missing_hosts` have no node: bad hosts among them make the cube incomplete, and no worse than that.
    """
    if sub_block.status not in _SILENT_STATUSES:
        says = f"sub-block is {sub_block.status}"
        yield _says(Origin.RESERVATION, says, _BY_STATUS.get(sub_block.status, Verdict.UNKNOWN), None)
    yield from _health(sub_block, missing_hosts)
    if sub_block.topologies:
        yield _topologies(sub_block, missing_hosts)
    yield from _maintenance(sub_block, policy, now)


def _health(sub_block: fleet.SubBlock, missing_hosts: int) -> Iterator[health.Evidence]:
    word = sub_block.health
    bad_hosts, bad_infra = sub_block.degraded_hosts or 0, sub_block.degraded_infra or 0
    origin = Origin.RESERVATION
    if bad_hosts:
        explained = bad_hosts <= missing_hosts
        says = f"{word or 'health not told'}, {bad_hosts} of {sub_block.hosts} hosts degraded"
        if explained:
            says += ", no more than have no node"
        yield _says(origin, says, Verdict.INCOMPLETE if explained else Verdict.UNHEALTHY, Domain.VM)
    if bad_infra:
        total = bad_infra + (sub_block.healthy_infra or 0)
        says = f"{word or 'health not told'}, {bad_infra} of {total} parts of the infrastructure degraded"
        yield _says(origin, says, Verdict.DEGRADED, Domain.FABRIC)
    if word == "DEGRADED" and not bad_hosts and not bad_infra:
        domain = Domain.FABRIC if sub_block.degraded_hosts == 0 else None
        yield _says(origin, "DEGRADED, without telling what", Verdict.DEGRADED, domain)
    elif word == "HEALTHY":
        if not bad_hosts and not bad_infra:
            yield _says(origin, "HEALTHY", Verdict.HEALTHY, None)
    elif word != "DEGRADED":
        yield _says(origin, f"health is {word or 'not told'}", Verdict.UNKNOWN, None)


def _topologies(sub_block: fleet.SubBlock, missing_hosts: int) -> health.Evidence:
    """One piece of evidence for all shapes: the smallest one tells where, the cube's own tells how bad."""
    by_shape: dict[str, dict[str, int]] = {}
    for entry in sub_block.topologies:
        if entry.partitions:
            counts = by_shape.setdefault(entry.shape, {})
            counts[entry.state] = counts.get(entry.state, 0) + entry.partitions
    bad = {shape: sum(counts.get(word, 0) for word in _BAD_STATES) for shape, counts in by_shape.items()}
    if any(bad.values()):
        return _unusable(by_shape, bad, missing_hosts)
    odd = sorted(
        f"{shape} is {word or 'not told'}"
        for shape, counts in by_shape.items()
        for word in counts
        if word not in _GOOD_STATES
    )
    if str(topology.CUBE) not in by_shape:
        odd.append(f"nothing is told of {topology.CUBE}")
    if odd:
        return _says(Origin.TOPOLOGIES, "; ".join(odd), Verdict.UNKNOWN, None)
    words = " and ".join(sorted(by_shape[str(topology.CUBE)]))
    return _says(Origin.TOPOLOGIES, f"{topology.CUBE} is {words}", Verdict.HEALTHY, None)


def _unusable(
    by_shape: dict[str, dict[str, int]], bad: dict[str, int], missing_hosts: int
) -> health.Evidence:
    smallest = str(topology.SUB_SLICE_SHAPES[0])
    # The shapes between the whole cube and the single host add nothing to those two.
    named = [shape for shape in (str(topology.CUBE), smallest) if bad.get(shape)]
    shown = ", ".join(
        f"{bad[shape]} of {sum(by_shape[shape].values())} {shape}"
        for shape in named or sorted(shape for shape, count in bad.items() if count)
    )
    says = f"not usable (DEGRADED in the API's sense): {shown}"
    if 0 < bad.get(smallest, 0) <= missing_hosts:
        says += ", no more than have no node"
        return _says(Origin.TOPOLOGIES, says, Verdict.INCOMPLETE, Domain.VM)
    domain = None
    if smallest in by_shape:
        domain = Domain.VM if bad[smallest] else Domain.FABRIC
    return _says(Origin.TOPOLOGIES, says, Verdict.UNHEALTHY, domain)


def _maintenance(
    sub_block: fleet.SubBlock, policy: health.HealthPolicy, now: datetime.datetime | None
) -> Iterator[health.Evidence]:
    plan = sub_block.maintenance
    start, end = sub_block.maintenance_start, sub_block.maintenance_end
    if plan is not None and plan.is_ongoing:
        only_infra = plan.infra_ongoing > 0 and plan.hosts_ongoing == 0
        domain = Domain.FABRIC if only_infra else Domain.VM
        until = f" until {host_evidence.when(end)}" if end else ""
        says = f"maintenance is going on{until}"
        yield _says(Origin.RESERVATION_MAINTENANCE, says, Verdict.UNHEALTHY, domain)
    elif start is not None:
        age_s = host_evidence.seconds_since(start, now)
        over_s = host_evidence.seconds_since(end or start, now)
        near = age_s is not None and -age_s < policy.maintenance_lead_s and (over_s or 0.0) <= 0
        says = f"maintenance planned for {host_evidence.when(start)}"
        points_to = Verdict.DEGRADED if near else None
        yield _says(Origin.RESERVATION_MAINTENANCE, says, points_to, None)


def _says(
    origin: health.Origin, says: str, points_to: states.Verdict | None, domain: health.Domain | None
) -> health.Evidence:
    return health.Evidence(origin, "reservation", says, points_to, domain)
