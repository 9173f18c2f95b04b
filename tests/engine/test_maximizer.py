"""The policy that the reconcile loop replaces, on small fleets."""

import dataclasses
import itertools

from hypothesis import given
from hypothesis import strategies as some

from tests import builders
from tpuctl.engine import maximizer
from tpuctl.engine.maximizer import changes, sizes, turn
from tpuctl.engine.simulation import scenario
from tpuctl.model import declared, fleet, reserved, states, topology

Kind = maximizer.ChangeKind
CUBES = tuple(f"c{number}" for number in range(8))


def shape(text: str) -> topology.Topology:
    return topology.parse(text)


def wanted(name: str, *shapes: str, **more: object) -> declared.WantedSlice:
    return declared.WantedSlice(name=name, shapes=tuple(shape(text) for text in shapes), **more)


def spec(*slices: declared.WantedSlice) -> declared.FleetSpec:
    return declared.FleetSpec(name="f", slices=slices)


def sound(*ids: str, block: str = "b1") -> list[fleet.Cube]:
    return [builders.cube(cube_id, block) for cube_id in ids]


def pods_of(name: str, *cubes: fleet.Cube) -> tuple[fleet.Pod, ...]:
    return tuple(builders.pod(f"{name}-{host.name}", host.name) for cube in cubes for host in cube.hosts)


def pool(cube_id: str, status: states.PoolStatus) -> fleet.NodePool:
    return fleet.NodePool(f"pool-{cube_id}", status, status.value, "sb", "b1", "r", "p", 16)


def bare(cube_id: str, healthy_hosts: int | None) -> fleet.Cube:
    """Reserved hardware without a node pool."""
    told = reserved.SubBlock(cube_id, "", "HEALTHY", healthy_hosts, None, 16, 0)
    return fleet.Cube(id=cube_id, block="b1", sub_block=told)


# What is unhealthy


def test_a_pool_with_15_of_16_hosts_is_deleted_and_its_good_hosts_stand_idle() -> None:
    short = builders.cube("c0", hosts=15)
    found = maximizer.decide(builders.fleet_of(short, *sound("c1")), spec())
    [delete] = found.changes
    assert (delete.kind, delete.target, delete.cubes) == (Kind.DELETE, "pool-c0", ("c0",))
    assert "15 of 16 hosts" in delete.reason
    assert (delete.chips, delete.pods, delete.slices) == (0, 0, ())
    assert delete.idled_chips == 60
    assert (delete.duration.shortest_s, delete.duration.longest_s) == (600, 1800)
    assert "case study" in delete.duration.source


def test_one_bad_host_takes_the_whole_slice_down_with_all_its_pods() -> None:
    cubes = [*sound("c0", "c1", "c2"), builders.changed(builders.cube("c3"), 5, ready=False)]
    train = builders.slice_of("train", "4x8x8", "c0", "c1", "c2", "c3")
    snapshot = builders.fleet_of(*cubes, slices=(train,), pods=pods_of("w", *cubes))
    found = maximizer.decide(snapshot, spec(wanted("train", "4x8x8", "4x4x8")))
    delete, make = found.changes
    assert (delete.kind, delete.target, delete.slices) == (Kind.DELETE, "train", ("train",))
    assert (delete.chips, delete.pods, delete.idled_chips) == (256, 64, 60)
    assert "cube c3: 15 of 16 hosts are ready" in delete.reason
    assert (make.kind, make.target, make.shape) == (Kind.WORK_DOWN, "train", shape("4x4x8"))
    assert set(make.cubes) < {"c0", "c1", "c2"}
    assert "4x8x8 cannot be had" in make.reason
    assert (make.chips, make.pods) == (0, 0)


def test_making_again_what_was_deleted_takes_hours_and_says_that_the_number_is_a_setting() -> None:
    cubes = [*sound("c0", "c1", "c2"), builders.cube("c3", hosts=15)]
    train = builders.slice_of("train", "4x4x8", "c2", "c3")
    settings = changes.Settings(times=scenario.Times(pool_s=1000, rebuild_s=9000))
    found = maximizer.decide(
        builders.fleet_of(*cubes, slices=(train,)), spec(wanted("train", "4x4x8")), settings
    )
    delete, make = found.changes
    assert (make.kind, make.cubes, make.merged) == (Kind.MERGE, ("c0", "c2"), ("pool-c0",))
    assert delete.duration.typical_s + make.duration.typical_s == 9000
    assert make.duration.longest_s is None
    assert "a setting" in make.duration.source


def test_a_failed_link_writes_the_whole_pool_off() -> None:
    worn = builders.cube("c0", state=states.PartitionState.DEGRADED)
    [delete] = maximizer.decide(builders.fleet_of(worn), spec()).changes
    assert "has a failed link" in delete.reason
    assert delete.idled_chips == 64


def test_a_slice_that_failed_on_sound_cubes_is_made_again_at_once() -> None:
    failed = builders.slice_of("train", "4x4x8", "c0", "c1", state=states.SliceState.FAILED)
    found = maximizer.decide(
        builders.fleet_of(*sound("c0", "c1"), slices=(failed,)), spec(wanted("train", "4x4x8"))
    )
    delete, make = found.changes
    assert (delete.kind, delete.chips) == (Kind.DELETE, 0)
    assert (make.kind, make.cubes) == (Kind.CREATE, ("c0", "c1"))


def test_it_knows_no_owners() -> None:
    foreign = builders.slice_of(
        "kueue-1", "4x4x8", "c0", "c1", owner=fleet.Owner("kueue", "Workload", "ml", "w")
    )
    snapshot = builders.fleet_of(builders.cube("c0", hosts=15), *sound("c1"), slices=(foreign,))
    [delete] = maximizer.decide(snapshot, spec()).changes
    assert (delete.target, delete.chips) == ("kueue-1", 31 * 4)


def test_what_is_being_made_or_deleted_is_left_alone() -> None:
    making = dataclasses.replace(
        builders.cube("c0", hosts=3), pool=pool("c0", states.PoolStatus.PROVISIONING)
    )
    going = dataclasses.replace(builders.cube("c1", hosts=9), pool=pool("c1", states.PoolStatus.STOPPING))
    leaving = builders.slice_of("old", "4x4x8", "c2", "c3", deleting=True)
    snapshot = builders.fleet_of(making, going, *sound("c2", "c3"), slices=(leaving,))
    found = maximizer.decide(snapshot, spec(wanted("train", "4x4x4")))
    assert found.changes == ()
    assert found.waiting == (("train", "even 4x4x4 cannot be had: no block has 1 whole cube free"),)


# What is made


def test_pools_are_made_on_bare_hardware_if_all_16_hosts_are_good() -> None:
    cubes = [bare("c0", 16), bare("c1", 15), bare("c2", 16)]
    found = maximizer.decide(builders.fleet_of(*cubes), spec(wanted("train", "4x4x8")))
    [make] = found.changes
    assert (make.kind, make.cubes, make.pool_operations) == (Kind.CREATE, ("c0", "c2"), 1)


def test_idle_pools_are_merged_after_loose_cubes_have_been_used() -> None:
    found = maximizer.decide(
        builders.fleet_of(*sound("c0", "c1", "c2"), bare("c3", 16)), spec(wanted("train", "4x4x8"))
    )
    [merge] = found.changes
    assert merge.kind is Kind.MERGE
    assert len(merge.cubes) == 2
    assert "c3" in merge.cubes
    assert len(merge.merged) == 1
    assert merge.pool_operations == 2
    assert merge.chips == 0
    assert (merge.duration.shortest_s, merge.duration.longest_s) == (1200, 3600)


def test_merging_kills_the_job_that_had_to_be_content_with_less() -> None:
    cubes = sound(*CUBES[:4])
    train = builders.slice_of("train", "4x4x8", "c0", "c1")
    snapshot = builders.fleet_of(*cubes, slices=(train,), pods=pods_of("w", *cubes[:2]))
    [merge] = maximizer.decide(snapshot, spec(wanted("train", "4x8x8", "4x4x8"))).changes
    assert (merge.kind, merge.target, merge.shape) == (Kind.MERGE, "train", shape("4x8x8"))
    assert set(merge.cubes) == {"c0", "c1", "c2", "c3"}
    assert (merge.slices, merge.chips, merge.pods) == (("train",), 128, 32)
    assert set(merge.merged) == {"train", "pool-c2", "pool-c3"}
    assert "ends 32 running pods" in merge.reason


def test_work_on_pools_of_others_is_not_merged_away() -> None:
    cubes = sound(*CUBES[:4])
    other = builders.slice_of("other", "4x4x8", "c2", "c3")
    snapshot = builders.fleet_of(*cubes, slices=(other,), pods=pods_of("w", cubes[2]))
    found = maximizer.decide(snapshot, spec(wanted("train", "4x8x8")))
    [made] = found.changes
    assert (made.shape, set(made.cubes)) == (shape("4x4x8"), {"c0", "c1"})


def test_it_works_down_through_named_sizes_and_then_through_halves() -> None:
    entry = wanted("train", "8x8x8", "4x8x12")
    assert [str(one) for one in sizes.shapes(entry, halves=True)] == [
        "8x8x8",
        "4x8x12",
        "4x4x12",
        "4x4x4",
    ]
    assert sizes.shapes(entry, halves=False) == entry.shapes
    assert sizes.shapes(wanted("part", "2x2x2"), halves=True) == (shape("2x2x2"),)

    three = builders.fleet_of(*sound("c0", "c1", "c2"))
    [made] = maximizer.decide(three, spec(entry)).changes
    assert (made.kind, made.shape) == (Kind.MERGE, shape("4x4x12"))
    alone = maximizer.decide(three, spec(entry), changes.Settings(halves=False))
    assert alone.changes == ()
    assert alone.waiting == (("train", "even 4x8x12 cannot be had: no block has 6 whole cubes free"),)


def test_the_largest_comes_first_whatever_the_priorities() -> None:
    found = maximizer.decide(
        builders.fleet_of(*sound("c0", "c1")),
        spec(wanted("urgent", "4x4x4", priority=9), wanted("large", "4x4x8")),
    )
    assert [(change.kind, change.target) for change in found.changes] == [(Kind.MERGE, "large")]
    assert [name for name, _ in found.waiting] == ["urgent"]


def test_a_small_job_gets_a_pool_to_itself() -> None:
    found = maximizer.decide(
        builders.fleet_of(*[bare(cube, 16) for cube in ("c0", "c1", "c2")]),
        spec(wanted("small", "2x2x1", count=2)),
    )
    assert [(change.kind, change.target, change.cubes) for change in found.changes] == [
        (Kind.CREATE, "small-0", ("c0",)),
        (Kind.CREATE, "small-1", ("c1",)),
    ]


def test_an_idle_pool_of_the_right_shape_is_used_as_it_is() -> None:
    idle = builders.slice_of("old", "4x4x8", "c1", "c2")
    snapshot = builders.fleet_of(*sound("c0", "c1", "c2"), slices=(idle,))
    found = maximizer.decide(snapshot, spec(wanted("train", "4x4x8"), wanted("one", "2x2x4")))
    assert found.changes == ()
    assert found.waiting == ()
    assert dict(found.uses) == {"train": "old", "one": "pool-c0"}


def test_working_down_to_one_cube_uses_an_idle_pool_too() -> None:
    found = maximizer.decide(builders.fleet_of(*sound("c0")), spec(wanted("train", "8x8x8")))
    assert found.changes == ()
    assert found.uses == (("train", "pool-c0"),)


def test_sub_slices_that_share_a_cube_were_pools_of_their_own() -> None:
    parts = (
        builders.slice_of("small-0", "2x2x1", "c0.221.0"),
        builders.slice_of("small-1", "2x2x1", "c0.221.1"),
    )
    snapshot = builders.fleet_of(builders.cube("c0"), bare("c1", 16), slices=parts)
    [made] = maximizer.decide(snapshot, spec(wanted("small", "2x2x1", count=2))).changes
    assert (made.kind, made.target, made.cubes) == (Kind.CREATE, "small-1", ("c1",))


def test_pools_stay_within_one_block_and_take_the_tightest() -> None:
    snapshot = builders.fleet_of(*sound("a0", "a1", "a2"), *sound("b0", "b1", block="b2"))
    [made] = maximizer.decide(snapshot, spec(wanted("train", "4x4x8"))).changes
    assert (made.block, set(made.cubes)) == ("b2", {"b0", "b1"})
    [made] = maximizer.decide(snapshot, spec(wanted("train", "4x4x8", block="b1"))).changes
    assert made.block == "b1"
    [made] = maximizer.decide(snapshot, spec(wanted("train", "8x8x8"))).changes
    assert (made.shape, made.block) == (shape("4x4x8"), "b2")


def test_other_blocks_are_not_its_business() -> None:
    blocks = (declared.BlockSpec(name="b2"),)
    state = declared.FleetSpec(name="f", reservations=(declared.ReservationSpec(name="r", blocks=blocks),))
    snapshot = builders.fleet_of(builders.cube("a0", hosts=3), *sound("b0", block="b2"))
    assert maximizer.decide(snapshot, state).changes == ()


def test_a_fleet_as_it_should_be_is_left_alone() -> None:
    train = builders.slice_of("train", "4x4x8", "c0", "c1")
    snapshot = builders.fleet_of(*sound(*CUBES), slices=(train,))
    found = maximizer.decide(snapshot, spec(wanted("train", "4x4x8")))
    assert (found.changes, found.waiting) == ((), ())
    assert found.sentence == "the maximizer would change nothing"


def test_the_sentence_counts() -> None:
    found = maximizer.decide(
        builders.fleet_of(builders.cube("c0", hosts=15), bare("c1", 16)), spec(wanted("train", "4x4x4"))
    )
    assert found.sentence == "the maximizer would do 1 delete-pool, 1 create-pool, and interrupt 0 chips"


# The turn by itself


def test_a_second_idle_pool_for_one_want_is_given_once() -> None:
    """It was offered to all and still stood for its want; a property test found its cube in two pools."""
    pools = [turn.Pool(name=n, cubes=(n,), serves=("large", 1), is_sick=False, is_idle=True) for n in (6, 7)]
    wants = [
        *(turn.Want(name, (turn.Size((name, 1), 1),)) for name in ("one", "two")),
        turn.Want("large", (turn.Size(("large", 2), 2), turn.Size(("large", 1), 1))),
    ]
    played = turn.play(pools, {0: [8, 9]}, wants)
    made = [cube for make in played.makes for cube in make.cubes]
    assert sorted(made) == [6, 7, 8, 9]


@given(some.data())
def test_a_turn_gives_no_cube_twice_and_no_sick_one(data: some.DataObject) -> None:
    cubes = list(range(data.draw(some.integers(1, 14))))
    bad = data.draw(some.sets(some.sampled_from(cubes)))
    cuts = sorted(data.draw(some.sets(some.sampled_from(cubes))))
    pools = []
    for number, (low, high) in enumerate(itertools.pairwise(cuts)):
        inside = tuple(range(low, high))
        wants_it = data.draw(some.none() | some.integers(0, 4))
        pools.append(
            turn.Pool(
                name=number,
                cubes=inside,
                serves=None if wants_it is None else (wants_it, len(inside)),
                is_sick=bool(bad.intersection(inside)),
                is_idle=data.draw(some.booleans()),
            )
        )
    home = {cube: item for item in pools for cube in item.cubes}
    loose = [cube for cube in cubes if cube not in home]
    wants = [
        turn.Want(name, tuple(turn.Size((name, size), size) for size in range(most, 0, -1)))
        for name, most in enumerate(data.draw(some.lists(some.integers(1, 9), max_size=5)))
    ]
    played = turn.play(pools, {0: loose}, wants, bad)
    assert [item.name for item in played.deletes] == [item.name for item in pools if item.is_sick]
    made = [cube for make in played.makes for cube in make.cubes]
    assert len(made) == len(set(made))
    assert not bad.intersection(made)
    gone = {item.name for item in played.deletes} | {
        item.name for make in played.makes for item in make.merged
    }
    assert all(cube not in home or home[cube].name in gone for cube in made)
    assert all(len(make.cubes) == make.size.cubes for make in played.makes)
    merged = [item.name for make in played.makes for item in make.merged]
    assert len(merged) == len(set(merged))
