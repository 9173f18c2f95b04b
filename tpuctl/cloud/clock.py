"""The machine's clock: the only place that reads it or sleeps."""

from __future__ import annotations

import datetime
import time
from typing import Protocol

from tpuctl.ops import ports

SHORTEST_SLEEP_S = 0.02
"""Real seconds. On a simulator at high speed a scaled sleep would turn polling into a busy loop."""


class WallClock(ports.Clock, Protocol):
    """A clock that can also tell the time of day."""

    def now(self) -> datetime.datetime:
        """This machine's time; servers' own times are better evidence where they tell one."""
        ...


class SystemClock:
    """Time that runs `scale` times as fast as the machine's.

    Deadlines and waits of a context with a simulator count simulated seconds this way.
    """

    def __init__(self, scale: float = 1.0) -> None:
        self._scale = scale

    @property
    def scale(self) -> float:
        return self._scale

    def monotonic_s(self) -> float:
        """Seconds of the context since some fixed moment."""
        return time.monotonic() * self._scale

    def sleep(self, seconds: float) -> None:
        """Sleep `seconds` of the context, though never less than SHORTEST_SLEEP_S of the machine."""
        if seconds > 0:
            time.sleep(max(seconds / self._scale, SHORTEST_SLEEP_S))  # noqa: TID251 - its one home

    def now(self) -> datetime.datetime:
        return datetime.datetime.now(datetime.UTC)  # noqa: TID251 - its one home
