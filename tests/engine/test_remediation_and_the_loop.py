"""Repairs and the loop look at the same trouble: one of the two acts on it, or asks a person."""

from __future__ import annotations

import dataclasses
import datetime
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests import builders
from tests.engine import remediation_worlds as worlds
from tests.engine.reconciling import stage
from tpuctl.engine import reconciling as engine
from tpuctl.engine import remediation
from tpuctl.model import declared, repairs, states, topology

if TYPE_CHECKING:
    from tpuctl.model import fleet

Remedy, State = worlds.Remedy, worlds.State
LOOKS, EVERY_S = 7, 600.0
MEMBERS = ("c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8")
SHAPE = "8x8x8"


def not_ready() -> fleet.Cube:
    return builders.changed(builders.cube("c1"), 3, ready=False, ready_since=worlds.ago(hours=1))


def sick() -> fleet.Cube:
    return stage.sick(builders.cube("c1"))


TROUBLE = {
    "a silent host": worlds.silent("c1"),
    "a host that is not ready": not_ready(),
    "a host with 3 chips": worlds.without_chips("c1"),
    "a lost host": builders.cube("c1", hosts=15),
    "an unhealthy cube": sick(),
    "a degraded link": builders.cube_of("c1", "b1", "worn"),
}
SURE = frozenset(TROUBLE) - {"a silent host"}
"""What the loop itself knows to be broken, or worn."""


def train_on(**changes: object) -> fleet.Slice:
    known = {"created_at": stage.LONG_AGO, "since": stage.LONG_AGO}
    return builders.slice_of("train", SHAPE, *MEMBERS, **(known | changes))


def want(*shapes: str) -> declared.WantedSlice:
    return declared.WantedSlice(name="train", shapes=tuple(map(topology.parse, shapes)))


def cubes_with(bad: fleet.Cube) -> tuple[fleet.Cube, ...]:
    """A slice of eight with a bad one, and two that are free."""
    return bad, *map(builders.cube, MEMBERS[1:]), builders.cube("c9"), builders.cube("c10")


class Answers(NamedTuple):
    """What came of an hour of trouble."""

    asked: repairs.Item | None
    """What a person is asked about, as it was opened first."""
    done: tuple[str, ...]
    """What the loop would do, by the ids of its actions."""


def hour_of(
    bad: fleet.Cube, item: fleet.Slice, wants: declared.WantedSlice, failover: declared.Permission
) -> Answers:
    cubes = cubes_with(bad)
    fleet_spec = stage.spec(wants, remediation=declared.Remediation(failover=failover))
    seen = stage.view(builders.fleet_of(*cubes, slices=(item,)), fleet_spec, memory=stage.memory(item))
    sightings: tuple[repairs.Sighting, ...] = ()
    asked: list[repairs.Item] = []
    done: list[str] = []
    for turn in range(LOOKS):
        world = worlds.world(
            *cubes,
            slices=(item,),
            fleet_spec=worlds.spec(wants, failover=failover),
            at=worlds.NOW + datetime.timedelta(seconds=turn * EVERY_S),
            sightings=sightings,
        )
        review = remediation.review(world, asked)
        asked += review.opened
        sightings = review.sightings
        decision = engine.decide(seen)
        done += stage.lines(decision)
        seen = stage.later(seen, decision, EVERY_S)
    return Answers(asked[0] if asked else None, tuple(sorted(set(done))))


@pytest.mark.parametrize("is_down", [False, True], ids=["running", "down"])
@pytest.mark.parametrize("trouble", TROUBLE)
def test_where_failover_is_allowed_the_loop_does_it_or_a_person_is_asked(
    trouble: str, *, is_down: bool
) -> None:
    item = stage.failed(train_on()) if is_down else train_on()
    found = hour_of(TROUBLE[trouble], item, want(SHAPE), worlds.ALLOW)
    if trouble in SURE:
        assert found.asked is None
        assert found.done
        assert all(name.endswith("/train") for name in found.done)
    else:
        assert found.done == ()
        assert found.asked is not None
        assert (found.asked.case.remedy, found.asked.approvals_needed) == (Remedy.FAILOVER, 1)


@pytest.mark.parametrize("trouble", sorted(SURE))
def test_where_failover_needs_a_person_one_is_asked_and_the_loop_waits(trouble: str) -> None:
    found = hour_of(TROUBLE[trouble], train_on(), want(SHAPE), worlds.RECOMMEND)
    assert found.asked is not None
    assert (found.asked.case.remedy, found.asked.approvals_needed) == (Remedy.FAILOVER, 1)
    assert found.done == ()


def silent_world(**changes: object) -> remediation.World:
    """A host under a slice fell silent; every label is healthy, and failovers are allowed."""
    known: dict[str, object] = {"slices": (train_on(),), "fleet_spec": worlds.spec(want(SHAPE))}
    return worlds.world(*cubes_with(worlds.silent("c1")), **(known | changes))


def test_a_silent_host_proves_nothing_so_a_person_decides_knowing_the_other_way() -> None:
    """Unknown is never a reason to take a slice apart: neither for the loop nor for a repair by itself."""
    item = worlds.opened(silent_world())
    assert item.case.why_person == (
        "cube c1 is unknown, which alone is no reason to take slice train apart; "
        f"whoever rejects it is asked about reboot of host {worlds.name()}"
    )
    hour = silent_world(at=worlds.NOW + datetime.timedelta(hours=1))
    assert remediation.review(hour, [item]).begin == ()
    assert remediation.review(hour, [worlds.approved(item)]).begin == (worlds.approved(item),)


def test_when_the_failover_is_rejected_the_reboot_is_an_item_of_its_own() -> None:
    item = worlds.opened(silent_world())
    no = worlds.rung(Remedy.FAILOVER, State.REJECTED, host="", item=item.id, at=worlds.NOW)
    reboot = worlds.opened(silent_world(rungs=(no,), at=worlds.NOW + datetime.timedelta(minutes=1)))
    assert (reboot.case.remedy, reboot.case.host) == (Remedy.REBOOT, worlds.name())
    assert (reboot.approvals_needed, reboot.case.voluntary) == (1, True)
    assert "failover was rejected" in reboot.case.why_person


def test_after_the_failover_the_host_is_rebooted_with_no_work_on_it() -> None:
    moved = train_on(partition_ids=(*MEMBERS[1:], "c9"))
    reboot = worlds.opened(silent_world(slices=(moved,)))
    assert (reboot.case.remedy, reboot.case.blast.slices) == (Remedy.REBOOT, ())


def test_what_turns_out_to_be_broken_needs_nobody_any_more() -> None:
    item = worlds.opened(silent_world())
    broken = worlds.world(
        *cubes_with(sick()), slices=(train_on(),), fleet_spec=worlds.spec(want(SHAPE)), at=worlds.NOW
    )
    now = worlds.one(broken, item)
    assert (now.state, now.approvals_needed, now.case.why_person) == (State.PROPOSED, 0, "")


@pytest.mark.parametrize(
    ("wants", "why"),
    [
        ((), "the fleet file does not name slice train"),
        ((want("4x8x8"),), "the fleet file wants slice train in another shape"),
    ],
)
def test_a_slice_that_the_loop_does_not_mend_is_a_matter_for_people(
    wants: tuple[declared.WantedSlice, ...], why: str
) -> None:
    world = worlds.world(*cubes_with(sick()), slices=(train_on(),), fleet_spec=worlds.spec(*wants))
    item = worlds.opened(world)
    assert (item.case.remedy, item.approvals_needed) == (Remedy.FAILOVER, 1)
    assert item.case.why_person.startswith(why)


# -- what a failover hits ----------------------------------------------------------------------------------


def case_of(item: fleet.Slice, **changes: object) -> repairs.Case:
    world = worlds.world(*cubes_with(sick()), slices=(item,), fleet_spec=worlds.spec(want(SHAPE)), **changes)
    [case] = worlds.cases(world)
    return case


def test_a_failover_interrupts_the_whole_slice_and_touches_one_cube() -> None:
    pods = (builders.pod("p", worlds.name()),)
    hit = case_of(train_on(), pods=pods).blast
    assert (hit.hosts, hit.chips, hit.interrupted_chips) == (16, 512, 512)
    assert str(hit) == "1 slice, 1 running pod, 16 hosts touched, 512 chips interrupted"


def test_a_failover_of_a_slice_that_is_down_interrupts_nothing() -> None:
    hit = case_of(stage.failed(train_on())).blast
    assert (hit.hosts, hit.interrupted_chips) == (16, 0)
    assert str(hit) == "1 slice, 0 running pods, 16 hosts touched, 0 chips interrupted"


def test_of_a_state_that_nobody_knows_work_may_run() -> None:
    unknown = train_on(state=states.SliceState.UNKNOWN, reason="ODD", ready="Unknown")
    assert case_of(unknown).blast.interrupted_chips == 512


def test_a_reboot_under_a_slice_counts_the_same_and_on_an_idle_host_nothing() -> None:
    off = worlds.spec(want(SHAPE), failover=worlds.OFF)
    [reboot] = worlds.cases(silent_world(fleet_spec=off))
    assert (reboot.blast.hosts, reboot.blast.interrupted_chips) == (1, 512)
    [reboot] = worlds.cases(silent_world(fleet_spec=off, slices=(stage.failed(train_on()),)))
    assert (reboot.blast.hosts, reboot.blast.interrupted_chips) == (1, 0)
    [idle] = worlds.cases(worlds.world(worlds.silent()))
    assert (idle.blast.chips, idle.blast.interrupted_chips) == (4, 0)
    assert str(idle.blast) == "0 slices, 0 running pods, 1 host, 4 chips"


def test_a_yes_for_a_slice_that_was_down_does_not_cover_one_that_runs() -> None:
    fleet_spec = worlds.spec(want(SHAPE), failover=worlds.RECOMMEND)
    down = worlds.world(*cubes_with(sick()), slices=(stage.failed(train_on()),), fleet_spec=fleet_spec)
    item = worlds.approved(worlds.opened(down))
    up = dataclasses.replace(
        down,
        snapshot=dataclasses.replace(
            down.snapshot, slices=(train_on(),), observed_at=worlds.NOW + datetime.timedelta(hours=20)
        ),
    )
    again = worlds.one(up, item)
    assert (again.state, again.approvals, again.case.blast.chips) == (State.PROPOSED, (), 512)
    assert "512 chips interrupted" in again.note
    # Whoever is asked again has as long to answer as the first time.
    assert again.expires_at == up.now + datetime.timedelta(days=1)
