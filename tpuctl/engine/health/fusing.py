"""One judgement out of much evidence: the worst counts, and contradictions are named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.model import health, states

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Verdict = states.Verdict
Domain = health.Domain
Origin = health.Origin

_RANK = {verdict: rank for rank, verdict in enumerate(health.WORST_FIRST)}
_NO_BEARING = len(_RANK)
_SPEAKS_FOR: dict[health.Origin, tuple[health.Domain, ...]] = {
    Origin.NODE: (Domain.VM,),
    Origin.CUBE_LABEL: (Domain.VM, Domain.FABRIC),
    Origin.PART_LABEL: (Domain.VM,),
    Origin.RESERVATION: (Domain.VM, Domain.FABRIC),
    # That a topology is RUNNING with a degraded link is no contradiction: it is usable.
    Origin.TOPOLOGIES: (Domain.VM,),
    Origin.SLICE: (Domain.VM, Domain.FABRIC),
}
"""What a source that says "healthy" vouches for."""
_ACCUSERS = frozenset({*_SPEAKS_FOR, Origin.CONDITION, Origin.CHIPS})
"""Sources that can contradict such a source. A taint or a maintenance window is a plan, not a finding."""
_COUNTS_NODES = frozenset({Origin.NODE, Origin.CUBE_LABEL, Origin.PART_LABEL})
"""Sources that tell whether a node is there; hardware may be in order without one."""
_ALIKE = 3
"""So many hosts that say the same are named one by one; more are counted."""


def fuse(found: Iterable[health.Evidence], *, usable_hosts: int) -> health.Judgement:
    """The judgement; without any evidence for a verdict it is UNKNOWN."""
    evidence = tuple(sorted(found, key=_order))
    pointing = [item.points_to for item in evidence if item.points_to is not None]
    troubles = tuple(_grouped([item for item in evidence if item.is_trouble]))
    return health.Judgement(
        verdict=pointing[0] if pointing else Verdict.UNKNOWN,
        troubles=troubles,
        domains=tuple(domain for domain in Domain if any(item.domain is domain for item in troubles)),
        evidence=evidence,
        disagreements=tuple(_contradictions(evidence)) if troubles else (),
        usable_hosts=usable_hosts,
    )


def _order(item: health.Evidence) -> tuple[int, bool]:
    """The worst first; among equals what names a host, since that is what somebody can act on."""
    rank = _NO_BEARING if item.points_to is None else _RANK[item.points_to]
    return rank, "host " not in item.subject


def _grouped(troubles: Sequence[health.Evidence]) -> Iterator[health.Evidence]:
    """The same of many hosts as one entry, as old as the oldest of them."""
    alike: dict[tuple[object, ...], list[health.Evidence]] = {}
    for item in troubles:
        named = item.subject.startswith("host ")
        key = (item.origin, item.says, item.points_to, item.domain, item.tolerated, named or item.subject)
        alike.setdefault(key, []).append(item)
    for group in alike.values():
        if len(group) <= _ALIKE:
            yield from group
            continue
        times = [item.since for item in group if item.since is not None]
        yield group[0]._replace(subject=f"{len(group)} hosts", since=min(times, default=None))


def _contradictions(evidence: tuple[health.Evidence, ...]) -> Iterator[health.Disagreement]:
    for domain in Domain:
        claims = _claims(evidence, domain)
        bad = {verdict for verdict in claims.values() if verdict is not Verdict.HEALTHY}
        if bad == {Verdict.INCOMPLETE}:
            claims = {origin: verdict for origin, verdict in claims.items() if origin in _COUNTS_NODES}
        if len({_class(verdict) for verdict in claims.values()}) > 1:
            yield health.Disagreement(domain, _worst_first(claims))


def _claims(
    evidence: tuple[health.Evidence, ...], domain: health.Domain
) -> dict[health.Origin, states.Verdict]:
    """The worst that each source says about a domain; UNKNOWN claims nothing."""
    found: dict[health.Origin, states.Verdict] = {}
    for item in evidence:  # the worst come first
        if item.points_to is None or item.points_to is Verdict.UNKNOWN:
            continue
        if item.points_to is Verdict.HEALTHY:
            speaks = domain in _SPEAKS_FOR.get(item.origin, ())
        else:
            speaks = item.domain is domain and item.origin in _ACCUSERS
        if speaks:
            found.setdefault(item.origin, item.points_to)
    return found


def _worst_first(
    claims: dict[health.Origin, states.Verdict],
) -> tuple[tuple[health.Origin, states.Verdict], ...]:
    known = ((origin, claims[origin]) for origin in Origin if origin in claims)
    return tuple(sorted(known, key=lambda claim: _RANK[claim[1]]))


def _class(verdict: states.Verdict) -> str:
    """Verdicts that do not contradict each other are of one class."""
    return "bad" if verdict in (Verdict.UNHEALTHY, Verdict.INCOMPLETE) else str(verdict)
