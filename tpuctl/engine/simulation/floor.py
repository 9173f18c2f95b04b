"""The cubes of a block, and who stands where: the any-cube method.

Counters are kept in hosts. They always satisfy
held + free + stranded + broken + drained + away = all hosts, with `held` counted by the run itself.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from tpuctl.model import topology

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tpuctl.engine.simulation import kinds

_HOSTS = topology.HOSTS_PER_CUBE
_ALL = (1 << _HOSTS) - 1
FOREVER = 1 << 62
"""Later than any time of a run."""


class Floor:
    """Cubes by number. Sub-slices take aligned groups of hosts inside a cube, like the partition tree."""

    swaps = True
    """If true, a failed cube of a slice can be replaced while the slice is kept."""

    def __init__(self, cubes: int, spares: int = 0) -> None:
        self.cubes = cubes
        self.spares = spares
        self.empty: list[int] = list(range(cubes - 1, -1, -1))
        """Cubes that are whole, healthy, open and free."""
        self.shared: dict[int, int] = {}
        """Cube -> hosts held by sub-slices."""
        self.broken: dict[int, int] = {}
        """Cube -> hosts that are broken."""
        self.closed: set[int] = set()
        """Cubes that wait for maintenance."""
        self.away: set[int] = set()
        """Cubes in maintenance."""
        self.back_at: dict[int, int] = {}
        """Cube -> when it is expected to be whole again."""
        self.free_hosts = cubes * _HOSTS
        self.stranded_hosts = self.broken_hosts = self.drained_hosts = self.away_hosts = 0
        self.forming_hosts = 0
        self.timers: list[tuple[int, int]] = []
        """Always empty: only pools need time to be made."""

    # What fits

    def can_ever(self, kind: kinds.Kind) -> bool:
        return kind.cubes <= self.cubes - self.spares

    def may_fit(self, kind: kinds.Kind) -> bool:
        """If false, it does not fit now; a cheap test for the inner loop, exact for whole cubes."""
        if kind.cubes:
            return kind.cubes <= len(self.empty) - self.spares
        return bool(self.shared or self.broken) or len(self.empty) > self.spares

    def fits(self, kind: kinds.Kind) -> bool:
        if kind.cubes:
            return kind.cubes <= len(self.empty) - self.spares
        return len(self.empty) > self.spares or self._best_part(kind.hosts, 0) is not None

    def place(self, job: kinds.Running, avoid: int = 0) -> bool:
        """Give the job its cubes, none of those in the bit set `avoid`; false changes nothing."""
        kind = job.kind
        if not kind.cubes:
            return self._place_part(job, avoid)
        chosen = self._choose(kind, avoid)
        if not chosen:
            return False
        job.cubes = chosen
        self.free_hosts -= kind.hosts
        return True

    def release(self, job: kinds.Running) -> None:
        """Take the cubes back."""
        kind = job.kind
        if kind.cubes:
            if self.closed:
                self._release_one_by_one(job.cubes)
            else:
                self._return(job.cubes)
                self.free_hosts += _HOSTS * len(job.cubes)
        else:
            self._release_part(job)
        job.cubes = ()
        job.hosts_mask = 0

    def _choose(self, kind: kinds.Kind, avoid: int) -> kinds.Cubes:
        """Empty cubes for a slice of whole cubes, taken off `empty`; none if there are too few."""
        empty, count = self.empty, kind.cubes
        if count > len(empty) - self.spares:
            return ()
        if not avoid:
            chosen = tuple(empty[-count:])
            del empty[-count:]
            return chosen
        chosen = tuple([cube for cube in empty if not avoid >> cube & 1][-count:])
        if len(chosen) < count:
            return ()
        self._take(chosen)
        return chosen

    def _take(self, cubes: Iterable[int]) -> None:
        for cube in cubes:
            self.empty.remove(cube)

    def _return(self, cubes: Iterable[int]) -> None:
        self.empty.extend(cubes)

    # Sub-slices

    def _place_part(self, job: kinds.Running, avoid: int) -> bool:
        hosts = job.kind.hosts
        cube = self._best_part(hosts, avoid)
        if cube is None:
            cube = self._open_cube(avoid)
        if cube is None:
            return False
        before = self._parts(cube)
        mask = slot(before[0] | before[1], hosts)
        self._book(cube, -1)
        self.shared[cube] = before[0] | mask
        self._book(cube, +1)
        job.cubes = (cube,)
        job.hosts_mask = mask
        return True

    def _best_part(self, hosts: int, avoid: int) -> int | None:
        """By the same rule as the engine's index: broken cubes first, since nobody else can use them."""
        best: tuple[bool, int, int, int] | None = None
        for cube in {**self.broken, **self.shared}:
            held, broken = self._parts(cube)
            barred = cube in self.closed or cube in self.away or avoid >> cube & 1
            if barred or not slot(held | broken, hosts):
                continue
            rank = (broken == 0, -held.bit_count(), -(held | broken).bit_count(), cube)
            best = rank if best is None or rank < best else best
        return None if best is None else best[3]

    def _open_cube(self, avoid: int) -> int | None:
        if len(self.empty) <= self.spares:
            return None
        cube = next((cube for cube in reversed(self.empty) if not avoid >> cube & 1), None)
        if cube is not None:
            self._take((cube,))
        return cube

    def _release_part(self, job: kinds.Running) -> None:
        (cube,) = job.cubes
        self._book(cube, -1)
        left = self.shared[cube] & ~job.hosts_mask
        if left:
            self.shared[cube] = left
        else:
            del self.shared[cube]
        self._book(cube, +1)
        self._return_if_empty(cube)

    # Failures and maintenance

    def blast_hosts(self, host: int, job: kinds.Running | None) -> int:  # noqa: ARG002 (pools ask where it is)
        """Hosts taken out of service by a failed host: its cube, or the partition of a sub-slice."""
        return _HOSTS if job is None or job.kind.cubes else job.kind.hosts

    def ready(self, number: int) -> None:
        """Never called: there are no timers."""
        raise LookupError(f"there is no pool {number}")

    def fail(self, host: int) -> bool:
        """Break a host; false if it was out already. Whoever holds it must have been taken off before."""
        cube, bit = host // _HOSTS, 1 << host % _HOSTS
        if cube in self.away or self.broken.get(cube, 0) & bit:
            return False
        if cube in self.empty:
            self._take((cube,))
        self._book(cube, -1)
        self.broken[cube] = self.broken.get(cube, 0) | bit
        self._book(cube, +1)
        return True

    def is_out(self, host: int) -> bool:
        """If true, the host is broken or in maintenance, and cannot fail."""
        cube = host // _HOSTS
        return cube in self.away or bool(self.broken.get(cube, 0) >> host % _HOSTS & 1)

    def repair(self, host: int) -> None:
        cube, bit = host // _HOSTS, 1 << host % _HOSTS
        self._book(cube, -1)
        left = self.broken[cube] & ~bit
        if left:
            self.broken[cube] = left
        else:
            del self.broken[cube]
        self._book(cube, +1)
        self._return_if_empty(cube)

    def replace(self, job: kinds.Running, host: int) -> bool:
        """Swap the cube of `host` out of a slice of whole cubes, a spare one in; false changes nothing."""
        if not self.empty:
            return False
        bad = host // _HOSTS
        new = self.empty.pop()
        job.cubes = tuple(new if cube == bad else cube for cube in job.cubes)
        self.free_hosts -= _HOSTS
        self._release_one_by_one((bad,))
        return True

    def close(self, cube: int) -> None:
        """Keep a cube for maintenance: nobody new gets it."""
        if cube in self.away or cube in self.closed:
            return
        held = self._is_held_whole(cube)
        if cube in self.empty:
            self._take((cube,))
        if not held:
            self._book(cube, -1)
        self.closed.add(cube)
        if not held:
            self._book(cube, +1)

    def due(self, held: set[int]) -> list[int]:
        """Closed cubes that nobody holds any more."""
        return sorted(self.closed - held)

    def leave(self, cube: int) -> None:
        """Begin maintenance."""
        self._book(cube, -1)
        self.closed.discard(cube)
        self.away.add(cube)
        self._book(cube, +1)

    def come_back(self, cube: int) -> None:
        """End maintenance. Broken hosts stay broken until their repair."""
        self._book(cube, -1)
        self.away.discard(cube)
        self._book(cube, +1)
        self._return_if_empty(cube)

    # Reservations of backfill

    def earliest(self, kind: kinds.Kind, running: Iterable[kinds.Running], now_s: int) -> tuple[int, int]:
        """When `kind` can start at the latest, and the cubes to keep for it, as a bit set.

        Of the cubes free by then, those that become free last are kept: the others can serve meanwhile.
        """
        free_at = self._free_at(running, now_s)
        order = sorted(range(self.cubes), key=free_at.__getitem__)
        needed = max(kind.cubes, 1) + self.spares
        start_s = free_at[order[needed - 1]]
        if start_s >= FOREVER:
            return FOREVER, 0
        ready = [cube for cube in order if free_at[cube] <= start_s]
        return start_s, sum(1 << cube for cube in ready[-needed:])

    def _free_at(self, running: Iterable[kinds.Running], now_s: int) -> list[int]:
        free_at = [FOREVER] * self.cubes
        for cube in self.empty:
            free_at[cube] = now_s
        for job in running:
            for cube in job.cubes:
                known_s = free_at[cube]
                if known_s == FOREVER or known_s < job.expected_end_s:
                    free_at[cube] = job.expected_end_s
        for cube in {*self.broken, *self.away, *self.closed}:
            back_s = self.back_at.get(cube, FOREVER)
            known_s = free_at[cube]
            free_at[cube] = max(back_s, now_s if known_s == FOREVER else known_s)
        return free_at

    # Bookkeeping of one cube

    def _parts(self, cube: int) -> tuple[int, int]:
        return self.shared.get(cube, 0), self.broken.get(cube, 0)

    def _is_held_whole(self, cube: int) -> bool:
        return cube not in self.empty and not (
            cube in self.shared or cube in self.broken or cube in self.closed or cube in self.away
        )

    def _book(self, cube: int, sign: int) -> None:
        """Add or remove what a cube that no slice of whole cubes holds counts for."""
        held, broken = self._parts(cube)
        if cube in self.away:
            self.away_hosts += sign * _HOSTS
            return
        rest = _HOSTS - (held | broken).bit_count()
        self.broken_hosts += sign * broken.bit_count()
        if cube in self.closed:
            self.drained_hosts += sign * rest
        elif broken:
            self.stranded_hosts += sign * rest
        else:
            self.free_hosts += sign * rest

    def _release_one_by_one(self, cubes: Iterable[int]) -> None:
        for cube in cubes:
            self._book(cube, +1)
            self._return_if_empty(cube)

    def _return_if_empty(self, cube: int) -> None:
        if not (cube in self.shared or cube in self.broken or cube in self.closed or cube in self.away):
            self._return((cube,))


@functools.lru_cache(maxsize=1 << 16)
def slot(occupied: int, hosts: int) -> int:
    """The free aligned group of hosts inside the smallest free buddy, as a bit set; 0 if there is none."""
    best, best_buddy = 0, _HOSTS + 1
    for start in range(0, _HOSTS, hosts):
        mask = ((1 << hosts) - 1) << start
        if occupied & mask:
            continue
        buddy = _free_buddy(occupied, start, hosts)
        if buddy < best_buddy:
            best, best_buddy = mask, buddy
    return best


def _free_buddy(occupied: int, start: int, hosts: int) -> int:
    """Size of the largest free aligned group around a free one."""
    size = hosts
    while size < _HOSTS:
        larger = size * 2
        if occupied & (((1 << larger) - 1) << start // larger * larger):
            return size
        size = larger
    return size
