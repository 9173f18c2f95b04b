"""What a run needs of whatever places jobs: `indexed`, `grid` and `pools` are the answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tpuctl.engine.simulation import kinds


class Placer(Protocol):
    """A block. The counters are hosts that no job holds, by reason."""

    swaps: bool
    spares: int
    free_hosts: int
    stranded_hosts: int
    broken_hosts: int
    drained_hosts: int
    away_hosts: int
    forming_hosts: int
    closed: set[int]
    back_at: dict[int, int]
    timers: list[tuple[int, int]]

    def can_ever(self, kind: kinds.Kind) -> bool:
        """If false, not even an empty block has room."""

    def may_fit(self, kind: kinds.Kind) -> bool:
        """A cheap test: if false, it does not fit now."""

    def fits(self, kind: kinds.Kind) -> bool:
        """The exact test."""

    def place(self, job: kinds.Running, avoid: int = 0) -> bool:
        """Give the job cubes, none of the bit set `avoid`; false changes nothing."""

    def release(self, job: kinds.Running) -> None:
        """Take the cubes of a job back."""

    def earliest(self, kind: kinds.Kind, running: Iterable[kinds.Running], now_s: int) -> tuple[int, int]:
        """When it can start at the latest if nobody else comes, and the cubes to keep for it."""

    def is_out(self, host: int) -> bool:
        """If true, the host is broken or in maintenance."""

    def fail(self, host: int) -> bool:
        """Break a host that no job holds; false if it is out already."""

    def repair(self, host: int) -> None:
        """Undo `fail`."""

    def replace(self, job: kinds.Running, host: int) -> bool:
        """Swap the cube of `host` out of the job's slice; false if that is not possible."""

    def blast_hosts(self, host: int, job: kinds.Running | None) -> int:
        """Hosts that a failure of `host` takes out of service."""

    def close(self, cube: int) -> None:
        """Give the cube to nobody new: maintenance is due."""

    def due(self, held: set[int]) -> list[int]:
        """Closed cubes that are not among those held."""

    def leave(self, cube: int) -> None:
        """Begin maintenance of a closed cube."""

    def come_back(self, cube: int) -> None:
        """End it."""

    def ready(self, number: int) -> None:
        """A timer of `timers` has run out."""
