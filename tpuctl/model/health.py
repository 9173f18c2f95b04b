"""Health as values: evidence, the judgement made of it, and the policy that it is made by.

A verdict is never more than its evidence: each piece says where it comes from, since when, and which way it
points. What nobody said is UNKNOWN, which is never healthy and never a reason to delete anything.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.model import states

if TYPE_CHECKING:
    import datetime

WORST_FIRST = (
    states.Verdict.UNHEALTHY,
    states.Verdict.INCOMPLETE,
    states.Verdict.UNKNOWN,
    states.Verdict.DEGRADED,
    states.Verdict.HEALTHY,
)


class Domain(enum.StrEnum):
    """Where the trouble is."""

    VM = "VM"
    """In a host: its machine, its VM or its node."""
    FABRIC = "fabric"
    """In the links between chips or the optical switches between cubes; the hosts themselves work."""


class Origin(enum.StrEnum):
    """Who says something; the value is what people read."""

    NODE = "node"
    """The Node object's Ready condition, and that there is a Node at all."""
    CONDITION = "node condition"
    TAINT = "node taint"
    CHIPS = "node chips"
    NODE_MAINTENANCE = "node maintenance label"
    CUBE_LABEL = "partition label"
    """The label of the 4x4x4 partition. Its DEGRADED means usable."""
    PART_LABEL = "sub-partition labels"
    """The labels of the four smaller shapes."""
    POOL = "node pool"
    RESERVATION = "reservation health"
    """healthInfo of the sub-block."""
    TOPOLOGIES = "reservation topologies"
    """acceleratorTopologiesInfo of the sub-block. Its DEGRADED means not usable."""
    RESERVATION_MAINTENANCE = "reservation maintenance"
    SLICE = "slice"
    """The Ready condition of a Slice."""


class Evidence(NamedTuple):
    """One thing that one source says."""

    origin: Origin
    subject: str
    """What it is about: `host NAME`, `node pool NAME`, `slice NAME`; empty for what is being judged."""
    says: str
    points_to: states.Verdict | None
    """The verdict that it speaks for; None if it bears on none and is worth knowing."""
    domain: Domain | None = None
    """Where the trouble is, as far as this source can tell."""
    since: datetime.datetime | None = None
    """Since when it is so; None if the source does not tell."""
    tolerated: bool = False
    """If true, the policy lets it last: it is younger than the tolerance for degraded."""

    @property
    def is_trouble(self) -> bool:
        return self.points_to not in (None, states.Verdict.HEALTHY)

    def __str__(self) -> str:
        return f"{self.subject}: {self.says}" if self.subject else self.says


class Disagreement(NamedTuple):
    """Sources that contradict each other about the VMs or about the fabric."""

    domain: Domain
    claims: tuple[tuple[Origin, states.Verdict], ...]
    """What each of them says; at least two different verdicts."""

    def __str__(self) -> str:
        by_verdict: dict[states.Verdict, list[str]] = {}
        for origin, verdict in self.claims:
            by_verdict.setdefault(verdict, []).append(str(origin))
        said = "; ".join(f"{verdict} by {', '.join(names)}" for verdict, names in by_verdict.items())
        return f"{'VMs' if self.domain is Domain.VM else 'fabric'}: {said}"


class Judgement(NamedTuple):
    """A verdict and everything that it rests on."""

    verdict: states.Verdict
    troubles: tuple[Evidence, ...]
    """What speaks for something other than healthy, the worst first; the same of many hosts is one entry."""
    domains: tuple[Domain, ...] = ()
    """Where the trouble is; empty if there is none, or nobody can tell."""
    evidence: tuple[Evidence, ...] = ()
    """All of it, the worst first, what bears on no verdict last."""
    disagreements: tuple[Disagreement, ...] = ()
    usable_hosts: int = 0
    """Hosts that nothing is wrong with: a broken link leaves all of them usable."""

    @property
    def reasons(self) -> tuple[str, ...]:
        """The troubles as people read them."""
        return tuple(str(item) for item in self.troubles)

    @property
    def is_tolerated(self) -> bool:
        """If true, it is degraded, and so briefly that the policy does not mind yet."""
        return self.verdict is states.Verdict.DEGRADED and all(item.tolerated for item in self.troubles)

    @property
    def where(self) -> str:
        """`VM`, `fabric`, `VM and fabric`, or nothing."""
        return " and ".join(self.domains)


class FailOn(enum.StrEnum):
    """From which verdict on a check has found trouble."""

    DEGRADED = "degraded"
    """Anything but healthy."""
    UNHEALTHY = "unhealthy"
    """Anything but healthy and degraded."""

    def is_trouble(self, judgement: Judgement) -> bool:
        """If true, a check that fails on this counts the judgement as trouble."""
        if judgement.verdict is states.Verdict.DEGRADED:
            return self is FailOn.DEGRADED and not judgement.is_tolerated
        return judgement.verdict is not states.Verdict.HEALTHY


_UNHEALTHY, _DEGRADED = states.Verdict.UNHEALTHY, states.Verdict.DEGRADED

CONDITIONS = (
    ("CorruptDockerOverlay2", _DEGRADED),
    ("DiskPressure", _DEGRADED),
    ("FrequentContainerdRestart", _DEGRADED),
    ("FrequentDockerRestart", _DEGRADED),
    ("FrequentKubeletRestart", _DEGRADED),
    ("FrequentUnregisterNetDevice", _DEGRADED),
    ("KernelDeadlock", _UNHEALTHY),
    ("MemoryPressure", _DEGRADED),
    ("NetworkUnavailable", _UNHEALTHY),
    ("PIDPressure", _DEGRADED),
    ("ReadonlyFilesystem", _UNHEALTHY),
)
"""Condition types of Kubernetes and of the node problem detector, with what True means for a cube."""

DAY_S = 86_400.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class HealthPolicy:
    """How patient the judgement is. Times in seconds; `configs/policies/health.yaml` says more."""

    settle_s: float = 120.0
    """A host that came up less than this ago may still lack chips or labels: it settles, that is no fault."""
    not_ready_grace_s: float = 60.0
    """A host that is not ready for less than this is not called unhealthy yet."""
    degraded_tolerance_s: float = 0.0
    """Something degraded for less than this does not fail a check; only where its age is known."""
    maintenance_lead_s: float = DAY_S
    """A cube whose planned maintenance begins within this time counts as degraded."""
    latched_after_s: float = 7 * DAY_S
    """A condition that has been True for longer is taken for one that nobody clears: degraded at most."""
    fail_on: FailOn = FailOn.DEGRADED
    """What `health check` fails on unless it is told otherwise."""
    conditions: tuple[tuple[str, states.Verdict], ...] = CONDITIONS
    """Node condition type -> what True means. Other types are listed and bear on no verdict."""


DEFAULT_POLICY = HealthPolicy()
