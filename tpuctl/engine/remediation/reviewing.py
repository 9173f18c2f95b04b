"""One review: what is proposed, withdrawn, escalated, expired, begun. Pure, and the same on the same world.

An open item is judged against the present before anything else: a restart, a pause of days or a slow person
leave nothing behind that is acted on as it once was. A host, or a cube as a whole, has one open item at most;
whatever else goes wrong with it meanwhile is judged again when that one is over.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
from typing import TYPE_CHECKING

from tpuctl.engine.health import hosts as host_evidence
from tpuctl.engine.remediation import beginning, cases, findings, ladder, progress, rules
from tpuctl.model import declared, repairs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tpuctl.engine.remediation import world as worlds
    from tpuctl.model import fleet

State = repairs.State
Remedy = declared.Remedy
LOOP_DOES = frozenset({Remedy.FAILOVER, Remedy.REPROVISION})
"""Where these are allowed, the loop does them as actions of its own, under its own budgets."""
_ID_DIGITS = 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class Changes:
    """What a review comes to."""

    opened: tuple[repairs.Item, ...] = ()
    changed: tuple[repairs.Item, ...] = ()
    """Open items that are otherwise now, those that are over among them."""
    begin: tuple[repairs.Item, ...] = ()
    """To carry out, or to go on with, in this order; as they are after `changed`."""
    waiting: tuple[tuple[str, str], ...] = ()
    """Items that somebody has said yes to, each with why it does not begin now."""
    told: tuple[str, ...] = ()
    """Trouble that gets no remedy, as people read it."""
    sightings: tuple[repairs.Sighting, ...] = ()
    repairing: frozenset[str] = frozenset()
    """Cubes with a repair under way or cooling, or with one that may begin any moment."""
    stuck: tuple[str, ...] = ()
    """What has been as it is for too long."""


def review(
    world: worlds.World,
    items: Sequence[repairs.Item],
    signs: Mapping[str, progress.Signs] | None = None,
) -> Changes:
    """Compare open items with the world, and look for new ones.

    `signs` holds what else is known of items that run, by id; an item that is not in it is judged by the
    snapshot alone.
    """
    examined = {cube.id: cases.examine(world, cube) for cube in _looked_at(world, items)}
    judged = _all_judged(world, items, examined, signs or {})
    still = [item for item in judged if item.is_open]
    begin, waiting = beginning.to_begin(world, still, examined)
    opened = tuple(_proposals(world, examined, items))
    running = {item.case.cube for item in still if item.state is State.RUNNING}
    told = tuple(text for cube_id, one in examined.items() if cube_id not in running for text in one.says)
    sightings = findings.sightings(world)
    return Changes(
        opened=opened,
        changed=tuple(new for old, new in zip(items, judged, strict=True) if new != old),
        begin=begin,
        waiting=waiting,
        told=told,
        sightings=sightings,
        repairing=_repairing(world, still, examined),
        stuck=(*_stuck(still), *_kept_away(world, sightings, still)),
    )


def _looked_at(world: worlds.World, items: Sequence[repairs.Item]) -> Sequence[fleet.Cube]:
    found = {cube.id: cube for cube in world.troubled}
    for item in items:
        cube = world.cube_of(item.case)
        if cube is not None:
            found[cube.id] = cube
    return [found[cube_id] for cube_id in sorted(found)]


# -- open items --------------------------------------------------------------------------------------------


def _all_judged(
    world: worlds.World,
    items: Sequence[repairs.Item],
    examined: Mapping[str, cases.Examined],
    signs: Mapping[str, progress.Signs],
) -> list[repairs.Item]:
    """In the order of `items`; two of them never come to stand for the same remedy on the same target."""
    judged: list[repairs.Item] = []
    for place, item in enumerate(items):
        others = {one.case.key for one in (*judged, *items[place + 1 :]) if one.is_open}
        judged.append(_judged(world, item, examined, signs.get(item.id, progress.Signs()), others))
    return judged


def _judged(
    world: worlds.World,
    item: repairs.Item,
    examined: Mapping[str, cases.Examined],
    signs: progress.Signs,
    others: set[tuple[str, str, str, str]],
) -> repairs.Item:
    if not item.is_open:
        return item
    if item.state is State.RUNNING:
        return progress.judge(world, item, signs)
    item = beginning.lasting(world, item)
    over = _over_by_itself(world, item)
    if over is not None:
        return over
    cube = world.cube_of(item.case)
    if cube is None:
        raise AssertionError("a case without its cube is over")
    if world.block_spec(cube) is None:
        return item.ended(State.WITHDRAWN, world.now, "the fleet file does not name its block any more")
    return _compared(world, item, examined[cube.id], others)


def _over_by_itself(world: worlds.World, item: repairs.Item) -> repairs.Item | None:
    """Its time is over, its target is gone, or somebody else has put a hand on it."""
    case = item.case
    cube = world.cube_of(case)
    if cube is None or (case.pool and cube.pool is None and not cube.hosts):
        return item.ended(State.CANCELLED, world.now, f"target absent: node pool {case.pool} is gone")
    hosts = {host.name: host for host in cube.hosts}
    if case.host and (case.host not in hosts or hosts[case.host].uid != case.host_uid):
        return item.ended(State.CANCELLED, world.now, f"target absent: host {case.host} is gone or replaced")
    if world.now >= item.expires_at:
        who = "nobody answered" if item.state is State.PROPOSED else "it was approved and did not begin"
        return item.ended(State.EXPIRED, world.now, f"{who} until {host_evidence.when(item.expires_at)}")
    changed = set(case.cordoned) ^ {host.name for host in cube.hosts if not host.schedulable}
    operations = any(claim.slice_name and claim.cube_id == cube.id for claim in world.snapshot.claims)
    if changed and not operations:
        what = ", ".join(sorted(changed)[:3])
        note = f"somebody cordoned or uncordoned {what} since it was proposed: an admin is at work there"
        return item.ended(State.CANCELLED, world.now, note)
    return None


def _compared(
    world: worlds.World,
    item: repairs.Item,
    found: cases.Examined,
    others: set[tuple[str, str, str, str]],
) -> repairs.Item:
    """The same, renewed, escalated in place, or withdrawn."""
    rank = rules.RANK[item.case.remedy]
    for case in found.cases:
        is_its = case.host in ("", item.case.host) and case.key not in others
        if is_its and rules.RANK[case.remedy] > rank and not _does_the_loop(world, case):
            return _escalated(world, item, case)
    same = next((case for case in found.cases if case.key == item.case.key), None)
    if same is not None:
        return _renewed(world, item, same)
    if found.is_unsure_about(item.case.host):
        return item
    now = f"now: {found.says[0]}" if found.says else "the fault has cleared"
    if found.cases:
        now = f"now rather: {found.cases[0].remedy} of {found.cases[0].target}"
    return item.ended(State.WITHDRAWN, world.now, now)


def _escalated(world: worlds.World, item: repairs.Item, case: repairs.Case) -> repairs.Item:
    """A yes was given to the milder remedy, so it does not count for this one."""
    rung = item.rung(State.ESCALATED, world.now, f"worse: {case.reason}")
    return dataclasses.replace(
        item,
        case=case,
        state=State.PROPOSED,
        proposed_at=world.now,
        expires_at=_expiry(world),
        approvals_needed=approvals_needed(world, case),
        approvals=(),
        previous=(*item.previous, rung),
        note=f"escalated from {item.case.remedy} of {item.case.target}",
    )


def _renewed(world: worlds.World, item: repairs.Item, case: repairs.Case) -> repairs.Item:
    """What a person decides on must be what is so; a yes does not cover more than was shown."""
    needed = approvals_needed(world, case)
    before = item.case
    if item.state is State.APPROVED and _hits_more(before.blast, case.blast):
        return _asked_again(world, item, case, needed, f"it would hit more than was approved: {case.blast}")
    if item.state is State.APPROVED:
        enough = needed <= item.approvals_needed
        return item if enough else _asked_again(world, item, case, needed, "the policy changed")
    weighs = (before.blast, before.why_person, before.ailment, before.attempt, item.approvals_needed)
    if weighs == (case.blast, case.why_person, case.ailment, case.attempt, needed):
        return item
    return dataclasses.replace(item, case=case, approvals_needed=needed)


def _hits_more(before: repairs.Blast, now: repairs.Blast) -> bool:
    return bool(
        set(now.slices) - set(before.slices)
        or now.pods > before.pods
        or now.interrupted_chips > before.interrupted_chips
    )


def _asked_again(
    world: worlds.World, item: repairs.Item, case: repairs.Case, needed: int, why: str
) -> repairs.Item:
    return dataclasses.replace(
        item,
        case=case,
        state=State.PROPOSED,
        proposed_at=world.now,
        expires_at=_expiry(world),
        approvals=(),
        approvals_needed=max(needed, 1),
        note=f"it has to be approved again: {why}",
    )


# -- new ones ----------------------------------------------------------------------------------------------


def _proposals(
    world: worlds.World, examined: Mapping[str, cases.Examined], items: Sequence[repairs.Item]
) -> Sequence[repairs.Item]:
    found: list[repairs.Item] = []
    for cube_id, one in examined.items():
        cube = world.snapshot.cubes_by_id[cube_id]
        names = {cube_id, cube.sub_block.name if cube.sub_block is not None else cube_id}
        open_here = [item.case for item in items if names & {item.case.cube, item.case.sub_block}]
        ours = [case for case in one.cases if not _does_the_loop(world, case)]
        found += [
            _proposed(world, case) for case in ours if not any(_overlap(case, other) for other in open_here)
        ]
    return found


def _overlap(case: repairs.Case, other: repairs.Case) -> bool:
    """If true, both are about one host, or one of them is about the whole cube."""
    return not case.host or not other.host or case.host == other.host


def _does_the_loop(world: worlds.World, case: repairs.Case) -> bool:
    """What it would not do has a reason for a person. A pool without any node disturbs nobody: the loop makes
    it again without asking."""
    allowed = world.spec.remediation.permission(case.remedy) is declared.Permission.ALLOW
    allowed |= case.ailment is repairs.Ailment.POOL_ERROR
    return allowed and case.remedy in LOOP_DOES and world.mode is declared.Mode.ACT and not case.why_person


def _proposed(world: worlds.World, case: repairs.Case) -> repairs.Item:
    return repairs.Item(
        id=item_id(case, world.now),
        case=case,
        state=State.PROPOSED,
        proposed_at=world.now,
        expires_at=_expiry(world),
        approvals_needed=approvals_needed(world, case),
        previous=ladder.tried(world, case.cube, case.host),
    )


def item_id(case: repairs.Case, now: datetime.datetime) -> str:
    """Short enough to type, and the same for the same case at the same time."""
    text = "|".join((*case.key, now.astimezone(datetime.UTC).isoformat()))
    return f"r-{hashlib.sha256(text.encode()).hexdigest()[:_ID_DIGITS]}"


def approvals_needed(world: worlds.World, case: repairs.Case) -> int:
    """How many different people have to say yes."""
    policy = world.spec.remediation
    if case.remedy is Remedy.REMOVE and policy.second_approver:
        return 2
    allowed = policy.permission(case.remedy) is declared.Permission.ALLOW
    return 0 if allowed and world.mode is declared.Mode.ACT and not case.why_person else 1


def _expiry(world: worlds.World) -> datetime.datetime:
    return world.now + datetime.timedelta(seconds=world.spec.remediation.expiry_s)


# -- what others must know ---------------------------------------------------------------------------------


def _repairing(
    world: worlds.World, items: Sequence[repairs.Item], examined: Mapping[str, cases.Examined]
) -> frozenset[str]:
    agreed = {
        item.case.cube
        for item in items
        if item.state is State.RUNNING or beginning.may_begin(world, item, examined)
    }
    cooling = {rung.cube for rung in world.ledger.rungs if ladder.cooling_until(world, rung.cube) is not None}
    return frozenset(agreed | cooling)


def _stuck(items: Sequence[repairs.Item]) -> Sequence[str]:
    return [
        f"repair {item.id} ({item.case.remedy} of {item.case.target}): {item.note}"
        for item in items
        if item.state is State.RUNNING and item.note.startswith("overdue")
    ]


def _kept_away(
    world: worlds.World, sightings: Sequence[repairs.Sighting], items: Sequence[repairs.Item]
) -> Sequence[str]:
    """The watchdog: out of use, and healthy for so long that somebody has probably forgotten it."""
    busy = {item.case.cube for item in items}
    found = []
    for sighting in sightings:
        if sighting.kind != findings.KEPT_AWAY or sighting.subject in busy:
            continue
        if (world.now - sighting.since).total_seconds() >= rules.KEPT_AWAY_S:
            by = world.snapshot.claimants.get(sighting.subject, ("a cordon",))
            since = host_evidence.when(sighting.since)
            found.append(f"cube {sighting.subject} is healthy and out of use since {since}: {'; '.join(by)}")
    return found
