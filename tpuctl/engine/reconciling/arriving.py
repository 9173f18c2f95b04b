"""Cubes that are only coming up: their node pool is being made, or their nodes are new and not all well yet.

Such a cube is not a partly broken one. Nothing is put onto it before it is whole, and what it will make room
for is worth waiting for.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from tpuctl.engine.health import verdicts
from tpuctl.engine.reconciling import estimates
from tpuctl.model import reconciling, states

if TYPE_CHECKING:
    from tpuctl.engine.reconciling.draft import Draft
    from tpuctl.engine.reconciling.view import View
    from tpuctl.model import fleet

COMING_UP_S = 900.0
"""Nodes of a pool register one after the other; in a quarter of an hour all of them have."""
WAIT_S = COMING_UP_S + estimates.LONGEST_CREATE_POOL_S
"""What waits for cubes that come up waits no longer than this: by then they should have."""
AWAITED = "cubes-coming"
"""Kind of sighting: a wanted slice will fit once cubes are up that are coming up."""
NOT_WELL = frozenset({states.Verdict.UNHEALTHY, states.Verdict.INCOMPLETE, states.Verdict.UNKNOWN})


def is_coming_up(view: View, cube: fleet.Cube) -> bool:
    """If true, its pool is being made, or a node of it is new: it need not be complete yet."""
    if cube.pool is not None and cube.pool.status is states.PoolStatus.PROVISIONING:
        return True
    since = view.now - datetime.timedelta(seconds=COMING_UP_S)
    return any(host.created_at is not None and host.created_at > since for host in cube.hosts)


def free(view: View) -> tuple[fleet.Cube, ...]:
    """Cubes that are coming up, not well yet, and nobody's."""
    claimed = view.occupied.claimants if view.occupied.claims else {}
    return tuple(
        cube
        for cube in view.snapshot.cubes
        if (not cube.hosts or verdicts.of(cube, view.policy, view.now).verdict in NOT_WELL)
        and is_coming_up(view, cube)
        and cube.id not in view.cubes_in_slices
        and cube.id not in view.repairing
        and not claimed.get(cube.id)
    )


def expected(draft: Draft) -> frozenset[str]:
    """Ids of cubes that will be up in a while, with those whose node pool this decision creates.

    Creations that wait only for their turn count as long as another one is under way.
    """
    ids = {cube.id for cube in draft.arriving}
    known = draft.view.snapshot.cubes_by_id
    queued = set()
    for action in draft.actions:
        if action.kind is not reconciling.ActionKind.CREATE_POOL or action.pool is None:
            continue
        if action.pool.sub_block not in known:
            continue
        if not action.stopped_by:
            ids.add(action.pool.sub_block)
        elif action.stopped_by.startswith("pool operations"):
            queued.add(action.pool.sub_block)
    return frozenset(ids | queued) if ids else frozenset()


def may_wait(draft: Draft, subject: str) -> bool:
    """If true, what is to be served has not waited too long for cubes that come up; it is seen to wait."""
    since = draft.ledger.see(AWAITED, subject).since
    return (draft.view.now - since).total_seconds() < WAIT_S


def waits_until(draft: Draft, subject: str) -> datetime.datetime:
    """The end of its patience."""
    return draft.ledger.see(AWAITED, subject).since + datetime.timedelta(seconds=WAIT_S)
