"""The breaker: so much trouble at once that it is a false alarm, or nothing for a loop to mend.

Trouble is a cube with nodes that is unhealthy, incomplete or not known, and one without any node under a
slice that runs: lists that are not whole look like that. Not counted is what is only coming up, what people
have put on hold, what a person has seen and let pass by resetting the breaker, and hardware in repair: the
reservation itself says that hosts are broken, and nothing is on the cube any more, or it has been so for an
hour (a slice that lacks a spare, sub-slices on what is left of a cube). A fleet of thousands of cubes always
has some of those, and in a small one two of them within days are no storm.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.engine.health import verdicts
from tpuctl.engine.reconciling import arriving, words
from tpuctl.model import reconciling, states

if TYPE_CHECKING:
    from tpuctl.engine.reconciling import ledger as ledgers
    from tpuctl.engine.reconciling.view import View
    from tpuctl.model import declared, fleet

TROUBLE, SEEN_TROUBLE = "trouble", "seen-trouble"
"""Kinds of sightings: what counts, and what a person has let pass."""
IN_REPAIR_AFTER_S = 3600.0
"""Trouble under a slice that the reservation confirms is news for so long: later ones do not add to it."""


class Count(NamedTuple):
    """The fleet's cubes, counted."""

    with_nodes: int
    """Those that have vanished under a running slice among them: they should have some."""
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
        is_bad = verdict in arriving.NOT_WELL and not arriving.is_coming_up(view, cube)
        if is_bad and _counts(view, ledger, cube):
            troubled.append(cube.id)
    # Without any cube with nodes a share means nothing: that is another guard's business.
    vanished = _vanished(view) if with_nodes else []
    with_nodes += len(vanished)
    troubled += [part for part in vanished if _noted(ledger, part) is not None]
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


def _vanished(view: View) -> list[str]:
    """Partitions of running slices that no node carries."""
    known, parts = view.snapshot.cubes_by_id, None
    found = set()
    for item in view.snapshot.slices:
        if not item.state.is_ready or item.deleting:
            continue
        for part in item.partition_ids:
            if part in known and known[part].hosts:
                continue
            parts = view.snapshot.cube_of_partition if parts is None else parts
            if part not in parts:
                found.add(part)
    return sorted(found)


def _noted(ledger: ledgers.Ledger, subject: str) -> reconciling.Sighting | None:
    """Note the trouble; None if a person has let it pass."""
    if ledger.before_seen(SEEN_TROUBLE, subject) is not None:
        ledger.see(SEEN_TROUBLE, subject)
        return None
    return ledger.see(TROUBLE, subject)


def _counts(view: View, ledger: ledgers.Ledger, cube: fleet.Cube) -> bool:
    sighting = _noted(ledger, cube.id)
    if sighting is None:
        return False
    if cube.id in view.held_cubes:
        return False
    if cube.sub_block is None or not cube.sub_block.degraded_hosts:
        return True
    if cube.id not in view.cubes_in_slices:
        return False  # it has been answered: nothing is on it, and its hosts are in repair
    is_news = not ledger.is_first_run and not ledger.has_lasted(sighting, IN_REPAIR_AFTER_S)
    return is_news and not _was_there_at_first(ledger, sighting)


def _was_there_at_first(ledger: ledgers.Ledger, sighting: reconciling.Sighting) -> bool:
    """Hardware that was in repair when the fleet was first looked at is no news."""
    first = ledger.before.observed_at
    return first is not None and sighting.since <= first
