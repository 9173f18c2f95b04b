"""Units sorted into groups and bundles, and a solution turned back into partitions."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.engine.inventory import shelves
from tpuctl.engine.packing import exact
from tpuctl.engine.packing import problem as problems
from tpuctl.model import topology

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tpuctl.engine.packing import room as rooms
    from tpuctl.engine.packing import wishes


class Kind(NamedTuple):
    """What makes units interchangeable."""

    size: int
    hosts: int
    tolerant: bool
    block: int | None


Load = tuple["wishes.Unit", ...]
"""Units that are placed by one slice of the problem: one of whole cubes, or the sub-slices of one cube."""


def is_small(unit: wishes.Unit) -> bool:
    """If true, it is a sub-slice by itself, with nothing to fall back on."""
    return not unit.is_gang and unit.options == 1 and unit.shapes(0)[0].is_sub_slice


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sorted:
    """The units of one class as a problem."""

    kinds: tuple[Kind, ...]
    loads: tuple[tuple[Load, ...], ...]
    """For each kind, in order of turns."""
    tied: tuple[wishes.Unit, ...]
    """Gangs, and units with something to fall back on."""
    blocks: tuple[int | None, ...]
    """The only block of each of `tied`."""
    rank: dict[int, int]
    """Unit number -> its turn."""

    def problem(self, healthy: Sequence[int], degraded: Sequence[int]) -> problems.Problem:
        return problems.Problem(
            healthy=tuple(healthy),
            degraded=tuple(degraded),
            groups=tuple(
                problems.Group(kind.size, kind.hosts, len(loads), kind.tolerant, kind.block)
                for kind, loads in zip(self.kinds, self.loads, strict=True)
            ),
            bundles=tuple(
                problems.Bundle(
                    tuple(_option(unit, number) for number in range(unit.options)), unit.tolerant, block
                )
                for unit, block in zip(self.tied, self.blocks, strict=True)
            ),
        )

    def turns(self) -> exact.Turns:
        """The earlier the turn, the more it is worth."""
        late = len(self.rank)
        return exact.Turns(
            groups=[[float(late - self.rank[load[0].number]) for load in loads] for loads in self.loads],
            bundles=[float(late - self.rank[unit.number]) for unit in self.tied],
        )

    def carry_out(self, space: rooms.Room, solution: problems.Solution) -> None:
        """Take cubes for everything that the solution places."""
        for number, (way, blocks) in sorted(solution.bundles.items()):
            _place_bundle(space, self.tied[number], way, blocks)
        places: list[list[int]] = [[] for _ in self.kinds]
        for (number, block), count in sorted(solution.loose.items()):
            places[number] += [block] * count
        for number, kind in enumerate(self.kinds):
            for load, block in zip(self.loads[number], places[number], strict=False):
                _place_load(space, load, block, tolerant=kind.tolerant)


def sort_out(members: Iterable[wishes.Unit], space: rooms.Room) -> Sorted:
    """Sort the units of one class, given in order of turns.

    Units that name a block that does not exist are left out.
    """
    rank: dict[int, int] = {}
    loads: dict[Kind, list[Load]] = {}
    small: dict[tuple[bool, int | None], list[wishes.Unit]] = {}
    tied: list[tuple[wishes.Unit, int | None]] = []
    for unit in members:
        rank[unit.number] = len(rank)
        block = space.block_number(unit.first.block)
        if block == -1:
            continue
        if unit.is_gang or unit.options > 1:
            tied.append((unit, block))
        elif is_small(unit):
            small.setdefault((unit.tolerant, block), []).append(unit)
        else:
            shape = unit.shapes(0)[0]
            kind = Kind(shape.cubes, shape.hosts, unit.tolerant, block)
            loads.setdefault(kind, []).append((unit,))
    for (tolerant, block), units in small.items():
        for load in _cubes_of_small(units):
            kind = Kind(1, sum(unit.shapes(0)[0].hosts for unit in load), tolerant, block)
            loads.setdefault(kind, []).append(load)
    kinds = sorted(loads, key=lambda kind: (kind.size, kind.hosts, kind.tolerant, kind.block or -1))
    return Sorted(
        kinds=tuple(kinds),
        loads=tuple(tuple(sorted(loads[kind], key=lambda load: rank[load[0].number])) for kind in kinds),
        tied=tuple(unit for unit, _ in tied),
        blocks=tuple(block for _, block in tied),
        rank=rank,
    )


def _cubes_of_small(units: Iterable[wishes.Unit]) -> Iterator[Load]:
    """Sub-slices by cube: largest first fills every cube but the last, since each size divides the next."""
    load: list[wishes.Unit] = []
    room = topology.HOSTS_PER_CUBE
    for unit in sorted(units, key=lambda unit: -unit.chips()):
        hosts = unit.shapes(0)[0].hosts
        if hosts > room:
            yield tuple(load)
            load, room = [], topology.HOSTS_PER_CUBE
        load.append(unit)
        room -= hosts
    if load:
        yield tuple(load)


def _option(unit: wishes.Unit, number: int) -> problems.Option:
    """Whole cubes of each slice, and as many more as its sub-slices need."""
    shapes = unit.shapes(number)
    sizes = [shape.cubes for shape in shapes if not shape.is_sub_slice]
    hosts = sum(shape.hosts for shape in shapes if shape.is_sub_slice)
    sizes += [1] * -(-hosts // topology.HOSTS_PER_CUBE)
    return problems.Option(tuple(sizes), sum(shape.hosts for shape in shapes), unit.same_block)


def _place_load(space: rooms.Room, load: Load, block: int, *, tolerant: bool) -> None:
    if not is_small(load[0]):
        [unit] = load
        [shape] = unit.shapes(0)
        spot = space.take_cubes(unit.members[0][0], shape, block, tolerant=tolerant)
        if spot is not None:
            space.give(unit, [spot])
        return
    names = [(unit.members[0][0], unit.shapes(0)[0]) for unit in load]
    for unit, spot in zip(load, _in_one_cube(space, names, block, tolerant=tolerant), strict=True):
        if spot is not None:
            space.give(unit, [spot])


def _in_one_cube(
    space: rooms.Room, names: Sequence[tuple[str, topology.Topology]], block: int, *, tolerant: bool
) -> list[rooms.Spot | None]:
    """Partitions of the first free cube of a block; None for what its labels do not offer."""
    strict = space.index(tolerant=False).free[block]
    every = space.index(tolerant=tolerant).free[block]
    free = every & ~strict or every
    if not free:
        return [None] * len(names)
    cube = shelves.lowest(free)
    return [space.take_in_cube(name, shape, block, cube, tolerant=tolerant) for name, shape in names]


def _place_bundle(space: rooms.Room, unit: wishes.Unit, way: int, blocks: Sequence[int]) -> None:
    """All members or none: a piece that is missing after all gives the others back."""
    shapes = unit.shapes(way)
    found: dict[int, rooms.Spot | None] = {}
    whole = [number for number, shape in enumerate(shapes) if not shape.is_sub_slice]
    for number, block in zip(whole, blocks, strict=False):
        name = unit.members[number][0]
        found[number] = space.take_cubes(name, shapes[number], block, tolerant=unit.tolerant)
    small = sorted(
        (number for number, shape in enumerate(shapes) if shape.is_sub_slice),
        key=lambda number: (-shapes[number].chips, number),
    )
    cubes = list(blocks[len(whole) :])
    for numbers in _by_cube(small, shapes):
        names = [(unit.members[number][0], shapes[number]) for number in numbers]
        spots = _in_one_cube(space, names, cubes.pop(0), tolerant=unit.tolerant)
        found |= dict(zip(numbers, spots, strict=True))
    spots_found = [found[number] for number in range(len(shapes))]
    complete = [spot for spot in spots_found if spot is not None]
    if len(complete) == len(shapes):
        space.give(unit, complete)
    else:
        space.undo([name for name, _ in unit.members])


def _by_cube(numbers: Iterable[int], shapes: Sequence[topology.Topology]) -> Iterator[list[int]]:
    load: list[int] = []
    room = topology.HOSTS_PER_CUBE
    for number in numbers:
        if shapes[number].hosts > room:
            yield load
            load, room = [], topology.HOSTS_PER_CUBE
        load.append(number)
        room -= shapes[number].hosts
    if load:
        yield load
