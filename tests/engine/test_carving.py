"""Which pools to make: once each, never over something else's name."""

from tests import builders
from tpuctl.engine import blast, carving
from tpuctl.model import declared, fleet, states


def sub_block(name: str) -> fleet.SubBlock:
    return fleet.SubBlock(name, f"id-{name}", "HEALTHY", 16, 0, 16, 0)


def block(name: str, *subs: str) -> fleet.ReservedBlock:
    return fleet.ReservedBlock(
        reservation="res", name=name, physical_id=f"id-{name}", sub_blocks=tuple(map(sub_block, subs))
    )


def pool(name: str, sub: str, **changes: object) -> fleet.NodePool:
    plain = fleet.NodePool(
        name, states.PoolStatus.RUNNING, "RUNNING", sub, "b1", "projects/p/reservations/res", "pol", 16
    )
    return plain._replace(**changes)


def test_one_pool_for_each_sub_block_in_order_and_none_twice() -> None:
    blocks = [block("b2", "z1"), block("b1", "s2", "s1")]
    plan = carving.plan_carving(blocks, [pool("made-by-hand", "s1")], policy="pol")
    assert [(spec.name, spec.sub_block, spec.block) for spec in plan.create] == [
        ("cube-s2", "s2", "b1"),
        ("cube-z1", "z1", "b2"),
    ]
    assert [item.name for item in plan.existing] == ["made-by-hand"]


def test_what_is_declared_of_pools_is_in_those_to_make_and_others_are_taken_as_they_are() -> None:
    settings = declared.PoolSettings(
        name_prefix="tpu", auto_repair=False, auto_upgrade=False, max_surge=0, max_unavailable=8
    )
    blocks = [block("b1", "s1", "s2")]
    plan = carving.plan_carving(blocks, [pool("cube-s1", "s1")], policy="pol", settings=settings)
    assert plan.create == (fleet.PoolSpec("tpu-s2", "res", "b1", "s2", "pol", 16, False, False, 0, 8),)
    assert [item.name for item in plan.existing] == ["cube-s1"]
    assert plan.clashes == ()


def test_a_long_name_with_a_prefix_still_fits() -> None:
    long = "reservation-of-a-long-name-block-0001-subblock-0001"
    settings = declared.PoolSettings(name_prefix="twenty-letters-prefx")
    [spec] = carving.plan_carving([block("b1", long)], [], policy="pol", settings=settings).create
    assert len(spec.name) <= 40
    assert spec.name.startswith("twent")


def test_pools_are_made_alike_with_and_without_a_fleet_file() -> None:
    plain = fleet.PoolSpec("cube-s1", "res", "b1", "s1", "pol")
    assert carving.plan_carving([block("b1", "s1")], [], policy="pol").create == (plain,)


def test_a_limit_counts_what_is_there_so_that_asking_twice_changes_nothing() -> None:
    blocks = [block("b1", "s1", "s2", "s3")]
    plan = carving.plan_carving(blocks, [pool("cube-s1", "s1"), pool("cube-s2", "s2")], policy="p", limit=2)
    assert plan.create == ()
    assert len(plan.existing) == 2


def test_a_block_can_be_named_by_name_or_id() -> None:
    blocks = [block("b1", "s1"), block("b2", "s2")]
    for wanted in ("b2", "id-b2"):
        plan = carving.plan_carving(blocks, [], policy="p", block=wanted)
        assert [spec.sub_block for spec in plan.create] == ["s2"]


def test_a_pool_that_is_stopping_is_neither_capacity_nor_made_again() -> None:
    stopping = pool("cube-s1", "s1", status=states.PoolStatus.STOPPING, raw_status="STOPPING")
    plan = carving.plan_carving([block("b1", "s1")], [stopping], policy="p")
    assert (plan.create, plan.existing, plan.stopping) == ((), (), (stopping,))


def test_a_name_used_for_other_hardware_is_reported() -> None:
    plan = carving.plan_carving([block("b1", "s1")], [pool("cube-s1", "s9")], policy="p")
    assert plan.create == ()
    assert plan.clashes == ("node pool cube-s1 exists, but is aimed at s9, not at s1",)


def test_the_same_sub_block_name_in_another_reservation_is_another_sub_block() -> None:
    other = pool("theirs", "s1", reservation="projects/p/reservations/other")
    plan = carving.plan_carving([block("b1", "s1")], [other], policy="p")
    assert [spec.name for spec in plan.create] == ["cube-s1"]


def test_blast_radius_counts_every_unfinished_pod_whoever_owns_it() -> None:
    snapshot = builders.fleet_of(
        builders.cube("c1"),
        slices=(builders.slice_of("s", "4x4x4", "c1"),),
        pods=(
            builders.pod("a", "node-c1-00"),
            builders.pod("b", "node-c1-01"),
            builders.pod("c", "node-c1-02", phase="Succeeded"),
            builders.pod("foreign", "node-c1-03", owner="", namespace="other"),
        ),
    )
    radius = blast.of_slice(snapshot, snapshot.slices_by_name["s"])
    assert str(radius) == "1 slice, 3 running pods, 16 hosts, 64 chips"
    assert radius.owners == (("default/Job/train", 2), ("other/Pod/foreign", 1))
