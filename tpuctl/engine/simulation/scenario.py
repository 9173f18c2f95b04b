"""What a run is about: the block, the way of placing, the order of the queue, failures and times.

The times of node pools and slices are those of the published case study of dynamic slicing; they are inputs,
not results.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.engine.availability import reliability, schedulable
from tpuctl.model import topology

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

_DAY_S = 86400


class Method(enum.StrEnum):
    """How a slice gets its cubes."""

    ANY_CUBE = "any cube"
    """Optical switches: any cubes of the block; a failed one is swapped."""
    CONTIGUOUS = "contiguous"
    """A fixed torus without optical switches: a box of neighbouring cubes."""
    STATIC_POOLS = "static pools"
    """Node pools made once; a job takes a whole pool, a failure stops a whole pool."""
    MAXIMIZER = "maximizer"
    """Node pools made and deleted by a loop: drop the unhealthy, merge, work down through smaller sizes."""


class Boxes(enum.StrEnum):
    """Which of the free boxes of a fixed torus a slice gets."""

    PACKED = "packed"
    """The first one from a corner on, so that large boxes stay free: the best that a fixed torus can do."""
    ANYWHERE = "anywhere"
    """Any one of them, drawn with equal chance: nobody looks at what is left."""


class Order(enum.StrEnum):
    """Who starts next."""

    FCFS = "first come first served"
    GREEDY = "greedy backfill"
    """Anybody who fits, oldest first: large jobs starve."""
    EASY = "easy backfill"
    """Anybody who fits and does not delay the oldest."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Times:
    """Durations in seconds, published as ranges; the defaults lie inside them."""

    form_s: int = 41
    """Making a slice: 20-60 s, 41 s for 2,048 chips."""
    swap_s: int = 210
    """Recovery by swapping a cube: 2-5 min."""
    start_s: int = 300
    """From a formed slice to useful work: start, compile, restore."""
    pool_s: int = 1200
    """Making a node pool: 10-30 min."""
    rebuild_s: int = 7200
    """Taking down and making again a pool with a failed host: hours."""
    loop_s: int = 1800
    """One round of the maximizer."""
    checkpoint_write_s: int = 60
    checkpoint_interval_s: int | None = None
    """None takes Young's interval for the size of the slice; without failures no checkpoints are made."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Maintenance:
    """Planned work on one cube after another."""

    every_s: int
    """Time between the starts of two cubes."""
    lasts_s: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scenario:
    """One run.

    Raises ValueError for a setting that makes no sense.
    """

    horizon_s: int
    cubes: int = topology.MAX_CUBES
    method: Method = Method.ANY_CUBE
    order: Order = Order.EASY
    boxes: Boxes = Boxes.PACKED
    """For the contiguous method."""
    times: Times = dataclasses.field(default_factory=Times)
    host_mtbf_s: float | None = None
    """Mean time between failures of one host, for Young's interval; None if nothing fails."""
    spares: int = 0
    """Cubes that only a swap may take."""
    estimate_factor: float = 1.0
    """What users say a job will last, relative to the truth: at least 1."""
    backfill_depth: int = 50
    """Waiting jobs of each shape that easy backfill looks at."""
    maintenance: Maintenance | None = None
    pools: tuple[int, ...] | None = None
    """Cubes of each static pool; None carves the block after Table 2."""

    def __post_init__(self) -> None:
        if self.horizon_s < 1 or self.cubes < 1 or self.estimate_factor < 1 or self.backfill_depth < 1:
            raise ValueError("horizon, cubes, estimate factor and backfill depth are at least 1")
        if not 0 <= self.spares < self.cubes:
            raise ValueError(f"{self.spares} spares of {self.cubes} cubes")
        if self.spares and self.method is not Method.ANY_CUBE:
            raise ValueError("only the any-cube method can use spare cubes")
        if self.method is Method.MAXIMIZER and self.order is not Order.GREEDY:
            raise ValueError("the maximizer serves whatever it can: greedy backfill")
        if self.pools is not None and (min(self.pools, default=0) < 1 or sum(self.pools) > self.cubes):
            raise ValueError(f"pools of {self.pools} cubes are not in a block of {self.cubes}")

    @property
    def hosts(self) -> int:
        return self.cubes * topology.HOSTS_PER_CUBE


class Fault(NamedTuple):
    """A host that fails, and for how long."""

    at_s: int
    host: int
    """Number in the block; cube = host // 16."""
    repair_s: int


def faults(
    rng: random.Random, cubes: int, host_mtbf_s: float, repair_s: float, *, steady: bool = False
) -> Iterator[Fault]:
    """Host failures in order of time, without end: independent hosts, exponential times and repairs.

    The same stream can be given to runs of several methods, so that they meet the same luck. If `steady`, the
    block is not new: as many hosts as on average are out when it begins.
    """
    hosts = cubes * topology.HOSTS_PER_CUBE
    for host in range(hosts) if steady else ():
        if rng.random() < repair_s / (host_mtbf_s + repair_s):
            yield Fault(0, host, max(1, round(rng.expovariate(1 / repair_s))))
    at_s = 0.0
    while True:
        at_s += rng.expovariate(hosts / host_mtbf_s)
        yield Fault(int(at_s), rng.randrange(hosts), max(1, round(rng.expovariate(1 / repair_s))))


class Outages(NamedTuple):
    """How often a host fails, and for how long it is then out, on average."""

    mtbf_s: float
    repair_s: float


def published_outages(out: float = schedulable.MACHINE_UNAVAILABILITY) -> Outages:
    """Hosts of TPU v4 (NSDI 2024): the published daily failure rate, and outages as long as `out` implies.

    `out` is the share of time that a host is not there. The published one, 0.782 %, means outages of 9.9
    days: repair queues and maintenance, not the failure rate, decide how much of a pod is there.
    """
    between_s = mtbf_s(reliability.DailyRates().machine)
    return Outages(between_s, between_s * out / (1 - out))


def mtbf_s(failures_per_host_day: float) -> float:
    """Mean time between failures of a host with a daily rate."""
    return _DAY_S / failures_per_host_day
