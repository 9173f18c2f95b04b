"""What share of the wanted chips should be ACTIVE, by the arithmetic of hot spares.

A host fails `failures_per_host_day` times a day and is away for `repair_s` on average, so it is away with
probability p = λR / (1 + λR), and a cube of 16 hosts is of no use with u = 1 - (1 - p)^16. Of `cubes` cubes
Bin(cubes, u) are away at a time; the rest serves the wanted slices in order of their urgency, each whole or
not at all. Besides, each failure under a slice takes it down for one recovery.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.model import topology

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tpuctl.model import declared

DAY_S = 86_400.0
RECOVERY_S = 300.0
"""From the failure of a host to an ACTIVE slice on other cubes: the upper end of the published 2-5 min."""


class Need(NamedTuple):
    """A wanted slice, as far as the model cares; a sub-slice needs a part of a cube."""

    chips: int
    priority: int

    @property
    def cubes(self) -> float:
        return self.chips / topology.CHIPS_PER_CUBE


@dataclasses.dataclass(frozen=True, kw_only=True)
class Model:
    """A block and how its hosts fail."""

    cubes: int
    """Cubes that wanted slices may use."""
    failures_per_host_day: float
    repair_s: float

    @property
    def unavailability(self) -> float:
        """Of a cube: the share of time in which one of its hosts is away."""
        load = self.failures_per_host_day * self.repair_s / DAY_S
        away = load / (1 + load)
        return 1 - (1 - away) ** topology.HOSTS_PER_CUBE

    def active_share(self, needs: Sequence[Need], *, maintained: int = 0) -> float:
        """Of the wanted chips, on average over time; `maintained` cubes are away besides."""
        cubes, total = self.cubes - maintained, sum(need.chips for need in needs)
        return (
            sum(
                _binomial(cubes, down, self.unavailability) * self._served(needs, cubes - down)
                for down in range(cubes + 1)
            )
            / total
        )

    def _served(self, needs: Sequence[Need], cubes: float) -> float:
        """Chips that are ACTIVE on so many cubes, less what recoveries cost."""
        served, left = 0.0, float(cubes)
        for need in sorted(needs, key=lambda need: (-need.priority, -need.chips)):
            if need.cubes <= left:
                left -= need.cubes
                served += need.chips * (1 - self._recovering(need))
        return served

    def _recovering(self, need: Need) -> float:
        """Share of time that a slice spends in recoveries."""
        failures_per_day = self.failures_per_host_day * topology.HOSTS_PER_CUBE * max(need.cubes, 1 / 16)
        return min(failures_per_day * RECOVERY_S / DAY_S, 1.0)


def spares_needed(cubes: int, unavailability: float, confidence: float) -> int:
    """The fewest spares with which a slice of so many cubes is whole at `confidence`."""
    spares = 0
    while _at_least(cubes + spares, cubes, 1 - unavailability) < confidence:
        spares += 1
    return spares


def needs_of(spec: declared.FleetSpec) -> list[Need]:
    """What a declared state wants, in the shapes that are wanted most."""
    return [Need(entry.shapes[0].chips, entry.priority) for entry in spec.slices for _ in entry.slice_names]


def _at_least(tries: int, hits: int, chance: float) -> float:
    return sum(_binomial(tries, found, chance) for found in range(hits, tries + 1))


def _binomial(tries: int, hits: int, chance: float) -> float:
    return math.comb(tries, hits) * chance**hits * (1 - chance) ** (tries - hits)
