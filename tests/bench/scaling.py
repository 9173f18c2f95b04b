"""How time and memory grow with the fleet, from 144 to 63,360 cubes; one line of JSON.

    python tests/bench/scaling.py [--cubes N ...] [--rounds N] [--passes N]

Each size runs in a process of its own. `load` turns decoded node objects into a snapshot with its index;
`place` takes and gives back slices of up to 8 cubes in a fleet that the published mix fills to 93 %; `ask`
answers `place` for 32 cubes on a loaded snapshot, candidates included; `plan` packs a proportional number of
requests; `replan` lets one cube in a hundred fail and finds a replacement for each.

Exponents are slopes in log-log. Times are processor time, the best of several at every size, and the sizes
take turns: what else the machine does is not our growth. Two more things are not, and are kept equal:

- Caches. They are emptied before each step, or small fleets would live in them.
- The state of memory. In a fresh process the documents of the first pages lie one after the other and are
  read a third faster than those of all later pages, which fill the gaps that earlier ones left. That is a
  gift of a few thousand nodes to a fleet of any size, and the whole of the smallest one. So a fleet of fixed
  size is loaded first, and kept.

`must_show` has what is asked of the engine in one place: the exponents, placements per second and peak memory
at the largest size, and two absolute numbers at 100,000 hosts, for which the mark is Kueue's scheduler on the
same machine: 0.60 s for its snapshot (twice that is allowed), 73 ms for one placement (1 ms is allowed).
"""

from __future__ import annotations

import argparse
import datetime
import gc
import json
import math
import random
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpuctl.cloud import collector, documents, joining
from tpuctl.engine import changes, mix, placement
from tpuctl.engine.inventory import shelves, stock
from tpuctl.engine.packing import plan, wishes
from tpuctl.model import fleet, topology

if TYPE_CHECKING:
    from collections.abc import Iterator

CUBES = (144, 6336, 63360)
BUDGETS = {"place": 0.1, "load": 1.05, "plan": 1.05, "replan": 1.05}
"""Largest exponent of each step."""
ASK_BUDGET_MS = 1.0
LOAD_BUDGET_S = 1.2
"""For 100,000 nodes."""
_MARK_HOSTS = 100_000
_BLOCK = 144
_FULL = 0.93
_CHUNK = 1600
_ROUNDS = 2
_PASSES = 2
_KEPT_CUBES = 1440
"""Loaded and kept before anything is measured."""
_CACHES_MIB = 192
_ELSEWHERE = bytearray(_CACHES_MIB << 20)
_SMALL = 8
_PART = 400
_NOW = datetime.datetime(2026, 1, 5, 8, tzinfo=datetime.UTC)
_STAMP = "2026-01-01T00:00:00Z"


def main() -> int:
    """Measure and print; 1 if a budget is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cubes", type=int, nargs="+", default=CUBES)
    parser.add_argument("--rounds", type=int, default=2000, help="placements to measure")
    parser.add_argument("--passes", type=int, default=_PASSES, help="turns that each size has")
    parser.add_argument("--only", type=int, help=argparse.SUPPRESS)
    said = parser.parse_args()
    if said.only:
        print(json.dumps(measure(said.only, said.rounds)))
        return 0
    turns = [[_in_child(cubes, said.rounds) for cubes in said.cubes] for _ in range(said.passes)]
    found = [_best(rows) for rows in zip(*turns, strict=True)]
    summary = must_show(found)
    print(json.dumps({"must_show": summary, "sizes": found}))
    missed = [name for name, most in BUDGETS.items() if summary["exponents"][name] > most]
    missed += ["ask_ms"] if any(row["ask_ms"] > ASK_BUDGET_MS for row in found) else []
    missed += ["load_s"] if summary.get("load_s", 0) > LOAD_BUDGET_S else []
    return int(bool(missed))


def must_show(rows: list[dict[str, float]]) -> dict[str, Any]:
    """What the engine promises; the absolute numbers only if a size near 100,000 hosts was measured."""
    largest = max(rows, key=lambda row: row["cubes"])
    found: dict[str, Any] = {
        "exponents": {step: round(_slope(rows, f"{step}_s"), 3) for step in BUDGETS},
        "placements_per_s": round(largest["placements_per_s"]),
        "peak_mib": largest["peak_mib"],
        "worst_ask_ms": round(max(row["ask_ms"] for row in rows), 4),
    }
    near = [row for row in rows if 0.9 <= row["hosts"] / _MARK_HOSTS <= 1.1]
    if near:
        found |= {"load_s": round(near[0]["load_s"], 3), "ask_ms": round(near[0]["ask_ms"], 4)}
    return found


def _best(rows: tuple[dict[str, float], ...]) -> dict[str, float]:
    """The best of the turns of one size: the shortest times, the most placements."""
    return {name: (max if name == "placements_per_s" else min)(row[name] for row in rows) for name in rows[0]}


def _in_child(cubes: int, rounds: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--only", str(cubes), "--rounds", str(rounds)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _slope(rows: list[dict[str, float]], key: str) -> float:
    """Least squares in log-log; 0 for a single size."""
    points = [(math.log(row["cubes"]), math.log(row[key])) for row in rows]
    return statistics.linear_regression(*zip(*points, strict=True)).slope if len(points) > 1 else 0.0


def measure(cubes: int, rounds: int) -> dict[str, float]:
    """All steps at one size."""
    kept, _ = load(_KEPT_CUBES)
    before_mib = _resident_mib()
    load_s = min(load(cubes)[1] for _ in range(_ROUNDS - 1))
    snapshot, last_s = load(cubes)
    load_s = min(load_s, last_s)
    gc.collect()
    gc.freeze()  # what was loaded stays; the collector need not look at it again
    found = {"cubes": cubes, "hosts": 16 * cubes, "load_s": load_s}
    found |= ask(snapshot, rounds)
    found |= place(snapshot, rounds)
    found["plan_s"] = min(batch(snapshot) for _ in range(_ROUNDS))
    found["replan_s"] = min(replan(snapshot) for _ in range(_ROUNDS))
    found["peak_mib"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before_mib)
    del kept
    return {name: round(value, 9) for name, value in found.items()}


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / (1 << 20)


def load(cubes: int) -> tuple[fleet.Fleet, float]:
    """Parse, join and index; objects are made in portions, so that only the result is in memory."""
    took_s = 0.0
    placed: list[Any] = []
    with collector.paused():
        for portion in _portions(cubes):
            _empty_caches()
            started_s = time.process_time()
            placed += [documents.node(document) for document in portion]
            took_s += time.process_time() - started_s
        _empty_caches()
        started_s = time.process_time()
        blocks, _ = joining.blocks_of(placed, (), ())
        snapshot = fleet.Fleet(cluster="p/l/c", observed_at=_NOW, blocks=blocks)
        stock.Stock(snapshot, stock.Terms())
        took_s += time.process_time() - started_s
    return snapshot, took_s


def _empty_caches() -> None:
    """Touch more memory than any processor caches."""
    _ELSEWHERE.count(1)


def _portions(cubes: int) -> Iterator[list[dict[str, Any]]]:
    hosts = 16 * cubes
    for start in range(0, hosts, _CHUNK):
        yield [node(number) for number in range(start, min(start + _CHUNK, hosts))]


def node(number: int) -> dict[str, Any]:
    """A Node as a decoded list holds it; ids are as long as real ones."""
    cube, host = divmod(number, topology.HOSTS_PER_CUBE)
    labels = {
        "cloud.google.com/gke-tpu-accelerator": "tpu7x",
        "cloud.google.com/gke-nodepool": f"pool-{cube}",
        "cloud.google.com/gce-topology-block": f"block-{cube // _BLOCK:027}",
        "cloud.google.com/gce-topology-subblock": f"sub-{cube:028}",
        "kubernetes.io/hostname": f"node-{number}",
        "topology.kubernetes.io/zone": "us-central1-c",
    }
    for shape in topology.PARTITION_SHAPES:
        prefix = f"cloud.google.com/gke-tpu-partition-{shape}"
        labels[f"{prefix}-id"] = f"{cube:020}{shape.hosts:04}{host // shape.hosts:08}"
        labels[f"{prefix}-state"] = "HEALTHY"
    conditions = [
        {"type": kind, "status": "False", "lastTransitionTime": _STAMP, "reason": "r", "message": "m"}
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
    ]
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": _STAMP, "reason": "KubeletReady"}
    chips = {"google.com/tpu": "4", "cpu": "224", "memory": "945Gi"}
    return {
        "metadata": {
            "name": f"gke-pool-{cube}-{host:02}",
            "uid": f"uid-{number}",
            "labels": labels,
            "annotations": {},
            "creationTimestamp": _STAMP,
        },
        "spec": {
            "providerID": f"gce://p/us-central1-c/node-{number}",
            "taints": [{"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"}],
        },
        "status": {"conditions": [*conditions, ready], "allocatable": chips, "capacity": chips},
    }


def ask(snapshot: fleet.Fleet, rounds: int) -> dict[str, float]:
    """`place` as commands call it, on a snapshot that was asked before."""
    request = placement.Request(topology=topology.parse("8x16x16"))
    placement.place(snapshot, request)
    times_s = []
    for _ in range(rounds):
        started_s = time.perf_counter()
        found = placement.place(snapshot, request)
        times_s.append(time.perf_counter() - started_s)
    if not isinstance(found, placement.Placement):
        raise TypeError("32 cubes fit into an empty block")
    return {"ask_ms": 1e3 * statistics.median(times_s)}


def place(snapshot: fleet.Fleet, rounds: int) -> dict[str, float]:
    """Take and give back, one in one out, at 93 % full: the mean of the quietest few hundred."""
    rng = random.Random(1)
    index = stock.Stock(snapshot, stock.Terms())
    cubes = len(snapshot.cubes)
    shapes = [(shape, weight) for shape, weight in mix.on_tpu7x() if not shape.is_sub_slice]
    names, weights = [shape for shape, _ in shapes], [weight for _, weight in shapes]
    running: list[tuple[str, int]] = []
    used = number = 0
    while used < _FULL * cubes:
        shape = rng.choices(names, weights)[0]
        number += 1
        if _take(index, f"s{number}", shape.cubes):
            if shape.cubes <= _SMALL:  # sizes that a fleet of any size has, or the mix would decide
                running.append((f"s{number}", shape.cubes))
            used += shape.cubes
    times_s = []
    for _ in range(rounds):
        last = rng.randrange(len(running))
        running[last], running[-1] = running[-1], running[last]
        name, size = running.pop()
        index.release(name)
        number += 1
        started_s = time.process_time()
        _take(index, f"s{number}", size)
        times_s.append(time.process_time() - started_s)
        running.append((f"s{number}", size))
    parts = [times_s[start : start + _PART] for start in range(0, len(times_s), _PART)]
    mean_s = min(statistics.mean(part) for part in parts)
    return {
        "place_s": mean_s,
        "place_p99_s": sorted(times_s)[int(0.99 * len(times_s))],
        "placements_per_s": 1 / mean_s,
    }


def _take(index: stock.Stock, name: str, cubes: int) -> bool:
    block = index.best_block(cubes)
    if block is None:
        return False
    index.take(name, block, shelves.first(index.free[block], cubes))
    return True


def batch(snapshot: fleet.Fleet) -> float:
    """Pack 110 % of the fleet, sub-slices included, the quick way; the index is part of it."""
    rng = random.Random(2)
    shapes, weights = zip(*mix.on_tpu7x(), strict=True)
    asked: list[wishes.Wish] = []
    hosts = 0
    while hosts < 1.1 * 16 * len(snapshot.cubes):
        shape = rng.choices(shapes, weights)[0]
        hosts += shape.hosts
        asked.append(wishes.Wish(name=f"w{len(asked)}", shapes=(shape,)))
    _empty_caches()
    started_s = time.process_time()
    found = plan.pack(snapshot, asked, plan.Settings(mode=plan.Mode.FAST))
    took_s = time.process_time() - started_s
    if not found.grants:
        raise ValueError("an empty fleet has room")
    return took_s


def replan(snapshot: fleet.Fleet) -> float:
    """One cube in a hundred fails at once; each gets a replacement in its block."""
    index = stock.Stock(snapshot, stock.Terms())
    for block in range(len(index.blocks)):
        index.take(f"s{block}", block, shelves.first(index.free[block], 128))
    failing = [cube.id for cube in snapshot.cubes[::100]]
    sick = changes.failed(snapshot, failing)
    cubes = [sick.cubes_by_id[cube_id] for cube_id in failing]
    wish = placement.Request(topology=topology.CUBE)
    _empty_caches()
    started_s = time.process_time()
    for number, cube in enumerate(cubes):
        index.replace(cube)
        block = index.slot_of_cube[cube.id].block
        found = placement.choose(index, placement.Request(topology=wish.topology, block=index.blocks[block]))
        if found is not None:
            index.take(f"r{number}", block, 1 << index.slot_of_cube[found[1][0]].number)
    return time.process_time() - started_s


if __name__ == "__main__":
    sys.exit(main())
