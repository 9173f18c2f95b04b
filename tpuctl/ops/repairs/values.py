"""What a review is given, and what it gives back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tpuctl.model import repairs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tpuctl.model import declared, fleet, health


class Hooks(Protocol):
    """Where events are told to the outside; never raises and never waits."""

    def run(self, event: declared.HookEvent, facts: Mapping[str, str]) -> None: ...


def nothing_against(_item: repairs.Item) -> str:
    """Nothing stops it."""
    return ""


class Situation(Protocol):
    """What the loop knows in this cycle."""

    @property
    def snapshot(self) -> fleet.Fleet:
        """From all sources, whole and new."""
        ...

    @property
    def spec(self) -> declared.FleetSpec: ...

    @property
    def policy(self) -> health.HealthPolicy: ...

    @property
    def mode(self) -> declared.Mode:
        """OBSERVE writes nothing at all: for a first look, or a loop that is paused."""
        ...


MayAct = Callable[[repairs.Item], str]
"""Asked right before each item is carried out: why it may not be (a breaker, a spent budget), as people read
it; empty if nothing is against it. Pause and leadership need not be asked for here."""


class Executed(NamedTuple):
    """Something that was done to the world."""

    item: repairs.Item
    text: str
    """One sentence."""
    chips: int
    """Chips of running work that it interrupted, for the budget of disruption."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Review:
    """What came of a review."""

    repairing: frozenset[str] = frozenset()
    """Cubes with a repair approved, under way or cooling: nothing else is to be done to them."""
    items: tuple[repairs.Item, ...] = ()
    """Open ones, as they are now; those of mode OBSERVE were not written down."""
    opened: tuple[repairs.Item, ...] = ()
    closed: tuple[repairs.Item, ...] = ()
    """Items that ended in this review."""
    executed: tuple[Executed, ...] = ()
    """If there is any, the snapshot is out of date: observe again before anything else is decided."""
    waiting: tuple[tuple[str, str], ...] = ()
    """Id of an item that was agreed to, and why it did not begin."""
    told: tuple[str, ...] = ()
    """Trouble that gets no remedy."""
    stuck: tuple[str, ...] = ()
    """What has been as it is for too long; belongs in every report."""

    def in_repair(self, block: str) -> int:
        """Cubes of a block on which a repair runs; counted from the items, which are the truth."""
        running = [item.case for item in self.items if item.state is repairs.State.RUNNING]
        return len({case.cube for case in running if case.block == block})
