"""Somebody makes a slice of the same name while an operation lies half done: it is theirs, and stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.ops import test_second_failures as second
from tests.ops import test_swapping as swaps
from tests.ops.conftest import Recorder, whole
from tpuctl.model import errors, operations
from tpuctl.ops import journal, operating, retreating, running, swapping

if TYPE_CHECKING:
    from tpuctl.cli.rehearsal import Rehearsal
    from tpuctl.model import fleet

SLICES = "/apis/accelerator.gke.io/v1beta1/slices"
STAYS = "slice train was made by kueue: Workload ml/train and stays as it is"
OWNER = "accelerator.gke.io/owner-"


@pytest.fixture
def theirs(scene: Rehearsal, monkeypatch: pytest.MonkeyPatch) -> fleet.Slice:
    """Killed when it was about to make slice `train` again; Kueue's controller makes one on the old cubes."""
    before = swaps.busy_slice(scene)
    wish = swapping.Wish(cubes=before.partition_ids[:1])
    shown = swaps.prepared_swap(scene, wish)
    with second.dying(monkeypatch, type(scene.ports.slices), "create"):
        swapping.swap(scene.ports, Recorder(), shown, wish)
    second.locks_expire(scene)
    left = journal.of_slice(scene.ports, "train")
    assert left is not None
    assert left.operation.intent is operations.Intent.CREATING
    scene.submit(
        SLICES,
        {
            "apiVersion": "accelerator.gke.io/v1beta1",
            "kind": "Slice",
            "metadata": {
                "name": "train",
                "annotations": {f"{OWNER}workload-namespace": "ml", f"{OWNER}workload-name": "train"},
            },
            "spec": {"type": "tpu7x", "topology": "4x4x8", "partitionIds": list(before.partition_ids)},
        },
    )
    scene.simulator.advance(120)
    item = whole(scene).slices_by_name["train"]
    assert item.owner is not None
    return item


def test_to_resume_is_refused_and_changes_nothing(
    scene: Rehearsal, reporter: Recorder, theirs: fleet.Slice
) -> None:
    with pytest.raises(running.Stopped, match="was made anew by kueue: Workload ml/train") as stopped:
        operating.resume(scene.ports, reporter, "swap-train")
    assert "to go back: tpuctl operation abort swap-train" in str(stopped.value.hint)
    assert whole(scene).slices_by_name["train"] == theirs


def test_going_back_cleans_up_and_leaves_it_alone(
    scene: Rehearsal, reporter: Recorder, theirs: fleet.Slice
) -> None:
    shown = retreating.look(scene.ports, "swap-train")
    assert shown.steps == (f"{STAYS}; what the operation kept is given back",)
    assert (shown.radius, shown.obstacles) == (None, ())
    operating.abort(scene.ports, reporter, "swap-train", shown=shown)
    assert whole(scene).slices_by_name["train"] == theirs
    swaps.nothing_left(scene)


def test_a_way_back_that_finds_it_does_not_say_that_the_slice_is_back(
    scene: Rehearsal, reporter: Recorder, theirs: fleet.Slice
) -> None:
    entry = journal.find(scene.ports, "swap-train")
    entry.amended(scene.ports, aborting=True, partitions=entry.operation.old_partitions)
    with pytest.raises(errors.Conflict, match="was made anew by kueue: Workload ml/train and left alone"):
        operating.resume(scene.ports, reporter, "swap-train")
    assert whole(scene).slices_by_name["train"] == theirs
    swaps.nothing_left(scene)
