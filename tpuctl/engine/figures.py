"""Published figures beside our own numbers.

Each figure says where the published values come from, since some were read off a picture. A value that was
never published (another pod size, for example) has none, and the row says so by an empty cell.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from tpuctl.engine import mix
from tpuctl.engine.availability import goodput, schedulable
from tpuctl.engine.fabric import distance, twist
from tpuctl.model import topology

NAMES = ("isca4", "isca6", "nsdi1", "table2")
V4_POD_CUBES = 64


class UnknownFigureError(ValueError):
    """No figure of this name, or none for this pod size."""


class Point(NamedTuple):
    """One value of a figure."""

    label: str
    published: float | None
    """None where nothing was published."""
    ours: float

    @property
    def difference(self) -> float | None:
        """Ours less published."""
        return None if self.published is None else self.ours - self.published


@dataclasses.dataclass(frozen=True, kw_only=True)
class Figure:
    """Points of one figure, ready to print."""

    name: str
    title: str
    unit: str
    source: str
    """Where the published values come from, and how exact they are."""
    tolerance: float
    """Difference that the source allows."""
    points: tuple[Point, ...]
    decimals: int = 1
    notes: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        return ("what", "published", "ours", "difference")

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        return tuple(self._row(point) for point in self.points)

    @property
    def worst(self) -> float:
        """Largest difference in size; 0 if nothing was published."""
        return max(
            (abs(point.difference) for point in self.points if point.difference is not None), default=0.0
        )

    @property
    def agrees(self) -> bool:
        return self.worst <= self.tolerance

    def _row(self, point: Point) -> tuple[str, ...]:
        places = self.decimals
        published = "" if point.published is None else f"{point.published:.{places}f}"
        difference = (
            "" if point.difference is None else f"{round(point.difference, places) + 0.0:+.{places}f}"
        )
        return (point.label, published, f"{point.ours:.{places}f}", difference)


def figure(name: str, pod_cubes: int = V4_POD_CUBES) -> Figure:
    """The figure of this name.

    Raises UnknownFigureError for a name not in NAMES, or a pod size that is not positive.
    """
    if pod_cubes < 1:
        raise UnknownFigureError(f"a pod of {pod_cubes} cubes is not a pod")
    if name == "isca4":
        return goodput_figure(pod_cubes)
    if name == "isca6":
        return twist_figure()
    if name == "nsdi1":
        return schedulable_figure(pod_cubes)
    if name == "table2":
        return mix_figure()
    raise UnknownFigureError(f"no figure '{name}'; there are {', '.join(NAMES)}")


_READ_FROM_PICTURE = {
    (0.999, 1): 98.3,
    (0.999, 2): 97.3,
    (0.999, 4): 95.6,
    (0.999, 8): 91.6,
    (0.999, 16): 83.0,
    (0.999, 32): 66.7,
    (0.995, 1): 92.2,
    (0.995, 2): 91.3,
    (0.995, 4): 89.7,
    (0.995, 8): 86.6,
    (0.99, 2): 84.1,
    (0.99, 4): 82.6,
    (0.99, 8): 79.2,
    (0.99, 16): 74.6,
    # Stated in the text rather than read off: three slices of 1K, one of 2K, one of 3K.
    (0.995, 16): 75.0,
    (0.995, 32): 50.0,
    (0.99, 32): 50.0,
    (0.999, 48): 75.0,
    (0.995, 48): 75.0,
    (0.99, 48): 75.0,
}
_READ_STATIC = {(0.999, 4): 93.8, (0.99, 8): 27.6, (0.99, 32): 0.6}
_HOSTS = (0.999, 0.995, 0.99)


def goodput_figure(pod_cubes: int) -> Figure:
    """Figure 4 of ISCA 2023: goodput against slice size."""
    published = pod_cubes == V4_POD_CUBES
    points = []
    for host in _HOSTS:
        for cubes in _slice_sizes(pod_cubes):
            ours = goodput.closed_form(pod_cubes, cubes, host)
            read = _READ_FROM_PICTURE.get((host, cubes)) if published else None
            read_static = _READ_STATIC.get((host, cubes)) if published else None
            name = f"{cubes * topology.CHIPS_PER_CUBE} chips, hosts {100 * host:.1f} %"
            points += [Point(f"{name}, OCS", read, 100 * ours.switched)]
            points += [Point(f"{name}, static", read_static, 100 * ours.static)]
    note = "the picture ends at 2,048 chips" if published else "prediction: nothing is published for this pod"
    return Figure(
        name="isca4",
        title=f"Goodput by slice size and host availability, pod of {pod_cubes} cubes",
        unit="% of the pod",
        source="ISCA 2023, Figure 4: read off the picture, some values stated in the text",
        tolerance=1.5,
        points=tuple(points),
        notes=(note,),
    )


def _slice_sizes(pod_cubes: int) -> tuple[int, ...]:
    sizes = (1, 2, 4, 8, 16, 32, 48, 64, 72, 96, 128, pod_cubes)
    wanted = (1, 2, 4, 8, 16, 32, 48, 64) if pod_cubes == V4_POD_CUBES else sizes
    return tuple(sorted({size for size in wanted if size <= pod_cubes}))


_IDEAL_GAINS = (("4x4x8", 1.73), ("4x8x8", 1.39))
_UNPUBLISHED_GAINS = ("8x8x16", "8x16x16")


def twist_figure() -> Figure:
    """Figure 6 of ISCA 2023: all-to-all throughput of twisted against regular tori."""
    points = [
        Point(text, published, distance.twist_gain(topology.parse(text))) for text, published in _IDEAL_GAINS
    ]
    points += [Point(text, None, distance.twist_gain(topology.parse(text))) for text in _UNPUBLISHED_GAINS]
    return Figure(
        name="isca6",
        title="All-to-all throughput of the twisted torus relative to the regular one",
        unit="ratio",
        source="ISCA 2023, Figure 6: ideal 72.2 / 41.7 and 58.0 / 41.7 GB/s (measured: 1.63 and 1.31)",
        tolerance=0.02,
        decimals=3,
        points=tuple(points),
        notes=(twist.NOTE,),
    )


_WITH_ROUTES = (99, 99, 97, 93, 87, 78, 66, 51, 36, 22, 11, 5, 2, 1)
"""For 50 to 63 cubes."""
_WITHOUT_ROUTES = {50: 94, 52: 90, 54: 81, 56: 60, 58: 32, 60: 10, 62: 1}


def schedulable_figure(pod_cubes: int) -> Figure:
    """Figure 1 of NSDI 2024: the chance that a job of so many cubes can be scheduled."""
    published = pod_cubes == V4_POD_CUBES
    fabric = schedulable.fabric_availability(schedulable.SWITCH_AVAILABILITY, schedulable.SWITCHES)
    with_routes = dict(enumerate(_WITH_ROUTES, start=50)) if published else {}
    without = _WITHOUT_ROUTES if published else {}
    sizes = range(50, 64) if published else range(max(pod_cubes * 3 // 4, 1), pod_cubes + 1)
    points = [
        Point(f"{c} cubes", with_routes.get(c), 100 * schedulable.probability(c, pod_cubes=pod_cubes))
        for c in sizes
    ]
    points += [
        Point(
            f"{c} cubes, no fault-tolerant routes",
            without.get(c),
            100 * schedulable.probability(c, pod_cubes=pod_cubes, fabric=fabric),
        )
        for c in (without or sizes)
    ]
    return Figure(
        name="nsdi1",
        title=f"Chance that a job can be scheduled, pod of {pod_cubes} cubes",
        unit="%",
        source="NSDI 2024, Figure 1: read off by eye by a third party (+-2 points)",
        tolerance=2.0,
        points=tuple(points),
        notes=("machine and switch unavailability are fitted to this figure: 0.782 % and 0.129 %",)
        if published
        else ("prediction with the parameters fitted to the pod of 64 cubes",),
    )


_BANDS = (
    ("below a cube", 1, 63, 29),
    ("64 chips", 64, 64, 14),
    ("128-192 chips", 128, 192, 18),
    ("256-384 chips", 256, 384, 12),
    ("512-768 chips", 512, 768, 13),
    ("1024-1536 chips", 1024, 1536, 4),
    ("2048-3072 chips", 2048, 3072, 8),
)


def mix_figure() -> Figure:
    """Table 2 of ISCA 2023: our classification of its rows against the totals that the paper states."""
    found = mix.statistics()
    bands = [Point(label, share, mix.band_percent(low, high)) for label, low, high, share in _BANDS]
    stated = [
        Point("can be twisted", 33, found.twistable),
        Point("ran twisted", 28, found.twisted),
        Point("twisted, of those that can be", 86, found.twisted_of_twistable),
        Point("twisted, of those of whole cubes", 40, found.twisted_of_whole_cubes),
        Point("every dimension 4 or 8 (the paper says: half)", None, found.compact),
        Point("sum of the rows", None, found.listed),
    ]
    return Figure(
        name="table2",
        title="Popularity of slice shapes",
        unit="% of slices",
        source="ISCA 2023, Table 2 and section 2.9: printed totals, rounded to whole per cent",
        tolerance=0.5,
        points=tuple(bands + stated),
        notes=(
            "rows below 0.1 % are not published; the rows are renormalised where jobs are drawn",
            twist.NOTE,
        ),
    )
