"""An open forming of which only waiting is left may be closed; anything that has more to it may not."""

import pytest

from tests.ops import test_swapping as swaps
from tests.ops.conftest import Killed, Recorder, scene_of, whole
from tpuctl.cli.rehearsal import Rehearsal
from tpuctl.model import errors, states, topology
from tpuctl.ops import forming, journal, locking, operating, running


@pytest.fixture
def killed(scene: Rehearsal, monkeypatch: pytest.MonkeyPatch) -> Rehearsal:
    """A forming whose run died as soon as its Slice was there."""

    def die(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(running.waiting, "until_ready", die)
        patched.setattr(locking.Lock, "release", lambda _lock: None)
        with pytest.raises(Killed):
            forming.form(scene.ports, Recorder(), "train", forming.request(topology.parse("4x4x8")))
    scene.simulator.advance(locking.DURATION_S + 1)
    return scene


def test_a_slice_that_goes_on_forming_needs_no_record(reporter: Recorder) -> None:
    with scene_of(cubes=2, ready_cubes=2, slice_controller=True) as scene:
        with pytest.raises(errors.TimedOut):
            forming.form(scene.ports, reporter, "train", forming.request(topology.CUBE), timeout_s=5)
        assert whole(scene).slices[0].state is states.SliceState.ACTIVATING
        assert operating.let_go(scene.ports, reporter, "form-train")
        assert (journal.list_open(scene.ports), scene.ports.leases.list()) == ([], [])
        scene.simulator.advance(120)
        assert whole(scene).slices[0].state is states.SliceState.ACTIVE
        with pytest.raises(errors.NotFound):
            operating.let_go(scene.ports, reporter, "form-train")


def test_one_that_has_ended_is_for_whoever_finishes_it(killed: Rehearsal, reporter: Recorder) -> None:
    """The service is done with it, well or not: what follows is decided by going on, not by forgetting."""
    assert whole(killed).slices[0].state is states.SliceState.ACTIVE
    assert not operating.let_go(killed.ports, reporter, "form-train")
    item = whole(killed).slices[0]
    killed.ports.slices.delete("train", uid=item.uid)
    assert not operating.let_go(killed.ports, reporter, "form-train")
    killed.simulator.advance(120)
    assert not operating.let_go(killed.ports, reporter, "form-train")
    assert len(journal.list_open(killed.ports)) == 1


def test_a_swap_is_never_let_go(
    scene: Rehearsal, reporter: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record is all that remembers which pods are to be restarted."""
    swaps.busy_slice(scene)
    assert swaps.killed_at(scene, monkeypatch, 3) is not None
    assert not operating.let_go(scene.ports, reporter, "swap-train")
    assert len(journal.list_open(scene.ports)) == 1


def test_somebody_at_work_keeps_it(killed: Rehearsal, reporter: Recorder) -> None:
    with (
        locking.held(killed.ports, reporter, locking.slice_lock("train")),
        pytest.raises(errors.Conflict, match="tpuctl-slice-train"),
    ):
        operating.let_go(killed.ports, reporter, "form-train")
