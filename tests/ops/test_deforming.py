"""Taking apart: what is shown is what is hit, and nothing else."""

import pytest

from tests import workloads
from tests.ops.conftest import Killed, Recorder, whole
from tpuctl.cli.rehearsal import Rehearsal
from tpuctl.model import errors, topology
from tpuctl.ops import deforming, forming, ports, running

PAIR = topology.parse("4x4x8")


@pytest.fixture
def formed(scene: Rehearsal, reporter: Recorder) -> Rehearsal:
    forming.form(scene.ports, reporter, "train", forming.request(PAIR))
    return scene


def start_pod(scene: Rehearsal, name: str, slice_name: str) -> None:
    scene.submit(workloads.PODS, workloads.pod(name, slice_name))
    scene.simulator.advance(30)


def test_hardware_is_free_again_when_it_returns(formed: Rehearsal, reporter: Recorder) -> None:
    prepared = deforming.prepare(formed.ports, "train", force_foreign=False)
    assert prepared is not None
    assert str(prepared.radius) == "1 slice, 0 running pods, 32 hosts, 128 chips"
    waited_s = deforming.deform(formed.ports, reporter, prepared)
    assert 15 <= waited_s <= 60
    snapshot = whole(formed)
    assert snapshot.slices == ()
    assert {host.slice_name for cube in snapshot.cubes for host in cube.hosts} == {""}


def test_a_name_that_no_slice_has_is_nothing_to_do(scene: Rehearsal) -> None:
    assert deforming.prepare(scene.ports, "ghost", force_foreign=False) is None


def test_a_second_run_after_the_first_finds_nothing_to_do(formed: Rehearsal, reporter: Recorder) -> None:
    prepared = deforming.prepare(formed.ports, "train", force_foreign=False)
    assert prepared is not None
    deforming.deform(formed.ports, reporter, prepared)
    assert deforming.deform(formed.ports, reporter, prepared) == 0
    assert deforming.prepare(formed.ports, "train", force_foreign=False) is None


def test_pods_of_anybody_on_its_hosts_are_in_the_blast_radius(formed: Rehearsal) -> None:
    start_pod(formed, "theirs", "train")
    prepared = deforming.prepare(formed.ports, "train", force_foreign=False)
    assert prepared is not None
    assert [pod.name for pod in prepared.radius.pods] == ["theirs"]
    assert prepared.radius.is_disruptive


def test_pods_that_came_after_the_question_stop_it(formed: Rehearsal, reporter: Recorder) -> None:
    prepared = deforming.prepare(formed.ports, "train", force_foreign=False)
    assert prepared is not None
    start_pod(formed, "new", "train")
    with pytest.raises(errors.Conflict, match="1 pod has started"):
        deforming.deform(formed.ports, reporter, prepared)
    assert not whole(formed).slices_by_name["train"].deleting


def test_a_slice_that_was_made_anew_under_the_name_is_left_alone(
    formed: Rehearsal, reporter: Recorder
) -> None:
    old = deforming.prepare(formed.ports, "train", force_foreign=False)
    assert old is not None
    deforming.deform(formed.ports, reporter, old)
    free = whole(formed).cubes[-1].id
    formed.ports.slices.create(ports.SliceSpec("train", topology.CUBE, (free,)))
    with pytest.raises(errors.Conflict, match="was replaced"):
        deforming.deform(formed.ports, reporter, old)
    assert not whole(formed).slices_by_name["train"].deleting


def test_what_another_controller_made_needs_an_explicit_word(formed: Rehearsal) -> None:
    def mark(item: dict) -> None:
        item["metadata"].setdefault("annotations", {}).update(
            {
                "accelerator.gke.io/owner-workload-namespace": "ml",
                "accelerator.gke.io/owner-workload-name": "job-7",
            }
        )

    store = formed.simulator.world.store
    formed.simulator.call(lambda: store.mutate("slices.accelerator.gke.io", None, "train", mark))
    with pytest.raises(errors.GuardStopped, match="ml/job-7") as refused:
        deforming.prepare(formed.ports, "train", force_foreign=False)
    assert "act on that Workload instead" in (refused.value.hint or "")
    assert deforming.prepare(formed.ports, "train", force_foreign=True) is not None


def test_what_was_made_by_hand_needs_an_explicit_word(scene: Rehearsal) -> None:
    cube = whole(scene).cubes[0].id
    item = {
        "apiVersion": "accelerator.gke.io/v1beta1",
        "kind": "Slice",
        "metadata": {"name": "theirs"},
        "spec": {"type": "tpu7x", "topology": "4x4x4", "partitionIds": [cube]},
    }
    scene.submit("/apis/accelerator.gke.io/v1beta1/slices", item)
    with pytest.raises(errors.GuardStopped, match="not by tpuctl"):
        deforming.prepare(scene.ports, "theirs", force_foreign=False)
    assert deforming.prepare(scene.ports, "theirs", force_foreign=True) is not None


def test_what_a_killed_run_left_of_a_slice_that_is_gone_is_finished(
    formed: Rehearsal, reporter: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise Killed

    prepared = deforming.prepare(formed.ports, "train", force_foreign=False)
    assert prepared is not None
    with monkeypatch.context() as patched:
        patched.setattr(running.Runner, "_wait_gone", die)
        with pytest.raises(Killed):
            deforming.deform(formed.ports, reporter, prepared)
    formed.simulator.advance(120)
    assert deforming.prepare(formed.ports, "train", force_foreign=False) is None
    assert deforming.finish_earlier(formed.ports, reporter, "train")
    assert not deforming.finish_earlier(formed.ports, reporter, "train")
    assert whole(formed).claims == ()
