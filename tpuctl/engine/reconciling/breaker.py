"""The breaker: so much trouble at once that it is a false alarm, or nothing for a loop to mend.

Trouble is a cube with nodes that is unhealthy, incomplete or not known. Not counted is what is only coming
up, what people have put on hold, what a person has seen and let pass by resetting the breaker, and hardware
in repair: free of slices, with the reservation itself saying that hosts are broken. A fleet of thousands of
cubes always has some of those.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.engine.reconciling import verdicts, words
from tpuctl.model import reconciling, states

if TYPE_CHECKING:
    from tpuctl.engine.reconciling import ledger as ledgers
    from tpuctl.engine.reconciling.view import View
    from tpuctl.model import declared, fleet

TROUBLE, SEEN_TROUBLE = "trouble", "seen-trouble"
"""Kinds of sightings: what counts, and what a person has let pass."""
COMING_UP_S = 900.0
"""Nodes of a pool register one after the other; in a quarter of an hour all of them have."""
IN_REPAIR_AFTER_S = 3600.0
"""Trouble of free hardware that the reservation confirms is news for so long."""
_BAD = frozenset({states.Verdict.UNHEALTHY, states.Verdict.INCOMPLETE, states.Verdict.UNKNOWN})


class Count(NamedTuple):
    """The fleet's cubes, counted."""

    with_nodes: int
    healthy: int
    troubled: int
    """Those that count."""


def threshold(settings: declared.Breaker, cubes: int) -> int:
    """So many troubled cubes trip it: the smaller of both limits, and never fewer than the minimum."""
    by_percent = math.ceil(round(settings.percent * cubes / 100, 9))
    return max(settings.minimum_cubes, min(by_percent, settings.cubes))


def watch(view: View, ledger: ledgers.Ledger) -> Count:
    """Count, and trip it if there is too much; what has tripped it stays until a person resets it."""
    with_nodes, healthy, troubled = 0, 0, []
    for cube in view.snapshot.cubes:
        if not cube.hosts:
            continue
        with_nodes += 1
        verdict = verdicts.of(cube, view.policy, view.now).verdict
        healthy += verdict is states.Verdict.HEALTHY
        if verdict in _BAD and not _is_coming_up(view, cube) and _counts(view, ledger, cube, verdict):
            troubled.append(cube.id)
    limit = threshold(view.spec.breaker, with_nodes)
    if ledger.tripped is None and with_nodes and len(troubled) >= limit:
        why = (
            f"{words.count(len(troubled), 'cube')} of {with_nodes} in trouble at once, "
            f"it trips at {limit}: {words.listed(sorted(troubled))}"
        )
        ledger.tripped = reconciling.Tripped(view.now, why)
    return Count(with_nodes, healthy, len(troubled))


def reset(memory: reconciling.Memory) -> reconciling.Memory:
    """The memory after a person has looked at the trouble and wants the loop to go on with it."""
    sightings = (
        entry._replace(kind=SEEN_TROUBLE) if entry.kind == TROUBLE else entry for entry in memory.sightings
    )
    return dataclasses.replace(memory, tripped=None, sightings=tuple(sorted(set(sightings))))


def guard(ledger: ledgers.Ledger, count: Count, view: View) -> reconciling.Guard:
    """How it stands."""
    limit = threshold(view.spec.breaker, count.with_nodes)
    if ledger.tripped is not None:
        return reconciling.Guard(
            "breaker", reconciling.GuardState.STOPS_ALL, f"tripped: {ledger.tripped.why}; {RESET}"
        )
    if not count.with_nodes:
        says = "no cube has nodes, so a share of them means nothing: only node pools are created"
        return reconciling.Guard("breaker", reconciling.GuardState.STOPS_SOME, says)
    says = f"{count.troubled} of {words.count(count.with_nodes, 'cube')} in trouble, it trips at {limit}"
    return reconciling.Guard("breaker", reconciling.GuardState.CLEAR, says)


RESET = "it stays so until: tpuctl reconcile resume --reset-breaker"


def _is_coming_up(view: View, cube: fleet.Cube) -> bool:
    """If true, its pool is being made, or a node of it is new: such a cube is not complete yet."""
    if cube.pool is not None and cube.pool.status is states.PoolStatus.PROVISIONING:
        return True
    since = view.now - datetime.timedelta(seconds=COMING_UP_S)
    return any(host.created_at is not None and host.created_at > since for host in cube.hosts)


def _counts(view: View, ledger: ledgers.Ledger, cube: fleet.Cube, verdict: states.Verdict) -> bool:
    if ledger.before_seen(SEEN_TROUBLE, cube.id) is not None:
        ledger.see(SEEN_TROUBLE, cube.id)
        return False
    sighting = ledger.see(TROUBLE, cube.id)
    if cube.id in view.held_cubes:
        return False
    confirmed = cube.sub_block is not None and (cube.sub_block.degraded_hosts or 0) > 0
    if not confirmed or cube.id in view.cubes_in_slices:
        return True
    if verdict is states.Verdict.INCOMPLETE:
        return False  # nodes are away, and the reservation says why
    is_news = not ledger.is_first_run and not ledger.has_lasted(sighting, IN_REPAIR_AFTER_S)
    return is_news and not _was_there_at_first(ledger, sighting)


def _was_there_at_first(ledger: ledgers.Ledger, sighting: reconciling.Sighting) -> bool:
    """Hardware that was in repair when the fleet was first looked at is no news."""
    first = ledger.before.observed_at
    return first is not None and sighting.since <= first
