"""The simulated fleet for `steady.py`, in a process of its own: what it computes is not the loop's.

    python tests/bench/steady_world.py BLOCKS SPEED

It makes the slices that are declared, lets the real loop find them in virtual time, puts a running pod on
each host of theirs, lets time run, and prints one line of JSON: how to reach it, and where the fleet file is.
Then each line on stdin is a command, answered by a line:

    beat N     the next N nodes report their status once more, nothing in it changed but the heartbeats
    touch      the next node was not ready for a moment, and is again
    quit
"""

from __future__ import annotations

import itertools
import json
import pathlib
import sys
import tempfile
from typing import TYPE_CHECKING, Any

ROOT = pathlib.Path(__file__).parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from tpuctl.cli import fleet_spec, rehearsal, wiring  # noqa: E402 - the path to it is known from here on
from tpuctl.model import fleet, topology  # noqa: E402
from tpuctl.ops import ports  # noqa: E402
from tpuctl.ops.reconciling import loop, outcomes, settings  # noqa: E402
from tpuctl.sim import behaviour, simulator, store  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

CUBES = 142
"""Of a block of 144, as a fleet has them: 44 such blocks are 6,248 cubes."""
FLEET = "fleet.yaml"
LARGE, LARGE_SHAPE = 4, "8x16x16"
"""Slices of 2,048 chips in each block: 128 of its cubes."""
_SMALL = topology.parse("2x4x4")
_FORMED_AFTER_S = 600.0
_NODES, _PODS = "nodes", "pods"
_BEATS_AT_ONCE = 500
_LONG_S = 1e9
_MOST_CYCLES = 60


class Quiet:
    """A reporter that keeps its mouth shut."""

    remote = ""

    def step(self, text: str) -> None: ...

    def progress(self, done: int, total: int, text: str) -> None: ...

    def warn(self, text: str) -> None: ...

    def going_on(self, text: str) -> None: ...


def main() -> int:
    """Serve until told to quit, or until nobody is there to tell."""
    blocks, speed = int(sys.argv[1]), float(sys.argv[2])
    lasting = behaviour.Behaviour(pod_run_s=_LONG_S)  # pods run for as long as anybody measures
    made = simulator.Settings(
        blocks=blocks, cubes=CUBES, ready_cubes=blocks * CUBES, slice_controller=True, behaviour=lasting
    )
    with tempfile.TemporaryDirectory(prefix="steady-") as folder, rehearsal.rehearse(made) as scene:
        file = pathlib.Path(folder) / FLEET
        file.write_text(declared_state(blocks), encoding="utf-8")
        make_slices(scene, blocks)
        converge(scene, file)
        pods = occupy(scene)
        scene.simulator.call(lambda: scene.simulator.world.clock.set_speed(speed))
        context = {**scene.simulator.context(), "clockScale": speed}
        policy = wiring.context().policy
        slices = blocks * (LARGE + 1)
        _say({"context": context, "policy": policy, "file": str(file), "pods": pods, "slices": slices})
        _obey(scene)
    return 0


def declared_state(blocks: int) -> str:
    """Every block: large slices, a sub-slice, spares."""
    numbers = range(1, blocks + 1)
    named = "\n".join(
        f"      - {{name: sim-reservation-block-{number:04}, cubes: {CUBES}, spares: 2}}"
        for number in numbers
    )
    return f"""\
apiVersion: tpuctl/v1
kind: Fleet
name: steady
reservations:
  - name: sim-reservation
    blocks:
{named}
slices:
  - {{name: large, topology: {LARGE_SHAPE}, count: {LARGE * blocks}, priority: 10}}
  - {{name: small, topology: 2x4x4, count: {blocks}}}
"""


def make_slices(scene: rehearsal.Rehearsal, blocks: int) -> None:
    """What the loop would form; all at once, since nobody waits for one after the other."""
    found = scene.ports.fleet.observe([fleet.SourceName.NODES]).blocks
    for number, block in enumerate(found[:blocks]):
        cubes = [cube.id for cube in block.cubes]
        size = topology.parse(LARGE_SHAPE)
        for place in range(LARGE):
            part = cubes[place * size.cubes : (place + 1) * size.cubes]
            _create(scene, f"large-{number * LARGE + place}", size, tuple(sorted(part)))
        host = block.cubes[LARGE * size.cubes].hosts[0]
        name = f"small-{number}" if blocks > 1 else "small"
        _create(scene, name, _SMALL, (host.partition_id(_SMALL),))
    scene.simulator.advance(_FORMED_AFTER_S)


def _create(
    scene: rehearsal.Rehearsal, name: str, shape: topology.Topology, partition_ids: tuple[str, ...]
) -> None:
    scene.ports.slices.create(ports.SliceSpec(name, shape, partition_ids))


def converge(scene: rehearsal.Rehearsal, file: pathlib.Path) -> None:
    """Cycle after cycle until one finds nothing to do."""
    found = fleet_spec.read(file)
    said = settings.Settings(spec=found.spec, spec_digest=found.digest, pool_policy=wiring.context().policy)
    last: list[outcomes.Outcome] = []
    for _ in range(_MOST_CYCLES):
        loop.run(scene.ports, Quiet(), said, once=True, watch=False, on_cycle=last.append)
        seen = last[-1].view
        if seen is not None and seen.memory.observed_at is not None and _is_done(last[-1]):
            return
        print(last[-1].sentence, file=sys.stderr)
        scene.simulator.advance(settings.INTERVAL_S)
    raise RuntimeError(f"not converged: {last[-1].sentence}")


def _is_done(outcome: outcomes.Outcome) -> bool:
    decision = outcome.decision
    return decision is not None and not decision.actions and not decision.waiting


def occupy(scene: rehearsal.Rehearsal) -> int:
    """A pod on each host of a slice, as it is long after its start."""
    world = scene.simulator.world

    def create() -> int:
        hosts = [node for node in world.store.list(_NODES) if _slice_of(node)]
        for number, node in enumerate(hosts):
            world.store.create(_PODS, _pod(number, node["metadata"]["name"], _slice_of(node)))
        return len(hosts)

    count = scene.simulator.call(create)
    scene.simulator.advance(600.0)
    return count


def _slice_of(node: dict[str, Any]) -> str:
    found: str = node["metadata"]["labels"].get("cloud.google.com/gke-tpu-slice", "")
    return found


def _pod(number: int, node: str, slice_name: str) -> dict[str, Any]:
    chips = {"google.com/tpu": "4"}
    container = {"name": "train", "image": "train:1", "resources": {"limits": chips, "requests": chips}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{slice_name}-{number}", "namespace": "default", "labels": {"job": slice_name}},
        "spec": {"nodeName": node, "restartPolicy": "Never", "containers": [container]},
        "status": {"phase": "Pending"},
    }


# -- commands --------------------------------------------------------------------------------------------


def _obey(scene: rehearsal.Rehearsal) -> None:
    names = [node["metadata"]["name"] for node in scene.simulator.call(lambda: _nodes(scene))]
    turn = itertools.cycle(names)
    for line in sys.stdin:
        word, _, number = line.strip().partition(" ")
        if word == "quit":
            return
        if word == "beat":
            for some in _portions(turn, int(number)):
                scene.simulator.call(lambda some=some: [_beat(scene, name) for name in some])
        elif word == "touch":
            scene.simulator.call(lambda: _touch(scene, next(turn)))
        else:
            raise ValueError(line)
        _say({"done": line.strip()})


def _nodes(scene: rehearsal.Rehearsal) -> store.Objects:
    return scene.simulator.world.store.list(_NODES)


def _portions(turn: Iterator[str], number: int) -> Iterator[list[str]]:
    """Not all at once: whoever watches is served in between, as by a real server."""
    while number > 0:
        yield list(itertools.islice(turn, min(number, _BEATS_AT_ONCE)))
        number -= _BEATS_AT_ONCE


def _beat(scene: rehearsal.Rehearsal, name: str) -> None:
    """What a kubelet sends every few minutes while all is well."""
    world = scene.simulator.world
    node = store.copy(world.store.get(_NODES, None, name))
    for condition in node["status"]["conditions"]:
        condition["lastHeartbeatTime"] = store.timestamp(world.clock.now())
    world.store.replace(_NODES, node)


def _touch(scene: rehearsal.Rehearsal, name: str) -> None:
    world = scene.simulator.world
    node = store.copy(world.store.get(_NODES, None, name))
    for condition in node["status"]["conditions"]:
        if condition["type"] == "Ready":
            condition["lastTransitionTime"] = store.timestamp(world.clock.now())
    world.store.replace(_NODES, node)


def _say(document: dict[str, Any]) -> None:
    print(json.dumps(document), flush=True)


if __name__ == "__main__":
    sys.exit(main())
