"""What a fleet amounts to in numbers, always counted from the objects themselves.

A counter that is kept beside the objects drifts from them; these are made anew from each snapshot. Chips are
divided into classes that add up to all chips of the cubes, so that nothing is counted twice or forgotten.
"""

from __future__ import annotations

import collections
import enum
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.model import fleet, states, topology
from tpuctl.ops import views

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterable, Mapping

    from tpuctl.model import declared, health, reconciling


class ChipClass(enum.StrEnum):
    """Where a chip is now: the classes of the simulation's ledger that a snapshot can tell apart."""

    PRODUCTIVE = "productive"
    """In a slice that is ready."""
    RESTART = "restart"
    """In a slice that is being formed or taken apart, or has failed and waits to be mended."""
    QUEUE_IDLE = "queue_idle"
    """Free, healthy, and not kept for swaps."""
    STRANDED = "stranded"
    """Healthy, but in a cube that is in part used, broken or degraded: of use to sub-slices at most."""
    SPARE = "spare"
    """Free and healthy, kept for swaps."""
    BROKEN = "broken"
    """On hosts that are missing or that somebody blames."""
    DRAINED = "drained"
    """Cordoned, or held by somebody, or kept by an open operation."""
    MAINTENANCE = "maintenance"
    """On a cube with host maintenance going on."""
    UNPROVISIONED = "unprovisioned"
    """Reserved, without a node pool."""


WINDOW_S = 3600.0
"""Disruptions are budgeted by the hour."""


class Gauges(NamedTuple):
    """Counts of one snapshot; every word of each list is there, also with 0."""

    cubes: Mapping[states.Verdict, int]
    slices: Mapping[states.SliceState, int]
    chips: Mapping[ChipClass, int]


def count(
    snapshot: fleet.Fleet, policy: health.HealthPolicy, blocks: Iterable[declared.BlockSpec] = ()
) -> Gauges:
    """Count a snapshot that holds nodes, slices and claims; `blocks` tell how many spares to keep."""
    cubes = views.cubes(snapshot, policy)
    verdicts = collections.Counter(view.verdict for view in cubes)
    found = collections.Counter(item.state for item in snapshot.slices)
    return Gauges(
        cubes={verdict: verdicts[verdict] for verdict in states.Verdict},
        slices={state: found[state] for state in states.SliceState},
        chips=_chips(snapshot, cubes, {block.name: block.spares for block in blocks}),
    )


def budget_left(budgets: declared.Budgets, memory: reconciling.Memory, now: datetime.datetime) -> int:
    """Chips of running slices that may still be interrupted within this hour; never below 0."""
    recent = (item for item in memory.disruptions if (now - item.at).total_seconds() < WINDOW_S)
    return max(budgets.disrupted_chips_per_hour - sum(item.chips for item in recent), 0)


def _chips(
    snapshot: fleet.Fleet, cubes: tuple[views.CubeView, ...], spares: Mapping[str, int]
) -> Mapping[ChipClass, int]:
    hosts = dict.fromkeys(ChipClass, 0)
    used = snapshot.derived(_hosts_in_slices)
    left = {view.block.id: spares.get(view.block.name, spares.get(view.block.id, 0)) for view in cubes}
    for view in cubes:
        in_use = used.get(view.cube.id, {})
        for chip_class, number in in_use.items():
            hosts[chip_class] += number
        rest = topology.HOSTS_PER_CUBE - sum(in_use.values())
        if rest <= 0:
            continue
        if view.is_free and left[view.block.id] > 0:
            left[view.block.id] -= 1
            hosts[ChipClass.SPARE] += rest
        else:
            for chip_class, number in _unused(view, rest):
                hosts[chip_class] += number
    return {chip_class: number * topology.CHIPS_PER_HOST for chip_class, number in hosts.items()}


def _hosts_in_slices(snapshot: fleet.Fleet) -> dict[str, dict[ChipClass, int]]:
    """Cube id -> hosts in slices, by class; a host that two slices name counts once, for the first."""
    seen: set[str] = set()
    found: dict[str, dict[ChipClass, int]] = {}
    for item in snapshot.slices:
        is_ready = item.state.is_ready and not item.deleting
        chip_class = ChipClass.PRODUCTIVE if is_ready else ChipClass.RESTART
        for host in snapshot.hosts_of(item):
            if host.name not in seen:
                seen.add(host.name)
                counts = found.setdefault(host.cube_id, {})
                counts[chip_class] = counts.get(chip_class, 0) + 1
    return found


def _unused(view: views.CubeView, rest: int) -> Iterable[tuple[ChipClass, int]]:
    """Classes of the `rest` hosts of a cube that no slice has."""
    cube = view.cube
    if not cube.has_nodes and cube.pool is None:
        return [(ChipClass.UNPROVISIONED, rest)]
    if any(host.maintenance_ongoing for host in cube.hosts):
        return [(ChipClass.MAINTENANCE, rest)]
    if view.is_free:
        return [(ChipClass.QUEUE_IDLE, rest)]
    broken = min(topology.HOSTS_PER_CUBE - max(view.judgement.usable_hosts, 0), rest)
    if view.verdict is states.Verdict.UNKNOWN:
        broken = rest  # nobody vouches for any of them
    sound = ChipClass.DRAINED if view.marks else ChipClass.STRANDED
    return [(ChipClass.BROKEN, broken), (sound, rest - broken)]
