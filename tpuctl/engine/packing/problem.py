"""Packing as numbers: which slices of so many cubes go into which block.

Inside a block only numbers count, so blocks are capacities and slices are sizes. Slices of one size that
nothing ties together are interchangeable and form a group, which is what keeps the exact method small.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Group(NamedTuple):
    """Interchangeable slices."""

    size: int
    """Cubes of one slice."""
    hosts: int
    """What one of them is worth."""
    demand: int
    tolerant: bool = False
    """If true, degraded cubes serve too."""
    block: int | None = None
    """The only block it may use."""


class Option(NamedTuple):
    """One way to serve a bundle."""

    sizes: tuple[int, ...]
    """Cubes of each of its slices."""
    hosts: int
    same_block: bool = False


class Bundle(NamedTuple):
    """Slices that are placed all together in one of several ways, or not at all."""

    options: tuple[Option, ...]
    tolerant: bool = False
    block: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Problem:
    """Fill blocks with groups and bundles so that the most hosts are used."""

    healthy: tuple[int, ...]
    """Cubes of each block that everybody may use."""
    degraded: tuple[int, ...]
    """Cubes of each block that only the tolerant may use."""
    groups: tuple[Group, ...]
    bundles: tuple[Bundle, ...] = ()

    @property
    def demand_hosts(self) -> int:
        loose = sum(group.hosts * group.demand for group in self.groups)
        return loose + sum(max(option.hosts for option in bundle.options) for bundle in self.bundles)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Solution:
    """Who goes where."""

    loose: Mapping[tuple[int, int], int]
    """(group, block) -> slices of that group in that block."""
    bundles: Mapping[int, tuple[int, tuple[int, ...]]]
    """Bundle -> the option and the block of each of its sizes."""
    hosts: int
    bound_hosts: int
    """No packing uses more."""
    method: str
    """`exact` or `heuristic`."""

    @property
    def is_optimal(self) -> bool:
        return self.hosts >= self.bound_hosts

    @property
    def gap(self) -> float:
        """How far below the bound it may be, as a share of the bound."""
        return 0.0 if self.is_optimal else 1 - self.hosts / self.bound_hosts


def value(problem: Problem, loose: Mapping[tuple[int, int], int], bundles: Mapping[int, int]) -> int:
    """Hosts that a choice of slices (and of an option for each bundle) uses."""
    return sum(problem.groups[group].hosts * count for (group, _), count in loose.items()) + sum(
        problem.bundles[bundle].options[option].hosts for bundle, option in bundles.items()
    )
