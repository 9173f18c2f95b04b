"""Faults that other people's tools had; each test names the public report it answers."""

import json

import pytest

from tests import builders
from tests.ops import test_swapping as swaps
from tests.ops.conftest import Recorder, whole
from tpuctl.cli.rehearsal import Rehearsal
from tpuctl.cli.terminal import Terminated
from tpuctl.engine import placement
from tpuctl.model import errors, invariants, records, states, topology
from tpuctl.ops import forming, journal, locking, swapping, waiting


def test_a_slice_of_exactly_one_cube_is_formed_like_any_other(scene: Rehearsal, reporter: Recorder) -> None:
    """xpk#1002: boundary 1."""
    outcome = forming.form(scene.ports, reporter, "one", forming.request(topology.CUBE))
    assert outcome.slice.state is states.SliceState.ACTIVE
    assert scene.ports.slices.labelled_hosts("one") == 16


def test_a_cube_and_a_block_of_one_name_are_both_seen() -> None:
    """kueue 0.19 notes #14232: equal ids on two levels."""
    snapshot = builders.fleet_of(builders.cube("same", "same"), builders.cube("other", "same"))
    assert invariants.check_invariants(snapshot) == ()
    found = placement.place(snapshot, placement.Request(topology=topology.parse("4x4x8"), block="same"))
    assert isinstance(found, placement.Placement)
    assert found.partition_ids == ("other", "same")


def test_a_slice_that_broke_has_a_next_action_and_comes_back(scene: Rehearsal, reporter: Recorder) -> None:
    """xpk#685: ACTIVE -> FAILED is not the end."""
    before = swaps.busy_slice(scene)
    swaps.break_host(scene, before.partition_ids[0])
    broken = whole(scene).slices_by_name["train"]
    assert not broken.state.is_ready
    shown = swaps.prepared_swap(scene, swapping.Wish())
    outcome = swapping.swap(scene.ports, reporter, shown, swapping.Wish())
    assert outcome.slice.state is states.SliceState.ACTIVE


def test_the_failed_cube_is_not_chosen_again_before_it_is_repaired(
    scene: Rehearsal, reporter: Recorder
) -> None:
    """kueue 0.18 notes #14118: the bad place stays out until evidence clears it."""
    before = swaps.busy_slice(scene)
    bad = before.partition_ids[0]
    dead = swaps.break_host(scene, bad)
    swapping.swap(scene.ports, reporter, swaps.prepared_swap(scene, swapping.Wish()), swapping.Wish())
    with pytest.raises(errors.DoesNotFit):
        forming.form(scene.ports, reporter, "all", forming.request(topology.parse("4x8x8")))
    with pytest.raises(errors.Conflict, match="1 pod of default/Job/work still runs"):
        forming.form(scene.ports, reporter, "bad", forming.request(topology.CUBE, cubes=(bad,)))
    hardware = scene.simulator.world.hardware
    scene.simulator.call(lambda: hardware.host_up(hardware.find_host(dead)))
    scene.simulator.advance(600)
    repaired = forming.form(scene.ports, reporter, "bad", forming.request(topology.CUBE, cubes=(bad,)))
    assert repaired.slice.state is states.SliceState.ACTIVE


def test_a_node_object_that_vanished_counts_as_failed_in_the_same_look(scene: Rehearsal) -> None:
    """jobset#574: gone is not the same as NotReady, and is seen at once."""
    before = swaps.busy_slice(scene)
    store = scene.simulator.world.store
    gone = next(host.name for host in whole(scene).cubes_by_id[before.partition_ids[0]].hosts)

    def remove() -> None:
        store.delete("nodes", None, gone)

    scene.simulator.call(remove)
    shown = swaps.prepared_swap(scene, swapping.Wish())
    assert [exchange.old for exchange in shown.exchanges] == [before.partition_ids[0]]


def test_a_stale_writer_of_a_record_is_refused(scene: Rehearsal, monkeypatch: pytest.MonkeyPatch) -> None:
    """skypilot#7200 and cluster-toolkit repair.py: compare and set, no lost entries."""
    swaps.busy_slice(scene)
    assert swaps.killed_at(scene, monkeypatch, 1) is not None
    first, second = journal.of_slice(scene.ports, "train"), journal.of_slice(scene.ports, "train")
    assert first is not None
    assert second is not None
    first.amended(scene.ports, note="mine")
    with pytest.raises(errors.Conflict):
        second.amended(scene.ports, note="late")
    with pytest.raises(errors.Conflict):
        second.close(scene.ports)
    kept = journal.of_slice(scene.ports, "train")
    assert kept is not None
    assert kept.operation.note == "mine"


@pytest.mark.parametrize("end", [KeyboardInterrupt, Terminated])
def test_a_lock_is_given_back_on_ctrl_c_and_sigterm(
    scene: Rehearsal, reporter: Recorder, end: type[BaseException]
) -> None:
    """python#1669: the lease is freed on the way out."""
    with pytest.raises(end), locking.held(scene.ports, reporter, "tpuctl-slice-x"):
        raise end
    assert scene.ports.leases.list() == []


def test_a_slice_that_nobody_looks_at_is_reported_after_a_time(scene: Rehearsal, reporter: Recorder) -> None:
    """xpk#859: no condition at all is not waited for without end."""
    cube = whole(scene).cubes[0].id
    outcome = forming.form(
        scene.ports, reporter, "quiet", forming.request(topology.CUBE, cubes=(cube,)), wait=False
    )
    with pytest.raises(errors.TimedOut, match="still CREATED after 0 s"):
        waiting.until_ready(
            scene.ports, reporter, "quiet", uid=outcome.slice.uid, shape=topology.CUBE, timeout_s=0
        )


def test_a_hold_shows_its_effect_and_not_only_its_mark(scene: Rehearsal) -> None:
    """Skyhook compatibility note: accepted is not honoured until it is seen."""
    cube = whole(scene).cubes[0].id
    text = records.write_hold(records.read_hold(_hold(cube), "hold-x"))
    scene.ports.records.create(f"hold-{cube}", records.HOLD, text)
    snapshot = whole(scene)
    assert [claim.cube_id for claim in snapshot.claims] == [cube]
    found = placement.place(snapshot, placement.Request(topology=topology.CUBE, cubes=(cube,)))
    assert isinstance(found, placement.Refusal)
    assert dict(found.candidates[0].obstacles)[placement.Obstacle.HELD] == 1


def _hold(cube: str) -> str:
    since = "2026-01-05T08:00:00Z"
    hold = {"cubeId": cube, "owner": "jo", "reason": "r", "since": since, "until": None, "subBlock": ""}
    return json.dumps(hold)
