"""What is kept in the cluster: memory, history, pauses. Bounded, compared before it is written."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

import pytest

from tests.ops.reconciling.conftest import wanted, world_of
from tpuctl.model import errors, fleet, reconciling, records
from tpuctl.ops.reconciling import history, memory, outcomes, pauses

if TYPE_CHECKING:
    from tests.ops.conftest import Recorder
    from tpuctl.cli.rehearsal import Rehearsal

NOW = datetime.datetime(2026, 1, 5, 8, tzinfo=datetime.UTC)
Became = outcomes.Became


def entry(number: int, text: str = "x") -> reconciling.Entry:
    return reconciling.Entry(NOW, f"c{number}", "", "jo", text, "done", f"s{number}")


def action(target: str, kind: reconciling.ActionKind = reconciling.ActionKind.FORM) -> reconciling.Action:
    return reconciling.Action(kind=kind, target=target, reason="test")


def test_the_history_keeps_the_newest_entries(scene: Rehearsal) -> None:
    for start in range(0, 250, 50):
        history.append(scene.ports, [entry(number) for number in range(start, start + 50)])
    kept = history.read(scene.ports)
    assert [item.subject for item in kept] == [f"s{number}" for number in range(50, 250)]
    assert [item.subject for item in history.read(scene.ports, 2)] == ["s248", "s249"]
    assert history.read(scene.ports, 1000) == kept


def test_the_history_is_bounded_in_bytes_and_words(scene: Rehearsal) -> None:
    history.append(scene.ports, [entry(number, "ö" * 5000) for number in range(200)])
    kept = history.read(scene.ports)
    assert kept[-1].subject == "s199"
    assert all(len(item.text) == history.MAX_TEXT for item in kept)
    record = scene.ports.records.get(history.RECORD)
    assert len(record.text.encode()) <= history.MAX_BYTES
    assert len(kept) < 200


def test_of_two_who_add_to_the_history_none_is_lost(
    scene: Rehearsal, monkeypatch: pytest.MonkeyPatch
) -> None:
    history.append(scene.ports, [entry(1)])
    kind = type(scene.ports.records)
    replace = kind.replace

    def late(self: object, record: object, text: str) -> object:
        monkeypatch.setattr(kind, "replace", replace)
        history.append(scene.ports, [entry(2)])
        return replace(self, record, text)  # type: ignore[arg-type] # as given

    monkeypatch.setattr(kind, "replace", late)
    history.append(scene.ports, [entry(3)])
    assert [item.subject for item in history.read(scene.ports)] == ["s1", "s2", "s3"]


def test_a_damaged_history_is_an_error(scene: Rehearsal) -> None:
    scene.ports.records.create(history.RECORD, records.HISTORY, '{"schema": 1, "entries": [{}]}')
    with pytest.raises(records.DamagedRecord):
        history.append(scene.ports, [entry(1)])


def test_a_pause_has_an_author_a_reason_and_an_end(scene: Rehearsal) -> None:
    assert pauses.current(scene.ports) is None
    with pytest.raises(errors.UsageError, match="needs a reason"):
        pauses.pause(scene.ports, reason=" ")
    made, is_new = pauses.pause(scene.ports, reason="fabric work", for_s=3600)
    assert is_new
    assert made.actor == scene.ports.identity.actor().partition("@")[0]
    assert (made.until - made.since).total_seconds() == 3600
    assert pauses.current(scene.ports) == made
    assert pauses.sentence(made).startswith(f"paused by {made.actor} until 2026-")
    scene.simulator.advance(3601)
    assert pauses.current(scene.ports) is None
    assert pauses.resume(scene.ports) is None


def test_the_last_word_about_a_pause_counts_and_the_same_word_is_said_once(scene: Rehearsal) -> None:
    pauses.pause(scene.ports, reason="one")
    assert pauses.pause(scene.ports, reason="one")[1] is False
    scene.simulator.advance(10)
    later, is_new = pauses.pause(scene.ports, reason="two", for_s=60)
    assert is_new
    assert pauses.current(scene.ports) == later
    assert pauses.resume(scene.ports) == later
    assert pauses.current(scene.ports) is None
    texts = [item.text for item in history.read(scene.ports)]
    assert len(texts) == 3
    assert texts[0] == "paused: one"
    assert texts[1].endswith("UTC: two")
    assert texts[2].startswith("resumed; ")


def test_a_memory_is_written_only_if_it_changed(scene: Rehearsal, reporter: Recorder) -> None:
    loaded = memory.load(scene.ports, "test")
    assert loaded == (reconciling.Memory(), None)
    saved = memory.save(scene.ports, loaded, reconciling.Memory(fleet="test", observed_at=NOW))
    assert memory.load(scene.ports, "test").memory == saved.memory
    world = world_of(scene, reporter)
    with world.writes() as writes:
        assert memory.save(scene.ports, saved, saved.memory) == saved
    assert writes == []
    with pytest.raises(errors.Conflict):
        memory.save(scene.ports, loaded, reconciling.Memory(fleet="test"))


def test_failures_are_counted_and_what_was_called_off_has_disturbed_nothing() -> None:
    before = reconciling.Memory(
        attempts=(reconciling.Attempt("form/a", 1, NOW - datetime.timedelta(hours=1), "once"),),
        disruptions=(
            reconciling.Disruption(NOW - datetime.timedelta(minutes=9), 64, "deform/b"),
            reconciling.Disruption(NOW, 64, "deform/b"),
        ),
    )
    results = (
        outcomes.Result(action("a"), Became.FAILED, "again"),
        outcomes.Result(action("b", reconciling.ActionKind.DEFORM), Became.STOPPED, "moved"),
        outcomes.Result(action("c"), Became.DONE),
    )
    later = NOW + datetime.timedelta(minutes=1)
    after = memory.after(before, results, (), decided_at=NOW, now=later)
    assert after.attempts == (reconciling.Attempt("form/a", 2, later, "again"),)
    assert after.disruptions == before.disruptions[:1]
    # Only what was carried out can have been without effect.
    assert [(entry.action, entry.failures, entry.last_at) for entry in after.churn] == [("form/c", 1, later)]
    # The decision has counted it by what it saw of the world: once is enough.
    twice = memory.after(after, results[:1], (), decided_at=NOW, now=later)
    assert twice.attempts[0].failures == 2


def test_records_of_the_loop_keep_no_cube_from_placement(scene: Rehearsal, reporter: Recorder) -> None:
    world = world_of(scene, reporter, wanted("train", "4x4x8"))
    world.converge()
    pauses.pause(scene.ports, reason="look")
    assert scene.ports.fleet.observe((fleet.SourceName.CLAIMS,)).claims == ()
    scene.ports.records.create("odd", "of-a-newer-tpuctl", "{}")
    with pytest.raises(records.DamagedRecord, match="unknown kind"):
        scene.ports.fleet.observe((fleet.SourceName.CLAIMS,))
    scene.ports.records.delete(scene.ports.records.get("odd"))
