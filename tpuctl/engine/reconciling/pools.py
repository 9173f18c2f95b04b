"""Node pools: one for each sub-block that is declared; made again only if they are of no use as they are.

A pool with fewer than 16 nodes is normal while hosts are in repair, one in ERROR with all its nodes is
healthy, and one that is STOPPING is on its way out. A pool under a slice, a claim or a pod is never touched,
and a node that lacks the label of its cube is a node of its pool all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tpuctl.engine import astray, carving
from tpuctl.engine.reconciling import estimates, wanted, words
from tpuctl.model import declared, fleet, reconciling, states, topology

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tpuctl.engine.reconciling.draft import Draft
    from tpuctl.engine.reconciling.view import View

Kind = reconciling.ActionKind
Status = states.PoolStatus

SHORT, BROKEN = "pool-short", "pool-error"
"""Kinds of sightings."""
_SETTLED = frozenset({Status.RUNNING, Status.RUNNING_WITH_ERROR, Status.ERROR})
"""In any other status it is being changed, or nobody knows."""
_NOT_USABLE = frozenset({"CREATING", "DELETING", "INVALID"})
"""Words of a sub-block's status that mean: no pool can be made there now."""


class _Wanted(NamedTuple):
    """A declared block and what the Compute API says of it."""

    spec: declared.BlockSpec
    reserved: fleet.ReservedBlock


def create(draft: Draft) -> None:
    """Pools that are not there. What exists for a sub-block, under whatever name, is enough."""
    view = draft.view
    aimed = {(wanted.tail(pool.reservation), pool.block, pool.sub_block) for pool in view.pools}
    for block in _wanted_blocks(view):
        reserved = block.reserved
        first = sorted(item.name for item in reserved.sub_blocks)[: block.spec.cubes]
        names = {(wanted.tail(reserved.reservation), reserved.name, name) for name in first}
        if not names <= aimed:
            _create_in(draft, block)


def name_unknown(draft: Draft) -> None:
    """Blocks of the declared state that the reservation does not have: nothing is done about a name that is
    mistyped, and nobody would notice."""
    blocks = draft.view.snapshot.blocks
    found = [wanted.spec_of_block(draft.view.spec, block) for block in blocks]
    for reservation in draft.view.spec.reservations:
        for spec in reservation.blocks:
            if any(one is spec for one in found):
                continue
            name = wanted.tail(reservation.name)
            known = words.listed([block.label for block in blocks if wanted.tail(block.reservation) == name])
            has = f"it has {known}" if known else "no block of it is known in this context"
            draft.ledger.recommend(
                f"block/{spec.name}",
                f"reservation {reservation.name} has no such block ({has}): see the name in the fleet file",
            )


def _wanted_blocks(view: View) -> Iterator[_Wanted]:
    for reservation in view.spec.reservations:
        for spec in reservation.blocks:
            found = [
                block
                for block in view.blocks
                if spec.name in (block.name, block.physical_id)
                and wanted.tail(block.reservation) == wanted.tail(reservation.name)
            ]
            for block in found[:1]:
                yield _Wanted(spec, block)


def _create_in(draft: Draft, block: _Wanted) -> None:
    view = draft.view
    plan = carving.plan_carving(
        [block.reserved],
        view.pools,
        policy=block.spec.pools.policy or view.pool_policy,
        limit=block.spec.cubes,
        settings=block.spec.pools,
    )
    for clash in plan.clashes:
        draft.ledger.recommend(f"block/{block.spec.name}", clash)
    sub_blocks = {item.name: item for item in block.reserved.sub_blocks}
    claimed = view.snapshot.claimants
    for spec in plan.create:
        sub_block = sub_blocks[spec.sub_block]
        if claimed.get(spec.sub_block) or spec.sub_block in view.repairing:
            continue
        if not _can_be_made(sub_block):
            continue
        draft.propose(
            reconciling.Action(
                kind=Kind.CREATE_POOL,
                target=spec.name,
                reason=f"sub-block {spec.sub_block} of block {block.spec.name} has no node pool",
                pool=spec,
                estimate_s=estimates.CREATE_POOL_S,
            )
        )


def _can_be_made(sub_block: fleet.SubBlock) -> bool:
    """False while the hardware is away: it would end in ERROR, and be deleted again."""
    if sub_block.status in _NOT_USABLE or sub_block.healthy_hosts == 0:
        return False
    return sub_block.maintenance is None or not sub_block.maintenance.is_ongoing


# -- pools that are of no use ----------------------------------------------------------------------------


def recreate(draft: Draft) -> None:
    """Pools in ERROR without a node, and free ones that lack hosts which the reservation calls healthy."""
    view = draft.view
    settings = {
        (wanted.tail(block.reserved.reservation), block.reserved.name): block
        for block in _wanted_blocks(view)
    }
    for pool in view.pools:
        block = settings.get((wanted.tail(pool.reservation), pool.block))
        if block is None or pool.status not in _SETTLED or not pool.sub_block:
            continue
        cube = view.cube_of_pool.get(pool.name)
        nodes = len(cube.hosts) + len(cube.strays) if cube is not None else 0
        if nodes < topology.HOSTS_PER_CUBE and not _is_used(view, pool, cube):
            _judge(draft, pool, block, nodes)


def _is_used(view: View, pool: fleet.NodePool, cube: fleet.Cube | None) -> bool:
    """If true, a slice, a claim, a repair or a pod is there."""
    cube_id = pool.sub_block if cube is None else cube.id
    if {cube_id, pool.sub_block} & view.repairing or cube_id in view.cubes_in_slices:
        return True
    claimed: Mapping[str, tuple[str, ...]] = view.occupied.claimants
    return bool(
        claimed.get(cube_id) or claimed.get(pool.sub_block) or astray.users_of_pool(view.snapshot, pool)
    )


def _judge(draft: Draft, pool: fleet.NodePool, block: _Wanted, nodes: int) -> None:
    healthy = _healthy_hosts(block.reserved, pool.sub_block)
    settings = block.spec.pools
    if not nodes and pool.status is Status.ERROR:
        if healthy == 0:
            return  # it cannot be better as long as its hardware is away
        sighting = draft.ledger.see(BROKEN, pool.name)
        if draft.ledger.has_lasted(sighting, settings.error_grace_s):
            reason = f"ERROR without any node since {words.time(sighting.since)}"
            _recreate(draft, pool, block, reason, voluntary=False)
    elif healthy is not None and nodes < min(healthy, topology.HOSTS_PER_CUBE):
        sighting = draft.ledger.see(SHORT, pool.name)
        if draft.ledger.has_lasted(sighting, settings.incomplete_grace_s):
            reason = (
                f"{nodes} nodes since {words.time(sighting.since)}, though the reservation calls "
                f"{healthy} hosts healthy"
            )
            _recreate(draft, pool, block, reason, voluntary=True)


def _healthy_hosts(reserved: fleet.ReservedBlock, sub_block: str) -> int | None:
    """None if the reservation does not tell: then nothing is known to be missing."""
    for item in reserved.sub_blocks:
        if item.name == sub_block:
            return item.healthy_hosts
    return None


def _recreate(draft: Draft, pool: fleet.NodePool, block: _Wanted, reason: str, *, voluntary: bool) -> None:
    view = draft.view
    cube = view.cube_of_pool.get(pool.name)
    permission = view.spec.remediation.reprovision
    reservation = ""
    # What has no node disturbs nobody: that needs no more permission than its first creation.
    if voluntary and permission is not declared.Permission.ALLOW:
        reservation = f"policy: remediation.reprovision is '{permission}', so a person approves it"
    done = draft.propose(
        reconciling.Action(
            kind=Kind.RECREATE_POOL,
            target=pool.name,
            reason=reason,
            pool=fleet.PoolSpec(
                pool.name,
                block.reserved.reservation,
                block.reserved.name,
                pool.sub_block,
                block.spec.pools.policy or view.pool_policy or pool.policy,
            ),
            voluntary=voluntary,
            estimate_s=estimates.RECREATE_POOL_S,
        ),
        reservation,
    )
    if not done.stopped_by:  # what waits for a person or for a window has hosts that are of use meanwhile
        draft.claim([pool.sub_block if cube is None else cube.id], f"node pool {pool.name} is made again")
