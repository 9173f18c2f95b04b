"""Simulated time: a calendar of things that will happen.

Nothing in the simulator reads the machine's clock but this file. A clock either follows real time at
some speed, or stands still until somebody calls `advance`; both run due entries in order of time, then
of arrival, so that the same calls give the same history.
"""

from __future__ import annotations

import dataclasses
import datetime
import heapq
import itertools
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

EPOCH = datetime.datetime(2026, 1, 5, 8, 0, 0, tzinfo=datetime.UTC)
"""Where a clock without another start stands: fixed, so that a seed alone decides a run."""


@dataclasses.dataclass
class Timer:
    """An entry in the calendar; `cancel` makes it a no-op."""

    due_s: float
    callback: Callable[[], None] | None

    def cancel(self) -> None:
        self.callback = None


class Clock:
    """Virtual time in seconds since `start`.

    `speed` is simulated seconds for each real second; 0 means: only `advance` moves time.
    Call it from one thread only (the server's).
    """

    def __init__(
        self,
        *,
        speed: float = 0.0,
        start: datetime.datetime = EPOCH,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.start = start
        self._speed = speed
        self._monotonic = monotonic
        self._anchor_real_s = monotonic()
        self._anchor_s = 0.0
        self._now_s = 0.0
        self._calendar: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()

    @property
    def speed(self) -> float:
        return self._speed

    @property
    def now_s(self) -> float:
        """Seconds of simulated time since `start`."""
        return self._now_s

    def now(self) -> datetime.datetime:
        return self.start + datetime.timedelta(seconds=self._now_s)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Run `callback` once, `delay_s` simulated seconds from now (negative counts as zero)."""
        timer = Timer(self._now_s + max(delay_s, 0.0), callback)
        heapq.heappush(self._calendar, (timer.due_s, next(self._order), timer))
        return timer

    def advance(self, seconds: float) -> None:
        """Move time forward by `seconds`, running everything that falls due on the way."""
        if seconds < 0:
            raise ValueError("time does not run backwards")
        self._run_until(self._now_s + seconds)
        self._anchor_real_s, self._anchor_s = self._monotonic(), self._now_s

    def catch_up(self) -> None:
        """Bring a clock with a speed up to the present; the server calls it before each request."""
        if self._speed > 0:
            elapsed_s = self._monotonic() - self._anchor_real_s
            self._run_until(self._anchor_s + elapsed_s * self._speed)

    def set_speed(self, speed: float) -> None:
        self.catch_up()
        self._anchor_real_s, self._anchor_s = self._monotonic(), self._now_s
        self._speed = speed

    def next_due_s(self) -> float | None:
        """When the next entry falls due, in simulated seconds since `start`; None if nothing is planned."""
        while self._calendar and self._calendar[0][2].callback is None:
            heapq.heappop(self._calendar)
        return self._calendar[0][0] if self._calendar else None

    def real_s_until(self, due_s: float) -> float | None:
        """Real seconds until simulated `due_s`; None if the clock stands still."""
        if self._speed <= 0:
            return None
        target_real_s = self._anchor_real_s + (due_s - self._anchor_s) / self._speed
        return max(target_real_s - self._monotonic(), 0.0)

    def _run_until(self, end_s: float) -> None:
        while (due_s := self.next_due_s()) is not None and due_s <= end_s:
            timer = heapq.heappop(self._calendar)[2]
            self._now_s = max(self._now_s, due_s)
            callback, timer.callback = timer.callback, None
            if callback is not None:
                callback()
        self._now_s = max(self._now_s, end_s)
