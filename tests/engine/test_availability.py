"""Closed forms against the published numbers and against their Monte Carlo twins."""

import math
import random

import pytest

from tpuctl.engine.availability import binomial, goodput, reliability, salvage, schedulable, spares

SIZES = (1, 2, 4, 8, 16, 32, 48, 64)
FIGURE_4 = {
    0.999: ((98.41, 97.73, 95.97, 91.99, 83.97, 67.95, 75.00, 35.90),
            (98.41, 96.85, 93.80, 87.98, 77.40, 59.91, 46.38, 35.90)),
    0.995: ((92.29, 91.51, 89.97, 86.87, 75.15, 50.29, 75.00, 0.59),
            (92.29, 85.18, 72.56, 52.64, 27.71, 7.68, 2.13, 0.59)),
    0.990: ((85.15, 84.36, 82.80, 79.57, 74.74, 50.00, 74.20, 0.00),
            (85.15, 72.50, 52.56, 27.63, 7.63, 0.58, 0.04, 0.00)),
}  # fmt: skip
SUPERPOD = {
    8: (95.0, 89.8, 82.7), 16: (90.0, 88.3, 79.1), 32: (88.9, 87.7, 69.4), 48: (70.0, 66.7, 66.7),
    64: (88.9, 86.6, 49.9), 72: (55.0, 50.0, 50.0), 96: (66.7, 66.7, 66.7), 128: (88.9, 84.2, 11.0),
    144: (10.0, 0.0, 0.0),
}  # fmt: skip
FIGURE_1 = dict(zip(range(50, 64), (99, 99, 97, 93, 87, 78, 66, 51, 36, 22, 11, 5, 2, 1), strict=True))
FIGURE_1_WITHOUT = {50: 94, 52: 90, 54: 81, 56: 60, 58: 32, 60: 10, 62: 1}


@pytest.mark.parametrize("host", FIGURE_4)
def test_figure_4_closed_form(host: float) -> None:
    switched, static = FIGURE_4[host]
    for cubes, want, want_static in zip(SIZES, switched, static, strict=True):
        found = goodput.closed_form(64, cubes, host)
        assert 100 * found.switched == pytest.approx(want, abs=0.006)
        assert 100 * found.static == pytest.approx(want_static, abs=0.006)


@pytest.mark.parametrize("host", FIGURE_4)
def test_figure_4_monte_carlo_agrees(host: float) -> None:
    sampled = goodput.sampled(random.Random(41), 64, SIZES, host, trials=20_000)
    for cubes in SIZES:
        exact = goodput.closed_form(64, cubes, host)
        assert sampled[cubes].switched == pytest.approx(exact.switched, abs=0.005)
        # Few places of a large size: the spread of 20,000 trials allows one point there.
        assert sampled[cubes].static == pytest.approx(exact.static, abs=0.005 if cubes <= 16 else 0.01)


@pytest.mark.parametrize("cubes", SUPERPOD)
def test_superpod_prediction(cubes: int) -> None:
    for host, want in zip((0.999, 0.995, 0.99), SUPERPOD[cubes], strict=True):
        assert 100 * goodput.switched(144, cubes, host) == pytest.approx(want, abs=0.06)


def test_larger_is_not_always_worse() -> None:
    ranked = [size for size, _ in goodput.least_waste(144, (32, 48, 64, 72, 96), 0.995)]
    assert ranked == [32, 64, 48, 96, 72]
    assert goodput.static(64, 65, 0.999) == 0.0


def test_host_and_cube_availability_are_inverse() -> None:
    assert goodput.host_availability(0.9347) == pytest.approx(0.99579, abs=5e-6)
    assert goodput.cube_availability(goodput.host_availability(0.9)) == pytest.approx(0.9)


def test_figure_1_closed_form_and_simulation_within_2_points() -> None:
    fabric = schedulable.fabric_availability(schedulable.SWITCH_AVAILABILITY, 48)
    assert fabric == pytest.approx(0.94, abs=1e-3)
    sampled = schedulable.sampled(random.Random(7), tuple(FIGURE_1), 20_000)
    without = schedulable.sampled(
        random.Random(8), tuple(FIGURE_1_WITHOUT), 20_000, switch_availability=schedulable.SWITCH_AVAILABILITY
    )
    for cubes, want in FIGURE_1.items():
        assert 100 * schedulable.probability(cubes) == pytest.approx(want, abs=2)
        assert 100 * sampled[cubes] == pytest.approx(want, abs=2)
        assert sampled[cubes] == pytest.approx(schedulable.probability(cubes), abs=0.015)
    for cubes, want in FIGURE_1_WITHOUT.items():
        exact = schedulable.probability(cubes, fabric=fabric)
        assert 100 * exact == pytest.approx(want, abs=2)
        # The closed form is 1.9 points off at worst, so sampling noise may add to that.
        assert without[cubes] == pytest.approx(exact, abs=0.015)


def test_figure_1_fit_is_as_close_as_stated() -> None:
    misses = [100 * schedulable.probability(cubes) - want for cubes, want in FIGURE_1.items()]
    assert math.sqrt(sum(miss * miss for miss in misses) / len(misses)) < 0.4
    assert schedulable.probability(50) == pytest.approx(0.993, abs=5e-4)
    assert schedulable.probability(57) == pytest.approx(0.512, abs=5e-4)


@pytest.mark.parametrize(("switches", "want"), [(96, 90.8), (48, 95.3), (24, 97.6)])
def test_fabric_availability_by_number_of_switches(switches: int, want: float) -> None:
    assert 100 * schedulable.fabric_availability(0.999, switches) == pytest.approx(want, abs=0.06)


def test_130_of_144() -> None:
    assert binomial.at_least(144, 0.9347, 130) == pytest.approx(0.9501, abs=5e-5)
    for availability, want in ((0.93, 0.920), (0.94, 0.973), (0.95, 0.994), (0.9229, 0.855)):
        assert binomial.at_least(144, availability, 130) == pytest.approx(want, abs=6e-4)
    assert schedulable.needed_cube_availability(144, 130, 0.95) == pytest.approx(0.9347, abs=5e-5)
    assert [schedulable.guaranteed_cubes(pod, 0.9347, 0.95) for pod in (64, 140, 144)] == [56, 126, 130]


@pytest.mark.parametrize(
    ("cubes", "hosts_h", "all_h"),
    [
        (1, 1875, 1111), (8, 234, 125), (16, 117, 66), (32, 58.6, 33.8), (48, 39.1, 22.7), (64, 29.3, 17.1),
        (130, 14.4, 8.5), (144, 13.0, 7.7),
    ],
)  # fmt: skip
def test_mtbf_by_slice(cubes: int, hosts_h: float, all_h: float) -> None:
    assert reliability.mtbf_hosts_h(cubes) == pytest.approx(hosts_h, rel=0.005)
    assert reliability.mtbf_all_h(cubes) == pytest.approx(all_h, rel=0.005)


def test_mttf_of_the_published_clusters() -> None:
    assert reliability.mttf_h(2048, 6.5e-3) == pytest.approx(1.803, abs=5e-4)
    assert reliability.mttf_h(16384, 6.5e-3) == pytest.approx(0.2254, abs=5e-5)
    assert reliability.mttf_h(128, 6.5e-3) == pytest.approx(28.8, abs=0.05)
    # 419 unexpected interruptions in 54 days.
    assert pytest.approx(reliability.mttf_h(2048, 3.79e-3), rel=0.002) == 54 * 24 / 419


@pytest.mark.parametrize(
    ("nodes", "rate", "write_s", "want"),
    [
        (2048, 6.5e-3, 10, 0.901), (2048, 6.5e-3, 60, 0.829), (2048, 6.5e-3, 300, 0.696),
        (2048, 2.34e-3, 10, 0.951), (2048, 2.34e-3, 60, 0.906), (2048, 2.34e-3, 300, 0.818),
        (1500, 6.5e-3, 10, 0.921), (1500, 6.5e-3, 60, 0.858), (1500, 6.5e-3, 300, 0.740),
    ],
)  # fmt: skip
def test_ettr(nodes: int, rate: float, write_s: float, want: float) -> None:
    mtbf_s = 3600 * reliability.mttf_h(nodes, rate)
    plan = reliability.Checkpointing(
        interval_s=reliability.young_s(write_s, mtbf_s), write_s=write_s, restart_s=300
    )
    closed = reliability.ettr(plan, mtbf_s)
    assert closed == pytest.approx(want, abs=6e-4)
    assert reliability.ettr_exponential(plan, mtbf_s) == pytest.approx(closed, rel=0.05)
    sampled = reliability.sampled_ettr(random.Random(3), plan, mtbf_s, failures=20_000)
    assert sampled == pytest.approx(closed, rel=0.05)
    assert sampled == pytest.approx(reliability.ettr_exponential(plan, mtbf_s), rel=0.01)


@pytest.mark.parametrize(("write_s", "young", "daly"), [(10, 6.0, 5.9), (60, 14.7, 14.0), (300, 32.9, 29.6)])
def test_young_and_daly(write_s: float, young: float, daly: float) -> None:
    mtbf_s = 3600 * reliability.mttf_h(2048, 6.5e-3)
    assert reliability.young_s(write_s, mtbf_s) / 60 == pytest.approx(young, abs=0.05)
    assert reliability.daly_s(write_s, mtbf_s) / 60 == pytest.approx(daly, abs=0.05)


def test_limits_of_the_formulas() -> None:
    hopeless = reliability.Checkpointing(interval_s=600, write_s=60, restart_s=7200)
    assert reliability.ettr(hopeless, 3600) == 0.0
    assert reliability.daly_s(7200, 3600) == 3600
    assert reliability.availability(9, 1) == 0.9
    light = reliability.Checkpointing(interval_s=600, write_s=6, restart_s=60)
    assert reliability.waste(light, 36_000) == pytest.approx(0.02)


SPARES = {
    0.0021: "0/1/1 0/1/1 1/1/2 1/1/2 1/1/2 1/2/3 1/2/3",
    0.0127: "1/1/2 1/2/3 2/2/3 2/3/4 3/4/5 3/5/6 4/5/7",
    0.0375: "1/2/3 2/3/4 3/5/6 4/6/7 5/7/9 7/9/11 9/11/13",
    0.0653: "2/3/4 3/4/6 5/7/8 7/8/11 8/10/13 12/14/17 14/17/20",
    0.118: "3/4/6 5/7/9 8/10/13 11/14/16 14/17/20 20/23/27 25/28/32",
}


@pytest.mark.parametrize("unavailability", SPARES)
def test_spares_table(unavailability: float) -> None:
    found = [
        "/".join(str(spares.needed(cubes, unavailability, c)) for c in (0.95, 0.99, 0.999))
        for cubes in (8, 16, 32, 48, 64, 100, 128)
    ]
    assert " ".join(found) == SPARES[unavailability]


@pytest.mark.parametrize(("outage_h", "want"), [(4, 0.0021), (24, 0.0127), (72, 0.0376)])
def test_unavailability_takes_rate_and_outage(outage_h: float, want: float) -> None:
    outages = spares.Outages(failures_per_host_day=8e-4, outage_h=outage_h)
    assert outages.cube_unavailability == pytest.approx(want, abs=5e-5)


def test_the_published_unavailability_means_ten_days_of_outage() -> None:
    outages = spares.Outages(failures_per_host_day=8e-4, outage_h=24 * 9.85)
    assert outages.host_unavailability == pytest.approx(schedulable.MACHINE_UNAVAILABILITY, rel=0.01)


def test_break_even() -> None:
    day = spares.Outages(failures_per_host_day=8e-4, outage_h=24)
    assert 29 < spares.break_even(48, day, 0.1) < 29.5
    assert 0.8 < spares.break_even(8, day, 0.1) < 0.82
    large, small = spares.advise((48, 8), day, 0.99, 0.1)
    assert (large.needed, large.pays) == (3, True)
    assert (small.needed, small.pays) == (1, False)
    assert spares.break_even(48, spares.Outages(failures_per_host_day=8e-4, outage_h=1), 2) == 0


def test_stock_is_a_poisson_quantile() -> None:
    day = spares.Outages(failures_per_host_day=8e-4, outage_h=24)
    assert spares.in_use_mean(48, day) == pytest.approx(0.6144)
    assert spares.stock(48, day, 0.95) == 2
    assert binomial.poisson_quantile(0, 0.9) == 0
    assert binomial.poisson_quantile(1, 0.9) == 2
    for mean, confidence in ((-1, 0.9), (1, 1.0), (2000, 0.9)):
        with pytest.raises(ValueError, match="mean"):
            binomial.poisson_quantile(mean, confidence)


@pytest.mark.parametrize(("unavailability", "confidence"), [(0.1, 1.0), (0.1, 0.0), (1.0, 0.9)])
def test_impossible_confidence_is_refused(unavailability: float, confidence: float) -> None:
    with pytest.raises(ValueError, match="confidence"):
        spares.needed(8, unavailability, confidence)


@pytest.mark.parametrize(
    ("broken", "least", "mean"),
    [
        (0, (2, 4, 8, 16), (2, 4, 8, 16)),
        (1, (1, 3, 7, 15), (1, 3, 7, 15)),
        (2, (0, 2, 6, 14), (0.47, 2.2, 6.07, 14)),
        (3, (0, 1, 5, 13), (0.2, 1.57, 5.2, 13)),
        (4, (0, 0, 4, 12), (0.08, 1.09, 4.4, 12)),
        (16, (0, 0, 0, 0), (0, 0, 0, 0)),
    ],
)
def test_salvage_of_a_broken_cube(broken: int, least: tuple[int, ...], mean: tuple[float, ...]) -> None:
    found = salvage.salvage(broken)
    assert [str(part.shape) for part in found] == ["2x4x4", "2x2x4", "2x2x2", "2x2x1"]
    assert tuple(part.least for part in found) == least
    assert [part.mean for part in found] == pytest.approx(mean, abs=0.006)


def test_salvage_of_too_many_hosts_is_refused() -> None:
    with pytest.raises(ValueError, match="16 hosts"):
        salvage.salvage(17)
