"""Numbers and times as people read them; what is remembered must not change from cycle to cycle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.model import counts

if TYPE_CHECKING:
    import datetime
    from collections.abc import Sequence

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400
_SHOWN = 3
count = counts.of


def listed(names: Sequence[str]) -> str:
    """The first few, and how many more."""
    shown = ", ".join(names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def time(moment: datetime.datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def duration(seconds: float) -> str:
    """`45 s`, `5 min`, `1.5 h`, `2 d`."""
    for unit_s, word in ((_DAY_S, "d"), (_HOUR_S, "h"), (_MINUTE_S, "min")):
        if seconds >= unit_s:
            return f"{round(seconds / unit_s, 1):g} {word}"
    return f"{seconds:g} s"
