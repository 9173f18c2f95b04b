"""A loop on the simulator in virtual time, with every write counted where it arrives."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.ops.conftest import Recorder, scene_of
from tpuctl.model import codec, declared, fleet, topology
from tpuctl.ops.reconciling import cycle, leadership, outcomes, plan_files, settings
from tpuctl.sim.api_faults import calls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from starlette import requests, responses

    from tpuctl.cli.rehearsal import Rehearsal
    from tpuctl.model import reconciling

INTERVAL_S = 30.0
Hook = tuple[declared.HookEvent, dict[str, str]]


class Hooks:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[Hook] = []

    def run(self, event: declared.HookEvent, facts: Mapping[str, str]) -> None:
        self.told.append((event, dict(facts)))

    def events(self) -> list[str]:
        return [str(event) for event, _ in self.told]


class Write(NamedTuple):
    """One writing call as it arrived."""

    verb: str
    resource: str
    path: str

    @property
    def is_lead(self) -> bool:
        """If true, it is a renewal of the loop's own lock."""
        return self.resource == "leases" and leadership.NAME in self.path


def wanted(name: str, *shapes: str, **more: object) -> declared.WantedSlice:
    return declared.WantedSlice(
        name=name,
        shapes=tuple(map(topology.parse, shapes)),
        **more,  # type: ignore[arg-type] # whatever the entry has
    )


def spec_of(scene: Rehearsal, *slices: declared.WantedSlice, **more: object) -> declared.FleetSpec:
    """A declared state on the simulator's one block."""
    block = scene.ports.capacity.blocks()[0]
    reserved = more.pop("block", declared.BlockSpec(name=block.name))
    return declared.FleetSpec(
        name="test",
        reservations=(declared.ReservationSpec(name=block.reservation, blocks=(reserved,)),),  # type: ignore[arg-type]
        slices=slices,
        **more,  # type: ignore[arg-type] # whatever the spec has
    )


def settings_of(spec: declared.FleetSpec, **more: object) -> settings.Settings:
    digest = str(hash(str(codec.encode(spec))))
    return settings.Settings(
        spec=spec,
        spec_digest=digest,
        policy_digest="p",
        **more,  # type: ignore[arg-type] # whatever the settings have
    )


@dataclasses.dataclass
class World:
    """A fleet and the loop on it."""

    scene: Rehearsal
    settings: settings.Settings
    reporter: Recorder
    hooks: Hooks
    outcomes: list[outcomes.Outcome] = dataclasses.field(default_factory=list)

    @property
    def ports(self):
        return self.scene.ports

    def wants(self, spec: declared.FleetSpec, **more: object) -> None:
        """Declare another state."""
        self.settings = settings_of(spec, hooks=self.hooks, **more)

    def cycle(self, stop: Callable[[], bool] = lambda: False) -> outcomes.Outcome:
        """One cycle of a loop that leads for just that long."""
        with leadership.lead(self.ports, self.reporter) as leader:
            assert leader is not None
            outcome = cycle.run(
                self.ports,
                self.reporter,
                self.settings,
                leader,
                number=len(self.outcomes) + 1,
                stop=stop,
            )
        self.outcomes.append(outcome)
        return outcome

    def cycles(self, count: int, *, every_s: float = INTERVAL_S) -> outcomes.Outcome:
        for _ in range(count):
            found = self.cycle()
            self.advance(every_s)
        return found

    def converge(self, *, limit: int = 40, every_s: float = INTERVAL_S) -> outcomes.Outcome:
        """Cycles until one that acts has nothing left to do."""
        for _ in range(limit):
            found = self.cycle()
            assert found.failure is None, found.failure
            assert found.decision is not None
            observed_before = found.view is not None and found.view.memory.observed_at is not None
            if observed_before and not found.decision.actions and not found.decision.waiting:
                return found
            self.advance(every_s)
        raise AssertionError(f"not converged after {limit} cycles: {found.sentence}")

    def advance(self, seconds: float) -> None:
        self.scene.simulator.advance(seconds)

    def plan(self) -> outcomes.Planned:
        return cycle.plan(self.ports, self.reporter, self.settings)

    def plan_file(self, **more: float) -> reconciling.PlanFile:
        return plan_files.make(self.plan(), self.settings, version="1", **more)

    def states(self) -> dict[str, str]:
        return {item.name: str(item.state) for item in self._slices()}

    def slice(self, name: str):
        return {item.name: item for item in self._slices()}[name]

    def _slices(self):
        return self.ports.fleet.observe((fleet.SourceName.SLICES,)).slices

    @contextlib.contextmanager
    def writes(self) -> Iterator[list[Write]]:
        """The writing calls to all APIs while this lasts."""
        seen: list[Write] = []

        async def note(
            request: requests.Request, _proceed: Callable[[], responses.Response]
        ) -> responses.Response | None:
            if request.method not in ("GET", "HEAD"):
                call = calls.understand(calls.KUBERNETES, request)
                if "selfsubject" not in request.url.path:
                    seen.append(Write(call.verb, call.resource, request.url.path))
            return None

        world = self.scene.simulator.world
        hooks = [api.intercept for api in (world.kube, world.gke, world.compute)]
        self.scene.simulator.call(lambda: [found.insert(0, note) for found in hooks])
        try:
            yield seen
        finally:
            self.scene.simulator.call(lambda: [found.remove(note) for found in hooks])


@pytest.fixture
def hooks() -> Hooks:
    return Hooks()


def world_of(scene: Rehearsal, reporter: Recorder, *slices: declared.WantedSlice, **more: object) -> World:
    hooks = Hooks()
    with leadership.lead(scene.ports, reporter):
        pass  # the lock is there from an earlier loop, and the namespace with it
    made = settings_of(spec_of(scene, *slices, **more), hooks=hooks)
    return World(scene, made, reporter, hooks)


@pytest.fixture
def twelve() -> Iterator[Rehearsal]:
    """Twelve cubes ready for use."""
    with scene_of(cubes=12, ready_cubes=12, slice_controller=True) as made:
        yield made


@pytest.fixture
def world(twelve: Rehearsal, reporter: Recorder) -> World:
    """Twelve cubes; wanted are a large slice, two small ones and a sub-slice, with a spare."""
    block = twelve.ports.capacity.blocks()[0]
    return world_of(
        twelve,
        reporter,
        wanted("large", "4x8x8", priority=10),
        wanted("small", "4x4x8", count=2),
        wanted("tiny", "2x2x4"),
        block=declared.BlockSpec(name=block.name, spares=1),
    )
