"""Class by class, from wishes to partitions.

A class is everything of one priority. The highest is packed first and nothing of a lower one can take its
place. Inside a class the most chips win, then whoever's turn it is by team weights, then who came first.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING

from tpuctl.engine import placement
from tpuctl.engine.packing import exact, fair, fast, room, sorting, wishes
from tpuctl.model import health as health_values
from tpuctl.model import topology

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tpuctl.engine.packing import problem as problems
    from tpuctl.model import fleet


class Mode(enum.StrEnum):
    """How hard to try."""

    OPTIMAL = "optimal"
    """The proven optimum, within a time limit."""
    FAST = "fast"
    """The heuristic and its bound."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """How to pack."""

    mode: Mode = Mode.OPTIMAL
    time_limit_s: float = exact.DEFAULT_TIME_LIMIT_S
    """For each priority class."""
    weights: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Team -> its share relative to others; 1 if not named."""
    team_chips: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """What teams hold already."""
    policy: health_values.HealthPolicy = health_values.DEFAULT_POLICY
    spares: int = 0
    """Healthy cubes of each block kept free."""
    spares_below: int = 0
    """Requests of this priority and above may use them."""

    def keep_free(self, priority: int) -> int:
        return self.spares if priority < self.spares_below else 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Grant:
    """A slice that can be formed."""

    slice_name: str
    wish: wishes.Wish
    topology: topology.Topology
    block: str
    cubes: tuple[str, ...]
    partition_ids: tuple[str, ...]

    @property
    def is_fallback(self) -> bool:
        return self.topology != self.wish.shapes[0]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Left:
    """A unit for which there was no room."""

    unit: wishes.Unit
    why: str
    refusal: placement.Refusal | None
    """Counted reasons for its largest slice; None if it would fit alone, but not all together, and for a
    sub-slice, whose reasons are as many as there are partitions: `place` tells them for a single one.
    """


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassReport:
    """How well one priority class was packed."""

    priority: int
    method: str
    wanted_chips: int
    placed_chips: int
    bound_chips: int
    """No packing of this class places more after the classes above it."""

    @property
    def gap(self) -> float:
        """Share of the bound that is not placed; 0 is the proven optimum."""
        return 1 - self.placed_chips / self.bound_chips if self.bound_chips else 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What can be placed now, and what not."""

    grants: tuple[Grant, ...]
    left: tuple[Left, ...]
    classes: tuple[ClassReport, ...]


def pack(snapshot: fleet.Fleet, asked: Sequence[wishes.Wish], settings: Settings | None = None) -> Plan:
    """Place as much as possible beside what runs; what runs is not touched.

    Raises UsageError for requests that contradict each other.
    """
    settings = settings or Settings()
    units = wishes.units(asked)
    space = room.Room(snapshot, settings.policy, tolerant=any(wish.allow_degraded for wish in asked))
    chips = dict(settings.team_chips)
    reports = []
    for priority in sorted({unit.priority for unit in units}, reverse=True):
        members = fair.turns((unit for unit in units if unit.priority == priority), settings.weights, chips)
        reports.append(_pack_class(space, priority, members, settings))
        for unit in members:
            team = unit.first.team
            chips[team] = chips.get(team, 0) + space.chips_of(unit)
    known: dict[placement.Request, placement.Placement | placement.Refusal] = {}
    return Plan(
        grants=tuple(_grants(space, units)),
        left=tuple(_left(space, unit, settings, known) for unit in units if not space.has(unit)),
        classes=tuple(reports),
    )


def _pack_class(
    space: room.Room, priority: int, members: Sequence[wishes.Unit], settings: Settings
) -> ClassReport:
    keep_free = settings.keep_free(priority)
    _fill_fragments(space, members)
    placed_before = sum(space.chips_of(unit) for unit in members)
    sorted_out = sorting.sort_out([unit for unit in members if not space.has(unit)], space)
    problem = sorted_out.problem(space.healthy(keep_free), space.degraded())
    solution = _solve(problem, sorted_out, settings)
    sorted_out.carry_out(space, solution)
    _mop_up(space, members, keep_free)
    placed = sum(space.chips_of(unit) for unit in members)
    bound = placed_before + solution.bound_hosts * topology.CHIPS_PER_HOST
    bound += sum(_most_chips(unit) for unit in members if _is_loose(space, unit))
    bound = min(bound, sum(map(_most_chips, members)))
    return ClassReport(
        priority=priority,
        method=solution.method,
        wanted_chips=sum(unit.chips() for unit in members),
        placed_chips=placed,
        bound_chips=max(bound, placed),
    )


def _most_chips(unit: wishes.Unit) -> int:
    """Chips of the largest way to serve it."""
    return max(map(unit.chips, range(unit.options)))


def _is_loose(space: room.Room, unit: wishes.Unit) -> bool:
    """If true, the numbers do not prove that there was no place for it.

    They count sub-slices that are tied to something (a gang, a fallback, a block) as if each needed room in a
    whole cube, though rests of used cubes might serve. So their chips are added to the bound.
    """
    if space.has(unit):
        return False
    tied = unit.is_gang or unit.options > 1 or unit.first.block is not None
    every = (shape for option in range(unit.options) for shape in unit.shapes(option))
    return tied and any(shape.is_sub_slice for shape in every)


def _solve(problem: problems.Problem, sorted_out: sorting.Sorted, settings: Settings) -> problems.Solution:
    if settings.mode is Mode.FAST:
        return fast.solve(problem)
    return exact.solve(problem, time_limit_s=settings.time_limit_s, turns=sorted_out.turns())


def _fill_fragments(space: room.Room, members: Iterable[wishes.Unit]) -> None:
    """Sub-slices go where no slice of whole cubes can: the largest first, since their sizes divide."""
    small = [unit for unit in members if sorting.is_small(unit)]
    for unit in sorted(small, key=lambda unit: -unit.chips()):
        space.place_small(unit, only_spoiled=True)


def _mop_up(space: room.Room, members: Iterable[wishes.Unit], keep_free: int) -> None:
    """One by one, what the numbers left over: rests of cubes given to sub-slices, mostly."""
    for unit in members:
        for option in range(unit.options):
            if space.has(unit):
                break
            space.place_unit(unit, option, keep_free)


def _grants(space: room.Room, units: Iterable[wishes.Unit]) -> Iterator[Grant]:
    for unit in units:
        for (name, index), spot in zip(unit.members, space.spots_of(unit), strict=False):
            yield Grant(
                slice_name=name,
                wish=unit.wishes[index],
                topology=spot.topology,
                block=spot.block,
                cubes=spot.cubes,
                partition_ids=spot.partition_ids,
            )


def _left(
    space: room.Room,
    unit: wishes.Unit,
    settings: Settings,
    known: dict[placement.Request, placement.Placement | placement.Refusal],
) -> Left:
    largest = max(unit.shapes(0))
    if largest.is_sub_slice and not unit.is_gang:
        return Left(unit=unit, why=f"no partition {largest} is left", refusal=None)
    request = placement.Request(
        topology=largest,
        block=unit.first.block,
        allow_degraded=unit.tolerant,
        policy=settings.policy,
        keep_free=settings.keep_free(unit.priority),
    )
    if request not in known:
        known[request] = placement.place_in(space.index(tolerant=unit.tolerant), request)
    found = known[request]
    if isinstance(found, placement.Refusal):
        when = "never fits" if found.never else "does not fit now"
        why = f"{largest} {when}: {found.needed} {found.unit} of one block needed, {found.usable} usable"
        return Left(unit=unit, why=why, refusal=found)
    where = " in one block" if unit.same_block else ""
    return Left(unit=unit, why=f"its {len(unit.members)} slices do not fit all together{where}", refusal=None)
