"""Whom to end so that a more urgent request fits; nobody, if that would not help."""

from __future__ import annotations

import dataclasses
import datetime
from typing import TYPE_CHECKING

from tpuctl.engine import changes, placement, vacating
from tpuctl.engine.inventory import recent

if TYPE_CHECKING:
    from tpuctl.engine import tenancy
    from tpuctl.model import fleet


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """How much may be disturbed."""

    chips: int | None = None
    """Most chips to take away at once; None for no limit."""
    patience_s: float = 0.0
    """A slice that ends within this time is waited for instead."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Eviction:
    """Slices to end, and where the request goes then."""

    victims: tuple[str, ...]
    chips: int
    placement: placement.Placement


def choose(
    snapshot: fleet.Fleet,
    request: placement.Request,
    tenants: tenancy.Tenants,
    priority: int,
    limits: Limits | None = None,
) -> Eviction | None:
    """The fewest chips, then the fewest slices, whose end makes the request fit; None if no set does.

    Placement is run again without the victims before anybody is named.
    """
    limits = limits or Limits()
    now = snapshot.observed_at
    soon = now + datetime.timedelta(seconds=limits.patience_s)

    def may_go(name: str) -> bool:
        item = snapshot.slices_by_name[name]
        end = tenants.of(item).ends_at
        ends_soon = limits.patience_s > 0 and end is not None and end <= soon
        return not ends_soon and tenants.may_be_evicted(item, priority, now)

    for found in vacating.vacancies(
        recent.of(snapshot, request.terms), request, chips_of_slices(snapshot), may_go
    ):
        if limits.chips is not None and found.chips > limits.chips:
            return None
        after = placement.place(changes.without_slices(snapshot, found.slices), request)
        if isinstance(after, placement.Placement):
            return Eviction(victims=found.slices, chips=found.chips, placement=after)
    return None


def chips_of_slices(snapshot: fleet.Fleet) -> dict[str, int]:
    """Slice -> its chips; one whose shape is not legal counts as the cubes that it names."""
    return {
        item.name: item.topology.chips if item.topology is not None else 64 * len(item.partition_ids)
        for item in snapshot.slices
    }
