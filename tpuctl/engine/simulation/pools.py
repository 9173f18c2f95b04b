"""Node pools as units: the two ways of working before dynamic slicing.

A pool is as large as it is: a job that needs less holds all of it, a failure stops all of it, and a pool with
a broken host cannot be made. Pools may take any cubes of the block, which favours these baselines.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING

from tpuctl.engine import mix
from tpuctl.engine.maximizer import turn
from tpuctl.engine.simulation import floor
from tpuctl.model import topology

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tpuctl.engine.simulation import kinds

_HOSTS = topology.HOSTS_PER_CUBE


class State(enum.Enum):
    READY = "ready"
    BUSY = "busy"
    FORMING = "forming"
    DOWN = "down"
    """A host is broken or away; it is made again when all are back."""


@dataclasses.dataclass(kw_only=True)
class Pool:
    """Some cubes that go together."""

    number: int
    cubes: kinds.Cubes
    state: State = State.READY
    kind: kinds.Kind | None = None
    """The shape it was made for, in the maximizer's case."""
    held_hosts: int = 0
    """Hosts that the job on it uses; the others are stranded."""


Counts = tuple[int, int, int, int, int, int]
"""Hosts: free, stranded, broken, drained, away, forming."""


class PoolFloor:
    """A block whose cubes are in pools, or loose."""

    swaps = False
    spares = 0

    def __init__(self, cubes: int, sizes: Sequence[int], *, rebuild_s: int) -> None:
        self.cubes = cubes
        self.rebuild_s = rebuild_s
        self.pools: dict[int, Pool] = {}
        self.loose: set[int] = set(range(cubes))
        """Cubes in no pool."""
        self.home: dict[int, int] = {}
        """Cube -> number of its pool."""
        self.broken: dict[int, int] = {}
        self.closed: set[int] = set()
        self.away: set[int] = set()
        self.back_at: dict[int, int] = {}
        self.timers: list[tuple[int, int]] = []
        """(delay in seconds, pool) that the run has to turn into `ready` calls."""
        self.free_hosts = cubes * _HOSTS
        self.stranded_hosts = self.broken_hosts = self.drained_hosts = 0
        self.away_hosts = self.forming_hosts = 0
        self._next_number = 0
        taken = iter(range(cubes))
        for size in sizes:
            self._make(tuple(next(taken) for _ in range(size)), State.READY, None)

    # What fits

    def can_ever(self, kind: kinds.Kind) -> bool:
        return any(len(pool.cubes) >= max(kind.cubes, 1) for pool in self.pools.values())

    def fits(self, kind: kinds.Kind) -> bool:
        return self._choose(kind, 0) is not None

    def may_fit(self, kind: kinds.Kind) -> bool:
        return self.fits(kind)

    def place(self, job: kinds.Running, avoid: int = 0) -> bool:
        pool = self._choose(job.kind, avoid)
        if pool is None:
            return False
        self._book(pool, -1)
        pool.state, pool.held_hosts = State.BUSY, job.kind.hosts
        self._book(pool, +1)
        job.pool, job.cubes = pool.number, pool.cubes
        return True

    def release(self, job: kinds.Running) -> None:
        pool = self.pools[job.pool]
        self._book(pool, -1)
        pool.state, pool.held_hosts = State.READY, 0
        if self.closed.intersection(pool.cubes):
            pool.state = State.DOWN
        self._book(pool, +1)
        job.pool, job.cubes = -1, ()

    def _choose(self, kind: kinds.Kind, avoid: int) -> Pool | None:
        """The smallest ready pool that is large enough."""
        needed = max(kind.cubes, 1)
        ready = [
            pool
            for pool in self.pools.values()
            if pool.state is State.READY
            and self._suits(pool, kind, needed)
            and not avoid >> pool.cubes[0] & 1
        ]
        return min(ready, key=lambda pool: (len(pool.cubes), pool.number), default=None)

    def _suits(self, pool: Pool, kind: kinds.Kind, needed: int) -> bool:  # noqa: ARG002 (the maximizer looks at kind)
        return len(pool.cubes) >= needed

    # Failures and maintenance

    def is_out(self, host: int) -> bool:
        cube = host // _HOSTS
        return cube in self.away or bool(self.broken.get(cube, 0) >> host % _HOSTS & 1)

    def blast_hosts(self, host: int, job: kinds.Running | None) -> int:  # noqa: ARG002 (the pool is what counts)
        """The whole pool, in use or not; one cube where there is no pool."""
        pool = self.pools.get(self.home.get(host // _HOSTS, -1))
        return _HOSTS if pool is None else len(pool.cubes) * _HOSTS

    def fail(self, host: int) -> bool:
        """Break a host: its pool is down until it is back and the pool is made again."""
        if self.is_out(host):
            return False
        cube = host // _HOSTS
        self._change(cube, lambda: self._set_broken(cube, self.broken.get(cube, 0) | 1 << host % _HOSTS))
        return True

    def repair(self, host: int) -> None:
        cube = host // _HOSTS
        self._change(cube, lambda: self._set_broken(cube, self.broken[cube] & ~(1 << host % _HOSTS)))

    def replace(self, job: kinds.Running, host: int) -> bool:  # noqa: ARG002 (pools cannot: the answer is no)
        return False

    def close(self, cube: int) -> None:
        if cube not in self.away:
            self._change(cube, lambda: self.closed.add(cube))

    def due(self, held: set[int]) -> list[int]:
        return sorted(self.closed - held)

    def leave(self, cube: int) -> None:
        self._change(cube, lambda: self._send_away(cube))

    def come_back(self, cube: int) -> None:
        self._change(cube, lambda: self.away.discard(cube))

    def ready(self, number: int) -> None:
        """A pool has been made; nothing happens if it has gone or failed meanwhile."""
        pool = self.pools.get(number)
        if pool is not None and pool.state is State.FORMING:
            self._book(pool, -1)
            pool.state = State.DOWN if self._is_sick(pool) else State.READY
            self._book(pool, +1)

    # Reservations of backfill

    def earliest(self, kind: kinds.Kind, running: Iterable[kinds.Running], now_s: int) -> tuple[int, int]:
        """The pool that is large enough and free first, and when."""
        ends = {job.pool: job.expected_end_s for job in running}
        best = (floor.FOREVER, 0)
        for pool in self.pools.values():
            if self._suits(pool, kind, max(kind.cubes, 1)) and pool.state is not State.FORMING:
                bad = [cube for cube in pool.cubes if self._is_bad(cube)]
                back_s = max((self.back_at.get(cube, now_s) for cube in bad), default=0)
                best = min(best, (max(ends.get(pool.number, now_s), back_s), 1 << pool.cubes[0]))
        return best

    # Bookkeeping

    def _make(self, cubes: kinds.Cubes, state: State, kind: kinds.Kind | None) -> Pool:
        pool = Pool(number=self._next_number, cubes=cubes, state=state, kind=kind)
        self._next_number += 1
        for cube in cubes:
            self._add(self._loose_counts(cube), -1)
            self.loose.discard(cube)
            self.home[cube] = pool.number
        self.pools[pool.number] = pool
        self._book(pool, +1)
        return pool

    def _delete(self, pool: Pool) -> None:
        self._book(pool, -1)
        del self.pools[pool.number]
        for cube in pool.cubes:
            del self.home[cube]
            self.loose.add(cube)
            self._add(self._loose_counts(cube), +1)

    def _change(self, cube: int, act: Callable[[], object]) -> None:
        """Do something to a cube, with the counters and its pool's state kept true."""
        pool = self.pools.get(self.home.get(cube, -1))
        if pool is None:
            self._add(self._loose_counts(cube), -1)
            act()
            self._add(self._loose_counts(cube), +1)
            return
        self._book(pool, -1)
        act()
        self._settle(pool)
        self._book(pool, +1)

    def _settle(self, pool: Pool) -> None:
        if pool.state is State.BUSY:
            return
        if self._is_sick(pool):
            pool.state = State.DOWN
        elif pool.state is State.DOWN:
            pool.state = State.FORMING
            self.timers.append((self.rebuild_s, pool.number))

    def _set_broken(self, cube: int, mask: int) -> None:
        if mask:
            self.broken[cube] = mask
        else:
            del self.broken[cube]

    def _send_away(self, cube: int) -> None:
        self.closed.discard(cube)
        self.away.add(cube)

    def _is_bad(self, cube: int) -> bool:
        return cube in self.broken or cube in self.away or cube in self.closed

    def _is_sick(self, pool: Pool) -> bool:
        return any(self._is_bad(cube) for cube in pool.cubes)

    def _book(self, pool: Pool, sign: int) -> None:
        if pool.state is State.BUSY:
            # Broken hosts cannot be in a busy pool: its job is taken off first.
            self._add((0, len(pool.cubes) * _HOSTS - pool.held_hosts, 0, 0, 0, 0), sign)
            return
        for cube in pool.cubes:
            self._add(self._counts(cube, pool.state), sign)

    def _counts(self, cube: int, state: State) -> Counts:
        broken = self.broken.get(cube, 0).bit_count()
        rest = _HOSTS - broken
        if cube in self.away:
            return (0, 0, 0, 0, _HOSTS, 0)
        if cube in self.closed:
            return (0, 0, broken, rest, 0, 0)
        if state is State.FORMING:
            return (0, 0, broken, 0, 0, rest)
        if state is State.DOWN or broken:
            return (0, rest, broken, 0, 0, 0)
        return (rest, 0, 0, 0, 0, 0)

    def _loose_counts(self, cube: int) -> Counts:
        return self._counts(cube, State.READY)

    def _add(self, counts: Counts, sign: int) -> None:
        free, stranded, broken, drained, away, forming = counts
        self.free_hosts += sign * free
        self.stranded_hosts += sign * stranded
        self.broken_hosts += sign * broken
        self.drained_hosts += sign * drained
        self.away_hosts += sign * away
        self.forming_hosts += sign * forming


class MaximizerFloor(PoolFloor):
    """Pools made for what waits, by a loop.

    Each round: delete unhealthy pools; then, for each waiting job from the oldest on, make a pool of its size
    out of loose cubes and of idle pools that nobody waits for (that is the merging); where the full size
    cannot be had, go on with smaller ones.
    """

    def __init__(self, cubes: int, *, pool_s: int) -> None:
        super().__init__(cubes, (), rebuild_s=pool_s)

    def can_ever(self, kind: kinds.Kind) -> bool:
        return kind.cubes <= self.cubes

    def round(self, waiting: Iterable[kinds.Kind]) -> None:
        """One turn of the loop; `waiting` from the oldest on."""
        standing = [self._standing(pool) for pool in self.pools.values() if pool.state is not State.BUSY]
        bad = {*self.broken, *self.away, *self.closed}
        played = turn.play(standing, {0: self.loose}, [_want(kind) for kind in waiting], bad)
        for sick in played.deletes:
            self._delete(self.pools[sick.name])
        for make in played.makes:
            self._carve(make.want.name, list(make.cubes))

    @staticmethod
    def _standing(pool: Pool) -> turn.Pool:
        return turn.Pool(
            name=pool.number,
            cubes=pool.cubes,
            serves=None if pool.kind is None else pool.kind.number,
            is_sick=pool.state is State.DOWN,
            is_idle=pool.state is State.READY and pool.kind is not None,
        )

    def _carve(self, kind: kinds.Kind, cubes: list[int]) -> None:
        """Make a pool; idle pools that lose a cube to it are deleted first."""
        for number in sorted({self.home[cube] for cube in cubes if cube in self.home}):
            self._delete(self.pools[number])
        pool = self._make(tuple(cubes), State.FORMING, kind)
        self.timers.append((self.rebuild_s, pool.number))

    def _settle(self, pool: Pool) -> None:
        if pool.state is not State.BUSY and self._is_sick(pool):
            pool.state = State.DOWN

    def _suits(self, pool: Pool, kind: kinds.Kind, needed: int) -> bool:  # noqa: ARG002 (a pool has one shape)
        return pool.kind is kind


def _want(kind: kinds.Kind) -> turn.Want:
    return turn.Want(kind, (turn.Size(kind.number, max(kind.cubes, 1)),))


def carve(cubes: int) -> tuple[int, ...]:
    """Sizes of static pools for a block: each time the size that Table 2 misses most and that still fits."""
    shares = _cube_shares()
    have = dict.fromkeys(shares, 0)
    sizes: list[int] = []
    left = cubes
    while left:
        size = max(
            (size for size in shares if size <= left),
            key=lambda size: (shares[size] * cubes - have[size], size),
        )
        sizes.append(size)
        have[size] += size
        left -= size
    return tuple(sorted(sizes, reverse=True))


def _cube_shares() -> dict[int, float]:
    """Share of the cubes that slices of each size hold; a sub-slice needs a pool of one cube."""
    weights: dict[int, int] = {}
    for shape, weight in mix.on_tpu7x():
        weights[shape.cubes] = weights.get(shape.cubes, 0) + weight * shape.cubes
    total = sum(weights.values())
    return {size: weight / total for size, weight in weights.items()}
