"""Goodput against slice size and host availability: Figure 4 of the TPU v4 paper (ISCA 2023).

A cube is available if its 16 hosts are: a = h ** 16. The whole pod is filled with slices of k cubes.
With optical switches any k healthy cubes make a slice, so of H healthy cubes floor(H / k) * k work; without
them, a slice has its fixed k cubes and works only if all are healthy.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.engine.availability import binomial
from tpuctl.model import topology

if TYPE_CHECKING:
    import random


class Goodput(NamedTuple):
    """Shares of the pod that do useful work."""

    switched: float
    static: float


def cube_availability(host_availability: float) -> float:
    return math.pow(host_availability, topology.HOSTS_PER_CUBE)


def host_availability(cube: float) -> float:
    """The inverse of `cube_availability`."""
    return math.pow(cube, 1 / topology.HOSTS_PER_CUBE)


def switched(pod_cubes: int, slice_cubes: int, host: float) -> float:
    """With optical switches: E[floor(H / k)] * k / N."""
    healthy = binomial.pmf(pod_cubes, cube_availability(host))
    expected = math.fsum(p * (count // slice_cubes) for count, p in enumerate(healthy))
    return expected * slice_cubes / pod_cubes


def static(pod_cubes: int, slice_cubes: int, host: float) -> float:
    """Without: the chance that all k cubes of a fixed place are healthy, for as many places as there are.

    The published curve has sizes that divide the pod.
    """
    if slice_cubes > pod_cubes:
        return 0.0
    return cube_availability(host) ** slice_cubes


def closed_form(pod_cubes: int, slice_cubes: int, host: float) -> Goodput:
    return Goodput(switched(pod_cubes, slice_cubes, host), static(pod_cubes, slice_cubes, host))


def sampled(
    rng: random.Random, pod_cubes: int, sizes: tuple[int, ...], host: float, trials: int
) -> dict[int, Goodput]:
    """Monte Carlo twin of `closed_form`: pods with cubes failed at random, for each slice size."""
    healthy_chance = cube_availability(host)
    slices = dict.fromkeys(sizes, 0)
    whole = dict.fromkeys(sizes, 0)
    places = {size: [((1 << size) - 1) << start for start in _starts(pod_cubes, size)] for size in sizes}
    for _ in range(trials):
        healthy = sum(1 << cube for cube in range(pod_cubes) if rng.random() < healthy_chance)
        count = healthy.bit_count()
        for size in sizes:
            slices[size] += count // size
            whole[size] += sum(healthy & place == place for place in places[size])
    return {
        size: Goodput(
            slices[size] * size / pod_cubes / trials, whole[size] / max(len(places[size]), 1) / trials
        )
        for size in sizes
    }


def least_waste(pod_cubes: int, sizes: tuple[int, ...], host: float) -> tuple[tuple[int, float], ...]:
    """Slice sizes by expected goodput, best first.

    It is not monotone in the size: a size may just miss the number of healthy cubes.
    """
    rated = [(size, switched(pod_cubes, size, host)) for size in sizes]
    return tuple(sorted(rated, key=lambda entry: (-entry[1], entry[0])))


def _starts(pod_cubes: int, size: int) -> range:
    return range(0, pod_cubes - size + 1, size)
