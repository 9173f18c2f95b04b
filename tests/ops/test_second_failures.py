"""When a second thing goes wrong before the first is mended: it ends, and nothing is left behind."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from tests.ops.conftest import Killed, Recorder, scene_of, whole
from tests.ops.test_swapping import break_host, busy_slice, killed_at, nothing_left, prepared_swap
from tpuctl.cloud import identity, leases, workloads
from tpuctl.model import errors, operations, states, topology
from tpuctl.ops import forming, journal, locking, operating, running, swapping, waiting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tpuctl.cli.rehearsal import Rehearsal

ACTIVE, FAILED = states.SliceState.ACTIVE, states.SliceState.FAILED
PAIR = topology.parse("4x4x8")


@pytest.fixture
def three() -> Iterator[Rehearsal]:
    """Three cubes: two for a slice, one spare."""
    with scene_of(cubes=3, ready_cubes=3, slice_controller=True) as made:
        yield made


@contextlib.contextmanager
def dying(monkeypatch: pytest.MonkeyPatch, where: object, name: str) -> Iterator[None]:
    """The program dies as soon as it calls this, and gives no lock back that it has then."""
    is_dead = False
    release = locking.Lock.release

    def die(*_arguments: object, **_options: object) -> None:
        nonlocal is_dead
        is_dead = True
        raise Killed

    def release_if_alive(lock: locking.Lock) -> None:
        if not is_dead:
            release(lock)

    with monkeypatch.context() as patched, contextlib.suppress(Killed):
        patched.setattr(where, name, die)
        patched.setattr(locking.Lock, "release", release_if_alive)
        yield
        raise AssertionError(f"{name} was not called")


def locks_expire(scene: Rehearsal) -> None:
    scene.simulator.advance(locking.DURATION_S + 1)


def only_host(scene: Rehearsal, cube_id: str) -> str:
    return whole(scene).cubes_by_id[cube_id].hosts[5].name


def stuck_swap(scene: Rehearsal) -> tuple[str, str]:
    """A swap whose only spare did not form once; the cube that was to go, and the spare."""
    bad, stays = busy_slice(scene).partition_ids
    [spare] = {cube.id for cube in whole(scene).cubes} - {bad, stays}
    break_host(scene, bad)
    scene.simulator.inject("fail-activation", spare, times=1)
    with pytest.raises(running.Stopped, match="no other cubes are left to try") as stopped:
        swapping.swap(scene.ports, Recorder(), prepared_swap(scene, swapping.Wish()), swapping.Wish())
    assert stopped.value.exit_status == 7
    locks_expire(scene)
    return bad, spare


def test_a_cube_that_was_to_stay_breaks_while_the_slice_forms(scene: Rehearsal, reporter: Recorder) -> None:
    """kueue#14244: a second failure while the first swap is pending is one swap of two cubes."""
    bad, stays = busy_slice(scene).partition_ids
    break_host(scene, bad)
    shown = prepared_swap(scene, swapping.Wish())
    scene.simulator.inject("host-down", only_host(scene, stays), after_s=50)
    outcome = swapping.swap(scene.ports, reporter, shown, swapping.Wish())
    assert outcome.slice.state is ACTIVE
    assert [exchange.old for exchange in outcome.exchanges] == [bad, stays]
    assert outcome.exchanges[0].new == shown.exchanges[0].new
    assert not {bad, stays} & set(outcome.slice.partition_ids)
    assert (outcome.kept, outcome.lost, outcome.went_back) == (0, (), False)
    nothing_left(scene)


def test_what_stopped_goes_on_when_it_was_mended(three: Rehearsal, reporter: Recorder) -> None:
    bad, spare = stuck_swap(three)
    outcome = operating.resume(three.ports, reporter, "swap-train")
    assert isinstance(outcome, swapping.Outcome)
    assert outcome.slice.state is ACTIVE
    assert spare in outcome.slice.partition_ids
    assert bad not in outcome.slice.partition_ids
    assert any("the same cubes again" in text for text in reporter.warnings)
    nothing_left(three)


def test_the_way_back_ends_though_the_old_cubes_do_not_form(three: Rehearsal, reporter: Recorder) -> None:
    """Otherwise nobody could swap the slice again before the dead host is repaired, which takes days."""
    bad, spare = stuck_swap(three)
    with pytest.raises(errors.PartlyDone, match="has its old cubes again and does not form on them"):
        operating.abort(three.ports, reporter, "swap-train", accept_failure=True)
    found = whole(three).slices_by_name["train"]
    assert (found.state.is_failed, bad in found.partition_ids) == (True, True)
    nothing_left(three)
    outcome = swapping.swap(three.ports, reporter, prepared_swap(three, swapping.Wish()), swapping.Wish())
    assert outcome.exchanges == (operations.Exchange(bad, spare),)
    assert outcome.slice.state is ACTIVE


def test_the_way_back_leaves_a_slice_alone_that_is_still_there(
    scene: Rehearsal, reporter: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program died between the note that it will delete the slice and the deletion."""
    before = busy_slice(scene)
    wish = swapping.Wish(cubes=before.partition_ids[:1])
    shown = prepared_swap(scene, wish)
    with dying(monkeypatch, type(scene.ports.slices), "delete"):
        swapping.swap(scene.ports, reporter, shown, wish)
    locks_expire(scene)
    left = journal.of_slice(scene.ports, "train")
    assert left is not None
    assert left.operation.intent is operations.Intent.DELETING
    operating.abort(scene.ports, reporter, "swap-train")
    assert whole(scene).slices_by_name["train"].uid == before.uid
    nothing_left(scene)


def interrupted_restart(scene: Rehearsal, monkeypatch: pytest.MonkeyPatch) -> str:
    """A swap that died when it had its slice and was to restart the pods; the cube that stayed."""
    bad, stays = busy_slice(scene).partition_ids
    wish = swapping.Wish(cubes=(bad,))
    shown = prepared_swap(scene, wish)
    with dying(monkeypatch, workloads.KubeWorkloads, "delete_pod"):
        swapping.swap(scene.ports, Recorder(), shown, wish)
    locks_expire(scene)
    return stays


def test_once_pods_restart_there_is_no_way_back(
    scene: Rehearsal, reporter: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted_restart(scene, monkeypatch)
    with pytest.raises(errors.Conflict, match="can only be finished") as refused:
        operating.abort(scene.ports, reporter, "swap-train")
    assert refused.value.hint == "finish it: tpuctl operation resume swap-train"
    outcome = operating.resume(scene.ports, reporter, "swap-train")
    assert isinstance(outcome, swapping.Outcome)
    assert (outcome.restarted, outcome.kept) == (16, 16)
    nothing_left(scene)


def test_a_slice_that_breaks_while_pods_restart_is_for_another_swap(
    scene: Rehearsal, reporter: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    stays = interrupted_restart(scene, monkeypatch)
    scene.simulator.inject("host-down", only_host(scene, stays))
    scene.simulator.advance(120)
    assert whole(scene).slices_by_name["train"].state is FAILED
    outcome = operating.resume(scene.ports, reporter, "swap-train")
    assert isinstance(outcome, swapping.Outcome)
    assert (outcome.slice.state, outcome.restarted) == (FAILED, 16)
    nothing_left(scene)
    after = swapping.swap(scene.ports, reporter, prepared_swap(scene, swapping.Wish()), swapping.Wish())
    assert [exchange.old for exchange in after.exchanges] == [stays]
    assert after.slice.state is ACTIVE


def test_three_sets_of_spares_are_tried_and_then_the_old_cubes(reporter: Recorder) -> None:
    with scene_of(cubes=6, ready_cubes=6, slice_controller=True) as scene:
        before = busy_slice(scene)
        goes = before.partition_ids[0]
        wish = swapping.Wish(cubes=(goes,))
        spares = {cube.id for cube in whole(scene).cubes} - {*before.partition_ids}
        for spare in spares:
            scene.simulator.inject("fail-activation", spare, times=1)
        shown = prepared_swap(scene, wish)
        outcome = swapping.swap(scene.ports, reporter, shown, wish)
        assert (outcome.went_back, outcome.slice.partition_ids) == (True, before.partition_ids)
        others = [text for text in reporter.warnings if "trying other cubes" in text]
        tried = {shown.exchanges[0].new, *(text.rpartition(" -> ")[2] for text in others)}
        assert len(others) == 2
        assert len(tried) == 3
        assert tried < spares  # the fourth was left alone
        assert any("going back to the old ones" in text for text in reporter.warnings)
        nothing_left(scene)


def test_other_cubes_are_chosen_under_the_placement_lock(three: Rehearsal, monkeypatch) -> None:
    """Two choices at once could choose the same spare."""
    seen: list[str] = []
    real = locking.held

    def held(ports, reporter, name, **options):
        seen.append(name)
        return real(ports, reporter, name, **options)

    with monkeypatch.context() as patched:
        patched.setattr(locking, "held", held)
        stuck_swap(three)
    assert seen[-1] == locking.PLACEMENT
    assert seen.count(locking.PLACEMENT) == 3  # busy slice, swap, and the second choice


@pytest.mark.parametrize("later_s", [0, 60])
def test_a_forming_that_died_while_it_was_taken_back(
    three: Rehearsal, reporter: Recorder, monkeypatch: pytest.MonkeyPatch, later_s: float
) -> None:
    """Our own deletion is not taken for somebody else's."""
    three.simulator.inject("fail-activation", "train", times=1)
    with dying(monkeypatch, waiting, "until_gone"):
        forming.form(three.ports, reporter, "train", forming.request(PAIR))
    three.simulator.advance(later_s)
    monkeypatch.setattr(identity.KubeIdentity, "is_dead", lambda *_: True)
    outcome = forming.form(three.ports, reporter, "train", forming.request(PAIR))
    assert outcome.slice.state is ACTIVE
    nothing_left(three)


def test_a_lock_that_changed_under_its_renewal_is_lost(
    three: Rehearsal, reporter: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not taken for a conflict about the slice: the record stays, and the next run finishes it."""

    def refuse(_self: object, lease: operations.Lease, *_arguments: object, **_told: str) -> None:
        raise errors.Conflict(f"lease {lease.name} was modified")

    with monkeypatch.context() as patched:
        patched.setattr(leases.KubeLeases, "renew", refuse)
        with pytest.raises(locking.LostLock, match="was changed by somebody else"):
            forming.form(three.ports, reporter, "train", forming.request(PAIR))
    left = journal.of_slice(three.ports, "train")
    assert left is not None
    assert forming.form(three.ports, reporter, "train", forming.request(PAIR)).slice.state is ACTIVE
    nothing_left(three)


def test_a_lock_that_cannot_be_given_back_is_told_and_fails_nothing(
    three: Rehearsal, reporter: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_self: object, lease: operations.Lease) -> None:
        raise errors.NotPermitted(f"leases {lease.name} is forbidden")

    with monkeypatch.context() as patched:
        patched.setattr(leases.KubeLeases, "delete", refuse)
        outcome = forming.form(three.ports, reporter, "train", forming.request(PAIR))
    assert outcome.slice.state is ACTIVE
    assert "lock tpuctl-slice-train could not be given back" in " ".join(reporter.warnings)


def test_what_somebody_else_ended_while_we_waited_for_the_lock_is_no_failure(
    scene: Rehearsal, reporter: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy_slice(scene)
    assert killed_at(scene, monkeypatch, 2) is not None
    held = locking.held

    @contextlib.contextmanager
    def after_another(*arguments: object, **options: object) -> Iterator[object]:
        with monkeypatch.context() as back:
            back.setattr(locking, "held", held)
            operating.resume(scene.ports, Recorder(), "swap-train")
        with held(*arguments, **options) as lock:
            yield lock

    monkeypatch.setattr(locking, "held", after_another)
    ended = operating.resume(scene.ports, reporter, "swap-train")
    assert isinstance(ended, operations.Operation)
    assert "operation swap-train was ended by somebody else meanwhile" in reporter.steps
