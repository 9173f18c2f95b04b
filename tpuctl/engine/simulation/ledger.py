"""Where the chip-time went. Integers only, so that the books balance exactly."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from tpuctl.model import topology


class Unbalanced(AssertionError):
    """The classes do not add up to the capacity: a bug of the simulation, never an answer."""


class Segment(NamedTuple):
    """A run of a job between two events, in seconds of wall clock; the four parts add up to its length."""

    productive_s: int
    checkpoint_s: int
    restart_s: int
    lost_s: int


@dataclasses.dataclass(kw_only=True)
class Ledger:
    """Host-seconds by class."""

    productive: int = 0
    """Work that was kept."""
    checkpoint: int = 0
    restart: int = 0
    """Forming, starting, swapping, restoring; for pools also the time in which they are made."""
    lost_work: int = 0
    """Work after the last checkpoint before a failure."""
    queue_idle: int = 0
    """Free and usable: nobody waits, or the order of the queue holds it back."""
    stranded: int = 0
    """Free and unusable: nobody who waits fits, the rest of the cube is broken, or the pool is too large."""
    spare: int = 0
    broken: int = 0
    drained: int = 0
    """Free, and kept free for maintenance to come."""
    maintenance: int = 0

    def add_segment(self, segment: Segment, hosts: int) -> None:
        self.productive += segment.productive_s * hosts
        self.checkpoint += segment.checkpoint_s * hosts
        self.restart += segment.restart_s * hosts
        self.lost_work += segment.lost_s * hosts

    def close(self, capacity_host_s: int) -> Balance:
        """The final books.

        Raises Unbalanced if a host-second is missing or counted twice.
        """
        counted = dataclasses.asdict(self)
        if sum(counted.values()) != capacity_host_s or min(counted.values()) < 0:
            raise Unbalanced(f"{counted} do not add up to {capacity_host_s}")
        return Balance({name: hosts * topology.CHIPS_PER_HOST for name, hosts in counted.items()})


class Balance(NamedTuple):
    """Closed books."""

    chip_s: dict[str, int]
    """Chip-seconds by class; the classes are the fields of `Ledger`."""

    @property
    def total_chip_s(self) -> int:
        return sum(self.chip_s.values())

    def share(self, name: str) -> float:
        return self.chip_s[name] / self.total_chip_s if self.total_chip_s else 0.0

    @property
    def goodput(self) -> float:
        """Kept work over everything that was paid for."""
        return self.share("productive")


def segment_of(elapsed_s: int, startup_s: int, interval_s: int, write_s: int, *, failed: bool) -> Segment:
    """Divide a run that ends after `elapsed_s`.

    Work is done in rounds of `interval_s` followed by a checkpoint of `write_s`; `interval_s` 0 makes none.
    If it failed, only finished rounds are kept; if not, everything is.
    """
    restart_s = min(elapsed_s, startup_s)
    running_s = elapsed_s - restart_s
    if not interval_s:
        return Segment(0, 0, restart_s, running_s) if failed else Segment(running_s, 0, restart_s, 0)
    rounds, rest_s = divmod(running_s, interval_s + write_s)
    open_work_s = min(rest_s, interval_s)
    checkpoint_s = rounds * write_s + rest_s - open_work_s
    kept_s = rounds * interval_s
    if failed:
        return Segment(kept_s, checkpoint_s, restart_s, open_work_s)
    return Segment(kept_s + open_work_s, checkpoint_s, restart_s, 0)


def wall_s(work_s: int, startup_s: int, interval_s: int, write_s: int) -> int:
    """Time that a run without failure takes; no checkpoint is made after the end."""
    checkpoints = (work_s - 1) // interval_s if interval_s and work_s else 0
    return startup_s + work_s + checkpoints * write_s
