"""Repairs on the simulator, in virtual time: propose, ask, look again, act once, see what came of it."""

import dataclasses
import json

import pytest

from tests.engine import remediation_worlds as worlds
from tests.ops import repair_scenes as scenes
from tests.ops import test_swapping as swaps
from tests.ops.conftest import Recorder, scene_of, whole
from tpuctl.cli.rehearsal import Rehearsal
from tpuctl.model import declared, errors, fleet, records, repairs, states
from tpuctl.ops import fault_reports, holding, journal, pool_deletion
from tpuctl.ops import repairs as ops
from tpuctl.ops.reconciling import pauses
from tpuctl.ops.repairs import looking, registry

Loop, Remedy, State, Step = scenes.Loop, declared.Remedy, repairs.State, repairs.Step
ALLOW = scenes.ALLOW


def loop_of(scene: Rehearsal, **policy: object) -> Loop:
    return Loop(scene, scenes.spec_of(scene, **policy))


def proposal(scene: Rehearsal, loop: Loop, fault: str = "host-crash", **place: int) -> repairs.Item:
    """A fault, and the item that is proposed against it."""
    scene.simulator.inject(fault, scenes.host_of(scene, **place).name)
    [item] = loop.until(scenes.proposed).opened
    return item


def yes(scene: Rehearsal, item: repairs.Item, name: str = "jo@example.com") -> ops.Answer:
    return ops.approve(scenes.as_person(scene.ports, name), Recorder(), item.id)


def me(scene: Rehearsal) -> str:
    return scene.ports.identity.actor().rpartition("@")[0]


def removal(scene: Rehearsal, loop: Loop) -> repairs.Item:
    """A chip error that two reboots did not cure: the report that is proposed then."""
    scene.simulator.inject("chip-error", scenes.host_of(scene).name)
    review = loop.until(
        lambda review: any(item.case.remedy is Remedy.REMOVE for item in review.opened), every_s=300.0
    )
    [item] = review.opened
    return item


# -- a quiet fleet -----------------------------------------------------------------------------------------


def test_nothing_is_written_while_nothing_is_wrong(scene: Rehearsal) -> None:
    loop = loop_of(scene, reboot=ALLOW)
    before = scene.simulator.call(lambda: scene.simulator.world.store.revision)
    for _ in range(3):
        assert loop.cycle() == ops.Review()
    assert scene.simulator.call(lambda: scene.simulator.world.store.revision) == before


def test_a_loop_that_only_looks_tells_and_writes_nothing(scene: Rehearsal) -> None:
    loop = loop_of(scene, reboot=ALLOW)
    loop.mode = scenes.OBSERVE
    scene.simulator.inject("host-crash", scenes.host_of(scene).name)
    review = loop.until(scenes.proposed)
    assert [item.case.remedy for item in review.items] == [Remedy.REBOOT]
    assert (loop.items, loop.closed, loop.hooks.told) == ([], [], [])
    assert scene.ports.records.get(registry.LEDGER) is None


def test_a_view_without_one_of_its_sources_is_refused(scene: Rehearsal) -> None:
    loop = loop_of(scene)
    view = scene.ports.fleet.observe([fleet.SourceName.NODES])
    seen = dataclasses.make_dataclass("Seen", ["snapshot", "spec", "policy", "mode"])
    with pytest.raises(errors.Unavailable, match="without slices, pods"):
        ops.review(scene.ports, loop.reporter, seen(view, loop.spec, None, scenes.ACT), None)


# -- reboot ------------------------------------------------------------------------------------------------


def test_a_hung_host_is_proposed_told_approved_reset_and_well_again(scene: Rehearsal) -> None:
    loop = loop_of(scene)
    host = scenes.host_of(scene)
    item = proposal(scene, loop)
    assert (item.case.remedy, item.case.host, item.approvals_needed) == (Remedy.REBOOT, host.name, 1)
    [(event, facts)] = loop.hooks.told
    assert (event, facts["repair"], facts["remedy"]) == ("repair-recommended", item.id, "reboot")
    assert loop.run(scenes.HOUR_S, every_s=300.0).executed == ()
    assert scenes.resets(scene, host) == 0
    answer = yes(scene, item)
    assert (answer.changed, answer.item.state) == (True, State.APPROVED)
    assert [approval.by for approval in answer.item.approvals] == ["jo@example.com"]
    [done] = loop.cycle().executed
    assert (done.item.id, done.chips) == (item.id, 0)
    assert loop.items[0].step is Step.RESET
    assert any(claim.holder.startswith(f"repair {item.id}") for claim in whole(scene).claims)
    review = loop.until(scenes.closed)
    assert [(one.state, one.id) for one in review.closed] == [(State.DONE, item.id)]
    assert item.case.cube in review.repairing
    assert scenes.resets(scene, host) == 1
    assert scenes.host_of(scene).ready is True
    assert (loop.items, whole(scene).claims, scene.ports.leases.list()) == ([], (), [])
    assert len(loop.hooks.told) == 1


def test_what_is_allowed_needs_nobody_and_does_not_happen_twice(scene: Rehearsal) -> None:
    loop = loop_of(scene, reboot=ALLOW)
    host = scenes.host_of(scene)
    proposal(scene, loop)
    assert loop.until(scenes.closed).closed[0].state is State.DONE
    loop.run(scenes.HOUR_S, every_s=300.0)
    assert scenes.resets(scene, host) == 1


def test_known_fault_60_a_fault_that_clears_before_the_act_withdraws_the_approved(scene: Rehearsal) -> None:
    """draino#116: no second look before acting."""
    loop = loop_of(scene)
    host = scenes.host_of(scene)
    item = proposal(scene, loop)
    yes(scene, item)
    scene.simulator.inject("host-up", host.name)
    scene.simulator.advance(200)
    review = loop.cycle()
    assert [(one.state, one.note) for one in review.closed] == [(State.WITHDRAWN, "the fault has cleared")]
    assert scenes.resets(scene, host) == 0
    assert any("withdrawn: the fault has cleared" in step for step in loop.reporter.steps)


def test_known_fault_60_the_last_look_is_right_before_the_act(
    scene: Rehearsal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The view of the cycle still shows the fault; the world does not."""
    loop = loop_of(scene)
    host = scenes.host_of(scene)
    item = proposal(scene, loop)
    yes(scene, item)
    stale = whole(scene)
    scene.simulator.inject("host-up", host.name)
    scene.simulator.advance(200)
    monkeypatch.setattr("tests.ops.repair_scenes.whole", lambda _scene: stale)
    assert [one.state for one in loop.cycle().closed] == [State.WITHDRAWN]
    assert scenes.resets(scene, host) == 0


def test_known_fault_55_a_vm_that_stopped_since_the_yes_is_not_reset(scene: Rehearsal) -> None:
    """report-host-as-faulty limits: only a running VM, and the rule is said."""

    class Stopped:
        def __init__(self, inner: object, after: int) -> None:
            self._inner, self._left = inner, after

        def get(self, provider_id: str) -> object:
            self._left -= 1
            found = self._inner.get(provider_id)
            return found if self._left >= 0 else found._replace(status="TERMINATED")

        def __getattr__(self, name: str) -> object:
            return getattr(self._inner, name)

    loop = loop_of(scene)
    host = scenes.host_of(scene)
    item = proposal(scene, loop)
    yes(scene, item)
    # The review and the last look see it run; only the act itself finds it stopped.
    loop.ports = dataclasses.replace(scene.ports, instances=Stopped(scene.ports.instances, 2))
    [over] = loop.cycle().closed
    assert (over.state, "only a running VM can be reset" in over.note) == (State.CANCELLED, True)
    assert scenes.resets(scene, host) == 0


def test_a_reboot_that_does_not_help_fails_and_the_next_rung_comes(scene: Rehearsal) -> None:
    loop = loop_of(scene, reboot=ALLOW)
    host = scenes.host_of(scene)
    item = removal(scene, loop)
    assert scenes.resets(scene, host) == 2
    failed = [one for one in loop.closed if one.case.remedy is Remedy.REBOOT]
    assert [one.state for one in failed] == [State.FAILED, State.FAILED]
    assert (item.case.behavior, item.case.attempt, len(item.previous)) == ("CHIP_ERROR", 1, 2)
    starts = [one.started_at for one in failed]
    ends = [one.ended_at for one in failed]
    assert (starts[1] - ends[0]).total_seconds() >= 1800


def test_known_fault_69_cancel_stops_before_the_next_step_and_says_what_was_done(scene: Rehearsal) -> None:
    """NVSentinel#141: an override did not stop the later steps."""
    loop = loop_of(scene)
    host = scenes.host_of(scene)
    item = proposal(scene, loop)
    yes(scene, item)
    answer = ops.cancel(scene.ports, Recorder(), item.id, reason="needed for a test")
    assert answer.item.note == "needed for a test (nothing was done to it yet)"
    assert (answer.item.state, answer.item.ended_by) == (State.CANCELLED, me(scene))
    loop.cycle()
    assert (scenes.resets(scene, host), loop.items) == (0, [])
    again = loop.run(2400.0, every_s=300.0)
    [second] = again.items
    yes(scene, second)
    loop.cycle()
    stopped = ops.cancel(scene.ports, Recorder(), second.id, reason="enough").item
    assert "the VM was reset, which cannot be undone" in stopped.note
    with pytest.raises(errors.Conflict, match="is cancelled by"):
        yes(scene, second)


def test_known_fault_64_a_pool_that_is_deleted_ends_the_item_and_all_calls(scene: Rehearsal) -> None:
    loop = loop_of(scene)
    item = proposal(scene, loop)
    yes(scene, item)
    pools = pool_deletion.prepare(scene.ports, [item.case.pool])
    pool_deletion.execute(scene.ports, Recorder(), pools)
    [over] = loop.cycle().closed
    assert (over.state, "target absent" in over.note) == (State.CANCELLED, True)
    asked: list[str] = []

    class Counting:
        def get(self, provider_id: str) -> None:
            asked.append(provider_id)

    loop.ports = dataclasses.replace(scene.ports, instances=Counting())
    loop.run(600)
    assert (asked, loop.items) == ([], [])


def test_known_fault_65_a_pause_of_three_days_leaves_nothing_to_act_on(scene: Rehearsal) -> None:
    loop = loop_of(scene, reboot=ALLOW)
    gone, stays = scenes.host_of(scene, cube=1), scenes.host_of(scene, cube=2)
    loop.mode = declared.Mode.RECOMMEND
    for host in (gone, stays):
        scene.simulator.inject("host-crash", host.name)
    items = loop.until(lambda review: len(review.items) == 2).items
    for item in items:
        yes(scene, item)
    scene.simulator.advance(1.5 * scenes.DAY_S)
    scene.simulator.inject("host-up", gone.name)
    scene.simulator.advance(1.5 * scenes.DAY_S)
    loop.mode = scenes.ACT
    review = loop.cycle()
    assert {one.state for one in review.closed} == {State.EXPIRED}
    assert review.executed == ()
    loop.until(scenes.closed)
    assert (scenes.resets(scene, gone), scenes.resets(scene, stays)) == (0, 1)


def test_a_pause_between_review_and_act_is_honoured(scene: Rehearsal) -> None:
    loop = loop_of(scene)
    host = scenes.host_of(scene)
    item = proposal(scene, loop)
    yes(scene, item)
    pauses.pause(scene.ports, reason="freeze")
    review = loop.cycle()
    assert "paused" in review.waiting[0][1]
    assert scenes.resets(scene, host) == 0
    pauses.resume(scene.ports)
    loop.against = "the breaker has tripped"
    assert loop.cycle().waiting == ((item.id, "the breaker has tripped"),)
    assert (scenes.resets(scene, host), loop.items[0].state) == (0, State.APPROVED)


def test_a_question_without_an_answer_leaves_it_unknown(scene: Rehearsal) -> None:
    """Known fault 70: an error under a lookup is no state."""

    class Failing:
        def get(self, _provider_id: str) -> None:
            raise errors.Unavailable("cannot read VM")

        def __getattr__(self, name: str) -> object:
            raise AssertionError(name)

    loop = loop_of(scene, reboot=ALLOW)
    loop.ports = dataclasses.replace(scene.ports, instances=Failing())
    scene.simulator.inject("host-crash", scenes.host_of(scene).name)
    review = loop.run(scenes.HOUR_S, every_s=300.0)
    assert (review.items, review.executed) == ((), ())
    assert "is not known" in review.told[0]


def test_a_silent_network_is_not_asked_about_host_by_host(
    scene: Rehearsal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "ASKED_AT_MOST", 2)
    hosts = whole(scene).cubes[0].hosts[:5]
    found = looking.at_vms(scene.ports, reporter := Recorder(), hosts)
    assert (len(found), "do not report at once" in reporter.warnings[0]) == (2, True)


# -- remove ------------------------------------------------------------------------------------------------


def test_known_fault_55_a_removed_host_is_reported_held_and_released_on_evidence(scene: Rehearsal) -> None:
    """report-host-as-faulty limits: the VM is down for days, and the cube is out until it is repaired."""
    loop = loop_of(scene, reboot=ALLOW, second_approver=True)
    host = scenes.host_of(scene)
    item = removal(scene, loop)
    assert item.approvals_needed == 2
    assert not item.case.why_person
    first = yes(scene, item, "jo@example.com")
    assert (first.item.state, first.item.approvals_missing) == (State.PROPOSED, 1)
    with pytest.raises(errors.GuardStopped, match=r"approved repair \S+ already"):
        yes(scene, item, "jo@example.com")
    loop.cycle()
    assert scenes.reports(scene, host) == 0
    assert yes(scene, item, "jo@example.org").item.state is State.APPROVED
    [done] = loop.cycle().executed
    assert "3 to 14 days" in done.text
    held = {claim.cube_id: claim.holder for claim in whole(scene).claims}
    assert held.keys() == {item.case.cube, item.case.sub_block}
    assert all("in repair: " in holder and "tpuctl repair list" in holder for holder in held.values())
    loop.run(2 * scenes.DAY_S, every_s=12 * scenes.HOUR_S)
    [waiting] = loop.items
    assert (waiting.state, waiting.step) == (State.RUNNING, Step.REPORTED)
    assert {claim.cube_id: claim.holder for claim in whole(scene).claims} == held
    [over] = loop.until(scenes.closed, for_s=20 * scenes.DAY_S, every_s=6 * scenes.HOUR_S).closed
    assert (over.state, "no source says otherwise" in over.note) == (State.DONE, True)
    assert 4.5 * scenes.DAY_S < (over.ended_at - over.started_at).total_seconds() < 6 * scenes.DAY_S
    assert (whole(scene).claims, scenes.reports(scene, host)) == ((), 1)
    assert loop.run(scenes.HOUR_S, every_s=300.0).stuck == ()


def test_known_fault_55_a_report_is_refused_while_another_runs(scene: Rehearsal) -> None:
    loop = loop_of(scene, reboot=ALLOW)
    host = scenes.host_of(scene)
    item = removal(scene, loop)
    yes(scene, item)
    prepared = fault_reports.prepare(
        scene.ports,
        host.name,
        behavior=fault_reports.Behavior.CHIP_ERROR,
        reason="by hand",
        disruption=fault_reports.Disruption.IMMEDIATE,
    )
    fault_reports.execute(scene.ports, Recorder(), prepared)
    [over] = loop.cycle().closed
    assert (over.state, "is reported already" in over.note) == (State.CANCELLED, True)
    assert (scenes.reports(scene, host), whole(scene).claims) == (1, ())


def test_the_hold_of_a_person_stays_theirs(scene: Rehearsal) -> None:
    """slurm-operator#3: only marks of one's own are ever taken off."""
    loop = loop_of(scene, reboot=ALLOW, remove=ALLOW)
    item = removal(scene, loop)
    jo = scenes.as_person(scene.ports, "jo")
    holding.hold(jo, item.case.cube, reason="burn-in")
    asked = loop.run(600).items[0]
    assert (asked.approvals_needed, "hold by jo: burn-in" in asked.case.why_person) == (1, True)
    yes(scene, item)
    assert len(loop.cycle().executed) == 1
    loop.until(scenes.closed, for_s=20 * scenes.DAY_S, every_s=6 * scenes.HOUR_S)
    assert {claim.holder for claim in whole(scene).claims} == {"hold by jo: burn-in"}


def test_cancelling_a_report_that_was_made_keeps_the_cube_out(scene: Rehearsal) -> None:
    loop = loop_of(scene, reboot=ALLOW)
    item = removal(scene, loop)
    yes(scene, item)
    loop.cycle()
    over = ops.cancel(scene.ports, Recorder(), item.id, reason="never mind").item
    assert "was reported, its VM will be stopped" in over.note
    assert f"tpuctl cube release {item.case.cube}" in over.note
    loop.cycle()
    held = {claim.cube_id for claim in whole(scene).claims}
    assert (loop.items, held) == ([], {item.case.cube, item.case.sub_block})


# -- failover and reprovision ------------------------------------------------------------------------------


def test_a_failover_waits_for_a_person_and_swaps_the_cube_out(scene: Rehearsal) -> None:
    before = swaps.busy_slice(scene)
    bad = before.partition_ids[0]
    loop = loop_of(scene, failover=scenes.RECOMMEND, reboot=ALLOW)
    swaps.break_host(scene, bad)
    [item] = loop.until(scenes.proposed).opened
    assert (item.case.remedy, item.case.slice, item.case.blast.pods) == (Remedy.FAILOVER, "train", 16)
    assert whole(scene).slices_by_name["train"].partition_ids == before.partition_ids
    yes(scene, item)
    review = loop.cycle()
    # The slice was down already.
    assert [(one.item.id, one.chips) for one in review.executed] == [(item.id, 0)]
    assert [one.state for one in review.closed] == [State.DONE]
    after = whole(scene).slices_by_name["train"]
    assert (bad in after.partition_ids, after.state) == (False, states.SliceState.ACTIVE)
    assert (journal.list_open(scene.ports), scene.ports.leases.list()) == ([], [])
    assert bad in review.repairing


def test_a_swap_that_cannot_be_done_fails_with_the_reason(scene: Rehearsal) -> None:
    before = swaps.busy_slice(scene, backoffLimit=0)
    loop = loop_of(scene, failover=scenes.RECOMMEND)
    swaps.break_host(scene, before.partition_ids[0])
    [item] = loop.until(scenes.proposed).opened
    yes(scene, item)
    [over] = loop.cycle().closed
    assert (over.state, over.note) == (State.FAILED, "the swap would make a whole job fail")


def test_reprovision_deletes_the_pool_once_and_follows_what_comes(scene: Rehearsal) -> None:
    """The fault as records tell it, since the simulator fills its pools by itself."""
    loop = loop_of(scene)
    cube = whole(scene).cubes[0]
    assert cube.pool is not None
    assert cube.sub_block is not None
    item = pool_item(scene, cube)
    registry.begin(scene.ports, item)
    review = loop.cycle()
    [done] = review.executed
    assert (done.item.step, "the loop makes it again" in done.text) == (Step.DELETED, True)
    deletions = [one for one in scene.ports.pools.operations() if one.kind == "DELETE_NODE_POOL"]
    assert [one.name for one in deletions] == [done.item.operation]
    scene.simulator.advance(900)
    loop.cycle()
    assert loop.items[0].state is State.RUNNING
    wanted = fleet.PoolSpec(
        cube.pool.name, cube.pool.reservation, cube.pool.block, cube.pool.sub_block, cube.pool.policy
    )
    scene.ports.pools.create(wanted)
    [over] = loop.until(scenes.closed).closed
    assert (over.state, "16 ready hosts" in over.note) == (State.DONE, True)


def pool_item(scene: Rehearsal, cube: fleet.Cube) -> repairs.Item:
    """A running reprovision that has announced its deletion, and died before it."""
    now = scenes.now(scene)
    case = repairs.Case(
        ailment=repairs.Ailment.POOL_SHORT,
        remedy=Remedy.REPROVISION,
        cube=cube.id,
        block=whole(scene).blocks[0].label,
        pool=cube.pool.name,
        sub_block=cube.sub_block.name,
        reason="short",
        evidence=(),
        blast=repairs.Blast((), 0, 16, 64),
        cost=repairs.Cost(0.0, 1.0, 64, "test"),
    )
    return repairs.Item(
        id="r-pool",
        case=case,
        state=State.RUNNING,
        proposed_at=now,
        expires_at=now,
        approvals_needed=1,
        step=Step.DELETING,
        step_at=now,
        started_at=now,
    )


# -- records -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 1}', '{"schema": 99}'])
@pytest.mark.parametrize("name", ["repair-x", registry.LEDGER])
def test_known_fault_75_a_damaged_record_stops_everything(scene: Rehearsal, text: str, name: str) -> None:
    """NVSentinel ADR-056: read as empty, it would give back attempts that were used up."""
    loop = loop_of(scene, reboot=ALLOW)
    host = scenes.host_of(scene)
    item = proposal(scene, loop)
    kind = records.REPAIR_LEDGER if name == registry.LEDGER else records.REPAIR
    found = scene.ports.records.get(name)
    if found is not None:
        scene.ports.records.delete(found)
    scene.ports.records.create(name, kind, text)
    scene.simulator.advance(600)
    with pytest.raises(records.DamagedRecord):
        loop.cycle()
    assert scenes.resets(scene, host) == 0
    found = scene.ports.records.get(name)
    assert found is not None
    assert found.text == text
    if kind == records.REPAIR:
        readable, damaged = ops.list_readable(scene.ports)
        assert ([one.id for one in readable], len(damaged)) == ([item.id], 1)
    scene.ports.records.delete(found)


def test_a_record_comes_back_as_it_was_written(scene: Rehearsal) -> None:
    loop = loop_of(scene, reboot=ALLOW)
    item = removal(scene, loop)
    [found] = loop.items
    assert found == item
    text = records.write(found)
    assert records.read(text, "x", repairs.Item, schema=repairs.SCHEMA) == found
    assert len(json.loads(text)["previous"]) == 2
    assert len(registry.load(scene.ports).ledger.rungs) == 2


def test_the_ledger_stays_within_what_a_record_holds() -> None:
    item = worlds.opened(worlds.world(worlds.silent()))
    ended = [
        dataclasses.replace(item, id=f"r-{index}").ended(State.DONE, worlds.ago(hours=index), "x" * 200)
        for index in range(120)
    ]
    ledger = registry.with_ended(repairs.Ledger(), ended, worlds.NOW)
    assert len(ledger.closed) == registry.KEPT_WHOLE
    assert registry.with_ended(ledger, ended[-50:], worlds.NOW) == ledger
    assert len(ledger.rungs) == 120
    later = registry.with_ended(ledger, [], worlds.NOW + (worlds.NOW - worlds.ago(days=7)))
    assert [rung.item for rung in later.rungs] == ["r-0"]
    assert len(records.write(ledger)) < 300_000


def test_the_budget_is_counted_from_the_items(scene: Rehearsal) -> None:
    """Known fault 68: a gauge counted stale marks."""
    loop = loop_of(scene, reboot=ALLOW)
    proposal(scene, loop)
    block = whole(scene).blocks[0].label
    began = loop.until(lambda review: bool(review.executed))
    assert (began.in_repair(block), began.in_repair("other")) == (1, 0)
    assert loop.until(scenes.closed).in_repair(block) == 0


# -- people ------------------------------------------------------------------------------------------------


def test_a_no_ends_it_and_it_is_not_proposed_again(scene: Rehearsal) -> None:
    loop = loop_of(scene)
    item = proposal(scene, loop)
    with pytest.raises(errors.UsageError, match="a reason is needed"):
        ops.reject(scene.ports, Recorder(), item.id, reason=" ")
    jo = scenes.as_person(scene.ports, "jo")
    assert ops.reject(jo, Recorder(), item.id, reason="known, leave it").item.ended_by == "jo"
    assert not ops.reject(jo, Recorder(), item.id, reason="again").changed
    assert loop.run(scenes.HOUR_S, every_s=300.0).items == ()
    with pytest.raises(errors.Conflict, match="is rejected by jo: known, leave it"):
        yes(scene, item)
    assert ops.find(scene.ports, item.id).state is State.REJECTED


def test_an_item_that_expired_cannot_be_approved_even_before_the_loop_says_so(scene: Rehearsal) -> None:
    loop = loop_of(scene)
    item = proposal(scene, loop)
    scene.simulator.advance(25 * scenes.HOUR_S)
    with pytest.raises(errors.Conflict, match="expired at"):
        yes(scene, item)


def test_somebody_whom_the_server_does_not_name_has_no_say(scene: Rehearsal) -> None:
    loop = loop_of(scene)
    item = proposal(scene, loop)
    nobody = scenes.as_person(scene.ports, "unknown")
    with pytest.raises(errors.NotPermitted, match="does not tell who you are"):
        ops.approve(nobody, Recorder(), item.id)
    with pytest.raises(errors.NotFound, match="there is no repair ''"):
        ops.approve(scene.ports, Recorder(), "")


def test_a_yes_said_twice_changes_nothing(scene: Rehearsal) -> None:
    loop = loop_of(scene)
    item = proposal(scene, loop)
    assert yes(scene, item).changed
    again = yes(scene, item)
    assert (again.changed, len(again.item.approvals)) == (False, 1)
    loop.cycle()
    with pytest.raises(errors.Conflict, match="is under way"):
        ops.reject(scene.ports, Recorder(), item.id, reason="too late")


def test_known_fault_67_what_is_forgotten_is_told_in_every_review() -> None:
    """NVSentinel#458: cordoned for ever though healthy."""
    with scene_of(cubes=2, ready_cubes=2, slice_controller=True) as scene:
        loop = loop_of(scene)
        cube = whole(scene).cubes[0]
        holding.hold(scene.ports, cube.id, reason="burn-in")
        assert loop.run(20 * scenes.HOUR_S, every_s=5 * scenes.HOUR_S).stuck == ()
        for _ in range(2):
            review = loop.run(4 * scenes.HOUR_S, every_s=2 * scenes.HOUR_S)
            assert "is healthy and out of use since" in review.stuck[0]
        holding.release(scene.ports, cube.id)
        assert loop.cycle().stuck == ()
