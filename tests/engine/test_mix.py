"""The published mix, its statistics, and the jobs drawn from it."""

import collections
import dataclasses
import itertools
import math
import random
import statistics

import pytest

from tpuctl.engine import mix
from tpuctl.model import topology

BLOCK = mix.Workload(capacity_chips=4096)


def test_classification_of_the_rows() -> None:
    found = mix.statistics()
    assert found.sub_cube == pytest.approx(29.2)
    assert found.twistable == pytest.approx(33.1)
    assert found.twisted == pytest.approx(28.4)
    assert found.twisted_of_twistable == pytest.approx(85.8, abs=0.05)
    assert found.twisted_of_whole_cubes == pytest.approx(40.1, abs=0.05)
    assert found.compact == pytest.approx(51.7)
    assert found.listed == pytest.approx(97.5)
    assert found.mean_chips == pytest.approx(409, abs=0.5)
    assert found.mean_cubes == pytest.approx(9.01, abs=0.005)


@pytest.mark.parametrize(
    ("low", "high", "printed"),
    [
        (1, 63, 29),
        (64, 64, 14),
        (128, 192, 18),
        (256, 384, 12),
        (512, 768, 13),
        (1024, 1536, 4),
        (2048, 3072, 8),
    ],
)
def test_bands_as_printed(low: int, high: int, printed: int) -> None:
    assert mix.band_percent(low, high) == pytest.approx(printed, abs=0.5)


def test_shares_of_chips() -> None:
    for chips, want in (
        (3072, 47.0),
        (512, 15.3),
        (1024, 9.5),
        (2048, 8.7),
        (256, 7.5),
        (128, 5.6),
        (64, 2.2),
    ):
        assert mix.chip_share(chips) == pytest.approx(want, abs=0.06)
    assert sum(mix.chip_share(2**n) for n in range(6)) == pytest.approx(1.1, abs=0.06)


@pytest.mark.parametrize("row", mix.TABLE_2)
def test_every_row_is_legal_and_no_other_order_of_it(row: mix.Row) -> None:
    assert mix.broken_v4_rule(row.dimensions) is None
    for turned in set(itertools.permutations(row.dimensions)) - {row.dimensions}:
        assert mix.broken_v4_rule(turned) is not None
    assert row.on_tpu7x.chips == max(row.chips, 4)


@pytest.mark.parametrize("dimensions", [(4, 4, 6), (0, 4, 4), (16, 16, 20), (1, 2, 4)])
def test_other_shapes_are_not_of_v4(dimensions: tuple[int, int, int]) -> None:
    assert mix.broken_v4_rule(dimensions) is not None


def test_mapping_to_tpu7x_keeps_all_weight() -> None:
    weights = dict(mix.on_tpu7x())
    assert weights[topology.parse("2x2x1")] == 92
    assert weights[topology.parse("4x4x8")] == 175
    assert sum(weights.values()) == 975
    assert all(topology.broken_rule(tuple(shape)) is None for shape in weights)


def test_drawn_shapes_follow_the_table() -> None:
    drawn = list(itertools.islice(mix.jobs(random.Random(1), BLOCK), 40_000))
    counts = collections.Counter(job.topology for job in drawn)
    for shape, weight in mix.on_tpu7x():
        share = weight / 975
        assert counts[shape] / 40_000 == pytest.approx(share, abs=4 * math.sqrt(share / 40_000))


def test_same_seed_same_jobs_and_order_of_time() -> None:
    one, two = (list(itertools.islice(mix.jobs(random.Random(9), BLOCK), 500)) for _ in range(2))
    assert one == two
    assert one != list(itertools.islice(mix.jobs(random.Random(10), BLOCK), 500))
    assert all(before.arrival_s <= after.arrival_s for before, after in itertools.pairwise(one))


@pytest.mark.parametrize("serving", [0.0, 0.2])
def test_offered_load_is_the_load_asked_for(serving: float) -> None:
    plan = dataclasses.replace(BLOCK, load=0.8, sigma=1.0, longest_s=10 * 86400, serving_share=serving)
    drawn = list(itertools.islice(mix.jobs(random.Random(2), plan), 60_000))
    offered = sum(job.work_s * job.topology.chips for job in drawn) / (4096 * drawn[-1].arrival_s)
    assert offered == pytest.approx(0.8, rel=0.05)


def test_durations_grow_with_size() -> None:
    cube, large = topology.parse("4x4x4"), topology.parse("8x8x8")
    assert BLOCK.median_of(cube) == 3600
    assert BLOCK.median_of(large) == pytest.approx(3600 * 8**0.7)
    drawn = itertools.islice(mix.jobs(random.Random(3), BLOCK), 20_000)
    median_s = statistics.median(job.work_s for job in drawn if job.topology == large)
    assert median_s == pytest.approx(BLOCK.median_of(large), rel=0.15)


def test_mean_duration_is_that_of_the_cut_lognormal() -> None:
    plan = dataclasses.replace(BLOCK, sigma=1.5, longest_s=86400)
    rng = random.Random(5)
    drawn = [min(rng.lognormvariate(math.log(3600), 1.5), 86400) for _ in range(100_000)]
    assert plan.mean_of(topology.CUBE) == pytest.approx(statistics.fmean(drawn), rel=0.02)
    assert dataclasses.replace(plan, sigma=0).mean_of(topology.CUBE) == 3600


def test_days_are_busier_than_nights() -> None:
    plan = dataclasses.replace(BLOCK, daily_swing=0.8, load=20)
    drawn = list(
        itertools.takewhile(lambda job: job.arrival_s < 20 * 86400, mix.jobs(random.Random(6), plan))
    )
    day = sum(job.arrival_s % 86400 < 43200 for job in drawn)
    # The mean of 1 + 0.8 sin over half a day is 1 + 1.6 / pi.
    assert day / len(drawn) == pytest.approx((1 + 1.6 / math.pi) / 2, abs=0.02)
    assert len(drawn) / (20 * 86400) == pytest.approx(plan.jobs_per_s, rel=0.05)
