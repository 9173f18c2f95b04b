"""A large fleet takes longer to read than a lock lasts: who chooses cubes keeps its locks meanwhile."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from tests.ops.conftest import Recorder
from tests.ops.reconciling.conftest import wanted, world_of
from tests.ops.test_swapping import break_host, busy_slice, nothing_left, prepared_swap
from tpuctl.model import errors, fleet, states, topology
from tpuctl.ops import forming, gangs, journal, locking, swapping
from tpuctl.ops.reconciling import cycle, leadership

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from tpuctl.cli.rehearsal import Rehearsal
    from tpuctl.ops import ports as ports_module

ACTIVE = states.SliceState.ACTIVE
PAIR = topology.parse("4x4x8")
READ_S = locking.DURATION_S + 10


class Slow:
    """A reader of which every look lasts longer than a lock; `then` is called at the end of each."""

    def __init__(self, scene: Rehearsal, then: Callable[[Collection[fleet.SourceName]], None]) -> None:
        self._scene = scene
        self._then = then

    def observe(
        self, sources: Collection[fleet.SourceName], *, meanwhile: Callable[[], None] | None = None
    ) -> fleet.Fleet:
        found = self._scene.ports.fleet.observe(sources)
        for _ in range(int(READ_S)):
            self._scene.simulator.advance(1)
            if meanwhile is not None:
                meanwhile()
        self._then(sources)
        return found


def slow(
    scene: Rehearsal, then: Callable[[Collection[fleet.SourceName]], None] = lambda _: None
) -> ports_module.Ports:
    return dataclasses.replace(scene.ports, fleet=Slow(scene, then))


def test_a_slice_is_formed(scene: Rehearsal, reporter: Recorder) -> None:
    outcome = forming.form(slow(scene), reporter, "train", forming.request(PAIR))
    assert (outcome.verb, outcome.slice.state) == ("formed", ACTIVE)
    nothing_left(scene)


def test_a_gang_is_formed(scene: Rehearsal, reporter: Recorder) -> None:
    outcomes = gangs.form(slow(scene), reporter, ["a-0", "a-1"], forming.request(PAIR))
    assert [outcome.slice.state for outcome in outcomes] == [ACTIVE, ACTIVE]
    nothing_left(scene)


def test_a_cube_is_swapped(scene: Rehearsal, reporter: Recorder) -> None:
    bad = busy_slice(scene).partition_ids[0]
    break_host(scene, bad)
    shown = prepared_swap(scene, swapping.Wish())
    outcome = swapping.swap(slow(scene), reporter, shown, swapping.Wish())
    assert outcome.slice.state is ACTIVE
    assert bad not in outcome.slice.partition_ids
    nothing_left(scene)


def test_the_loop_forms_what_is_declared(scene: Rehearsal, reporter: Recorder) -> None:
    world = world_of(scene, reporter, wanted("train", "4x4x8"), wanted("other", "4x4x8"))
    world.cycle()
    world.advance(30)
    ports = slow(scene)
    with leadership.lead(ports, reporter) as leader:
        assert leader is not None
        found = cycle.run(ports, reporter, world.settings, leader, number=2)
    assert [(result.action.id, str(result.became)) for result in found.results] == [
        ("form/train", "done"),
        ("form/other", "done"),
    ]
    assert journal.list_open(scene.ports) == []


@pytest.fixture
def failing(scene: Rehearsal) -> swapping.Prepared:
    """A swap whose first spare will not form."""
    bad = busy_slice(scene).partition_ids[0]
    break_host(scene, bad)
    shown = prepared_swap(scene, swapping.Wish())
    scene.simulator.inject("fail-activation", shown.exchanges[0].new, times=1)
    return shown


def is_second_choice(scene: Rehearsal, sources: Collection[fleet.SourceName]) -> bool:
    """If true, the runner looks for other spares: its slice has failed, and it asks for pods too."""
    item = scene.ports.slices.get("train")
    open_one = journal.of_slice(scene.ports, "train") is not None
    return open_one and fleet.SourceName.PODS in sources and item is not None and item.state.is_failed


def test_a_second_choice_keeps_others_from_choosing(
    scene: Rehearsal, reporter: Recorder, failing: swapping.Prepared
) -> None:
    """Both would have taken the same spare: the one because it looked, the other because the lock was old."""
    held: list[bool] = []

    def note(sources: Collection[fleet.SourceName]) -> None:
        if is_second_choice(scene, sources):
            lease = scene.ports.leases.get(locking.PLACEMENT)
            held.append(lease is not None and lease.is_held)

    outcome = swapping.swap(slow(scene, note), reporter, failing, swapping.Wish())
    assert held == [True]
    assert outcome.slice.state is ACTIVE
    assert outcome.exchanges[0].new != failing.exchanges[0].new
    nothing_left(scene)


def test_a_second_choice_without_the_placement_lock_is_not_written_down(
    scene: Rehearsal, reporter: Recorder, failing: swapping.Prepared
) -> None:
    def take(sources: Collection[fleet.SourceName]) -> None:
        if is_second_choice(scene, sources):
            locking.break_lock(scene.ports, locking.PLACEMENT, reason="test")

    with pytest.raises(locking.LostLock, match=locking.PLACEMENT):
        swapping.swap(slow(scene, take), reporter, failing, swapping.Wish())
    left = journal.of_slice(scene.ports, "train")
    assert left is not None
    assert left.operation.exchanges == failing.exchanges
    assert left.operation.tried == ()


def test_locks_do_not_expire_while_another_is_waited_for(scene: Rehearsal, reporter: Recorder) -> None:
    """Each may be waited for 30 s: by the third the first would be over."""

    class Other:
        def actor(self) -> str:
            return "jo@elsewhere:1"

        def is_dead(self, _holder: str) -> bool:
            return False

    others = dataclasses.replace(scene.ports, identity=Other())
    ends_s = {"a-1": 25.0, "a-2": 50.0, "a-3": 75.0}
    theirs = {
        name: locking.Lock(
            others,
            locking.acquire(others, Recorder(), locking.slice_lock(name), Other().actor(), 0),
            Other().actor(),
        )
        for name in ends_s
    }
    begun_s = scene.ports.clock.monotonic_s()

    class Clock:
        """The others keep their locks, and give back one every 25 s."""

        scale = scene.ports.clock.scale
        monotonic_s = staticmethod(scene.ports.clock.monotonic_s)

        def sleep(self, seconds: float) -> None:
            scene.ports.clock.sleep(seconds)
            for name, lock in list(theirs.items()):
                lock.renew_if_due()
                if self.monotonic_s() - begun_s >= ends_s[name]:
                    theirs.pop(name).release()

    ports = dataclasses.replace(scene.ports, clock=Clock())
    with locking.slices_held(ports, reporter, ["a-3", "a-0", "a-2", "a-1"], wait_s=30) as locks:
        assert list(locks) == ["a-0", "a-1", "a-2", "a-3"]
        assert scene.ports.clock.monotonic_s() - begun_s > locking.DURATION_S
        for lock in locks.values():
            lock.check()
    assert scene.ports.leases.list() == []


def test_all_locks_of_an_overtaken_gang_are_given_back(scene: Rehearsal, reporter: Recorder) -> None:
    locking.acquire(scene.ports, Recorder(), locking.slice_lock("a-1"), "jo@elsewhere:1", 0)
    with (
        pytest.raises(errors.Conflict, match="tpuctl-slice-a-1 is locked by jo@elsewhere:1"),
        locking.slices_held(scene.ports, reporter, ["a-0", "a-1"], wait_s=0),
    ):
        raise AssertionError("the second one cannot be had")
    assert [lease.name for lease in scene.ports.leases.list()] == ["tpuctl-slice-a-1"]
