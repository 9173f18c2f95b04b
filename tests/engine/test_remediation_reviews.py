"""Open items are judged against the present first; what begins is what is still right, within the limits."""

import dataclasses
import datetime
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import builders
from tests.engine import remediation_worlds as worlds
from tpuctl.engine import remediation
from tpuctl.engine.remediation import progress
from tpuctl.model import declared, operations, repairs, states

Remedy, State, Step = worlds.Remedy, worlds.State, repairs.Step
NOW = worlds.NOW
ago, approved, name, one, opened, rung, running, silent, world = (
    worlds.ago,
    worlds.approved,
    worlds.name,
    worlds.one,
    worlds.opened,
    worlds.rung,
    worlds.running,
    worlds.silent,
    worlds.world,
)
MINUTE, HOUR, DAY = (datetime.timedelta(**{unit: 1}) for unit in ("minutes", "hours", "days"))


def later(span: datetime.timedelta, *cubes: object, **settings_: object) -> remediation.World:
    return world(*(cubes or (silent(),)), at=NOW + span, **settings_)


# -- proposing ---------------------------------------------------------------------------------------------


def test_a_fault_is_proposed_once_and_stays_as_it_is() -> None:
    item = opened(world(silent()))
    assert (item.state, item.approvals_needed, item.expires_at) == (State.PROPOSED, 1, NOW + DAY)
    assert {proof.origin for proof in item.case.evidence} == {"node", "VM"}
    again = remediation.review(later(5 * MINUTE), [item])
    assert (again.opened, again.changed, again.begin) == ((), (), ())


def test_the_same_world_gives_the_same_answer() -> None:
    assert remediation.review(world(silent()), []) == remediation.review(world(silent()), [])


def test_two_hosts_of_a_cube_have_an_item_each_and_one_begins_at_a_time() -> None:
    cube = builders.changed(silent(), 9, ready=None, ready_since=ago(hours=2))
    first, second = remediation.review(world(cube), []).opened
    assert {first.case.host, second.case.host} == {name(index=3), name(index=9)}
    found = remediation.review(later(MINUTE, cube), [approved(first), approved(second)])
    [began] = found.begin
    [(waits, why)] = found.waiting
    assert {began.id, waits} == {first.id, second.id}
    assert "of the same cube is under way" in why
    in_repair = running(first, Step.REPORTED)
    assert [
        item.id for item in remediation.review(later(MINUTE, cube), [in_repair, approved(second)]).begin
    ] == [second.id]


@pytest.mark.parametrize(
    ("policy", "mode", "needed"),
    [
        ({}, declared.Mode.ACT, 1),
        ({"reboot": worlds.ALLOW}, declared.Mode.ACT, 0),
        ({"reboot": worlds.ALLOW}, declared.Mode.RECOMMEND, 1),
    ],
)
def test_how_many_people_must_say_yes(policy: dict, mode: declared.Mode, needed: int) -> None:
    found = world(silent(), mode=mode, fleet_spec=worlds.spec(**policy))
    assert opened(found).approvals_needed == needed


def test_a_report_needs_two_people_if_the_fleet_file_says_so_even_where_it_is_allowed() -> None:
    tried = (rung(Remedy.REBOOT, item="a"), rung(Remedy.REBOOT, item="b"))
    fleet_spec = worlds.spec(remove=worlds.ALLOW, second_approver=True)
    item = opened(world(silent(), rungs=tried, fleet_spec=fleet_spec))
    assert (item.case.remedy, item.approvals_needed) == (Remedy.REMOVE, 2)
    assert len(item.previous) == 2
    twice = (repairs.Approval("jo", NOW), repairs.Approval("jo", NOW))
    assert dataclasses.replace(item, approvals=twice).approvals_missing == 1


# -- what becomes of proposals -----------------------------------------------------------------------------


def test_known_fault_60_a_fault_that_clears_withdraws_what_was_approved() -> None:
    """draino#50: the drain happened although the condition had cleared."""
    item = approved(opened(world(silent())))
    found = remediation.review(later(HOUR, builders.cube("c1")), [item])
    assert found.begin == ()
    [over] = found.changed
    assert (over.state, over.note, over.ended_at) == (State.WITHDRAWN, "the fault has cleared", NOW + HOUR)


@pytest.mark.parametrize("index", [3, 11])
def test_known_fault_60_an_admin_who_cordons_or_uncordons_cancels(index: int) -> None:
    """draino#17: an admin had uncordoned the node meanwhile."""
    plain = approved(opened(world(silent())))
    cordoned = builders.changed(silent(), index, schedulable=False)
    over = one(later(MINUTE, cordoned), plain)
    assert (over.state, "an admin is at work there" in over.note) == (State.CANCELLED, True)
    asked = opened(world(cordoned))
    assert "somebody has cordoned" in asked.case.why_person
    assert one(later(MINUTE, silent()), approved(asked)).state is State.CANCELLED


def test_known_fault_64_a_target_that_is_gone_ends_the_item() -> None:
    """NVSentinel#1387: endless retries for a deleted node."""
    item = approved(opened(world(silent())))
    replaced = builders.changed(silent(), 3, uid="another")
    without = dataclasses.replace(silent(), hosts=silent().hosts[:3])
    for cubes in ((builders.cube("c2"),), (without,), (replaced,)):
        found = remediation.review(later(MINUTE, *cubes), [item])
        assert (found.changed[0].state, found.begin) == (State.CANCELLED, ())
        assert "target absent" in found.changed[0].note
    begun = running(item, Step.RESET)
    assert "target absent" in one(later(MINUTE, builders.cube("c2")), begun).note


def test_known_fault_65_after_a_pause_of_days_only_the_present_counts() -> None:
    """NVSentinel#450: a backlog of old events was acted on."""
    allowed = worlds.spec(reboot=worlds.ALLOW)
    items = [
        opened(world(silent())),
        approved(opened(world(silent("c2")))),
        approved(opened(world(silent("c3")))),
    ]
    after = later(3 * DAY, silent(), builders.cube("c2"), silent("c3"), fleet_spec=allowed)
    found = remediation.review(after, items)
    assert found.begin == ()
    assert {item.case.cube: item.state for item in found.changed} == {
        "c1": State.EXPIRED,
        "c2": State.EXPIRED,
        "c3": State.EXPIRED,
    }
    assert found.opened == ()


def test_what_nobody_answers_expires() -> None:
    item = opened(world(silent()))
    assert one(later(DAY - MINUTE), item) == item
    over = one(later(DAY), item)
    assert (over.state, "nobody answered" in over.note) == (State.EXPIRED, True)


def test_what_gets_worse_is_escalated_in_place_and_asks_again() -> None:
    item = approved(opened(world(silent())))
    tried = (rung(Remedy.REBOOT, item="a"), rung(Remedy.REBOOT, item="b"))
    worse = one(later(HOUR, rungs=tried), item)
    assert (worse.id, worse.case.remedy, worse.state) == (item.id, Remedy.REMOVE, State.PROPOSED)
    assert (worse.approvals, worse.expires_at) == ((), NOW + HOUR + DAY)
    assert [(one_.remedy, one_.state) for one_ in worse.previous] == [(Remedy.REBOOT, State.ESCALATED)]


def test_a_slice_that_comes_to_lie_there_turns_the_reboot_into_a_failover() -> None:
    item = opened(world(silent()))
    train = builders.slice_of("train", "4x4x4", "c1")
    cubes = (silent(), builders.cube("c2"))
    asked = worlds.spec(failover=worlds.RECOMMEND)
    now = one(later(HOUR, *cubes, slices=(train,), fleet_spec=asked), item)
    assert (now.id, now.case.remedy, now.case.slice) == (item.id, Remedy.FAILOVER, "train")
    back = one(later(2 * HOUR, *cubes), now)
    assert (back.state, "now rather: reboot" in back.note) == (State.WITHDRAWN, True)


def test_a_yes_does_not_cover_more_than_was_shown() -> None:
    item = approved(opened(world(silent())))
    pods = (builders.pod("p", name()),)
    asked = one(later(MINUTE, pods=pods), item)
    assert (asked.state, asked.approvals, asked.case.blast.pods) == (State.PROPOSED, (), 1)
    assert "approved again" in asked.note


def test_known_fault_70_what_is_not_known_waits_and_never_begins() -> None:
    """NVSentinel#919: a failed lookup was read as 'drained'."""
    item = approved(opened(world(silent())))
    for vms in ({}, {name(): "ODD"}):
        found = remediation.review(later(MINUTE, vms=vms), [item])
        assert (found.begin, found.changed) == ((), ())
        assert "not known" in found.waiting[0][1]


def test_a_repair_that_somebody_else_began_withdraws() -> None:
    item = approved(opened(world(silent())))
    over = one(later(MINUTE, vms={name(): "REPAIRING"}), item)
    assert (over.state, "worked on" in over.note) == (State.WITHDRAWN, True)


def test_an_operation_on_the_cube_is_waited_for() -> None:
    item = approved(opened(world(silent())))
    claim = operations.Claim("c1", "operation swap-train of jo", "train")
    found = remediation.review(later(MINUTE, claims=(claim,)), [item])
    assert (found.begin, found.changed) == ((), ())


# -- beginning ---------------------------------------------------------------------------------------------


def test_what_is_allowed_begins_only_when_it_is_seen_again() -> None:
    allowed = worlds.spec(reboot=worlds.ALLOW)
    item = opened(world(silent(), fleet_spec=allowed))
    early = remediation.review(later(MINUTE, fleet_spec=allowed), [item])
    assert (early.begin, early.waiting) == ((), ((item.id, "it has to be seen again first"),))
    assert remediation.review(later(2 * MINUTE, fleet_spec=allowed), [item]).begin == (item,)
    looking = later(2 * MINUTE, fleet_spec=allowed, mode=declared.Mode.OBSERVE)
    assert remediation.review(looking, [item]).begin == ()


def test_what_interrupts_work_waits_for_a_window() -> None:
    night = declared.Window(name="night", days=(*declared.Weekday,), start_minute=0, length_s=3600.0)
    fleet_spec = worlds.spec(windows=(night,), failover=worlds.OFF)
    train = builders.slice_of("train", "4x4x4", "c1")
    item = approved(opened(world(silent(), slices=(train,), fleet_spec=fleet_spec)))
    by_day = remediation.review(later(MINUTE, slices=(train,), fleet_spec=fleet_spec), [item])
    assert "no maintenance window is open" in by_day.waiting[0][1]
    by_night = later(16 * HOUR + MINUTE, slices=(train,), fleet_spec=fleet_spec)
    assert remediation.review(by_night, [item]).begin == (item,)


def test_known_fault_73_the_budget_counts_cubes_in_repair_from_the_items_themselves() -> None:
    """medik8s NHC#238 and NVSentinel#753 (68): counts come from what is, not from a counter."""
    cubes = [silent(f"c{index}") for index in range(6)]
    limited = worlds.spec(budgets=declared.Budgets(cubes_in_repair_per_block=2))
    items = [approved(item) for item in remediation.review(world(*cubes), []).opened]
    assert len(items) == 6
    first = remediation.review(later(MINUTE, *cubes, fleet_spec=limited), items)
    assert len(first.begin) == 2
    assert {why for _, why in first.waiting} == {"repair budget: 2 of 2 cubes of block b1 are in repair"}
    under_way = [running(item, Step.RESET) if item in first.begin else item for item in items]
    second = remediation.review(later(2 * MINUTE, *cubes, fleet_spec=limited), under_way)
    assert (second.begin, len(second.waiting)) == ((), 4)
    assert second.repairing == {item.case.cube for item in items}
    less = [item for item in under_way if item.id != first.begin[0].id]
    assert len(remediation.review(later(2 * MINUTE, *cubes, fleet_spec=limited), less).begin) == 1


def test_known_fault_73_no_new_repair_before_the_last_one_has_cooled() -> None:
    tried = (rung(Remedy.REBOOT, State.FAILED, at=ago(minutes=10)),)
    found = remediation.review(world(silent(), rungs=tried), [])
    assert (found.opened, found.repairing) == ((), {"c1"})
    assert "left alone until" in found.told[0]


def test_known_fault_63_a_fault_during_a_repair_is_looked_at_again_after_it() -> None:
    """NVSentinel#1536: the second fault was dropped and never looked at again."""
    first = running(opened(world(silent())), Step.RESET, due_at=NOW + HOUR)
    second = builders.changed(builders.cube("c1"), 3, chips=0)
    during = remediation.review(later(10 * MINUTE, second), [first])
    assert (during.opened, during.changed) == ((), ())
    over = one(later(HOUR, second), first)
    assert over.state is State.FAILED
    ledger = (over.rung(over.state, NOW + HOUR),)
    after = later(2 * HOUR, second, rungs=ledger)
    assert (opened(after).case.ailment, opened(after).case.attempt) == (repairs.Ailment.CHIPS_MISSING, 2)


def test_a_fault_on_another_host_of_the_cube_is_proposed_beside_the_repair() -> None:
    first = running(opened(world(silent())), Step.RESET, due_at=NOW + HOUR)
    both = builders.changed(silent(), 9, chips=0)
    [second] = remediation.review(later(10 * MINUTE, both), [first]).opened
    assert second.case.host == name(index=9)


# -- what runs ---------------------------------------------------------------------------------------------


def test_a_reboot_is_done_when_the_host_is_well_and_stays_so() -> None:
    item = running(opened(world(silent())), Step.RESET, due_at=NOW + 20 * MINUTE)
    up = builders.changed(builders.cube("c1"), 3, ready_since=NOW + 5 * MINUTE)
    assert one(later(6 * MINUTE, up), item) == item
    over = one(later(8 * MINUTE, up), item)
    assert over.state is State.DONE
    assert one(later(19 * MINUTE), item) == item
    late = one(later(20 * MINUTE), item)
    assert (late.state, "did not help in time" in late.note) == (State.FAILED, True)


def test_a_view_from_before_the_act_says_nothing_about_it() -> None:
    item = running(opened(world(silent())), Step.RESET, due_at=NOW)
    assert one(world(builders.cube("c1"), at=NOW - MINUTE), item) == item


def reported() -> repairs.Item:
    tried = (rung(Remedy.REBOOT, item="a"), rung(Remedy.REBOOT, item="b"))
    item = opened(world(worlds.with_pool(worlds.without_chips()), rungs=tried))
    assert item.case.remedy is Remedy.REMOVE
    return running(item, Step.REPORTED, operation="op-1")


def repaired(**changes: object) -> object:
    cube = worlds.with_pool(builders.cube("c1"))
    return builders.changed(cube, 3, **{"ready_since": NOW + 5 * DAY, **changes})


DONE, REMOTE_RUNNING = (
    remediation.Signs(remote=progress.Remote.DONE),
    remediation.Signs(remote=progress.Remote.RUNNING),
)


def test_a_report_is_done_on_evidence_of_repair_alone() -> None:
    item = reported()
    assert one(later(5 * DAY + HOUR, repaired()), item, DONE).state is State.DONE
    assert one(later(5 * DAY + HOUR, repaired()), item).state is State.DONE
    no_evidence = [
        (repaired(), REMOTE_RUNNING, None),
        (repaired(chips=3), DONE, None),
        (repaired(ready=None), DONE, None),
        (repaired(ready_since=ago(days=1)), DONE, None),
        (repaired(ready_since=NOW + 5 * DAY + HOUR), DONE, None),
        (repaired(), DONE, {}),
        (repaired(), DONE, {name(): "REPAIRING"}),
        (worlds.with_pool(builders.cube("c1"), healthy=15), DONE, None),
    ]
    for cube, signs, vms in no_evidence:
        assert one(later(5 * DAY + HOUR, cube, vms=vms), item, signs) == item


def test_a_report_that_failed_fails_and_one_that_lasts_is_called_overdue() -> None:
    failed = remediation.Signs(remote=progress.Remote.FAILED, error="the VM was deleted")
    over = one(later(HOUR, worlds.with_pool(worlds.without_chips())), reported(), failed)
    assert (over.state, over.note) == (State.FAILED, "the report failed: the VM was deleted")
    waiting = later(15 * DAY, worlds.with_pool(worlds.without_chips()))
    overdue = one(waiting, reported())
    assert (overdue.state, overdue.note.startswith("overdue since")) == (State.RUNNING, True)
    assert "overdue" in remediation.review(waiting, [overdue]).stuck[0]


def test_a_failover_is_done_when_the_slice_is_ready_without_the_cube() -> None:
    asked = worlds.spec(failover=worlds.RECOMMEND)
    train = builders.slice_of("train", "4x4x4", "c1")
    cubes = (silent(), builders.cube("c2"))
    item = opened(world(*cubes, slices=(train,), fleet_spec=asked))
    begun = running(item, Step.SWAPPING, due_at=NOW + HOUR)
    moved = builders.slice_of("train", "4x4x4", "c2")
    busy = remediation.Signs(operation_open=True)
    assert one(later(MINUTE, *cubes, slices=(moved,)), begun, busy) == begun
    assert one(later(MINUTE, *cubes, slices=(moved,)), begun).state is State.DONE
    forming = moved._replace(state=states.SliceState.ACTIVATING, ready="False")
    assert one(later(MINUTE, *cubes, slices=(forming,)), begun) == begun
    assert one(later(MINUTE, *cubes), begun).state is State.CANCELLED
    assert one(later(HOUR, *cubes, slices=(train,)), begun).state is State.FAILED


def test_a_pool_is_made_again_when_new_hosts_are_there_and_ready() -> None:
    cube = worlds.with_pool(builders.cube("c1", hosts=14))
    seen = (repairs.Sighting("pool-short", "pool-c1", ago(hours=30)),)
    item = opened(world(cube, sightings=seen))
    assert item.case.remedy is Remedy.REPROVISION
    begun = running(item, Step.DELETED, due_at=NOW + 2 * HOUR)
    empty = dataclasses.replace(worlds.with_pool(builders.cube("c1")), id="sub-c1", hosts=(), pool=None)
    assert one(later(HOUR, empty), begun) == begun
    new = builders.cube("c1").hosts
    fresh = tuple(host._replace(created_at=NOW + HOUR, uid=f"new-{host.name}") for host in new)
    whole = dataclasses.replace(worlds.with_pool(builders.cube("c1")), hosts=fresh)
    assert one(later(90 * MINUTE, whole), begun).state is State.DONE
    assert one(later(90 * MINUTE, worlds.with_pool(builders.cube("c1"))), begun) == begun
    assert one(later(2 * HOUR, empty), begun).state is State.FAILED
    assert "target absent" in one(later(HOUR, builders.cube("c9")), begun).note


def test_known_fault_67_a_healthy_cube_that_stays_out_of_use_is_told_in_every_report() -> None:
    """NVSentinel#1854: cordoned for ever though healthy, because a wake-up was lost."""
    cordoned = builders.changed(builders.cube("c1"), 3, schedulable=False)
    first = remediation.review(world(cordoned), [])
    assert first.stuck == ()
    [seen] = first.sightings
    assert (seen.kind, seen.subject) == ("kept-away", "c1")
    day_later = later(DAY, cordoned, sightings=first.sightings)
    assert "cube c1 is healthy and out of use since" in remediation.review(day_later, []).stuck[0]
    hold = operations.Claim("c2", "hold by jo: burn-in")
    held = later(DAY, builders.cube("c2"), claims=(hold,), sightings=(seen._replace(subject="c2"),))
    assert "hold by jo: burn-in" in remediation.review(held, []).stuck[0]
    sick = later(DAY, builders.changed(cordoned, 3, ready=False), sightings=first.sightings)
    assert remediation.review(sick, []).stuck == ()


# -- whatever happens --------------------------------------------------------------------------------------

WEATHER = st.lists(
    st.sampled_from(["well", "silent", "chips", "unknown", "repair", "gone", "cordon"]),
    min_size=1,
    max_size=25,
)


def cube_in(weather: str) -> tuple[list, dict[str, str] | None]:
    kinds = {
        "well": builders.cube("c1"),
        "silent": silent(since=ago(days=1)),
        "chips": worlds.without_chips(),
        "unknown": builders.changed(builders.cube("c1"), 3, chips=None),
        "repair": silent(since=ago(days=1)),
        "gone": builders.cube("c2"),
        "cordon": builders.changed(silent(since=ago(days=1)), 3, schedulable=False),
    }
    return [kinds[weather]], {name(): "REPAIRING"} if weather == "repair" else None


@settings(max_examples=150, deadline=None)
@given(weather=WEATHER, attempts=st.integers(1, 3))
def test_limits_hold_in_any_weather(weather: list[str], attempts: int) -> None:
    """Everything allowed, every act fails or helps by chance: attempts, cooldown and certainty hold."""
    fleet_spec = worlds.spec(reboot=worlds.ALLOW, remove=worlds.ALLOW, attempts=attempts)
    items: list[repairs.Item] = []
    rungs: list[repairs.Rung] = []
    for turn, kind in enumerate(weather):
        cubes, vms = cube_in(kind)
        now = later(turn * 20 * MINUTE, *cubes, vms=vms, rungs=tuple(rungs), fleet_spec=fleet_spec)
        found = remediation.review(now, items)
        assert not (found.begin and kind in ("well", "unknown", "repair", "gone"))
        changed = {item.id: item for item in found.changed}
        items = [changed.get(item.id, item) for item in items]
        for item in found.begin:
            due = now.now + 15 * MINUTE
            step = Step.RESET if item.case.remedy is Remedy.REBOOT else Step.REPORTED
            items = [running(one_, step, due_at=due) if one_.id == item.id else one_ for one_ in items]
        rungs += [item.rung(item.state, item.ended_at) for item in items if not item.is_open]
        items = [item for item in items if item.is_open] + list(found.opened)
        assert len({item.case.key for item in items}) == len(items)
    carried = [rung_ for rung_ in rungs if rung_.counts and rung_.remedy is Remedy.REBOOT]
    assert len(carried) <= attempts
    ends = sorted(rung_.at for rung_ in rungs if rung_.counts)
    assert all((after - before).total_seconds() >= 1800 for before, after in itertools.pairwise(ends))
