"""The reconcile loop as a program on a small simulated fleet, with every write counted where it arrives."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
import pytest

from tests.e2e import crash_stage
from tpuctl.cli import fleet_spec, reconcile_setup
from tpuctl.cloud import kube
from tpuctl.model import declared, health
from tpuctl.ops.reconciling import leadership, settings

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Iterator

    from starlette import requests, responses

    from tpuctl.sim import simulator as simulators

FLEET = """\
apiVersion: tpuctl/v1
kind: Fleet
name: guarded
reservations:
  - name: sim-reservation
    blocks:
      - {{name: sim-reservation-block-0001}}
pruneGrace: 0s
breaker: {breaker}
slices:
{slices}
"""
WIDE = "{percent: 100, cubes: 16}"
"""A breaker that the trouble of a few cubes does not trip."""
FIRST = "first, topology: 4x4x8, priority: 9"
SECOND = "second, topology: 4x4x4, priority: 5"
THIRD = "third, topology: 4x4x4"
QUESTIONS = "/apis/authentication.k8s.io/"
"""Asked by POST, and nothing is written: who am I."""


class Write(NamedTuple):
    """One call that changes something, as it arrived at a simulated API."""

    method: str
    resource: str
    name: str

    @property
    def is_lead(self) -> bool:
        """If true, it is about the loop's own lock."""
        return (self.resource, self.name) == ("leases", leadership.NAME)


@contextlib.contextmanager
def written(simulator: simulators.Simulator) -> Iterator[list[Write]]:
    """What is written to any of the APIs while this lasts, the loop's own lock apart."""
    seen: list[Write] = []

    async def note(request: requests.Request, _proceed: Callable[[], Any]) -> responses.Response | None:
        path = request.url.path
        if request.method not in ("GET", "HEAD") and not path.startswith(QUESTIONS):
            write = _understood(request.method, path, await request.body())
            if not write.is_lead:
                seen.append(write)
        return None

    world = simulator.world
    hooks = [api.intercept for api in (world.kube, world.gke, world.compute)]
    simulator.call(lambda: [found.insert(0, note) for found in hooks])
    try:
        yield seen
    finally:
        simulator.call(lambda: [found.remove(note) for found in hooks])


def _understood(method: str, path: str, body: bytes) -> Write:
    if method != "POST":
        return Write(method, *path.split("/")[-2:])
    document = orjson.loads(body) if body else {}
    name = document.get("metadata", {}).get("name") or document.get("nodePool", {}).get("name") or ""
    return Write(method, path.rpartition("/")[2], name)


@dataclasses.dataclass
class Looped:
    """A fleet file and the program on a stage."""

    stage: crash_stage.Stage

    @property
    def file(self) -> pathlib.Path:
        return self.stage.home / "fleet.yaml"

    def declare(self, *slices: str, breaker: str = WIDE) -> None:
        lines = "\n".join(f"  - {{name: {entry}}}" for entry in slices)
        self.file.write_text(FLEET.format(breaker=breaker, slices=lines))

    def __call__(self, verb: str, *arguments: str) -> crash_stage.Done:
        """`tpuctl reconcile VERB`, with the fleet file where the verb takes one."""
        given = ("-f", str(self.file)) if verb in ("plan", "run") else ()
        return self.stage.tpuctl("reconcile", verb, *given, *arguments)

    def cycle(self) -> crash_stage.Done:
        """One cycle of a loop that may act."""
        return self("run", "--mode", "act", "--once")

    def converge(self, limit: int = 20) -> None:
        """Cycles until a plan is empty."""
        for _ in range(limit):
            done = self.cycle()
            assert done.status == 0, done.err
            self.stage.advance(30)
            if self("plan", "--detailed-exitcode").status == 0:
                return
        raise AssertionError(done.out)

    def states(self) -> dict[str, str]:
        """Slices that are not somebody else's."""
        found = {item.name: str(item.state) for item in self.stage.whole().slices}
        found.pop(crash_stage.FOREIGN)
        return found

    def members(self, name: str) -> tuple[str, ...]:
        item = self.stage.ports.slices.get(name)
        assert item is not None
        return item.partition_ids

    def break_host(self, name: str) -> str:
        """A host under this slice dies; returns its cube."""
        cube = self.members(name)[0]
        self.stage.simulator.inject("host-down", self.stage.nodes_of(cube)[3])
        return cube

    def settings(self) -> settings.Settings:
        """For a loop without the command line."""
        read = fleet_spec.read(self.file)
        return reconcile_setup.settings(read.spec, read.digest, health.DEFAULT_POLICY, declared.Mode.ACT)


@contextlib.contextmanager
def when_answered(method: str, part: str, happens: Callable[[], object]) -> Iterator[list[str]]:
    """Let something happen right after the first such call was answered, before its caller goes on."""
    struck: list[str] = []
    real = kube.Kube.request

    def request(self: kube.Kube, asked: str, path: str, **options: Any) -> kube.Answer:
        answer = real(self, asked, path, **options)
        if not struck and asked == method and part in path:
            struck.append(path)
            happens()
        return answer

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kube.Kube, "request", request)
        yield struck
