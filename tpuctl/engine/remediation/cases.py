"""Findings made into cases that a person can decide on: what, why, on whom, for how long."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tpuctl.engine import astray, blast
from tpuctl.engine.health import hosts as host_evidence
from tpuctl.engine.remediation import failovers, findings, ladder, rules
from tpuctl.model import counts, declared, health, repairs, states, topology

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tpuctl.engine.remediation import world as worlds
    from tpuctl.model import fleet, operations

Remedy = declared.Remedy
Ailment = repairs.Ailment
Standing = findings.Standing
_PROOFS = 12
"""So many lines of evidence are kept with a case."""


class Examined(NamedTuple):
    """What is to be done about one cube."""

    cases: tuple[repairs.Case, ...]
    """The strongest remedy first. More than one only for several hosts."""
    unsure: frozenset[str]
    """Hosts about which nothing sure can be said now; empty text: the whole cube."""
    says: tuple[str, ...]
    """What is not well and gets no remedy now, as people read it."""

    def is_unsure_about(self, host: str) -> bool:
        return "" in self.unsure or host in self.unsure


def examine(world: worlds.World, cube: fleet.Cube) -> Examined:
    """What is wrong with a cube, and the cases that follow."""
    spec = world.block_spec(cube)
    if spec is None:
        return Examined((), frozenset(), ())
    at_work = [claim.holder for claim in world.snapshot.claims if _is_of(world, claim, cube)]
    if at_work:
        return Examined((), frozenset({""}), (f"cube {cube.id}: {at_work[0]} is open",))
    busy = findings.at_work(world, cube)
    found = findings.of_hosts(world, cube)
    answers = failovers.of_cube(world, cube, found, busy=bool(busy))
    leaving = [answer for answer in answers if isinstance(answer, failovers.Failover)]
    if leaving:
        return Examined(tuple(_failover(world, cube, answer) for answer in leaving), frozenset(), ())
    staying = [answer for answer in answers if isinstance(answer, failovers.Stays)]
    told = [answer.why for answer in staying]
    if busy:
        return Examined((), frozenset(), (f"cube {cube.id}: {busy}", *told))
    return _of_findings(world, cube, (*found, *_of_pool(world, cube, spec, found)), staying)


def _is_of(world: worlds.World, claim: operations.Claim, cube: fleet.Cube) -> bool:
    """If true, the claim is that of an open operation on this cube; a hold names no slice."""
    of = world.snapshot.cube_of_partition.get(claim.cube_id, claim.cube_id)
    return bool(claim.slice_name) and of == cube.id


def _of_pool(
    world: worlds.World,
    cube: fleet.Cube,
    spec: declared.BlockSpec,
    found: Sequence[findings.Finding],
) -> tuple[findings.Finding, ...]:
    """A pool is not made again while one of its hosts may come back by itself, or under a slice."""
    if any(finding.standing is Standing.HANDS_OFF for finding in found):
        return ()
    return tuple(findings.of_pool(world, cube, spec.pools))


def _of_findings(
    world: worlds.World,
    cube: fleet.Cube,
    found: Sequence[findings.Finding],
    staying: Sequence[failovers.Stays],
) -> Examined:
    cases: list[repairs.Case] = []
    unsure = {_name(finding) for finding in found if finding.standing is Standing.UNSURE}
    says = [answer.why for answer in staying]
    cooling = ladder.cooling_until(world, cube.id)
    for finding in found:
        if finding.standing is not Standing.NEEDS:
            says.append(finding.says)
        elif cooling is not None:
            unsure.add(_name(finding))
            says.append(f"{finding.says}; left alone until {host_evidence.when(cooling)} after a repair")
        else:
            made = _of_finding(world, cube, finding, found, staying)
            if isinstance(made, str):
                says.append(f"{finding.says}; {made}")
            else:
                cases.append(made)
    if not found and not says:
        says += _unexplained(world, cube)
    first = {finding.host.name: place for place, finding in enumerate(found) if finding.host is not None}
    cases.sort(key=lambda case: (-rules.RANK[case.remedy], first.get(case.host, 0)))
    return Examined(_one_a_host(cases), frozenset(unsure), tuple(f"cube {cube.id}: {one}" for one in says))


def _name(finding: findings.Finding) -> str:
    return finding.host.name if finding.host is not None else ""


def _one_a_host(cases: Sequence[repairs.Case]) -> tuple[repairs.Case, ...]:
    """Of several cases of one host the strongest."""
    return tuple({case.host: case for case in reversed(cases)}.values())[::-1]


def _unexplained(world: worlds.World, cube: fleet.Cube) -> Iterator[str]:
    """Trouble for which there is no rule, a degraded link for example: told, and nothing done by itself."""
    judgement = world.judgement(cube)
    if cube.has_nodes and judgement.verdict not in (states.Verdict.HEALTHY, states.Verdict.UNKNOWN):
        where = f" ({judgement.where})" if judgement.where else ""
        yield f"{judgement.verdict}{where}: {'; '.join(judgement.reasons[:2])}; nothing is done by itself"


def _of_finding(
    world: worlds.World,
    cube: fleet.Cube,
    finding: findings.Finding,
    found: Sequence[findings.Finding],
    staying: Sequence[failovers.Stays],
) -> repairs.Case | str:
    """The case, or why there is none."""
    if finding.ailment is None:
        raise AssertionError("what needs a remedy has an ailment")
    rule = rules.RULES[finding.ailment]
    host = finding.host
    step = ladder.next_rung(world, cube.id, "" if host is None else host.name, rule.remedies)
    if isinstance(step, str):
        return step
    if step.remedy is Remedy.REPROVISION and staying:
        return f"its node pool is under slice {staying[0].slice.name}"
    users = () if cube.pool is None else astray.users_of_pool(world.snapshot, cube.pool)
    if step.remedy is Remedy.REPROVISION and users:
        return f"its node pool may be in use by {users[0]}"
    hosts = cube.hosts if host is None else (host,)
    radius = blast.of_hosts(world.snapshot, hosts)
    under = [world.snapshot.slices_by_name[name] for name in radius.slices]
    running = [item for item in under if item.state.is_ready]
    return repairs.Case(
        ailment=finding.ailment,
        remedy=step.remedy,
        cube=cube.id,
        block=world.blocks[cube.block].label,
        pool=_pool_name(cube),
        sub_block=_sub_block_name(cube),
        host="" if host is None else host.name,
        host_uid="" if host is None else host.uid,
        provider_id="" if host is None else host.provider_id,
        behavior=rule.behavior if step.remedy is Remedy.REMOVE else "",
        reason=finding.says,
        evidence=_evidence(world, cube, found, step.previous),
        blast=_blast(radius, hosts, under),
        cost=_cost(step.remedy),
        attempt=step.attempt,
        attempt_limit=world.spec.remediation.attempts,
        why_person="; ".join(_why_person(world, cube, radius, step, staying)),
        voluntary=step.remedy is Remedy.REPROVISION or bool(running),
        cordoned=_cordoned(cube),
    )


def _failover(world: worlds.World, cube: fleet.Cube, answer: failovers.Failover) -> repairs.Case:
    plan, item = answer.plan, answer.slice
    replacement = dict(plan.exchanges)[cube.id]
    judgement = world.judgement(cube)
    why = judgement.reasons[0] if judgement.reasons else plan.reasons[0]
    found = findings.of_hosts(world, cube)
    return repairs.Case(
        ailment=answer.ailment,
        remedy=Remedy.FAILOVER,
        cube=cube.id,
        block=world.blocks[cube.block].label,
        pool=_pool_name(cube),
        sub_block=_sub_block_name(cube),
        slice=item.name,
        reason=f"slice {item.name} lies on cube {cube.id}: {why}; cube {replacement} can take its place",
        evidence=_evidence(world, cube, found, ()),
        # Only the pods of this cube start again, but the whole slice is down until it has formed anew.
        blast=repairs.Blast((item.name,), len(plan.restarted), len(cube.hosts), _running_chips(item)),
        cost=_cost(Remedy.FAILOVER),
        attempt_limit=world.spec.remediation.attempts,
        why_person=_why_not_the_loop(world, cube, answer, found),
        voluntary=answer.ailment is Ailment.CUBE_DEGRADED,
        cordoned=_cordoned(cube),
    )


def _why_not_the_loop(
    world: worlds.World, cube: fleet.Cube, answer: failovers.Failover, found: Sequence[findings.Finding]
) -> str:
    """Why a person decides on a failover whatever the policy allows, and on what else if it is rejected."""
    why = failovers.why_not_the_loop(world, cube, answer)
    if not why:
        return ""
    stays = (failovers.Stays(answer.slice, "it was rejected"),)
    needy = [finding for finding in found if finding.standing is Standing.NEEDS]
    others = (_of_finding(world, cube, finding, found, stays) for finding in needy)
    other = next((case for case in others if isinstance(case, repairs.Case)), None)
    instead = "" if other is None else f"; whoever rejects it is asked about {other.remedy} of {other.target}"
    return f"{why}{instead}"


def _pool_name(cube: fleet.Cube) -> str:
    return cube.pool.name if cube.pool is not None else next((host.pool for host in cube.hosts), "")


def _sub_block_name(cube: fleet.Cube) -> str:
    return cube.sub_block.name if cube.sub_block is not None else ""


def _cordoned(cube: fleet.Cube) -> tuple[str, ...]:
    return tuple(sorted(host.name for host in cube.hosts if not host.schedulable))


def _blast(
    radius: blast.BlastRadius, hosts: Sequence[fleet.Host], under: Sequence[fleet.Slice]
) -> repairs.Blast:
    """Of an act on hosts with these slices on them: slices that are down are not interrupted any more."""
    owners = tuple(f"{counts.of(count, 'pod')} of {owner}" for owner, count in radius.owners)
    chips = sum(map(_running_chips, under)) if under else radius.chips
    return repairs.Blast(radius.slices, len(radius.pods), len(hosts), chips, owners)


def _running_chips(item: fleet.Slice) -> int:
    """Chips of running work that its end interrupts: none if it is down already."""
    return item.topology.chips if item.topology is not None and item.state.may_run else 0


def _cost(remedy: Remedy) -> repairs.Cost:
    from_s, to_s, source = rules.EFFORTS[remedy]
    # One host that is away makes the whole cube unfit for a slice of whole cubes.
    return repairs.Cost(from_s, to_s, topology.CUBE.chips, source)


def _evidence(
    world: worlds.World,
    cube: fleet.Cube,
    found: Sequence[findings.Finding],
    previous: Sequence[repairs.Rung],
) -> tuple[repairs.Proof, ...]:
    """Everything that speaks for it, the reservation's and the VM's word included."""
    judgement = world.judgement(cube)
    proofs = [
        repairs.Proof(str(item.origin), item.subject, item.says, item.since) for item in judgement.troubles
    ]
    proofs += [
        repairs.Proof("VM", f"host {finding.host.name}", world.vms[finding.host.name] or "does not exist")
        for finding in found
        if finding.host is not None and finding.host.name in world.vms
    ]
    proofs += [
        repairs.Proof(str(item.origin), item.subject, item.says, item.since)
        for item in judgement.evidence
        if item.origin is health.Origin.RESERVATION and not item.is_trouble
    ]
    proofs += [
        repairs.Proof(
            "earlier repair", f"host {rung.host}" if rung.host else "", f"{rung.remedy} {rung.state}", rung.at
        )
        for rung in previous
    ]
    return tuple(dict.fromkeys(proofs))[:_PROOFS]


def _why_person(
    world: worlds.World,
    cube: fleet.Cube,
    radius: blast.BlastRadius,
    step: ladder.Next,
    staying: Sequence[failovers.Stays],
) -> Iterator[str]:
    """What speaks for asking a person even where the policy would not."""
    yield from (answer.why for answer in staying)
    if radius.slices and not staying:
        yield f"slice {', '.join(radius.slices)} lies on it"
    if radius.pods and not radius.slices:
        yield f"{len(radius.pods)} pods run there"
    claimants = world.snapshot.claimants.get(cube.id, ())
    yield from (
        holder
        for holder in claimants
        if holder.startswith("hold ") and f": {rules.HOLD_PREFIX}" not in holder
    )
    cordoned = _cordoned(cube)
    if cordoned:
        yield f"somebody has cordoned {', '.join(cordoned[:3])}"
    if step.skipped:
        yield f"the policy switches the milder {' and '.join(step.skipped)} off"
