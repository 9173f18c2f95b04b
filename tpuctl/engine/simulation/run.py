"""The event loop: jobs arrive and end, hosts fail and come back, pools get ready.

Pure: jobs and faults are given as streams, time is a number that only moves with events, and the same input
gives the same outcome. Free capacity is counted between events, held capacity when a job's segment ends;
at the end both together must be the whole capacity to the second.
"""

from __future__ import annotations

import heapq
import itertools
import random
from typing import TYPE_CHECKING, Any

from tpuctl.engine.availability import reliability
from tpuctl.engine.simulation import (
    dispatch,
    floor,
    grid,
    indexed,
    kinds,
    ledger,
    pools,
    report,
    scenario,
    waiting,
)
from tpuctl.model import topology

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tpuctl.engine import mix
    from tpuctl.engine.simulation import placer


def run(
    settings: scenario.Scenario, jobs: Iterable[mix.Job], faults: Iterable[scenario.Fault] = ()
) -> report.Outcome:
    """Play a scenario to its horizon.

    `jobs` and `faults` come in order of time and may be endless; what comes after the horizon is not read.
    """
    return _Run(settings, jobs, faults).play()


def make_block(settings: scenario.Scenario) -> placer.Placer:
    """An empty block for the scenario's method."""
    if settings.method is scenario.Method.ANY_CUBE:
        return indexed.IndexedFloor(settings.cubes, settings.spares)
    if settings.method is scenario.Method.CONTIGUOUS:
        dice = random.Random(0) if settings.boxes is scenario.Boxes.ANYWHERE else None  # noqa: S311 - no secret
        return grid.GridFloor(settings.cubes, dice)
    if settings.method is scenario.Method.MAXIMIZER:
        return pools.MaximizerFloor(settings.cubes, pool_s=settings.times.pool_s)
    sizes = pools.carve(settings.cubes) if settings.pools is None else settings.pools
    return pools.PoolFloor(settings.cubes, sizes, rebuild_s=settings.times.rebuild_s)


def make_kind(settings: scenario.Scenario, shape: topology.Topology, number: int) -> kinds.Kind:
    """What the loop must know of a shape."""
    times = settings.times
    pools_exist = settings.method in (scenario.Method.STATIC_POOLS, scenario.Method.MAXIMIZER)
    return kinds.Kind(
        number=number,
        shape=shape,
        hosts=shape.hosts,
        cubes=0 if shape.is_sub_slice else shape.cubes,
        interval_s=_interval_s(settings, shape),
        # A pool has formed before a job can have it; its own time is on the books of the pool.
        startup_s=times.start_s + (0 if pools_exist else times.form_s),
    )


def _interval_s(settings: scenario.Scenario, shape: topology.Topology) -> int:
    times = settings.times
    if times.checkpoint_interval_s is not None:
        return times.checkpoint_interval_s
    if settings.host_mtbf_s is None:
        return 0
    return max(1, round(reliability.young_s(times.checkpoint_write_s, settings.host_mtbf_s / shape.hosts)))


class _Run:
    """State of one run."""

    def __init__(
        self, settings: scenario.Scenario, jobs: Iterable[mix.Job], faults: Iterable[scenario.Fault]
    ) -> None:
        self.settings = settings
        self.block = make_block(settings)
        self.queue = waiting.Waiting()
        self.running: dict[int, kinds.Running] = {}
        """Serial -> job."""
        self.order = dispatch.dispatcher(settings, self.block, self.queue, self._start, self.running)
        self.books = ledger.Ledger()
        self.tally = report.Tally()
        self.now_s = 0
        self.heap: list[tuple[int, int, Callable[[Any, int], None], Any]] = []
        self.numbers = itertools.count()
        self.jobs: Iterator[mix.Job] = iter(jobs)
        self.faults: Iterator[scenario.Fault] = iter(faults)
        self.kinds: dict[topology.Topology, kinds.Kind] = {}
        self.write_s = settings.times.checkpoint_write_s

    def play(self) -> report.Outcome:
        self._first_events()
        heap, horizon_s = self.heap, self.settings.horizon_s
        events = 0
        while heap and heap[0][0] < horizon_s:
            at_s, number, handle, what = heapq.heappop(heap)
            if at_s > self.now_s:
                self._count_until(at_s)
            handle(what, number)
            events += 1
            if self.block.timers:
                self._set_timers()
        self._count_until(horizon_s)
        for job in self.running.values():
            self._close_segment(job, failed=False)
        capacity_host_s = self.settings.hosts * horizon_s
        return self.tally.outcome(self.settings, self.books.close(capacity_host_s), events, self._unstarted())

    def _first_events(self) -> None:
        self._next_job()
        self._next_fault()
        if self.settings.maintenance is not None:
            self._at(self.settings.maintenance.every_s, self._close_for_maintenance, 0)
        if isinstance(self.block, pools.MaximizerFloor):
            self._at(0, self._round, None)

    def _at(self, at_s: int, handle: Callable[[Any, int], None], what: object) -> int:
        number = next(self.numbers)
        heapq.heappush(self.heap, (at_s, number, handle, what))
        return number

    # Jobs

    def _next_job(self) -> None:
        job = next(self.jobs, None)
        if job is not None:
            self._at(job.arrival_s, self._arrive, job)

    def _arrive(self, job: mix.Job, serial: int) -> None:
        self._next_job()
        kind = self.kinds.get(job.topology) or self._new_kind(job.topology)
        if not self.block.can_ever(kind):
            self.tally.refused += 1
            return
        waiter = kinds.Running(serial, kind, job.arrival_s, job.work_s)
        waiter.wall_s = ledger.wall_s(job.work_s, kind.startup_s, kind.interval_s, self.write_s)
        self.tally.arrived += 1
        self.order.arrived(waiter, self.now_s)

    def _new_kind(self, shape: topology.Topology) -> kinds.Kind:
        # Numbered by size, so that the smallest come first where shapes are looked at in order.
        number = shape.chips * 10_000 + shape.c * 10 + shape.a % 10
        kind = make_kind(self.settings, shape, number)
        self.kinds[shape] = kind
        return kind

    def _start(self, job: kinds.Running) -> None:
        """A job has its cubes: begin its next segment."""
        if job.first_start_s < 0:
            job.first_start_s = self.now_s
            self.tally.wait(job.kind.shape, self.now_s - job.arrival_s)
        job.began_s = self.now_s
        job.expected_end_s = self.now_s + round(job.wall_s * self.settings.estimate_factor)
        self.running[job.serial] = job
        job.token = self._at(self.now_s + job.wall_s, self._end, job)

    def _end(self, job: kinds.Running, number: int) -> None:
        if job.token != number:
            return
        self._close_segment(job, failed=False)
        del self.running[job.serial]
        self.block.release(job)
        self.tally.finished += 1
        self._settle()

    def _close_segment(self, job: kinds.Running, *, failed: bool) -> None:
        elapsed_s = self.now_s - job.began_s
        part = ledger.segment_of(elapsed_s, job.startup_s, job.kind.interval_s, self.write_s, failed=failed)
        self.books.add_segment(part, job.kind.hosts)
        self.tally.held_host_s += elapsed_s * job.kind.hosts
        job.work_s -= part.productive_s
        job.token = -1

    def _settle(self) -> None:
        """After any change of the cubes: begin maintenance that has become possible, then start jobs."""
        if self.block.closed:
            self._begin_maintenance()
        self.order.changed(self.now_s)

    # Failures

    def _next_fault(self) -> None:
        fault = next(self.faults, None)
        if fault is not None:
            self._at(fault.at_s, self._fail, fault)

    def _fail(self, fault: scenario.Fault, _: int) -> None:
        self._next_fault()
        if fault.host >= self.settings.hosts or self.block.is_out(fault.host):
            return
        victim = self._holder(fault.host)
        self.tally.blast.append(self.block.blast_hosts(fault.host, victim))
        if victim is not None:
            self._interrupt(victim, fault.host)
        self.block.fail(fault.host)
        back_s = self.now_s + fault.repair_s
        cube = fault.host // topology.HOSTS_PER_CUBE
        self.block.back_at[cube] = max(self.block.back_at.get(cube, 0), back_s)
        self._at(back_s, self._repair, fault.host)
        if victim is not None and victim.serial not in self.running:
            self._restart(victim)
        self._settle()

    def _holder(self, host: int) -> kinds.Running | None:
        cube, bit = divmod(host, topology.HOSTS_PER_CUBE)
        for job in self.running.values():
            if cube in job.cubes and (not job.hosts_mask or job.hosts_mask >> bit & 1):
                return job
        return None

    def _interrupt(self, job: kinds.Running, host: int) -> None:
        """Take a job off a failing host: by a swap if that is possible, else off the block."""
        self.tally.interrupted_hosts.append(job.kind.hosts)
        self._close_segment(job, failed=True)
        if self.block.swaps and job.kind.cubes and self.block.replace(job, host):
            self.tally.swaps += 1
            self._prepare(job, self.settings.times.swap_s + self.settings.times.start_s)
            self._start(job)
            return
        del self.running[job.serial]
        self.block.release(job)

    def _restart(self, job: kinds.Running) -> None:
        """Back to the queue, in the old turn."""
        times = self.settings.times
        contiguous = self.settings.method is scenario.Method.CONTIGUOUS
        self._prepare(job, times.rebuild_s + times.start_s if contiguous else job.kind.startup_s)
        self.tally.requeues += 1
        self.queue.add(job)

    def _prepare(self, job: kinds.Running, startup_s: int) -> None:
        job.startup_s = startup_s
        job.wall_s = ledger.wall_s(job.work_s, startup_s, job.kind.interval_s, self.write_s)

    def _repair(self, host: int, _: int) -> None:
        self.block.repair(host)
        self._settle()

    # Maintenance and pools

    def _close_for_maintenance(self, cube: int, _: int) -> None:
        plan = self.settings.maintenance
        if plan is None:
            return
        self._at(self.now_s + plan.every_s, self._close_for_maintenance, (cube + 1) % self.settings.cubes)
        self.block.close(cube)
        self._settle()

    def _begin_maintenance(self) -> None:
        plan = self.settings.maintenance
        if plan is None:
            return
        held = {cube for job in self.running.values() for cube in job.cubes}
        for cube in self.block.due(held):
            self.block.leave(cube)
            back_s = self.now_s + plan.lasts_s
            self.block.back_at[cube] = max(self.block.back_at.get(cube, 0), back_s)
            self._at(back_s, self._end_maintenance, cube)

    def _end_maintenance(self, cube: int, _: int) -> None:
        self.block.come_back(cube)
        self._settle()

    def _set_timers(self) -> None:
        for delay_s, number in self.block.timers:
            self._at(self.now_s + delay_s, self._pool_ready, number)
        self.block.timers.clear()

    def _pool_ready(self, pool: int, _: int) -> None:
        self.block.ready(pool)
        self._settle()

    def _round(self, _: None, __: int) -> None:
        """One turn of the maximizer's loop."""
        if isinstance(self.block, pools.MaximizerFloor):
            self.block.round(job.kind for job in self.queue.in_order())
            self._at(self.now_s + self.settings.times.loop_s, self._round, None)
            self._settle()

    # Books

    def _count_until(self, at_s: int) -> None:
        """Put the capacity that nobody holds on the books, from the last event to this one."""
        block, books, dt_s = self.block, self.books, at_s - self.now_s
        self.now_s = at_s
        free = block.free_hosts
        if block.spares:
            spare = self._spare_hosts()
            books.spare += spare * dt_s
            free -= spare
        if self.queue.count and not self.order.some_fit:
            books.stranded += (free + block.stranded_hosts) * dt_s
        else:
            books.queue_idle += free * dt_s
            books.stranded += block.stranded_hosts * dt_s
        books.broken += block.broken_hosts * dt_s
        books.drained += block.drained_hosts * dt_s
        books.maintenance += block.away_hosts * dt_s
        books.restart += block.forming_hosts * dt_s

    def _spare_hosts(self) -> int:
        """Hosts of empty cubes that are kept as spares."""
        empty = len(self.block.empty) if isinstance(self.block, floor.Floor) else 0
        return min(empty, self.block.spares) * topology.HOSTS_PER_CUBE

    def _unstarted(self) -> list[tuple[topology.Topology, int]]:
        """Shape and wait so far of jobs that never ran."""
        return [
            (job.kind.shape, self.now_s - job.arrival_s)
            for job in self.queue.in_order()
            if job.first_start_s < 0
        ]
