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


def broken_rules(problem: Problem, solution: Solution) -> tuple[str, ...]:
    """One sentence for each limit that a solution breaks; empty if it is a packing."""
    found = []
    strict = [0] * len(problem.healthy)
    every = [0] * len(problem.healthy)
    for (group_number, block), count in solution.loose.items():
        group = problem.groups[group_number]
        every[block] += group.size * count
        strict[block] += 0 if group.tolerant else group.size * count
        if group.block not in (None, block):
            found.append(f"group {group_number} is in block {block}")
    for number, group in enumerate(problem.groups):
        placed = sum(count for (other, _), count in solution.loose.items() if other == number)
        if placed > group.demand:
            found.append(f"{placed} of group {number}, wanted {group.demand}")
    for number, (chosen, blocks) in solution.bundles.items():
        bundle = problem.bundles[number]
        option = bundle.options[chosen]
        if len(blocks) != len(option.sizes) or (option.same_block and len(set(blocks)) > 1):
            found.append(f"bundle {number} is not where it should be")
        for size, block in zip(option.sizes, blocks, strict=False):
            every[block] += size
            strict[block] += 0 if bundle.tolerant else size
            if bundle.block not in (None, block):
                found.append(f"bundle {number} is in block {block}")
    for block, (healthy, degraded) in enumerate(zip(problem.healthy, problem.degraded, strict=True)):
        if strict[block] > healthy or every[block] > healthy + degraded:
            found.append(f"block {block} is overfull")
    return tuple(found)
