"""Simulated blocks run on the engine's own index, and use a block no worse than plain counting does."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.engine.test_simulation_invariants import CheckedRun, settings_for
from tpuctl.engine.inventory import shelves
from tpuctl.engine.simulation import compare, floor, indexed, kinds, run, scenario
from tpuctl.model import topology

if TYPE_CHECKING:
    from collections.abc import Iterable

HOUR = 3600
DAY = 24 * HOUR


class MirroredRun(CheckedRun):
    """Compares the index with what the run knows, at every event."""

    def check(self) -> None:
        super().check()
        block = self.block
        assert isinstance(block, indexed.IndexedFloor)
        assert set(shelves.members(block.index.free[0])) == set(block.empty)
        held = {f"job-{serial}": job for serial, job in self.running.items()}
        assert set(block.index.held) == set(held)
        for name, job in held.items():
            slots = block.index.held[name]
            assert sorted(slot.number for slot in slots) == sorted(job.cubes)
            assert {slot.holders[name] for slot in slots} == {job.hosts_mask or 0xFFFF}
        for slot in block.index.slots[0]:
            count = block.index.hosts(slot)
            assert count.free + count.used + count.broken == topology.HOSTS_PER_CUBE


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("order", scenario.Order)
def test_the_index_and_the_books_agree_at_every_event(order: scenario.Order, seed: int) -> None:
    cubes = (8, 12, 16, 27)[seed]
    settings = settings_for(scenario.Method.ANY_CUBE, order, seed, cubes)
    jobs, faults = compare.draw(
        random.Random(seed), settings, compare.workload(cubes, 1.3), repair_s=20 * HOUR
    )
    played = MirroredRun(settings, jobs, faults)
    outcome = played.play()
    played.check()
    assert played.checks > 100
    assert outcome.balance.total_chip_s == cubes * 64 * settings.horizon_s


class InOrder(floor.Floor):
    """Plain counting that takes the free cubes with the smallest numbers, as the index does."""

    def _return(self, cubes: Iterable[int]) -> None:
        super()._return(cubes)
        self.empty.sort(reverse=True)


@pytest.mark.parametrize("order", scenario.Order)
@pytest.mark.parametrize("spares", [0, 4])
@pytest.mark.parametrize("seed", range(3))
def test_a_block_is_used_exactly_as_by_plain_counting(
    order: scenario.Order, spares: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sub-slices included: both fill broken cubes first, then shared ones, and keep whole ones whole."""
    settings = scenario.Scenario(
        horizon_s=60 * DAY, cubes=64, order=order, host_mtbf_s=300.0 * DAY, spares=spares
    )
    jobs, faults = compare.draw(random.Random(seed), settings, compare.workload(64, 1.2), repair_s=DAY)
    found = []
    for make in (InOrder, indexed.IndexedFloor):
        monkeypatch.setattr(run, "make_block", lambda asked, make=make: make(asked.cubes, asked.spares))
        found.append(run.run(settings, jobs, faults))
    assert found[0] == found[1]
    assert found[0].utilisation > 0.55
    assert found[0].interruptions > 100


def job(text: str, serial: int = 1) -> kinds.Running:
    kind = run.make_kind(scenario.Scenario(horizon_s=1), topology.parse(text), serial)
    return kinds.Running(serial, kind, 0, 1)


def test_commands_simulate_on_the_index() -> None:
    assert isinstance(run.make_block(scenario.Scenario(horizon_s=1)), indexed.IndexedFloor)


def test_spares_are_for_swaps_only() -> None:
    block = indexed.IndexedFloor(3, spares=1)
    slice_ = job("4x4x8")
    assert block.place(slice_)
    assert not block.place(job("2x2x1", 2))
    assert block.replace(slice_, slice_.cubes[0] * 16)
    assert set(slice_.cubes) == {1, 2}
    assert not block.replace(slice_, 2 * 16 + 1) or 0 in slice_.cubes


def test_a_broken_cube_serves_sub_slices_first() -> None:
    block = indexed.IndexedFloor(2)
    assert block.fail(16 + 3)
    small = job("2x4x4")
    assert block.place(small)
    assert (small.cubes, small.hosts_mask) == ((1,), 0xFF00)
    assert not block.place(job("4x4x8", 2))
    assert block.place(job("4x4x4", 3))
    assert not block.fits(job("2x4x4", 4).kind)
    assert block.fits(job("2x2x4", 4).kind)
    assert block.may_fit(job("2x2x4", 4).kind)


def test_cubes_kept_for_the_oldest_are_left_alone() -> None:
    block = indexed.IndexedFloor(3)
    small, large = job("2x2x1"), job("4x4x8", 2)
    assert not block.place(large, avoid=0b011)
    assert block.place(small, avoid=0b011)
    assert small.cubes == (2,)
    assert not block.place(job("2x2x1", 3), avoid=0b111)


def test_a_cube_in_maintenance_goes_to_nobody() -> None:
    block = indexed.IndexedFloor(2)
    block.close(0)
    first = job("4x4x4")
    assert block.place(first)
    assert first.cubes == (1,)
    block.leave(0)
    assert not block.fits(job("2x2x1", 2).kind)
    block.come_back(0)
    assert block.place(job("4x4x4", 3))
