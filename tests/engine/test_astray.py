"""Nodes that lack only a label: nothing is gone, and what runs there is seen."""

import dataclasses
import datetime

import pytest

from tests import builders
from tests.engine.reconciling import stage
from tpuctl.engine import astray, blast, health, leftovers, swapping
from tpuctl.model import fleet, operations, states

Verdict = states.Verdict


def on_slice(cube: fleet.Cube, name: str) -> fleet.Cube:
    hosts = tuple(host._replace(slice_name=name) for host in cube.hosts)
    return dataclasses.replace(cube, hosts=hosts)


MEMBER, LOST, SPARE = on_slice(stage.with_pool(0), "train"), stage.with_pool(1), stage.with_pool(2)
TRAIN = builders.slice_of("train", "4x4x8", MEMBER.id, LOST.id)
PODS = tuple(builders.pod(f"p{number}", LOST.hosts[number].name) for number in range(16))
OTHER_PODS = tuple(builders.pod(f"q{number}", MEMBER.hosts[number].name) for number in range(16))


def seen(*cubes, slices=(TRAIN,), pods=(*PODS, *OTHER_PODS), strays=()):
    return dataclasses.replace(stage.hardware(*cubes, slices=slices, pods=pods), strays=strays)


def all_lost(**changes: object) -> fleet.Fleet:
    cube, strays = builders.unlabelled(on_slice(LOST, "train"), **changes)
    return seen(MEMBER, cube, SPARE, strays=strays)


def one_lost(**changes: object) -> fleet.Fleet:
    cube, strays = builders.unlabelled(on_slice(LOST, "train"), 3, **changes)
    return seen(MEMBER, cube, SPARE, strays=strays)


# -- verdicts --------------------------------------------------------------------------------------------


def test_a_cube_whose_node_lacks_the_label_is_unknown_and_says_which() -> None:
    cube, _ = builders.unlabelled(LOST, 3)
    found = health.judge(cube, now=builders.NOW)
    assert found.verdict is Verdict.UNKNOWN
    assert found.reasons == ("node node-b1-c01-03 of its node pool carries no partition label",)
    assert found.usable_hosts == 15


def test_a_cube_without_any_labelled_node_is_unknown() -> None:
    cube, _ = builders.unlabelled(LOST)
    found = health.judge(cube, now=builders.NOW)
    assert (cube.id, found.verdict) == ("sb01", Verdict.UNKNOWN)
    nodes = "node-b1-c01-00, node-b1-c01-01, node-b1-c01-02 and 13 more"
    assert found.reasons == (f"nodes {nodes} of its node pool carry no partition label",)


def test_a_node_that_is_really_gone_counts_beside_one_that_lacks_its_label() -> None:
    cube, _ = builders.unlabelled(LOST, 3)
    found = health.judge(dataclasses.replace(cube, hosts=cube.hosts[1:]), now=builders.NOW)
    assert found.verdict is Verdict.INCOMPLETE
    assert "15 of 16 hosts have a node" in found.reasons


def test_a_pool_in_error_is_no_finding_while_all_its_nodes_are_there() -> None:
    cube, _ = builders.unlabelled(dataclasses.replace(LOST, pool=stage.pool(1, "ERROR")), 3)
    found = health.judge(cube, now=builders.NOW)
    assert found.verdict is Verdict.UNKNOWN
    assert len(found.troubles) == 1


@pytest.mark.parametrize("snapshot", [all_lost(), one_lost()], ids=["all", "one"])
def test_the_slice_is_unknown_and_names_the_nodes(snapshot: fleet.Fleet) -> None:
    judged = {cube.id: health.judge(cube, now=builders.NOW) for cube in snapshot.cubes}
    found = health.judge_slice(snapshot, TRAIN, judged)
    assert found.verdict is Verdict.UNKNOWN
    assert any("that may be of it" in reason and "no partition label" in reason for reason in found.reasons)


def test_a_sub_slice_is_unknown_while_its_nodes_may_be_there() -> None:
    sub = builders.slice_of("eval", "2x2x2", "b1-c01.222.1")
    cube, strays = builders.unlabelled(LOST, 2, 3)
    snapshot = seen(cube, slices=(sub,), strays=strays)
    assert health.judge_slice(snapshot, sub, {}).verdict is Verdict.UNKNOWN
    gone = seen(dataclasses.replace(cube, strays=()), slices=(sub,))
    assert health.judge_slice(gone, sub, {}).verdict is Verdict.INCOMPLETE


# -- whose they are --------------------------------------------------------------------------------------


def test_the_label_of_a_slice_counts_most() -> None:
    other = builders.slice_of("other", "4x4x4", "nowhere")
    cube, strays = builders.unlabelled(on_slice(LOST, "train"))
    snapshot = seen(MEMBER, cube, slices=(TRAIN, other), strays=strays)
    assert len(astray.of_slice(snapshot, TRAIN)) == 16
    assert astray.of_slice(snapshot, other) == ()


def test_a_partition_id_that_is_left_names_the_slice() -> None:
    sub = builders.slice_of("eval", "2x2x1", "b1-c01.221.3")
    cube, _ = builders.unlabelled(LOST, 3)
    carrying = builders.stray(LOST.hosts[3], partition_ids=("b1-c01.221.3",))
    snapshot = seen(cube, slices=(sub, builders.slice_of("x", "2x2x1", "b1-c01.221.99")), strays=(carrying,))
    [node] = astray.of_slice(snapshot, sub)
    assert (node.name, node.is_sure, node.is_labelled) == ("node-b1-c01-03", True, True)


def test_without_a_word_it_may_be_of_every_slice_that_lacks_a_cube() -> None:
    other = builders.slice_of("other", "4x4x4", "nowhere")
    snapshot = all_lost(slice_name="")
    assert {node.is_sure for node in astray.of_slice(snapshot, TRAIN)} == {True}
    both = dataclasses.replace(snapshot, slices=(TRAIN, other))
    assert {node.is_sure for node in astray.of_slice(both, TRAIN)} == {False}
    assert len(astray.of_slice(both, other)) == 16


@pytest.mark.parametrize(
    "changes",
    [{"is_static": True}, {"created_at": builders.NOW + datetime.timedelta(seconds=1)}],
    ids=["of a static pool", "younger than the slice"],
)
def test_what_cannot_be_of_the_slice_is_not(changes: dict[str, object]) -> None:
    snapshot = all_lost(slice_name="", **changes)
    assert astray.of_slice(snapshot, TRAIN) == ()
    assert astray.instead_of_lost(snapshot, TRAIN) == ()


def test_too_few_nodes_for_a_cube_prove_that_it_is_gone() -> None:
    snapshot = all_lost()
    assert len(astray.instead_of_lost(snapshot, TRAIN)) == 16
    fewer = dataclasses.replace(snapshot, strays=snapshot.strays[:15])
    assert astray.instead_of_lost(fewer, TRAIN) == ()


# -- plans -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("snapshot", [all_lost(), all_lost(slice_name=""), one_lost()])
def test_no_cube_is_swapped_for_a_label(snapshot: fleet.Fleet) -> None:
    assert isinstance(swapping.plan_swap(snapshot, TRAIN, swapping.Wish()), swapping.Whole)


@pytest.mark.parametrize("snapshot", [all_lost(), all_lost(slice_name=""), one_lost()])
def test_a_swap_by_name_shows_the_pods_on_such_nodes(snapshot: fleet.Fleet) -> None:
    found = swapping.plan_swap(snapshot, TRAIN, swapping.Wish(bad=(LOST.id,)))
    assert isinstance(found, swapping.SwapPlan)
    assert found.exchanges == (operations.Exchange(LOST.id, SPARE.id),)
    assert (len(found.restarted), len(found.kept)) == (16, 16)
    assert len(found.cordons) == 16
    assert "no partition label" in found.reasons[0]


def test_a_swap_of_another_cube_keeps_them() -> None:
    found = swapping.plan_swap(one_lost(), TRAIN, swapping.Wish(bad=(MEMBER.id,)))
    assert isinstance(found, swapping.SwapPlan)
    assert {pod.name for pod in found.kept} == {pod.name for pod in PODS}


def test_pods_that_may_be_another_slices_are_not_ended() -> None:
    other = builders.slice_of("other", "4x4x4", "nowhere")
    snapshot = dataclasses.replace(all_lost(slice_name=""), slices=(TRAIN, other))
    found = swapping.plan_swap(snapshot, TRAIN, swapping.Wish(bad=(LOST.id,)))
    assert isinstance(found, swapping.Impossible)
    assert found.why is swapping.Why.ASTRAY
    assert found.detail == "node-b1-c01-00, node-b1-c01-01, node-b1-c01-02 and 13 more"


def test_a_cube_that_is_gone_is_swapped_at_once() -> None:
    bare = dataclasses.replace(LOST, id="sb01", hosts=())
    found = swapping.plan_swap(seen(MEMBER, bare, SPARE), TRAIN, swapping.Wish())
    assert isinstance(found, swapping.SwapPlan)
    assert found.reasons == ("no node of it exists",)


@pytest.mark.parametrize("snapshot", [all_lost(), all_lost(slice_name=""), one_lost()])
def test_the_blast_radius_has_them(snapshot: fleet.Fleet) -> None:
    found = blast.of_slice(snapshot, TRAIN)
    assert (len(found.pods), found.hosts, found.chips) == (32, 32, 128)
    assert blast.of_hosts(snapshot, MEMBER.hosts[:1]) == found


def test_pods_there_outside_any_slice_claim_the_cube() -> None:
    cube, strays = builders.unlabelled(LOST, 3)
    snapshot = seen(MEMBER, cube, slices=(), pods=PODS[3:4], strays=strays)
    assert set(leftovers.with_leftovers(snapshot).claimants) == {LOST.id}
    held = seen(MEMBER, cube, pods=PODS[3:4], strays=strays)
    assert leftovers.with_leftovers(held) is held


# -- node pools ------------------------------------------------------------------------------------------


def test_who_uses_a_pool_whose_nodes_lost_their_labels() -> None:
    assert astray.users_of_pool(all_lost(), stage.pool(1)) == (
        "slice train",
        "16 pods on nodes without a partition label",
    )
    assert astray.users_of_pool(all_lost(), stage.pool(2)) == ()


def test_a_pool_without_nodes_may_be_that_of_a_slice_that_lacks_a_cube() -> None:
    bare = dataclasses.replace(LOST, id="sb01", hosts=())
    says = "slice train, which may lie here: it names a partition that no node carries"
    assert astray.users_of_pool(seen(MEMBER, bare), stage.pool(1)) == (says,)
    elsewhere = stage.pool(1)._replace(block="b9")
    assert astray.users_of_pool(seen(MEMBER, bare), elsewhere) == ()
