"""What keeps a loop from acting: each write is counted where it arrives."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING

import orjson
import pytest

from tests.ops.reconciling.conftest import World, Write, spec_of, wanted, world_of
from tests.ops.test_swapping import break_host
from tpuctl.cloud import kube
from tpuctl.model import declared, errors, operations, reconciling, records
from tpuctl.model.exit_status import ExitStatus
from tpuctl.ops import locking
from tpuctl.ops.reconciling import (
    cycle,
    history,
    leadership,
    loop,
    memory,
    outcomes,
    pauses,
    views,
)
from tpuctl.sim import api_faults

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.ops.conftest import Recorder
    from tpuctl.cli.rehearsal import Rehearsal

Became = outcomes.Became
KUBERNETES = "kubernetes"


@pytest.fixture
def ready(scene: Rehearsal, reporter: Recorder) -> World:
    """A loop that has observed the fleet and has two slices to form."""
    world = world_of(scene, reporter, wanted("first", "4x4x4", priority=2), wanted("second", "4x4x4"))
    world.cycle()
    world.advance(30)
    return world


def beyond_lead(writes: Sequence[Write]) -> list[Write]:
    return [write for write in writes if not write.is_lead]


def changes(writes: Sequence[Write]) -> list[str]:
    """What was written of the fleet itself."""
    return [write.resource for write in writes if write.resource not in ("leases", "configmaps", "events")]


# -- views -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("effect", "verb", "resource", "error"),
    [
        (api_faults.Error(401), "list", "nodes", errors.NotPermitted),
        (api_faults.Error(403), "list", "slices", errors.NotPermitted),
        (api_faults.Error(503), "list", "pods", errors.Unavailable),
        (api_faults.Expired(), "list", "nodes", errors.Unavailable),
        (api_faults.Truncated("json"), "list", "nodes", errors.Unavailable),
        (api_faults.Error(401), "list", "configmaps", errors.NotPermitted),
        (api_faults.Error(500), "get", "configmaps", errors.Unavailable),
    ],
)
def test_who_does_not_see_everything_writes_nothing(
    ready: World,
    monkeypatch: pytest.MonkeyPatch,
    effect: api_faults.Effect,
    verb: str,
    resource: str,
    error: type[errors.TpuctlError],
) -> None:
    """cloud-custodian#11081, python#2582: missing nodes are never gone, and 401 is never an empty list."""
    monkeypatch.setattr(kube, "PAGE_SIZE", 20)
    fault = api_faults.injected(ready.scene.simulator, effect, api=KUBERNETES, verb=verb, resource=resource)
    with ready.writes() as writes, fault as hit:
        found = ready.cycle()
    assert hit.hits > 0
    assert isinstance(found.failure, error)
    assert (found.results, found.is_full) == ((), False)
    assert found.sentence.startswith("nothing was done: ")
    assert beyond_lead(writes) == []
    assert ready.states() == {}


def test_a_list_that_fails_in_the_middle_is_no_list(ready: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """cloud-custodian#11081: 96 nodes, pages of 20, and the third never comes."""
    monkeypatch.setattr(kube, "PAGE_SIZE", 20)
    fault = api_faults.injected(
        ready.scene.simulator,
        api_faults.Error(500),
        api=KUBERNETES,
        verb="list",
        resource="nodes",
        call=3,
        times=1000,
    )
    with ready.writes() as writes, fault as hit:
        found = ready.cycle()
    assert hit.hits > 0
    assert isinstance(found.failure, errors.Unavailable)
    assert beyond_lead(writes) == []


@pytest.mark.parametrize("api", ["container", "compute"])
def test_the_google_apis_count_as_well(ready: World, api: str) -> None:
    with ready.writes() as writes, api_faults.injected(ready.scene.simulator, api_faults.Error(503), api=api):
        found = ready.cycle()
    assert isinstance(found.failure, errors.Unavailable)
    assert beyond_lead(writes) == []


def test_a_list_older_than_the_last_one_is_not_believed(ready: World) -> None:
    newer = views.observe(ready.ports, ready.settings).view
    sources = tuple(
        source._replace(revision=str(int(source.revision) + 1000)) if source.revision else source
        for source in newer.snapshot.sources
    )
    ahead = dataclasses.replace(newer, snapshot=dataclasses.replace(newer.snapshot, sources=sources))
    with ready.writes() as writes, leadership.lead(ready.ports, ready.reporter) as leader:
        found = cycle.run(ready.ports, ready.reporter, ready.settings, leader, previous=ahead)
    assert isinstance(found.failure, views.Stale)
    assert found.failure.exit_status == 9
    assert "older than" in found.sentence
    assert beyond_lead(writes) == []


def test_a_damaged_memory_stops_the_loop(ready: World) -> None:
    """NVSentinel ADR-056: corrupt state is an error, never empty."""
    record = ready.ports.records.get(memory.RECORD)
    ready.ports.records.replace(record, record.text[:-20])
    with ready.writes() as writes:
        found = ready.cycle()
    assert isinstance(found.failure, records.DamagedRecord)
    assert beyond_lead(writes) == []


def test_a_memory_of_a_newer_form_stops_the_loop(ready: World) -> None:
    record = ready.ports.records.get(memory.RECORD)
    document = orjson.loads(record.text) | {"schema": 2}
    ready.ports.records.replace(record, orjson.dumps(document).decode())
    assert isinstance(ready.cycle().failure, records.DamagedRecord)


def test_another_fleets_memory_is_not_taken_over(ready: World) -> None:
    ready.wants(dataclasses.replace(ready.settings.spec, name="other"))
    with ready.writes() as writes:
        found = ready.cycle()
    assert isinstance(found.failure, errors.Conflict)
    assert "fleet test" in found.sentence
    assert beyond_lead(writes) == []


# -- people ----------------------------------------------------------------------------------------------


def test_a_pause_holds_back_everything_and_ends_by_itself(ready: World) -> None:
    pauses.pause(ready.ports, reason="upgrade of the fabric", for_s=600)
    with ready.writes() as writes:
        found = ready.cycle()
    assert found.results == ()
    assert all(action.stopped_by.startswith("pause: ") for action in found.decision.actions)
    assert changes(writes) == []
    ready.advance(601)
    assert [result.became for result in ready.cycle().results] == [Became.DONE, Became.DONE]


def test_a_pause_between_two_actions_is_heard(ready: World) -> None:
    """What has begun ends; the next action does not begin."""
    ready.converge()
    ready.wants(spec_of(ready.scene, wanted("third", "4x4x4"), prune_grace_s=0.0))
    ready.cycle()
    ready.advance(30)
    ready.hooks.told.clear()

    def stop() -> bool:
        """Asked between actions: a person pauses the loop after the first."""
        if ready.hooks.told and pauses.current(ready.ports) is None:
            pauses.pause(ready.ports, reason="wait")
        return False

    found = ready.cycle(stop)
    became = [(result.action.id, result.became.value) for result in found.results]
    assert became == [("deform/first", "done"), ("deform/second", "stopped")]
    assert "paused by" in found.results[1].why
    assert set(ready.states()) == {"second", "third"}
    # What was not done has disturbed nothing.
    kept = memory.load(ready.ports, "test").memory
    assert [entry.action for entry in kept.disruptions] == ["deform/first"]


def test_a_pause_is_checked_before_the_record_of_an_operation(
    ready: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at the pause and the first write of the action."""
    taken = locking.acquire

    def acquire(ports: object, reporter: object, name: str, *rest: object) -> operations.Lease:
        if name == locking.PLACEMENT and ready.ports.records.get(pauses.RECORD) is None:
            pauses.pause(ready.ports, reason="now")
        return taken(ports, reporter, name, *rest)  # type: ignore[arg-type] # as given

    monkeypatch.setattr(locking, "acquire", acquire)
    with ready.writes() as writes:
        found = ready.cycle()
    assert [result.became for result in found.results] == [Became.STOPPED, Became.STOPPED]
    assert changes(writes) == []
    assert ready.states() == {}


def test_a_slice_that_is_away_is_brought_back_even_in_a_pause(
    ready: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready.converge()
    break_host(ready.scene, ready.slice("first").partition_ids[0])

    def fail(*_arguments: object, **_options: object) -> None:
        raise errors.Unavailable("the server went away")

    with monkeypatch.context() as patched:
        patched.setattr(type(ready.ports.slices), "create", fail)
        for _ in range(5):
            found = ready.cycle()
            if found.results:
                break
            ready.advance(30)
    assert isinstance(found.failure, errors.Unavailable)
    assert "first" not in ready.states()
    pauses.pause(ready.ports, reason="look at it")
    ready.advance(locking.DURATION_S + 1)
    found = ready.cycle()
    assert [(result.action.kind.value, result.became) for result in found.results] == [
        ("finish", Became.DONE)
    ]
    assert ready.states()["first"] == "ACTIVE"


def test_told_to_end_it_ends_between_actions_and_gives_the_lock_back(ready: World) -> None:
    ready.converge()
    ready.wants(spec_of(ready.scene, wanted("third", "4x4x4"), prune_grace_s=0.0))
    ready.cycle()
    ready.advance(30)
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > 1

    found = ready.cycle(stop)
    became = [(result.action.id, result.became.value) for result in found.results]
    assert became[0] == ("deform/first", "done")
    assert {word for _, word in became[1:]} == {"stopped"}
    lease = ready.ports.leases.get(leadership.NAME)
    assert (lease.holder, lease.is_held) == ("", False)
    assert all(not item.is_held for item in ready.ports.leases.list())


# -- the breaker -----------------------------------------------------------------------------------------


def test_a_breaker_that_tripped_stays_so_until_a_person_resets_it(ready: World) -> None:
    breaker = declared.Breaker(minimum_cubes=2)
    ready.wants(dataclasses.replace(ready.settings.spec, breaker=breaker))
    ready.converge()
    ready.advance(1800)  # nodes that are new may be coming up
    uids = {name: ready.slice(name).uid for name in ready.states()}
    # Free cubes whose hosts are in repair would not count.
    cubes = [part for name in uids for part in ready.slice(name).partition_ids]
    for cube_id in cubes:
        ready.scene.simulator.inject("cube-down", cube_id)
    ready.advance(120)
    with ready.writes() as writes:
        found = ready.cycle()
    assert found.results == ()
    assert all(action.stopped_by.startswith("breaker") for action in found.decision.actions)
    assert changes(writes) == []
    assert history.read(ready.ports)[-1].text.startswith("breaker tripped: ")
    for cube_id in cubes:
        ready.scene.simulator.inject("cube-up", cube_id)
    ready.advance(1800)
    again = ready.cycles(2)
    assert again.results == ()
    assert again.decision.memory.tripped == found.decision.memory.tripped
    assert {name: ready.slice(name).uid for name in uids} == uids
    pauses.resume(ready.ports, reset_breaker=True)
    assert history.read(ready.ports)[-1].text.startswith("breaker reset; it had tripped: ")
    ready.converge()


# -- who leads -------------------------------------------------------------------------------------------


def test_of_two_loops_one_acts(ready: World) -> None:
    with leadership.lead(ready.ports, ready.reporter) as leader, ready.writes() as writes:
        with pytest.raises(errors.Busy, match="leads: one loop acts at a time") as busy:
            loop.run(ready.ports, ready.reporter, ready.settings, once=True)
        assert busy.value.exit_status == ExitStatus.TRY_AGAIN
        assert writes == []
        found = cycle.run(ready.ports, ready.reporter, ready.settings, leader)
    assert [result.became for result in found.results] == [Became.DONE, Became.DONE]


@contextlib.contextmanager
def broken_lock(world: World, monkeypatch: pytest.MonkeyPatch, after: str) -> Iterator[None]:
    """Somebody takes the lead away as soon as this slice was created."""
    slices = type(world.ports.slices)
    create = slices.create

    def create_and_lose(port: object, spec: object, **options: object) -> object:
        made = create(port, spec, **options)  # type: ignore[arg-type] # as given
        if spec.name == after:  # type: ignore[attr-defined] # a SliceSpec
            locking.break_lock(world.ports, leadership.NAME, reason="test")
        return made

    with monkeypatch.context() as patched:
        patched.setattr(slices, "create", create_and_lose)
        yield


def test_a_lost_lead_ends_the_cycle_without_another_write(
    ready: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """python-base#278, kubernetes#23731: renewal failed, and yet the old leader went on."""
    with ready.writes() as writes, broken_lock(ready, monkeypatch, "first"):
        found = ready.cycle()
    assert isinstance(found.failure, leadership.LostLeadership)
    assert found.is_full is False
    mark = next(number for number, write in enumerate(writes) if write.resource == "slices")
    after = writes[mark + 1 :]
    # Only the break itself, and locks of its own that it gives back.
    assert [write.verb for write in after if write.resource != "leases"] == []
    assert {write.verb for write in after} <= {"update", "delete"}
    assert set(ready.states()) == {"first"}


def test_a_lead_that_cannot_be_renewed_in_time_is_lost(ready: World) -> None:
    """Writes of Leases fail while the cycle waits: past the deadline nothing is written any more."""
    with leadership.lead(ready.ports, ready.reporter) as leader:
        ready.advance(locking.DURATION_S + 1)
        with ready.writes() as writes:
            found = cycle.run(ready.ports, ready.reporter, ready.settings, leader)
        assert isinstance(found.failure, leadership.LostLeadership)
        assert writes == []
    fault = api_faults.injected(
        ready.scene.simulator, api_faults.Error(503), api=KUBERNETES, verb="update", resource="leases"
    )
    with leadership.lead(ready.ports, ready.reporter) as leader, fault:
        ready.advance(locking.DURATION_S / 2)
        with ready.writes() as writes:
            found = cycle.run(ready.ports, ready.reporter, ready.settings, leader)
    assert isinstance(found.failure, errors.Unavailable)
    assert {write.resource for write in writes} == {"leases"}


def test_a_loop_that_hangs_does_not_renew(ready: World) -> None:
    with leadership.lead(ready.ports, ready.reporter):
        ready.advance(locking.DURATION_S + 1)
        assert ready.ports.leases.get(leadership.NAME).is_held is False


def test_a_change_of_the_memory_by_somebody_else_is_read_again(
    ready: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A 409 is answered by looking again, not by writing again."""
    save = memory.save

    def late(ports: object, loaded: memory.Loaded, changed: reconciling.Memory) -> memory.Loaded:
        monkeypatch.setattr(memory, "save", save)
        other = memory.load(ready.ports, "test")
        save(ready.ports, other, dataclasses.replace(other.memory, spec_digest="of somebody else"))
        return save(ports, loaded, changed)  # type: ignore[arg-type] # as given

    monkeypatch.setattr(memory, "save", late)
    with ready.writes() as writes:
        found = ready.cycle()
    assert isinstance(found.failure, errors.Conflict)
    assert changes(writes) == []
    assert [result.became for result in ready.cycle().results] == [Became.DONE, Became.DONE]


def test_permission_that_is_missing_ends_the_cycle(ready: World) -> None:
    fault = api_faults.injected(
        ready.scene.simulator, api_faults.Error(403), api=KUBERNETES, verb="create", resource="slices"
    )
    with fault:
        found = ready.cycle()
    assert isinstance(found.failure, errors.NotPermitted)
    assert [result.became for result in found.results] == [Became.FAILED, Became.FAILED]
