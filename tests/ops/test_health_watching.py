"""What is told of a watched fleet: changes of health, once, and troubles of the view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests import builders
from tpuctl.model import errors, health, records, states
from tpuctl.ops import health_checks, health_watching
from tpuctl.ops import ports as ports_module

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tpuctl.model import fleet

Verdict = states.Verdict
Sighting = ports_module.Sighting


class Scripted:
    """A Changes port that shows these sightings."""

    def __init__(self, *sightings: ports_module.Sighting) -> None:
        self._sightings = sightings

    def follow(self, sources: object, **options: object) -> Iterator[ports_module.Sighting]:
        assert sources == health_checks.SOURCES
        assert options == {"silence_s": 120.0, "reread_s": 300.0, "timeout_s": 60.0}
        yield from self._sightings


class Records:
    """A Records port whose lists are these, one after another; the last one stays."""

    def __init__(self, *answers: Exception | tuple[ports_module.Record, ...]) -> None:
        self._answers = list(answers)
        self.lists = 0

    def list(self, kind: str) -> tuple[ports_module.Record, ...]:
        assert kind == records.OPERATION
        self.lists += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


NO_RECORDS = ((),)


class Ports:
    """As much of `ports.Ports` as watching needs."""

    def __init__(self, kept: Records, *sightings: ports_module.Sighting) -> None:
        self.changes = Scripted(*sightings)
        self.records = kept


def turns(*sightings: ports_module.Sighting, kept: Records | None = None) -> list[health_watching.Turn]:
    return list(
        health_watching.follow(
            Ports(kept or Records(*NO_RECORDS), *sightings),  # type: ignore[arg-type] # a part of it
            health.DEFAULT_POLICY,
            timeout_s=60.0,
        )
    )


def told(turn: health_watching.Turn) -> list[tuple[str, Verdict | None, Verdict, bool]]:
    return [
        (change.now.id, change.before, change.now.judgement.verdict, change.gone) for change in turn.changes
    ]


def seen(*cubes: fleet.Cube, trouble: str = "") -> ports_module.Sighting:
    return Sighting(builders.fleet_of(*cubes), trouble)


SOUND = builders.cube("c1")
BROKEN = builders.changed(SOUND, 2, chips=1)


def test_the_first_turn_tells_everything_and_later_ones_what_changed() -> None:
    first, second, third = turns(
        seen(SOUND, builders.cube("c2")),
        seen(SOUND, builders.cube("c2")),
        seen(BROKEN, builders.cube("c2")),
        seen(BROKEN),
    )
    assert told(first) == [
        ("c1", None, Verdict.HEALTHY, False),
        ("c2", None, Verdict.HEALTHY, False),
    ]
    assert told(second) == [("c1", Verdict.HEALTHY, Verdict.UNHEALTHY, False)]
    assert told(third) == [("c2", Verdict.HEALTHY, Verdict.HEALTHY, True)]
    assert [item.id for item in third.items] == ["c1"]


def test_another_reason_for_the_same_verdict_is_told() -> None:
    """NVSentinel#1536: a new fault on what is ill already must not be dropped."""
    worse = builders.changed(BROKEN, 9, ready=False)
    _, second = turns(seen(BROKEN), seen(worse))
    assert told(second) == [("c1", Verdict.UNHEALTHY, Verdict.UNHEALTHY, False)]
    assert "host node-c1-09: not ready" in second.changes[0].now.judgement.reasons


def test_growing_older_is_no_change_until_the_verdict_is_another() -> None:
    young = builders.changed(SOUND, 2, ready=False, ready_since=builders.NOW)
    found = builders.fleet_of(young)
    later = builders.fleet_of(builders.changed(SOUND, 2, ready=False, ready_since=builders.LONG_AGO))
    first, second = turns(Sighting(found), Sighting(found), Sighting(later))
    assert told(first)[0][2] is Verdict.UNKNOWN
    assert told(second) == [("c1", Verdict.UNKNOWN, Verdict.UNHEALTHY, False)]


def test_a_trouble_is_told_when_it_comes_and_when_it_goes() -> None:
    found = turns(
        Sighting(None, "no answer"),
        Sighting(None, "no answer"),
        seen(SOUND),
        seen(SOUND, trouble="the watch broke"),
        seen(SOUND),
    )
    assert [turn.trouble for turn in found] == ["no answer", "", "the watch broke", ""]
    assert [len(turn.changes) for turn in found] == [0, 1, 0, 0]
    assert found[0].observed_at is None
    assert [item.id for item in found[2].items] == ["c1"]


def test_nothing_heard_is_never_told_as_gone() -> None:
    _, lost = turns(seen(SOUND), Sighting(None, "the server is away"))
    assert lost.changes == ()
    assert [item.id for item in lost.items] == ["c1"]


class TestOwedSlices:
    """A slice that a swap has deleted and not made again is what an admin must see first."""

    def test_records_are_read_when_a_slice_comes_or_goes_and_not_with_every_sighting(self) -> None:
        kept = Records(*NO_RECORDS)
        turns(seen(SOUND), seen(BROKEN), seen(SOUND), kept=kept)
        assert kept.lists == 1

    def test_who_may_not_read_them_is_told_once_and_not_asked_again(self) -> None:
        kept = Records(errors.NotPermitted("you may not list configmaps"))
        first, second = turns(seen(SOUND), seen(SOUND), seen(BROKEN), kept=kept)
        assert first.trouble == "open operations are not shown: you may not list configmaps"
        assert told(first) == [("c1", None, Verdict.HEALTHY, False)]
        assert told(second) == [("c1", Verdict.HEALTHY, Verdict.UNHEALTHY, False)]
        assert kept.lists == 1

    def test_what_cannot_be_read_now_is_read_with_the_next_sighting(self) -> None:
        kept = Records(errors.Unavailable("no answer"), *NO_RECORDS)
        found = turns(seen(SOUND), seen(SOUND), seen(SOUND), kept=kept)
        assert [turn.trouble for turn in found] == ["open operations are not shown: no answer", ""]
        assert kept.lists == 2

    def test_a_damaged_record_is_told(self) -> None:
        damaged = ports_module.Record("swap-train", records.OPERATION, "{", "uid-1", "1", builders.NOW)
        [turn] = turns(seen(SOUND), kept=Records((damaged,)))
        assert "swap-train" in turn.trouble
