"""The published mix of slice shapes, and jobs drawn from it.

Table 2 of the TPU v4 paper (ISCA 2023): popularity of slices on one day of November 2022, rows of at least
0.1 %. Shapes of TPU v4 smaller than a host of TPU7x (1x1x1, 1x1x2, 1x2x2) become one host, 2x2x1.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.engine.fabric import twist
from tpuctl.model import topology

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable, Iterator

_TENTHS = 10
_DAY_S = 86400
V4_SUB_CUBE = ((1, 1, 1), (1, 1, 2), (1, 2, 2), (2, 2, 2), (2, 2, 4), (2, 4, 4))
"""Shapes inside one cube of TPU v4: meshes, without wrap-around."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """One row of the table."""

    dimensions: tuple[int, int, int]
    """In chips."""
    tenths: int
    """Tenths of a per cent of all slices."""
    twisted: bool = False

    @property
    def chips(self) -> int:
        return math.prod(self.dimensions)

    @property
    def percent(self) -> float:
        return self.tenths / _TENTHS

    @property
    def is_sub_cube(self) -> bool:
        return self.chips < topology.CHIPS_PER_CUBE

    @property
    def is_twistable(self) -> bool:
        return not self.is_sub_cube and twist.is_twistable(topology.of(*self.dimensions))

    @property
    def is_compact(self) -> bool:
        """If true, every dimension is 4 or 8."""
        return set(self.dimensions) <= {4, 8}

    @property
    def on_tpu7x(self) -> topology.Topology:
        """The shape with the granularity of TPU7x, whose smallest slice is a host."""
        if self.chips <= topology.CHIPS_PER_HOST:
            return topology.SUB_SLICE_SHAPES[0]
        return topology.of(*self.dimensions)


def _row(text: str, tenths: int, *, twisted: bool = False) -> Row:
    x, y, z = (int(part) for part in text.split("x"))
    return Row(dimensions=(x, y, z), tenths=tenths, twisted=twisted)


TABLE_2 = (
    _row("1x1x1", 21),
    _row("1x1x2", 4),
    _row("1x2x2", 67),
    _row("2x2x2", 47),
    _row("2x2x4", 64),
    _row("2x4x4", 89),
    _row("4x4x4", 139),
    _row("4x4x8", 160, twisted=True),
    _row("4x4x8", 15),
    _row("4x4x12", 7),
    _row("4x8x8", 92, twisted=True),
    _row("4x8x8", 15),
    _row("4x4x16", 10),
    _row("4x8x12", 1),
    _row("8x8x8", 96),
    _row("4x8x16", 17),
    _row("4x4x32", 6),
    _row("8x8x12", 7),
    _row("8x8x16", 18, twisted=True),
    _row("8x8x16", 14),
    _row("4x16x16", 3),
    _row("4x4x64", 1),
    _row("4x8x32", 1),
    _row("8x12x16", 1),
    _row("4x4x96", 1),
    _row("8x8x24", 1),
    _row("8x16x16", 14, twisted=True),
    _row("8x16x16", 3),
    _row("12x16x16", 57),
    _row("4x4x192", 4),
)


def broken_v4_rule(dimensions: tuple[int, ...]) -> str | None:
    """The rule of TPU v4 that a shape breaks, in words; None if it is legal there."""
    if dimensions in V4_SUB_CUBE:
        return None
    if tuple(sorted(dimensions)) != dimensions:
        return "dimensions must not decrease from left to right"
    if any(edge % topology.CUBE_EDGE_CHIPS or edge < 1 for edge in dimensions):
        return "a slice of whole cubes has multiples of 4"
    return (
        None if math.prod(dimensions) <= 64 * topology.CHIPS_PER_CUBE else "a pod of TPU v4 has 4,096 chips"
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Statistics:
    """Shares in per cent of all slices, unless a name says otherwise."""

    listed: float
    """Sum of the rows; the rest is a tail of rarer shapes and rounding."""
    sub_cube: float
    twistable: float
    twisted: float
    twisted_of_twistable: float
    twisted_of_whole_cubes: float
    compact: float
    """Every dimension 4 or 8."""
    mean_chips: float
    mean_cubes: float
    """Of slices of whole cubes."""


def statistics(rows: Iterable[Row] = TABLE_2) -> Statistics:
    """Classify every row."""
    rows = tuple(rows)
    listed = _tenths(rows, lambda _: True)
    whole = _tenths(rows, lambda row: not row.is_sub_cube)
    twistable = _tenths(rows, lambda row: row.is_twistable)
    twisted = _tenths(rows, lambda row: row.twisted)
    whole_chips = sum(row.tenths * row.chips for row in rows if not row.is_sub_cube)
    return Statistics(
        listed=listed / _TENTHS,
        sub_cube=(listed - whole) / _TENTHS,
        twistable=twistable / _TENTHS,
        twisted=twisted / _TENTHS,
        twisted_of_twistable=100 * twisted / twistable,
        # Rows below 0.1 % are not listed; the paper counts them with the slices of whole cubes.
        twisted_of_whole_cubes=100 * twisted / (100 * _TENTHS - (listed - whole)),
        compact=_tenths(rows, lambda row: row.is_compact) / _TENTHS,
        mean_chips=sum(row.tenths * row.chips for row in rows) / listed,
        mean_cubes=whole_chips / whole / topology.CHIPS_PER_CUBE,
    )


def band_percent(least_chips: int, most_chips: int) -> float:
    """Share of slices with a number of chips in a band, both ends included."""
    return _tenths(TABLE_2, lambda row: least_chips <= row.chips <= most_chips) / _TENTHS


def chip_share(chips: int) -> float:
    """Share of all chips that slices of this size hold, in per cent of the listed rows."""
    total = sum(row.tenths * row.chips for row in TABLE_2)
    return 100 * sum(row.tenths * row.chips for row in TABLE_2 if row.chips == chips) / total


def _tenths(rows: Iterable[Row], wanted: Callable[[Row], bool]) -> int:
    return sum(row.tenths for row in rows if wanted(row))


@functools.cache
def on_tpu7x() -> tuple[tuple[topology.Topology, int], ...]:
    """Shapes of TPU7x with their weights: twisted and regular rows of a shape are one."""
    weights: dict[topology.Topology, int] = {}
    for row in TABLE_2:
        weights[row.on_tpu7x] = weights.get(row.on_tpu7x, 0) + row.tenths
    return tuple(weights.items())


class Job(NamedTuple):
    """A wish for one slice for some time."""

    arrival_s: int
    topology: topology.Topology
    work_s: int
    """Seconds of useful running; start-up, checkpoints and lost work come on top."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Workload:
    """How jobs arrive and how long they last.

    Sizes follow Table 2. Durations are lognormal, with medians that grow with size as public traces show.
    Jobs that their owners cancel need no rule of their own: the durations of the traces contain them.
    """

    capacity_chips: int
    load: float = 1.0
    """Work offered, relative to capacity; above 1 the queue grows without end."""
    median_s: float = 3600.0
    """Median duration of a slice of one cube."""
    sigma: float = 2.0
    size_exponent: float = 0.7
    """Median duration grows with chips to this power; 0 makes sizes alike."""
    longest_s: int = 30 * _DAY_S
    daily_swing: float = 0.0
    """0 for steady arrivals; 0.5 for half as many more by day and fewer by night."""
    serving_share: float = 0.0
    """Share of the sub-slices that serve requests instead of running a job."""
    serving_mean_s: float = 7.0 * _DAY_S
    shapes: tuple[tuple[topology.Topology, int], ...] = dataclasses.field(default_factory=on_tpu7x)
    """Shapes and weights."""

    def median_of(self, shape: topology.Topology) -> float:
        return self.median_s * math.pow(shape.chips / topology.CHIPS_PER_CUBE, self.size_exponent)

    def mean_of(self, shape: topology.Topology) -> float:
        """Mean duration in seconds, cut at `longest_s`."""
        mean_s = _lognormal_mean(self.median_of(shape), self.sigma, self.longest_s)
        if not shape.is_sub_slice:
            return mean_s
        serving_s = self.serving_mean_s * -math.expm1(-self.longest_s / self.serving_mean_s)
        return self.serving_share * serving_s + (1 - self.serving_share) * mean_s

    @property
    def jobs_per_s(self) -> float:
        """Arrival rate that offers `load` times the capacity."""
        total = sum(weight for _, weight in self.shapes)
        chip_s = sum(weight * shape.chips * self.mean_of(shape) for shape, weight in self.shapes) / total
        return self.load * self.capacity_chips / chip_s


def jobs(rng: random.Random, workload: Workload) -> Iterator[Job]:
    """Jobs in order of arrival, without end.

    Poisson arrivals with a daily swing, drawn by thinning.
    """
    shapes = [shape for shape, _ in workload.shapes]
    steps = list(_running_sum(weight for _, weight in workload.shapes))
    peak_rate = workload.jobs_per_s * (1 + workload.daily_swing)
    at_s = 0.0
    while True:
        at_s += rng.expovariate(peak_rate)
        if workload.daily_swing and not _kept(rng, workload.daily_swing, at_s):
            continue
        shape = rng.choices(shapes, cum_weights=steps)[0]
        yield Job(int(at_s), shape, _duration_s(rng, workload, shape))


def _kept(rng: random.Random, swing: float, at_s: float) -> bool:
    now = 1 + swing * math.sin(2 * math.pi * at_s / _DAY_S)
    return rng.random() * (1 + swing) < now


def _duration_s(rng: random.Random, workload: Workload, shape: topology.Topology) -> int:
    if shape.is_sub_slice and workload.serving_share and rng.random() < workload.serving_share:
        drawn_s = rng.expovariate(1 / workload.serving_mean_s)
    else:
        drawn_s = rng.lognormvariate(math.log(workload.median_of(shape)), workload.sigma)
    return max(1, min(round(drawn_s), workload.longest_s))


def _lognormal_mean(median: float, sigma: float, longest: float) -> float:
    """E[min(X, longest)]."""
    if sigma == 0:
        return min(median, longest)
    z = math.log(longest / median) / sigma
    return median * math.exp(sigma * sigma / 2) * _normal_cdf(z - sigma) + longest * (1 - _normal_cdf(z))


def _normal_cdf(z: float) -> float:
    return (1 + math.erf(z / math.sqrt(2))) / 2


def _running_sum(numbers: Iterable[int]) -> Iterator[int]:
    total = 0
    for number in numbers:
        total += number
        yield total
