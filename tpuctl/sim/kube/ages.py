"""Ages as the API server prints them: `45s`, `5m12s`, `3h2m`, `2d3h`, `45d`, `2y9d`.

The longer ago, the coarser: two units at most, and one as soon as the smaller says little. Source: what
kubectl shows against a real server.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools

MINUTE_S = 60
HOUR_S = 60 * MINUTE_S
DAY_S = 24 * HOUR_S
YEAR_S = 365 * DAY_S

UNKNOWN = "<unknown>"
INVALID = "<invalid>"


@dataclasses.dataclass(frozen=True)
class _Band:
    """How to write durations shorter than `below_s`: in `unit_s`, with the rest in `rest_s` if given."""

    below_s: float
    unit_s: int
    unit: str
    rest_s: int = 0
    rest: str = ""

    def text(self, seconds: int) -> str:
        whole, left_s = divmod(seconds, self.unit_s)
        left = left_s // self.rest_s if self.rest_s else 0
        return f"{whole}{self.unit}{left}{self.rest}" if left else f"{whole}{self.unit}"


_BANDS = (
    _Band(2 * MINUTE_S, 1, "s"),
    _Band(10 * MINUTE_S, MINUTE_S, "m", 1, "s"),
    _Band(3 * HOUR_S, MINUTE_S, "m"),
    _Band(8 * HOUR_S, HOUR_S, "h", MINUTE_S, "m"),
    _Band(2 * DAY_S, HOUR_S, "h"),
    _Band(8 * DAY_S, DAY_S, "d", HOUR_S, "h"),
    _Band(2 * YEAR_S, DAY_S, "d"),
    _Band(8 * YEAR_S, YEAR_S, "y", DAY_S, "d"),
    _Band(float("inf"), YEAR_S, "y"),
)


def duration(seconds: float) -> str:
    """`seconds` as people read them; a start up to two seconds ahead counts as now, others as invalid."""
    whole = int(seconds)
    if whole < -1:
        return INVALID
    whole = max(whole, 0)
    return next(band for band in _BANDS if whole < band.below_s).text(whole)


@functools.lru_cache(maxsize=65_536)
def parse(stamp: str) -> datetime.datetime | None:
    """Read an RFC 3339 time; None if it is not one."""
    try:
        time = datetime.datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return time if time.tzinfo else None


def between(start: str, end: str) -> str:
    """Time from one stamp to another."""
    first, last = parse(start), parse(end)
    return duration((last - first).total_seconds()) if first and last else INVALID


def since(stamp: str | None, now: datetime.datetime) -> str:
    """Age of a stamp at `now`; a missing stamp has an unknown age."""
    if not stamp:
        return UNKNOWN
    start = parse(stamp)
    return duration((now - start).total_seconds()) if start else INVALID
