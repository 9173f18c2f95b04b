"""Several slices of one command: all or none."""

import pytest

from tests.ops.conftest import Recorder, scene_of, whole
from tpuctl.cli.rehearsal import Rehearsal
from tpuctl.model import errors, topology
from tpuctl.ops import forming, gangs, journal

PAIR = topology.parse("4x4x8")


def test_all_are_formed_on_cubes_of_their_own(scene: Rehearsal, reporter: Recorder) -> None:
    names = gangs.members("train", 3)
    outcomes = gangs.form(scene.ports, reporter, names, forming.request(PAIR, priority=4))
    assert {outcome.slice.priority for outcome in outcomes} == {4}
    assert [(outcome.slice.name, outcome.verb) for outcome in outcomes] == [
        ("train-0", "formed"),
        ("train-1", "formed"),
        ("train-2", "formed"),
    ]
    assert len({cube for outcome in outcomes for cube in outcome.slice.partition_ids}) == 6
    assert journal.list_open(scene.ports) == []
    again = gangs.form(scene.ports, reporter, names, forming.request(PAIR))
    assert [outcome.verb for outcome in again] == ["unchanged"] * 3


def test_if_not_all_fit_none_is_formed(scene: Rehearsal, reporter: Recorder) -> None:
    """Known fault 28: gangs that hold a part and wait."""
    with pytest.raises(errors.DoesNotFit) as raised:
        gangs.form(scene.ports, reporter, gangs.members("train", 4), forming.request(PAIR))
    assert raised.value.message == "3 of 4 slices 4x4x8 fit, and they are formed all or none"
    assert raised.value.hint == "2 more cubes must become free or healthy in one block"
    with pytest.raises(errors.DoesNotFit) as raised:
        gangs.form(scene.ports, reporter, gangs.members("train", 5), forming.request(PAIR))
    assert raised.value.hint is None  # room for one more would not be enough
    assert whole(scene).slices == ()
    assert journal.list_open(scene.ports) == []


def test_what_an_earlier_run_left_out_is_added(scene: Rehearsal, reporter: Recorder) -> None:
    first = forming.form(scene.ports, reporter, "train-0", forming.request(PAIR))
    outcomes = gangs.form(scene.ports, reporter, gangs.members("train", 2), forming.request(PAIR))
    assert [outcome.verb for outcome in outcomes] == ["unchanged", "formed"]
    assert outcomes[0].slice.uid == first.slice.uid


def test_what_was_created_is_taken_back_if_the_next_cannot_be(
    scene: Rehearsal, reporter: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = forming.start

    def start(ports: object, recorder: object, prepared: forming.Prepared, **options: object) -> object:
        if prepared.slice_name == "train-2":
            raise errors.Conflict("somebody was faster")
        return real(ports, recorder, prepared, **options)

    monkeypatch.setattr(forming, "start", start)
    with pytest.raises(errors.Conflict, match="somebody was faster"):
        gangs.form(scene.ports, reporter, gangs.members("train", 3), forming.request(PAIR))
    assert whole(scene).slices == ()
    assert journal.list_open(scene.ports) == []
    assert any("taking 2 slices back" in step for step in reporter.steps)


def test_shapes_are_tried_in_order_unless_one_is_there(reporter: Recorder) -> None:
    with scene_of(cubes=2, ready_cubes=2, slice_controller=True) as scene:
        shapes = [topology.parse(text) for text in ("4x8x8", "4x4x8", "4x4x4")]
        assert gangs.shapes_to_try(scene.ports, ["train"], shapes) == tuple(shapes)
        forming.form(scene.ports, reporter, "train", forming.request(shapes[1]))
        assert gangs.shapes_to_try(scene.ports, ["train"], shapes) == (shapes[1],)
