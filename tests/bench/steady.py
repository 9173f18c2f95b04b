"""What the loop costs while nothing happens, from 142 to 6,248 cubes (100,000 hosts); one line of JSON.

    python tests/bench/steady.py [--sizes BLOCKS ...] [--cycles N] [--beats N] [--speed X]

Each size is a simulated fleet in a process of its own (`steady_world.py`): blocks of 142 cubes with four
slices of 2,048 chips and a sub-slice each, a pod on every host of a slice. The loop is the real one, in mode
act, with the real clients over TLS and the watch on; it has seen the fleet before. Its metrics are counted
and written out once a cycle, as for a Prometheus. Measured is the loop's process with all its threads, and
nothing of the simulator:

- the first cycle, which lists everything, and the beginning of the watch, which lists the watched kinds;
- then cycles in which nothing happens, enough of them for every list that is read from time to time: CPU
  between one cycle and the next, calls by verb and resource, writes;
- then heartbeats: as many nodes report their status as do in a cycle (each kubelet does every five minutes),
  with nothing new in it;
- then one node that changes, so that the fleet is joined anew;
- memory: the largest and the last resident size.

Simulated time runs `--speed` times as fast; what is CPU stays CPU. Ends with 1 if a promise is broken.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import math
import pathlib
import resource
import statistics
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Self

ROOT = pathlib.Path(__file__).parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from tests.bench import steady_calls, steady_world  # noqa: E402 - the path to it is known from here on
from tpuctl.cli import fleet_spec, metrics  # noqa: E402
from tpuctl.cloud import connect  # noqa: E402
from tpuctl.ops import context as contexts  # noqa: E402
from tpuctl.ops.reconciling import loop, outcomes, settings  # noqa: E402

if TYPE_CHECKING:
    from tpuctl.model import errors
    from tpuctl.ops import ports as ports_module

SIZES = (1, 10, 44)
"""Blocks; the last is 100,000 hosts."""
CYCLES = 12
"""Cycles of 30 s: more than the five minutes after which lists without a watch are read again."""
BUDGET_S = 1.0
"""CPU of a cycle in which nothing happens, at any size."""
EXPONENT = 1.05
BEAT_EVERY_S = 300.0
"""Kubelets report so often while nothing changes (nodeStatusReportFrequency)."""
_LONGEST_S = 3 * 3600.0


def main() -> int:
    """Measure and print; 1 if a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="blocks of 142 cubes")
    parser.add_argument("--cycles", type=int, default=CYCLES, help="cycles without change to measure")
    parser.add_argument("--beats", type=int, help="heartbeats; default: those of one cycle")
    parser.add_argument("--speed", type=float, default=2.0, help="simulated seconds for a real one")
    parser.add_argument("--only", type=int, help=argparse.SUPPRESS)
    said = parser.parse_args()
    if said.only:
        print(json.dumps(measure(said.only, said)))
        return 0
    rows = [_in_child(blocks, said) for blocks in said.sizes]
    summary = must_show(rows)
    print(json.dumps({"must_show": summary, "sizes": rows}))
    return int(bool(summary["broken"]))


def must_show(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What is promised, and which of it does not hold."""
    exponent = _slope(rows)
    broken = []
    if any(row["cycle"]["cpu_max_s"] > BUDGET_S for row in rows):
        broken.append(f"a cycle without change costs more than {BUDGET_S:.0f} s of CPU")
    if any(row["cycle"]["writes"] or row["heartbeats"]["writes"] for row in rows):
        broken.append("a cycle without change writes")
    if any(row["heartbeats"]["full_cycles"] for row in rows):
        broken.append("heartbeats make the loop read everything anew")
    if exponent > EXPONENT:
        broken.append("CPU grows more than linearly")
    largest = rows[-1]
    return {
        "cubes": largest["cubes"],
        "hosts": largest["hosts"],
        "cpu_per_cycle_s": largest["cycle"]["cpu_median_s"],
        "cpu_max_s": largest["cycle"]["cpu_max_s"],
        "cpu_exponent": exponent,
        "calls_per_cycle": largest["cycle"]["calls_median"],
        "writes": sum(row["cycle"]["writes"] for row in rows),
        "peak_mib": largest["peak_mib"],
        "everything_anew_s": largest["first_cycle"]["cpu_s"],
        "everything_anew_every_s": loop.FULL_S,
        "broken": broken,
    }


def _slope(rows: list[dict[str, Any]]) -> float:
    """Least squares in log-log; 0 for a single size."""
    points = [(math.log(row["cubes"]), math.log(row["cycle"]["cpu_median_s"])) for row in rows]
    return (
        round(statistics.linear_regression(*zip(*points, strict=True)).slope, 3) if len(points) > 1 else 0.0
    )


def _in_child(blocks: int, said: argparse.Namespace) -> dict[str, Any]:
    """A process of its own for each size: memory is what this size takes."""
    command = [sys.executable, __file__, "--only", str(blocks)]
    command += ["--cycles", str(said.cycles), "--speed", str(said.speed)]
    command += [] if said.beats is None else ["--beats", str(said.beats)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


# -- one size --------------------------------------------------------------------------------------------


def measure(blocks: int, said: argparse.Namespace) -> dict[str, Any]:
    """Start the world, run the loop on it, and count."""
    with _World(blocks, said.speed) as world:
        hosts = 16 * blocks * steady_world.CUBES
        beats = said.beats
        if beats is None:
            beats = math.ceil(hosts * settings.INTERVAL_S / BEAT_EVERY_S)
        run = _Run(world, said.cycles, beats)
        run.play()
        cubes = blocks * steady_world.CUBES
        size = {"cubes": cubes, "hosts": hosts, "pods": world.said["pods"], "slices": world.said["slices"]}
        return {**size, **run.found()}


class _World:
    """The simulated fleet, and a line to it."""

    def __init__(self, blocks: int, speed: float) -> None:
        self._command = [sys.executable, steady_world.__file__, str(blocks), str(speed)]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.said = self._answer()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()  # type: ignore[union-attr] # it has one
        self._process.wait(60)

    def tell(self, command: str) -> None:
        """Say something to it, and wait until it is done."""
        self._process.stdin.write(f"{command}\n")  # type: ignore[union-attr] # it has one
        self._answer()

    def _answer(self) -> dict[str, Any]:
        line = self._process.stdout.readline()  # type: ignore[union-attr] # it has one
        if not line:
            raise RuntimeError("the simulated fleet is gone")
        found: dict[str, Any] = json.loads(line)
        return found

    def ports(self) -> ports_module.Ports:
        found = self.said["context"]
        context = contexts.Context(
            name="steady",
            project=found["project"],
            location=found["location"],
            zone=found["zone"],
            cluster=found["cluster"],
            reservations=tuple(found["reservations"]),
            kubeconfig=found["kubeconfig"],
            kubeconfig_context=found["kubeconfigContext"],
            endpoint_container=found["endpoints"]["container"],
            endpoint_compute=found["endpoints"]["compute"],
            token_file=found["tokenFile"],
            clock_scale=found["clockScale"],
        )
        return connect.connect(context)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Mark:
    """How things stand at the end of a cycle."""

    full: bool
    """If true, everything was listed for it."""
    cpu_s: float
    wall_s: float
    calls: collections.Counter[str]


class _Run:
    """One run of the loop: warm up, rest, hear heartbeats, see a change, end."""

    def __init__(self, world: _World, cycles: int, beats: int) -> None:
        self._world = world
        self._cycles = cycles
        self._beats = beats
        self._calls = steady_calls.Calls()
        self._parts: dict[str, list[_Mark]] = {"start": [], "rest": [], "beats": [], "change": []}
        self._part = "start"
        self._teller: threading.Thread | None = None
        self._done = False
        self._failures: list[errors.TpuctlError] = []
        self._begun = self._mark(full=False)

    def play(self) -> None:
        spec = fleet_spec.read(pathlib.Path(self._world.said["file"]))
        said = settings.Settings(
            spec=spec.spec, spec_digest=spec.digest, pool_policy=self._world.said["policy"]
        )
        ports = self._world.ports()
        self._metrics = metrics.Metrics(said.policy, ports.clock.monotonic_s)
        self._begun = self._mark(full=False)
        with self._calls.counted():
            loop.run(
                ports,
                steady_world.Quiet(),
                said,
                on_cycle=self._on_cycle,
                stop=lambda: self._done,
                deadline_s=_LONGEST_S,
            )
        if self._failures:
            raise self._failures[0]
        if not self._done:
            raise RuntimeError(f"it did not come further than '{self._part}'")

    def _mark(self, *, full: bool) -> _Mark:
        return _Mark(
            full=full, cpu_s=time.process_time(), wall_s=time.perf_counter(), calls=self._calls.taken()
        )

    def _on_cycle(self, outcome: outcomes.Outcome) -> None:
        """Between two cycles: note what the last one took, and see to the next part."""
        if outcome.failure is not None:
            self._failures.append(outcome.failure)
            self._done = True
            return
        if outcome.decision is None or outcome.decision.actions or outcome.results:
            raise RuntimeError(f"something is to be done: {outcome.sentence}")
        self._scrape(outcome)
        mark = self._mark(full=outcome.duration_s > 0)
        self._parts[self._part].append(mark)
        print(f"{self._part:8} {mark.cpu_s:8.2f} s  {outcome.sentence}", file=sys.stderr)
        self._go_on()

    def _scrape(self, outcome: outcomes.Outcome) -> None:
        """As Prometheus does between two cycles."""
        assert outcome.view is not None
        assert outcome.decision is not None
        self._metrics.note(
            metrics.Cycle(
                at=outcome.view.now,
                seen_s=0.0,
                duration_s=outcome.duration_s,
                spec=outcome.view.spec,
                snapshot=outcome.view.snapshot,
                decision=outcome.decision,
                results=(),
                repairs={},
            )
        )
        self._metrics.exposition("")

    def _go_on(self) -> None:
        marks = self._parts[self._part]
        if self._part == "start" and not marks[-1].full:
            self._part = "rest"
        elif self._part == "rest" and len(marks) >= self._cycles:
            self._begin("beats", f"beat {self._beats}")
        elif self._part == "beats" and self._is_told() and len(marks) > 1:
            self._begin("change", "touch")
        elif self._part == "change" and self._is_told() and len(marks) > 1:
            self._done = True

    def _begin(self, part: str, command: str) -> None:
        self._part = part
        self._teller = threading.Thread(target=self._world.tell, args=[command], daemon=True)
        self._teller.start()

    def _is_told(self) -> bool:
        return self._teller is not None and not self._teller.is_alive()

    def found(self) -> dict[str, Any]:
        """All that was measured."""
        start, rest = self._parts["start"], self._parts["rest"]
        last = start[-1]
        cycles = list(zip([last, *rest], rest, strict=False))
        cpu_s = [after.cpu_s - before.cpu_s for before, after in cycles]
        calls = [after.calls - before.calls for before, after in cycles]
        return {
            "first_cycle": _took(self._begun, start[0]),
            "watch_begins": _took(start[0], last),
            "cycle": {
                "number": len(cycles),
                "cpu_median_s": round(statistics.median(cpu_s), 4),
                "cpu_max_s": round(max(cpu_s), 4),
                "calls_median": statistics.median(sum(some.values()) for some in calls),
                "writes": sum(steady_calls.writes(some) for some in calls),
                "lease_renewals": sum(some[steady_calls.RENEWAL] for some in calls),
                "full_cycles": sum(mark.full for mark in rest),
                "calls": dict(sorted(sum(calls, collections.Counter()).items())),
            },
            "heartbeats": self._part_found(rest[-1], "beats") | {"number": self._beats},
            "change": self._part_found(self._parts["beats"][-1], "change"),
            "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
            "resident_mib": round(_resident_mib()),
        }

    def _part_found(self, before: _Mark, part: str) -> dict[str, Any]:
        marks = self._parts[part]
        took = _took(before, marks[-1])
        writes = steady_calls.writes(marks[-1].calls - before.calls)
        return {**took, "cycles": len(marks), "writes": writes, "full_cycles": sum(one.full for one in marks)}


def _took(before: _Mark, after: _Mark) -> dict[str, Any]:
    calls = after.calls - before.calls
    return {
        "cpu_s": round(after.cpu_s - before.cpu_s, 3),
        "wall_s": round(after.wall_s - before.wall_s, 1),
        "calls": sum(calls.values()),
    }


def _resident_mib() -> float:
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / (1 << 20)


if __name__ == "__main__":
    sys.exit(main())
