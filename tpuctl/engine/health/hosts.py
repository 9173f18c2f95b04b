"""What a node says about its host: readiness, chips, conditions, taints, maintenance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.model import health, states, topology

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterator

    from tpuctl.model import fleet

Verdict = states.Verdict
Origin = health.Origin

TERMINATION = "cloud.google.com/impending-node-termination"
UNREACHABLE = "node.kubernetes.io/unreachable"
NOT_READY = "node.kubernetes.io/not-ready"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"

_LEAVING = {
    TERMINATION: "about to be terminated",
    "node.cloudprovider.kubernetes.io/shutdown": "its VM is stopped",
    "node.kubernetes.io/out-of-service": "out of service",
    "ToBeDeletedByClusterAutoscaler": "about to be deleted by the autoscaler",
}
"""Taints of nodes that go away."""
_STARTING = "node.cloudprovider.kubernetes.io/uninitialized"
_MIRRORS = {
    "node.kubernetes.io/memory-pressure": "MemoryPressure",
    "node.kubernetes.io/disk-pressure": "DiskPressure",
    "node.kubernetes.io/pid-pressure": "PIDPressure",
    "node.kubernetes.io/network-unavailable": "NetworkUnavailable",
}
"""Taints that Kubernetes sets for a condition."""
_LEFT_OVER_S = health.DAY_S
"""A maintenance time on a node that passed so long ago is left over."""


def of_hosts(
    hosts: tuple[fleet.Host, ...], policy: health.HealthPolicy, now: datetime.datetime | None
) -> Iterator[health.Evidence]:
    """All evidence of some nodes; what is well with all of them is told once."""
    if not hosts:
        return
    if all(host.ready is True for host in hosts):
        times = [host.ready_since for host in hosts if host.ready_since is not None]
        yield _well(Origin.NODE, f"{_count(hosts)} ready", max(times, default=None))
    # A node that fell silent keeps the number of chips that it told last.
    ready = sum(host.ready is True for host in hosts)
    if ready and all(host.chips == topology.CHIPS_PER_HOST for host in hosts):
        yield _well(Origin.CHIPS, f"{ready * topology.CHIPS_PER_HOST} chips can be used", None)
    for host in hosts:
        if not is_quiet(host):
            yield from of_host(host, policy, now)


def is_quiet(host: fleet.Host) -> bool:
    """If true, the node says nothing but that all is well; nearly all do, so this is asked first."""
    return (
        host.ready is True
        and host.chips == topology.CHIPS_PER_HOST
        and host.schedulable
        and not host.conditions
        and not host.taints
        and host.maintenance_at is None
        and not host.maintenance_ongoing
    )


def of_host(
    host: fleet.Host, policy: health.HealthPolicy, now: datetime.datetime | None
) -> Iterator[health.Evidence]:
    """What one node says that is not plainly good.

    Without `now` nothing has an age, and neither settling nor grace excuses anything.
    """
    settling = is_settling(host, policy, now)
    yield from _readiness(host, policy, now, settling=settling)
    yield from _chips(host, settling=settling)
    for condition in host.conditions:
        yield from _condition(host, condition, policy, now, settling=settling)
    for taint in dict.fromkeys(host.taints):
        yield from _taint(host, taint, policy)
    yield from _maintenance(host, policy, now)
    if not host.schedulable:
        yield _of(host, Origin.NODE, "cordoned", None)


def is_settling(host: fleet.Host, policy: health.HealthPolicy, now: datetime.datetime | None) -> bool:
    """If true, it came up so short a time ago that nothing it lacks is a fault yet."""
    age_s = seconds_since(host.ready_since if host.ready is True else host.created_at, now)
    return age_s is not None and age_s < policy.settle_s


def seconds_since(then: datetime.datetime | None, now: datetime.datetime | None) -> float | None:
    """How long ago `then` was; None if either is not known."""
    return None if then is None or now is None else (now - then).total_seconds()


def _readiness(
    host: fleet.Host, policy: health.HealthPolicy, now: datetime.datetime | None, *, settling: bool
) -> Iterator[health.Evidence]:
    if host.ready is None:
        says = "Ready is unknown, its kubelet does not report"
        yield _of(host, Origin.NODE, says, Verdict.UNKNOWN, since=host.ready_since)
    elif host.ready is False:
        age_s = seconds_since(host.ready_since, now)
        if settling:
            says, points_to = "not ready, settling after its start", Verdict.UNKNOWN
        elif age_s is not None and age_s < policy.not_ready_grace_s:
            says, points_to = "not ready, within the grace for that", Verdict.UNKNOWN
        else:
            says, points_to = "not ready", Verdict.UNHEALTHY
        yield _of(host, Origin.NODE, says, points_to, since=host.ready_since)


def _chips(host: fleet.Host, *, settling: bool) -> Iterator[health.Evidence]:
    if host.chips is None:
        yield _of(host, Origin.CHIPS, "the node does not tell its chips", Verdict.UNKNOWN)
    elif host.chips < topology.CHIPS_PER_HOST:
        says = f"{host.chips} of {topology.CHIPS_PER_HOST} chips can be used"
        if settling:
            yield _of(host, Origin.CHIPS, f"{says}, settling after its start", Verdict.UNKNOWN)
        else:
            yield _of(host, Origin.CHIPS, says, Verdict.UNHEALTHY)


def _condition(
    host: fleet.Host,
    condition: fleet.NodeCondition,
    policy: health.HealthPolicy,
    now: datetime.datetime | None,
    *,
    settling: bool,
) -> Iterator[health.Evidence]:
    """A condition that is not False.

    Conditions that are made of log lines may stay True for ever. One from before the host last came up is
    over; one that is very old counts as degraded at most, since the host has worked with it all the time.
    """
    meaning = dict(policy.conditions).get(condition.type)
    why = f" ({condition.reason})" if condition.reason else ""
    says, points_to = f"condition {condition.type} is {condition.status or 'not told'}{why}", meaning
    if meaning is None:
        says += ", a type that the policy does not know"
    elif condition.status != "True":
        # A kubelet that fell silent leaves all its conditions Unknown: that is one fact, told by Ready.
        points_to = None if host.ready is None and condition.status == "Unknown" else Verdict.UNKNOWN
    elif _is_from_before(host, condition):
        says, points_to = f"{says}, from before the host last came up", None
    elif settling:
        says, points_to = f"{says}, settling after its start", Verdict.UNKNOWN
    elif (seconds_since(condition.since, now) or 0.0) >= policy.latched_after_s:
        says, points_to = f"{says}, so long that it may be latched", Verdict.DEGRADED
    yield _of(
        host,
        Origin.CONDITION,
        says,
        points_to,
        since=condition.since,
        tolerated=points_to is Verdict.DEGRADED and is_tolerated(condition.since, policy, now),
    )


def _is_from_before(host: fleet.Host, condition: fleet.NodeCondition) -> bool:
    up_since = host.ready_since if host.ready is True else None
    return up_since is not None and condition.since is not None and condition.since < up_since


def is_tolerated(
    since: datetime.datetime | None, policy: health.HealthPolicy, now: datetime.datetime | None
) -> bool:
    """If true, something degraded since then is younger than the tolerance; of unknown age, it never is."""
    age_s = seconds_since(since, now)
    return age_s is not None and age_s < policy.degraded_tolerance_s


def _taint(host: fleet.Host, taint: str, policy: health.HealthPolicy) -> Iterator[health.Evidence]:
    if taint in _LEAVING:
        yield _of(host, Origin.TAINT, f"{_LEAVING[taint]} (taint {taint})", Verdict.UNHEALTHY)
    elif taint == UNSCHEDULABLE:
        return  # told as "cordoned"
    else:
        yield _of(host, Origin.TAINT, f"taint {taint}", _mirrored(host, taint, policy))


def _mirrored(host: fleet.Host, taint: str, policy: health.HealthPolicy) -> states.Verdict | None:
    """A taint that repeats a condition adds nothing; without that condition the two are out of step."""
    if taint == _STARTING:
        return Verdict.UNKNOWN
    if taint in (UNREACHABLE, NOT_READY):
        return Verdict.UNKNOWN if host.ready is True else None
    condition = _MIRRORS.get(taint)
    if condition is None or any(item.type == condition for item in host.conditions):
        return None
    return dict(policy.conditions).get(condition)


def _maintenance(
    host: fleet.Host, policy: health.HealthPolicy, now: datetime.datetime | None
) -> Iterator[health.Evidence]:
    origin = Origin.NODE_MAINTENANCE
    if host.maintenance_ongoing:
        yield _of(host, origin, "maintenance is going on", Verdict.UNHEALTHY)
    elif host.maintenance_at is not None:
        ahead_s = -(seconds_since(host.maintenance_at, now) or 0.0)
        near = now is not None and -_LEFT_OVER_S < ahead_s < policy.maintenance_lead_s
        points_to = Verdict.DEGRADED if near else None
        says = f"maintenance planned for {when(host.maintenance_at)}"
        yield health.Evidence(origin, f"host {host.name}", says, points_to)


def when(moment: datetime.datetime) -> str:
    """A time in UTC, to the minute."""
    utc = moment - (moment.utcoffset() or moment - moment)
    return f"{utc:%Y-%m-%d %H:%M} UTC"


def _of(
    host: fleet.Host,
    origin: health.Origin,
    says: str,
    points_to: states.Verdict | None,
    *,
    since: datetime.datetime | None = None,
    tolerated: bool = False,
) -> health.Evidence:
    domain = None if points_to is None else health.Domain.VM
    return health.Evidence(origin, f"host {host.name}", says, points_to, domain, since, tolerated)


def _well(origin: health.Origin, says: str, since: datetime.datetime | None) -> health.Evidence:
    return health.Evidence(origin, "", says, Verdict.HEALTHY, None, since)


def _count(hosts: tuple[fleet.Host, ...]) -> str:
    return "1 host" if len(hosts) == 1 else f"{len(hosts)} hosts"
