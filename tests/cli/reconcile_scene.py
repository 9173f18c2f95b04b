"""A fleet file and a small simulated fleet for tests of `tpuctl reconcile`."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

from tpuctl.cli import rehearsal
from tpuctl.model import fleet
from tpuctl.sim import simulator

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator

    from tests.cli.conftest import Program, Result

FLEET = """\
apiVersion: tpuctl/v1
kind: Fleet
name: small
reservations:
  - name: sim-reservation
    blocks:
      - name: sim-reservation-block-0001
        spares: {spares}
{more}
slices:
{slices}
"""
TRAIN, DEBUG = "  - {name: train, topology: 4x4x8, priority: 10}\n", "  - {name: debug, topology: 2x2x4}\n"


class Stage:
    """A simulated fleet, a fleet file, and the program."""

    def __init__(self, tpuctl: Program, scene: rehearsal.Rehearsal) -> None:
        self.tpuctl = tpuctl
        self.scene = scene
        self.file = self.declare()

    def declare(self, slices: str = TRAIN + DEBUG, *, more: str = "", spares: int = 1) -> pathlib.Path:
        """Write the fleet file anew."""
        self.file = self.tpuctl.write("fleet.yaml", FLEET.format(slices=slices, more=more, spares=spares))
        return self.file

    def __call__(self, verb: str, *arguments: str, **options: object) -> Result:
        """`tpuctl reconcile VERB` with the fleet file where the verb takes one."""
        if verb in ("plan", "run", "shadow"):
            arguments = ("-f", str(self.file), *arguments)
        return self.tpuctl("reconcile", verb, *arguments, **options)

    def act(self, cycles: int = 1) -> Result:
        """Cycles of a loop that may act, each of which must end well."""
        for _ in range(cycles):
            done = self("run", "--mode", "act", "--once")
            assert done.status == 0, done.err
        return done

    def converged(self) -> None:
        """Bring the fleet to its declared state."""
        self.act(2)

    def slices(self) -> dict[str, str]:
        found = self.scene.ports.fleet.observe((fleet.SourceName.SLICES,))
        return {item.name: str(item.state) for item in found.slices}

    def records(self) -> set[str]:
        """Names of all ConfigMaps and Leases, with their revisions."""
        world = self.scene.simulator.world
        found = self.scene.simulator.call(
            lambda: [*world.store.list("configmaps"), *world.store.list("leases")]
        )
        return {f"{item['metadata']['name']} {item['metadata']['resourceVersion']}" for item in found}


@contextlib.contextmanager
def stage_of(tpuctl: Program, **settings: object) -> Iterator[Stage]:
    chosen = {"cubes": 5, "ready_cubes": 5, "slice_controller": True, **settings}
    with rehearsal.rehearse(simulator.Settings(**chosen)) as scene:
        yield Stage(tpuctl, scene)


def document(result: Result, status: int = 0) -> dict:
    assert result.status == status, (result.out, result.err)
    found: dict = json.loads(result.out)
    return found
