"""From what is wrong to what is done about it: the rules, and everything that is left alone."""

import dataclasses
import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import builders
from tests.engine import remediation_worlds as worlds
from tpuctl.engine import remediation
from tpuctl.engine.remediation import rules
from tpuctl.model import declared, fleet, operations, repairs, reserved, states, topology

Remedy, State, Ailment = worlds.Remedy, worlds.State, repairs.Ailment
ago, cases, name, remedies, rung, says, silent, world = (
    worlds.ago,
    worlds.cases,
    worlds.name,
    worlds.remedies,
    worlds.rung,
    worlds.says,
    worlds.silent,
    worlds.world,
)
NOW = worlds.NOW
UNHEALTHY, DEGRADED = states.PartitionState.UNHEALTHY, states.PartitionState.DEGRADED


def not_ready(minutes: float) -> fleet.Cube:
    return builders.changed(builders.cube("c1"), 3, ready=False, ready_since=ago(minutes=minutes))


def label_of_one(state: states.PartitionState) -> fleet.Cube:
    """A cube with one host whose own partition is labelled so."""
    labels = (state, *[states.PartitionState.HEALTHY] * 4)
    return builders.changed(builders.cube("c1"), 3, partition_states=labels)


def condition(since: datetime.datetime | None, kind: str = "KernelDeadlock") -> fleet.Cube:
    found = fleet.NodeCondition(kind, "True", "why", "", since)
    return builders.changed(builders.cube("c1"), 3, conditions=(found,))


TABLE = [
    ("silent for an hour, VM runs", silent(), [("reboot", name())]),
    ("silent for 5 minutes", silent(since=ago(minutes=5)), []),
    ("not ready for 6 minutes, VM runs", not_ready(6), [("reboot", name())]),
    ("not ready for 2 minutes", not_ready(2), []),
    ("silent, nobody tells since when", builders.changed(silent(), 3, ready_since=None), []),
    ("chips missing", worlds.without_chips(), [("reboot", name())]),
    ("no chips told", builders.changed(builders.cube("c1"), 3, chips=None), []),
    ("own partition UNHEALTHY", label_of_one(UNHEALTHY), [("reboot", name())]),
    ("own partition UNKNOWN", label_of_one(states.PartitionState.UNKNOWN), []),
    ("a kernel deadlock since an hour", condition(ago(hours=1)), [("reboot", name())]),
    ("a condition that nobody knows", condition(ago(hours=1), "FluxCapacitor"), []),
    ("disk pressure, which degrades", condition(ago(hours=1), "DiskPressure"), []),
    ("a degraded link, no slice", builders.cube("c1", state=DEGRADED), []),
    ("the fabric is unhealthy, no slice", builders.cube("c1", state=UNHEALTHY), []),
    ("all is well", builders.cube("c1"), []),
]


@pytest.mark.parametrize(("_what", "cube", "wanted"), TABLE, ids=[row[0] for row in TABLE])
def test_the_first_remedy(_what: str, cube: fleet.Cube, wanted: list[tuple[str, str]]) -> None:
    assert remedies(world(cube)) == wanted


VMS = [("REPAIRING", "worked on"), ("STAGING", "worked on"), ("TERMINATED", "start it first")]
VMS += [("", "its VM is gone"), ("SOMETHING_NEW", "is not known"), (None, "is not known")]


@pytest.mark.parametrize(("status", "why"), VMS, ids=[str(row[0]) for row in VMS])
def test_known_fault_55_only_a_running_vm_is_reset_or_reported(status: str | None, why: str) -> None:
    vms = {} if status is None else {name(): status}
    found = world(silent(), vms=vms)
    assert cases(found) == ()
    assert why in says(found)


def test_chips_missing_right_after_a_boot_are_no_fault_yet() -> None:
    booted = builders.changed(builders.cube("c1"), 3, chips=0, ready_since=ago(seconds=30))
    assert cases(world(booted)) == ()
    settled = builders.changed(builders.cube("c1"), 3, chips=0, ready_since=ago(seconds=150))
    assert remedies(world(settled)) == [("reboot", name())]


MAINTENANCE = [
    builders.changed(silent(), 3, maintenance_ongoing=True),
    builders.changed(silent(), 7, maintenance_ongoing=True),
    builders.changed(silent(), 3, maintenance_at=NOW + datetime.timedelta(hours=3)),
    builders.changed(silent(), 3, taints=("cloud.google.com/impending-node-termination",)),
]


@pytest.mark.parametrize("cube", MAINTENANCE, ids=["ongoing", "elsewhere in the cube", "near", "leaving"])
def test_where_somebody_is_at_work_nothing_is_done(cube: fleet.Cube) -> None:
    assert cases(world(cube)) == ()
    assert says(world(cube))


def test_maintenance_of_the_hardware_or_the_block_counts_too() -> None:
    plan = reserved.Maintenance(ago(hours=1), NOW, "ONGOING")
    cube = worlds.with_pool(silent())
    assert remedies(world(cube)) == [("reboot", name())]
    held = dataclasses.replace(cube, sub_block=cube.sub_block._replace(maintenance=plan))
    assert cases(world(held)) == ()
    given_world = world(cube)
    block = dataclasses.replace(given_world.snapshot.blocks[0], maintenance=plan)
    moved = dataclasses.replace(given_world, snapshot=given_world.snapshot.with_blocks((block,)))
    assert cases(moved) == ()


@pytest.mark.parametrize("status", ["RECONCILING", "STOPPING", "PROVISIONING"])
def test_gke_at_work_on_the_pool_is_left_alone(status: str) -> None:
    cube = worlds.with_pool(silent(), status=states.PoolStatus(status))
    assert cases(world(cube)) == ()
    assert status in says(world(cube))


def test_a_block_that_the_fleet_file_does_not_name_is_none_of_our_business() -> None:
    """An empty choice is nothing, never everything."""
    assert cases(world(silent(), fleet_spec=worlds.spec(block="another"))) == ()
    nothing = declared.FleetSpec(name="empty")
    assert remediation.review(world(silent(), fleet_spec=nothing), []).opened == ()
    assert remediation.suspects(world(silent(), fleet_spec=nothing)) == ()


# -- node pools --------------------------------------------------------------------------------------------


def short_pool(healthy: int | None, *, hosts: int = 14, seen: float | None = 25.0) -> remediation.World:
    cube = worlds.with_pool(builders.cube("c1", hosts=hosts), healthy=healthy)
    kind = Ailment.POOL_SHORT if hosts else Ailment.POOL_ERROR
    sightings = () if seen is None else (repairs.Sighting(kind, "pool-c1", ago(hours=seen)),)
    return world(cube, sightings=sightings, mode=declared.Mode.RECOMMEND)


def test_a_pool_that_lacks_healthy_hosts_for_long_is_made_again() -> None:
    assert remedies(short_pool(16)) == [("reprovision", "pool-c1")]
    assert cases(short_pool(16))[0].voluntary


@pytest.mark.parametrize(
    "found",
    [
        short_pool(14),
        short_pool(None),
        short_pool(16, seen=5),
        short_pool(16, seen=None),
    ],
    ids=["the others are in repair", "nobody tells", "within the grace", "seen for the first time"],
)
def test_a_pool_short_of_hosts_is_normal_while_hosts_are_in_repair(found: remediation.World) -> None:
    assert cases(found) == ()


def test_a_pool_is_not_made_again_while_one_of_its_hosts_is_in_repair() -> None:
    cube = worlds.with_pool(
        builders.changed(builders.cube("c1", hosts=14), 3, ready=None, ready_since=ago(hours=1))
    )
    sightings = (repairs.Sighting(Ailment.POOL_SHORT, "pool-c1", ago(hours=25)),)
    assert cases(world(cube, sightings=sightings, vms={name(): "REPAIRING"})) == ()


def test_since_when_a_pool_is_short_is_remembered_and_forgotten() -> None:
    seen = remediation.review(short_pool(16, seen=5), []).sightings
    assert seen == (repairs.Sighting("pool-short", "pool-c1", ago(hours=5)),)
    assert remediation.review(short_pool(16, seen=None), []).sightings[0].since == NOW
    assert remediation.review(short_pool(14, seen=5), []).sightings == ()


# -- slices ------------------------------------------------------------------------------------------------


def under_slice(cube: fleet.Cube, *spares: str, **changes: object) -> remediation.World:
    """A slice on the cube and on another, with pods on the bad host, and some spares."""
    fleet_spec = changes.pop("fleet_spec", worlds.spec(failover=worlds.RECOMMEND))
    item = builders.slice_of("train", "4x4x8", "c1", "c2", **changes)
    pods = tuple(builders.pod(f"p{index}", host.name) for index, host in enumerate(cube.hosts))
    others = [builders.cube(cube_id) for cube_id in ("c2", *spares)]
    return world(cube, *others, slices=(item,), pods=pods, fleet_spec=fleet_spec)


def test_the_work_leaves_the_cube_before_anything_is_done_to_it() -> None:
    found = under_slice(silent(), "c3")
    assert remedies(found) == [("failover", "train")]
    [case] = cases(found)
    assert (case.blast.slices, case.blast.pods) == (("train",), 16)
    assert "cube c3 can take its place" in case.reason


def test_without_a_spare_a_person_decides_on_the_reboot() -> None:
    fleet_spec = worlds.spec(reboot=worlds.ALLOW, failover=worlds.ALLOW)
    found = under_slice(silent(), fleet_spec=fleet_spec)
    [case] = cases(found)
    assert case.remedy is Remedy.REBOOT
    assert "no spare cube" in case.why_person
    assert case.voluntary
    assert worlds.opened(found).approvals_needed == 1


def test_a_foreign_slice_is_its_owners_business() -> None:
    owner = fleet.Owner("kueue", "Workload", "ns", "train")
    [case] = cases(under_slice(silent(), "c3", owner=owner))
    assert case.remedy is Remedy.REBOOT
    assert "belongs to kueue" in case.why_person


def test_a_lost_node_under_a_slice_is_a_failover_in_the_same_review() -> None:
    """jobset#574: a node that is gone is as bad as one that is not ready."""
    assert remedies(under_slice(builders.cube("c1", hosts=15), "c3")) == [("failover", "train")]


def test_a_vm_in_repair_does_not_keep_the_work_on_the_cube_if_the_slice_is_down() -> None:
    cube = builders.changed(builders.cube("c1"), 3, maintenance_ongoing=True)
    assert cases(under_slice(cube, "c3")) == ()
    down = {"state": states.SliceState.FAILED, "reason": "FAILED", "ready": "False"}
    assert remedies(under_slice(cube, "c3", **down)) == [("failover", "train")]


@pytest.mark.parametrize("demands", [True, False])
def test_a_degraded_link_is_a_failover_only_if_the_slice_demands_better(demands: bool) -> None:
    shape = topology.parse("4x4x8")
    wanted = declared.WantedSlice(name="train", shapes=(shape,), allow_degraded=not demands)
    fleet_spec = worlds.spec(wanted, failover=worlds.RECOMMEND)
    found = under_slice(builders.cube("c1", state=DEGRADED), "c3", fleet_spec=fleet_spec)
    assert remedies(found) == ([("failover", "train")] if demands else [])
    assert not demands or cases(found)[0].voluntary
    assert demands or "nothing is done by itself" in says(found)


def test_an_open_operation_on_the_cube_comes_first() -> None:
    claim = operations.Claim("c1", "operation swap-train of jo", "train")
    found = dataclasses.replace(
        under_slice(silent(), "c3"),
        snapshot=dataclasses.replace(under_slice(silent(), "c3").snapshot, claims=(claim,)),
    )
    examined = remediation.examine(found, found.snapshot.cubes_by_id["c1"])
    assert (examined.cases, examined.unsure) == ((), {""})


def test_the_loop_swaps_and_makes_pools_itself_where_that_is_allowed() -> None:
    train = declared.WantedSlice(name="train", shapes=(topology.parse("4x4x8"),))
    allowed = worlds.spec(train, failover=worlds.ALLOW, reprovision=worlds.ALLOW)
    found = under_slice(worlds.without_chips(), "c3", fleet_spec=allowed)
    assert remedies(found) == [("failover", "train")]
    assert remediation.review(found, []).opened == ()
    asked = dataclasses.replace(found, mode=declared.Mode.RECOMMEND)
    assert worlds.opened(asked).case.remedy is Remedy.FAILOVER


def test_a_failover_that_failed_as_often_as_it_may_gives_way() -> None:
    failed = tuple(
        rung(Remedy.FAILOVER, host="", item=f"r-{index}", at=ago(hours=5 + index)) for index in (1, 0)
    )
    found = under_slice(silent(), "c3")
    tired = dataclasses.replace(found, ledger=repairs.Ledger(rungs=failed))
    [case] = cases(tired)
    assert (case.remedy, "failover failed 2 times" in case.why_person) == (Remedy.REBOOT, True)


# -- the ladder --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attempts", [1, 2, 3])
def test_known_fault_75_attempts_are_exactly_as_many_as_allowed(attempts: int) -> None:
    """NVSentinel ADR-056: the limit is the number of attempts, not one more or less."""
    fleet_spec = worlds.spec(attempts=attempts)
    done: list[repairs.Rung] = []
    at = ago(hours=48)
    while found := cases(world(worlds.without_chips(), rungs=tuple(done), fleet_spec=fleet_spec)):
        [case] = found
        at += datetime.timedelta(hours=2)
        assert case.attempt == 1 + sum(one.remedy is case.remedy for one in done)
        done.append(rung(case.remedy, item=f"r-{len(done)}", at=at))
        assert len(done) < 20
    assert [one.remedy for one in done] == [Remedy.REBOOT] * attempts + [Remedy.REMOVE] * attempts
    assert "every remedy that the policy allows was tried" in says(
        world(worlds.without_chips(), rungs=tuple(done), fleet_spec=fleet_spec)
    )


def test_the_report_says_what_is_wrong_in_the_words_of_the_api() -> None:
    tried = (rung(Remedy.REBOOT, item="a"), rung(Remedy.REBOOT, item="b"))
    [chips] = cases(world(worlds.without_chips(), rungs=tried))
    [guest] = cases(world(silent(), rungs=tried))
    assert (chips.remedy, chips.behavior) == (Remedy.REMOVE, "CHIP_ERROR")
    assert (guest.remedy, guest.behavior) == (Remedy.REMOVE, "BEHAVIOR_UNSPECIFIED")
    assert chips.cost.from_s == 3 * 86_400


def test_attempts_on_another_host_or_long_ago_or_before_a_repair_do_not_count() -> None:
    other = (rung(Remedy.REBOOT, host=name(index=9), item="a"), rung(Remedy.REBOOT, cube="c9", item="b"))
    assert cases(world(silent(), rungs=other))[0].attempt == 1
    old = (rung(Remedy.REBOOT, at=ago(days=8), item="a"),)
    assert cases(world(silent(), rungs=old))[0].attempt == 1
    repaired = (
        rung(Remedy.REBOOT, at=ago(days=6), item="a"),
        rung(Remedy.REBOOT, at=ago(days=6), item="b"),
        rung(Remedy.REMOVE, State.DONE, at=ago(days=1), item="c"),
    )
    assert (
        cases(world(silent(), rungs=repaired))[0].remedy,
        cases(world(silent(), rungs=repaired))[0].attempt,
    ) == (
        Remedy.REBOOT,
        1,
    )


@pytest.mark.parametrize("state", [State.DONE, State.FAILED])
def test_after_any_finished_repair_the_cube_is_left_alone_for_the_cooldown(state: State) -> None:
    for host in (name(), name(index=9)):
        young = (rung(Remedy.REBOOT, state, at=ago(minutes=29), host=host),)
        assert cases(world(silent(), rungs=young)) == ()
        assert "left alone until" in says(world(silent(), rungs=young))
        over = (rung(Remedy.REBOOT, state, at=ago(minutes=31), host=host),)
        assert remedies(world(silent(), rungs=over)) == [("reboot", name())]


def test_what_a_person_has_rejected_is_not_proposed_again_the_same_day() -> None:
    no = (rung(Remedy.REBOOT, State.REJECTED, at=ago(hours=23)),)
    assert cases(world(silent(), rungs=no)) == ()
    assert "was rejected" in says(world(silent(), rungs=no))
    next_day = (rung(Remedy.REBOOT, State.REJECTED, at=ago(hours=25)),)
    assert remedies(world(silent(), rungs=next_day)) == [("reboot", name())]


def test_a_remedy_that_is_off_is_skipped_and_the_stronger_one_asks_a_person() -> None:
    fleet_spec = worlds.spec(reboot=worlds.OFF, remove=worlds.ALLOW)
    [case] = cases(world(silent(), fleet_spec=fleet_spec))
    assert (case.remedy, "switches the milder reboot off" in case.why_person) == (Remedy.REMOVE, True)
    nothing = worlds.spec(reboot=worlds.OFF, remove=worlds.OFF)
    assert cases(world(silent(), fleet_spec=nothing)) == ()


def test_known_fault_57_a_latched_condition_is_shown_and_not_repaired_again_and_again() -> None:
    """npd#215: log lines from 17 days ago are no news."""
    old = world(condition(ago(days=17)))
    assert cases(old) == ()
    assert "so long that it may be latched" in says(old)
    tried = (rung(Remedy.REBOOT, State.DONE, at=ago(hours=2)),)
    stale = world(condition(ago(hours=3)), rungs=tried)
    assert cases(stale) == ()
    assert "it has not changed since" in says(stale)
    fresh = world(condition(ago(hours=1)), rungs=tried)
    assert [case.attempt for case in cases(fresh)] == [2]
    booted = builders.changed(condition(ago(hours=3)), 3, ready_since=ago(hours=2))
    assert cases(world(booted)) == ()


# -- whatever the evidence ---------------------------------------------------------------------------------

LABELS = st.sampled_from([*states.PartitionState])
STATUSES = st.sampled_from(["RUNNING", "REPAIRING", "TERMINATED", "STAGING", "", "ODD", None])
AGES = st.one_of(st.none(), st.integers(0, 7200))


@settings(max_examples=300, deadline=None)
@given(
    ready=st.sampled_from([True, False, None]),
    age_s=AGES,
    chips=st.sampled_from([None, 0, 3, 4]),
    label=LABELS,
    status=STATUSES,
    ongoing=st.booleans(),
)
def test_there_is_never_a_remedy_for_what_nobody_knows(
    ready: bool | None,
    age_s: int | None,
    chips: int | None,
    label: states.PartitionState,
    status: str | None,
    ongoing: bool,
) -> None:
    labels = (label, *[states.PartitionState.HEALTHY] * 4)
    since = None if age_s is None else ago(seconds=age_s)
    cube = builders.changed(
        builders.cube("c1"),
        3,
        ready=ready,
        ready_since=since,
        chips=chips,
        partition_states=labels,
        maintenance_ongoing=ongoing,
    )
    found = world(cube, vms={} if status is None else {name(): status})
    for case in cases(found):
        assert not ongoing
        assert case.remedy is Remedy.REBOOT
        if ready is True:
            assert age_s is None or age_s >= 120
            assert (chips is not None and chips < 4) or label is UNHEALTHY
        else:
            grace_s = rules.RULES[case.ailment].grace_s
            assert status == "RUNNING"
            assert age_s is not None
            assert age_s >= grace_s


def test_every_ailment_has_its_rule_and_every_remedy_its_effort() -> None:
    assert set(rules.RULES) == set(Ailment)
    assert set(rules.EFFORTS) == set(Remedy)
    assert all(rule.remedies for rule in rules.RULES.values())
