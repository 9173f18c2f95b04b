"""At every event of random runs: nobody overlaps, nobody runs on broken hosts, every host is counted once."""

import collections
import dataclasses
import random

import pytest

from tpuctl.engine import mix
from tpuctl.engine.simulation import compare, dispatch, floor, grid, pools, run, scenario
from tpuctl.model import topology

Method, Order = scenario.Method, scenario.Order
WAYS = [(method, order) for method in Method for order in Order]
WAYS = [way for way in WAYS if way[0] is not Method.MAXIMIZER or way[1] is Order.GREEDY]
HOUR = 3600


class CheckedRun(run._Run):
    """Looks at the whole state before each step of time."""

    checks = 0

    def _count_until(self, at_s: int) -> None:
        self.check()
        super()._count_until(at_s)

    def check(self) -> None:
        self.checks += 1
        block = self.block
        holders = collections.Counter(cell for job in self.running.values() for cell in cells(job))
        assert max(holders.values(), default=1) == 1
        for host in holders:
            assert not block.is_out(host), host
        held = sum(job.kind.hosts for job in self.running.values())
        counted = [
            block.free_hosts,
            block.stranded_hosts,
            block.broken_hosts,
            block.drained_hosts,
            block.away_hosts,
            block.forming_hosts,
        ]
        assert min(counted) >= 0
        assert held + sum(counted) == self.settings.hosts
        assert not {job.serial for job in self.queue.in_order()} & set(self.running)
        if isinstance(block, floor.Floor):
            self.check_empty(block)
        if isinstance(self.order, dispatch.Greedy):
            assert not any(block.fits(kind) for kind in self.queue.kinds_waiting())
        elif block.free_hosts:
            assert self.order.some_fit == any(block.fits(kind) for kind in self.queue.kinds_waiting())

    def check_empty(self, block: floor.Floor) -> None:
        used = {cube for job in self.running.values() for cube in job.cubes}
        empty = set(block.empty)
        assert len(empty) == len(block.empty)
        assert empty == set(range(block.cubes)) - used - set(block.broken) - block.closed - block.away
        assert block.free_hosts - 16 * len(empty) == sum(
            16 - mask.bit_count()
            for cube, mask in block.shared.items()
            if cube not in block.broken and cube not in block.closed
        )
        if isinstance(block, grid.GridFloor):
            assert block.taken == sum(1 << cube for cube in range(block.cubes) if cube not in empty)


def cells(job: object) -> list[int]:
    """Hosts that a job keeps others from: the aligned group of a sub-slice, else whole cubes."""
    if job.hosts_mask:
        (cube,) = job.cubes
        assert job.hosts_mask.bit_count() == job.kind.hosts
        first = (job.hosts_mask & -job.hosts_mask).bit_length() - 1
        assert first % job.kind.hosts == 0
        return [cube * 16 + bit for bit in range(16) if job.hosts_mask >> bit & 1]
    if job.pool < 0:
        assert len(job.cubes) == job.kind.cubes
    return [cube * 16 + bit for cube in job.cubes for bit in range(16)]


def settings_for(method: Method, order: Order, seed: int, cubes: int) -> scenario.Scenario:
    return scenario.Scenario(
        horizon_s=400 * HOUR,
        cubes=cubes,
        method=method,
        order=order,
        host_mtbf_s=600.0 * HOUR * cubes / 4,
        spares=seed % 3 if method is Method.ANY_CUBE else 0,
        estimate_factor=1.0 + seed % 2,
        maintenance=scenario.Maintenance(every_s=9 * HOUR, lasts_s=5 * HOUR) if seed % 2 else None,
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("method", "order"), WAYS)
def test_state_is_sound_at_every_event(method: Method, order: Order, seed: int) -> None:
    cubes = (8, 12, 16, 27)[seed]
    settings = settings_for(method, order, seed, cubes)
    plan = dataclasses.replace(compare.workload(cubes, 1.3), sigma=1.0, serving_share=0.1)
    jobs, faults = compare.draw(random.Random(seed), settings, plan, repair_s=20 * HOUR)
    played = CheckedRun(settings, jobs, faults)
    outcome = played.play()
    played.check()
    assert played.checks > 300
    assert outcome.interruptions > 0
    assert outcome.balance.total_chip_s == cubes * 64 * settings.horizon_s
    assert outcome.finished <= outcome.arrived


@pytest.mark.parametrize("method", [Method.ANY_CUBE, Method.CONTIGUOUS, Method.STATIC_POOLS])
@pytest.mark.parametrize("seed", range(3))
def test_backfill_never_delays_the_oldest(method: Method, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    promised: dict[int, int] = {}
    reserve = dispatch.Easy._reserve

    def noted(self: dispatch.Easy, now_s: int) -> None:
        reserve(self, now_s)
        promised.setdefault(self.queue.oldest().serial, self.reserved_s)

    monkeypatch.setattr(dispatch.Easy, "_reserve", noted)
    settings = scenario.Scenario(horizon_s=900 * HOUR, cubes=27, method=method)
    plan = dataclasses.replace(compare.workload(27, 1.5, only_common=True), sigma=1.0)
    started: dict[int, int] = {}
    played = run._Run(settings, mix.jobs(random.Random(seed), plan), ())
    start = played.order.start

    def noted_start(job: object) -> None:
        started[job.serial] = played.now_s
        start(job)

    played.order.start = noted_start
    played.play()
    kept = [serial for serial in promised if serial in started]
    assert len(kept) > 30
    for serial in kept:
        assert started[serial] <= promised[serial]


def test_boxes_of_a_fixed_torus() -> None:
    sides = grid.grid_sides(64)
    assert sides == (4, 4, 4)
    assert grid.grid_sides(144) == (4, 6, 6)
    for text, count in (("4x4x4", 64), ("4x4x8", 3 * 64), ("4x4x16", 3 * 16), ("8x8x8", 64), ("16x16x16", 1)):
        shape = topology.parse(text)
        found = grid.boxes(shape, sides)
        assert len(found) == count
        assert {box.bit_count() for box in found} == {shape.cubes}
        assert all(len(grid.members(box)) == shape.cubes for box in found)
    assert grid.boxes(topology.parse("4x4x32"), sides) == ()


def test_slots_take_the_smallest_free_buddy() -> None:
    assert floor.slot(0, 16) == 0xFFFF
    assert floor.slot(1, 1) == 0b10
    assert floor.slot(1, 4) == 0xF0
    assert floor.slot(0x00FF, 8) == 0xFF00
    assert floor.slot(0x0101, 8) == 0


def partitions(total: int, largest: int) -> list[list[int]]:
    """Every multiset of sub-slice sizes (in hosts) with this sum at most, largest first."""
    found = [[]]
    for size in (16, 8, 4, 2, 1):
        if size <= min(total, largest):
            found += [[size, *rest] for rest in partitions(total - size, size)]
    return found


def test_all_201_mixes_pack_into_one_cube() -> None:
    mixes = [sizes for sizes in partitions(16, 16) if sizes]
    assert len(mixes) == 201
    for sizes in mixes:
        occupied = 0
        for size in sizes:
            mask = floor.slot(occupied, size)
            assert mask.bit_count() == size
            assert not mask & occupied
            occupied |= mask


def test_loose_cubes_of_pools_are_counted() -> None:
    block = pools.PoolFloor(6, (4,), rebuild_s=10)
    assert block.fail(5 * 16)
    assert not block.fail(5 * 16)
    assert (block.free_hosts, block.stranded_hosts, block.broken_hosts) == (80, 15, 1)
    block.repair(5 * 16)
    assert (block.free_hosts, block.timers) == (96, [])
