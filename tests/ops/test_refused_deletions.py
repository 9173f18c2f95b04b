"""Who may not delete a slice leaves nothing behind that somebody with more rights would finish."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.ops import test_swapping as swaps
from tests.ops.conftest import Recorder, whole
from tpuctl.model import errors, topology
from tpuctl.ops import deforming, forming, swapping
from tpuctl.sim import api_faults

if TYPE_CHECKING:
    from tpuctl.cli.rehearsal import Rehearsal


def refused(scene: Rehearsal, code: int) -> api_faults.injected:
    return api_faults.injected(
        scene.simulator, api_faults.Error(code), api="kubernetes", verb="delete", resource="slices"
    )


def test_a_deform_that_is_refused_is_closed(scene: Rehearsal, reporter: Recorder) -> None:
    forming.form(scene.ports, reporter, "train", forming.request(topology.parse("4x4x8")))
    before = whole(scene).slices_by_name["train"]
    shown = deforming.prepare(scene.ports, "train", force_foreign=False)
    with refused(scene, 403), pytest.raises(errors.NotPermitted):
        deforming.deform(scene.ports, reporter, shown)
    assert whole(scene).slices_by_name["train"] == before
    swaps.nothing_left(scene)


def test_a_swap_that_is_refused_takes_its_cordons_away(scene: Rehearsal, reporter: Recorder) -> None:
    before = swaps.busy_slice(scene)
    wish = swapping.Wish(cubes=before.partition_ids[:1])
    shown = swaps.prepared_swap(scene, wish)
    with refused(scene, 403), pytest.raises(errors.NotPermitted):
        swapping.swap(scene.ports, reporter, shown, wish)
    assert whole(scene).slices_by_name["train"].uid == before.uid
    assert all(host.schedulable for cube in whole(scene).cubes for host in cube.hosts)
    swaps.nothing_left(scene)


def test_what_is_not_known_to_be_refused_stays_open(scene: Rehearsal, reporter: Recorder) -> None:
    forming.form(scene.ports, reporter, "train", forming.request(topology.parse("4x4x8")))
    shown = deforming.prepare(scene.ports, "train", force_foreign=False)
    with refused(scene, 503), pytest.raises(errors.Unavailable):
        deforming.deform(scene.ports, reporter, shown)
    scene.simulator.advance(61)
    deforming.deform(scene.ports, reporter, shown)
    assert whole(scene).slices == ()
    swaps.nothing_left(scene)
