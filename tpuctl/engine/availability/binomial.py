"""Exact binomial and Poisson tails for the small numbers of a block (at most some hundred cubes)."""

from __future__ import annotations

import functools
import math


@functools.lru_cache(maxsize=1024)
def pmf(trials: int, probability: float) -> tuple[float, ...]:
    """P(exactly i of `trials`) for each i.

    Through logarithms, since the binomial coefficients of a thousand trials exceed a float.
    """
    if probability in (0, 1):
        certain = trials if probability else 0
        return tuple(float(i == certain) for i in range(trials + 1))
    yes, no = math.log(probability), math.log1p(-probability)
    ways = [
        math.lgamma(trials + 1) - math.lgamma(i + 1) - math.lgamma(trials - i + 1) for i in range(trials + 1)
    ]
    return tuple(math.exp(way + i * yes + (trials - i) * no) for i, way in enumerate(ways))


def at_least(trials: int, probability: float, wanted: int) -> float:
    """P(at least `wanted` of `trials`)."""
    return min(math.fsum(pmf(trials, probability)[max(wanted, 0) :]), 1.0)


def poisson_quantile(mean: float, confidence: float) -> int:
    """The least n with P(Poisson(mean) <= n) >= confidence.

    Raises ValueError for a negative mean or a confidence outside (0, 1).
    """
    if mean < 0 or not 0 < confidence < 1:
        raise ValueError(f"no quantile {confidence} of a Poisson number with mean {mean}")
    n, term = 0, math.exp(-mean)
    total = term
    while total < confidence:
        n += 1
        term *= mean / n
        if term == 0.0:
            # A mean so large that exp(-mean) is zero, or rounding keeps the sum under a confidence near 1.
            raise ValueError(f"mean {mean} is too large, or confidence {confidence} too near 1")
        total += term
    return n
