"""The maximizer's decisions beside ours on the same view."""

import dataclasses

from tests import builders
from tpuctl.engine import maximizer
from tpuctl.engine import reconciling as engine
from tpuctl.engine.reconciling import shadow
from tpuctl.model import declared, fleet, health, operations, reconciling, states, topology

Kind = reconciling.ActionKind
Goal = shadow.Goal


@dataclasses.dataclass
class Seen:
    """As much of a view as a comparison needs."""

    snapshot: fleet.Fleet
    spec: declared.FleetSpec


def shape(text: str) -> topology.Topology:
    return topology.parse(text)


def spec(*slices: declared.WantedSlice) -> declared.FleetSpec:
    return declared.FleetSpec(name="f", slices=slices)


def wanted(name: str, *shapes: str, count: int = 1) -> declared.WantedSlice:
    return declared.WantedSlice(name=name, shapes=tuple(map(shape, shapes)), count=count)


def decision(*actions: reconciling.Action, **more: object) -> reconciling.Decision:
    return reconciling.Decision(actions=actions, guards=(), memory=reconciling.Memory(), **more)


def forming(name: str, text: str, full: str = "") -> reconciling.Forming:
    return reconciling.Forming(name, shape(text), "b1", (), 0, shape(full or text))


def train_with_a_dead_host() -> fleet.Fleet:
    """4 cubes under a running slice, a host of one of them dead, and one cube free."""
    cubes = [builders.cube(f"c{number}") for number in range(3)]
    cubes.append(builders.changed(builders.cube("c3"), 5, ready=False))
    cubes.append(builders.cube("c4"))
    pods = tuple(builders.pod(f"w-{host.name}", host.name) for cube in cubes[:4] for host in cube.hosts)
    return builders.fleet_of(
        *cubes, slices=(builders.slice_of("train", "4x8x8", "c0", "c1", "c2", "c3"),), pods=pods
    )


def test_a_dead_host_is_one_swap_for_us_and_hours_for_the_maximizer() -> None:
    swap = reconciling.Action(
        kind=Kind.SWAP,
        target="train",
        reason="cube c3 is unhealthy",
        exchanges=(operations.Exchange("c3", "c4"),),
        chips=256,
        pods_restarted=16,
        pods_kept=48,
        estimate_s=210,
    )
    view = Seen(train_with_a_dead_host(), spec(wanted("train", "4x8x8")))
    found = shadow.compare(view, decision(swap))
    [row] = found.rows
    assert row.subject == "slice/train"
    assert row.same_goal
    assert (row.ours.does, row.ours.reason) == ("swap", "cube c3 is unhealthy")
    assert (row.ours.chips, row.ours.pods, row.ours.time_s) == (256, 16, 210)
    assert (row.ours.slice_operations, row.ours.pool_operations) == (2, 0)
    assert row.legacy.does == "delete-pool, then merge 4x8x8"
    assert "15 of 16 hosts are ready" in row.legacy.reason
    assert (row.legacy.chips, row.legacy.pods, row.legacy.idled_chips) == (256, 64, 60)
    assert row.legacy.time_s == 7200
    assert row.legacy.pool_operations == 3
    assert dict(found.totals)["tpuctl"] == shadow.Total(1, 256, 16, 0, 0, 2, 210)
    assert dict(found.totals)["maximizer"] == shadow.Total(1, 256, 64, 60, 3, 0, 7200)
    assert found.sentence == "1 differing decision: tpuctl would interrupt 256 chips, the maximizer 256"
    assert any("a setting" in source for source in found.sources)


def test_a_pool_with_15_hosts_is_kept_by_us_and_deleted_by_the_maximizer() -> None:
    view = Seen(builders.fleet_of(builders.cube("c0", hosts=15)), spec())
    [row] = shadow.compare(view, decision()).rows
    assert row.subject == "nodepool/pool-c0"
    assert (row.ours.does, row.ours.goal) == ("keeps the pool", Goal.AS_IS)
    assert "15 hosts stay in use" in row.ours.reason
    assert (row.legacy.does, row.legacy.goal) == ("delete-pool", Goal.GONE)
    assert (row.ours.idled_chips, row.legacy.idled_chips) == (0, 60)
    assert not row.same_goal


def test_forming_is_told_beside_the_pool_that_it_would_have_been() -> None:
    fleet_of_four = builders.fleet_of(*[builders.cube(f"c{number}") for number in range(4)])
    form = reconciling.Action(
        kind=Kind.FORM,
        target="gang",
        reason="wanted",
        forming=(forming("a", "4x4x8"), forming("b", "4x4x4", "4x4x8")),
        estimate_s=41,
    )
    view = Seen(fleet_of_four, spec(wanted("a", "4x4x8"), wanted("b", "4x4x8", "4x4x4")))
    a, b = sorted(shadow.compare(view, decision(form)).rows, key=lambda row: row.subject)
    assert (a.subject, a.ours.does, a.legacy.does) == ("slice/a", "form 4x4x8", "merge 4x4x8")
    assert (a.ours.time_s, a.legacy.time_s) == (41, 2400)
    assert a.same_goal
    assert (b.ours.does, b.ours.goal) == ("form 4x4x4", Goal.SMALLER)
    assert b.ours.time_s == 0
    assert not b.same_goal


def test_what_a_guard_stops_counts_for_nothing() -> None:
    grow = reconciling.Action(
        kind=Kind.GROW,
        target="train",
        reason="128 chips more",
        forming=(forming("train", "4x8x8"),),
        chips=128,
        stopped_by="window",
    )
    cubes = [builders.cube(f"c{number}") for number in range(4)]
    snapshot = builders.fleet_of(*cubes, slices=(builders.slice_of("train", "4x4x8", "c0", "c1"),))
    view = Seen(snapshot, spec(wanted("train", "4x8x8", "4x4x8")))
    found = shadow.compare(view, decision(grow))
    [row] = found.rows
    assert row.ours.does == "would grow"
    assert row.ours.reason == "stopped by window: 128 chips more"
    assert found.ours == shadow.Total()
    assert (row.legacy.does, row.legacy.chips) == ("merge 4x8x8", 128)


def test_pools_of_ours_that_the_maximizer_would_not_make() -> None:
    bare = dataclasses.replace(builders.cube("c0"), hosts=())
    create = reconciling.Action(
        kind=Kind.CREATE_POOL, target="cube-0001", reason="no node pool", estimate_s=180
    )
    [row] = shadow.compare(Seen(builders.fleet_of(bare), spec()), decision(create)).rows
    assert (row.subject, row.ours.does, row.ours.pool_operations) == ("nodepool/cube-0001", "create-pool", 1)
    assert row.legacy.does == "makes no pool"


def test_deforming_beside_a_pool_that_stays() -> None:
    snapshot = builders.fleet_of(builders.cube("c0"), slices=(builders.slice_of("old", "4x4x4", "c0"),))
    deform = reconciling.Action(kind=Kind.DEFORM, target="old", reason="nobody wants it", chips=64)
    [row] = shadow.compare(Seen(snapshot, spec()), decision(deform)).rows
    assert (row.ours.goal, row.ours.slice_operations) == (Goal.GONE, 1)
    assert row.legacy.does == "keeps the pool"


def test_why_ours_waits_is_told() -> None:
    cubes = [builders.cube("c0"), builders.cube("c1")]
    view = Seen(builders.fleet_of(*cubes), spec(wanted("train", "8x8x8")))
    found = shadow.compare(view, decision(waiting=(("train", "2 of 8 cubes"),)))
    [row] = found.rows
    assert (row.ours.does, row.ours.reason) == ("waits", "2 of 8 cubes")
    assert row.legacy.does == "merge 4x4x8"
    [row] = shadow.compare(
        view, decision(waiting=(("train", "2 of 8 cubes"),)), maximizer.Settings(halves=True)
    ).rows
    assert row.legacy.goal is Goal.SMALLER
    assert shadow.compare(view, decision(), maximizer.Settings(halves=False)).rows == ()


def test_an_idle_pool_that_the_maximizer_uses() -> None:
    form = reconciling.Action(kind=Kind.FORM, target="a", reason="wanted", forming=(forming("a", "4x4x4"),))
    view = Seen(builders.fleet_of(builders.cube("c0")), spec(wanted("a", "4x4x4")))
    [row] = shadow.compare(view, decision(form)).rows
    assert (row.legacy.does, row.legacy.reason) == ("uses an idle pool", "pool-c0 has the shape")
    assert row.same_goal


def test_an_open_operation_is_told_by_its_name_or_its_slice() -> None:
    finish = reconciling.Action(kind=Kind.FINISH, target="swap-train-1", reason="left open")
    view = Seen(builders.fleet_of(builders.cube("c0")), spec())
    [row] = shadow.compare(view, decision(finish)).rows
    assert row.subject == "operation/swap-train-1"
    [row] = shadow.compare(view, decision(dataclasses.replace(finish, slices=("train",)))).rows
    assert row.subject == "slice/train"


def test_nothing_to_do_for_either() -> None:
    found = shadow.compare(Seen(builders.fleet_of(builders.cube("c0")), spec()), decision())
    assert (found.rows, found.sentence) == ((), "both would do nothing")


def test_the_real_decision_beside_the_maximizer() -> None:
    snapshot = train_with_a_dead_host()
    failed = snapshot.slices[0]._replace(
        state=states.SliceState.FAILED, reason="FAILED", ready="False", since=builders.LONG_AGO
    )
    state = spec(wanted("train", "4x8x8"))
    view = engine.View(
        snapshot=dataclasses.replace(snapshot, slices=(failed,)),
        spec=state,
        spec_digest="digest",
        memory=reconciling.Memory(
            fleet="f",
            spec_digest="digest",
            observed_at=builders.LONG_AGO,
            formed=(reconciling.Formed("train", failed.uid, builders.LONG_AGO),),
        ),
        blocks=(),
        pools=(),
        policy=health.DEFAULT_POLICY,
        pool_policy="policy",
        mode=declared.Mode.ACT,
    )
    [row] = shadow.compare(view, engine.decide(view)).rows
    assert (row.subject, row.ours.does, row.same_goal) == ("slice/train", "swap", True)
    assert (row.ours.pods, row.legacy.pods) == (16, 64)
    assert row.legacy.does == "delete-pool, then merge 4x8x8"
    assert row.legacy.time_s > 10 * row.ours.time_s > 0
