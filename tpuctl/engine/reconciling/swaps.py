"""Slices that are broken: exchange failed cubes for spares of the same block, all of a slice in one plan.

What is down is mended at once, since nothing runs on it. What still runs is looked at twice first, and pods
on a host that only fell silent get the time that Kubernetes gives them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.engine import astray, placement, swapping
from tpuctl.engine.health import verdicts
from tpuctl.engine.reconciling import draft as drafts
from tpuctl.engine.reconciling import estimates, making_room, relocating, suspicion, words
from tpuctl.model import health, reconciling, states

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tpuctl.engine.reconciling import wanted
    from tpuctl.engine.reconciling.draft import Draft
    from tpuctl.model import fleet

State = states.SliceState
Verdict = states.Verdict

WORN = "slice-worn"
"""Kind of sighting: a slice that wants healthy cubes has a degraded one."""
SETTLE_S = 20.0
"""Labels and nodes tell of a failure a little after the slice does, and failures come in groups."""
DISMANTLING_S = 600.0
"""DEACTIVATING or INCOMPLETE without a deletion ends in FAILED, or in nothing; longer means it hangs."""
_BROKEN = frozenset({Verdict.UNHEALTHY, Verdict.INCOMPLETE})


def mend(draft: Draft) -> None:
    """One plan for each slice of ours that is broken, the most urgent first."""
    for want in by_priority(draft):
        item = draft.view.snapshot.slices_by_name.get(want.name)
        if item is not None and draft.is_ours(item) and item.topology in want.shapes:
            mend_one(draft, want, item)


def by_priority(draft: Draft) -> list[wanted.Want]:
    """Wanted slices, the most urgent first, else as declared."""
    return sorted(draft.view.wants.values(), key=lambda want: -want.entry.priority)


def mend_one(draft: Draft, want: wanted.Want, item: fleet.Slice) -> None:
    """Mend it as it is, if it is broken."""
    if item.state.is_ready:
        _mend_running(draft, want, item)
    elif item.state is State.FAILED:
        if _age_s(draft, item) >= SETTLE_S:
            _mend_failed(draft, want, item)
        else:
            draft.wait(want.name, "it has just failed; the loop looks again before it acts")
    elif item.state in (State.DEACTIVATING, State.INCOMPLETE):
        draft.wait(
            want.name, f"it is {item.reason or item.state}, though nobody deleted it; this ends by itself"
        )
        if _age_s(draft, item) >= DISMANTLING_S:
            text = f"it hangs in {item.reason or item.state}; see: tpuctl slice show {want.name}"
            draft.ledger.recommend(f"slice/{want.name}", text)
    else:
        relocating.retry_formation(draft, want, item)


def _tell_astray(draft: Draft, item: fleet.Slice) -> None:
    """Nodes that lack only a label prove nothing: a person has to look."""
    nodes = astray.names_of(draft.view.snapshot, item)
    if nodes:
        draft.ledger.recommend(
            f"slice/{item.name}",
            f"{astray.told(nodes, 'that may be of it')}, which is no reason to touch it; "
            f"look at: kubectl get node {nodes[0]} --show-labels",
        )


def _age_s(draft: Draft, item: fleet.Slice) -> float:
    return (draft.view.now - item.since).total_seconds()


# -- slices that run -------------------------------------------------------------------------------------


def _mend_running(draft: Draft, want: wanted.Want, item: fleet.Slice) -> None:
    if item.topology is None or item.topology.is_sub_slice:
        relocating.watch_sub_slice(draft, want, item)
        _tell_astray(draft, item)
        return
    broken = tuple(_broken(draft, item))
    if broken:
        sighting = draft.ledger.see(relocating.TROUBLE, want.name)
        if not draft.ledger.has_lasted(sighting, 0.0):
            draft.wait(want.name, f"{_cubes(broken)} failed under it; the loop looks again before it acts")
        elif _must_let_pods_end(draft, item, broken) and not draft.ledger.has_lasted(
            sighting, relocating.SILENT_PODS_S
        ):
            draft.wait(want.name, f"{_cubes(broken)} failed under it, and pods still run there")
        else:
            _swap(draft, want, item, broken)
        return
    _tell_astray(draft, item)
    worn = () if want.entry.allow_degraded else tuple(_worn(draft, item))
    if worn:
        sighting = draft.ledger.see(WORN, want.name)
        if draft.ledger.has_lasted(sighting, 0.0):
            _swap_worn(draft, want, item, worn)


def _broken(draft: Draft, item: fleet.Slice) -> Iterator[str]:
    """Members that have failed, or of which no node is left; what is unknown is not among them."""
    known = draft.view.snapshot.cubes_by_id
    for cube_id in item.partition_ids:
        cube = known.get(cube_id)
        if cube is not None and cube.hosts:
            if _verdict(draft, cube) in _BROKEN:
                yield cube_id
        elif not astray.instead_of_lost(draft.view.snapshot, item):
            yield cube_id


def _verdict(draft: Draft, cube: fleet.Cube) -> states.Verdict:
    return verdicts.of(cube, draft.view.policy, draft.view.now).verdict


def _must_let_pods_end(draft: Draft, item: fleet.Slice, broken: Sequence[str]) -> bool:
    """If true, pods are bound to hosts of the failed cubes that are not ready: they may still run there.

    So they may on what is left of a cube that has no node with its label.
    """
    known, pods = draft.view.snapshot.cubes_by_id, draft.view.pods_by_cube
    for cube_id in broken:
        cube = known.get(cube_id)
        if cube is None or not cube.hosts:
            rest = [node.name for node in astray.of_slice(draft.view.snapshot, item) if not node.cube]
            if rest and draft.view.snapshot.pods_at(rest):
                return True
            continue
        silent = {*cube.strays, *(host.name for host in cube.hosts if host.ready is not True)}
        if any(pod.node in silent for pod in pods.get(cube_id, ())):
            return True
    return False


def _worn(draft: Draft, item: fleet.Slice) -> Iterator[str]:
    """Members with a broken link, or whose maintenance is near, for longer than the policy tolerates."""
    for cube in draft.view.members(item):
        judgement = verdicts.of(cube, draft.view.policy, draft.view.now)
        if judgement.verdict is Verdict.DEGRADED and not judgement.is_tolerated and _lasts(judgement):
            yield cube.id


def _lasts(judgement: health.Judgement) -> bool:
    near = (health.Origin.NODE_MAINTENANCE, health.Origin.RESERVATION_MAINTENANCE)
    return health.Domain.FABRIC in judgement.domains or any(
        trouble.origin in near for trouble in judgement.troubles
    )


def _swap_worn(draft: Draft, want: wanted.Want, item: fleet.Slice, worn: tuple[str, ...]) -> None:
    """Voluntary, so it leaves the spares to those who need them."""
    block = next(cube.block for cube in draft.view.members(item))
    snapshot = draft.with_spares(draft.block(block))
    wish = swapping.Wish(bad=worn, policy=draft.view.policy)
    found = suspicion.plan_swap(draft, snapshot, item, wish)
    if isinstance(found, swapping.SwapPlan):
        draft.propose(_action(item, found, voluntary=True), relocating.permission(draft))
    else:
        draft.ledger.recommend(
            f"slice/{want.name}",
            f"{_cubes(worn)} of it degraded, and no healthy cube of its block is free beside the spares",
        )


# -- slices that are down --------------------------------------------------------------------------------


def _mend_failed(draft: Draft, want: wanted.Want, item: fleet.Slice) -> None:
    if item.topology is None:
        return
    if item.topology.is_sub_slice:
        relocating.mend_sub_slice(draft, want, item)
        _tell_astray(draft, item)
        return
    broken = tuple(_broken(draft, item))
    if broken:
        _swap(draft, want, item, broken)
        return
    judged = {cube.id: _verdict(draft, cube) for cube in draft.view.members(item)}
    # What is not broken and has no node that carries its label is not known either.
    unknown = sorted(
        cube_id for cube_id in item.partition_ids if judged.get(cube_id, Verdict.UNKNOWN) is Verdict.UNKNOWN
    )
    if unknown:
        draft.wait(
            want.name, f"it is FAILED; {_cubes(unknown)} of it in an unknown state, which proves nothing"
        )
        _tell_astray(draft, item)
        draft.ledger.recommend(
            f"slice/{want.name}",
            f"it is FAILED and nobody knows how {words.listed(unknown)} fares: look there",
        )
        return
    relocating.make_again(draft, want, item)


def _swap(draft: Draft, want: wanted.Want, item: fleet.Slice, broken: tuple[str, ...]) -> None:
    members = draft.view.members(item)
    if not members:
        draft.wait(want.name, "no node of any of its cubes is there, so its block cannot be told")
        draft.ledger.recommend(f"slice/{want.name}", "all of its nodes are gone: see tpuctl nodepool list")
        return
    snapshot = draft.block(members[0].block)
    wish = swapping.Wish(bad=broken, allow_degraded=want.entry.allow_degraded, policy=draft.view.policy)
    found = suspicion.plan_swap(draft, snapshot, item, wish)
    if isinstance(found, swapping.SwapPlan):
        draft.propose(_action(item, found, voluntary=False), relocating.permission(draft))
    elif isinstance(found, placement.Refusal):
        _without_spare(draft, want, item, broken, found)
    elif isinstance(found, swapping.Impossible):
        draft.wait(want.name, f"it cannot be swapped: {found.why.value}")


def _without_spare(
    draft: Draft, want: wanted.Want, item: fleet.Slice, broken: tuple[str, ...], found: placement.Refusal
) -> None:
    """What its block has free is kept for it, whoever else asks; then others may have to make room."""
    block = draft.view.members(item)[0].block
    why = f"{_cubes(broken)} failed under it; {making_room.refused(found)}"
    draft.wait(want.name, why)
    draft.ledger.recommend(f"slice/{want.name}", f"{why}: free or repair a cube of its block")
    request = placement.Request(
        topology=swapping.row_of(len(broken)),
        block=block,
        allow_degraded=want.entry.allow_degraded,
        policy=draft.view.policy,
        slice_name=item.name,
        without=item.partition_ids,
    )
    making_room.keep_free_cubes(draft, request, f"kept for the repair of {want.name}")
    draft.lacking.setdefault(block, want.name)
    if _may_make_room(draft, item) and (
        making_room.evict(draft, draft.snapshot, want.name, want.entry.priority, request) is not None
    ):
        return
    if item.state is State.FAILED:
        relocating.relocate(draft, want, item, lacking=len(broken))


def _may_make_room(draft: Draft, item: fleet.Slice) -> bool:
    """False if the swap itself needs a person: nobody is ended for what may never be."""
    limit = draft.view.spec.budgets.disrupted_chips_per_hour
    return not relocating.permission(draft) and drafts.chips_of(item) <= limit


def _action(item: fleet.Slice, plan: swapping.SwapPlan, *, voluntary: bool) -> reconciling.Action:
    up = item.state.is_ready
    said = "; ".join(
        f"cube {exchange.old}: {reason}"
        for exchange, reason in zip(plan.exchanges, plan.reasons, strict=True)
    )
    return reconciling.Action(
        kind=reconciling.ActionKind.SWAP,
        target=item.name,
        reason=f"{item.state}{'' if up else ', it is down'}; {said}",
        exchanges=plan.exchanges,
        chips=drafts.chips_of(item),
        slices=drafts.running(item),
        pods_restarted=len(plan.restarted),
        pods_kept=len(plan.kept),
        voluntary=voluntary,
        estimate_s=estimates.SWAP_S,
    )


def _cubes(ids: Sequence[str]) -> str:
    return f"cube {ids[0]}" if len(ids) == 1 else f"{len(ids)} cubes"
