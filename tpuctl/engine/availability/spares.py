"""How many spare cubes a slice needs for a confidence, and when spares pay.

Failure rate and outage length are separate inputs on purpose: published unavailability is dominated by the
days a machine waits for repair, not by how often it fails.
"""

from __future__ import annotations

import dataclasses

from tpuctl.engine.availability import binomial
from tpuctl.model import topology

_HOURS_PER_DAY = 24
_MOST_SPARES = 1000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outages:
    """How often a host fails and how long it is then away."""

    failures_per_host_day: float
    outage_h: float

    @property
    def host_unavailability(self) -> float:
        """p = r / (1 + r), with r = failures per day times days away."""
        ratio = self.failures_per_host_day * self.outage_h / _HOURS_PER_DAY
        return ratio / (1 + ratio)

    @property
    def cube_unavailability(self) -> float:
        """u = 1 - (1 - p) ** 16: one host away takes the cube out of slices of whole cubes."""
        return 1 - (1 - self.host_unavailability) ** topology.HOSTS_PER_CUBE

    @property
    def failures_per_cube_day(self) -> float:
        return topology.HOSTS_PER_CUBE * self.failures_per_host_day


def needed(cubes: int, cube_unavailability: float, confidence: float) -> int:
    """The least s with P(at least `cubes` of `cubes` + s healthy) >= confidence.

    Raises ValueError if the confidence is not inside (0, 1), no cube is ever healthy, or no sensible number
    reaches it.
    """
    if not 0 < confidence < 1 or not 0 <= cube_unavailability < 1:
        raise ValueError(f"no spares give confidence {confidence} at unavailability {cube_unavailability}")
    healthy = 1 - cube_unavailability
    for spares in range(_MOST_SPARES + 1):
        if binomial.at_least(cubes + spares, healthy, cubes) >= confidence:
            return spares
    raise ValueError(f"{_MOST_SPARES} spares do not give confidence {confidence} to {cubes} cubes")


def in_use_mean(cubes: int, outages: Outages) -> float:
    """Spares in use on average (Little): failures per day times days away."""
    return cubes * outages.failures_per_cube_day * outages.outage_h / _HOURS_PER_DAY


def stock(cubes: int, outages: Outages, confidence: float) -> int:
    """Spares to keep so that with `confidence` no more are in use: a Poisson quantile of `in_use_mean`."""
    return binomial.poisson_quantile(in_use_mean(cubes, outages), confidence)


def break_even(cubes: int, outages: Outages, recovery_h: float) -> float:
    """Spares pay while fewer than this: 16 k^2 rate (outage - recovery) / 24.

    Without a spare the whole slice stands still for the outage, with one only for the recovery; an idle
    spare costs its chips around the clock.
    """
    saved_h = max(outages.outage_h - recovery_h, 0.0)
    return cubes * cubes * outages.failures_per_cube_day * saved_h / _HOURS_PER_DAY


@dataclasses.dataclass(frozen=True, kw_only=True)
class Advice:
    """Spares for one slice size."""

    cubes: int
    needed: int
    """For the confidence asked for."""
    pay_below: float
    """Break-even: this many or more cost more than they save."""

    @property
    def pays(self) -> bool:
        return self.needed < self.pay_below


def advise(
    sizes: tuple[int, ...], outages: Outages, confidence: float, recovery_h: float
) -> tuple[Advice, ...]:
    """One line for each slice size, in the order given."""
    return tuple(
        Advice(
            cubes=size,
            needed=needed(size, outages.cube_unavailability, confidence),
            pay_below=break_even(size, outages, recovery_h),
        )
        for size in sizes
    )
