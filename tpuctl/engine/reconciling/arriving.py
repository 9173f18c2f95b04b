"""Cubes that are only coming up: their node pool is being made, or their nodes are new and not all well yet.

Such a cube is not a partly broken one. Nothing is put onto it before it is whole, and what it will make room
for is worth waiting for.
"""

from __future__ import annotations

import datetime
import math
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
"""What waits for cubes that come up waits no longer than this: by then they should have. Where creations wait
for their turn, each turn adds what a creation may take."""
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
    ids.update(sub_block for sub_block, is_queued in _created(draft) if not is_queued)
    return frozenset(ids).union(_queued(draft)) if ids else frozenset()


def _created(draft: Draft) -> Iterator[tuple[str, bool]]:
    """Sub-blocks whose node pool is to be made, and whether its creation only waits for its turn."""
    known = draft.view.snapshot.cubes_by_id
    for action in draft.actions:
        if action.kind is not reconciling.ActionKind.CREATE_POOL or action.pool is None:
            continue
        waits = action.stopped_by.startswith("pool operations")
        if action.pool.sub_block in known and (waits or not action.stopped_by):
            yield action.pool.sub_block, waits


def _queued(draft: Draft) -> frozenset[str]:
    return frozenset(sub_block for sub_block, is_queued in _created(draft) if is_queued)


def may_wait(draft: Draft, subject: str) -> bool:
    """If true, what is to be served has not waited too long for cubes that come up; it is seen to wait."""
    return draft.view.now < waits_until(draft, subject)


def waits_until(draft: Draft, subject: str) -> datetime.datetime:
    """The end of its patience, by what is to be made at present."""
    at_once = max(draft.view.spec.budgets.pool_operations_in_flight, 1)
    turns = math.ceil(len(_queued(draft)) / at_once)
    wait_s = WAIT_S + turns * estimates.LONGEST_CREATE_POOL_S
    return draft.ledger.see(AWAITED, subject).since + datetime.timedelta(seconds=wait_s)
