"""Spans of time as people write and read them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tpuctl.model import errors

if TYPE_CHECKING:
    import datetime

_UNITS_S = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_FORM = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhd]?)", re.ASCII)
_TWO_UNITS = 10
"""Below so many of a larger unit the smaller one is shown beside it."""


class Duration(float):
    """Seconds, read from text such as `90`, `90s`, `10m` or `2h`."""

    def __str__(self) -> str:
        return short(self)


def parse(text: str | float) -> Duration:
    """Seconds for `text`; raises UsageError if it is no span of time."""
    found = _FORM.fullmatch(str(text))
    if found is None:
        raise errors.UsageError(f"'{text}' is not a span of time", hint="write for example 90s, 10m or 2h")
    return Duration(float(found[1]) * _UNITS_S[found[2]])


def short(seconds: float) -> str:
    """`41s`, `3m20s`, `25m`, `2h5m`, `3d`: two units while the larger one is small."""
    whole = max(round(seconds), 0)
    for size, unit, smaller_size, smaller in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "m"),
        (60, "m", 1, "s"),
    ):
        if whole >= size:
            large, rest = divmod(whole, size)
            small = rest // smaller_size
            return f"{large}{unit}{small}{smaller}" if large < _TWO_UNITS and small else f"{large}{unit}"
    return f"{whole}s"


def age(now: datetime.datetime, then: datetime.datetime | None) -> str | None:
    """How long ago `then` was; None if that is not known."""
    return None if then is None else short((now - then).total_seconds())
