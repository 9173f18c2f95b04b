"""Many slices at once, at the pace of a server that takes its time: no lock expires over it."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

import pytest

from tests.ops.conftest import scene_of
from tests.ops.reconciling.conftest import World, wanted, world_of
from tpuctl.cloud import kube
from tpuctl.model import errors
from tpuctl.ops import journal, locking
from tpuctl.ops.reconciling import forms, leadership, outcomes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.ops.conftest import Recorder
    from tpuctl.cli.rehearsal import Rehearsal

Became = outcomes.Became
GANGS, MEMBERS = 5, 8
REQUEST_S = 0.1


@pytest.fixture
def many(reporter: Recorder) -> Iterator[World]:
    """Five gangs of eight hosts each wait to be formed."""
    with scene_of(cubes=3, ready_cubes=3, slice_controller=True) as scene:
        entries = [wanted(f"s{i}", "2x2x1", count=MEMBERS, gang=f"g{i}") for i in range(GANGS)]
        world = world_of(scene, reporter, *entries)
        world.cycle()
        world.advance(30)
        yield world


@contextlib.contextmanager
def taking_time(scene: Rehearsal, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each request of ours takes a while."""
    real = kube.Kube.request

    def request(self: kube.Kube, *arguments: object, **options: object) -> object:
        if threading.current_thread() is threading.main_thread():
            scene.simulator.advance(REQUEST_S)
        return real(self, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(kube.Kube, "request", request)
        yield


def test_gangs_that_are_begun_late_do_not_cost_the_early_ones_their_locks(
    many: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun_s = many.ports.clock.monotonic_s()
    with taking_time(many.scene, monkeypatch):
        found = many.cycle()
    assert many.ports.clock.monotonic_s() - begun_s > 2 * locking.DURATION_S
    assert [(result.action.target, result.became) for result in found.results] == [
        (f"g{i}", Became.DONE) for i in range(GANGS)
    ]
    assert set(many.states().values()) == {"ACTIVE"}
    assert len(many.states()) == GANGS * MEMBERS
    assert journal.list_open(many.ports) == []
    assert [lease.name for lease in many.ports.leases.list()] == [leadership.NAME]


def test_no_more_slices_are_begun_together_than_their_locks_allow(
    many: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    most, choices = 0, 0
    real = locking.acquire

    def acquire(ports, reporter, name, *rest):
        nonlocal most, choices
        found = real(ports, reporter, name, *rest)
        choices += name == locking.PLACEMENT
        held = [lease.name for lease in many.ports.leases.list()]
        most = max(most, sum(name.startswith(locking.slice_lock("")) for name in held))
        return found

    monkeypatch.setattr(locking, "acquire", acquire)
    assert {result.became for result in many.cycle().results} == {Became.DONE}
    assert (most, choices) == (forms.SLICES_TOGETHER, 2)


def test_a_second_choice_that_fails_does_not_speak_for_the_first(
    many: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, choices = locking.acquire, 0

    def acquire(ports, reporter, name, *rest):
        nonlocal choices
        choices += name == locking.PLACEMENT
        if choices > 1:
            raise errors.Conflict("tpuctl-placement is locked by jo@elsewhere:1")
        return real(ports, reporter, name, *rest)

    monkeypatch.setattr(locking, "acquire", acquire)
    found = many.cycle()
    assert [result.became for result in found.results] == [Became.DONE] * 4 + [Became.STOPPED]
    assert found.results[-1].why == "tpuctl-placement is locked by jo@elsewhere:1"
    assert found.failure is None
