"""The comparison with the maximizer: its schedule and its meter are right, and a short run ends well."""

import dataclasses

import pytest

from tests.bench import reconcile, reconcile_stage
from tpuctl.cli import rehearsal
from tpuctl.model import topology
from tpuctl.sim import simulator

RUN = reconcile_stage.Run(cubes=20, days=0.5, seed=7)
"""One host dies under a slice, and is not back before the end."""
MANY = reconcile_stage.Run(cubes=8, days=30, seed=3)
HOUR_S = 3600.0


def test_the_schedule_follows_from_the_seed_and_no_host_dies_twice_at_a_time() -> None:
    found = reconcile_stage.schedule(MANY)
    assert found == reconcile_stage.schedule(MANY)
    assert found != reconcile_stage.schedule(dataclasses.replace(MANY, seed=4))
    assert found == sorted(found)
    assert len(found) > 3
    back_s: dict[int, int] = {}
    for fault in found:
        assert 0 <= fault.at_s < MANY.horizon_s
        assert 0 <= fault.host < MANY.cubes * topology.HOSTS_PER_CUBE
        assert fault.at_s >= back_s.get(fault.host, 0)
        back_s[fault.host] = fault.at_s + fault.repair_s


@pytest.mark.parametrize("cubes", [3, 8, 20, 64, 144])
def test_what_is_wanted_fits_with_the_spares(cubes: int) -> None:
    spec = reconcile_stage.fleet_spec(cubes)
    whole = sum(entry.shapes[0].cubes for entry in spec.slices if not entry.shapes[0].is_sub_slice)
    assert whole + 1 + spec.blocks[0].spares == cubes
    for entry in spec.slices:
        assert [shape.chips for shape in entry.shapes] == sorted(
            {shape.chips for shape in entry.shapes}, reverse=True
        )


def test_the_meter_adds_up_what_is_not_ready() -> None:
    spec = reconcile_stage.fleet_spec(3)
    with rehearsal.rehearse(simulator.Settings(cubes=3, ready_cubes=3, slice_controller=True)) as scene:
        meter = reconcile_stage.Meter(scene, spec)
        chips = sum(meter.wanted.values())
        assert meter.losses == [(0.0, chips)]
        meter.losses += [(HOUR_S, 0), (2 * HOUR_S, 64), (2 * HOUR_S + 8, 128), (3 * HOUR_S, 0)]
    assert meter.lost_chips(HOUR_S - 1) == chips
    assert meter.lost_chips(HOUR_S) == 0
    assert meter.whole_s() == HOUR_S
    assert meter.whole_s(2.5 * HOUR_S) == 3 * HOUR_S
    assert meter.lost_chip_h(HOUR_S, 4 * HOUR_S) == pytest.approx(128 - 64 * 8 / HOUR_S)
    assert meter.recovery_s(2 * HOUR_S - 5, 9 * HOUR_S) == HOUR_S + 5
    assert meter.recovery_s(1.5 * HOUR_S, 9 * HOUR_S) is None
    assert meter.recovery_s(2 * HOUR_S + 1, 2.5 * HOUR_S) == 0.5 * HOUR_S - 1


def test_a_dead_host_costs_us_one_swap_and_the_maximizer_a_pool() -> None:
    found = reconcile.compare(RUN)
    ours, theirs = found["tpuctl"], found["maximizer"]
    assert found["failures"] == 1
    assert (ours["hits"], theirs["hits"]) == (1, 1)
    assert ours["converge_s"] < 1800
    assert theirs["converge_s"] < 1800
    # Detection and two cycles, then a swap of 2 to 5 min; a round, a deletion and a creation.
    assert ours["recovery_p50_s"] < 600
    assert theirs["recovery_p50_s"] > 2 * found["pool_operation_s"]
    assert ours["lost_chip_h"] < theirs["lost_chip_h"] / 4
    assert (ours["pool_operations_to_converge"], ours["pool_operations"]) == (RUN.cubes, 0)
    assert (ours["slice_operations_to_converge"], ours["slice_operations"]) == (found["wanted_slices"], 2)
    assert theirs["pool_operations"] >= 2
    assert theirs["slice_operations"] == 0
    assert ours["pods_restarted"] == topology.HOSTS_PER_CUBE
    assert theirs["pods_restarted"] >= ours["pods_restarted"]
    assert "| from an empty cluster to all slices ready | " in reconcile.table(found)
