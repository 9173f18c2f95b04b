"""Slices that no swap can mend: made again where they were, elsewhere, or after a failed formation.

Pods outlive their slice and keep the chips of its hosts. So a slice that is down is made again where it is
if it can be, and nothing about its pods changes. If it cannot, those on hosts that are not ready run no more,
and those on the others wait for each other without links: once there is another place, or a smaller shape
that the declared state allows, all of them are ended with the slice, and their controllers begin them anew.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.engine import astray, health, swapping
from tpuctl.engine.reconciling import arriving, estimates, fitting, suspicion, words
from tpuctl.engine.reconciling import draft as drafts
from tpuctl.engine.reconciling.ledger import AGAIN
from tpuctl.model import declared, reconciling, states

if TYPE_CHECKING:
    import datetime

    from tpuctl.engine.reconciling import wanted
    from tpuctl.engine.reconciling.draft import Draft
    from tpuctl.model import fleet, operations

State = states.SliceState
Kind = reconciling.ActionKind

TROUBLE, STUCK, DOWN_FOR = "slice-trouble", "slice-forming", "slice-no-spare"
"""Kinds of sightings: up with a failed cube; never ready; down without a cube to mend it."""
RECOVER_S = 120.0
"""A slice that failed although its cubes look well is left so long before it is made again on them."""
IN_PLACE = 2
"""So often it is tried on the same cubes."""
FORMING_TIMEOUT_S = 1800.0
"""Formation takes a minute; clients wait 3 to 60 minutes. Nobody is working on it: no operation is open."""
SILENT_PODS_S = 300.0
"""Kubernetes lets pods stay so long on a node that fell silent (tolerationSeconds of unreachable)."""
SPARE_GRACE_S = 600.0
"""A slice that is down waits so long for a cube of its block before it is made again elsewhere or smaller."""
_FORMING = frozenset({State.CREATED, State.NOT_CREATED, State.ACTIVATING})


def make_again(draft: Draft, want: wanted.Want, item: fleet.Slice) -> None:
    """It failed and all its cubes are well: formed anew if it is empty, made again under its pods otherwise.

    The second is a swap without exchanges: place and pods stay. If that is in vain, one cube is exchanged, or
    a sub-slice is formed elsewhere.
    """
    held = sorted(cube.id for cube in draft.view.members(item) if cube.id in draft.view.held_cubes)
    if held:
        draft.wait(want.name, f"it is FAILED, and {words.listed(held)} of it is on hold")
        return
    known = draft.ledger.attempts.get(AGAIN + want.name)
    if known is None and (draft.view.now - item.since).total_seconds() < RECOVER_S:
        draft.wait(want.name, "it is FAILED and its cubes look well; the loop looks again before it acts")
        return
    why = item.message or "failed though its cubes look well"
    if not draft.pods_on(item):
        _take_back(
            draft, want, item, f"it is {item.state} though its cubes are well; it is formed again", why
        )
        return
    in_vain = known is not None and known.failures >= IN_PLACE and not permission(draft)
    between = draft.gate.between_attempts(AGAIN + want.name)
    if in_vain and not between and _goes_elsewhere(draft, want, item):
        return
    exchanges = _one_exchange(draft, want, item) if in_vain else ()
    done = draft.propose(_remake(draft, item, exchanges), between)
    if done.stopped_by:
        draft.wait(want.name, f"it is {item.state}; {done.stopped_by}")
    else:
        draft.ledger.failed_again(want.name, why)
        suspicion.suspect(draft, item.partition_ids)


def _goes_elsewhere(draft: Draft, want: wanted.Want, item: fleet.Slice) -> bool:
    """A sub-slice that does not form on its partition again makes way, if it has another place."""
    if item.topology is None or not item.topology.is_sub_slice:
        return False
    place = fitting.best_option(draft, want, item)
    if place is None or set(place.partition_ids) == set(item.partition_ids):
        return False
    reason = f"{item.state}, and it does not form on its partition again; it is formed elsewhere"
    _make_way(draft, want, item, f"{reason}{_said(_pods(draft, item), item)}")
    return True


def _remake(
    draft: Draft, item: fleet.Slice, exchanges: tuple[operations.Exchange, ...]
) -> reconciling.Action:
    how = (
        "one of them is exchanged, since they did not do together"
        if exchanges
        else "it is made again on them"
    )
    on_old = {exchange.old for exchange in exchanges}
    restarted = sum(len(draft.view.pods_by_cube.get(cube_id, ())) for cube_id in on_old)
    return reconciling.Action(
        kind=Kind.SWAP,
        target=item.name,
        reason=f"{item.state}, it is down; all of its cubes are well, so {how}",
        exchanges=exchanges,
        pods_restarted=restarted,
        pods_kept=draft.pods_on(item) - restarted,
        estimate_s=estimates.SWAP_S,
    )


def _one_exchange(draft: Draft, want: wanted.Want, item: fleet.Slice) -> tuple[operations.Exchange, ...]:
    """The member whose hosts came up last is the likeliest to have failed."""
    members = draft.view.members(item)
    if not members or item.topology is None or item.topology.is_sub_slice:
        return ()
    suspect = max(members, key=lambda cube: (_up_since(draft, cube), cube.id))
    wish = swapping.Wish(
        bad=(suspect.id,), allow_degraded=want.entry.allow_degraded, policy=draft.view.policy
    )
    found = suspicion.plan_swap(draft, draft.block(suspect.block), item, wish)
    return found.exchanges if isinstance(found, swapping.SwapPlan) else ()


def _up_since(draft: Draft, cube: fleet.Cube) -> datetime.datetime:
    return max((host.ready_since or draft.view.now for host in cube.hosts), default=draft.view.now)


def retry_formation(draft: Draft, want: wanted.Want, item: fleet.Slice) -> None:
    """SliceCreationFailed ends only by deletion, and so does a formation that hangs."""
    if item.retries:
        draft.wait(want.name, f"it is {item.reason or item.state}; GKE itself tries again")
    elif item.state is State.CREATION_FAILED:
        why = item.message or "SliceCreationFailed"
        _take_back(draft, want, item, f"it never formed ({why}); it is formed again after a pause", why)
    elif item.state in _FORMING:
        sighting = draft.ledger.see(STUCK, want.name, item.since)
        draft.wait(want.name, f"it is being formed ({item.reason or item.state})")
        if draft.ledger.has_lasted(sighting, FORMING_TIMEOUT_S):
            why = f"{item.reason or item.state} for more than {words.duration(FORMING_TIMEOUT_S)}"
            _take_back(
                draft, want, item, f"its formation hangs ({why}); it is formed again after a pause", why
            )
    else:
        draft.wait(want.name, f"its state '{item.reason or item.state}' is not known, so it is left alone")


def _take_back(draft: Draft, want: wanted.Want, item: fleet.Slice, reason: str, why: str) -> None:
    """The pause before the next formation grows; until then nothing is claimed for it."""
    if not draft.propose(_deform(draft, item, reason)).stopped_by:
        draft.ledger.expect_absence(want.name)
        draft.ledger.failed_again(want.unit, why)
        suspicion.suspect(draft, item.partition_ids)
    draft.wait(want.name, reason)


def relocate(draft: Draft, want: wanted.Want, item: fleet.Slice, *, lacking: int) -> None:
    """Down, and no spare: another block may have room, or a smaller shape may do."""
    sighting = draft.ledger.see(DOWN_FOR, want.name, item.since)
    if not draft.ledger.has_lasted(sighting, SPARE_GRACE_S) or (want.entry.gang and want.entry.same_block):
        return
    if _spare_is_coming(draft, want, item, lacking):
        return
    place = fitting.best_option(draft, want, item)
    if place is not None:
        reason = (
            f"{item.state}, and its block has no cube to replace what failed; "
            f"it fits as {place.topology} in block {draft.label(place.block)}, and is formed there when it "
            "is gone"
        )
        _make_way(draft, want, item, f"{reason}{_said(_pods(draft, item), item)}")


def _spare_is_coming(draft: Draft, want: wanted.Want, item: fleet.Slice, lacking: int) -> bool:
    """If true, enough cubes of its block are coming up, and it has not waited too long for them."""
    block = draft.view.members(item)[0].block
    coming = sum(cube.block == block for cube in draft.arriving)
    return coming >= lacking and arriving.may_wait(draft, want.name)


def mend_sub_slice(draft: Draft, want: wanted.Want, item: fleet.Slice) -> None:
    """A sub-slice has one partition, which cannot be exchanged: in place if that is well, else elsewhere."""
    verdict = _part_verdict(draft, item)
    if verdict in (states.Verdict.HEALTHY, states.Verdict.DEGRADED):
        make_again(draft, want, item)
    elif verdict is states.Verdict.UNKNOWN:
        draft.wait(want.name, "it is FAILED, and the state of its partition is not known")
    elif _may_go(draft, want, item):
        reason = f"{item.state}: its partition is {verdict}; it is formed elsewhere"
        _make_way(draft, want, item, f"{reason}{_said(_pods(draft, item), item)}")


def _may_go(draft: Draft, want: wanted.Want, item: fleet.Slice) -> bool:
    """If true, no work is on it, or none that can go on, and there is a place to begin it anew."""
    if not _pods(draft, item).on_ready:
        return True
    sighting = draft.ledger.see(DOWN_FOR, want.name, item.since)
    if (
        draft.ledger.has_lasted(sighting, SPARE_GRACE_S)
        and fitting.best_option(draft, want, item) is not None
    ):
        return True
    _tell_pods(draft, want)
    return False


def watch_sub_slice(draft: Draft, want: wanted.Want, item: fleet.Slice) -> None:
    """It is up and its partition has failed: moved if nothing runs on it, told otherwise.

    Pods on a host that only fell silent get the time that Kubernetes gives them.
    """
    if item.topology is None:
        return
    verdict = _part_verdict(draft, item)
    if verdict not in (states.Verdict.UNHEALTHY, states.Verdict.INCOMPLETE):
        return
    sighting = draft.ledger.see(TROUBLE, want.name)
    pods = _pods(draft, item)
    if not draft.ledger.has_lasted(sighting, SILENT_PODS_S if pods.stuck else 0.0):
        return
    if pods.on_ready:
        _tell_pods(draft, want)
    else:
        reason = f"its partition is {verdict}; it is formed elsewhere"
        _make_way(draft, want, item, f"{reason}{_said(pods, item)}")


def _part_verdict(draft: Draft, item: fleet.Slice) -> states.Verdict:
    view = draft.view
    if item.topology is None:
        return states.Verdict.UNKNOWN
    hosts, nodes = view.snapshot.hosts_of(item), astray.names_of(view.snapshot, item)
    return health.judge_part(hosts, item.topology, view.policy, view.now, astray=nodes).verdict


class _Pods(NamedTuple):
    """Unfinished pods on the hosts of a slice."""

    on_ready: int
    stuck: int
    """On hosts that are not ready: whatever the API still says of them, they do no work for the slice."""


def _pods(draft: Draft, item: fleet.Slice) -> _Pods:
    snapshot = draft.view.snapshot
    ready = {host.name for host in snapshot.hosts_of(item) if host.ready is True}
    # Of a node that lacks its labels nothing speaks against its pods.
    ready.update(astray.names_of(snapshot, item))
    nodes = [pod.node for pod in astray.pods_of(snapshot, item)]
    on_ready = sum(node in ready for node in nodes)
    return _Pods(on_ready, len(nodes) - on_ready)


def _said(pods: _Pods, item: fleet.Slice) -> str:
    """What becomes of its pods, for the reason of an action; what is about them begins with a semicolon."""
    said = ""
    if pods.on_ready:
        hang = f"{words.count(pods.on_ready, 'pod')} on it without links since {words.time(item.since)}"
        said += f"; {hang} {'is' if pods.on_ready == 1 else 'are'} begun anew"
    if pods.stuck:
        said += f"; {words.count(pods.stuck, 'pod')} on hosts that are not ready "
        said += f"{'is' if pods.stuck == 1 else 'are'} ended"
    return said


def _tell_pods(draft: Draft, want: wanted.Want) -> None:
    draft.wait(want.name, "it cannot be mended where it is, and pods are still on it")
    draft.ledger.recommend(
        f"slice/{want.name}",
        "it cannot be mended where it is, and its pods keep its hosts: end them, and it is formed elsewhere",
    )


def _make_way(draft: Draft, want: wanted.Want, item: fleet.Slice, reason: str) -> None:
    """Its pods go with it: left behind they would keep its hosts, and there is no work that goes on."""
    action = _deform(draft, item, reason)
    action = dataclasses.replace(action, pods_restarted=action.pods_kept, pods_kept=0)
    by_hand = f"tpuctl slice deform {want.name}"
    done = draft.propose(action, permission(draft, by_hand) if action.pods_restarted else "")
    if not done.stopped_by:
        draft.ledger.expect_absence(want.name)
    draft.wait(want.name, reason)


def permission(draft: Draft, how: str = "tpuctl repair list") -> str:
    """Why the policy wants a person for other cubes under a slice, and how; empty if it does not."""
    found = draft.view.spec.remediation.failover
    if found is declared.Permission.ALLOW:
        return ""
    return f"policy: remediation.failover is '{found}', so a person approves it: {how}"


def _deform(draft: Draft, item: fleet.Slice, reason: str) -> reconciling.Action:
    return reconciling.Action(
        kind=Kind.DEFORM,
        target=item.name,
        reason=reason,
        chips=drafts.chips_of(item),
        slices=drafts.running(item),
        pods_kept=draft.pods_on(item),
        estimate_s=estimates.DEFORM_S,
    )
