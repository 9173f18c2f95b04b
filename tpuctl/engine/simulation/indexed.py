"""The any-cube method as commands use it: every decision is the engine's own, on its index.

`floor` keeps the books in hosts; which cubes and partitions a job gets, what a failed host takes out of
service and which cube replaces another comes from `engine.placement` and `engine.inventory`, on a made-up
block whose nodes carry the labels of a real one.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from tpuctl.engine import changes, placement
from tpuctl.engine.inventory import shelves, stock
from tpuctl.engine.simulation import floor
from tpuctl.model import fleet, states, topology

if TYPE_CHECKING:
    from tpuctl.engine.inventory import tree
    from tpuctl.engine.simulation import kinds

_START = datetime.datetime.fromtimestamp(0, datetime.UTC)
_ONE_CUBE = placement.Request(topology=topology.CUBE)
_BLOCK = 0
"""Its number in the index: there is one block."""
_HEALTHY, _UNHEALTHY = states.PartitionState.HEALTHY, states.PartitionState.UNHEALTHY


class IndexedFloor(floor.Floor):
    """A block on the engine's index."""

    def __init__(self, cubes: int, spares: int = 0) -> None:
        super().__init__(cubes, spares)
        nothing = fleet.Fleet(cluster="simulation", observed_at=_START)
        self.index = stock.Stock(changes.with_block(nothing, "block", cubes), stock.Terms())
        self._well = [slot.cube for slot in self.index.slots[_BLOCK]]
        """Each cube with all of its hosts healthy."""
        self._requests: dict[topology.Topology, placement.Request] = {}

    # What fits

    def fits(self, kind: kinds.Kind) -> bool:
        return self.may_fit(kind) if kind.cubes else self._best(kind, 0) is not None

    def place(self, job: kinds.Running, avoid: int = 0) -> bool:
        if not super().place(job, avoid):
            return False
        if job.kind.cubes:
            self.index.take(_name(job), _BLOCK, _bits(job.cubes))
        return True

    def release(self, job: kinds.Running) -> None:
        super().release(job)
        self.index.release(_name(job))

    def _choose(self, kind: kinds.Kind, avoid: int) -> kinds.Cubes:
        found = placement.choose(self.index, self._request(kind))
        if found is None:
            return ()
        chosen = tuple([self._number(cube_id) for cube_id in found[1]])
        if avoid & _bits(chosen):
            # The first ones are kept for somebody: the first of the others.
            free = self.index.free[_BLOCK] & ~avoid
            if free.bit_count() < kind.cubes:
                return ()
            chosen = tuple(shelves.members(shelves.first(free, kind.cubes)))
        self._take(chosen)
        return chosen

    def _place_part(self, job: kinds.Running, avoid: int) -> bool:
        found = self._best(job.kind, avoid)
        if found is None:
            return False
        slot, part = found
        cube = slot.number
        if self.index.free[_BLOCK] >> cube & 1:
            self._take((cube,))
        self._book(cube, -1)
        self.shared[cube] = self.shared.get(cube, 0) | part.hosts
        self._book(cube, +1)
        self.index.take_part(_name(job), slot, part)
        job.cubes = (cube,)
        job.hosts_mask = part.hosts
        return True

    def _best(self, kind: kinds.Kind, avoid: int) -> tuple[stock.Slot, tree.Part] | None:
        """The partition for a sub-slice; spares are not broken into."""
        only_spoiled = self.index.free[_BLOCK].bit_count() <= self.spares
        return self.index.best_part(kind.shape, _BLOCK, only_spoiled=only_spoiled, avoid=avoid)

    # Failures and maintenance

    def fail(self, host: int) -> bool:
        if not super().fail(host):
            return False
        self._look_again(host // topology.HOSTS_PER_CUBE)
        return True

    def repair(self, host: int) -> None:
        super().repair(host)
        self._look_again(host // topology.HOSTS_PER_CUBE)

    def replace(self, job: kinds.Running, host: int) -> bool:
        found = placement.choose(self.index, _ONE_CUBE)
        if found is None:
            return False
        bad, new = host // topology.HOSTS_PER_CUBE, self._number(found[1][0])
        self._take((new,))
        job.cubes = tuple(new if cube == bad else cube for cube in job.cubes)
        self.free_hosts -= topology.HOSTS_PER_CUBE
        self._release_one_by_one((bad,))
        self.index.release(_name(job))
        self.index.take(_name(job), _BLOCK, _bits(job.cubes))
        return True

    def close(self, cube: int) -> None:
        super().close(cube)
        self._claim(cube)

    def leave(self, cube: int) -> None:
        super().leave(cube)
        self._claim(cube)

    def come_back(self, cube: int) -> None:
        super().come_back(cube)
        self._claim(cube)

    # Between numbers and the index

    def _request(self, kind: kinds.Kind) -> placement.Request:
        found = self._requests.get(kind.shape)
        if found is None:
            found = placement.Request(topology=kind.shape, keep_free=self.spares)
            self._requests[kind.shape] = found
        return found

    def _number(self, cube_id: str) -> int:
        return self.index.slot_of_cube[cube_id].number

    def _claim(self, cube: int) -> None:
        """Cubes that wait for maintenance or are in it go to nobody new."""
        holders = ("maintenance",) if cube in self.closed or cube in self.away else ()
        self.index.claim(self._well[cube].id, holders)

    def _look_again(self, cube: int) -> None:
        self.index.replace(_with_broken(self._well[cube], self.broken.get(cube, 0)))


def _name(job: kinds.Running) -> str:
    """What the slice of a job is called."""
    return f"job-{job.serial}"


def _bits(cubes: kinds.Cubes) -> int:
    return sum(1 << cube for cube in cubes)


def _with_broken(cube: fleet.Cube, broken: int) -> fleet.Cube:
    """The cube with some hosts gone: every partition that holds one of them says UNHEALTHY on all hosts."""
    if not broken:
        return cube
    bad_ids = {
        partition_id
        for number, host in enumerate(cube.hosts)
        if broken >> number & 1
        for partition_id in host.partition_ids
    }
    hosts = tuple(
        host._replace(
            ready=not broken >> number & 1,
            partition_states=tuple(
                _UNHEALTHY if partition_id in bad_ids else _HEALTHY for partition_id in host.partition_ids
            ),
        )
        for number, host in enumerate(cube.hosts)
    )
    return fleet.Cube(id=cube.id, block=cube.block, hosts=hosts)
