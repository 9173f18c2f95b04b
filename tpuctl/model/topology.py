"""Shapes of slices: parsing, the rules, and the units.

Rules are those of the Slice resource reference (GKE custom resource reference, `spec.topology`):
a slice of whole cubes is `AxBxC` chips, each dimension a multiple of 4, A <= B <= C, at most 9,216 chips;
a slice inside one cube is exactly one of 2x2x1, 2x2x2, 2x2x4, 2x4x4.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from typing import NamedTuple

from tpuctl.model import errors

CHIPS_PER_HOST = 4
HOSTS_PER_CUBE = 16
CHIPS_PER_CUBE = 64
CORES_PER_CHIP = 2
CUBE_EDGE_CHIPS = 4
MAX_CUBES = 144
"""Cubes in the largest slice: a whole block, 9,216 chips."""

_FORM = re.compile(r"[0-9]+(x[0-9]+)*", re.ASCII)
_DIMENSIONS = 3
_MAX_DIGITS = 6


class TopologyError(errors.UsageError):
    """A shape that no slice can have; the message names the rule and the hint the nearest legal shapes."""


class Topology(NamedTuple):
    """A legal slice shape in chips. Make one with `parse` or `of`, which check the rules."""

    a: int
    b: int
    c: int

    def __str__(self) -> str:
        return f"{self.a}x{self.b}x{self.c}"

    @property
    def chips(self) -> int:
        return self.a * self.b * self.c

    @property
    def hosts(self) -> int:
        """VMs, which is also pods: one pod runs on each host."""
        return self.chips // CHIPS_PER_HOST

    @property
    def cores(self) -> int:
        return self.chips * CORES_PER_CHIP

    @property
    def is_sub_slice(self) -> bool:
        """If true, the shape is smaller than a cube and is exactly one partition."""
        return self.chips < CHIPS_PER_CUBE

    @property
    def cubes(self) -> int:
        """Cubes it occupies: whole ones for a slice of cubes, 1 (shared) for a sub-slice."""
        return max(self.chips // CHIPS_PER_CUBE, 1)

    @property
    def partitions(self) -> int:
        """Entries that `spec.partitionIds` must have."""
        return self.cubes

    @property
    def accelerator_type(self) -> str:
        """The value of TPU_ACCELERATOR_TYPE: counted in cores, so 4x4x4 is `tpu7x-128`."""
        return f"tpu7x-{self.cores}"


CUBE = Topology(4, 4, 4)
SUB_SLICE_SHAPES = (Topology(2, 2, 1), Topology(2, 2, 2), Topology(2, 2, 4), Topology(2, 4, 4))
PARTITION_SHAPES = (*SUB_SLICE_SHAPES, CUBE)
"""Shapes that have partition ids, smallest first."""


def parse(text: str) -> Topology:
    """Read `AxBxC`.

    Raises TopologyError with the broken rule and the nearest legal shapes.
    """
    if not text:
        raise TopologyError("a topology is needed", hint="write it as AxBxC in chips, for example 4x4x8")
    if not _FORM.fullmatch(text):
        raise TopologyError(f"'{text}' is not a topology: {_why_malformed(text)}", hint=_hint_for(text))
    parts = text.split("x")
    if any(len(part) > 1 and part.startswith("0") for part in parts):
        raise TopologyError(f"'{text}' is not a topology: no leading zeros", hint=_hint_for(text))
    if any(len(part) > _MAX_DIGITS for part in parts):
        # Not a shape but a slip of the keyboard; numbers without end are not worth computing with.
        raise TopologyError(
            f"'{text[:40]}' is not allowed: more than one block has", hint="the largest are 9,216 chips"
        )
    return of(*(int(part) for part in parts))


def of(*dimensions: int) -> Topology:
    """Check dimensions in chips against the rules.

    Raises TopologyError with the broken rule and the nearest legal shapes.
    """
    rule = broken_rule(dimensions)
    if rule is not None:
        shown = "x".join(str(size) for size in dimensions)
        raise TopologyError(f"topology {shown} is not allowed: {rule}", hint=_suggest(dimensions))
    return Topology(*dimensions)


def broken_rule(dimensions: tuple[int, ...]) -> str | None:
    """The first rule that `dimensions` break, in words; None if they are legal."""
    if len(dimensions) != _DIMENSIONS:
        return f"three dimensions are needed, {len(dimensions)} given"
    if any(size < 1 for size in dimensions):
        return "every dimension must be at least 1"
    if dimensions in SUB_SLICE_SHAPES:
        return None
    if any(size % CUBE_EDGE_CHIPS for size in dimensions):
        small = ", ".join(str(shape) for shape in SUB_SLICE_SHAPES)
        return f"every dimension must be a multiple of {CUBE_EDGE_CHIPS} (or the shape one of {small})"
    if tuple(sorted(dimensions)) != dimensions:
        return "dimensions must not decrease from left to right"
    chips = math.prod(dimensions)
    if chips > MAX_CUBES * CHIPS_PER_CUBE:
        return f"{chips:,} chips are more than one block has ({MAX_CUBES * CHIPS_PER_CUBE:,})"
    return None


@functools.cache
def cube_shapes(max_cubes: int = MAX_CUBES, longest_edge_chips: int | None = None) -> tuple[Topology, ...]:
    """Every legal slice of whole cubes up to `max_cubes`, by chips, most cubic first among equals.

    `longest_edge_chips` leaves out longer ones: xpk's catalogue stops at 256, the Slice resource does not.
    """
    shapes = []
    for a in range(1, round(max_cubes ** (1 / 3)) + 1):
        for b in range(a, math.isqrt(max_cubes // a) + 1):
            shapes += [Topology(4 * a, 4 * b, 4 * c) for c in range(b, max_cubes // (a * b) + 1)]
    if longest_edge_chips is not None:
        shapes = [shape for shape in shapes if shape.c <= longest_edge_chips]
    return tuple(sorted(shapes, key=lambda shape: (shape.chips, shape.c - shape.a, shape)))


def nearest(dimensions: tuple[int, ...], limit: int = 3) -> tuple[Topology, ...]:
    """Legal shapes close to illegal `dimensions`, best first: same numbers in order, then rounded."""
    if not dimensions or max(dimensions) < 1:
        return ()
    ordered = sorted(max(size, 1) for size in dimensions)[-_DIMENSIONS:]
    padded = [min(CUBE_EDGE_CHIPS, ordered[0])] * (_DIMENSIONS - len(ordered)) + ordered
    found: list[Topology] = []
    for candidate in itertools.chain([tuple(padded)], _rounded(padded), _by_chips(padded)):
        canonical = tuple(sorted(candidate))
        for legal in (canonical, canonical[1:] + canonical[:1]):
            if broken_rule(legal) is None and legal not in found:
                found.append(Topology(*legal))
    return tuple(found[:limit])


def _rounded(dimensions: list[int]) -> list[tuple[int, ...]]:
    up = tuple(max(-(-size // CUBE_EDGE_CHIPS), 1) * CUBE_EDGE_CHIPS for size in dimensions)
    down = tuple(max(size // CUBE_EDGE_CHIPS, 1) * CUBE_EDGE_CHIPS for size in dimensions)
    return [up, down]


def _by_chips(dimensions: list[int]) -> list[Topology]:
    """The shape of about as many chips that is most alike, where rounding gives no legal one."""

    scale = math.log(min(MAX_CUBES * CHIPS_PER_CUBE / math.prod(dimensions), 1.0)) / _DIMENSIONS

    def distance(shape: Topology) -> tuple[int, float, Topology]:
        # Compared as ratios: 100x100x100 is most like a cube, 16x16x40 most like 16x16x36.
        unlike = sum(
            abs(math.log(mine / asked) - scale) for mine, asked in zip(shape, sorted(dimensions), strict=True)
        )
        return (abs(shape.chips - math.prod(dimensions)), unlike, shape)

    return sorted(cube_shapes(), key=distance)[:1]


def _suggest(dimensions: tuple[int, ...]) -> str | None:
    shapes = nearest(dimensions)
    return f"nearest legal shapes: {', '.join(str(shape) for shape in shapes)}" if shapes else None


def _why_malformed(text: str) -> str:
    if "X" in text:
        return "write a small x"
    if "-" in text:
        return "dimensions cannot be negative"
    return "write AxBxC in chips, for example 4x4x8"


def _hint_for(text: str) -> str | None:
    numbers = tuple(min(int(found), 10_000) for found in re.findall(r"[0-9]{1,9}", text, re.ASCII))
    return _suggest(numbers)
