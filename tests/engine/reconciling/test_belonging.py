"""What is ours, what is somebody else's, and what nobody wants any more."""

import dataclasses
import datetime

import pytest

from tests import builders
from tests.engine.reconciling import stage
from tpuctl.engine import reconciling as engine
from tpuctl.model import declared, fleet, operations, reconciling, states

Kind = reconciling.ActionKind
CUBES = stage.cubes(8)
TRAIN = builders.slice_of("train", "4x4x8", "b1-c00", "b1-c01")
KUEUE = fleet.Owner("kueue", "Workload", "default", "w")
WANTED = stage.spec(stage.want("train", "4x4x8"))
NOTHING = stage.spec(stage.want("else", "8x8x12"))
"""A declared state that names another slice, which never fits."""


def on(*slices, wanted=WANTED, pods=(), **more):
    return stage.view(builders.fleet_of(*CUBES, slices=slices, pods=pods), wanted, **more)


class TestNotWantedAnyMore:
    def test_what_the_loop_formed_is_taken_apart_after_its_grace(self):
        """ai-on-gke #269: what comes back within the grace is kept."""
        seen = on(TRAIN, wanted=NOTHING)
        first = engine.decide(seen)
        early = stage.later(seen, first, 299.0)
        assert engine.decide(early).actions == ()
        found = engine.decide(stage.later(seen, first, 300.0))
        action = stage.one(found, Kind.DEFORM)
        assert (action.target, action.chips, action.voluntary, action.stopped_by) == ("train", 128, False, "")
        back = dataclasses.replace(early, spec=WANTED)
        kept = engine.decide(back)
        assert (kept.actions, kept.memory.sightings) == ((), ())

    def test_the_pods_on_it_are_counted(self):
        _, found = stage.second_look(
            on(TRAIN, wanted=NOTHING, pods=(builders.pod("p", "node-b1-c00-00"),)), 300.0
        )
        action = stage.one(found, Kind.DEFORM)
        assert (action.pods_kept, action.pods_restarted) == (1, 0)
        assert "1 pod still on it" in action.reason

    @pytest.mark.parametrize(
        "other",
        [
            TRAIN._replace(owner=KUEUE),
            TRAIN._replace(owner=fleet.BY_HAND),
            TRAIN._replace(uid="made anew by somebody"),
            TRAIN._replace(deleting=True),
        ],
    )
    def test_what_is_somebody_elses_never_is(self, other):
        _, found = stage.second_look(on(other, wanted=NOTHING, memory=stage.memory(TRAIN)), 9999.0)
        assert found.actions == ()

    def test_what_the_loop_never_formed_never_is(self):
        _, found = stage.second_look(on(TRAIN, wanted=NOTHING, memory=stage.memory()), 9999.0)
        assert found.actions == ()

    def test_nor_is_anything_if_pruning_is_off(self):
        wanted = dataclasses.replace(NOTHING, prune=False)
        _, found = stage.second_look(on(TRAIN, wanted=wanted), 9999.0)
        assert found.actions == ()
        assert found.memory.recommendations[0].subject == "slice/train"

    def test_an_empty_list_does_not_end_everything(self):
        """draino #54, #29: an empty selector that meant all."""
        _, found = stage.second_look(on(TRAIN, wanted=stage.spec()), 9999.0)
        assert "names no slice at all" in stage.one(found, Kind.DEFORM).stopped_by

    def test_a_formation_that_nobody_noted_is_still_ours(self):
        """A crash between forming and remembering: the intent was written before."""
        intent = (reconciling.Formed("train", "", stage.NOW - datetime.timedelta(seconds=30)),)
        memory = dataclasses.replace(stage.memory(), formed=intent)
        _, found = stage.second_look(on(TRAIN, wanted=NOTHING, memory=memory), 300.0)
        assert stage.lines(found) == ["deform/train"]
        old = TRAIN._replace(created_at=stage.LONG_AGO)
        _, kept = stage.second_look(on(old, wanted=NOTHING, memory=memory), 300.0)
        assert kept.actions == ()


class TestDeletedByOthers:
    def test_is_told_once_and_not_fought_over(self):
        """xpk #1043, #1028: an owned object that somebody deleted."""
        seen = on(memory=stage.memory(TRAIN))
        told = set()
        for _ in range(5):
            found = engine.decide(seen)
            assert found.actions == ()
            told.update(found.memory.recommendations)
            seen = stage.later(seen, found)
        [recommendation] = told
        assert recommendation.subject == "slice/train"
        assert "tpuctl slice form train --topology 4x4x8" in recommendation.text
        assert "stays away" in dict(found.waiting)["train"]

    @pytest.mark.parametrize("kind", [operations.Kind.DEFORM, operations.Kind.FORM])
    def test_what_the_loop_itself_began_to_take_apart_is_nobody_else_s_deletion(self, kind):
        """The leader dies after the deletion was asked for; the next one finishes it."""
        intent = (reconciling.Formed("train", "", stage.NOW - datetime.timedelta(seconds=30)),)
        memory = dataclasses.replace(stage.memory(), formed=intent)
        item = stage.creation_failed(TRAIN)
        begun = stage.operation(item, kind, operations.Intent.DELETING)
        seen = on(item, memory=memory, operations=(begun,))
        found = engine.decide(seen)
        gone = on(memory=stage.later(seen, found).memory)
        assert stage.lines(engine.decide(gone)) == ["form/train"]

    def test_a_changed_declaration_forms_it_again(self):
        seen = on(memory=stage.memory(TRAIN))
        seen = stage.later(seen, engine.decide(seen))
        other = stage.spec(stage.want("train", "4x4x8", priority=7))
        changed = dataclasses.replace(seen, spec=other, spec_digest="another")
        assert stage.lines(engine.decide(changed)) == ["form/train"]

    def test_a_change_elsewhere_in_the_file_does_not(self):
        seen = on(memory=stage.memory(TRAIN))
        for digest in ("second", "third"):
            seen = stage.later(seen, engine.decide(seen))
            more = stage.spec(stage.want("train", "4x4x8"), spares_below=len(digest))
            seen = dataclasses.replace(seen, spec=more, spec_digest=digest)
            found = engine.decide(seen)
            assert found.actions == ()
            assert "stays away" in dict(found.waiting)["train"]

    def test_one_that_a_person_made_faster_and_otherwise_is_theirs(self):
        """The loop had decided to form it; what is there is not what it would have formed."""
        intent = (reconciling.Formed("train", "", stage.NOW - datetime.timedelta(seconds=30)),)
        memory = dataclasses.replace(stage.memory(), formed=intent)
        theirs = builders.slice_of("train", "4x4x4", "b1-c00", created_at=stage.NOW)
        _, found = stage.second_look(on(theirs, memory=memory), 9999.0)
        assert found.actions == ()
        assert "which the loop did not form" in dict(found.waiting)["train"]

    def test_a_person_who_forms_it_ends_that(self):
        seen = on(memory=stage.memory(TRAIN))
        again = stage.later(seen, engine.decide(seen))
        again = dataclasses.replace(
            again, snapshot=stage.with_slices(again.snapshot, TRAIN._replace(uid="new"))
        )
        found = engine.decide(again)
        assert (found.actions, found.memory.recommendations) == ((), ())
        assert found.memory.formed[0].uid == "new"

    def test_or_is_formed_again_with_a_growing_pause_if_that_was_declared(self):
        wanted = stage.spec(stage.want("train", "4x4x8", on_deletion=declared.OnDeletion.REFORM))
        seen = on(memory=stage.memory(TRAIN), wanted=wanted)
        for failures in (1, 2, 3):
            found = engine.decide(seen)
            assert found.to_do == ()
            assert found.memory.attempts[0][:2] == ("again/train", failures)
            seen = stage.later(seen, found, 60.0 * 2 ** (failures - 1))
            formed = engine.decide(seen)
            assert stage.lines(formed) == ["form/train"]
            seen = stage.carried_out(seen, formed)
            seen = stage.later(seen, engine.decide(seen))
            seen = dataclasses.replace(seen, snapshot=seen.snapshot.without_slice("train"))

    def test_a_swap_that_is_open_has_deleted_it_itself(self):
        """slurm-operator #249: the crash between "old deleted" and "new formed"."""
        entry = stage.operation(TRAIN, operations.Kind.SWAP, operations.Intent.DELETING)
        found = engine.decide(on(memory=stage.memory(TRAIN), operations=(entry,)))
        assert [action.kind for action in found.to_do] == [Kind.FINISH]
        assert found.memory.recommendations == ()
        assert found.memory.formed == stage.formed(TRAIN)

    @pytest.mark.parametrize(
        ("left", "kind"),
        [
            (TRAIN._replace(state=states.SliceState.DEACTIVATING, deleting=True), None),
            (TRAIN._replace(state=states.SliceState.DEACTIVATING, deleting=True), operations.Kind.DEFORM),
            # Formed, failed, and taken back when its formation is gone on with.
            (stage.failed(TRAIN), operations.Kind.FORM),
        ],
    )
    def test_what_the_loop_ends_itself_is_made_again(self, left, kind):
        """A loop died on the way; the next one sees the slice before it is gone, and then without it."""
        intent = (reconciling.Formed("train", "", stage.NOW - datetime.timedelta(seconds=5)),)
        memory = dataclasses.replace(stage.memory(), formed=intent)
        found = () if kind is None else (stage.operation(left, kind, operations.Intent.DELETING),)
        seen = on(left, memory=memory, operations=found)
        first = engine.decide(seen)
        assert first.memory.formed == intent
        busy = stage.later(dataclasses.replace(seen, snapshot=on().snapshot), first)
        second = engine.decide(busy)
        gone = dataclasses.replace(stage.later(busy, second), operations=())
        assert stage.lines(engine.decide(gone)) == ["form/train"]


class TestWantedNames:
    def test_a_slice_that_tpuctl_made_for_a_person_is_adopted(self):
        found = engine.decide(on(TRAIN, memory=stage.memory()))
        assert found.actions == ()
        assert found.memory.formed == (reconciling.Formed("train", TRAIN.uid, TRAIN.created_at),)

    def test_one_of_another_controller_is_not(self):
        found = engine.decide(on(TRAIN._replace(owner=KUEUE), memory=stage.memory()))
        assert (found.actions, found.memory.formed) == ((), ())
        assert dict(found.waiting)["train"].startswith("a slice of this name belongs to kueue")

    def test_one_made_by_hand_only_if_that_was_declared(self):
        by_hand = TRAIN._replace(owner=fleet.BY_HAND)
        assert engine.decide(on(by_hand, memory=stage.memory())).memory.formed == ()
        wanted = dataclasses.replace(WANTED, adopt_foreign=True)
        assert engine.decide(on(by_hand, memory=stage.memory(), wanted=wanted)).memory.formed != ()

    def test_another_shape_that_the_loop_did_not_make_is_only_told(self):
        """xpk #1135: what is must be compared with what is wanted, not only that it exists."""
        wanted = stage.spec(stage.want("train", "4x8x8"))
        _, found = stage.second_look(on(TRAIN, memory=stage.memory(), wanted=wanted))
        assert found.actions == ()
        assert "exists as 4x4x8" in dict(found.waiting)["train"]

    def test_ours_of_another_shape_is_made_again_in_a_window(self):
        wanted = stage.spec(stage.want("train", "4x8x8"))
        found = engine.decide(on(TRAIN, wanted=wanted))
        action = stage.one(found, Kind.GROW)
        assert (action.voluntary, action.chips, action.stopped_by) == (True, 128, "")
        assert len(action.forming[0].partition_ids) == 4
        smaller = stage.one(
            engine.decide(on(TRAIN, wanted=stage.spec(stage.want("train", "4x4x4")))), Kind.MOVE
        )
        assert "it is 4x4x8, and 4x4x4 is declared" in smaller.reason
        never = declared.Window(name="w", days=(), start_minute=0, length_s=60.0)
        closed = engine.decide(on(TRAIN, wanted=dataclasses.replace(wanted, windows=(never,))))
        assert closed.to_do == ()
        assert closed.actions[0].stopped_by.startswith("window: ")

    def test_not_if_the_declared_shape_would_not_fit(self):
        found = engine.decide(on(TRAIN, wanted=stage.spec(stage.want("train", "8x8x16"))))
        assert found.actions == ()
        assert "shall be 8x8x16, which does not fit now" in dict(found.waiting)["train"]

    def test_the_order_of_partitions_means_nothing(self):
        seen = on(TRAIN)
        other = dataclasses.replace(
            seen,
            snapshot=stage.with_slices(seen.snapshot, TRAIN._replace(partition_ids=("b1-c01", "b1-c00"))),
        )
        plan = engine.decide(dataclasses.replace(seen, spec=stage.spec(stage.want("train", "4x8x8"))))
        assert engine.drift(other, plan.actions) == ()

    def test_ours_in_another_block_than_declared_is_moved(self):
        snapshot = builders.fleet_of(*CUBES, *stage.cubes(2, "b2"), slices=(TRAIN,))
        wanted = stage.spec(stage.want("train", "4x4x8", block="b2"))
        action = stage.one(engine.decide(stage.view(snapshot, wanted)), Kind.MOVE)
        assert action.forming[0].block == "b2"

    def test_one_that_is_being_taken_apart_is_waited_for(self):
        found = engine.decide(on(TRAIN._replace(deleting=True)))
        assert found.actions == ()
        assert dict(found.waiting)["train"] == "it is being taken apart"


def test_capacity_is_counted_from_what_lives_not_from_what_was_noted():
    """kueue #12733: used capacity that leaked when its owner went away unseen."""
    ghosts = tuple(builders.slice_of(f"ghost-{n}", "4x4x8", f"b1-c{2 * n:02}") for n in range(4))
    found = engine.decide(on(memory=stage.memory(*ghosts), wanted=stage.spec(stage.want("new", "8x8x8"))))
    assert stage.lines(found) == ["form/new"]
    assert [entry.name for entry in found.memory.formed] == ["new"]


def test_states_of_a_slice_that_is_not_ours_do_not_matter():
    item = TRAIN._replace(owner=KUEUE, state=states.SliceState.FAILED, ready="False")
    _, found = stage.second_look(on(item, wanted=NOTHING, memory=stage.memory()))
    assert found.actions == ()
