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
    from collections.abc import Iterator

    from tpuctl.engine.reconciling.draft import Draft
    from tpuctl.engine.reconciling.view import View
    from tpuctl.model import fleet

COMING_UP_S = 900.0
"""Nodes of a pool register one after the other; in a quarter of an hour all of them have."""
WAIT_S = COMING_UP_S + estimates.LONGEST_CREATE_POOL_S
"""What waits for cubes that come up waits no longer than this after the last one came: by then the next
should have come."""
LONGEST_WAIT_S = 12 * 3600.0
"""And no longer than this in all: a block is set up in so long, four node pools at a time."""
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

    Creations that wait only for their turn count: others are under way.
    """
    return frozenset({cube.id for cube in draft.arriving}.union(_created(draft)))


def _created(draft: Draft) -> Iterator[str]:
    """Sub-blocks whose node pool is to be made, now or when its turn comes."""
    known = draft.view.snapshot.cubes_by_id
    for action in draft.actions:
        if action.kind is not reconciling.ActionKind.CREATE_POOL or action.pool is None:
            continue
        waits = action.stopped_by.startswith("pool operations")
        if action.pool.sub_block in known and (waits or not action.stopped_by):
            yield action.pool.sub_block


def may_wait(draft: Draft, subject: str) -> bool:
    """If true, what is to be served has not waited too long for cubes that come up; it is seen to wait."""
    return draft.view.now < waits_until(draft, subject)


def waits_until(draft: Draft, subject: str) -> datetime.datetime:
    """The end of its patience, if no other cube comes."""
    last = draft.ledger.see(AWAITED, f"{subject} with {draft.cubes_up} cubes").since
    first = draft.ledger.see(AWAITED, subject).since
    return min(last + datetime.timedelta(seconds=WAIT_S), first + datetime.timedelta(seconds=LONGEST_WAIT_S))
