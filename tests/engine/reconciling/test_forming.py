"""Wanted slices that are not there."""

import dataclasses
import datetime

import pytest

from tests import builders
from tests.engine.reconciling import stage
from tpuctl.engine import reconciling as engine
from tpuctl.model import declared, fleet, operations, reconciling

Kind = reconciling.ActionKind
NOTHING = reconciling.Memory(fleet="f", spec_digest="d", observed_at=stage.LONG_AGO)


def decided(snapshot, wanted, **more):
    return engine.decide(stage.view(snapshot, wanted, **more))


def test_the_first_cycle_on_a_fleet_only_observes():
    seen = stage.view(
        builders.fleet_of(*stage.cubes(4)), stage.spec(stage.want("a", "4x4x8")), memory=reconciling.Memory()
    )
    first = engine.decide(seen)
    assert first.to_do == ()
    assert "first run" in stage.one(first, Kind.FORM).stopped_by
    assert first.memory.observed_at == stage.NOW
    assert stage.lines(engine.decide(stage.later(seen, first))) == ["form/a"]


def test_another_fleets_memory_is_no_memory():
    of_other = dataclasses.replace(stage.memory(), fleet="other")
    found = decided(builders.fleet_of(*stage.cubes(4)), stage.spec(stage.want("a", "4x4x8")), memory=of_other)
    assert found.to_do == ()
    assert found.memory.fleet == "f"


def test_what_is_wanted_is_formed_with_its_facts_and_priority():
    found = decided(builders.fleet_of(*stage.cubes(4)), stage.spec(stage.want("a", "4x4x8", priority=7)))
    action = stage.one(found, Kind.FORM)
    [forming] = action.forming
    assert (forming.name, str(forming.topology), forming.block, forming.priority) == ("a", "4x4x8", "b1", 7)
    assert forming.partition_ids == ("b1-c00", "b1-c01")
    assert action.facts == (
        reconciling.Fact("spec", "f", "d"),
        reconciling.Fact("slice", "a", ""),
        reconciling.Fact("cube", "b1-c00", "healthy held by nobody"),
        reconciling.Fact("cube", "b1-c01", "healthy held by nobody"),
    )
    assert action.estimate_s == 24.2
    assert "priority 7" in action.reason


def test_a_slice_of_exactly_one_cube_is_formed_like_any_other():
    """xpk #1002: a boundary that went another way."""
    found = decided(builders.fleet_of(*stage.cubes(1)), stage.spec(stage.want("a", "4x4x4")))
    assert stage.one(found, Kind.FORM).forming[0].partition_ids == ("b1-c00",)


def test_the_more_urgent_get_the_room():
    wanted = stage.spec(stage.want("low", "4x4x8"), stage.want("high", "4x4x12", priority=1))
    found = decided(builders.fleet_of(*stage.cubes(3)), wanted)
    assert stage.lines(found) == ["form/high"]
    assert dict(found.waiting)["low"].startswith(
        "4x4x8 does not fit now: 2 cubes of one block needed, 0 usable"
    )


def test_a_gang_is_formed_together_or_not_at_all():
    """volcano #3373: two gangs that each hold a part would wait for ever."""
    wanted = stage.spec(
        stage.want("g", "4x4x8", count=2, gang="g"), stage.want("h", "4x4x8", count=2, gang="h")
    )
    found = decided(builders.fleet_of(*stage.cubes(6)), wanted)
    assert stage.lines(found) == ["form/g"]
    assert [forming.name for forming in stage.one(found, Kind.FORM).forming] == ["g-0", "g-1"]
    assert [name for name, _ in found.waiting] == ["h-0", "h-1"]


def test_the_rest_of_a_gang_joins_its_block():
    there = builders.slice_of("g-0", "4x4x8", "b2-c00", "b2-c01")
    snapshot = builders.fleet_of(*stage.cubes(8), *stage.cubes(5, "b2"), slices=(there,))
    wanted = stage.spec(stage.want("g", "4x4x8", count=2, gang="g", same_block=True))
    [forming] = stage.one(decided(snapshot, wanted), Kind.FORM).forming
    assert (forming.name, forming.block) == ("g-1", "b2")


def test_a_smaller_shape_if_the_wanted_one_does_not_fit():
    wanted = stage.spec(stage.want("a", "4x8x8", "4x4x8"))
    action = stage.one(decided(builders.fleet_of(*stage.cubes(3)), wanted), Kind.FORM)
    [forming] = action.forming
    assert (str(forming.topology), str(forming.wanted)) == ("4x4x8", "4x8x8")
    assert "4x8x8 does not fit now, so it falls back to 4x4x8" in action.reason


def test_only_the_block_that_is_named():
    snapshot = builders.fleet_of(*stage.cubes(2), *stage.cubes(4, "b2"))
    found = decided(snapshot, stage.spec(stage.want("a", "4x4x8", block="b2")))
    assert stage.one(found, Kind.FORM).forming[0].block == "b2"
    nowhere = decided(snapshot, stage.spec(stage.want("a", "4x4x8", block="b9")))
    assert nowhere.waiting == (("a", "block b9 is not one of those that the loop looks after"),)


def test_blocks_that_are_not_declared_are_left_alone():
    snapshot = stage.hardware(*stage.cubes(2), *stage.cubes(4, "b2"))
    wanted = stage.spec(stage.want("a", "4x8x8"), blocks=(declared.BlockSpec(name="b1"),))
    assert decided(snapshot, wanted).to_do == ()


def test_spares_are_left_to_those_who_may_use_them():
    blocks = (declared.BlockSpec(name="b1", spares=2),)
    snapshot = stage.hardware(*stage.cubes(4))
    low = decided(snapshot, stage.spec(stage.want("a", "4x4x12"), blocks=blocks))
    assert low.to_do == ()
    assert "kept as a spare" in dict(low.waiting)["a"]
    high = decided(snapshot, stage.spec(stage.want("a", "4x4x12", priority=1), blocks=blocks))
    assert stage.lines(high) == ["form/a"]


def test_a_cube_that_was_just_repaired_or_is_on_hold_is_not_used():
    """kueue #14118: replacements that went back to the same bad node."""
    snapshot = builders.fleet_of(*stage.cubes(3))
    wanted = stage.spec(stage.want("a", "4x4x8"))
    cooling = decided(snapshot, wanted, repairing=frozenset({"b1-c00"}))
    assert stage.one(cooling, Kind.FORM).forming[0].partition_ids == ("b1-c01", "b1-c02")
    claims = (operations.Claim("b1-c01", "hold by jo"), operations.Claim("b1-c00", "hold by jo"))
    held = decided(dataclasses.replace(snapshot, claims=claims), wanted)
    assert "2 held" in dict(held.waiting)["a"]


def test_hosts_that_pods_of_a_slice_that_is_gone_keep_are_not_used():
    snapshot = builders.fleet_of(*stage.cubes(2), pods=(builders.pod("p", "node-b1-c00-00"),))
    assert decided(snapshot, stage.spec(stage.want("a", "4x4x8"))).to_do == ()


def test_the_rest_of_a_cube_serves_sub_slices():
    found = decided(builders.fleet_of(*stage.cubes(1)), stage.spec(stage.want("s", "2x2x4", count=4)))
    ids = [action.forming[0].partition_ids[0] for action in found.to_do]
    assert len(set(ids)) == 4
    assert all(partition.startswith("b1-c00.224.") for partition in ids)


def test_an_attempt_that_failed_is_repeated_after_a_pause_that_grows():
    snapshot = builders.fleet_of(*stage.cubes(2))
    wanted = stage.spec(stage.want("a", "4x4x8", priority=1), stage.want("b", "4x4x4"))

    def after(seconds: float, failures: int) -> reconciling.Decision:
        last = stage.NOW - datetime.timedelta(seconds=seconds)
        attempts = (reconciling.Attempt("form/a", failures, last, "stockout"),)
        return decided(snapshot, wanted, memory=dataclasses.replace(NOTHING, attempts=attempts))

    early = after(59, 1)
    assert "attempts: 1 failed attempt (stockout)" in early.actions[0].stopped_by
    assert stage.lines(early) == []  # its cubes are kept for it meanwhile
    assert stage.lines(after(60, 1)) == ["form/a"]
    assert stage.lines(after(239, 3)) == []
    assert stage.lines(after(240, 3)) == ["form/a"]
    assert stage.lines(after(3600, 30)) == ["form/a"]


def test_more_room_is_seen_in_the_next_cycle():
    """kueue #13772, #13687: jobs that stayed pending after capacity had come."""
    lacks = stage.view(builders.fleet_of(*stage.cubes(1)), stage.spec(stage.want("a", "4x4x8")))
    first = engine.decide(lacks)
    assert first.to_do == ()
    more = dataclasses.replace(stage.later(lacks, first), snapshot=builders.fleet_of(*stage.cubes(2)))
    assert stage.lines(engine.decide(more)) == ["form/a"]


class TestPreemption:
    low = builders.slice_of("low", "4x8x8", *(f"b1-c{n:02}" for n in range(4)))
    wanted = stage.spec(
        stage.want("low", "4x8x8", preemptible=True, min_run_s=600.0), stage.want("high", "4x8x8", priority=5)
    )

    def view(self, **more):
        snapshot = builders.fleet_of(*stage.cubes(6), slices=(self.low,))
        return stage.view(snapshot, self.wanted, **more)

    def test_a_lower_slice_makes_room(self):
        found = engine.decide(self.view())
        action = stage.one(found, Kind.DEFORM)
        assert (action.target, action.chips, action.slices) == ("low", 256, ("low",))
        assert "high (priority 5) needs its cubes" in action.reason
        assert stage.lines(found) == ["deform/low"]
        assert "room is being made" in dict(found.waiting)["high"]

    def test_what_was_made_free_is_formed_and_the_lower_one_is_not_called_deleted(self):
        seen = self.view()
        after = stage.carried_out(seen, engine.decide(seen))
        found = engine.decide(after)
        assert stage.lines(found) == ["form/high"]
        assert "somebody else" not in dict(found.waiting)["low"]

    def test_not_before_its_minimum_run(self):
        young = stage.formed(self.low, since=stage.NOW - datetime.timedelta(seconds=599))
        found = engine.decide(self.view(memory=dataclasses.replace(NOTHING, formed=young)))
        assert found.to_do == ()

    def test_not_what_the_loop_did_not_form(self):
        foreign = self.low._replace(owner=fleet.Owner("kueue", "Workload", "default", "w"))
        snapshot = builders.fleet_of(*stage.cubes(6), slices=(foreign,))
        assert engine.decide(stage.view(snapshot, self.wanted)).to_do == ()

    def test_nobody_is_evicted_if_that_does_not_help(self):
        """kueue #5243: freed devices that did not add up to the shape."""
        wanted = dataclasses.replace(
            self.wanted, slices=(self.wanted.slices[0], stage.want("high", "8x8x8", priority=5))
        )
        snapshot = builders.fleet_of(*stage.cubes(6), slices=(self.low,))
        assert engine.decide(stage.view(snapshot, wanted)).to_do == ()

    def test_all_victims_or_none(self):
        """A part of the victims would be disturbed for nothing."""
        lows = tuple(
            builders.slice_of(f"low-{n}", "4x4x8", f"b1-c{2 * n:02}", f"b1-c{2 * n + 1:02}") for n in range(2)
        )
        wanted = stage.spec(
            stage.want("low", "4x4x8", count=2, preemptible=True),
            stage.want("high", "4x8x8", priority=5),
            budgets=declared.Budgets(disrupted_chips_per_hour=128),
        )
        snapshot = builders.fleet_of(*stage.cubes(4), slices=lows)
        found = engine.decide(stage.view(snapshot, wanted))
        assert [action.id for action in found.actions] == ["deform/low-0", "deform/low-1"]
        assert all("disruption budget" in action.stopped_by for action in found.actions)

    def test_rather_than_a_fallback(self):
        wanted = dataclasses.replace(
            self.wanted, slices=(self.wanted.slices[0], stage.want("high", "4x8x8", "4x4x8", priority=5))
        )
        snapshot = builders.fleet_of(*stage.cubes(6), slices=(self.low,))
        assert stage.lines(engine.decide(stage.view(snapshot, wanted))) == ["deform/low"]
        closed = stage.view(
            snapshot,
            dataclasses.replace(wanted, budgets=declared.Budgets(disrupted_chips_per_hour=0)),
        )
        assert stage.lines(engine.decide(closed)) == ["form/high"]

    @pytest.mark.parametrize("spares", [0, 2])
    def test_the_spares_of_another_block_keep_nobody_waiting(self, spares):
        low = builders.slice_of("low", "4x4x4", "b1-c00")
        snapshot = stage.hardware(*stage.cubes(1), *stage.cubes(3, "b2"), slices=(low,))
        wanted = stage.spec(
            stage.want("low", "4x4x4", preemptible=True),
            stage.want("high", "4x4x4", priority=5, block="b1"),
            blocks=(declared.BlockSpec(name="b1"), declared.BlockSpec(name="b2", spares=spares)),
            spares_below=10,
        )
        seen = stage.view(snapshot, wanted)
        found = engine.decide(seen)
        assert stage.lines(found) == ["deform/low"]
        assert "form/high" in stage.lines(engine.decide(stage.carried_out(seen, found)))

    def test_the_cheapest_block_beside_its_own_spares(self):
        """The end of `small` makes room in b1 only if no spare is kept there; in b2 none is."""
        lows = (
            builders.slice_of("small", "4x4x4", "b1-c00"),
            builders.slice_of("large", "4x4x8", "b2-c00", "b2-c01"),
        )
        snapshot = stage.hardware(*stage.cubes(1), *stage.cubes(2, "b2"), slices=lows)

        def ended(spares):
            wanted = stage.spec(
                stage.want("small", "4x4x4", preemptible=True),
                stage.want("large", "4x4x8", preemptible=True),
                stage.want("high", "4x4x4", priority=5),
                blocks=(declared.BlockSpec(name="b1", spares=spares), declared.BlockSpec(name="b2")),
                spares_below=10,
            )
            return stage.lines(engine.decide(stage.view(snapshot, wanted)))

        assert ended(0) == ["deform/small"]
        assert ended(1) == ["deform/large"]
