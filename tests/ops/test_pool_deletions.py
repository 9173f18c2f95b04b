"""Deleting node pools beside others who work on the fleet, and what is told when it is refused."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from starlette import responses

from tests.ops import test_swapping as swaps
from tests.ops.conftest import Recorder, whole
from tests.ops.test_pool_faults import answering, started
from tpuctl.model import errors, topology
from tpuctl.ops import forming, holding, pool_deletion

if TYPE_CHECKING:
    from collections.abc import Callable

    from tpuctl.cli.rehearsal import Rehearsal

BUSY = {
    "error": {
        "code": 400,
        "status": "FAILED_PRECONDITION",
        "message": "Cluster is running incompatible operation operation-1",
    }
}


class Another:
    """Somebody else, on another machine."""

    def actor(self) -> str:
        return "jo@elsewhere:1"

    def is_dead(self, _holder: str) -> bool:
        return False


class Meanwhile(Recorder):
    """Does something once, while the cluster is busy."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__()
        self._act: Callable[[], object] | None = act

    def step(self, text: str) -> None:
        super().step(text)
        if "the cluster is busy" in text and self._act is not None:
            act, self._act = self._act, None
            act()


def busy_for(pool: str, times: int) -> Callable[[object], object]:
    """Answers so many deletions of a pool with "busy"."""
    left = [None] * times

    def answer(request):
        if request.method == "DELETE" and request.url.path.endswith(pool) and left:
            left.pop()
            return responses.JSONResponse(BUSY, status_code=400)
        return None

    return answer


def form_elsewhere(scene: Rehearsal, cube_id: str) -> None:
    ports = dataclasses.replace(scene.ports, identity=Another())
    forming.form(ports, Recorder(), "theirs", forming.request(topology.CUBE, cubes=(cube_id,)))


def test_while_the_cluster_is_busy_others_may_form_slices(scene: Rehearsal) -> None:
    pools = scene.ports.pools.list()[:2]
    other = next(cube for cube in whole(scene).cubes if cube.pool.name not in {pool.name for pool in pools})
    reporter = Meanwhile(lambda: form_elsewhere(scene, other.id))
    with answering(scene, busy_for(pools[1].name, 5)):
        pool_deletion.execute(scene.ports, reporter, pools)
    assert whole(scene).slices_by_name["theirs"].state.is_ready
    assert not {pool.name for pool in pools} & {pool.name for pool in scene.ports.pools.list()}


def test_and_what_they_formed_meanwhile_is_seen_before_the_next_try(scene: Rehearsal) -> None:
    pools = scene.ports.pools.list()[:2]
    cube = next(cube for cube in whole(scene).cubes if cube.pool.name == pools[1].name)
    reporter = Meanwhile(lambda: form_elsewhere(scene, cube.id))
    with answering(scene, busy_for(pools[1].name, 5)), pytest.raises(errors.Conflict) as refused:
        pool_deletion.execute(scene.ports, reporter, pools)
    assert refused.value.details == (
        f"{pools[1].name}: slice theirs",
        f"{pools[0].name}: its deletion was asked for",
    )
    assert len(started(scene, "DELETE_NODE_POOL")) == 1


def test_a_deletion_that_runs_already_is_waited_for(scene: Rehearsal, reporter: Recorder) -> None:
    """The same command again, after Ctrl-C."""
    [pool] = scene.ports.pools.list()[:1]
    pool_deletion.execute(scene.ports, reporter, [pool], wait=False)
    scene.simulator.advance(5)
    found = pool_deletion.prepare(scene.ports, [pool.name])
    pool_deletion.execute(scene.ports, reporter, found)
    assert pool.name not in {item.name for item in scene.ports.pools.list()}
    assert len(started(scene, "DELETE_NODE_POOL")) == 1
    pool_deletion.execute(scene.ports, reporter, found)
    assert len(started(scene, "DELETE_NODE_POOL")) == 1


def test_a_refusal_names_the_commands_that_free_the_pool(
    scene: Rehearsal, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *_, last = (cube for cube in whole(scene).cubes if cube.pool is not None)
    holding.hold(scene.ports, last.id, reason="burn-in")

    def hint(*cubes):
        with pytest.raises(errors.Conflict) as refused:
            pool_deletion.prepare(scene.ports, [cube.pool.name for cube in cubes])
        return refused.value.hint

    assert hint(last) == f"first: tpuctl cube release {last.id}"
    forming.form(scene.ports, Recorder(), "small", forming.request(topology.CUBE, cubes=(first.id,)))
    assert hint(first, last) == f"first: tpuctl slice deform small; tpuctl cube release {last.id}"
    assert hint(first) == "first: tpuctl slice deform small"


def test_a_slice_with_an_open_operation_is_not_to_be_taken_apart_first(
    scene: Rehearsal, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = swaps.busy_slice(scene)
    assert swaps.killed_at(scene, monkeypatch, 1) is not None
    pool = whole(scene).cubes_by_id[before.partition_ids[0]].pool
    assert pool is not None
    with pytest.raises(errors.Conflict) as refused:
        pool_deletion.prepare(scene.ports, [pool.name])
    assert refused.value.hint == "first: tpuctl operation resume swap-train"
