"""Wishes that no state of the declared blocks can ever serve.

Bounds only: what is refused here can never be formed, whatever is healthy and free. That several entries
together want more than there is is no fault; priorities decide then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tpuctl.cli.fleet_spec.document import Fault, Loc
from tpuctl.model import declared, topology

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tpuctl.cli.fleet_spec import form


class _Room(NamedTuple):
    """Cubes of a block that slices of some priority may ever use."""

    block: str
    cubes: int
    spares: int
    """Those that are kept from them."""

    @property
    def free(self) -> int:
        return self.cubes - self.spares

    def __str__(self) -> str:
        kept = f", {self.spares} of them spares that its priority may not use" if self.spares else ""
        return f"block '{self.block}' has {self.cubes}{kept}"


def cubes_of(block: form.Block) -> int:
    """Cubes that it can have at most."""
    return topology.MAX_CUBES if block.cubes is None else block.cubes


def disruption_budget_chips(fleet: form.Fleet) -> int:
    """The budget in force."""
    return (fleet.budgets or declared.Budgets()).disrupted_chips_per_hour


def faults(fleet: form.Fleet) -> Iterator[Fault]:
    """One fault for each entry or gang that can never be formed."""
    gangs: dict[str, list[form.Slice]] = {}
    first: dict[str, Loc] = {}
    for number, entry in enumerate(fleet.slices or ()):
        loc: Loc = ("slices", number)
        rooms = _rooms(fleet, entry)
        # Unknown blocks and missing shapes are told elsewhere.
        if not rooms or not entry.shapes:
            continue
        too_large = list(_too_large(loc, entry, rooms))
        yield from too_large
        if not too_large and not entry.gang_word:
            yield from _too_many(loc, entry, rooms)
        if entry.gang_word:
            gangs.setdefault(entry.gang_word, []).append(entry)
            first.setdefault(entry.gang_word, loc)
    for word, entries in gangs.items():
        yield from _gang(first[word], word, entries, _rooms(fleet, entries[0]))


def _rooms(fleet: form.Fleet, entry: form.Slice) -> list[_Room]:
    uses_spares = entry.priority >= fleet.spares_below
    return [
        _Room(block.name, cubes_of(block), 0 if uses_spares else min(block.spares, cubes_of(block)))
        for item in fleet.reservations
        for block in item.blocks
        if entry.block in (None, block.name)
    ]


def _too_large(loc: Loc, entry: form.Slice, rooms: list[_Room]) -> Iterator[Fault]:
    """Shapes that no single block can hold, the fallbacks too: one that can never be used is a mistake."""
    best = max(rooms, key=lambda room: room.free)
    wanted = "topology" if entry.chips is None else "chips"
    for index, shape in enumerate(entry.shapes):
        if shape.cubes > best.free:
            at = (*loc, wanted) if index == 0 else (*loc, "fallback", index - 1)
            yield Fault(
                at, f"slice '{entry.name}' can never be formed as {shape} of {shape.cubes} cubes: {best}"
            )


def _too_many(loc: Loc, entry: form.Slice, rooms: list[_Room]) -> Iterator[Fault]:
    smallest = entry.shapes[-1]
    if smallest.is_sub_slice:
        most = sum(room.free * (topology.CHIPS_PER_CUBE // smallest.chips) for room in rooms)
    else:
        most = sum(room.free // smallest.cubes for room in rooms)
    if entry.count > most:
        text = f"count: never more than {most} slices of {smallest} fit; {_all(rooms)}"
        yield Fault((*loc, "count"), text)


def _gang(loc: Loc, word: str, entries: list[form.Slice], rooms: list[_Room]) -> Iterator[Fault]:
    """The smallest form of a gang against all its room: if that does not fit, nothing does."""
    needed = _cubes([(entry.shapes[-1], entry.count) for entry in entries])
    same_block = any(entry.same_block for entry in entries)
    room = max(rooms, key=lambda room: room.free).free if same_block else sum(room.free for room in rooms)
    if needed > room:
        where = "one block" if same_block else "all of it"
        text = (
            f"gang '{word}' needs {needed} cubes at least, in {where}, and can never be formed: {_all(rooms)}"
        )
        yield Fault(loc, text)


def _cubes(wanted: Iterable[tuple[topology.Topology, int]]) -> int:
    whole = chips = 0
    for shape, count in wanted:
        if shape.is_sub_slice:
            chips += shape.chips * count
        else:
            whole += shape.cubes * count
    return whole + -(-chips // topology.CHIPS_PER_CUBE)


def _all(rooms: list[_Room]) -> str:
    return "; ".join(str(room) for room in rooms)
