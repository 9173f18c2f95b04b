"""What is asked for, and the units that are placed all or not at all."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.model import counts, errors, topology

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterator, Sequence


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wish:
    """One or several slices of one shape."""

    name: str
    shapes: tuple[topology.Topology, ...]
    """The shape wanted, then the ones to fall back on, in order."""
    count: int = 1
    """So many slices; each stands for itself unless they are a gang."""
    gang: str = ""
    """Wishes with the same word here are placed all together or not at all."""
    same_block: bool = False
    """If true, the whole gang must lie in one block."""
    priority: int = 0
    """Higher goes first, always."""
    team: str = ""
    preemptible: bool = False
    min_run_s: float = 0.0
    """Once started, it is left alone for so long."""
    ends_at: datetime.datetime | None = None
    """When it is expected to end."""
    allow_degraded: bool = False
    block: str | None = None
    """Id of the only block to look at."""

    @property
    def slice_names(self) -> tuple[str, ...]:
        """Names of its slices: the wish's own for one, numbered for several."""
        return (self.name,) if self.count == 1 else tuple(f"{self.name}-{i}" for i in range(self.count))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Unit:
    """Slices that are placed all or not at all."""

    number: int
    """In order of arrival."""
    wishes: tuple[Wish, ...]
    members: tuple[tuple[str, int], ...]
    """Name of each slice, and which of `wishes` it is for."""

    @property
    def first(self) -> Wish:
        return self.wishes[0]

    @property
    def priority(self) -> int:
        """A gang is as urgent as its least urgent member: it must not carry others past their turn."""
        return min(wish.priority for wish in self.wishes)

    @property
    def is_gang(self) -> bool:
        return len(self.members) > 1

    @property
    def same_block(self) -> bool:
        return self.is_gang and any(wish.same_block for wish in self.wishes)

    @property
    def tolerant(self) -> bool:
        """A gang takes degraded cubes only if every member does."""
        return all(wish.allow_degraded for wish in self.wishes)

    @property
    def options(self) -> int:
        """Ways to serve it: as wanted, and one for each step of falling back."""
        return max(len(wish.shapes) for wish in self.wishes)

    def shapes(self, option: int) -> tuple[topology.Topology, ...]:
        """The shape of each member; who has no further fallback stays at the last."""
        chosen = [wish.shapes[min(option, len(wish.shapes) - 1)] for wish in self.wishes]
        return tuple(chosen[index] for _, index in self.members)

    def chips(self, option: int = 0) -> int:
        return sum(shape.chips for shape in self.shapes(option))


def units(wishes: Sequence[Wish]) -> tuple[Unit, ...]:
    """Gangs become one unit each, everything else one unit a slice; in order of arrival.

    Raises UsageError for a count below 1, a name used twice, or a gang whose members name different blocks.
    """
    _check(wishes)
    return tuple(
        Unit(number=number, wishes=members, members=slices)
        for number, (members, slices) in enumerate(_grouped(wishes))
    )


def most_cubic(chips: int) -> topology.Topology:
    """The legal shape of so many chips with the shortest longest edge.

    Raises UsageError if there is none, naming the nearest numbers that have one.
    """
    shapes = (*topology.SUB_SLICE_SHAPES, *topology.cube_shapes())
    for shape in shapes:
        if shape.chips == chips:
            return shape
    below = max((shape.chips for shape in shapes if shape.chips < chips), default=None)
    above = min((shape.chips for shape in shapes if shape.chips > chips), default=None)
    near = [f"{number:,}" for number in (below, above) if number is not None]
    verb = "is" if len(near) == 1 else "are"
    raise errors.UsageError(
        f"no slice has exactly {counts.of(chips, 'chip')}", hint=f"the nearest {verb} {' and '.join(near)}"
    )


def _check(wishes: Sequence[Wish]) -> None:
    seen: set[str] = set()
    for wish in wishes:
        if wish.count < 1 or not wish.shapes:
            raise errors.UsageError(f"request {wish.name}: a count of at least 1 and a shape are needed")
        for name in wish.slice_names:
            if name in seen:
                raise errors.UsageError(f"two requests would make a slice {name}")
            seen.add(name)
    for gang in {wish.gang for wish in wishes if wish.gang}:
        blocks = {wish.block for wish in wishes if wish.gang == gang}
        if len(blocks) > 1:
            raise errors.UsageError(f"the members of gang {gang} name different blocks")


def _grouped(
    wishes: Sequence[Wish],
) -> Iterator[tuple[tuple[Wish, ...], tuple[tuple[str, int], ...]]]:
    done: set[str] = set()
    for wish in wishes:
        if not wish.gang:
            for name in wish.slice_names:
                yield (wish,), ((name, 0),)
        elif wish.gang not in done:
            done.add(wish.gang)
            members = tuple(other for other in wishes if other.gang == wish.gang)
            yield (
                members,
                tuple((name, index) for index, other in enumerate(members) for name in other.slice_names),
            )
