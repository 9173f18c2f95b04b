"""Published figures, and runs of one simulated block, for the command line."""

from __future__ import annotations

import dataclasses
import random

from tpuctl.engine import figures
from tpuctl.engine.simulation import compare, scenario
from tpuctl.model import errors, topology

FIGURES = figures.NAMES
Figure = figures.Figure
Comparison = compare.Comparison
_DAY_S = 86400


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """A run of one block, as the user wrote it: blocks do not share slices, so a fleet is many such runs."""

    days: float
    host_mtbf_s: float | None
    """None if nothing fails."""
    repair_s: float
    load: float
    cubes: int = topology.MAX_CUBES
    spares: int = 0
    seed: int = 1


def figure(name: str, pod_cubes: int) -> figures.Figure:
    """A published figure beside our own values; raises UsageError if there is none of that name or size."""
    try:
        return figures.figure(name, pod_cubes)
    except figures.UnknownFigureError as error:
        raise errors.UsageError(str(error)) from error


def simulate(wanted: Run) -> compare.Comparison:
    """The same jobs and failures under dynamic slicing and what it replaced; UsageError for bad settings."""
    try:
        settings = scenario.Scenario(
            horizon_s=round(wanted.days * _DAY_S),
            cubes=wanted.cubes,
            host_mtbf_s=wanted.host_mtbf_s,
            spares=wanted.spares,
        )
    except ValueError as error:
        raise errors.UsageError(str(error)) from error
    load = compare.workload(wanted.cubes, wanted.load, only_common=True)
    jobs, faults = compare.draw(
        random.Random(wanted.seed),  # noqa: S311 - a simulation, not a secret
        settings,
        load,
        repair_s=wanted.repair_s,
    )
    return compare.compare(settings, compare.published_ways(), jobs, faults)
