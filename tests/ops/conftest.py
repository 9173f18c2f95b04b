"""ops is tested on the simulator: real ports, real clients, real wire, simulated hardware and time."""

import contextlib
from collections.abc import Iterator

import pytest

from tpuctl.cli import rehearsal
from tpuctl.model import fleet, invariants
from tpuctl.sim import simulator


class Recorder:
    """A Reporter that keeps what it is told."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.warnings: list[str] = []
        self.remote = ""

    def step(self, text: str) -> None:
        self.steps.append(text)

    def progress(self, done: int, total: int, text: str) -> None:
        self.steps.append(f"{done}/{total} {text}")

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def going_on(self, text: str) -> None:
        self.remote = text


class Killed(BaseException):
    """Stands for kill -9: nothing after it runs."""


@pytest.fixture
def reporter() -> Recorder:
    return Recorder()


@contextlib.contextmanager
def scene_of(**settings: object) -> Iterator[rehearsal.Rehearsal]:
    """A fleet of our own; whatever the test did, its invariants must hold at the end."""
    with rehearsal.rehearse(simulator.Settings(**settings)) as scene:
        yield scene
        if scene.ports.pools.cluster().slice_controller:
            assert invariants.check_invariants(whole(scene)) == ()


@pytest.fixture
def scene() -> Iterator[rehearsal.Rehearsal]:
    """Six cubes ready for use."""
    with scene_of(cubes=6, ready_cubes=6, slice_controller=True) as made:
        yield made


def whole(scene: rehearsal.Rehearsal) -> fleet.Fleet:
    return scene.ports.fleet.observe(tuple(fleet.SourceName))
