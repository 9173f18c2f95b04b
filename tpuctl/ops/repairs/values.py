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
        """What is judged by; in OBSERVE nothing is ever written."""
        ...


def waits_for_a_person(item: repairs.Item) -> bool:
    """If true, nothing happens until somebody says yes: the policy does not allow it by itself."""
    return item.state is repairs.State.PROPOSED and item.approvals_needed > 0


MayAct = Callable[[repairs.Item], str]
"""Asked right before each item is carried out: why it may not be (a breaker, a spent budget), as people read
it; empty if nothing is against it. Pause and leadership need not be asked for here."""


class Executed(NamedTuple):
    """Something that was done to the world."""

    item: repairs.Item
    text: str
    """One sentence."""
    chips: int
    """Chips of running work that it interrupted, as the budget of disruption counts them."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Review:
    """What came of a review."""

    repairing: frozenset[str] = frozenset()
    """Cubes with a repair under way or cooling, or that may begin any moment: nothing else is to be done to
    them."""
    items: tuple[repairs.Item, ...] = ()
    """Open ones, as they are now; after a mere look, or in mode OBSERVE, they are not written down."""
    opened: tuple[repairs.Item, ...] = ()
    due: tuple[str, ...] = ()
    """After a mere look: ids of items that do not run yet and that a review would change, end or begin."""
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

    @property
    def to_approve(self) -> tuple[str, ...]:
        """Ids of items that somebody has to say yes to."""
        return tuple(item.id for item in self.items if waits_for_a_person(item))

    def in_repair(self, block: str) -> int:
        """Cubes of a block on which a repair runs; counted from the items, which are the truth."""
        running = [item.case for item in self.items if item.state is repairs.State.RUNNING]
        return len({case.cube for case in running if case.block == block})
