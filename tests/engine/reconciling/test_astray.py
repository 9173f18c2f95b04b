"""Nodes that lose the label of their cube under what runs: the loop leaves it alone, and tells."""

import dataclasses

import pytest

from tests import builders
from tests.engine.reconciling import stage
from tpuctl.engine import reconciling as engine
from tpuctl.model import declared, fleet, reconciling

MEMBER, LOST = stage.with_pool(0), stage.with_pool(1)
OTHERS = [stage.with_pool(number) for number in range(2, 10)]
TRAIN = builders.slice_of("train", "4x4x8", MEMBER.id, LOST.id, created_at=stage.LONG_AGO)
PODS = tuple(
    builders.pod(f"{cube.id}-{number}", cube.hosts[number].name)
    for cube in (MEMBER, LOST)
    for number in range(16)
)
DAY_S = 86_400.0
ALL = tuple(range(16))


def seen(indexes, *others, item=TRAIN, wanted=(), pods=PODS, slice_name=None, **more):
    label = item.name if slice_name is None else slice_name
    cube, strays = builders.unlabelled(LOST, *indexes, slice_name=label)
    snapshot = stage.hardware(MEMBER, cube, *others, slices=(item,), pods=pods)
    spec = stage.spec(*(wanted or (stage.want("train", "4x4x8"),)), **more)
    blocks = stage.reserved(MEMBER, cube, *others)
    return stage.view(dataclasses.replace(snapshot, strays=strays), spec, blocks=blocks)


def looked_at(view: engine.View, times: int = 4, seconds: float = 600.0):
    """Everything that is to be done in some cycles, and the last of them."""
    actions = []
    for _ in range(times):
        found = engine.decide(view)
        actions += found.actions
        view = stage.later(view, found, seconds)
    return actions, found


def told(found) -> str:
    return " ".join(entry.text for entry in found.memory.recommendations if entry.subject == "slice/train")


@pytest.mark.parametrize("indexes", [ALL, (3,)], ids=["all nodes", "one node"])
@pytest.mark.parametrize("label", ["train", ""], ids=["slice label kept", "slice label gone"])
def test_a_running_slice_is_not_swapped_for_labels(indexes: tuple[int, ...], label: str) -> None:
    actions, found = looked_at(seen(indexes, *OTHERS, slice_name=label))
    assert actions == []
    assert "that may be of it" in told(found)
    assert "no partition label, which is no reason to touch it" in told(found)


@pytest.mark.parametrize("indexes", [ALL, (3,)], ids=["all nodes", "one node"])
def test_nor_a_failed_one(indexes: tuple[int, ...]) -> None:
    actions, found = looked_at(seen(indexes, *OTHERS, item=stage.failed(TRAIN)))
    assert actions == []
    assert "in an unknown state, which proves nothing" in dict(found.waiting)["train"]


@pytest.mark.parametrize("state", ["ACTIVE", "FAILED"])
@pytest.mark.parametrize("indexes", [ALL, (0, 1)], ids=["all nodes", "its nodes"])
def test_a_sub_slice_is_not_taken_apart(indexes: tuple[int, ...], state: str) -> None:
    sub = builders.slice_of("eval", "2x2x2", f"{LOST.id}.222.0", created_at=stage.LONG_AGO)
    item = sub if state == "ACTIVE" else stage.failed(sub)
    pods = tuple(builders.pod(f"p{number}", LOST.hosts[number].name) for number in range(2))
    actions, _ = looked_at(
        seen(indexes, *OTHERS, item=item, pods=pods, wanted=(stage.want("eval", "2x2x2"),))
    )
    assert actions == []


@pytest.mark.parametrize("indexes", [ALL, (3,)], ids=["all nodes", "one node"])
def test_the_pods_of_a_slice_that_nobody_wants_are_counted(indexes: tuple[int, ...]) -> None:
    view = seen(indexes, *OTHERS, wanted=(stage.want("other", "4x4x4"),), prune_grace_s=0.0)
    _, found = stage.second_look(view)
    action = stage.one(found, reconciling.ActionKind.DEFORM)
    assert (action.target, action.chips, action.pods_kept) == ("train", 128, 32)


@pytest.mark.parametrize("indexes", [ALL, (3, 4, 5)], ids=["all nodes", "some nodes"])
@pytest.mark.parametrize("status", ["RUNNING", "ERROR"])
def test_a_pool_is_not_made_again_for_labels(indexes: tuple[int, ...], status: str) -> None:
    """No spare: the pool that seems short would be next."""
    view = seen(
        indexes,
        blocks=(declared.BlockSpec(name="b1"),),
        remediation=declared.Remediation(reprovision=declared.Permission.ALLOW),
    )
    pools = (stage.pool(0), stage.pool(1, status))
    actions, _ = looked_at(dataclasses.replace(view, pools=pools), seconds=DAY_S)
    assert actions == []


def test_a_pool_without_nodes_is_not_made_again_while_a_slice_may_lie_there() -> None:
    bare = stage.with_pool(1, hosts=0, status="ERROR")
    snapshot = stage.hardware(MEMBER, bare, slices=(stage.failed(TRAIN),))
    spec = stage.spec(blocks=(declared.BlockSpec(name="b1"),))
    view = stage.view(snapshot, spec, blocks=stage.reserved(MEMBER, bare), memory=stage.memory())
    assert looked_at(view, seconds=DAY_S)[0] == []
    free = dataclasses.replace(view, snapshot=dataclasses.replace(snapshot, slices=()))
    assert {action.id for action in looked_at(free, seconds=DAY_S)[0]} == {"recreate-pool/cube-sb01"}


def test_nodes_that_are_gone_are_mended_as_ever() -> None:
    """No node object is left: that is a failure, not a label."""
    bare = dataclasses.replace(LOST, id="sb01", hosts=())
    snapshot: fleet.Fleet = stage.hardware(MEMBER, bare, *OTHERS, slices=(TRAIN,), pods=PODS[:16])
    _, found = stage.second_look(stage.view(snapshot, stage.spec(stage.want("train", "4x4x8"))))
    assert stage.lines(found) == ["swap/train"]
