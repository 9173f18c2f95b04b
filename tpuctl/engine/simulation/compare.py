"""The same jobs and the same failures under several methods."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING

from tpuctl.engine import mix
from tpuctl.engine.simulation import grid, report, run, scenario
from tpuctl.model import topology

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Sequence


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """Outcomes side by side; the first is what the others are measured against."""

    outcomes: tuple[report.Outcome, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return (
            "method",
            "order",
            "utilisation",
            "goodput",
            "first / this",
            "swaps",
            "requeues",
            "blast mean",
            "p99 wait",
        )

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        return tuple(self._row(outcome) for outcome in self.outcomes)

    def utilisation_ratio(self, index: int) -> float:
        """Utilisation of the first outcome over that of another one."""
        return self.outcomes[0].utilisation / self.outcomes[index].utilisation

    def _row(self, outcome: report.Outcome) -> tuple[str, ...]:
        worst_s = max((waits.p99_s for waits in outcome.waits), default=0)
        ratio = self.outcomes[0].utilisation / outcome.utilisation if outcome.utilisation else 0.0
        return (
            str(outcome.settings.method),
            str(outcome.settings.order),
            f"{100 * outcome.utilisation:.1f} %",
            f"{100 * outcome.goodput:.1f} %",
            f"{ratio:.2f}",
            str(outcome.swaps),
            str(outcome.requeues),
            f"{outcome.blast_mean_hosts:.0f} hosts",
            f"{worst_s / 3600:.1f} h",
        )


def compare(
    settings: scenario.Scenario,
    ways: Sequence[tuple[scenario.Method, scenario.Order]],
    jobs: Iterable[mix.Job],
    faults: Iterable[scenario.Fault] = (),
) -> Comparison:
    """Run each way over the same streams, which are read up to the horizon and kept.

    Jobs that some of the methods could never hold are left out for all, or the comparison would be unfair.
    """
    common = [job for job in until(jobs, settings.horizon_s) if _fits_all(settings, ways, job.topology)]
    same_faults = list(itertools.takewhile(lambda fault: fault.at_s < settings.horizon_s, faults))
    outcomes = []
    for method, order in ways:
        spares = settings.spares if method is scenario.Method.ANY_CUBE else 0
        one = dataclasses.replace(settings, method=method, order=order, spares=spares)
        outcomes.append(run.run(one, common, same_faults))
    return Comparison(outcomes=tuple(outcomes))


def until(jobs: Iterable[mix.Job], horizon_s: int) -> list[mix.Job]:
    """The jobs that arrive before the horizon."""
    return list(itertools.takewhile(lambda job: job.arrival_s < horizon_s, jobs))


def common_shapes(cubes: int) -> tuple[tuple[topology.Topology, int], ...]:
    """The part of the mix that a fixed torus of so many cubes can hold: for a fair load against it."""
    sides = grid.grid_sides(cubes)
    return tuple(
        (shape, weight) for shape, weight in mix.on_tpu7x() if shape.is_sub_slice or grid.boxes(shape, sides)
    )


def workload(cubes: int, load: float, *, only_common: bool = False) -> mix.Workload:
    """The Table-2 mix for a block, leaving out slices larger than the block."""
    shapes = common_shapes(cubes) if only_common else mix.on_tpu7x()
    fitting = tuple((shape, weight) for shape, weight in shapes if shape.cubes <= cubes)
    return mix.Workload(capacity_chips=cubes * topology.CHIPS_PER_CUBE, load=load, shapes=fitting)


def published_ways() -> tuple[tuple[scenario.Method, scenario.Order], ...]:
    """Dynamic slicing, and what it replaced."""
    return (
        (scenario.Method.ANY_CUBE, scenario.Order.EASY),
        (scenario.Method.CONTIGUOUS, scenario.Order.EASY),
        (scenario.Method.STATIC_POOLS, scenario.Order.EASY),
        (scenario.Method.MAXIMIZER, scenario.Order.GREEDY),
    )


def draw(
    rng: random.Random, settings: scenario.Scenario, load: mix.Workload, *, repair_s: float
) -> tuple[list[mix.Job], list[scenario.Fault]]:
    """Jobs and, if hosts fail at all, faults up to the horizon, from one generator."""
    jobs = until(mix.jobs(rng, load), settings.horizon_s)
    if settings.host_mtbf_s is None:
        return jobs, []
    stream = scenario.faults(rng, settings.cubes, settings.host_mtbf_s, repair_s)
    return jobs, list(itertools.takewhile(lambda fault: fault.at_s < settings.horizon_s, stream))


def _fits_all(
    settings: scenario.Scenario,
    ways: Sequence[tuple[scenario.Method, scenario.Order]],
    shape: topology.Topology,
) -> bool:
    if not shape.is_sub_slice and any(method is scenario.Method.CONTIGUOUS for method, _ in ways):
        return bool(grid.boxes(shape, grid.grid_sides(settings.cubes)))
    return shape.cubes <= settings.cubes
