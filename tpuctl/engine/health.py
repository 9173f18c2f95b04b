"""Judge a cube from what its nodes say.

The node's partition label and its Ready condition can disagree for a while; the worse of the two counts.
What nobody said is `unknown`, which is never healthy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tpuctl.model import states, topology

if TYPE_CHECKING:
    from tpuctl.model import fleet

Verdict = states.Verdict

_BY_LABEL = {
    states.PartitionState.HEALTHY: Verdict.HEALTHY,
    states.PartitionState.DEGRADED: Verdict.DEGRADED,
    states.PartitionState.UNHEALTHY: Verdict.UNHEALTHY,
    states.PartitionState.INCOMPLETE: Verdict.INCOMPLETE,
    states.PartitionState.UNSET: Verdict.UNKNOWN,
    states.PartitionState.UNKNOWN: Verdict.UNKNOWN,
}
_WORST_FIRST = (
    Verdict.UNHEALTHY,
    Verdict.INCOMPLETE,
    Verdict.UNKNOWN,
    Verdict.DEGRADED,
    Verdict.HEALTHY,
)


class Judgement(NamedTuple):
    """A verdict and every reason that speaks for something other than healthy."""

    verdict: states.Verdict
    reasons: tuple[str, ...]


def judge(cube: fleet.Cube) -> Judgement:
    """The verdict on one cube, from its hosts."""
    if not cube.has_nodes:
        why = "no node pool" if cube.pool is None else f"node pool {cube.pool.name} has no nodes"
        return Judgement(Verdict.INCOMPLETE, (why,))
    findings = [_from_count(cube), _from_label(cube), *map(_from_host, cube.hosts)]
    found = [finding for finding in findings if finding is not None]
    worst = min((verdict for verdict, _ in found), key=_WORST_FIRST.index, default=Verdict.HEALTHY)
    return Judgement(worst, tuple(reason for _, reason in found))


def _from_count(cube: fleet.Cube) -> tuple[Verdict, str] | None:
    if len(cube.hosts) < topology.HOSTS_PER_CUBE:
        return Verdict.INCOMPLETE, f"{len(cube.hosts)} of {topology.HOSTS_PER_CUBE} hosts"
    return None


def _from_label(cube: fleet.Cube) -> tuple[Verdict, str] | None:
    if cube.state is states.PartitionState.HEALTHY:
        return None
    said = sorted({str(host.state(topology.CUBE)) for host in cube.hosts})
    return _BY_LABEL[cube.state], f"partition label says {' and '.join(said)}"


def _from_host(host: fleet.Host) -> tuple[Verdict, str] | None:
    if host.ready is False:
        return Verdict.UNHEALTHY, f"host {host.name} is not ready"
    if host.ready is None:
        return Verdict.UNKNOWN, f"host {host.name} does not report"
    return None
