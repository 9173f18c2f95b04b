"""Node labels that do not follow their slice are waited for, told of, and no dead end."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from tests.ops import test_swapping as swaps
from tests.ops.conftest import Recorder, whole
from tpuctl.model import errors, states, topology
from tpuctl.ops import deforming, forming, swapping, waiting

if TYPE_CHECKING:
    from collections.abc import Callable

    from tpuctl.cli.rehearsal import Rehearsal
    from tpuctl.ops import ports as ports_module


class Labelled:
    """A Slices port that counts labelled hosts in its own way."""

    def __init__(self, slices: ports_module.Slices, count: Callable[[str, int], int]) -> None:
        self._slices, self._count = slices, count

    def __getattr__(self, name: str) -> object:
        return getattr(self._slices, name)

    def labelled_hosts(self, name: str) -> int:
        return self._count(name, self._slices.labelled_hosts(name))


def counting(scene: Rehearsal, count: Callable[[str, int], int]) -> ports_module.Ports:
    return dataclasses.replace(scene.ports, slices=Labelled(scene.ports.slices, count))


@pytest.fixture
def one_stays(scene: Rehearsal) -> ports_module.Ports:
    """A host keeps the label of a slice that is gone."""
    return counting(scene, lambda name, found: found if scene.ports.slices.get(name) else max(found, 1))


@pytest.fixture
def one_lacks(scene: Rehearsal) -> ports_module.Ports:
    """A host of a slice of two cubes never gets the label."""
    return counting(scene, lambda _, found: min(found, 31))


def swapped(scene: Rehearsal, ports: ports_module.Ports, reporter: Recorder) -> swapping.Outcome:
    """A slice of two cubes loses a host, and its cube is swapped."""
    before = swaps.busy_slice(scene)
    swaps.break_host(scene, before.partition_ids[0])
    shown = swaps.prepared_swap(scene, swapping.Wish())
    return swapping.swap(ports, reporter, shown, swapping.Wish())


def test_a_label_left_behind_does_not_keep_a_swapped_slice_away(
    scene: Rehearsal, reporter: Recorder, one_stays: ports_module.Ports
) -> None:
    outcome = swapped(scene, one_stays, reporter)
    assert (outcome.slice.state, outcome.kept, outcome.lost) == (states.SliceState.ACTIVE, 16, ())
    assert "slice train is gone, and its label is still on 1 host after 120 s" in reporter.warnings
    assert waiting.LABELS_S < outcome.waited_s < 2 * waiting.LABELS_S + 120
    swaps.nothing_left(scene)


def test_nor_a_slice_from_ending(scene: Rehearsal, reporter: Recorder, one_stays: ports_module.Ports) -> None:
    forming.form(scene.ports, reporter, "train", forming.request(topology.parse("4x4x8")))
    shown = deforming.prepare(scene.ports, "train", force_foreign=False)
    deforming.deform(one_stays, reporter, shown)
    assert whole(scene).slices == ()
    swaps.nothing_left(scene)


def test_a_label_that_does_not_come_keeps_no_pods_of_a_swapped_slice_waiting(
    scene: Rehearsal, reporter: Recorder, one_lacks: ports_module.Ports
) -> None:
    outcome = swapped(scene, one_lacks, reporter)
    assert (outcome.restarted, outcome.kept, outcome.lost) == (16, 16, ())
    told = "slice train is ACTIVE, 31 of 32 hosts are labelled after 120 s; going on without the others"
    assert told in reporter.warnings
    swaps.nothing_left(scene)


def test_a_new_slice_is_not_called_whole_without_it(
    reporter: Recorder, one_lacks: ports_module.Ports
) -> None:
    with pytest.raises(errors.TimedOut):
        forming.form(one_lacks, reporter, "train", forming.request(topology.parse("4x4x8")))
