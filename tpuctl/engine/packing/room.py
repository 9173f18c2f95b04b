"""The fleet while it is being packed: who has been given what, for strict and tolerant requests alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tpuctl.engine import placement
from tpuctl.engine.inventory import shelves, stock

if TYPE_CHECKING:
    from collections.abc import Sequence

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


class Room:
    """Two indexes of one fleet kept in step: for requests that take healthy cubes only, and for others."""

    def __init__(self, snapshot: fleet.Fleet, policy: health_values.HealthPolicy, *, tolerant: bool) -> None:
        self._strict = stock.Stock(snapshot, stock.Terms(policy=policy))
        self._tolerant = (
            stock.Stock(snapshot, stock.Terms(policy=policy, allow_degraded=True)) if tolerant else None
        )
        self._given: dict[int, list[Spot]] = {}

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

    def give(self, unit: wishes.Unit, spots: list[Spot]) -> None:
        self._given[unit.number] = spots

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
        if self._tolerant is not None:
            self._tolerant.take(name, block, cubes)
        return Spot(shape, self._strict.blocks[block], ids, ids)

    def take_part(self, name: str, shape: topology.Topology, slot: stock.Slot, part: tree.Part) -> Spot:
        for index in (self._strict, self._tolerant):
            if index is not None:
                index.take_part(name, index.slots[slot.block][slot.number], part)
        return Spot(shape, self._strict.blocks[slot.block], (slot.cube.id,), (part.id,))

    def take_in_cube(
        self, name: str, shape: topology.Topology, block: int, cube: int, *, tolerant: bool
    ) -> Spot | None:
        """A partition of one cube; None if the cube has no such piece left."""
        index = self.index(tolerant=tolerant)
        slot = index.slots[block][cube]
        part = index.tree_of(slot).best(shape, slot.used)
        return None if part is None else self.take_part(name, shape, slot, part)

    def undo(self, names: Sequence[str]) -> None:
        for index in (self._strict, self._tolerant):
            if index is not None:
                for name in names:
                    index.release(name)

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

    def place_unit(self, unit: wishes.Unit, option: int, keep_free: int) -> bool:
        """One slice after the other, the largest first; all of them or none."""
        shapes = unit.shapes(option)
        found: dict[int, Spot] = {}
        block = unit.first.block
        for number in sorted(range(len(shapes)), key=lambda number: (-shapes[number].chips, number)):
            name = unit.members[number][0]
            spot = self._place_one(name, shapes[number], block, keep_free, tolerant=unit.tolerant)
            if spot is None:
                self.undo([unit.members[placed][0] for placed in found])
                return False
            found[number] = spot
            if unit.same_block:
                block = spot.block
        self.give(unit, [found[number] for number in range(len(shapes))])
        return True

    def _place_one(
        self, name: str, shape: topology.Topology, block: str | None, keep_free: int, *, tolerant: bool
    ) -> Spot | None:
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
