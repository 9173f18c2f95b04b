"""Cubes with which something went wrong lately: others first, but nothing waits for it."""

import dataclasses
import datetime

import pytest

from tests import builders
from tests.engine.reconciling import stage
from tpuctl.engine import reconciling as engine
from tpuctl.engine.reconciling import suspicion
from tpuctl.model import reconciling

Kind = reconciling.ActionKind
DAY = datetime.timedelta(days=1)
MINUTE = datetime.timedelta(minutes=1)


def suspects(*ids: str, failures: int = 1, at: datetime.datetime = stage.NOW - MINUTE) -> tuple:
    return tuple(reconciling.Suspect(cube_id, failures, at) for cube_id in ids)


def on(count: int, *wanted: object, known: tuple = (), slices: tuple = (), **more: object) -> engine.View:
    memory = stage.memory(*slices, suspects=known)
    snapshot = builders.fleet_of(*stage.cubes(count), slices=slices)
    return stage.view(snapshot, stage.spec(*wanted), memory=memory, **more)


def formed_on(seen: engine.View) -> set[str]:
    [forming] = stage.one(engine.decide(seen), Kind.FORM).forming
    return set(forming.partition_ids)


class TestForming:
    NEW = stage.want("new", "8x8x8")

    def tries(self, count: int, bad: str) -> int:
        """Formations until one goes well; those with the bad cube fail."""
        known: tuple = ()
        for number in range(1, 50):
            now = stage.NOW + number * MINUTE
            seen = on(count, self.NEW, known=known)
            seen = dataclasses.replace(seen, snapshot=dataclasses.replace(seen.snapshot, observed_at=now))
            taken = formed_on(seen)
            if bad not in taken:
                return number
            known = suspicion.noted(known, taken, now)
        raise AssertionError("it tries the same cubes for ever")

    def test_where_there_is_room_the_second_try_is_elsewhere(self):
        assert {self.tries(16, f"b1-c{number:02}") for number in range(16)} == {1, 2}

    @pytest.mark.parametrize("spare", [1, 3])
    def test_where_there_is_little_they_take_turns(self, spare):
        count = 8 + spare
        assert max(self.tries(count, f"b1-c{number:02}") for number in range(count)) <= 9

    def test_where_there_is_none_it_is_formed_all_the_same(self):
        known = suspects(*(f"b1-c{number:02}" for number in range(8)), failures=9)
        assert len(formed_on(on(8, self.NEW, known=known))) == 8

    def test_nothing_falls_back_for_it(self):
        wanted = stage.want("new", "8x8x8", "4x8x8")
        known = suspects(*(f"b1-c{number:02}" for number in range(4, 8)))
        assert len(formed_on(on(8, wanted, known=known))) == 8

    def test_a_sub_slice_takes_a_part_of_another_cube(self):
        wanted = stage.want("new", "2x4x4")
        [first] = formed_on(on(2, wanted))
        [second] = formed_on(on(2, wanted, known=suspects(first)))
        assert first.split(".")[0] != second.split(".")[0]


class TestMemory:
    def test_it_lasts_a_day(self):
        seen = on(9, stage.want("new", "8x8x8"), known=suspects("b1-c00", at=stage.NOW - DAY + MINUTE))
        assert [entry.partition_id for entry in engine.decide(seen).memory.suspects] == ["b1-c00"]
        seen = on(9, stage.want("new", "8x8x8"), known=suspects("b1-c00", at=stage.NOW - DAY))
        assert engine.decide(seen).memory.suspects == ()

    def test_who_runs_in_a_slice_afterwards_is_cleared(self):
        item = builders.slice_of("s", "4x4x4", "b1-c00")._replace(since=stage.NOW)
        seen = on(2, stage.want("s", "4x4x4"), slices=(item,), known=suspects("b1-c00", "b1-c01"))
        assert [entry.partition_id for entry in engine.decide(seen).memory.suspects] == ["b1-c01"]

    def test_people_are_told_of_what_fails_again_and_again(self):
        known = suspects("b1-c00", failures=3) + suspects("b1-c01", failures=2)
        [told] = engine.decide(on(2, known=known)).memory.recommendations
        assert told.subject == "cube/b1-c00"
        assert "tpuctl cube hold b1-c00" in told.text

    def test_a_failure_is_counted_once_more(self):
        known = suspicion.noted(suspects("a", "b"), ["b", "c"], stage.NOW)
        assert [(entry.partition_id, entry.failures) for entry in known] == [("a", 1), ("b", 2), ("c", 1)]

    def test_a_thousand_are_kept_the_newest(self):
        known = suspicion.noted(suspects(*(f"x{number:05}" for number in range(2000))), ["a"], stage.NOW)
        assert len(known) == 1000
        assert known[0].partition_id == "a"


class TestSwaps:
    """A host that comes back and dies again takes no second job with it."""

    ITEM = builders.slice_of("train", "4x4x8", "b1-c00", "b1-c01")
    WANTED = stage.want("train", "4x4x8")

    def exchanged(self, count: int, *known: str) -> str:
        down = stage.failed(self.ITEM)
        seen = on(count, self.WANTED, slices=(down,), known=suspects(*known))
        snapshot = stage.with_cubes(seen.snapshot, stage.sick(stage.cubes(1)[0]))
        [exchange] = stage.one(
            engine.decide(dataclasses.replace(seen, snapshot=snapshot)), Kind.SWAP
        ).exchanges
        return exchange.new

    def test_another_spare_comes_first(self):
        usual = self.exchanged(4)
        assert {usual, self.exchanged(4, usual)} == {"b1-c02", "b1-c03"}

    def test_where_one_is_needed_it_is_the_least_suspected(self):
        down = stage.failed(self.ITEM)
        known = suspects("b1-c02", failures=9) + suspects("b1-c03", failures=1)
        seen = on(5, self.WANTED, slices=(down,), known=known)
        bad = [stage.sick(cube) for cube in stage.cubes(2)]
        seen = dataclasses.replace(seen, snapshot=stage.with_cubes(seen.snapshot, *bad))
        action = stage.one(engine.decide(seen), Kind.SWAP)
        assert {exchange.new for exchange in action.exchanges} == {"b1-c03", "b1-c04"}

    def test_the_only_one_will_do(self):
        assert self.exchanged(3, "b1-c02", "b1-c01") == "b1-c02"


class TestSubSlicesInPlace:
    """Pods on it wait without links, whether it is made again here or elsewhere."""

    ITEM = stage.failed(builders.slice_of("s", "2x2x2", "b1-c00.222.0"), 600.0)
    PODS = (builders.pod("p", "node-b1-c00-00"),)

    def actions(self, cubes: int) -> list[str]:
        """Of a day in which it fails again each time it is made again where it was."""
        snapshot = builders.fleet_of(*stage.cubes(cubes), slices=(self.ITEM,), pods=self.PODS)
        seen = stage.view(snapshot, stage.spec(stage.want("s", "2x2x2")))
        done = []
        for number in range(24 * 60):
            found = engine.decide(seen)
            done += stage.lines(found)
            if "deform/s" in done:
                break
            seen = stage.later(seen, found, 60.0)
            if found.to_do:
                again = self.ITEM._replace(uid=f"uid-{number}", created_at=seen.now, since=seen.now)
                memory = dataclasses.replace(seen.memory, formed=stage.formed(again))
                changed = stage.with_slices(seen.snapshot, again)
                seen = dataclasses.replace(seen, snapshot=changed, memory=memory)
        return done

    def test_it_goes_elsewhere_after_two_tries(self):
        assert self.actions(2) == ["swap/s", "swap/s", "deform/s"]

    def test_without_another_place_it_is_tried_less_and_less_often(self):
        found = self.actions(1)
        assert {*found} == {"swap/s"}
        assert len(found) < 40
