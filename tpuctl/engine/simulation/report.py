"""What came out of a run, in numbers and in rows ready to print."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.model import topology

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tpuctl.engine.simulation import ledger, scenario

BANDS = (
    ("below a cube", 1, 63),
    ("64 chips", 64, 64),
    ("128-192 chips", 128, 192),
    ("256-384 chips", 256, 384),
    ("512-768 chips", 512, 768),
    ("1024-1536 chips", 1024, 1536),
    ("2048-3072 chips", 2048, 3072),
    ("larger", 3073, topology.MAX_CUBES * topology.CHIPS_PER_CUBE),
)
"""The size bands of the published table."""
_HOUR_S = 3600


class Waits(NamedTuple):
    """Waits of the jobs of one size band."""

    band: str
    jobs: int
    unstarted: int
    """Of these still waiting at the end: they count with their wait so far, so the truth is no shorter."""
    p50_s: int
    p99_s: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """A finished run."""

    settings: scenario.Scenario
    balance: ledger.Balance
    utilisation: float
    """Share of the chip-time that jobs held."""
    events: int
    arrived: int
    finished: int
    refused: int
    """Jobs that even an empty block could not hold with this method."""
    waits: tuple[Waits, ...]
    """Bands without a job are left out."""
    failures: int
    """Host failures that hit a healthy host."""
    interruptions: int
    swaps: int
    requeues: int
    """Interrupted jobs that lost their cubes."""
    blast_mean_hosts: float
    """Hosts taken out of service by one failure, on average."""
    blast_max_hosts: int
    interrupted_mean_hosts: float
    """Hosts of the jobs that were interrupted: a swap interrupts all of a slice for minutes."""

    @property
    def goodput(self) -> float:
        return self.balance.goodput

    @property
    def columns(self) -> tuple[str, ...]:
        return ("measure", "value")

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """The summary."""
        return (
            ("method", str(self.settings.method)),
            ("order", str(self.settings.order)),
            ("utilisation", _percent(self.utilisation)),
            ("goodput", _percent(self.goodput)),
            ("jobs arrived / finished / refused", f"{self.arrived} / {self.finished} / {self.refused}"),
            ("host failures", str(self.failures)),
            ("interruptions / swaps / requeues", f"{self.interruptions} / {self.swaps} / {self.requeues}"),
            ("blast radius, mean / largest", f"{self.blast_mean_hosts:.1f} / {self.blast_max_hosts} hosts"),
            ("hosts of interrupted jobs, mean", f"{self.interrupted_mean_hosts:.1f}"),
        )

    @property
    def wait_columns(self) -> tuple[str, ...]:
        return ("slice", "jobs", "p50 wait", "p99 wait", "still waiting")

    @property
    def wait_rows(self) -> tuple[tuple[str, ...], ...]:
        """Waits by size; `>=` where jobs that still wait are in the number."""
        return tuple(_wait_row(waits) for waits in self.waits)

    @property
    def ledger_columns(self) -> tuple[str, ...]:
        return ("class", "chip-hours", "share")

    @property
    def ledger_rows(self) -> tuple[tuple[str, ...], ...]:
        """Every chip-second, by class, and the total."""
        total_s = self.balance.total_chip_s
        counted = [*self.balance.chip_s.items(), ("total", total_s)]
        return tuple(
            (name.replace("_", " "), f"{chip_s / _HOUR_S:,.1f}", _percent(chip_s / total_s))
            for name, chip_s in counted
        )


@dataclasses.dataclass(kw_only=True)
class Tally:
    """Counts while a run goes on."""

    arrived: int = 0
    finished: int = 0
    refused: int = 0
    swaps: int = 0
    requeues: int = 0
    held_host_s: int = 0
    blast: list[int] = dataclasses.field(default_factory=list)
    interrupted_hosts: list[int] = dataclasses.field(default_factory=list)
    waits_s: dict[topology.Topology, list[int]] = dataclasses.field(default_factory=dict)

    def wait(self, shape: topology.Topology, wait_s: int) -> None:
        known = self.waits_s.get(shape)
        if known is None:
            self.waits_s[shape] = [wait_s]
        else:
            known.append(wait_s)

    def outcome(
        self,
        settings: scenario.Scenario,
        balance: ledger.Balance,
        events: int,
        unstarted: Sequence[tuple[topology.Topology, int]],
    ) -> Outcome:
        """Close the counts."""
        return Outcome(
            settings=settings,
            balance=balance,
            utilisation=self.held_host_s / (settings.hosts * settings.horizon_s),
            events=events,
            arrived=self.arrived,
            finished=self.finished,
            refused=self.refused,
            waits=self._bands(unstarted),
            failures=len(self.blast),
            interruptions=len(self.interrupted_hosts),
            swaps=self.swaps,
            requeues=self.requeues,
            blast_mean_hosts=_mean(self.blast),
            blast_max_hosts=max(self.blast, default=0),
            interrupted_mean_hosts=_mean(self.interrupted_hosts),
        )

    def _bands(self, unstarted: Sequence[tuple[topology.Topology, int]]) -> tuple[Waits, ...]:
        found = []
        for label, low, high in BANDS:
            in_band = [all_s for shape, all_s in self.waits_s.items() if low <= shape.chips <= high]
            started = [wait_s for all_s in in_band for wait_s in all_s]
            still = [wait_s for shape, wait_s in unstarted if low <= shape.chips <= high]
            waits_s = sorted(started + still)
            if waits_s:
                p50_s, p99_s = percentile(waits_s, 0.5), percentile(waits_s, 0.99)
                found.append(Waits(label, len(waits_s), len(still), p50_s, p99_s))
        return tuple(found)


def percentile(ordered: Sequence[int], share: float) -> int:
    """The smallest value that at least `share` of the values do not exceed (nearest rank)."""
    return ordered[max(math.ceil(share * len(ordered)), 1) - 1]


def _mean(numbers: Sequence[int]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0.0


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def _wait_row(waits: Waits) -> tuple[str, ...]:
    mark = ">= " if waits.unstarted else ""
    return (
        waits.band,
        str(waits.jobs),
        f"{mark}{waits.p50_s / _HOUR_S:.2f} h",
        f"{mark}{waits.p99_s / _HOUR_S:.2f} h",
        str(waits.unstarted),
    )
