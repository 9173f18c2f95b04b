"""A declared fleet from an empty cluster to converged, and then days of failures, unattended.

The default run is a smaller block that fails more often; `-m slow` takes a full block for 30 days, declared
by the example that is shipped. Each prints one line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e import crash_stage, fleet_days, fleet_model, fleet_record

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable

BLOCK = crash_stage.ROOT / "configs" / "fleets" / "block.yaml"
HOUR_S = 3600.0
POINTS = 0.02
NOT_FOUND, OK = 5, 0

SMALL = """\
apiVersion: tpuctl/v1
kind: Fleet
name: small-block
reservations:
  - name: sim-reservation
    blocks:
      - {name: sim-reservation-block-0001, spares: 2}
slices:
  - {name: flagship, topology: 8x8x8, fallback: [4x8x8], priority: 100}
  - {name: midsize, topology: 4x8x8, fallback: [4x4x8], priority: 50}
  - {name: pipeline, topology: 4x4x8, count: 2, gang: true, sameBlock: true, priority: 40}
  - {name: serve, topology: 4x4x8, priority: 80}
  - {name: canary, topology: 4x4x4}
  - {name: batch, topology: 2x4x4, count: 2, onDeletion: reform}
  - {name: notebook, topology: 2x2x4, count: 2, onDeletion: reform}
sparesBelow: 40
budgets:
  disruptedChipsPerHour: 1024
  poolOperationsInFlight: 12
remediation: {reboot: allow}
"""
"""21 of 26 cubes; one more is somebody else's."""

SCALED = fleet_days.Run(
    fleet=SMALL,
    cubes=26,
    days=3.0,
    seed=1,
    failures_per_host_day=8e-3,
    repair_s=4 * HOUR_S,
    idle_s=HOUR_S,
    maintained=1,
    maintenance_s=4 * HOUR_S,
    jobs=("serve", "canary"),
)
"""Ten times the failures of the full run, each for a sixth of the time."""

FULL = fleet_days.Run(
    fleet=BLOCK.read_text(),
    cubes=144,
    days=30.0,
    seed=1,
    failures_per_host_day=8e-4,
    repair_s=24 * HOUR_S,
    idle_s=HOUR_S,
    maintained=3,
    maintenance_s=8 * HOUR_S,
    jobs=("serve-0", "canary-0"),
)
"""Some 55 host failures: the rate that the arithmetic of hot spares is usually shown with."""

Report = "Callable[[fleet_days.Days], None]"


@pytest.fixture
def report(tell: Callable[[str], None], record_property: Callable[[str, object], None]) -> Report:
    """Tells the line, and judges."""

    def judge(days: fleet_days.Days) -> None:
        result, budgets = days.result, days.spec.budgets
        record_property("active", result.active)
        record_property("model", result.model)
        tell(f"reconcile: {result.line()}")
        assert days.wrong == []
        assert days.leftovers() == []
        assert result.active >= result.model - POINTS
        assert result.most_disrupted <= budgets.disrupted_chips_per_hour
        assert result.most_in_repair <= budgets.cubes_in_repair_per_block
        assert result.most_pool_operations <= budgets.pool_operations_in_flight

    return judge


def is_quiet(days: fleet_days.Days) -> bool:
    """Whether the plan of a person is empty."""
    done = days.stage.tpuctl("reconcile", "plan", "-f", str(days.file), "--detailed-exitcode")
    return done.status == OK


def play(home: pathlib.Path, run: fleet_days.Run, report: Report) -> fleet_days.Days:
    with fleet_days.empty_cluster(home, run) as days:
        stage = days.stage
        # A cluster update is a person's decision: the loop says how it is done and waits.
        refused = stage.tpuctl("reconcile", "plan", "-f", str(days.file))
        assert refused.status == NOT_FOUND
        assert "--enable-slice-controller" in refused.err
        stage.ports.pools.enable_slice_controller()
        stage.until(lambda: stage.ports.pools.cluster().slice_controller)
        days.converge()
        assert days.wrong == []
        assert is_quiet(days)
        days.others_come()
        days.start_jobs()
        assert is_quiet(days)
        days.play()
        days.come_to_rest()
        report(days)
        assert is_quiet(days)
        assert days.stockout_was_met
        assert days.result.takeover_s > 0
    return days


def test_a_small_block_from_empty_to_converged_and_three_days_of_failures(
    tmp_path: pathlib.Path, report: Report
) -> None:
    days = play(tmp_path, SCALED, report)
    assert days.result.failures >= 5


@pytest.mark.slow
def test_a_full_block_for_thirty_days(
    tmp_path: pathlib.Path, report: Report, request: pytest.FixtureRequest
) -> None:
    if "slow" not in request.config.option.markexpr:
        pytest.skip("30 days of a full block take half an hour; they run with -m slow")
    days = play(tmp_path, FULL, report)
    assert days.result.failures >= 36


# -- the model it is measured by -----------------------------------------------------------------------------


def test_the_model_gives_the_known_numbers_of_spares() -> None:
    """Spares for 95, 99 and 99.9 % of the time, with 8e-4 failures a host-day and a day for a repair."""
    model = fleet_model.Model(cubes=144, failures_per_host_day=8e-4, repair_s=24 * HOUR_S)
    assert model.unavailability == pytest.approx(0.0127, abs=1e-4)
    found = {
        cubes: tuple(
            fleet_model.spares_needed(cubes, model.unavailability, share) for share in (0.95, 0.99, 0.999)
        )
        for cubes in (8, 16, 32, 48, 64, 100, 128)
    }
    assert found == {
        8: (1, 1, 2),
        16: (1, 2, 3),
        32: (2, 2, 3),
        48: (2, 3, 4),
        64: (3, 4, 5),
        100: (3, 5, 6),
        128: (4, 5, 7),
    }


def test_the_model_serves_the_urgent_first_and_counts_recoveries() -> None:
    never = fleet_model.Model(cubes=3, failures_per_host_day=0.0, repair_s=1.0)
    needs = [fleet_model.Need(64, 1), fleet_model.Need(128, 2)]
    assert never.active_share(needs) == 1.0
    assert never.active_share(needs, maintained=1) == pytest.approx(128 / 192)
    assert never.active_share(needs, maintained=2) == pytest.approx(64 / 192)
    one_a_day = fleet_model.Model(cubes=64, failures_per_host_day=1 / 1024, repair_s=0.0)
    assert one_a_day.active_share([fleet_model.Need(4096, 1)]) == pytest.approx(1 - 300 / 86400)


# -- the record it is measured with --------------------------------------------------------------------------


def test_the_record_sees_what_runs_and_what_is_interrupted(tmp_path: pathlib.Path) -> None:
    with crash_stage.in_virtual_time(tmp_path, cubes=3) as stage:
        record = fleet_record.Record(stage.simulator, {"train": 128})
        now_s = stage.ports.clock.monotonic_s
        begun_s = now_s()
        assert stage.tpuctl("slice", "form", "train", "--topology", "4x4x8").status == 0
        formed_s = now_s()
        stage.advance(1000)
        assert record.is_whole
        assert stage.tpuctl("slice", "deform", "train", "--yes").status == 0
        assert stage.tpuctl("slice", "form", "train", "--topology", "4x4x4").status == 0
        assert not record.is_whole
        smaller_s = now_s()
        stage.advance(1000)
        [found] = record.disruptions
        assert (found.slice_name, found.chips) == ("train", 128)
        assert record.most_disrupted() == 128
        assert record.active_share(begun_s, formed_s - 5) == 0
        assert record.active_share(formed_s, formed_s + 1000) == 1
        assert record.active_share(smaller_s, smaller_s + 1000) == 0.5
        # Within an hour both count, within a quarter of an hour only one of them.
        assert stage.tpuctl("slice", "deform", "train", "--yes").status == 0
        assert record.most_disrupted() == 128 + 64
        assert record.most_disrupted(window_s=900) == 128
        assert record.doubles == []


def test_the_record_notices_hardware_that_two_slices_name(tmp_path: pathlib.Path) -> None:
    with crash_stage.in_virtual_time(tmp_path, cubes=2) as stage:
        record = fleet_record.Record(stage.simulator, {})
        first = stage.whole().cubes[0].id
        for name in ("one", "two"):
            document = {
                "apiVersion": "accelerator.gke.io/v1beta1",
                "kind": "Slice",
                "metadata": {"name": name},
                "spec": {"type": "tpu7x", "topology": "4x4x4", "partitionIds": [first]},
            }
            stage.request("POST", crash_stage.SLICES, document)
        assert len(record.doubles) == 16


def test_what_overlaps_is_counted_once_for_each_subject() -> None:
    span = fleet_record.Span
    assert fleet_record.peak([]) == 0
    assert fleet_record.peak([span(0, 10, "a"), span(10, 20, "b")]) == 1
    assert fleet_record.peak([span(0, 10, "a"), span(5, 20, "b"), span(6, 7, "a")]) == 2
