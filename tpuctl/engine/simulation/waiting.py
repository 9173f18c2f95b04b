"""The queue, in one line for each shape: of jobs of one shape the oldest is always the one to try."""

from __future__ import annotations

import collections
import heapq
import operator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tpuctl.engine.simulation import kinds

_SERIAL = operator.attrgetter("serial")


class Waiting:
    """Jobs that wait, by shape, each line in order of arrival."""

    def __init__(self) -> None:
        self.lines: dict[int, collections.deque[kinds.Running]] = {}
        """Number of the kind -> its line; no empty lines."""
        self.count = 0

    def add(self, job: kinds.Running) -> None:
        """Put a job in its place by arrival; one that comes back after a failure keeps its turn."""
        line = self.lines.setdefault(job.kind.number, collections.deque())
        position = len(line)
        while position and line[position - 1].serial > job.serial:
            position -= 1
        line.insert(position, job)
        self.count += 1

    def remove(self, number: int, position: int = 0) -> None:
        """Take one out of a line."""
        line = self.lines[number]
        del line[position]
        self.count -= 1
        if not line:
            del self.lines[number]

    def oldest(self) -> kinds.Running:
        """The job that came first; there must be one."""
        return min((line[0] for line in self.lines.values()), key=_SERIAL)

    def kinds_waiting(self) -> list[kinds.Kind]:
        """One of each, smallest first."""
        return [self.lines[number][0].kind for number in sorted(self.lines)]

    def in_order(self) -> Iterator[kinds.Running]:
        """All of them, oldest first."""
        return heapq.merge(*self.lines.values(), key=_SERIAL)
