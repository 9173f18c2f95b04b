"""Make room for one request by moving slices, if that costs less than it brings.

A move is a slice made again elsewhere: its job restarts. It goes only where it could be formed itself, by
what it tolerates and beside the spares, whatever the request is content with. Cost is the chip-hours that the
moved slices lose, gain the chip-hours that the request wins by not having to wait.
"""

from __future__ import annotations

import dataclasses
import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tpuctl.engine import backfill, placement, preemption, vacating
from tpuctl.engine.inventory import stock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from tpuctl.engine import tenancy
    from tpuctl.model import fleet, topology

_REQUEST, _MOVED = "\0request", "\0moved "
"""Holders that no slice is called, for what does not exist yet."""
_HOUR = datetime.timedelta(hours=1)


class Spares(Protocol):
    """What is to be kept free."""

    def __call__(self, block_id: str, priority: int | None, /) -> int:
        """Healthy cubes of a block that a slice of this priority must leave free."""


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
    spares: Spares | None = None,
) -> Plan | placement.Placement | Hopeless:
    """The moves of the fewest chip-hours; the placement itself if it fits without.

    `spares` goes before what the request says of them; without it, moved slices leave as many as the request.
    """
    asked = _asked(snapshot.blocks, request, spares)
    now = _placed(snapshot, asked)
    if isinstance(now, placement.Placement):
        return now
    index = stock.Stock(snapshot, request.terms)
    elsewhere = _Elsewhere(snapshot, request, tenants, spares)
    chips_of = preemption.chips_of_slices(snapshot)
    movable = {item.name for item in snapshot.slices if tenants.may_be_moved(item, snapshot.observed_at)}
    tried: set[tuple[str, tuple[str, ...]]] = set()
    for names in (movable, *_easier(snapshot, movable)):
        for found, wish in _vacancies(index, asked, chips_of, names.__contains__):
            if (found.block, found.slices) in tried:
                continue
            tried.add((found.block, found.slices))
            made = _carried_out(index, elsewhere, wish, found)
            if made is not None:
                wait_h = _wait_h(snapshot, index, asked, tenants)
                return _weighed(wish, costs, *made, wait_h)
    return Hopeless(refusal=now)


def _asked(
    blocks: Iterable[fleet.Block], request: placement.Request, spares: Spares | None
) -> tuple[placement.Request, ...]:
    """Requests of which one must fit: one for each block that has spares of its own."""
    if spares is None:
        return (request,)
    found = tuple(
        dataclasses.replace(request, block=block.id, keep_free=spares(block.id, request.priority))
        for block in sorted(blocks, key=lambda block: block.id)
        if request.block in (None, block.id)
    )
    return found or (request,)


def _placed(
    snapshot: fleet.Fleet, asked: Sequence[placement.Request]
) -> placement.Placement | placement.Refusal:
    """The first placement, else how all blocks stood."""
    refused: list[placement.Refusal] = []
    for request in asked:
        found = placement.place(snapshot, request)
        if isinstance(found, placement.Placement):
            return found
        refused.append(found)
    compared = tuple(candidate for refusal in refused for candidate in refusal.candidates)
    return dataclasses.replace(refused[0], candidates=compared)


def _vacancies(
    index: stock.Stock,
    asked: Iterable[placement.Request],
    chips_of: Mapping[str, int],
    may_go: Callable[[str], bool],
) -> Iterator[tuple[vacating.Vacancy, placement.Request]]:
    """The cheapest first, and what fits there."""
    found = [
        (vacancy, request)
        for request in asked
        for vacancy in vacating.vacancies(index, request, chips_of, may_go)
    ]
    yield from sorted(found, key=lambda entry: entry[0])


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
    index: stock.Stock, elsewhere: _Elsewhere, request: placement.Request, found: vacating.Vacancy
) -> tuple[tuple[Move, ...], placement.Placement] | None:
    """The moves, and where the request goes then; None if that does not work. The index is as before."""
    receipts = [(name, index.release(name)) for name in found.slices]
    made = _made_room(index, elsewhere, request, found)
    for name, receipt in reversed(receipts):
        index.restore(name, receipt)
    return made


def _made_room(
    index: stock.Stock, elsewhere: _Elsewhere, request: placement.Request, found: vacating.Vacancy
) -> tuple[tuple[Move, ...], placement.Placement] | None:
    """Place the request in the room that is made, the moved slices beside it, and the request once more.

    What the moved ones take may be what it needs besides, such as spares.
    """
    target = placement.place_in(index, dataclasses.replace(request, block=found.block))
    if isinstance(target, placement.Refusal):
        return None
    moves = elsewhere.moves(found.slices, target.partition_ids)
    if moves is None:
        return None
    for move in moves:
        index.take_ids(move.slice_name, move.new_partitions)
    again = placement.place_in(index, request)
    for move in moves:
        index.release(move.slice_name)
    return None if isinstance(again, placement.Refusal) else (moves, again)


class _Elsewhere:
    """Where slices can be made again: one index for each thing that they tolerate.

    That is what is free before any move, so that the moves can be made in any order.
    """

    def __init__(
        self,
        snapshot: fleet.Fleet,
        request: placement.Request,
        tenants: tenancy.Tenants,
        spares: Spares | None,
    ) -> None:
        self._snapshot = snapshot
        self._request = request
        self._tenants = tenants
        self._spares = spares
        self._indexes: dict[bool, stock.Stock] = {}

    def moves(self, names: Iterable[str], taken: Iterable[str]) -> tuple[Move, ...] | None:
        """Places for all of them beside what is taken, the largest first; None if one finds none."""
        items = sorted(
            (self._snapshot.slices_by_name[name] for name in names),
            key=lambda item: (-_chips(item), item.name),
        )
        indexes = [self._index(tolerant) for tolerant in {self._tolerates(item) for item in items}]
        found: list[Move] = []
        for index in indexes:
            index.take_ids(_REQUEST, taken)
        for item in items:
            move = self._move(item)
            if move is None:
                break
            found.append(move)
            for index in indexes:
                index.take_ids(_MOVED + item.name, move.new_partitions)
        for index in indexes:
            for name in (_REQUEST, *(_MOVED + move.slice_name for move in found)):
                index.release(name)
        return tuple(found) if len(found) == len(items) else None

    def _tolerates(self, item: fleet.Slice) -> bool:
        return self._tenants.of(item).allow_degraded

    def _index(self, tolerant: bool) -> stock.Stock:
        if tolerant not in self._indexes:
            terms = stock.Terms(policy=self._request.policy, allow_degraded=tolerant)
            self._indexes[tolerant] = stock.Stock(self._snapshot, terms)
        return self._indexes[tolerant]

    def _move(self, item: fleet.Slice) -> Move | None:
        """To the tightest place beside the spares; None if there is none."""
        if item.topology is None:
            return None
        index = self._index(self._tolerates(item))
        wish = placement.Request(
            topology=item.topology,
            keep_free=self._request.keep_free,
            priority=self._tenants.priority_of(item),
        )
        places = [
            (_room(index, one, place), place)
            for one in _asked(self._snapshot.blocks, wish, self._spares)
            if (place := placement.choose(index, one)) is not None
        ]
        if not places:
            return None
        _, (block, _, partition_ids) = min(places)
        old_block = index.blocks[index.held[item.name][0].block]
        return Move(item.name, item.topology, old_block, block, item.partition_ids, partition_ids)


def _room(
    index: stock.Stock, request: placement.Request, place: tuple[str, tuple[str, ...], tuple[str, ...]]
) -> tuple[int, int, int]:
    """Least is best: for a sub-slice the order of cubes in `placement`, then few cubes beside the spares."""
    block, cubes, _ = place
    wear = index.slot_of_cube[cubes[0]].wear if request.topology.is_sub_slice else (0, 0)
    return (*wear, index.free[index.number_of_block[block]].bit_count() - request.keep_free)


def _wait_h(
    snapshot: fleet.Fleet, index: stock.Stock, asked: Sequence[placement.Request], tenants: tenancy.Tenants
) -> float | None:
    """Hours until it fits by itself, by the ends that are expected; None if nobody knows."""
    now = snapshot.observed_at
    ends = {item.name: end for item in snapshot.slices if (end := tenants.end_of(item, now)) is not None}

    def fits() -> bool:
        return any(placement.choose(index, request) is not None for request in asked)

    soon = backfill.when_it_fits(index, ends, now, fits)
    return None if soon is None else (soon.at - now) / _HOUR


def _weighed(
    request: placement.Request,
    costs: Costs,
    moves: tuple[Move, ...],
    target: placement.Placement,
    known_wait_h: float | None,
) -> Plan:
    wait_h = costs.unknown_wait_h if known_wait_h is None else known_wait_h
    return Plan(
        request=request,
        moves=moves,
        placement=target,
        cost_chip_h=sum(move.topology.chips for move in moves) * costs.move_h,
        gain_chip_h=request.topology.chips * wait_h,
        wait_h=wait_h,
        wait_is_known=known_wait_h is not None,
    )


def _chips(item: fleet.Slice) -> int:
    return 0 if item.topology is None else item.topology.chips
