"""Make room for one request by moving slices, if that costs less than it brings.

A move is a slice made again elsewhere: its job restarts. Cost is the chip-hours that the moved slices lose,
gain the chip-hours that the request wins by not having to wait.
"""

from __future__ import annotations

import dataclasses
import datetime
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.engine import backfill, placement, preemption, vacating
from tpuctl.engine.inventory import stock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tpuctl.engine import tenancy
    from tpuctl.model import fleet, topology

_REQUEST, _MOVED = "\0request", "\0moved "
"""Holders that no slice is called, for what does not exist yet."""
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
            made = _carried_out(snapshot, index, request, found)
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
    snapshot: fleet.Fleet, index: stock.Stock, request: placement.Request, found: vacating.Vacancy
) -> tuple[tuple[Move, ...], placement.Placement] | None:
    """Place the request in the room that is made and the moved slices elsewhere, the largest first.

    Elsewhere is what is free before any move, so the moves can be made in any order. The index is as before
    in the end.
    """
    receipts = [(name, index.release(name)) for name in found.slices]
    target = placement.place_in(index, dataclasses.replace(request, block=found.block))
    if isinstance(target, placement.Placement):
        index.take_ids(_REQUEST, target.partition_ids)
    for name, receipt in reversed(receipts):
        index.restore(name, receipt)
    if isinstance(target, placement.Refusal):
        return None
    moves: list[Move] = []
    items = [snapshot.slices_by_name[name] for name in found.slices]
    for item in sorted(items, key=lambda item: (-_chips(item), item.name)):
        move = _moved(index, item, receipts)
        if move is None:
            break
        index.take_ids(f"{_MOVED}{item.name}", move.new_partitions)
        moves.append(move)
    index.release(_REQUEST)
    for move in moves:
        index.release(f"{_MOVED}{move.slice_name}")
    return (tuple(moves), target) if len(moves) == len(items) else None


def _moved(
    index: stock.Stock, item: fleet.Slice, receipts: Sequence[tuple[str, stock.Receipt]]
) -> Move | None:
    """Where a slice can be made again; None if nowhere."""
    if item.topology is None:
        return None
    place = placement.choose(index, placement.Request(topology=item.topology))
    if place is None:
        return None
    [first, *_] = dict(receipts)[item.name]
    old_block = index.blocks[first[0].block]
    return Move(item.name, item.topology, old_block, place[0], item.partition_ids, place[2])


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
