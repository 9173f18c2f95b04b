"""A month that nobody watches: what would end work, go on for ever, or come to no end."""

import dataclasses
import datetime
import itertools

from tests import builders
from tests.engine.reconciling import stage
from tpuctl.engine import reconciling as engine
from tpuctl.model import declared, reconciling, records, states

Kind = reconciling.ActionKind
CUBES = stage.cubes(8)
TRAIN = builders.slice_of("train", "4x4x8", "b1-c00", "b1-c01")
NEVER = declared.Window(name="w", days=(), start_minute=0, length_s=60.0)


def on(*slices, wanted, cubes=CUBES, **more):
    return stage.view(builders.fleet_of(*cubes, slices=slices), wanted, **more)


# -- clocks ----------------------------------------------------------------------------------------------


def test_a_slice_that_failed_in_the_future_does_not_make_the_loop_deaf():
    """The condition's time is of another clock than the list's; what is remembered is of the list's."""
    wanted = stage.spec(stage.want("train", "4x4x8"))
    stuck = TRAIN._replace(
        state=states.SliceState.ACTIVATING,
        reason="ACTIVATING",
        ready="False",
        since=stage.NOW + datetime.timedelta(minutes=10),
    )
    seen = on(stuck, wanted=wanted)
    found = engine.decide(seen)
    assert [entry.since for entry in found.memory.sightings] == [stage.NOW]
    assert engine.distrust(stage.later(seen, found)) == ""


# -- edits of the declared state -------------------------------------------------------------------------


class TestNumbers:
    """`count` gives slices their names: one has the entry's, several have numbers."""

    def test_from_one_to_two_does_not_end_the_one(self):
        wanted = stage.spec(stage.want("train", "4x4x8", count=2))
        _, found = stage.second_look(on(TRAIN, wanted=wanted), 3600.0)
        assert stage.lines(found) == ["form/train-0", "form/train-1"]
        deform = stage.one(found, Kind.DEFORM)
        assert "entry train is numbered now" in deform.stopped_by

    def test_from_two_to_one_does_not_end_both(self):
        two = [TRAIN._replace(name="train-0"), builders.slice_of("train-1", "4x4x8", "b1-c02", "b1-c03")]
        wanted = stage.spec(stage.want("train", "4x4x8"))
        _, found = stage.second_look(on(*two, wanted=wanted), 3600.0)
        assert [action.target for action in found.actions if action.kind is Kind.DEFORM] == [
            "train-0",
            "train-1",
        ]
        assert not any(action.kind is Kind.DEFORM for action in found.to_do)

    def test_from_three_to_two_ends_the_last(self):
        three = [builders.slice_of(f"train-{number}", "4x4x4", f"b1-c0{number}") for number in range(3)]
        wanted = stage.spec(stage.want("train", "4x4x4", count=2))
        _, found = stage.second_look(on(*three, wanted=wanted), 3600.0)
        assert stage.lines(found) == ["deform/train-2"]

    def test_one_that_is_down_has_nothing_to_lose(self):
        wanted = stage.spec(stage.want("train", "4x4x8", count=2))
        _, found = stage.second_look(on(stage.failed(TRAIN), wanted=wanted), 3600.0)
        assert "deform/train" in stage.lines(found)


class TestMendedAsItIs:
    """Another shape is declared, and cannot be had yet: what runs meanwhile is mended as it is."""

    BROKEN = (stage.sick(CUBES[0]), *CUBES[1:])

    def test_if_the_new_shape_does_not_fit(self):
        wanted = stage.spec(stage.want("train", "8x8x16"))
        seen = on(stage.failed(TRAIN), wanted=wanted, cubes=self.BROKEN)
        assert stage.lines(engine.decide(seen)) == ["swap/train"]

    def test_if_its_minimum_run_is_not_over(self):
        wanted = stage.spec(stage.want("train", "4x8x8", min_run_s=10 * 86_400.0))
        seen = on(stage.failed(TRAIN), wanted=wanted, cubes=self.BROKEN)
        assert stage.lines(engine.decide(seen)) == ["swap/train"]

    def test_if_the_window_is_closed(self):
        wanted = stage.spec(stage.want("train", "4x8x8"), windows=(NEVER,))
        _, found = stage.second_look(on(TRAIN, wanted=wanted, cubes=self.BROKEN))
        assert stage.lines(found) == ["swap/train"]

    def test_it_is_made_again_in_the_new_shape_if_that_can_be(self):
        wanted = stage.spec(stage.want("train", "4x8x8"))
        seen = on(stage.failed(TRAIN), wanted=wanted, cubes=self.BROKEN)
        assert stage.lines(engine.decide(seen)) == ["grow/train"]


class TestMadeAnewByAPerson:
    """Only the very object that the loop formed is taken apart."""

    WANTED = stage.spec(stage.want("train", "4x8x8"))

    def test_in_another_shape_it_is_theirs(self):
        """Formed as 4x4x8 by the loop once; a person has made it anew as 4x4x4 since."""
        theirs = builders.slice_of("train", "4x4x4", "b1-c05")._replace(uid="theirs")
        seen = on(theirs, wanted=self.WANTED, memory=stage.memory(TRAIN))
        for _ in range(3):
            found = engine.decide(seen)
            assert found.actions == ()
            assert "exists as 4x4x4" in dict(found.waiting)["train"]
            seen = stage.later(seen, found)

    def test_in_a_declared_shape_it_is_ours_again(self):
        again = builders.slice_of("train", "4x8x8", "b1-c01", "b1-c02", "b1-c03", "b1-c04")
        again = again._replace(uid="again")
        found = engine.decide(on(again, wanted=self.WANTED, memory=stage.memory(TRAIN)))
        assert found.memory.formed[0].uid == "again"


# -- what a view may leave out ---------------------------------------------------------------------------


class TestVanished:
    """Nodes of many cubes gone at once, under slices that are ACTIVE: a list that is not whole looks so."""

    def seen(self, gone):
        wanted = stage.spec(
            *(stage.want(f"s{number}", "4x4x8") for number in range(3)),
            breaker=declared.Breaker(percent=25.0, minimum_cubes=2),
        )
        slices = [
            builders.slice_of(f"s{number}", "4x4x8", f"b1-c{2 * number:02}", f"b1-c{2 * number + 1:02}")
            for number in range(3)
        ]
        left = [cube for number, cube in enumerate(stage.cubes(12)) if number not in gone]
        return on(*slices, wanted=wanted, cubes=left)

    def test_trips_the_breaker(self):
        _, found = stage.second_look(self.seen({0, 2, 4}))
        assert found.to_do == ()
        assert found.memory.tripped is not None
        assert "3 cubes of 12 in trouble at once" in found.memory.tripped.why

    def test_a_single_one_is_swapped(self):
        _, found = stage.second_look(self.seen({0}))
        assert stage.lines(found) == ["swap/s0"]

    def test_what_a_slice_that_is_down_names_is_no_news(self):
        seen = self.seen({0, 2, 4})
        down = [stage.failed(item) for item in seen.snapshot.slices]
        seen = dataclasses.replace(seen, snapshot=stage.with_slices(seen.snapshot, *down))
        assert engine.decide(seen).memory.tripped is None


# -- without end -----------------------------------------------------------------------------------------


def test_a_pool_that_never_comes_up_is_made_less_and_less_often():
    """Deleted, made, in ERROR again an hour later: each time it looks like the first time."""
    blocks = (declared.BlockSpec(name="b1"),)
    wanted = stage.spec(blocks=blocks)
    broken = stage.with_pool(0, hosts=0, status="ERROR")
    cubes = (broken, stage.with_pool(1))
    seen = stage.view(stage.hardware(*cubes), wanted, blocks=stage.reserved(*cubes))
    bare = stage.hardware(stage.bare(0), stage.with_pool(1))
    done, away_for = [], 0
    for cycle in range(14 * 24 * 6):  # two weeks
        now = seen.now
        found = engine.decide(seen)
        kinds = {action.kind for action in found.to_do}
        if Kind.RECREATE_POOL in kinds:
            done.append(cycle)
            away_for = 2
        seen = stage.done(seen, found, 600.0)
        at = now + datetime.timedelta(seconds=600.0)
        if away_for:
            away_for -= 1
            snapshot, pools = bare, tuple(pool for pool in seen.pools if pool.sub_block != "sb00")
        else:
            snapshot, pools = stage.hardware(*cubes), (broken.pool, cubes[1].pool)
        seen = dataclasses.replace(seen, snapshot=dataclasses.replace(snapshot, observed_at=at), pools=pools)
    gaps = [(after - before) / 6 for before, after in itertools.pairwise(done)]  # hours
    assert gaps[0] < 2
    assert min(gaps[-5:]) > 5


def test_a_larger_shape_that_never_forms_costs_a_running_slice_less_and_less():
    """Each try to grow ends what runs on the smaller shape."""
    wanted = stage.spec(stage.want("train", "4x8x8", "4x4x8"))
    ids = "b1-c00", "b1-c01"
    seen = on(builders.slice_of("train", "4x4x8", *ids), wanted=wanted)
    tries = []
    for cycle in range(7 * 24 * 12):  # a week
        found = engine.decide(seen)
        seen = stage.later(seen, found, 300.0)
        if any(action.kind is Kind.GROW for action in found.to_do):
            tries.append(cycle / 12)
            again = builders.slice_of("train", "4x4x8", *ids)._replace(
                uid=f"uid-{cycle}", created_at=seen.now, since=seen.now
            )
            known = {entry.action: entry for entry in found.memory.attempts}
            before = known["grow/train"].failures if "grow/train" in known else 0
            known["grow/train"] = reconciling.Attempt("grow/train", before + 1, seen.now, "no link")
            kept = dataclasses.replace(found.memory, attempts=tuple(sorted(known.values())))
            seen = dataclasses.replace(seen, snapshot=stage.with_slices(seen.snapshot, again), memory=kept)
    assert len(tries) < 14
    assert tries[-1] - tries[-2] >= 24


# -- capacity that nobody gets ---------------------------------------------------------------------------


def test_a_pool_that_only_a_person_may_remake_is_of_use_meanwhile():
    """13 hosts of 16 make sub-slices; nobody may ever say yes to making the pool again."""
    wanted = stage.spec(stage.want("part", "2x2x1"), blocks=(declared.BlockSpec(name="b1"),))
    short = stage.with_pool(0, hosts=13)
    seen = stage.view(
        stage.hardware(short), dataclasses.replace(wanted, slices=()), blocks=stage.reserved(short)
    )
    again = stage.later(seen, engine.decide(seen), 86_400.0)
    found = engine.decide(dataclasses.replace(again, spec=wanted))
    assert stage.one(found, Kind.RECREATE_POOL).stopped_by.startswith("policy: ")
    assert stage.lines(found) == ["form/part"]


def test_messages_of_any_length_leave_the_memory_writable():
    """A condition's message may have 32 KiB, and a record has 1 MiB for all of them."""
    names = [f"s{number}" for number in range(8)]
    slices = [
        stage.creation_failed(builders.slice_of(name, "4x4x4", cube.id), message="x" * 32_768)
        for name, cube in zip(names, CUBES, strict=True)
    ]
    wanted = stage.spec(*(stage.want(name, "4x4x4") for name in names))
    found = engine.decide(on(*slices, wanted=wanted))
    assert len(found.memory.attempts) == len(names)
    assert len(records.write(found.memory)) < 8_000 + 1_000 * len(names)


class TestRoomForASwapThatMayNotBe:
    """Nobody is ended for a swap that is not going to happen."""

    TRAIN = builders.slice_of("train", "4x4x8", "b1-c00", "b1-c01")
    LOW = builders.slice_of("low", "4x4x4", "b1-c02")
    BROKEN = (stage.sick(CUBES[0]), *CUBES[1:3])

    def found(self, **more):
        wanted = stage.spec(
            stage.want("train", "4x4x8", priority=9), stage.want("low", "4x4x4", preemptible=True), **more
        )
        return stage.second_look(on(self.TRAIN, self.LOW, wanted=wanted, cubes=self.BROKEN))[1]

    def test_room_is_made_if_it_may(self):
        assert stage.lines(self.found()) == ["deform/low"]

    def test_not_if_a_person_has_to_say_yes_to_the_swap(self):
        remediation = declared.Remediation(failover=declared.Permission.RECOMMEND)
        assert self.found(remediation=remediation).to_do == ()

    def test_not_if_no_budget_ever_allows_the_swap(self):
        budgets = declared.Budgets(disrupted_chips_per_hour=64)
        assert self.found(budgets=budgets).to_do == ()


class TestPolicyAsksAPerson:
    """`failover: recommend` holds for every way in which work comes to other cubes."""

    ASKS = declared.Remediation(failover=declared.Permission.RECOMMEND)
    PODS = (builders.pod("p", "node-b1-c00-00"), builders.pod("q", "node-b1-c01-00"))

    def test_before_pods_are_ended_to_form_it_elsewhere(self):
        cubes = (stage.sick(CUBES[0]), CUBES[1], *stage.cubes(2, "b2"))
        snapshot = builders.fleet_of(*cubes, slices=(stage.failed(TRAIN, 700.0),), pods=self.PODS)
        free = stage.spec(stage.want("train", "4x4x8"))
        assert stage.lines(stage.second_look(stage.view(snapshot, free))[1]) == ["deform/train"]
        asks = dataclasses.replace(free, remediation=self.ASKS)
        _, found = stage.second_look(stage.view(snapshot, asks))
        assert stage.one(found, Kind.DEFORM).stopped_by.startswith("policy: remediation.failover")

    def test_before_a_sound_cube_is_exchanged_on_suspicion(self):
        again = (reconciling.Attempt("again/train", 5, stage.LONG_AGO, "FAILED"),)
        snapshot = builders.fleet_of(*CUBES, slices=(stage.failed(TRAIN, 700.0),), pods=self.PODS)
        wanted = stage.spec(stage.want("train", "4x4x8"), remediation=self.ASKS)
        seen = stage.view(snapshot, wanted, memory=stage.memory(TRAIN, attempts=again))
        [action] = engine.decide(seen).to_do
        assert (action.kind, action.exchanges) == (Kind.SWAP, ())
