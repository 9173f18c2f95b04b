"""Runs with known answers, books that balance, and the published comparisons."""

import dataclasses
import itertools
import random
import statistics

import pytest

from tpuctl.engine import mix
from tpuctl.engine.availability import reliability
from tpuctl.engine.simulation import compare, grid, kinds, ledger, pools, report, run, scenario
from tpuctl.model import topology

Boxes, Method, Order = scenario.Boxes, scenario.Method, scenario.Order
PLAIN = scenario.Times(form_s=0, start_s=0)
DAY = 86400
CUBE, PAIR, OCTET = (topology.parse(text) for text in ("4x4x4", "4x4x8", "8x8x8"))


def play(jobs: list[mix.Job], faults: list[scenario.Fault] = (), **settings: object) -> report.Outcome:
    return run.run(scenario.Scenario(**{"times": PLAIN, "cubes": 4, **settings}), jobs, faults)


def saturated(
    cubes: int, load: float, seed: int, jobs: int, size_exponent: float = 0.0
) -> tuple[scenario.Scenario, list[mix.Job]]:
    """Table-2 jobs that a fixed torus can hold too; durations lognormal, by default alike for all sizes."""
    plan = dataclasses.replace(
        compare.workload(cubes, load, only_common=True), sigma=1.5, size_exponent=size_exponent
    )
    settings = scenario.Scenario(horizon_s=int(jobs / plan.jobs_per_s), cubes=cubes, times=PLAIN)
    return settings, compare.until(mix.jobs(random.Random(seed), plan), settings.horizon_s)


# Known answers


def test_first_come_first_served_by_hand() -> None:
    jobs = [mix.Job(0, PAIR, 100), mix.Job(10, OCTET, 5), mix.Job(10, PAIR, 50), mix.Job(20, CUBE, 10)]
    found = play(jobs, horizon_s=200, order=Order.FCFS)
    # 8 cubes never fit into 4: refused. The second pair starts at once, the cube at 60.
    assert (found.arrived, found.refused, found.finished) == (3, 1, 3)
    assert found.balance.chip_s["productive"] == 64 * (2 * 100 + 2 * 50 + 10)
    assert {waits.band: waits.p50_s for waits in found.waits} == {"64 chips": 40, "128-192 chips": 0}
    # While the cube waited (20 to 60) nothing was free, and afterwards nobody waited.
    assert found.balance.chip_s["stranded"] == 0
    assert found.balance.total_chip_s == 4 * 64 * 200


@pytest.mark.parametrize(
    ("order", "cube_wait_s", "large_wait_s", "stranded_cube_s"),
    [(Order.FCFS, 130, 90, 10), (Order.GREEDY, 0, 240, 460), (Order.EASY, 130, 90, 10)],
)
def test_the_three_orders_differ_as_they_should(
    order: Order, cube_wait_s: int, large_wait_s: int, stranded_cube_s: int
) -> None:
    # 3 cubes are busy until 100; 4 are wanted at 10 for 50 s; 1 cube is wanted at 20 for 230 s.
    jobs = [
        mix.Job(0, topology.parse("4x4x12"), 100),
        mix.Job(10, topology.parse("4x8x8"), 50),
        mix.Job(20, CUBE, 230),
    ]
    found = play(jobs, horizon_s=400, order=order)
    waits = {entry.band: entry.p50_s for entry in found.waits}
    assert waits == {"64 chips": cube_wait_s, "128-192 chips": 0, "256-384 chips": large_wait_s}
    assert found.finished == 3
    # From 10 to 20 one cube is free and the large job needs four. Greedy then strands three from 100 to 250;
    # the others hold the small job back on purpose, which is idle by order, not stranded.
    assert found.balance.chip_s["stranded"] == 64 * stranded_cube_s


def test_easy_lets_a_short_job_jump_and_a_long_one_wait() -> None:
    jobs = [
        mix.Job(0, topology.parse("4x4x12"), 100),
        mix.Job(10, topology.parse("4x8x8"), 50),
        mix.Job(20, CUBE, 81),
        mix.Job(20, CUBE, 80),
    ]
    found = play(jobs, horizon_s=400, order=Order.EASY)
    waits = {entry.band: (entry.p50_s, entry.p99_s) for entry in found.waits}
    assert waits["256-384 chips"] == (90, 90)
    assert waits["64 chips"] == (0, 130)


def test_users_who_overstate_lose_their_chance_to_jump() -> None:
    jobs = [
        mix.Job(0, topology.parse("4x4x12"), 100),
        mix.Job(10, topology.parse("4x8x8"), 50),
        mix.Job(99, CUBE, 60),
    ]
    exact = play(jobs, horizon_s=400, order=Order.EASY)
    vague = play(jobs, horizon_s=400, order=Order.EASY, estimate_factor=3.0)
    assert [entry.p50_s for entry in exact.waits if entry.band == "64 chips"] == [51]
    # The first job is believed to last until 300, so the cube (180 s as stated) ends before that.
    assert [entry.p50_s for entry in vague.waits if entry.band == "64 chips"] == [0]


def test_a_swap_by_hand() -> None:
    times = scenario.Times(form_s=40, start_s=20, swap_s=100, checkpoint_interval_s=50, checkpoint_write_s=10)
    job, fault = mix.Job(0, PAIR, 200), scenario.Fault(200, 0, 10_000)
    found = play([job], [fault], horizon_s=1000, times=times)
    # Until 200: 60 start, two rounds of 60, 20 lost. Then 120 swap and start, 100 work, one checkpoint.
    chips = 128
    assert found.balance.chip_s["restart"] == chips * (60 + 120)
    assert found.balance.chip_s["lost_work"] == chips * 20
    assert found.balance.chip_s["checkpoint"] == chips * (20 + 10)
    assert found.balance.chip_s["productive"] == chips * 200
    assert found.balance.chip_s["broken"] == 4 * 800
    # 15 healthy hosts stand beside the broken one.
    assert found.balance.chip_s["stranded"] == 60 * 800
    assert (found.swaps, found.requeues, found.finished) == (1, 0, 1)
    assert (found.blast_max_hosts, found.interrupted_mean_hosts) == (16, 32)


def test_without_a_cube_to_swap_in_the_job_waits_for_the_repair() -> None:
    job = mix.Job(0, topology.parse("4x8x8"), 300)
    found = play([job], [scenario.Fault(100, 5, 50)], horizon_s=1000)
    assert (found.swaps, found.requeues, found.finished) == (0, 1, 1)
    assert found.balance.chip_s["lost_work"] == 256 * 100
    assert found.balance.chip_s["productive"] == 256 * 300


def test_a_spare_is_kept_from_jobs_and_given_to_a_swap() -> None:
    jobs = [mix.Job(0, topology.parse("4x4x12"), 300), mix.Job(1, CUBE, 50)]
    found = play(jobs, [scenario.Fault(100, 47, 500)], horizon_s=400, spares=1, order=Order.GREEDY)
    assert (found.swaps, found.requeues) == (1, 0)
    assert found.balance.chip_s["spare"] == 64 * 100
    assert found.waits[0].unstarted == 1


def test_sub_slices_go_where_nobody_else_can() -> None:
    small = [mix.Job(10, topology.parse("2x4x4"), 100), mix.Job(10, topology.parse("2x2x4"), 100)]
    found = play(
        [*small, mix.Job(11, topology.parse("4x4x12"), 100)], [scenario.Fault(0, 3, 900)], horizon_s=300
    )
    # One cube is broken: both sub-slices fit beside the broken host, three whole cubes stay.
    assert max(entry.p99_s for entry in found.waits) == 0
    assert found.finished == 3


def test_maintenance_waits_for_the_job_and_is_on_the_books() -> None:
    plan = scenario.Maintenance(every_s=100, lasts_s=30)
    jobs = [mix.Job(0, topology.parse("2x2x1"), 150), mix.Job(0, topology.parse("2x2x2"), 120)]
    found = play(jobs, horizon_s=199, maintenance=plan, cubes=1, order=Order.GREEDY)
    # Closed at 100, drained while 1 and then 3 of 16 hosts are held, in maintenance from 150 to 180.
    assert found.balance.chip_s["maintenance"] == 64 * 30
    assert found.balance.chip_s["drained"] == 4 * (20 * 13 + 30 * 15)
    assert found.finished == 2


def test_blast_radius_of_one_vm_is_16_instead_of_128() -> None:
    jobs = [mix.Job(0, OCTET, 5000)]
    fault = [scenario.Fault(100, 3, 1000)]
    radius = {
        method: play(
            jobs, fault, horizon_s=10_000, cubes=16, method=method, pools=(8, 8), order=Order.GREEDY
        ).blast_max_hosts
        for method in (Method.ANY_CUBE, Method.STATIC_POOLS, Method.CONTIGUOUS)
    }
    assert radius == {Method.ANY_CUBE: 16, Method.STATIC_POOLS: 128, Method.CONTIGUOUS: 128}


def test_a_static_pool_is_down_until_repaired_and_made_again() -> None:
    times = scenario.Times(form_s=0, start_s=0, rebuild_s=700)
    job, fault = mix.Job(0, PAIR, 500), scenario.Fault(100, 0, 300)
    found = play([job], [fault], horizon_s=3000, cubes=2, method=Method.STATIC_POOLS, pools=(2,), times=times)
    chip_s = found.balance.chip_s
    # Lost until 100, broken until 400, made again until 1100, then 500 s of work.
    assert chip_s["lost_work"] == 128 * 100
    assert chip_s["broken"] == 4 * 300
    assert chip_s["stranded"] == (128 - 4) * 300
    assert chip_s["restart"] == 128 * 700
    assert chip_s["productive"] == 128 * 500


def test_a_small_job_holds_a_whole_pool() -> None:
    found = play([mix.Job(0, CUBE, 100)], horizon_s=100, cubes=4, method=Method.STATIC_POOLS, pools=(4,))
    assert found.balance.share("productive") == 0.25
    assert found.balance.share("stranded") == 0.75


def test_the_maximizer_makes_pools_for_what_waits_and_merges_idle_ones() -> None:
    times = scenario.Times(form_s=0, start_s=0, pool_s=1200, loop_s=1800)
    jobs = [mix.Job(1, CUBE, 600) for _ in range(4)] + [mix.Job(3601, topology.parse("4x8x8"), 100)]
    found = play(jobs, horizon_s=20_000, method=Method.MAXIMIZER, order=Order.GREEDY, times=times)
    waits = {entry.band: entry.p50_s for entry in found.waits}
    # Rounds at 1800 and 5400; a pool is ready 1200 s later.
    assert waits["64 chips"] == 1800 + 1200 - 1
    assert waits["256-384 chips"] == 5400 + 1200 - 3601
    assert found.balance.chip_s["restart"] == 2 * 256 * 1200


def test_the_maximizer_deletes_sick_pools_and_works_down_to_smaller_sizes() -> None:
    times = scenario.Times(form_s=0, start_s=0, pool_s=100, loop_s=1000)
    jobs = [mix.Job(0, topology.parse("4x8x8"), 50), mix.Job(1, PAIR, 50), mix.Job(1, CUBE, 50)]
    broken = [scenario.Fault(0, 0, 5000)]
    found = play(jobs, broken, horizon_s=10_000, method=Method.MAXIMIZER, order=Order.GREEDY, times=times)
    waits = {entry.band: entry.p50_s for entry in found.waits}
    assert waits["128-192 chips"] == waits["64 chips"] == 1000 + 100 - 1
    # Four cubes are there again at 5000, the round of 5000 or 6000 makes the large pool.
    assert waits["256-384 chips"] in (5100, 6100)


def test_default_static_pools_follow_the_mix() -> None:
    assert pools.carve(64) == (48, 8, 4, 2, 1, 1)
    assert sum(pools.carve(144)) == 144
    assert max(pools.carve(144)) == 48


# Books


@pytest.mark.parametrize("interval_s", [0, 7, 50])
@pytest.mark.parametrize("write_s", [0, 3])
def test_segments_match_a_second_by_second_account(interval_s: int, write_s: int) -> None:
    startup_s = 5
    for elapsed_s in range(130):
        seconds = (
            "r" * startup_s + ("p" * interval_s + "c" * write_s) * 40 if interval_s else "r" * 5 + "p" * 200
        )
        cut = seconds[:elapsed_s]
        for failed in (False, True):
            part = ledger.segment_of(elapsed_s, startup_s, interval_s, write_s, failed=failed)
            assert sum(part) == elapsed_s
            assert (part.restart_s, part.checkpoint_s) == (cut.count("r"), cut.count("c"))
            assert part.productive_s + part.lost_s == cut.count("p")
            kept = max(elapsed_s - 5, 0) // (interval_s + write_s) * interval_s if interval_s else 0
            assert part.productive_s == (kept if failed else cut.count("p"))


@pytest.mark.parametrize(("work_s", "want"), [(1, 6), (50, 55), (51, 59), (100, 108), (101, 112)])
def test_wall_time_has_no_checkpoint_after_the_end(work_s: int, want: int) -> None:
    assert ledger.wall_s(work_s, startup_s=5, interval_s=50, write_s=3) == want
    assert ledger.segment_of(want, 5, 50, 3, failed=False).productive_s == work_s


def test_books_that_do_not_balance_are_a_bug() -> None:
    books = ledger.Ledger(productive=5, broken=4)
    assert books.close(9).share("broken") == pytest.approx(4 / 9)
    with pytest.raises(ledger.Unbalanced):
        books.close(10)
    with pytest.raises(ledger.Unbalanced):
        ledger.Ledger(productive=11, queue_idle=-1).close(10)


def test_the_classes_of_the_ledger() -> None:
    found = play([], horizon_s=10)
    assert list(found.balance.chip_s) == [
        "productive", "checkpoint", "restart", "lost_work", "queue_idle", "stranded", "spare", "broken",
        "drained", "maintenance",
    ]  # fmt: skip
    assert found.ledger_rows[-1] == ("total", "0.7", "100.00 %")
    assert found.balance.share("queue_idle") == 1.0


# Against published numbers


def test_ettr_of_a_long_job_agrees_with_the_closed_form() -> None:
    mtbf_s = 3600 * reliability.mttf_h(2048, 6.5e-3)
    host_mtbf_s = mtbf_s * 512
    times = scenario.Times(form_s=0, start_s=100, swap_s=200, checkpoint_write_s=60)
    settings = scenario.Scenario(
        horizon_s=400 * DAY, cubes=40, times=times, host_mtbf_s=host_mtbf_s, spares=8, order=Order.FCFS
    )
    faults = scenario.faults(random.Random(12), 40, host_mtbf_s, repair_s=3600)
    found = run.run(settings, [mix.Job(0, topology.parse("8x16x16"), 10**9)], faults)
    plan = reliability.Checkpointing(interval_s=reliability.young_s(60, mtbf_s), write_s=60, restart_s=300)
    assert found.interruptions > 4000
    assert found.requeues == 0
    assert found.goodput / found.utilisation == pytest.approx(reliability.ettr(plan, mtbf_s), rel=0.05)


SEEDS = range(6)


def used(
    order: Order, load: float, size_exponent: float = 0.0, boxes: Boxes = Boxes.PACKED
) -> tuple[float, float]:
    """Mean utilisations, of any-cube placement and of a fixed torus: no failures, 64 cubes."""
    found = []
    for seed in SEEDS:
        settings, jobs = saturated(64, load, seed, 6000, size_exponent)
        settings = dataclasses.replace(settings, boxes=boxes)
        ways = [(Method.ANY_CUBE, order), (Method.CONTIGUOUS, order)]
        found.append([outcome.utilisation for outcome in compare.compare(settings, ways, jobs).outcomes])
    switched, fixed = (statistics.fmean(column) for column in zip(*found, strict=True))
    return switched, fixed


def ratio(*what: object) -> float:
    switched, fixed = used(*what)
    return switched / fixed


@pytest.mark.parametrize("boxes", Boxes)
def test_any_cube_beats_a_fixed_torus_first_come_first_served(boxes: Boxes) -> None:
    assert ratio(Order.FCFS, 2.0, 0.0, boxes) >= 1.4


def test_the_gain_is_smaller_where_large_jobs_last_longer() -> None:
    # Time is then spent on the largest slices, which leave a fixed torus fewer holes.
    assert 1.15 <= ratio(Order.FCFS, 2.0, 0.7) < 1.4


def test_any_cube_beats_a_fixed_torus_with_backfill() -> None:
    """A rough study of the same mix (greedy, load 2, two seeds) had 0.962 and 0.809, that is 1.19."""
    switched, fixed = used(Order.GREEDY, 2.0, 0.0, Boxes.ANYWHERE)
    assert switched / fixed >= 1.15
    assert (switched, fixed) == pytest.approx((0.962, 0.809), abs=0.02)


@pytest.mark.parametrize(("order", "least", "most"), [(Order.GREEDY, 1.08, 1.13), (Order.EASY, 1.01, 1.05)])
def test_packing_and_backfill_close_most_of_the_gap_as_long_as_nothing_fails(
    order: Order, least: float, most: float
) -> None:
    """Small jobs fill the holes of a torus, if there are enough of them and nothing else makes holes."""
    assert least <= ratio(order, 2.0) <= most


@pytest.mark.parametrize("order", [Order.GREEDY, Order.EASY])
@pytest.mark.parametrize("load", [1.0, 2.0])
def test_with_the_published_outages_any_cube_beats_a_fixed_torus_with_backfill_too(
    order: Order, load: float
) -> None:
    outages = scenario.published_outages()
    sums = [0.0, 0.0]
    for seed in range(3):
        settings, jobs = saturated(64, load, seed, 6000)
        settings = dataclasses.replace(settings, host_mtbf_s=outages.mtbf_s)
        faults = scenario.faults(random.Random(f"faults-{seed}"), 64, *outages, steady=True)
        ways = [(Method.ANY_CUBE, order), (Method.CONTIGUOUS, order)]
        for index, outcome in enumerate(compare.compare(settings, ways, jobs, faults).outcomes):
            sums[index] += outcome.utilisation
    assert sums[0] / sums[1] >= 1.15


def test_a_fixed_torus_is_filled_from_its_first_cube_on() -> None:
    """Sub-slices too: where they are spread over the grid, there is no box left for anybody."""
    block = grid.GridFloor(64)
    held = []
    for serial, text in enumerate(("4x4x4", "4x4x4", "2x4x4", "4x4x4", "2x2x1", "4x4x8")):
        kind = run.make_kind(scenario.Scenario(horizon_s=1), topology.parse(text), serial)
        held.append(kinds.Running(serial, kind, 0, 1))
        assert block.place(held[-1])
    assert [job.cubes for job in held] == [(0,), (1,), (2,), (3,), (2,), (4, 5)]
    block.release(held[0])
    block.release(held[4])
    later = kinds.Running(9, held[2].kind, 0, 1)
    assert block.place(later)
    assert later.cubes == (2,)
    other = kinds.Running(10, held[2].kind, 0, 1)
    assert block.place(other)
    assert other.cubes == (0,)


def test_failures_cost_static_pools_most() -> None:
    settings = scenario.Scenario(
        horizon_s=30 * DAY, cubes=64, host_mtbf_s=scenario.mtbf_s(8e-4), order=Order.EASY
    )
    plan = dataclasses.replace(compare.workload(64, 1.0, only_common=True), sigma=1.0)
    jobs, faults = compare.draw(random.Random(3), settings, plan, repair_s=3 * DAY)
    found = compare.compare(settings, compare.published_ways(), jobs, faults)
    switched, fixed, static, maximizer = found.outcomes
    assert switched.goodput > max(fixed.goodput, static.goodput, maximizer.goodput)
    assert static.goodput == min(outcome.goodput for outcome in found.outcomes)
    assert (
        switched.blast_mean_hosts
        <= 16
        < min(outcome.blast_mean_hosts for outcome in (fixed, static, maximizer))
    )
    assert switched.swaps > 0
    assert fixed.swaps == static.swaps == maximizer.swaps == 0
    assert {outcome.balance.total_chip_s for outcome in found.outcomes} == {4096 * 30 * DAY}
    assert all(len(row) == len(found.columns) for row in found.rows)


# Results


def test_rows_are_ready_to_print() -> None:
    settings, jobs = saturated(64, 1.2, 0, jobs=300)
    found = run.run(settings, jobs)
    for columns, rows in (
        (found.columns, found.rows),
        (found.wait_columns, found.wait_rows),
        (found.ledger_columns, found.ledger_rows),
    ):
        assert rows
        assert all(len(row) == len(columns) and all(isinstance(cell, str) for cell in row) for row in rows)
    assert sum(waits.jobs for waits in found.waits) == found.arrived


def test_same_input_same_outcome() -> None:
    settings, jobs = saturated(64, 1.2, 0, jobs=1000)
    assert run.run(settings, jobs) == run.run(settings, jobs)


def test_only_what_every_method_could_hold_is_compared() -> None:
    jobs = [mix.Job(0, topology.parse("4x4x32"), 100), mix.Job(0, CUBE, 100)]
    settings = scenario.Scenario(horizon_s=1000, cubes=64, times=PLAIN, order=Order.FCFS)
    fixed = (Method.CONTIGUOUS, Order.FCFS)
    assert compare.compare(settings, [(Method.ANY_CUBE, Order.FCFS), fixed], jobs).outcomes[0].arrived == 1
    assert compare.compare(settings, [(Method.ANY_CUBE, Order.FCFS)], jobs).outcomes[0].arrived == 2
    assert run.run(dataclasses.replace(settings, method=Method.CONTIGUOUS), jobs).refused == 1


def test_percentiles_are_nearest_rank() -> None:
    assert [report.percentile(range(1, 101), share) for share in (0.5, 0.99, 1.0)] == [50, 99, 100]
    assert report.percentile([7], 0.01) == 7


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"horizon_s": 0}, "at least 1"),
        ({"estimate_factor": 0.5}, "at least 1"),
        ({"spares": 4}, "4 spares of 4 cubes"),
        ({"spares": 1, "method": Method.CONTIGUOUS}, "only the any-cube method"),
        ({"method": Method.MAXIMIZER, "order": Order.FCFS}, "greedy backfill"),
        ({"pools": (3, 2)}, "not in a block of 4"),
        ({"pools": ()}, "not in a block of 4"),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        scenario.Scenario(**{"horizon_s": 10, "cubes": 4, **wrong})


def test_fault_streams_have_the_rate_asked_for() -> None:
    rate = 8e-4
    stream = scenario.faults(random.Random(1), 144, scenario.mtbf_s(rate), repair_s=3 * DAY)
    year = list(itertools.takewhile(lambda fault: fault.at_s < 365 * DAY, stream))
    assert len(year) == pytest.approx(365 * 2304 * rate, rel=0.1)
    assert statistics.fmean(fault.repair_s for fault in year) == pytest.approx(3 * DAY, rel=0.1)
    assert 0 <= min(fault.host for fault in year) <= max(fault.host for fault in year) < 2304
    assert len({fault.host // 16 for fault in year}) > 130


def test_a_block_that_is_not_new_begins_with_as_many_hosts_out_as_on_average() -> None:
    outages = scenario.published_outages()
    assert outages.repair_s / (outages.repair_s + outages.mtbf_s) == pytest.approx(0.00782)
    assert outages.repair_s == pytest.approx(9.9 * DAY, rel=0.01)
    out = 0
    for seed in range(20):
        stream = scenario.faults(random.Random(seed), 144, *outages, steady=True)
        first = list(itertools.takewhile(lambda fault: fault.at_s == 0, stream))
        assert len({fault.host for fault in first}) == len(first)
        out += len(first)
    assert out / 20 == pytest.approx(0.00782 * 2304, rel=0.15)
