"""Whose turn it is: the team that has the least for its weight, then who came first."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tpuctl.engine.packing import wishes


def turns(
    units: Iterable[wishes.Unit], weights: Mapping[str, float], has_chips: Mapping[str, int]
) -> tuple[wishes.Unit, ...]:
    """The units in the order in which they would be served if each fitted.

    A team that is not in `weights` weighs 1. `has_chips` is what a team holds already.
    """
    waiting: dict[str, list[wishes.Unit]] = {}
    for unit in units:
        waiting.setdefault(unit.first.team, []).append(unit)
    queue = []
    for team, members in waiting.items():
        members.sort(key=lambda unit: -unit.number)
        queue.append((has_chips.get(team, 0) / weights.get(team, 1.0), members[-1].number, team))
    heapq.heapify(queue)
    order = []
    while queue:
        share, _, team = heapq.heappop(queue)
        unit = waiting[team].pop()
        order.append(unit)
        if waiting[team]:
            share += unit.chips() / weights.get(team, 1.0)
            heapq.heappush(queue, (share, waiting[team][-1].number, team))
    return tuple(order)
