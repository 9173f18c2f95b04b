"""The chance that a slice of c cubes can be scheduled, and the number of cubes one can count on.

Figure 1 of the TPU v4 resiliency paper (NSDI 2024) fits two parameters: the share of time a machine is not
available, and the share an optical switch is not. A machine outage takes its cube away; a switch outage
stops every slice that has no fault-tolerant routes. The published curve was read off by eye by a third
party (+-2 points), so agreement is evidence, not proof.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.engine.availability import binomial, goodput

if TYPE_CHECKING:
    import random

MACHINE_UNAVAILABILITY = 0.00782
"""Fitted to the published curve."""
SWITCH_AVAILABILITY = 0.99871
"""For one optical switch; fitted to the published curve without fault-tolerant routes."""
SWITCHES = 48
_PRECISION = 1e-6


def fabric_availability(switch_availability: float, switches: int) -> float:
    """All of `switches` work: A ** n, for slices that need every one of them."""
    return switch_availability**switches


def probability(
    cubes: int,
    *,
    pod_cubes: int = 64,
    machine_unavailability: float = MACHINE_UNAVAILABILITY,
    fabric: float = 1.0,
) -> float:
    """P(at least `cubes` healthy cubes) times the availability of the fabric.

    `fabric` is 1 with fault-tolerant routes.
    """
    cube = goodput.cube_availability(1 - machine_unavailability)
    return fabric * binomial.at_least(pod_cubes, cube, cubes)


def sampled(
    rng: random.Random,
    sizes: tuple[int, ...],
    trials: int,
    *,
    pod_cubes: int = 64,
    machine_unavailability: float = MACHINE_UNAVAILABILITY,
    switch_availability: float = 1.0,
    switches: int = SWITCHES,
) -> dict[int, float]:
    """Monte Carlo twin of `probability`: every machine and every switch is drawn."""
    cube = goodput.cube_availability(1 - machine_unavailability)
    fits = dict.fromkeys(sizes, 0)
    for _ in range(trials):
        if any(rng.random() >= switch_availability for _ in range(switches)):
            continue
        healthy = sum(rng.random() < cube for _ in range(pod_cubes))
        for size in sizes:
            fits[size] += healthy >= size
    return {size: count / trials for size, count in fits.items()}


def guaranteed_cubes(pod_cubes: int, cube_availability: float, confidence: float) -> int:
    """The largest c with P(at least c healthy) >= confidence: the published promise is 130 of 144 at 95 %."""
    return max(
        count
        for count in range(pod_cubes + 1)
        if binomial.at_least(pod_cubes, cube_availability, count) >= confidence
    )


def needed_cube_availability(pod_cubes: int, cubes: int, confidence: float) -> float:
    """The least cube availability with P(at least `cubes` of `pod_cubes`) >= confidence, to six digits."""
    low, high = 0.0, 1.0
    while high - low > _PRECISION:
        middle = (low + high) / 2
        if binomial.at_least(pod_cubes, middle, cubes) >= confidence:
            high = middle
        else:
            low = middle
    return high
