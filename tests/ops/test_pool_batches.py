"""Many creations at once, while answers are lost, the service is away, or the cluster is busy for a while."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from starlette import responses

from tests.ops.conftest import Recorder, scene_of
from tests.ops.test_carving import POLICY, counts, setup
from tests.ops.test_pool_faults import answering, intercepted, running_at, started
from tpuctl.model import errors
from tpuctl.ops import carving, operations

if TYPE_CHECKING:
    from tpuctl.cli import rehearsal

AWAY = 503, "The service is currently unavailable."
TAKEN = 409, "Already exists: node pool."
BUSY = 400, "Cluster is running incompatible operation operation-upgrade."


def refusal(code: int, message: str) -> responses.JSONResponse:
    return responses.JSONResponse({"error": {"code": code, "message": message}}, status_code=code)


class Service:
    """The GKE API, which is away for a while after one creation."""

    def __init__(self, scene: rehearsal.Rehearsal, *, at: int, away_s: float, commits: bool) -> None:
        self._clock = scene.simulator.world.clock
        self._at = at
        self._away_s = away_s
        self._commits = commits
        self._back_s: float | None = None
        self.creations = 0

    async def __call__(self, request, proceed):
        if self._back_s is not None and self._clock.now_s < self._back_s:
            return refusal(*AWAY)
        if request.method != "POST" or not request.url.path.endswith("/nodePools"):
            return None
        self.creations += 1
        if self.creations != self._at:
            return None
        if self._commits:
            await proceed()
        self._back_s = self._clock.now_s + self._away_s
        return refusal(*AWAY)


@pytest.mark.parametrize("commits", [True, False], ids=["made", "not made"])
@pytest.mark.parametrize("away_s", [0.0, 60.0, 300.0])
def test_an_open_outcome_of_one_pool_is_cleared_up_and_the_others_go_on(
    reporter: Recorder, commits: bool, away_s: float
) -> None:
    """Of the third creation nobody hears, and for a while nobody can look either."""
    with scene_of(cubes=6, slice_controller=True) as scene:
        with intercepted(scene, Service(scene, at=3, away_s=away_s, commits=commits)):
            outcome = setup(scene, reporter)
        assert counts(outcome) == {"full": 6, "partial": 0, "failed": 0}
        assert reporter.warnings == []
        assert len(started(scene, "CREATE_NODE_POOL")) == 6, "each pool was made once"
        looked_again = [step for step in reporter.steps if "is looked at again" in step]
        assert bool(looked_again) == (away_s > 0)


def test_an_outage_without_end_ends_the_run(reporter: Recorder) -> None:
    with scene_of(cubes=6, slice_controller=True) as scene:
        clock = scene.ports.clock
        with intercepted(scene, Service(scene, at=3, away_s=1e9, commits=True)):
            prepared = carving.prepare(scene.ports, policy=POLICY)
            begun_s = clock.monotonic_s()
            with pytest.raises(errors.Unavailable, match="cannot list operations"):
                carving.execute(scene.ports, reporter, prepared)
        assert operations.PATIENCE_S < clock.monotonic_s() - begun_s < operations.PATIENCE_S + 120
        again = setup(scene, reporter)
        assert counts(again) == {"full": 6, "partial": 0, "failed": 0}


def asks_for(spec, request_body: dict) -> bool:
    return request_body["nodePool"]["name"] == spec.name


def test_a_pool_that_is_never_answered_fails_alone(reporter: Recorder) -> None:
    with scene_of(cubes=4, slice_controller=True) as scene:
        prepared = carving.prepare(scene.ports, policy=POLICY)
        unlucky = prepared.plan.create[1]
        asked = []

        async def service(request, _proceed):
            if request.method != "POST" or not request.url.path.endswith("/nodePools"):
                return None
            if not asks_for(unlucky, await request.json()):
                return None
            asked.append(scene.simulator.world.clock.now_s)
            return refusal(*AWAY)

        with intercepted(scene, service):
            outcome = carving.execute(scene.ports, reporter, prepared)
        assert counts(outcome) == {"full": 3, "partial": 0, "failed": 1}
        [failed] = [item for item in outcome.results if item.result is carving.Result.FAILED]
        assert failed.pool == unlucky.name
        assert f"cannot create node pool {unlucky.name}" in failed.why
        turns = [now for before, now in itertools.pairwise(asked) if now - before >= operations.POLL_S]
        assert 1 + len(turns) == operations.MAX_TRIES


def test_a_creation_that_arrives_late_is_not_a_name_that_somebody_took(reporter: Recorder) -> None:
    """Nothing was seen of the first request; the second is told that the pool exists."""
    with scene_of(cubes=3, slice_controller=True) as scene:
        prepared = carving.prepare(scene.ports, policy=POLICY)
        late = prepared.plan.create[0]
        lost_until_s = scene.simulator.world.clock.now_s + 25.0

        async def service(request, proceed):
            if request.method != "POST" or not request.url.path.endswith("/nodePools"):
                return None
            if not asks_for(late, await request.json()):
                return None
            if scene.simulator.world.clock.now_s < lost_until_s:
                return refusal(*AWAY)
            await proceed()
            return refusal(*TAKEN)

        with intercepted(scene, service):
            outcome = carving.execute(scene.ports, reporter, prepared)
        assert counts(outcome) == {"full": 3, "partial": 0, "failed": 0}
        assert reporter.warnings == []


def test_a_cluster_that_was_busy_for_a_while_gets_many_at_once_again(reporter: Recorder) -> None:
    """It was busy with an upgrade while one creation ran: that says nothing of how many it takes."""
    with scene_of(cubes=24, slice_controller=True) as scene:
        clock = scene.simulator.world.clock
        busy_until_s: list[float] = []

        def answer(request):
            if request.method != "POST" or not request.url.path.endswith("/nodePools"):
                return None
            if scene.simulator.world.gke.cluster.pools and not busy_until_s:
                busy_until_s.append(clock.now_s + 300.0)
            return refusal(*BUSY) if busy_until_s and clock.now_s < busy_until_s[0] else None

        with answering(scene, answer):
            outcome = setup(scene, reporter)
        assert counts(outcome) == {"full": 24, "partial": 0, "failed": 0}
        made = started(scene, "CREATE_NODE_POOL")
        assert len(made) == 24
        assert max(running_at(made, item.started_s) for item in made) >= 8
