"""Times as Google's REST APIs write them."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tpuctl.sim import clock as clocks


def rfc3339(clock: clocks.Clock, at_s: float | None = None) -> str:
    """Return a simulated time (seconds since the clock's start; default: now) in UTC with microseconds."""
    seconds = clock.now_s if at_s is None else at_s
    moment = clock.start + datetime.timedelta(seconds=seconds)
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
