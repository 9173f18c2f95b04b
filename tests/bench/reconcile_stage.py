"""Where both policies play: a simulated fleet, a schedule of dying hosts, jobs on every slice, and a meter.

The same seed gives both of them the same hardware and the same failures: the schedule is drawn before either
begins and names hosts of sub-blocks, not VMs or nodes, which every remaking of a pool renames.
"""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import itertools
import json
import random
import urllib.request
from typing import TYPE_CHECKING, Any, NamedTuple

from tests import workloads
from tpuctl.cli import rehearsal
from tpuctl.engine.simulation import scenario
from tpuctl.model import declared, topology
from tpuctl.ops import context
from tpuctl.sim import behaviour, simulator

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

DAY_S = 86_400.0
SLICES, PODS = "slices.accelerator.gke.io", "pods"
READY = frozenset({"ACTIVE", "ACTIVE_DEGRADED"})
HISTORY_REPAIRS = 3
"""Hosts have failed for so many mean repairs before the run: some are down at its beginning."""
SPARES_SHARE = 0.1
HANGS_S = 600.0
"""A job whose slice has been down for so long is ended by its user: its processes wait for each other."""
TELLS_S = 10.0
"""A slice breaks within this time after a host under it, if it does."""
PARTS = (2, 4, 8, 16)
"""One slice has half of the cubes, one a quarter, and so on."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """What is played."""

    cubes: int = 20
    days: float = 14.0
    seed: int = 1
    failures_per_host_day: float = 2.34e-3
    """Published for one of Meta's clusters (HPCA 2025), for nodes with 8 GPUs; for TPU hosts nothing is."""
    repair_s: float = DAY_S
    """Mean, exponential. A setting: what a repair takes is published for reported hosts only (3-14 days)."""
    times: scenario.Times = dataclasses.field(default_factory=scenario.Times)

    @property
    def horizon_s(self) -> float:
        return self.days * DAY_S


def schedule(run: Run) -> list[scenario.Fault]:
    """Failures by time since the start of the run, each host down once at a time; the first are at 0."""
    rng = random.Random(run.seed)
    mtbf_s = scenario.mtbf_s(run.failures_per_host_day)
    before_s = HISTORY_REPAIRS * run.repair_s
    drawn = itertools.takewhile(
        lambda fault: fault.at_s < before_s + run.horizon_s,
        scenario.faults(rng, run.cubes, mtbf_s, run.repair_s),
    )
    found: list[scenario.Fault] = []
    back_s: dict[int, float] = {}
    for fault in drawn:
        at_s = fault.at_s - before_s
        ends_s = at_s + fault.repair_s
        if ends_s <= 0 or at_s < back_s.get(fault.host, 0.0):
            continue
        back_s[fault.host] = ends_s
        start_s = max(int(at_s), 0)
        found.append(scenario.Fault(start_s, fault.host, max(round(ends_s - start_s), 1)))
    return sorted(found)


def fleet_spec(cubes: int) -> declared.FleetSpec:
    """Half the fleet in one slice, a quarter in the next, down to single cubes and a few sub-slices."""
    spares = max(round(SPARES_SHARE * cubes), 1)
    left = cubes - spares - 1
    entries = []
    for part in PARTS:
        size = max((cubes - spares) // part, 1)
        if size > left:
            continue
        left -= size
        entries.append(_entry(f"part-{part}", size, priority=100 - part))
    entries += [_entry(f"single-{number}", 1, priority=10) for number in range(left)]
    parts = declared.WantedSlice(name="small", shapes=(topology.parse("2x2x2"),), count=2, priority=1)
    block = declared.BlockSpec(name="sim-reservation-block-0001", spares=spares)
    return declared.FleetSpec(
        name="bench",
        reservations=(declared.ReservationSpec(name="sim-reservation", blocks=(block,)),),
        slices=(*entries, parts),
        budgets=declared.Budgets(pool_operations_in_flight=cubes),
        # These failures are independent of each other and no false alarms, and there is nobody to reset it.
        breaker=declared.Breaker(percent=50.0, cubes=cubes, minimum_cubes=4),
    )


def _entry(name: str, cubes: int, priority: int) -> declared.WantedSlice:
    sizes = [cubes, *([cubes // 2] if cubes > 1 else []), *([cubes // 4] if cubes // 2 > 1 else [])]
    shapes = tuple(_most_cubic(size) for size in sizes)
    return declared.WantedSlice(name=name, shapes=shapes, priority=priority)


def _most_cubic(cubes: int) -> topology.Topology:
    return next(shape for shape in topology.cube_shapes(cubes) if shape.cubes == cubes)


class Ready(NamedTuple):
    """A slice that is ready."""

    chips: int
    partitions: frozenset[str]

    def is_lost_on(self, now: Ready) -> bool:
        """If true, a job begun on this does not go on: another size, or most of it is elsewhere.

        A swap leaves most of it where it is, and restarts the pods of the rest itself.
        """
        same = len(self.partitions & now.partitions)
        return now.chips != self.chips or (now != self and 2 * same < len(self.partitions))


@dataclasses.dataclass
class Stage:
    """A running simulator that is being measured."""

    run: Run
    scene: rehearsal.Rehearsal
    spec: declared.FleetSpec
    faults: Sequence[scenario.Fault]
    meter: Meter

    _jobs: dict[str, Ready] = dataclasses.field(default_factory=dict)
    """Slice -> what it was when its job was last seen to run."""
    _down_s: dict[str, float] = dataclasses.field(default_factory=dict)
    """Slice -> when users first saw it down."""

    @property
    def now_s(self) -> float:
        """Seconds since the start of the run."""
        return self.scene.ports.clock.monotonic_s() - self.meter.start_s

    def wait_until(self, at_s: float) -> None:
        self.scene.ports.clock.sleep(max(at_s - self.now_s, 0.0))

    def next_event_s(self) -> float:
        """When the next host fails or comes back; the end of the run after the last."""
        times = [moment for fault in self.faults for moment in (fault.at_s, fault.at_s + fault.repair_s)]
        return min((moment for moment in times if moment > self.now_s), default=self.run.horizon_s)

    def users(self) -> None:
        """What users do: a job with a pod for each host on a slice that is ready, ended when it hangs."""
        for name in self.meter.wanted:
            found = self.meter.ready(name)
            if found is None:
                if self.now_s - self._down_s.setdefault(name, self.now_s) >= HANGS_S:
                    self.end_jobs((name,))
                continue
            self._down_s.pop(name, None)
            if name in self._jobs and self._jobs[name].is_lost_on(found):
                self.end_jobs((name,))
            if name not in self._jobs:
                pods = found.chips // topology.CHIPS_PER_HOST
                self._request("POST", workloads.JOBS, workloads.job(name, name, pods))
            self._jobs[name] = found

    def end_jobs(self, slices: Iterable[str]) -> None:
        """The machines under these slices are taken away, or do not answer each other any more.

        The jobs are begun anew when there is a slice again; the restarts of their pods are counted.
        """
        for name in self._jobs.keys() & set(slices):
            del self._jobs[name]
            self._request("DELETE", f"{workloads.JOBS}/{name}", {"propagationPolicy": "Background"})

    def _request(self, method: str, path: str, document: dict[str, Any]) -> None:
        """As somebody else's kubectl would."""
        asked = urllib.request.Request(
            f"{self.scene.simulator.url}{path}",
            data=json.dumps(document).encode(),
            method=method,
            headers={
                "Authorization": f"Bearer {self.scene.simulator.token}",
                "Content-Type": "application/json",
            },
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(asked) as answer:
            answer.read()


@contextlib.contextmanager
def set_up(run: Run) -> Iterator[Stage]:
    """An empty cluster on hardware that fails by the schedule."""
    spec, faults = fleet_spec(run.cubes), schedule(run)
    settings = simulator.Settings(
        cubes=run.cubes, seed=run.seed, slice_controller=True, behaviour=_behaviour(run)
    )
    with rehearsal.rehearse(settings, name="bench") as scene:
        scene.ports.capacity.create_policy(context.DEFAULT_POLICY)
        meter = Meter(scene, spec)
        stage = Stage(run, scene, spec, faults, meter)
        _inject(scene, faults)
        yield stage


def _behaviour(run: Run) -> behaviour.Behaviour:
    """Node-pool operations as long as published; how many at once is nobody's concern here."""
    plain = behaviour.Behaviour()
    rest_s = plain.vm_boot_s + plain.vm_boot_spread_s + plain.pool_finish_s
    return behaviour.Behaviour(
        pool_vm_request_s=run.times.pool_s - rest_s,
        pool_delete_s=float(run.times.pool_s),
        operations_in_flight=10 * run.cubes,
    )


def _inject(scene: rehearsal.Rehearsal, faults: Sequence[scenario.Fault]) -> None:
    cubes = scene.simulator.call(lambda: [cube.name for cube in scene.simulator.world.hardware.subblocks()])
    for fault in faults:
        cube, index = divmod(fault.host, topology.HOSTS_PER_CUBE)
        target, for_s = f"{cubes[cube]}/{index}", float(fault.repair_s)
        if fault.at_s:
            scene.simulator.inject("host-down", target, after_s=float(fault.at_s), for_s=for_s)
        else:
            scene.simulator.inject("host-down", target, for_s=for_s)


class Meter:
    """Follows slices and pods where they are stored, so that nothing between two looks is missed."""

    def __init__(self, scene: rehearsal.Rehearsal, spec: declared.FleetSpec) -> None:
        self._clock = scene.simulator.world.clock
        self.wanted = {name: entry.shapes[0].chips for entry in spec.slices for name in entry.slice_names}
        self._ready: dict[str, Ready] = {}
        self.start_s = self._clock.now_s
        self.losses: list[tuple[float, int]] = [(0.0, sum(self.wanted.values()))]
        """(time, chips of wanted slices that are not ready from then on)."""
        self.slice_operations_s: list[float] = []
        """Times of creations and deletions of slices."""
        self.pods_restarted = 0
        self._ended: set[str] = set()
        store = scene.simulator.world.store
        scene.simulator.call(lambda: store.subscribe(SLICES, self._slice))
        scene.simulator.call(lambda: store.subscribe(PODS, self._pod))

    @property
    def is_converged(self) -> bool:
        return self.losses[-1][1] == 0

    def _slice(self, kind: str, old: dict[str, Any] | None, new: dict[str, Any]) -> None:
        marked = "deletionTimestamp" in new["metadata"]
        was_marked = old is not None and "deletionTimestamp" in old["metadata"]
        if kind == "ADDED" or (marked and not was_marked):
            self.slice_operations_s.append(self._clock.now_s - self.start_s)
        name = new["metadata"]["name"]
        if name not in self.wanted:
            return
        ready = kind != "DELETED" and not marked and _reason(new) in READY
        self._ready.pop(name, None)
        if ready:
            chips = topology.parse(new["spec"]["topology"]).chips
            self._ready[name] = Ready(chips, frozenset(new["spec"]["partitionIds"]))
        have = {one: found.chips for one, found in self._ready.items()}
        lost = sum(max(chips - have.get(one, 0), 0) for one, chips in self.wanted.items())
        if lost != self.losses[-1][1]:
            self.losses.append((self._clock.now_s - self.start_s, lost))

    def _pod(self, kind: str, old: dict[str, Any] | None, new: dict[str, Any]) -> None:
        """A pod that ran and does not any more: its Job makes another one."""
        uid = new["metadata"]["uid"]
        if old is None or uid in self._ended or old.get("status", {}).get("phase") != "Running":
            return
        failed = new.get("status", {}).get("phase") == "Failed"
        if kind == "DELETED" or failed or "deletionTimestamp" in new["metadata"]:
            self._ended.add(uid)
            self.pods_restarted += 1

    def ready(self, name: str) -> Ready | None:
        """A wanted slice as it is; None if it is not ready."""
        return self._ready.get(name)

    def lost_chips(self, at_s: float) -> int:
        """Chips of wanted slices that are not ready at that time."""
        return self.losses[bisect.bisect_right(self.losses, at_s, key=lambda loss: loss[0]) - 1][1]

    def whole_s(self, after_s: float = 0.0) -> float | None:
        """When, from `after_s` on, every wanted slice is ready in its full size; None if that never is."""
        if self.lost_chips(after_s) == 0:
            return after_s
        return next((at_s for at_s, chips in self.losses if at_s > after_s and chips == 0), None)

    def recovery_s(self, fault_s: float, end_s: float) -> float | None:
        """From a failure until all is whole again, at most until `end_s`; None if it hit no wanted slice."""
        before = self.lost_chips(fault_s)
        worse = (
            at_s for at_s, chips in self.losses if fault_s < at_s <= fault_s + TELLS_S and chips > before
        )
        hit_s = next(worse, None)
        if hit_s is None:
            return None
        whole_s = self.whole_s(hit_s)
        return (end_s if whole_s is None else min(whole_s, end_s)) - fault_s

    def lost_chip_h(self, from_s: float, to_s: float) -> float:
        """Chips of wanted slices that were not ready, times hours."""
        total = 0.0
        ends = [at_s for at_s, _ in self.losses[1:]] + [to_s]
        for (at_s, chips), end_s in zip(self.losses, ends, strict=True):
            total += chips * max(min(end_s, to_s) - max(at_s, from_s), 0.0)
        return total / 3600.0


def _reason(item: dict[str, Any]) -> str:
    conditions = item.get("status", {}).get("conditions", [])
    return next((one.get("reason", "") for one in conditions if one["type"] == "Ready"), "")
