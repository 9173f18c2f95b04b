"""What stops an action: breaker, budgets, windows, pauses, modes, repetition."""

import dataclasses
import datetime

import pytest

from tests import builders
from tests.engine.reconciling import stage
from tests.engine.reconciling.test_breaker import broken
from tpuctl.engine import reconciling as engine
from tpuctl.model import declared, fleet, operations, reconciling, states

Kind = reconciling.ActionKind
State = reconciling.GuardState
CUBES = stage.cubes(8)
TRAIN = builders.slice_of("train", "4x8x8", *(cube.id for cube in CUBES[:4]))


class TestDisruptionBudget:
    slices = tuple(
        builders.slice_of(f"s-{n}", "4x4x8", f"b1-c{2 * n:02}", f"b1-c{2 * n + 1:02}") for n in range(4)
    )

    def pruning(self, limit, *spent):
        wanted = stage.spec(
            stage.want("else", "8x8x16"),
            budgets=declared.Budgets(disrupted_chips_per_hour=limit),
            prune_grace_s=0.0,
        )
        memory = stage.memory(*self.slices, disruptions=spent)
        seen = stage.view(builders.fleet_of(*CUBES, slices=self.slices), wanted, memory=memory)
        return stage.second_look(seen)

    def test_it_is_counted_before_the_act_and_for_all_actions_together(self):
        again, found = self.pruning(300)
        assert stage.lines(found) == ["deform/s-0", "deform/s-1"]
        assert found.actions[2].stopped_by == (
            "disruption budget: it interrupts 128 chips, 44 of 300 are left in this hour"
        )
        assert sum(entry.chips for entry in found.memory.disruptions) == 256
        guard = stage.guard(found, "disruption budget")
        assert (guard.state, guard.says) == (
            State.STOPS_SOME,
            "256 of 300 chips disrupted in this hour, 256 of them by this plan",
        )
        after = engine.decide(stage.carried_out(again, found))
        assert after.to_do == ()

    def test_what_was_disturbed_counts_for_an_hour(self):
        def at(seconds):
            return reconciling.Disruption(stage.NOW - datetime.timedelta(seconds=seconds), 256, "swap/x")

        _, full = self.pruning(256, at(3000))
        assert full.to_do == ()
        _, free = self.pruning(256, at(3571))
        assert len(free.to_do) == 2
        assert [entry.action for entry in free.memory.disruptions] == ["deform/s-0", "deform/s-1"]

    def test_a_budget_of_nothing_still_lets_pass_what_disturbs_nobody(self):
        wanted = stage.spec(stage.want("new", "4x4x4"), budgets=declared.Budgets(disrupted_chips_per_hour=0))
        assert stage.lines(engine.decide(stage.view(builders.fleet_of(*CUBES), wanted))) == ["form/new"]


class TestPause:
    PAUSE = reconciling.Pause("jo", "network change", stage.LONG_AGO, stage.NOW + datetime.timedelta(hours=1))

    def test_nothing_is_done_but_shown(self):
        found = engine.decide(broken(pause=self.PAUSE))
        assert found.to_do == ()
        assert found.actions[0].stopped_by == "pause: by jo until 2026-01-05 09:00:00 UTC: network change"
        assert stage.guard(found, "pause").state is State.STOPS_ALL

    def test_it_ends_by_itself(self):
        seen = broken(pause=self.PAUSE._replace(until=stage.NOW))
        assert stage.lines(engine.decide(seen)) == ["form/new"]

    def test_a_slice_that_is_away_is_made_again_all_the_same(self):
        entry = stage.operation(TRAIN, operations.Kind.SWAP, operations.Intent.CREATING)
        assert stage.lines(engine.decide(broken(pause=self.PAUSE, operations=(entry,)))) == [
            f"finish/{entry.id}"
        ]

    @pytest.mark.parametrize(
        ("kind", "intent"),
        [
            (operations.Kind.SWAP, operations.Intent.PLANNED),
            (operations.Kind.SWAP, operations.Intent.RESTARTING),
            (operations.Kind.FORM, operations.Intent.CREATING),
            (operations.Kind.DEFORM, operations.Intent.DELETING),
        ],
    )
    def test_other_open_operations_wait(self, kind, intent):
        entry = stage.operation(TRAIN, kind, intent)
        assert engine.decide(broken(pause=self.PAUSE, operations=(entry,))).to_do == ()

    def test_nothing_that_happened_meanwhile_is_made_up_for(self):
        """NVSentinel #450: a backlog of old events acted on after days."""
        seen = stage.view(
            stage.with_cubes(builders.fleet_of(*CUBES, slices=(TRAIN,)), stage.sick(CUBES[0])),
            stage.spec(stage.want("train", "4x8x8")),
            pause=self.PAUSE._replace(until=None),
        )
        for _ in range(3):
            found = engine.decide(seen)
            assert found.to_do == ()
            seen = stage.later(seen, found, 86_400.0)
        well = dataclasses.replace(
            seen,
            pause=None,
            snapshot=dataclasses.replace(builders.fleet_of(*CUBES, slices=(TRAIN,)), observed_at=seen.now),
        )
        assert engine.decide(well).actions == ()


class TestMode:
    @pytest.mark.parametrize("mode", [declared.Mode.OBSERVE, declared.Mode.RECOMMEND])
    def test_it_only_tells(self, mode):
        found = engine.decide(broken(mode=mode))
        assert found.to_do == ()
        assert found.actions[0].stopped_by.startswith(f"mode {mode}: ")
        assert stage.guard(found, "mode").state is State.STOPS_ALL

    def test_recommendations_are_opened_in_that_mode_only(self):
        assert engine.decide(broken(mode=declared.Mode.OBSERVE)).memory.recommendations == ()
        [opened] = engine.decide(broken(mode=declared.Mode.RECOMMEND)).memory.recommendations
        assert opened.subject == "form/new"

    def test_observing_finishes_nothing_either(self):
        entry = stage.operation(TRAIN, operations.Kind.SWAP, operations.Intent.DELETING)
        assert engine.decide(broken(mode=declared.Mode.OBSERVE, operations=(entry,))).to_do == ()


class TestWindows:
    NIGHT = declared.Window(
        name="night", days=(declared.Weekday.SUN,), start_minute=22 * 60, length_s=10 * 3600.0 + 60
    )

    def grow(self, *windows):
        """Monday 08:00 UTC is within a Sunday night of a little over ten hours."""
        wanted = stage.spec(stage.want("train", "8x8x8"), windows=windows)
        seen = stage.view(builders.fleet_of(*CUBES, slices=(TRAIN,)), wanted)
        return engine.decide(seen)

    def test_within_one(self):
        assert stage.lines(self.grow(self.NIGHT)) == ["grow/train"]

    def test_outside(self):
        found = self.grow(dataclasses.replace(self.NIGHT, length_s=10 * 3600.0))
        assert (
            found.actions[0].stopped_by
            == "window: nothing is broken, so it waits for one of the windows night"
        )
        assert stage.guard(found, "window") == reconciling.Guard(
            "window", State.STOPS_SOME, "closed: the windows night"
        )

    def test_none_declared_is_always_open(self):
        found = self.grow()
        assert stage.lines(found) == ["grow/train"]
        assert stage.guard(found, "window").says == "open: no window is declared"

    def test_what_is_broken_does_not_wait(self):
        never = dataclasses.replace(self.NIGHT, days=())
        wanted = stage.spec(stage.want("train", "4x8x8"), windows=(never,))
        snapshot = stage.with_cubes(
            builders.fleet_of(*CUBES, slices=(stage.failed(TRAIN),)), stage.sick(CUBES[0])
        )
        assert stage.lines(engine.decide(stage.view(snapshot, wanted))) == ["swap/train"]


class TestChurn:
    """cluster-toolkit #3225: make, fail, delete, make again without end."""

    def repeated(self, cycles, seconds=30.0, then=stage.done):
        seen = stage.view(builders.fleet_of(*CUBES), stage.spec(stage.want("new", "4x4x4")))
        acted = []
        for _ in range(cycles):
            found = engine.decide(seen)
            if found.to_do:
                acted.append((seen.now - stage.NOW).total_seconds())
            seen = then(seen, found, seconds)
        return acted, found

    def test_the_fourth_time_is_held_back(self):
        acted, found = self.repeated(4)
        assert acted == [0.0, 30.0, 60.0]
        assert found.actions[0].stopped_by.startswith("churn: done 3 times without effect; once more at")
        assert stage.guard(found, "churn").state is State.STOPS_SOME
        assert [entry.subject for entry in found.memory.recommendations] == ["form/new"]

    def test_then_it_is_tried_with_a_pause_that_grows(self):
        acted, _ = self.repeated(200)
        assert acted == [0.0, 30.0, 60.0, 660.0, 1860.0, 4260.0]

    def test_what_died_with_its_loop_is_tried_again(self):
        acted, _ = self.repeated(200, then=stage.later)
        assert len(acted) == 200

    def test_an_action_with_an_effect_is_another_one(self):
        item = builders.slice_of("old", "4x4x4", "b1-c00")
        wanted = stage.spec(stage.want("else", "8x8x16"), prune_grace_s=0.0)
        memory = stage.memory(item)
        for number in range(6):
            now = item._replace(uid=f"uid-{number}")
            seen = stage.view(
                builders.fleet_of(*CUBES, slices=(now,)),
                wanted,
                memory=dataclasses.replace(memory, formed=stage.formed(now)),
            )
            seen, found = stage.second_look(seen, 0.0)
            assert stage.lines(found) == ["deform/old"]
            memory = stage.done(seen, found).memory


def test_what_a_dead_loop_counted_and_did_not_begin_is_counted_once():
    """Killed between writing the memory and acting: the next one finds the budget of the hour spent."""
    item = builders.slice_of("train", "4x4x8", "b1-c00", "b1-c01", created_at=stage.LONG_AGO)
    snapshot = stage.with_cubes(builders.fleet_of(*CUBES, slices=(item,)), stage.sick(CUBES[0]))
    limits = declared.Budgets(disrupted_chips_per_hour=128)
    wanted = stage.spec(stage.want("train", "4x4x8"), budgets=limits)
    seen, first = stage.second_look(stage.view(snapshot, wanted))
    assert stage.lines(first) == ["swap/train"]
    next_one = stage.later(seen, first, 60.0)
    again = engine.decide(next_one)
    assert stage.lines(again) == ["swap/train"]
    assert len(again.memory.disruptions) == 1
    # Once it was swapped it is another object, and the hour is spent.
    made = item._replace(uid="another", partition_ids=("b1-c00", "b1-c02"))
    swapped = dataclasses.replace(next_one, snapshot=stage.with_slices(next_one.snapshot, made))
    swapped = dataclasses.replace(
        swapped, memory=dataclasses.replace(first.memory, formed=stage.formed(made))
    )
    _, spent = stage.second_look(swapped)
    assert "0 of 128 are left in this hour" in stage.one(spent, Kind.SWAP).stopped_by


def test_a_view_that_is_not_whole_decides_nothing():
    """cloud-custodian #11081: a truncated list taken for the full one."""
    seen = broken()
    for left_out in fleet.SourceName:
        sources = tuple(source for source in builders.EVERY_SOURCE if source.name is not left_out)
        partial = dataclasses.replace(seen, snapshot=dataclasses.replace(seen.snapshot, sources=sources))
        found = engine.decide(partial)
        assert found.actions == ()
        assert found.memory == seen.memory
        assert found.guards == (reconciling.Guard("view", State.STOPS_ALL, f"not read: {left_out}"),)


def test_a_view_that_contradicts_itself_decides_nothing():
    """kueue #14232: the same name at two places."""
    twice = builders.fleet_of(*CUBES, stage.cubes(1)[0])
    found = engine.decide(dataclasses.replace(broken(), snapshot=twice))
    assert found.guards[0].says == "cube b1-c00 occurs 2 times in one view"
    assert found.actions == ()


def test_a_view_older_than_the_memory_decides_nothing():
    seen = broken()
    memory = dataclasses.replace(seen.memory, disruptions=(reconciling.Disruption(stage.NOW, 1, "x"),))
    early = dataclasses.replace(seen.snapshot, observed_at=stage.NOW - datetime.timedelta(seconds=1))
    found = engine.decide(dataclasses.replace(seen, memory=memory, snapshot=early))
    assert found.actions == ()
    assert "older than what the loop has seen already" in found.guards[0].says


def test_a_cube_and_a_block_of_one_name_are_two_things():
    cube = builders.cube("same", "same")
    found = engine.decide(stage.view(builders.fleet_of(cube), stage.spec(stage.want("a", "4x4x4"))))
    assert stage.lines(found) == ["form/a"]


def test_the_sentence_of_a_cycle():
    item = TRAIN._replace(state=states.SliceState.ACTIVE)
    seen = stage.view(builders.fleet_of(*CUBES, slices=(item,)), stage.spec(stage.want("train", "4x8x8")))
    assert engine.decide(seen).sentence == "8 cubes healthy of 8; 1 slice ACTIVE of 1; nothing to do."
    more = dataclasses.replace(seen, spec=stage.spec(stage.want("train", "4x8x8"), stage.want("b", "4x8x8")))
    assert engine.decide(more).sentence == "8 cubes healthy of 8; 1 slice ACTIVE of 2; forms b."
    full = dataclasses.replace(seen, spec=stage.spec(stage.want("train", "4x8x8"), stage.want("b", "8x8x8")))
    assert engine.decide(full).sentence == (
        "8 cubes healthy of 8; 1 slice ACTIVE of 2; nothing to do; 1 slice waits: b: 8x8x8 does not fit now: "
        "8 cubes of one block needed, 4 usable (4 in use)."
    )
