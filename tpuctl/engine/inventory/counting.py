"""Counted reasons: how a block stands for a request, and why the rest of it is not to be had."""

from __future__ import annotations

import collections
import dataclasses
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.engine.inventory import obstacles

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclasses.dataclass(frozen=True, kw_only=True)
class Candidate:
    """A block, and how it stood in the choice."""

    block: str
    usable: int
    """Cubes (for a sub-slice: partitions of the shape) that could be taken."""
    total: int
    obstacles: tuple[tuple[obstacles.Obstacle, int], ...]
    """Counts for the rest, most frequent first."""
    holders: tuple[tuple[str, int], ...] = ()
    """Which slices hold how many of them."""
    claims: tuple[str, ...] = ()
    """Who else keeps some of them: holds and open operations."""


class Piece(NamedTuple):
    """Something that could be taken, and what stands in the way."""

    obstacle: obstacles.Obstacle | None
    holders: tuple[str, ...]
    claims: tuple[str, ...]


def candidate_of(block: str, pieces: Iterable[Piece]) -> Candidate:
    """Count pieces."""
    counts: collections.Counter[obstacles.Obstacle] = collections.Counter()
    holders: collections.Counter[str] = collections.Counter()
    claims: set[str] = set()
    usable = total = 0
    for obstacle, names, who in pieces:
        total += 1
        if obstacle is None:
            usable += 1
            continue
        counts[obstacle] += 1
        if obstacle is obstacles.Obstacle.IN_USE:
            holders.update(names)
        elif obstacle in obstacles.KEPT:
            claims.update(who)
    return Candidate(
        block=block,
        usable=usable,
        total=total,
        obstacles=tuple(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))),
        holders=tuple(sorted(holders.items(), key=lambda entry: (-entry[1], entry[0]))),
        claims=tuple(sorted(claims)),
    )
