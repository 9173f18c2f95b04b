"""What the values of a file must be to each other: names, references, gangs, limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.cli import config_file
from tpuctl.cli.fleet_spec import fitting
from tpuctl.cli.fleet_spec.document import Fault, Loc
from tpuctl.model import errors, names, topology

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tpuctl.cli.fleet_spec import form

_Entry = tuple[Loc, "form.Slice"]


def faults(fleet: form.Fleet) -> Iterator[Fault]:
    """Everything that is wrong with a file whose values are right each by itself."""
    yield from _hardware(fleet)
    entries: list[_Entry] = [(("slices", number), item) for number, item in enumerate(fleet.slices or ())]
    for loc, entry in entries:
        yield from _shapes(loc, entry)
        yield from _references(loc, entry, fleet)
    yield from _slice_names(entries)
    yield from _gangs(entries)
    yield from _windows(fleet)
    yield from _limits(fleet)
    yield from fitting.faults(fleet)


# -- names -----------------------------------------------------------------------------------------------


def _twice(what: str, found: Iterable[tuple[Loc, str]]) -> Iterator[Fault]:
    first: dict[str, Loc] = {}
    for loc, name in found:
        if name in first:
            yield Fault(loc, f"{what} '{name}' is here twice", see=first[name])
        else:
            first[name] = loc


def _hardware(fleet: form.Fleet) -> Iterator[Fault]:
    numbered = list(enumerate(fleet.reservations))
    yield from _twice(
        "reservation", ((("reservations", number, "name"), item.name) for number, item in numbered)
    )
    blocks = [
        (("reservations", number, "blocks", index), block)
        for number, item in numbered
        for index, block in enumerate(item.blocks)
    ]
    # Also between reservations: slices name their block without the reservation.
    yield from _twice("block", (((*loc, "name"), block.name) for loc, block in blocks))
    for loc, block in blocks:
        cubes = fitting.cubes_of(block)
        if block.spares >= cubes:
            text = f"spares: {block.spares} of {cubes} cubes leave none for slices"
            yield Fault((*loc, "spares"), text)
        yield from _management(loc, block)


def _management(loc: Loc, block: form.Block) -> Iterator[Fault]:
    pools = block.pools
    if pools is not None and not pools.auto_repair and pools.auto_upgrade is None:
        text = "autoRepair: it is turned off together with autoUpgrade only: GKE has one field for the two"
        yield Fault((*loc, "pools", "autoRepair"), text, "say also 'autoUpgrade: false'")


def _slice_names(entries: list[_Entry]) -> Iterator[Fault]:
    owners: dict[str, _Entry] = {}
    for loc, entry in entries:
        wanted = _names_of(entry)
        clash = next((name for name in wanted if name in owners), None)
        if clash is not None:
            other_loc, other = owners[clash]
            numbered = [item.name for item in (other, entry) if item.count > 1]
            why = f" ({numbered[0]} is numbered from 0)" if numbered and other.name != entry.name else ""
            yield Fault((*loc, "name"), f"slice '{clash}' is wanted twice{why}", see=(*other_loc, "name"))
        owners.update(dict.fromkeys(wanted, (loc, entry)))
        yield from _long_name(loc, entry, wanted[-1])


def _names_of(entry: form.Slice) -> list[str]:
    """As `declared.WantedSlice.slice_names`."""
    return [entry.name] if entry.count == 1 else [f"{entry.name}-{number}" for number in range(entry.count)]


def _long_name(loc: Loc, entry: form.Slice, longest: str) -> Iterator[Fault]:
    try:
        names.check_slice_name(longest)
    except errors.UsageError as error:
        yield Fault((*loc, "count"), f"count: {error.message}", f"shorten the name '{entry.name}'")


# -- slices ----------------------------------------------------------------------------------------------


def _shapes(loc: Loc, entry: form.Slice) -> Iterator[Fault]:
    if (entry.topology is None) == (entry.chips is None):
        at = loc if entry.chips is None else (*loc, "chips")
        yield Fault(at, f"slice '{entry.name}': say either topology or chips")
        return
    for index, (before, shape) in enumerate(zip(entry.shapes, entry.shapes[1:], strict=False)):
        if shape.chips >= before.chips:
            yield Fault((*loc, "fallback", index), _not_smaller(shape, before))


def _not_smaller(shape: topology.Topology, before: topology.Topology) -> str:
    return (
        f"fallback: {shape} has {shape.chips:,} chips, not fewer than {before} before it ({before.chips:,}): "
        "where that does not fit, this does not either"
    )


def _references(loc: Loc, entry: form.Slice, fleet: form.Fleet) -> Iterator[Fault]:
    blocks = [block.name for item in fleet.reservations for block in item.blocks]
    if entry.block is not None and entry.block not in blocks:
        text = f"block: there is no block '{entry.block}' under reservations"
        yield Fault((*loc, "block"), text, config_file.near(entry.block, blocks, "blocks"))
    teams = fleet.teams or {}
    if entry.team is not None and entry.team not in teams:
        hint = config_file.near(entry.team, teams, "teams") if teams else f"add 'teams: {{{entry.team}: 1}}'"
        yield Fault((*loc, "team"), f"team: there is no team '{entry.team}' under teams", hint)


# -- gangs -----------------------------------------------------------------------------------------------


def _gangs(entries: list[_Entry]) -> Iterator[Fault]:
    gangs: dict[str, list[_Entry]] = {}
    for loc, entry in entries:
        if entry.gang_word:
            gangs.setdefault(entry.gang_word, []).append((loc, entry))
        elif entry.same_block:
            yield Fault(
                (*loc, "sameBlock"), "sameBlock: only a gang can be held together", "say also 'gang: true'"
            )
    for word, members in gangs.items():
        yield from _gang(word, members)


def _gang(word: str, members: list[_Entry]) -> Iterator[Fault]:
    loc, first = members[0]
    if len(members) == 1 and first.count == 1 and first.same_block:
        text = f"sameBlock: gang '{word}' has one slice only, which is in one block anyway"
        yield Fault((*loc, "sameBlock"), text)
    for other_loc, other in members[1:]:
        if True in (first.gang, other.gang):
            text = f"gang: '{word}' is also the name of an entry that is a gang of its own"
            yield Fault((*other_loc, "gang"), text, see=(*loc, "gang"))
    for key, read in _SHARED.items():
        yield from _unlike(word, members, key, read)


_SHARED: dict[str, Callable[[form.Slice], object]] = {
    "block": lambda entry: entry.block,
    "priority": lambda entry: entry.priority,
    "sameBlock": lambda entry: entry.same_block,
}
"""What all entries of a gang must say alike: it is placed as one."""


def _unlike(
    word: str, members: list[_Entry], key: str, read: Callable[[form.Slice], object]
) -> Iterator[Fault]:
    first_loc, first = members[0]
    for loc, entry in members[1:]:
        if read(entry) != read(first):
            yield Fault(
                (*loc, key),
                f"{key}: the entries of gang '{word}' must say the same, "
                f"'{first.name}' and '{entry.name}' do not",
                see=(*first_loc, key),
            )


# -- windows and limits ----------------------------------------------------------------------------------


def _windows(fleet: form.Fleet) -> Iterator[Fault]:
    windows = list(enumerate(fleet.windows or ()))
    yield from _twice("window", ((("windows", number, "name"), item.name) for number, item in windows))
    for number, window in windows:
        days = ((("windows", number, "days", index), str(day)) for index, day in enumerate(window.days))
        yield from _twice("day", days)


def _limits(fleet: form.Fleet) -> Iterator[Fault]:
    breaker = fleet.breaker
    if breaker is not None and breaker.minimum_cubes > breaker.cubes:
        text = (
            f"minimumCubes: {breaker.minimum_cubes} is more than cubes ({breaker.cubes}), which is then void"
        )
        yield Fault(("breaker", "minimumCubes"), text)
    yield from _disruption(fleet)


def _disruption(fleet: form.Fleet) -> Iterator[Fault]:
    """A budget above 0 that is smaller than a slice would quietly mean "never" for this slice."""
    budget = fitting.disruption_budget_chips(fleet)
    for number, entry in enumerate(fleet.slices or ()):
        chips = max((shape.chips for shape in entry.shapes), default=0)
        if 0 < budget < chips:
            yield Fault(
                ("budgets", "disruptedChipsPerHour"),
                f"disruptedChipsPerHour: {budget:,} chips never suffice for slice '{entry.name}', "
                f"which has {chips:,}",
                f"say {chips} or more, or 0 to forbid all disruption",
                see=("slices", number),
            )
