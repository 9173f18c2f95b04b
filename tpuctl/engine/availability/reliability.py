"""Time between failures by slice size, and what checkpoints and restarts make of it.

Formulas: MTTF = 1 / (N r) and the expected effective training time ratio (ETTR) after "Revisiting
Reliability in Large-Scale Machine Learning Research Clusters" (HPCA 2025); checkpoint intervals after
Young and after Daly. Hours and seconds are named; rates are per day, as published.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from tpuctl.model import topology

if TYPE_CHECKING:
    import random

HOURS_PER_DAY = 24
SECONDS_PER_HOUR = 3600
SECONDS_PER_DAY = 86400
ELECTRICAL_CABLES_PER_CUBE = 80
"""144 links inside a cube less the 4 on the board of each of 16 trays: an assumption, not published."""
OPTICAL_FIBRES_PER_CUBE = 96


@dataclasses.dataclass(frozen=True, kw_only=True)
class DailyRates:
    """Failures per component and day; defaults as published for TPU v4 (NSDI 2024)."""

    machine: float = 8e-4
    cable: float = 5e-5
    switch: float = 4e-4
    switches: int = 48
    """Optical switches of the pod; a slice of several cubes uses all of them."""


def mtbf_hosts_h(cubes: int, rates: DailyRates | None = None) -> float:
    """Hours between failures of the hosts of a slice."""
    rates = rates or DailyRates()
    return HOURS_PER_DAY / (cubes * topology.HOSTS_PER_CUBE * rates.machine)


def mtbf_all_h(cubes: int, rates: DailyRates | None = None) -> float:
    """Hours between failures of hosts, cables and switches of a slice.

    The switches are counted from two cubes on: a single cube works without its wrap-around links.
    """
    rates = rates or DailyRates()
    machines = topology.HOSTS_PER_CUBE * rates.machine
    cables = (ELECTRICAL_CABLES_PER_CUBE + OPTICAL_FIBRES_PER_CUBE) * rates.cable
    switches = rates.switches * rates.switch if cubes > 1 else 0.0
    return HOURS_PER_DAY / (cubes * (machines + cables) + switches)


def mttf_h(nodes: int, failures_per_node_day: float) -> float:
    """Hours to the next failure of a job on `nodes`."""
    return HOURS_PER_DAY / (nodes * failures_per_node_day)


def young_s(write_s: float, mtbf_s: float) -> float:
    """Seconds between checkpoints after Young: the square root of 2 w M."""
    return math.sqrt(2 * write_s * mtbf_s)


def daly_s(write_s: float, mtbf_s: float) -> float:
    """Seconds between checkpoints after Daly, better than Young when writing is slow."""
    if write_s >= 2 * mtbf_s:
        return mtbf_s
    ratio = write_s / (2 * mtbf_s)
    return young_s(write_s, mtbf_s) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - write_s


@dataclasses.dataclass(frozen=True, kw_only=True)
class Checkpointing:
    """How a long job protects itself."""

    interval_s: float
    """Productive time between two checkpoints."""
    write_s: float
    """Time that one checkpoint blocks the job."""
    restart_s: float
    """From a failure to productive work: detect, evict, form, check, compile, restore."""


def ettr(checkpointing: Checkpointing, mtbf_s: float) -> float:
    """Expected effective training time ratio: (1 - (u0 + dt/2) / M) / (1 + w / dt), never below 0."""
    lost = (checkpointing.restart_s + checkpointing.interval_s / 2) / mtbf_s
    return max(1 - lost, 0.0) / (1 + checkpointing.write_s / checkpointing.interval_s)


def ettr_exponential(checkpointing: Checkpointing, mtbf_s: float) -> float:
    """The exact value for exponential failures, those during restart included."""
    cycle_s = checkpointing.interval_s + checkpointing.write_s
    wall_s = mtbf_s * math.exp(checkpointing.restart_s / mtbf_s) * math.expm1(cycle_s / mtbf_s)
    return checkpointing.interval_s / wall_s


def sampled_ettr(rng: random.Random, checkpointing: Checkpointing, mtbf_s: float, failures: int) -> float:
    """Monte Carlo twin: a job that runs for ever through `failures` failures."""
    cycle_s = checkpointing.interval_s + checkpointing.write_s
    wall_s = useful_s = 0.0
    for _ in range(failures):
        up_s = rng.expovariate(1 / mtbf_s)
        wall_s += up_s
        useful_s += max(up_s - checkpointing.restart_s, 0.0) // cycle_s * checkpointing.interval_s
    return useful_s / wall_s


def availability(mtbf_h: float, mttr_h: float) -> float:
    return mtbf_h / (mtbf_h + mttr_h)


def waste(checkpointing: Checkpointing, mtbf_s: float) -> float:
    """First-order share of time lost to checkpoints and failures: w / dt + (dt / 2 + u0) / M."""
    return (
        checkpointing.write_s / checkpointing.interval_s
        + (checkpointing.interval_s / 2 + checkpointing.restart_s) / mtbf_s
    )
