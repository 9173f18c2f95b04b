"""What the maximizer decides, with the time that it takes and whom it hits.

Times are those of the published case study of dynamic slicing, or settings where it gives no number; each
says which.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.engine.simulation import scenario

if TYPE_CHECKING:
    from tpuctl.model import topology

OPERATION_S = (600.0, 1800.0)
"""A node-pool operation: 10-30 min. Case study."""


class Duration(NamedTuple):
    """How long a change takes, in seconds."""

    typical_s: float
    shortest_s: float
    longest_s: float | None
    """None: no end of the range is published."""
    source: str

    def plus(self, other: Duration) -> Duration:
        """Both, one after the other."""
        ends = (self.longest_s, other.longest_s)
        longest_s = None if None in ends else sum(end for end in ends if end is not None)
        sources = dict.fromkeys((self.source, other.source))
        return Duration(
            self.typical_s + other.typical_s,
            self.shortest_s + other.shortest_s,
            longest_s,
            "; ".join(source for source in sources if source),
        )


NO_TIME = Duration(0.0, 0.0, 0.0, "")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """What the case study leaves open."""

    times: scenario.Times = dataclasses.field(default_factory=scenario.Times)
    """Typical durations; those of pools lie in the published ranges. The same as in `capacity simulate`."""
    halves: bool = True
    """If true, it works down below the last size that the declared state names: half the cubes, and again."""

    @property
    def operation(self) -> Duration:
        """One node-pool operation."""
        return Duration(
            float(self.times.pool_s), *OPERATION_S, "case study: 10-30 min for a node-pool operation"
        )

    @property
    def rebuild(self) -> Duration:
        """What making a pool again takes after its deletion: hours with it, of which no number is known."""
        shortest_s = OPERATION_S[0]
        rest_s = max(float(self.times.rebuild_s - self.times.pool_s), shortest_s)
        return Duration(
            rest_s, shortest_s, None, "case study: hours to tear down and make again; how many is a setting"
        )


class ChangeKind(enum.StrEnum):
    """What the loop does."""

    DELETE = "delete-pool"
    """An unhealthy pool goes, with all that is on it."""
    CREATE = "create-pool"
    """A pool of the full size is made from cubes that nobody uses."""
    MERGE = "merge"
    """Smaller pools are deleted and a larger one is made of their cubes."""
    WORK_DOWN = "work-down"
    """A pool of a smaller size is made, since the full size cannot be had."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Change:
    """One decision."""

    kind: ChangeKind
    target: str
    """The slice that the pool is for; for a deletion, the slice on the pool, or the node pool."""
    reason: str
    cubes: tuple[str, ...]
    """Ids of the cubes of the pool: of the one that goes, or of the one that is made."""
    block: str
    shape: topology.Topology | None = None
    """Of the pool that is made; None for a deletion."""
    merged: tuple[str, ...] = ()
    """Pools that go for it."""
    slices: tuple[str, ...] = ()
    """Slices with running work that it takes down."""
    pods: int = 0
    """Pods that end with it."""
    chips: int = 0
    """Chips of running work that it interrupts: the whole pool's."""
    idled_chips: int = 0
    """Chips on good hosts that nobody can use until the last host of their cube is back."""
    duration: Duration
    pool_operations: int
    """Deletions and creations, one for each pool."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Round:
    """One turn of the loop on one snapshot."""

    changes: tuple[Change, ...]
    """Deletions first, in the order in which the loop does them."""
    waiting: tuple[tuple[str, str], ...]
    """Wanted slices that get no pool, each with why."""
    uses: tuple[tuple[str, str], ...] = ()
    """Wanted slices for which an idle pool of the right shape is there, with the pool's name."""

    @property
    def sentence(self) -> str:
        """The turn in one sentence."""
        if not self.changes:
            return "the maximizer would change nothing"
        counts = [(kind, sum(change.kind is kind for change in self.changes)) for kind in ChangeKind]
        told = ", ".join(f"{count} {kind}" for kind, count in counts if count)
        chips = sum(change.chips for change in self.changes)
        return f"the maximizer would do {told}, and interrupt {chips:,} chips"
