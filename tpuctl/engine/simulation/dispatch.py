"""Who starts next: the three orders of the queue.

`some_fit` says whether a waiting job would fit if the order allowed it: the difference between capacity that
is idle by choice and capacity that is stranded.
"""

from __future__ import annotations

import heapq
import itertools
from typing import TYPE_CHECKING, Protocol

from tpuctl.engine.simulation import floor, scenario

if TYPE_CHECKING:
    from collections.abc import Callable

    from tpuctl.engine.simulation import kinds, placer, waiting


class Dispatcher(Protocol):
    """An order. `start` has been told of every job that got its cubes."""

    some_fit: bool

    def arrived(self, job: kinds.Running, now_s: int) -> None:
        """A new job: start it or put it into the queue."""

    def changed(self, now_s: int) -> None:
        """Cubes became free, or fewer: start whoever may."""


class Fcfs:
    """Strictly in order of arrival."""

    def __init__(
        self, block: placer.Placer, queue: waiting.Waiting, start: Callable[[kinds.Running], None]
    ) -> None:
        self.block = block
        self.queue = queue
        self.start = start
        self.some_fit = False

    def arrived(self, job: kinds.Running, now_s: int) -> None:
        if not self.queue.count and self.block.place(job):
            self.start(job)
            return
        self.queue.add(job)
        # The oldest does not fit, or it would have started; a later one may.
        self.some_fit = self.some_fit or (self.queue.count > 1 and self.block.fits(job.kind))
        self.queued(now_s)

    def queued(self, now_s: int) -> None:
        """For orders that keep a reservation for the oldest."""

    def changed(self, now_s: int) -> None:  # noqa: ARG002 (order alone decides here)
        while self.queue.count:
            oldest = self.queue.oldest()
            if not self.block.place(oldest):
                break
            self.queue.remove(oldest.kind.number)
            self.start(oldest)
        self.look()

    def look(self) -> None:
        """Find out whether anybody who waits would fit; with nothing free it does not matter."""
        self.some_fit = self.block.free_hosts > 0 and any(
            self.block.fits(kind) for kind in self.queue.kinds_waiting()
        )


class Greedy(Fcfs):
    """Whoever fits, oldest first. Afterwards nobody who waits fits."""

    def arrived(self, job: kinds.Running, now_s: int) -> None:  # noqa: ARG002 (time does not matter here)
        if self.block.may_fit(job.kind) and self.block.place(job):
            self.start(job)
        else:
            self.queue.add(job)

    def changed(self, now_s: int) -> None:  # noqa: ARG002 (time does not matter here)
        lines = self.queue.lines
        fronts = [
            (line[0].serial, number) for number, line in lines.items() if self.block.may_fit(line[0].kind)
        ]
        heapq.heapify(fronts)
        while fronts:
            _, number = heapq.heappop(fronts)
            job = lines[number][0]
            if not self.block.place(job):
                continue
            self.queue.remove(number)
            self.start(job)
            if number in lines:
                heapq.heappush(fronts, (lines[number][0].serial, number))


class Easy(Fcfs):
    """Whoever fits, if the oldest starts no later for it.

    The oldest has a reservation: a time and cubes. Another job may start if it ends before that time, or
    takes none of those cubes.
    """

    def __init__(
        self,
        block: placer.Placer,
        queue: waiting.Waiting,
        start: Callable[[kinds.Running], None],
        running: dict[int, kinds.Running],
        settings: scenario.Scenario,
    ) -> None:
        super().__init__(block, queue, start)
        self.running = running
        self.depth = settings.backfill_depth
        self.factor = settings.estimate_factor
        self.reserved_s = floor.FOREVER
        self.reserved = 0

    def arrived(self, job: kinds.Running, now_s: int) -> None:
        if self.queue.count and self.block.may_fit(job.kind) and self._backfill(job, now_s):
            self.start(job)
            if self.some_fit:
                self.look()
        else:
            super().arrived(job, now_s)

    def queued(self, now_s: int) -> None:
        if self.queue.count == 1:
            self._reserve(now_s)

    def changed(self, now_s: int) -> None:
        super().changed(now_s)
        if not self.queue.count:
            return
        self._reserve(now_s)
        if self.some_fit:
            self._backfill_all(now_s)
            self.look()

    def _reserve(self, now_s: int) -> None:
        kind = self.queue.oldest().kind
        self.reserved_s, self.reserved = self.block.earliest(kind, self.running.values(), now_s)

    def _backfill(self, job: kinds.Running, now_s: int) -> bool:
        """Place one job, if it does not delay the oldest."""
        if self._is_short(job, now_s):
            return self.block.place(job)
        return self.block.place(job, self.reserved)

    def _is_short(self, job: kinds.Running, now_s: int) -> bool:
        return job.wall_s <= (self.reserved_s - now_s) / self.factor

    def _backfill_all(self, now_s: int) -> None:
        """Oldest first over all shapes; a shape drops out when nothing of it can be placed any more."""
        lines = self.queue.lines
        only_short: set[int] = set()
        """Shapes of which nothing fits outside the reservation."""
        fronts = [
            (line[0].serial, number, 0) for number, line in lines.items() if self.block.may_fit(line[0].kind)
        ]
        heapq.heapify(fronts)
        while fronts:
            _, number, position = heapq.heappop(fronts)
            job = lines[number][position]
            short = self._is_short(job, now_s)
            if self._backfill(job, now_s):
                self.queue.remove(number, position)
                self.start(job)
            elif short:
                continue
            else:
                only_short.add(number)
                position += 1
            if number in lines:
                position = self._next_candidate(number, position, now_s, only_short)
                if position >= 0:
                    heapq.heappush(fronts, (lines[number][position].serial, number, position))

    def _next_candidate(self, number: int, position: int, now_s: int, only_short: set[int]) -> int:
        """Position in a line of the next job worth trying, from `position` on; -1 if there is none."""
        line = self.queue.lines[number]
        if number not in only_short:
            return position if position < min(len(line), self.depth) else -1
        longest_s = (self.reserved_s - now_s) / self.factor
        for index, job in enumerate(itertools.islice(line, position, self.depth), position):
            if job.wall_s <= longest_s:
                return index
        return -1


def dispatcher(
    settings: scenario.Scenario,
    block: placer.Placer,
    queue: waiting.Waiting,
    start: Callable[[kinds.Running], None],
    running: dict[int, kinds.Running],
) -> Dispatcher:
    """The dispatcher for the order that the scenario names."""
    if settings.order is scenario.Order.FCFS:
        return Fcfs(block, queue, start)
    if settings.order is scenario.Order.GREEDY:
        return Greedy(block, queue, start)
    return Easy(block, queue, start, running, settings)
