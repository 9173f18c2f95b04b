"""Class by class, from wishes to partitions.

A class is everything of one priority. The highest is packed first and nothing of a lower one can take its
place. Inside a class the most chips win, then whoever's turn it is by team weights, then who came first.

If terms are known (who may be ended, who ends when), what does not fit may end running slices for its place,
and the first that still has to wait is promised a time that nobody after it may put off.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
from typing import TYPE_CHECKING

from tpuctl.engine import placement, preemption, tenancy
from tpuctl.engine.packing import evicting, exact, fair, fast, promises, room, sorting, wishes
from tpuctl.engine.packing import terms as all_terms
from tpuctl.model import errors, topology
from tpuctl.model import health as health_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tpuctl.engine.packing import problem as problems
    from tpuctl.model import fleet


_SPARED = "fits only into what is kept free as a spare"


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
    tenants: tenancy.Tenants = dataclasses.field(default_factory=tenancy.Tenants)
    """What is known of running slices; nobody is ended of whom nothing is known."""
    limits: preemption.Limits = dataclasses.field(default_factory=preemption.Limits)
    """How much may be disturbed for one request."""

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
    passes: bool = False
    """If true, it starts before somebody whose turn was earlier, who starts no later for it."""

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
    """No packing of this class places more after the classes above it, and with the same victims."""

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
    evictions: tuple[evicting.Eviction, ...] = ()
    """Running slices that have to end before some of the grants can be formed."""
    promise: promises.Promise | None = None
    """The first that has to wait, if it is known when it will fit."""


def pack(snapshot: fleet.Fleet, asked: Sequence[wishes.Wish], settings: Settings | None = None) -> Plan:
    """Place as much as possible beside what runs; only what may be ended is ended.

    Raises UsageError for requests that contradict each other, or are called like a slice that runs.
    """
    settings = settings or Settings()
    work = _Work(snapshot, asked, settings)
    chips = dict(settings.team_chips)
    reports = []
    for priority in sorted({unit.priority for unit in work.units}, reverse=True):
        members = fair.turns(
            (unit for unit in work.units if unit.priority == priority), settings.weights, chips
        )
        reports.append(_pack_class(work, priority, members))
        for unit in members:
            team = unit.first.team
            chips[team] = chips.get(team, 0) + work.space.chips_of(unit)
    known: dict[placement.Request, placement.Placement | placement.Refusal] = {}
    return Plan(
        grants=tuple(_grants(work)),
        left=tuple(_left(work, unit, known) for unit in work.units if not work.space.has(unit)),
        classes=tuple(reports),
        evictions=tuple(work.evictions),
        promise=work.promise,
    )


class _Work:
    """A plan in the making."""

    def __init__(self, snapshot: fleet.Fleet, asked: Sequence[wishes.Wish], settings: Settings) -> None:
        self.settings = settings
        self.units = wishes.units(asked)
        for unit in self.units:
            for name, _ in unit.members:
                if name in snapshot.slices_by_name:
                    raise errors.UsageError(
                        f"request {name}: there is a slice of this name already",
                        hint="give the request another name, or take it out of the file",
                    )
        tolerant = any(wish.allow_degraded for wish in asked)
        self.space = room.Room(snapshot, settings.policy, tolerant=tolerant)
        self.terms = all_terms.Terms(snapshot, settings.tenants, settings.limits, asked)
        self.evictions: list[evicting.Eviction] = []
        self.keeper: promises.Keeper | None = None
        self._spared: dict[object, bool] = {}

    def is_spared(self, unit: wishes.Unit) -> bool:
        """If true, nothing but what is kept free as a spare has room for it."""
        alike = _alike(unit)
        if alike not in self._spared:
            self._spared[alike] = self.space.fits_with_spares(unit)
        return self._spared[alike]

    @property
    def promise(self) -> promises.Promise | None:
        return None if self.keeper is None else self.keeper.promise


def _pack_class(work: _Work, priority: int, members: Sequence[wishes.Unit]) -> ClassReport:
    space, keep_free = work.space, work.settings.keep_free(priority)
    evicted_before = len(work.evictions)
    _fill_fragments(space, members)
    placed_before = sum(space.chips_of(unit) for unit in members)
    solution = _solve_rest(work, members, keep_free)
    if work.terms.speak:
        _use_terms(work, members, keep_free)
    placed = sum(space.chips_of(unit) for unit in members)
    bound = placed_before + solution.bound_hosts * topology.CHIPS_PER_HOST
    bound += sum(_most_chips(unit) for unit in members if _is_loose(space, unit))
    bound += sum(eviction.chips for eviction in work.evictions[evicted_before:])
    bound = min(bound, sum(map(_most_chips, members)))
    return ClassReport(
        priority=priority,
        method=solution.method,
        wanted_chips=sum(unit.chips() for unit in members),
        placed_chips=placed,
        bound_chips=max(bound, placed),
    )


def _solve_rest(work: _Work, members: Sequence[wishes.Unit], keep_free: int) -> problems.Solution:
    """Place what has no place yet; who is turned away leaves room for a second try without it."""
    space = work.space
    waiting = [unit for unit in members if not space.has(unit) and unit.number not in space.refused]
    solution = _solve_once(work, waiting, keep_free)
    if any(unit.number in space.refused for unit in waiting):
        rest = [unit for unit in waiting if not space.has(unit) and unit.number not in space.refused]
        _solve_once(work, rest, keep_free)
    _mop_up(space, members, keep_free)
    return solution


def _solve_once(work: _Work, waiting: Sequence[wishes.Unit], keep_free: int) -> problems.Solution:
    space = work.space
    sorted_out = sorting.sort_out(waiting, space)
    problem = sorted_out.problem(space.healthy(keep_free), space.degraded())
    solution = _solve(problem, sorted_out, work.settings)
    sorted_out.carry_out(space, solution)
    return solution


def _use_terms(work: _Work, members: Sequence[wishes.Unit], keep_free: int) -> None:
    """End who may be ended, then promise the first that is left a time, and let nobody put it off."""
    space, before = work.space, len(work.evictions)
    hopeless: set[object] = set()
    for unit in members:
        if not space.has(unit) and _alike(unit) not in hopeless:
            found = evicting.make_room(space, unit, work.terms, keep_free)
            if found is None:
                hopeless.add(_alike(unit))
            else:
                hopeless.clear()
                if found.victims:  # what ended for an earlier unit may have left room for this one too
                    work.evictions.append(found)
    if len(work.evictions) > before:
        _mop_up(space, members, keep_free)
    if work.keeper is None:
        hopeless.clear()
        for position, unit in enumerate(members):
            if not space.has(unit) and _alike(unit) not in hopeless:
                hopeless.add(_alike(unit))
                if _promise(work, unit, members[position + 1 :], keep_free):
                    break


def _promise(work: _Work, unit: wishes.Unit, later: Sequence[wishes.Unit], keep_free: int) -> bool:
    """Promise a unit a time, as if nobody came after it, and let in again whoever does not put it off."""
    space = work.space
    if not work.terms.ends(space, work.units):
        return False
    taken = [(other, space.take_back(other)) for other in later if space.has(other)]
    if space.way_that_fits(unit, keep_free) is None:
        granted = [other for other in work.units if space.has(other)]
        work.keeper = promises.promise(space, unit, granted, work.terms, work.settings.policy, keep_free)
        space.guard = work.keeper
    # What fits but for those who serve more chips has lost to them, and waits for nobody's end.
    turned_away = [other for other, spots in taken if not space.give_again(other, spots)]
    if turned_away:
        _solve_rest(work, later, keep_free)
    return work.keeper is not None


def _alike(unit: wishes.Unit) -> object:
    """Units of one class that are equal in this stand or fall alike."""
    shapes = tuple(unit.shapes(option) for option in range(unit.options))
    terms = tuple((wish.ends_at, wish.preemptible, wish.min_run_s) for wish in unit.wishes)
    return shapes, unit.same_block, unit.first.block, unit.tolerant, terms


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
    turned_away: set[object] = set()
    for unit in members:
        for option in range(unit.options):
            if space.has(unit):
                break
            placed = space.place_unit(unit, option, keep_free)
            if not placed and unit.number in space.refused and (_alike(unit), option) not in turned_away:
                turned_away.add((_alike(unit), option))
                _elsewhere(space, unit, option, keep_free)


def _elsewhere(space: room.Room, unit: wishes.Unit, option: int, keep_free: int) -> None:
    """Who is turned away from the best place may still be welcome in another block."""
    for block in space.blocks if unit.first.block is None else ():
        if space.place_unit(unit, option, keep_free, block):
            return


def _grants(work: _Work) -> Iterator[Grant]:
    for unit in work.units:
        for (name, index), spot in zip(unit.members, work.space.spots_of(unit), strict=False):
            yield Grant(
                slice_name=name,
                wish=unit.wishes[index],
                topology=spot.topology,
                block=spot.block,
                cubes=spot.cubes,
                partition_ids=spot.partition_ids,
                passes=work.keeper is not None and unit.number in work.keeper.passed,
            )


def _left(
    work: _Work,
    unit: wishes.Unit,
    known: dict[placement.Request, placement.Placement | placement.Refusal],
) -> Left:
    keep_free = work.settings.keep_free(unit.priority)
    was_refused = unit.number in work.space.refused
    if work.promise is not None and was_refused and work.space.way_that_fits(unit, keep_free) is not None:
        return Left(unit=unit, why=_delays(work.promise), refusal=None)
    largest = max(unit.shapes(0))
    if largest.is_sub_slice and not unit.is_gang:
        why = f"{largest} {_SPARED}" if work.is_spared(unit) else f"no partition {largest} is left"
        return Left(unit=unit, why=why, refusal=None)
    # It waits for the largest of its shapes that could ever fit.
    asked = [_asked(work, unit, max(unit.shapes(option)), known) for option in range(unit.options)]
    never = [str(found.topology) for found in asked if isinstance(found, placement.Refusal) and found.never]
    found = next((one for one in asked if not isinstance(one, placement.Refusal) or not one.never), asked[-1])
    if isinstance(found, placement.Refusal):
        not_ever = f"{' and '.join(never)} never {'fits' if len(never) == 1 else 'fit'}"
        lacks = f"{found.demand}, {found.usable} usable"
        if found.never:
            return Left(unit=unit, why=f"{not_ever}: {lacks}", refusal=found)
        lines = [f"{found.topology} does not fit now: {lacks}"]
        lines += [f"it {_SPARED}"] * work.is_spared(unit) + [not_ever] * bool(never)
        return Left(unit=unit, why="; ".join(lines), refusal=found)
    if work.is_spared(unit):
        return Left(unit=unit, why=f"the gang {_SPARED}", refusal=None)
    where = " in one block" if unit.same_block else ""
    return Left(unit=unit, why=f"its {len(unit.members)} slices do not fit all together{where}", refusal=None)


def _asked(
    work: _Work,
    unit: wishes.Unit,
    shape: topology.Topology,
    known: dict[placement.Request, placement.Placement | placement.Refusal],
) -> placement.Placement | placement.Refusal:
    """One slice of this shape, on what is left."""
    request = placement.Request(
        topology=shape,
        block=unit.first.block,
        allow_degraded=unit.tolerant,
        policy=work.settings.policy,
        keep_free=work.settings.keep_free(unit.priority),
    )
    if request not in known:
        known[request] = placement.place_in(work.space.index(tolerant=unit.tolerant), request)
    return known[request]


def _delays(promise: promises.Promise) -> str:
    head = promise.unit.members[0][0]
    when = promise.shadow.at.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"it would fit now, but {head}, whose turn is before, would start later than {when}"
