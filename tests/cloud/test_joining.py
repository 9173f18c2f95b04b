"""Joining nodes, node pools and reserved capacity."""

from __future__ import annotations

import random

from tests.cloud import manifests
from tpuctl.cloud import documents, joining
from tpuctl.model import fleet, invariants, states


def nodes(*cubes):
    return [documents.node(document) for cube in cubes for document in cube]


def pool(name, sub_block="", block="", reservation="r1"):
    return fleet.NodePool(
        name, states.PoolStatus.RUNNING, "RUNNING", sub_block, block, reservation, "pol", 16
    )


def sub_block(name, physical=""):
    return fleet.SubBlock(name, physical, "HEALTHY", 16, 0, 16, 0)


def reserved(name, physical, *sub_blocks):
    return fleet.ReservedBlock(reservation="r1", name=name, physical_id=physical, sub_blocks=sub_blocks)


def as_fleet(blocks, strays=()):
    return fleet.Fleet(cluster="c", observed_at=documents._LONG_AGO, blocks=blocks, strays=strays)


def test_nodes_make_cubes_and_cubes_make_blocks():
    found = nodes(
        manifests.cube("c3", block="b2"), manifests.cube("c2", block="b1"), manifests.cube("c1", block="b1")
    )
    blocks, strays = joining.blocks_of(found, (), ())
    assert [(block.id, [cube.id for cube in block.cubes]) for block in blocks] == [
        ("b1", ["c1", "c2"]),
        ("b2", ["c3"]),
    ]
    assert [host.name for host in blocks[0].cubes[0].hosts] == [f"c1-{index:02d}" for index in range(16)]
    assert strays == ()
    assert invariants.check_invariants(as_fleet(blocks)) == ()


def test_the_order_of_the_lists_does_not_matter():
    found = nodes(*[manifests.cube(f"c{number}", block=f"b{number % 3}") for number in range(9)])
    pools = [pool(f"p{number}", f"s{number}", "rb") for number in range(4)]
    expected = joining.blocks_of(found, pools, ())
    for seed in range(5):
        generator = random.Random(seed)
        shuffled = generator.sample(found, len(found))
        assert joining.blocks_of(shuffled, generator.sample(pools, len(pools)), ()) == expected


def test_a_cube_whose_hosts_name_two_blocks_is_cut_to_the_majority():
    documents_ = manifests.cube("c1", block="b1")
    documents_[0] = manifests.node("odd", cube="c1", block="b9")
    blocks, strays = joining.blocks_of(nodes(documents_), (), ())
    assert [block.id for block in blocks] == ["b1"]
    assert len(blocks[0].cubes[0].hosts) == 15
    assert [stray.node for stray in strays] == ["odd"]
    assert "b9" in strays[0].why


def test_equal_halves_are_decided_by_the_smaller_id():
    half = [manifests.node("a", cube="c1", block="b2"), manifests.node("b", cube="c1", block="b1")]
    blocks, strays = joining.blocks_of(nodes(half), (), ())
    assert [block.id for block in blocks] == ["b1"]
    assert [stray.node for stray in strays] == ["a"]


def test_a_cube_and_a_block_of_the_same_name_are_both_there():
    blocks, _ = joining.blocks_of(nodes(manifests.cube("same", block="same")), (), ())
    assert blocks[0].id == blocks[0].cubes[0].id == "same"


def test_pools_join_by_label_and_name_their_block():
    found = nodes(manifests.cube("c1", pool="p1", block="b1"))
    blocks, _ = joining.blocks_of(found, [pool("p1", "s1", "res-block-1"), pool("unrelated")], ())
    assert blocks[0].cubes[0].pool.name == "p1"
    assert (blocks[0].name, blocks[0].reservation) == ("res-block-1", "r1")
    assert len(blocks) == 1


def test_a_pool_without_nodes_is_a_cube_called_after_its_sub_block():
    found = nodes(manifests.cube("c1", pool="p1", block="b1"))
    pools = [
        pool("p1", "s1", "res-block-1"),
        pool("p2", "s2", "res-block-1"),
        pool("p3", "s3", "res-block-2"),
    ]
    blocks, _ = joining.blocks_of(found, pools, ())
    cubes = {
        cube.id: (cube.block, cube.pool.name, cube.has_nodes) for block in blocks for cube in block.cubes
    }
    assert cubes == {
        "c1": ("b1", "p1", True),
        "s2": ("b1", "p2", False),  # its block's id is known from p1
        "s3": ("res-block-2", "p3", False),
    }


def test_reserved_capacity_adds_what_has_no_nodes():
    found = nodes(manifests.cube("c1", pool="p1", block="phys-1", sub_block="phys-s1"))
    capacity = [
        reserved("rb-1", "phys-1", sub_block("s1", "phys-s1"), sub_block("s2", "phys-s2")),
        reserved("rb-2", "phys-2", sub_block("s3", "phys-s3")),
    ]
    blocks, _ = joining.blocks_of(found, [pool("p1", "s1", "rb-1"), pool("p2", "s2", "rb-1")], capacity)
    assert [(block.id, block.name, block.reservation) for block in blocks] == [
        ("phys-1", "rb-1", "r1"),
        ("phys-2", "rb-2", "r1"),
    ]
    seen = {cube.id: cube for block in blocks for cube in block.cubes}
    assert sorted(seen) == ["c1", "s2", "s3"]
    assert seen["c1"].sub_block.name == "s1"
    assert (seen["s2"].pool.name, seen["s2"].sub_block.name) == ("p2", "s2")
    assert seen["s3"].pool is None


def test_a_sub_block_is_also_found_by_the_path_of_its_pool():
    found = nodes(manifests.cube("c1", pool="p1", block="phys-1", sub_block=""))
    capacity = [reserved("rb-1", "phys-1", sub_block("s1"))]
    blocks, _ = joining.blocks_of(found, [pool("p1", "s1", "rb-1")], capacity)
    assert [cube.id for cube in blocks[0].cubes] == ["c1"]
    assert blocks[0].cubes[0].sub_block.name == "s1"


def test_a_block_without_a_physical_id_goes_by_its_name():
    blocks, _ = joining.blocks_of((), (), [reserved("rb-1", "", sub_block("s1"))])
    assert (blocks[0].id, blocks[0].label, blocks[0].cubes[0].block) == ("rb-1", "rb-1", "rb-1")


def test_nothing_is_nothing():
    assert joining.blocks_of((), (), ()) == ((), ())


# -- joined again ----------------------------------------------------------------------------------------


def world(**changed):
    """Six cubes in two blocks, one of them without nodes; `changed` are fields of one node."""
    documents_ = [
        manifests.cube(f"c{number}", block=f"b{number % 2}", pool=f"p{number}") for number in range(5)
    ]
    if changed:
        documents_[2][7] = manifests.node("c2-07", cube="c2", block="b0", pool="p2", **changed)
    pools = [pool(f"p{number}", f"s{number}", "rb") for number in range(5)]
    return (
        nodes(*documents_),
        pools,
        [reserved("rb", "b0", *(sub_block(f"s{number}") for number in range(6)))],
    )


def test_what_has_not_changed_is_the_same_object_again():
    joiner = joining.Joiner()
    blocks, _ = joiner.blocks_of(*world())
    again, _ = joiner.blocks_of(*world())
    assert again is blocks


def test_a_change_of_one_host_is_a_new_cube_in_a_new_block_and_nothing_else():
    joiner = joining.Joiner()
    before, _ = joiner.blocks_of(*world())
    after, strays = joiner.blocks_of(*world(ready="False"))
    assert (after, strays) == joining.blocks_of(*world(ready="False"))
    assert [block.id for block, was in zip(after, before, strict=True) if block is not was] == ["b0"]
    cubes = zip(after[0].cubes, before[0].cubes, strict=True)
    assert [cube.id for cube, was in cubes if cube is not was] == ["c2"]
    back, _ = joiner.blocks_of(*world())
    assert back == before


def test_whatever_was_joined_before_the_result_is_the_same():
    joiner = joining.Joiner()
    generator = random.Random(3)
    for _ in range(60):
        found, pools, capacity = world()
        found = generator.sample(found, generator.randrange(len(found) + 1))
        pools = generator.sample(pools, generator.randrange(len(pools) + 1))
        capacity = capacity[: generator.randrange(2)]
        assert joiner.blocks_of(found, pools, capacity) == joining.blocks_of(found, pools, capacity)


def test_hosts_that_contradict_each_other_are_told_each_time():
    documents_ = manifests.cube("c1", block="b1")
    documents_[0] = manifests.node("odd", cube="c1", block="b9")
    joiner = joining.Joiner()
    for _ in range(2):
        blocks, strays = joiner.blocks_of(nodes(documents_), (), ())
        assert [len(cube.hosts) for block in blocks for cube in block.cubes] == [15]
        assert [stray.node for stray in strays] == ["odd"]


CUBE_LABEL = "cloud.google.com/gke-tpu-partition-4x4x4-id"
POOL_LABEL = "cloud.google.com/gke-nodepool"
SLICE_LABEL = "cloud.google.com/gke-tpu-slice"


def without_label(documents_, *indexes, **labels):
    """The node documents after some of them lost the label of their cube; other labels are set as told."""
    for index in indexes:
        found = documents_[index]["metadata"]["labels"]
        del found[CUBE_LABEL]
        for key, value in labels.items():
            name = {"pool": POOL_LABEL, "slice_name": SLICE_LABEL}[key]
            found.pop(name, None)
            if value:
                found[name] = value
    return documents_


def in_pool(documents_, name):
    for document in documents_:
        document["metadata"]["labels"][POOL_LABEL] = name
    return documents_


def test_a_node_that_lost_its_cube_stays_with_its_node_pool():
    whole = in_pool(manifests.cube("c0", block="b1"), "p0")
    documents_ = without_label(in_pool(manifests.cube("c1", block="b1"), "p1"), 3)
    blocks, strays = joining.blocks_of(nodes(whole, documents_), (), ())
    assert [(cube.id, len(cube.hosts), cube.strays) for cube in blocks[0].cubes] == [
        ("c0", 16, ()),
        ("c1", 15, ("c1-12",)),
    ]
    assert [(stray.node, stray.pool, stray.is_static) for stray in strays] == [("c1-12", "p1", False)]
    assert invariants.check_invariants(as_fleet(blocks, strays)) == ()


def test_so_do_all_nodes_of_a_pool():
    documents_ = without_label(in_pool(manifests.cube("c1", block="b1"), "p1"), *range(16))
    blocks, strays = joining.blocks_of(nodes(documents_), (pool("p1", "s1", "rb"),), ())
    [cube] = blocks[0].cubes
    assert (cube.id, cube.hosts, len(cube.strays)) == ("s1", (), 16)
    assert len(strays) == 16


def test_without_a_pool_the_label_of_the_slice_tells():
    documents_ = in_pool(manifests.cube("c1", block="b1"), "p1")
    for document in documents_:
        document["metadata"]["labels"][SLICE_LABEL] = "train"
    blocks, _ = joining.blocks_of(nodes(without_label(documents_, 3, pool="")), (), ())
    assert blocks[0].cubes[0].strays == ("c1-12",)


def test_a_full_cube_lacks_no_node():
    documents_ = in_pool(manifests.cube("c1", block="b1"), "p1")
    more = without_label(in_pool(manifests.cube("c2", block="b1")[:1], "p1"), 0)
    blocks, strays = joining.blocks_of(nodes(documents_, more), (), ())
    assert blocks[0].cubes[0].strays == ()
    assert len(strays) == 1


def test_nodes_of_another_kind_of_pool_are_nobodys():
    documents_ = in_pool(manifests.cube("c1", block="b1")[:15], "p1")
    static = without_label(in_pool(manifests.cube("c2", block="b1")[:1], "p1"), 0)
    static[0]["metadata"]["labels"]["cloud.google.com/gke-accelerator-topology-mode"] = "AUTO_CONNECT"
    blocks, strays = joining.blocks_of(nodes(documents_, static), (), ())
    assert blocks[0].cubes[0].strays == ()
    assert strays[0].is_static


def test_a_cube_is_another_one_once_a_node_lost_its_label():
    joiner = joining.Joiner()
    before, _ = joiner.blocks_of(nodes(in_pool(manifests.cube("c1", block="b1")[:15], "p1")), (), ())
    documents_ = without_label(in_pool(manifests.cube("c1", block="b1"), "p1"), 15)
    after, _ = joiner.blocks_of(nodes(documents_), (), ())
    assert (before[0].cubes[0].strays, after[0].cubes[0].strays) == ((), ("c1-00",))
