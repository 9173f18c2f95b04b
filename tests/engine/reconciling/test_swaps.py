"""Slices that are broken."""

import dataclasses
import datetime

import pytest

from tests import builders
from tests.engine.reconciling import stage
from tpuctl.engine import reconciling as engine
from tpuctl.model import declared, fleet, operations, reconciling, states

Kind = reconciling.ActionKind
Exchange = operations.Exchange
CUBES = stage.cubes(8)
TRAIN = builders.slice_of("train", "4x8x8", *(cube.id for cube in CUBES[:4]))
SPEC = stage.spec(stage.want("train", "4x8x8", "4x4x8"))


def on(*changed, slices=(TRAIN,), pods=(), wanted=SPEC, **more):
    snapshot = stage.with_cubes(builders.fleet_of(*CUBES, slices=slices, pods=pods), *changed)
    return stage.view(snapshot, wanted, **more)


class TestRunning:
    def test_a_failed_cube_is_swapped_when_it_was_seen_twice(self):
        seen = on(stage.sick(CUBES[1]))
        first = engine.decide(seen)
        assert first.to_do == ()
        assert dict(first.waiting)["train"].startswith("cube b1-c01 failed under it; the loop looks again")
        action = stage.one(engine.decide(stage.later(seen, first)), Kind.SWAP)
        assert action.exchanges == (Exchange("b1-c01", "b1-c04"),)
        assert (action.chips, action.slices, action.voluntary, action.stopped_by) == (
            256,
            ("train",),
            False,
            "",
        )
        assert "cube b1-c01: host node-b1-c01-00: not ready" in action.reason

    def test_all_failed_cubes_of_a_slice_go_in_one_plan(self):
        """kueue #14244: the second failure while the first was being mended evicted the whole job."""
        _, found = stage.second_look(on(stage.sick(CUBES[1]), stage.sick(CUBES[3])))
        assert stage.one(found, Kind.SWAP).exchanges == (
            Exchange("b1-c01", "b1-c04"),
            Exchange("b1-c03", "b1-c05"),
        )

    def test_a_node_that_is_gone_counts_at_once(self):
        """jobset #574: a node object that was deleted, not only not ready."""
        short = dataclasses.replace(CUBES[1], hosts=CUBES[1].hosts[1:])
        _, found = stage.second_look(on(short))
        assert stage.one(found, Kind.SWAP).exchanges == (Exchange("b1-c01", "b1-c04"),)

    def test_pods_on_a_silent_host_get_their_time(self):
        """kueue #13043, #13097: a node that was replaced while its pods still ran."""
        seen = on(stage.sick(CUBES[1]), pods=(builders.pod("p", "node-b1-c01-00"),))
        again, found = stage.second_look(seen)
        assert found.to_do == ()
        assert "pods still run there" in dict(found.waiting)["train"]
        gone = dataclasses.replace(again, snapshot=dataclasses.replace(again.snapshot, pods=()))
        assert stage.lines(engine.decide(gone)) == ["swap/train"]
        _, late = stage.second_look(seen, 300.0)
        action = stage.one(late, Kind.SWAP)
        assert (action.stopped_by, action.pods_restarted, action.pods_kept) == ("", 1, 0)

    def test_pods_elsewhere_stay(self):
        pods = (builders.pod("p", "node-b1-c01-05"), builders.pod("q", "node-b1-c00-05"))
        _, found = stage.second_look(on(stage.sick(CUBES[1]), pods=pods))
        action = stage.one(found, Kind.SWAP)
        assert (action.pods_restarted, action.pods_kept) == (1, 1)

    def test_what_is_unknown_is_left_alone(self):
        again, found = stage.second_look(on(stage.unknown(CUBES[1])))
        assert found.actions == ()
        assert engine.decide(stage.later(again, found, 86_400.0)).actions == ()

    def test_ready_unknown_is_a_hiccup_of_a_health_check(self):
        _, found = stage.second_look(on(slices=(TRAIN._replace(ready="Unknown"),)))
        assert found.actions == ()

    def test_a_budget_that_is_too_small_is_told_with_what_to_do(self):
        wanted = dataclasses.replace(SPEC, budgets=declared.Budgets(disrupted_chips_per_hour=255))
        _, found = stage.second_look(on(stage.sick(CUBES[1]), wanted=wanted))
        stopped = stage.one(found, Kind.SWAP).stopped_by
        assert stopped.startswith("disruption budget: it interrupts 256 chips at once and 255 an hour")
        assert "raise budgets.disruptedChipsPerHour" in stopped  # the key as the file spells it


class TestDown:
    def test_is_swapped_at_once_and_costs_no_budget(self):
        wanted = dataclasses.replace(SPEC, budgets=declared.Budgets(disrupted_chips_per_hour=0))
        found = engine.decide(on(stage.sick(CUBES[0]), slices=(stage.failed(TRAIN),), wanted=wanted))
        action = stage.one(found, Kind.SWAP)
        assert (action.chips, action.slices, action.stopped_by) == (0, (), "")
        assert action.exchanges == (Exchange("b1-c00", "b1-c04"),)

    def test_labels_get_a_moment_to_tell_all_of_it(self):
        found = engine.decide(on(stage.sick(CUBES[0]), slices=(stage.failed(TRAIN, 19.0),)))
        assert found.actions == ()
        assert "just failed" in dict(found.waiting)["train"]

    def test_without_a_spare_it_stays_as_it_is(self):
        """kueue #6913: an empty assignment read as success."""
        full = builders.slice_of("other", "4x8x8", *(cube.id for cube in CUBES[4:]))
        wanted = dataclasses.replace(SPEC, slices=(*SPEC.slices, stage.want("other", "4x8x8")))
        found = engine.decide(on(stage.sick(CUBES[0]), slices=(stage.failed(TRAIN), full), wanted=wanted))
        assert found.actions == ()
        assert dict(found.waiting)["train"] == (
            "cube b1-c00 failed under it; 1 cubes of one block needed, 0 usable (4 in use)"
        )
        assert [entry.subject for entry in found.memory.recommendations] == ["slice/train"]

    def test_a_cube_that_comes_free_is_kept_for_it(self):
        """volcano #5805: the place of the broken gang taken by a fresh job."""
        wanted = dataclasses.replace(SPEC, slices=(stage.want("new", "4x4x4", priority=9), *SPEC.slices))
        broken = [stage.sick(cube) for cube in CUBES[:3]]
        others = [stage.sick(cube) for cube in CUBES[6:]]
        found = engine.decide(
            on(
                *broken,
                *others,
                slices=(stage.failed(TRAIN, 30.0),),
                wanted=dataclasses.replace(wanted, breaker=declared.Breaker(percent=100.0)),
            )
        )
        assert found.to_do == ()  # it needs three, and the two that are free are not given away
        assert set(dict(found.waiting)) == {"train", "new"}

    def test_a_more_urgent_one_gets_the_cube_of_a_lower_one(self):
        low = builders.slice_of("low", "4x8x8", *(cube.id for cube in CUBES[4:]))
        wanted = stage.spec(
            stage.want("train", "4x8x8", priority=5), stage.want("low", "4x8x8", preemptible=True)
        )
        seen = on(stage.sick(CUBES[0]), slices=(stage.failed(TRAIN), low), wanted=wanted)
        first = engine.decide(seen)
        assert stage.lines(first) == ["deform/low"]
        after = stage.carried_out(seen, first)
        assert stage.lines(engine.decide(after)) == ["swap/train"]

    def test_elsewhere_or_smaller_when_no_spare_has_come(self):
        full = builders.slice_of("other", "4x8x8", *(cube.id for cube in CUBES[4:]))
        wanted = dataclasses.replace(SPEC, slices=(*SPEC.slices, stage.want("other", "4x8x8")))
        down = stage.failed(TRAIN, 700.0)
        seen = on(stage.sick(CUBES[0]), slices=(down, full), wanted=wanted)
        assert engine.decide(seen).actions == ()
        again, found = stage.second_look(seen)
        action = stage.one(found, Kind.DEFORM)
        assert "it fits as 4x4x8 in block b1" in action.reason
        assert action.chips == 0
        after = stage.carried_out(again, found)
        formed = stage.one(engine.decide(after), Kind.FORM)
        assert str(formed.forming[0].topology) == "4x4x8"
        assert "b1-c00" not in formed.forming[0].partition_ids

    FULL = builders.slice_of("other", "4x8x8", *(cube.id for cube in CUBES[4:]))
    NO_ROOM = dataclasses.replace(SPEC, slices=(stage.want("train", "4x8x8"), stage.want("other", "4x8x8")))

    def without_spare(self, *nodes, wanted=None, down_s=700.0):
        """It has been down for long enough, one host of it is dead, and pods are bound to these nodes."""
        return on(
            stage.sick(CUBES[0]),
            slices=(stage.failed(TRAIN, down_s), self.FULL),
            wanted=wanted or dataclasses.replace(SPEC, slices=(*SPEC.slices, stage.want("other", "4x8x8"))),
            pods=tuple(builders.pod(f"p-{number}", node) for number, node in enumerate(nodes)),
        )

    def test_a_pod_stuck_on_a_dead_host_keeps_nothing(self):
        _, found = stage.second_look(self.without_spare("node-b1-c00-00"))
        action = stage.one(found, Kind.DEFORM)
        assert (action.pods_restarted, action.pods_kept, action.chips, action.voluntary) == (1, 0, 0, False)
        assert action.reason.endswith("; 1 pod on hosts that are not ready is ended")

    def test_pods_that_hang_without_links_are_begun_anew_in_a_smaller_shape(self):
        """The owner declared the smaller shape: rather that than nothing until somebody repairs."""
        nothing_left = declared.Budgets(disrupted_chips_per_hour=0)
        seen = self.without_spare("node-b1-c00-00", "node-b1-c02-00", "node-b1-c03-05")
        seen = dataclasses.replace(seen, spec=dataclasses.replace(seen.spec, budgets=nothing_left))
        again, found = stage.second_look(seen)
        action = stage.one(found, Kind.DEFORM)
        assert (action.pods_restarted, action.chips, action.slices, action.stopped_by) == (3, 0, (), "")
        assert action.reason == (
            "FAILED, and its block has no cube to replace what failed; "
            "it fits as 4x4x8 in block b1, and is formed there when it is gone; "
            "2 pods on it without links since 2026-01-05 07:48:20 UTC are begun anew; "
            "1 pod on hosts that are not ready is ended"
        )
        after = stage.carried_out(again, found)
        ended = dataclasses.replace(after.snapshot, pods=())
        formed = stage.one(engine.decide(dataclasses.replace(after, snapshot=ended)), Kind.FORM)
        assert str(formed.forming[0].topology) == "4x4x8"

    def test_they_are_left_alone_if_there_is_nothing_to_fall_back_on(self):
        _, found = stage.second_look(self.without_spare("node-b1-c02-00", wanted=self.NO_ROOM))
        assert found.actions == ()
        assert "free or repair a cube of its block" in found.memory.recommendations[0].text

    def test_they_are_left_alone_while_a_spare_may_still_come(self):
        seen = self.without_spare("node-b1-c02-00", down_s=500.0)
        again, found = stage.second_look(seen)
        assert found.actions == ()
        assert stage.lines(engine.decide(stage.later(again, found, 70.0))) == ["deform/train"]

    def test_or_in_another_block_that_has_room(self):
        made = builders.fleet_of(
            stage.sick(CUBES[0]),
            *CUBES[1:],
            *stage.cubes(4, "b2"),
            slices=(stage.failed(TRAIN, 700.0), self.FULL),
            pods=(builders.pod("p", "node-b1-c02-00"),),
        )
        _, found = stage.second_look(stage.view(made, self.NO_ROOM))
        action = stage.one(found, Kind.DEFORM)
        assert "it fits as 4x8x8 in block b2" in action.reason
        assert action.pods_restarted == 1

    def test_nodes_all_gone_is_told_and_nothing_else(self):
        cubes = [dataclasses.replace(cube, hosts=()) for cube in CUBES[:4]]
        found = engine.decide(on(*cubes, slices=(stage.failed(TRAIN),)))
        assert found.actions == ()
        assert "all of its nodes are gone" in found.memory.recommendations[0].text

    @pytest.mark.parametrize("state", [states.SliceState.DEACTIVATING, states.SliceState.INCOMPLETE])
    def test_what_takes_itself_apart_is_waited_for(self, state):
        item = TRAIN._replace(state=state, reason=str(state), ready="False")
        found = engine.decide(on(stage.sick(CUBES[0]), slices=(item,)))
        assert found.actions == ()
        assert "though nobody deleted it" in dict(found.waiting)["train"]

    def test_a_slice_that_failed_and_went_away_by_itself_was_not_deleted_by_anybody(self):
        item = TRAIN._replace(state=states.SliceState.INCOMPLETE, reason="INCOMPLETE", ready="False")
        seen = on(slices=(item,))
        first = engine.decide(seen)
        gone = dataclasses.replace(stage.later(seen, first), snapshot=builders.fleet_of(*CUBES))
        assert stage.lines(engine.decide(gone)) == ["form/train"]

    def test_a_state_that_nobody_knows_is_left_alone(self):
        item = TRAIN._replace(state=states.SliceState.UNKNOWN, reason="SOMETHING_NEW", ready="False")
        _, found = stage.second_look(on(stage.sick(CUBES[0]), slices=(item,)))
        assert found.actions == ()
        assert "'SOMETHING_NEW' is not known" in dict(found.waiting)["train"]


class TestFailedThoughItsCubesAreWell:
    PODS = (builders.pod("p", "node-b1-c00-00"), builders.pod("q", "node-b1-c03-00"))

    def test_it_is_made_again_where_it_is_with_its_pods(self):
        """xpk #685: a terminal state for what can be mended."""
        found = engine.decide(on(slices=(stage.failed(TRAIN, 120.0),), pods=self.PODS))
        action = stage.one(found, Kind.SWAP)
        assert (action.exchanges, action.pods_kept, action.pods_restarted, action.chips) == ((), 2, 0, 0)
        assert action.stopped_by == ""

    def test_not_before_the_labels_had_time_to_tell_otherwise(self):
        found = engine.decide(on(slices=(stage.failed(TRAIN, 119.0),), pods=self.PODS))
        assert found.actions == ()

    def test_not_while_a_cube_of_it_is_unknown(self):
        found = engine.decide(
            on(stage.unknown(CUBES[2]), slices=(stage.failed(TRAIN, 9999.0),), pods=self.PODS)
        )
        assert found.actions == ()
        assert "which proves nothing" in dict(found.waiting)["train"]

    def test_not_on_a_cube_that_somebody_holds(self):
        seen = on(slices=(stage.failed(TRAIN, 9999.0),), pods=self.PODS)
        claims = (operations.Claim("b1-c02", "hold by jo: burn-in"),)
        seen = dataclasses.replace(seen, snapshot=dataclasses.replace(seen.snapshot, claims=claims))
        assert engine.decide(seen).actions == ()

    def test_it_is_tried_again_after_a_pause_that_grows_then_one_cube_is_exchanged(self):
        seen = on(slices=(stage.failed(TRAIN, 9999.0),), pods=self.PODS)
        acted: list[tuple[float, tuple]] = []
        for _ in range(40):
            found = engine.decide(seen)
            acted += [((seen.now - stage.NOW).total_seconds(), action.exchanges) for action in found.to_do]
            seen = stage.later(seen, found)
            if found.to_do:  # it was made again, and fails again
                item = stage.failed(TRAIN, 9999.0, uid=f"uid-{len(acted)}")
                seen = dataclasses.replace(seen, snapshot=stage.with_slices(seen.snapshot, item))
        times = [at for at, _ in acted]
        assert times[:4] == [0.0, 60.0, 180.0, 420.0]
        assert [len(exchanges) for _, exchanges in acted[:4]] == [0, 0, 1, 1]

    def test_an_empty_one_is_taken_apart_and_formed_anew_after_a_pause(self):
        seen = on(slices=(stage.failed(TRAIN, 120.0),))
        first = engine.decide(seen)
        assert stage.lines(first) == ["deform/train"]
        after = stage.carried_out(seen, first, 30.0)
        second = engine.decide(after)
        assert "attempts: 1 failed attempt" in stage.one(second, Kind.FORM).stopped_by
        assert stage.lines(engine.decide(stage.later(after, second))) == ["form/train"]

    def test_attempts_are_forgotten_when_it_has_run_for_an_hour(self):
        again = reconciling.Attempt("again/train", 3, stage.NOW, "failed")
        seen = on(memory=stage.memory(TRAIN, attempts=(again,)))
        first = engine.decide(seen)
        assert first.memory.attempts == (again,)
        assert engine.decide(stage.later(seen, first, 3600.0)).memory.attempts == ()


class TestNeverFormed:
    def test_creation_failed_is_taken_back_and_tried_after_a_pause(self):
        """A MIG that is not stable gives SliceCreationFailed: no storm of retries, and no swap."""
        item = stage.creation_failed(TRAIN, message="MIG is not stable")
        seen = on(slices=(item,))
        first = engine.decide(seen)
        assert stage.lines(first) == ["deform/train"]
        assert first.memory.attempts[0][:2] == ("again/train", 1)
        gone = stage.carried_out(seen, first, 30.0)
        assert engine.decide(gone).to_do == ()
        made = stage.carried_out(gone, engine.decide(stage.later(gone, engine.decide(gone))))
        second = engine.decide(
            stage.view(stage.with_slices(made.snapshot, item._replace(uid="u2")), SPEC, memory=made.memory)
        )
        assert second.memory.attempts[0].failures == 2

    def test_not_if_the_service_tries_again_by_itself(self):
        found = engine.decide(on(slices=(stage.creation_failed(TRAIN, retries=True),)))
        assert found.actions == ()

    def test_a_formation_that_hangs_is_taken_back(self):
        """xpk #859, #943, #968: stuck in creation and never looked at again."""
        since = stage.NOW - datetime.timedelta(seconds=1800)
        item = TRAIN._replace(state=states.SliceState.ACTIVATING, reason="ACTIVATING", ready="False")
        _, young = stage.second_look(on(slices=(item,)))
        assert young.actions == ()
        _, old = stage.second_look(on(slices=(item._replace(since=since),)))
        assert stage.lines(old) == ["deform/train"]

    def test_not_while_an_operation_on_it_is_open(self):
        item = stage.creation_failed(TRAIN)
        entry = stage.operation(item, operations.Kind.FORM, operations.Intent.CREATING)
        found = engine.decide(on(slices=(item,), operations=(entry,)))
        assert [action.kind for action in found.actions] == [Kind.FINISH]


@pytest.mark.parametrize(("permission", "stopped"), [("allow", False), ("recommend", True), ("off", True)])
def test_a_swap_needs_the_permission_of_the_policy(permission, stopped):
    wanted = dataclasses.replace(
        SPEC, remediation=declared.Remediation(failover=declared.Permission(permission))
    )
    found = engine.decide(on(stage.sick(CUBES[0]), slices=(stage.failed(TRAIN),), wanted=wanted))
    assert stage.one(found, Kind.SWAP).stopped_by.startswith("policy: ") is stopped


def test_two_slices_never_get_the_same_replacement():
    other = builders.slice_of("other", "4x4x8", "b1-c04", "b1-c05")
    wanted = dataclasses.replace(SPEC, slices=(*SPEC.slices, stage.want("other", "4x4x8")))
    slices = (stage.failed(TRAIN), stage.failed(other))
    found = engine.decide(on(stage.sick(CUBES[0]), stage.sick(CUBES[4]), slices=slices, wanted=wanted))
    new = [exchange.new for action in found.to_do for exchange in action.exchanges]
    assert sorted(new) == ["b1-c06", "b1-c07"]


def test_a_replacement_is_not_given_to_a_new_slice_even_if_the_swap_is_stopped():
    wanted = dataclasses.replace(
        SPEC,
        slices=(*SPEC.slices, stage.want("new", "4x8x8", "4x4x8", "4x4x4")),
        budgets=declared.Budgets(disrupted_chips_per_hour=0),
    )
    _, found = stage.second_look(on(stage.sick(CUBES[1]), wanted=wanted))
    swap, form = found.actions
    assert (swap.kind, form.kind) == (Kind.SWAP, Kind.FORM)
    assert swap.exchanges[0].new not in form.forming[0].partition_ids


def test_a_foreign_slice_is_not_mended():
    foreign = TRAIN._replace(owner=fleet.Owner("kueue", "Workload", "default", "w"))
    found = engine.decide(on(stage.sick(CUBES[0]), slices=(stage.failed(foreign),)))
    assert found.actions == ()
    assert "belongs to kueue" in dict(found.waiting)["train"]


def test_hardware_that_two_slices_name_is_left_alone():
    """xpk #1022: partitions handed to two slices."""
    twin = builders.slice_of("twin", "4x4x8", "b1-c03", "b1-c04")
    wanted = dataclasses.replace(SPEC, slices=(*SPEC.slices, stage.want("twin", "4x4x8")))
    _, found = stage.second_look(on(stage.sick(CUBES[0]), slices=(TRAIN, twin), wanted=wanted))
    assert found.actions == ()
    assert [entry.subject for entry in found.memory.recommendations] == ["slice/train", "slice/twin"]
