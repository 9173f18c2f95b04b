"""Make room for one request by moving slices, if that costs less than it brings.

A move is a slice made again elsewhere: its job restarts. Cost is the chip-hours that the moved slices lose,
gain the chip-hours that the request wins by not having to wait.
"""

from __future__ import annotations

import dataclasses
import datetime
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.engine import backfill, changes, placement, preemption, vacating
from tpuctl.engine.inventory import stock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tpuctl.engine import tenancy
    from tpuctl.model import fleet, topology

_HOUR = datetime.timedelta(hours=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Costs:
    """What things take; inputs, not facts."""

    move_h: float = 0.5
    """Hours that a moved slice loses: forming, restart, and half the time between two checkpoints."""
    unknown_wait_h: float = 24.0
    """How long the request would wait if no end is known that makes room."""


DEFAULT_COSTS = Costs()


class Move(NamedTuple):
    """A slice that is made again on other partitions."""

    slice_name: str
    topology: topology.Topology
    from_block: str
    to_block: str
    old_partitions: tuple[str, ...]
    new_partitions: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """Moves that make the request fit, with what they cost and bring."""

    request: placement.Request
    moves: tuple[Move, ...]
    placement: placement.Placement
    """Where the request goes afterwards."""
    cost_chip_h: float
    gain_chip_h: float
    wait_h: float
    """How long it would wait without."""
    wait_is_known: bool

    @property
    def pays(self) -> bool:
        return self.gain_chip_h >= self.cost_chip_h


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hopeless:
    """No moves make it fit."""

    refusal: placement.Refusal


def plan(
    snapshot: fleet.Fleet,
    request: placement.Request,
    tenants: tenancy.Tenants,
    costs: Costs = DEFAULT_COSTS,
) -> Plan | placement.Placement | Hopeless:
    """The moves of the fewest chip-hours; the placement itself if it fits without."""
    now = placement.place(snapshot, request)
    if isinstance(now, placement.Placement):
        return now
    index = stock.Stock(snapshot, request.terms)
    chips_of = preemption.chips_of_slices(snapshot)
    movable = {item.name for item in snapshot.slices if tenants.may_be_moved(item, snapshot.observed_at)}
    tried: set[tuple[str, tuple[str, ...]]] = set()
    for names in (movable, *_easier(snapshot, movable)):
        for found in vacating.vacancies(index, request, chips_of, names.__contains__):
            if (found.block, found.slices) in tried:
                continue
            tried.add((found.block, found.slices))
            made = _carried_out(snapshot, request, found, tenants)
            if made is not None:
                return _weighed(snapshot, request, tenants, costs, *made)
    return Hopeless(refusal=now)


def _easier(snapshot: fleet.Fleet, movable: set[str]) -> Sequence[set[str]]:
    """Smaller slices only, for when the cheapest set finds no other place: half as large each time."""
    chips = {
        item.name: item.topology.chips
        for item in snapshot.slices
        if item.name in movable and item.topology is not None
    }
    limits = sorted(set(chips.values()), reverse=True)
    return [{name for name, size in chips.items() if size < limit} for limit in limits]


def _carried_out(
    snapshot: fleet.Fleet,
    request: placement.Request,
    found: vacating.Vacancy,
    tenants: tenancy.Tenants,
) -> tuple[tuple[Move, ...], placement.Placement] | None:
    """Place the request in the room that is made and the moved slices elsewhere, the largest first.

    Elsewhere is what is free before any move, so the moves can be made in any order.
    """
    emptied = changes.without_slices(snapshot, found.slices)
    target = placement.place(emptied, dataclasses.replace(request, block=found.block))
    if isinstance(target, placement.Refusal):
        return None
    taken = _standing_in(snapshot, target)
    world = dataclasses.replace(snapshot, slices=(*snapshot.slices, taken))
    moves = []
    items = [snapshot.slices_by_name[name] for name in found.slices]
    for item in sorted(items, key=lambda item: (-_chips(item), item.name)):
        if item.topology is None:
            return None
        wish = placement.Request(
            topology=item.topology, policy=request.policy, allow_degraded=tenants.of(item).allow_degraded
        )
        place = placement.place(world, wish)
        if isinstance(place, placement.Refusal):
            return None
        old_block = snapshot.cubes_of(item)[0].block
        moves.append(
            Move(item.name, item.topology, old_block, place.block, item.partition_ids, place.partition_ids)
        )
        again = item._replace(name=f"{item.name}\0moved", partition_ids=place.partition_ids)
        world = dataclasses.replace(world, slices=(*world.slices, again))
    return tuple(moves), target


def _standing_in(snapshot: fleet.Fleet, found: placement.Placement) -> fleet.Slice:
    """The request as if it ran, so that nobody is moved into its place."""
    example = snapshot.slices[0]
    return example._replace(
        name="\0request", uid="", topology=found.topology, partition_ids=found.partition_ids, deleting=False
    )


def _weighed(
    snapshot: fleet.Fleet,
    request: placement.Request,
    tenants: tenancy.Tenants,
    costs: Costs,
    moves: tuple[Move, ...],
    target: placement.Placement,
) -> Plan:
    soon = backfill.shadow(snapshot, request, tenants)
    wait_h = costs.unknown_wait_h if soon is None else (soon.at - snapshot.observed_at) / _HOUR
    return Plan(
        request=request,
        moves=moves,
        placement=target,
        cost_chip_h=sum(move.topology.chips for move in moves) * costs.move_h,
        gain_chip_h=request.topology.chips * wait_h,
        wait_h=wait_h,
        wait_is_known=soon is not None,
    )


def _chips(item: fleet.Slice) -> int:
    return 0 if item.topology is None else item.topology.chips
