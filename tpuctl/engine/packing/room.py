"""The fleet while it is being packed: who has been given what, for strict and tolerant requests alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from tpuctl.engine import placement
from tpuctl.engine.inventory import shelves, stock

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tpuctl.engine.inventory import tree
    from tpuctl.engine.packing import wishes
    from tpuctl.model import fleet, topology
    from tpuctl.model import health as health_values


class Spot(NamedTuple):
    """What one slice was given."""

    topology: topology.Topology
    block: str
    cubes: tuple[str, ...]
    partition_ids: tuple[str, ...]


Receipts = tuple[stock.Receipt, ...]
"""What a slice had, in each index."""


class Guard(Protocol):
    """Has the last word before a unit gets its place."""

    def admits(self, unit: wishes.Unit, spots: Sequence[Spot]) -> bool:
        """If false, the unit does not get these spots."""


class Room:
    """Two indexes of one fleet kept in step: for requests that take healthy cubes only, and for others."""

    def __init__(self, snapshot: fleet.Fleet, policy: health_values.HealthPolicy, *, tolerant: bool) -> None:
        self._strict = stock.Stock(snapshot, stock.Terms(policy=policy))
        self._tolerant = (
            stock.Stock(snapshot, stock.Terms(policy=policy, allow_degraded=True)) if tolerant else None
        )
        self._indexes = tuple(index for index in (self._strict, self._tolerant) if index is not None)
        self._given: dict[int, list[Spot]] = {}
        self.guard: Guard | None = None
        self.refused: set[int] = set()
        """Numbers of units that fitted, but that the guard has turned away."""

    @property
    def blocks(self) -> tuple[str, ...]:
        return self._strict.blocks

    def index(self, *, tolerant: bool) -> stock.Stock:
        return self._tolerant if tolerant and self._tolerant is not None else self._strict

    def healthy(self, keep_free: int) -> tuple[int, ...]:
        """Cubes of each block that anybody may take, less the spares."""
        return tuple(max(free.bit_count() - keep_free, 0) for free in self._strict.free)

    def degraded(self) -> tuple[int, ...]:
        """Cubes of each block that only tolerant requests may take."""
        if self._tolerant is None:
            return (0,) * len(self._strict.free)
        return tuple(
            (tolerant & ~strict).bit_count()
            for tolerant, strict in zip(self._tolerant.free, self._strict.free, strict=True)
        )

    def block_number(self, block_id: str | None) -> int | None:
        """None for any block; -1 for a block that does not exist, in which nothing fits."""
        return None if block_id is None else self._strict.number_of_block.get(block_id, -1)

    # -- who has what ------------------------------------------------------------------------------------

    def has(self, unit: wishes.Unit) -> bool:
        return unit.number in self._given

    def spots_of(self, unit: wishes.Unit) -> Sequence[Spot]:
        """In the order of its members; empty if it was given nothing."""
        return self._given.get(unit.number, ())

    def chips_of(self, unit: wishes.Unit) -> int:
        return sum(spot.topology.chips for spot in self.spots_of(unit))

    def give(self, unit: wishes.Unit, spots: Sequence[Spot]) -> bool:
        """Write down what was taken for a unit; taken back and false if the guard objects."""
        if self.guard is not None and not self.guard.admits(unit, spots):
            self.undo([name for name, _ in unit.members])
            self.refused.add(unit.number)
            return False
        self._given[unit.number] = list(spots)
        self.refused.discard(unit.number)
        return True

    def take_back(self, unit: wishes.Unit) -> Sequence[Spot]:
        """Undo `give`."""
        spots = self._given.pop(unit.number)
        self.undo([name for name, _ in unit.members])
        return spots

    def give_again(self, unit: wishes.Unit, spots: Sequence[Spot]) -> bool:
        """Give what was taken back, if the guard agrees."""
        self.take_spots(unit, spots)
        return self.give(unit, spots)

    # -- taking ------------------------------------------------------------------------------------------

    def take_cubes(self, name: str, shape: topology.Topology, block: int, *, tolerant: bool) -> Spot | None:
        """The first free cubes of a block, degraded ones first for the tolerant; None if too few."""
        strict = self._strict.free[block]
        worn = self._tolerant.free[block] & ~strict if tolerant and self._tolerant is not None else 0
        count = shape.cubes
        from_worn = shelves.first(worn, min(count, worn.bit_count()))
        missing = count - from_worn.bit_count()
        if strict.bit_count() < missing:
            return None
        cubes = from_worn | shelves.first(strict, missing)
        ids = self._strict.take(name, block, cubes)
        for index in self._indexes[1:]:
            index.take(name, block, cubes)
        return Spot(shape, self._strict.blocks[block], ids, ids)

    def take_part(self, name: str, shape: topology.Topology, slot: stock.Slot, part: tree.Part) -> Spot:
        for index in self._indexes:
            index.take_part(name, index.slots[slot.block][slot.number], part)
        return Spot(shape, self._strict.blocks[slot.block], (slot.cube.id,), (part.id,))

    def take_spots(self, unit: wishes.Unit, spots: Sequence[Spot]) -> None:
        """Take what is known to be free, for each member of a unit."""
        for (name, _), spot in zip(unit.members, spots, strict=True):
            for index in self._indexes:
                index.take_ids(name, spot.partition_ids)

    def take_in_cube(
        self, name: str, shape: topology.Topology, block: int, cube: int, *, tolerant: bool
    ) -> Spot | None:
        """A partition of one cube; None if the cube has no such piece left."""
        index = self.index(tolerant=tolerant)
        slot = index.slots[block][cube]
        part = index.tree_of(slot).best(shape, slot.used)
        return None if part is None else self.take_part(name, shape, slot, part)

    def undo(self, names: Iterable[str]) -> None:
        for name in names:
            self.release(name)

    def release(self, name: str) -> Receipts:
        """Take everything from a slice, running or just placed."""
        return tuple(index.release(name) for index in self._indexes)

    def restore(self, name: str, receipts: Receipts) -> None:
        """Undo a release."""
        for index, receipt in zip(self._indexes, receipts, strict=True):
            index.restore(name, receipt)

    # -- placing -----------------------------------------------------------------------------------------

    def place_small(self, unit: wishes.Unit, *, only_spoiled: bool) -> None:
        """Give a single sub-slice the best partition there is."""
        [shape] = unit.shapes(0)
        name = unit.members[0][0]
        block = self.block_number(unit.first.block)
        if block == -1:
            return
        index = self.index(tolerant=unit.tolerant)
        found = index.best_part(shape, block, only_spoiled=only_spoiled)
        if found is not None:
            self.give(unit, [self.take_part(name, shape, *found)])

    def place_unit(self, unit: wishes.Unit, option: int, keep_free: int, block: str | None = None) -> bool:
        """Give it what `try_way` finds."""
        spots = self.try_way(unit, option, keep_free, block)
        return spots is not None and self.give(unit, spots)

    def way_that_fits(self, unit: wishes.Unit, keep_free: int) -> int | None:
        """The first of its options for which there is room now; nothing is taken."""
        for option in range(unit.options):
            if self.try_way(unit, option, keep_free) is not None:
                self.undo(name for name, _ in unit.members)
                return option
        return None

    def fits_with_spares(self, unit: wishes.Unit) -> bool:
        """If true, there is room for it in cubes that are kept free as spares; nothing is taken."""
        kept = [(index, slot.cube.id, slot.claims) for index in self._indexes for slot in _spares(index)]
        for index, cube_id, _ in kept:
            index.claim(cube_id, ())
        found = self.way_that_fits(unit, 0)
        for index, cube_id, claims in kept:
            index.claim(cube_id, claims)
        return found is not None

    def try_way(
        self, unit: wishes.Unit, option: int, keep_free: int, block: str | None = None
    ) -> list[Spot] | None:
        """Take one slice after the other, the largest first; all of them or none."""
        found: dict[int, Spot] = {}
        only = unit.first.block or block
        shapes = unit.shapes(option)
        for number in largest_first(shapes):
            spot = self.place_one(unit.members[number][0], shapes[number], only, keep_free, unit.tolerant)
            if spot is None:
                self.undo(unit.members[placed][0] for placed in found)
                return None
            found[number] = spot
            if unit.same_block:
                only = spot.block
        return [found[number] for number in range(len(shapes))]

    def place_one(
        self,
        name: str,
        shape: topology.Topology,
        block: str | None,
        keep_free: int,
        tolerant: bool,
    ) -> Spot | None:
        """Take the best place for one slice."""
        index = self.index(tolerant=tolerant)
        request = placement.Request(topology=shape, block=block, allow_degraded=tolerant, keep_free=keep_free)
        found = placement.choose(index, request)
        if found is None:
            return None
        number = index.number_of_block[found[0]]
        if not shape.is_sub_slice:
            return self.take_cubes(name, shape, number, tolerant=tolerant)
        slot = index.slot_of_cube[found[1][0]]
        [part] = [part for part in index.tree_of(slot).parts[shape] if part.id == found[2][0]]
        return self.take_part(name, shape, slot, part)


def _spares(index: stock.Stock) -> Iterable[stock.Slot]:
    """Cubes that nothing but a claim of this kind keeps."""
    spare = (str(placement.Obstacle.SPARE),)
    return (slot for slots in index.slots for slot in slots if slot.claims == spare)


def largest_first(shapes: Sequence[topology.Topology]) -> list[int]:
    """Positions, by size."""
    return sorted(range(len(shapes)), key=lambda number: (-shapes[number].chips, number))
