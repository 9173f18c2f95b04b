"""A small fleet that others use too, the real program on it, and what must hold after any accident."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import io
import pathlib
import urllib.request
from typing import TYPE_CHECKING, Any

import orjson

from tests import workloads
from tests.e2e import conftest
from tests.sim import cluster_world
from tpuctl.cli import main, rehearsal, wiring
from tpuctl.model import fleet, invariants, operations
from tpuctl.ops import journal, locking
from tpuctl.sim import simulator

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

    from tpuctl.ops import context as contexts
    from tpuctl.ops import ports as ports_module

Object = dict[str, Any]

ROOT = pathlib.Path(__file__).parents[2]
CONFIG = "config.yaml"
CHILD_TIMEOUT_S = 120
SLICE = "train"
SHAPE = "4x4x8"
HOSTS = 32
FOREIGN = "theirs"
MARK = "tpuctl.dev/cordoned-by"
SLICES = "/apis/accelerator.gke.io/v1beta1/slices"
LEASE_IS_OVER_S = locking.DURATION_S + 1


@dataclasses.dataclass(frozen=True)
class Done:
    """What a run of the program left on its streams."""

    arguments: tuple[str, ...]
    status: int
    out: str
    err: str

    @property
    def is_bug(self) -> bool:
        """The program ended by a fault of its own."""
        return "internal error" in self.err or "Traceback" in self.err


@dataclasses.dataclass
class Stage:
    """One simulated fleet. What others have there: a Slice of another controller, and a cordon."""

    simulator: simulator.Simulator
    ports: ports_module.Ports
    """For looking: no fault is in place when it is used."""
    context: contexts.Context
    home: pathlib.Path
    clock: Callable[[], Any] | None = None
    """Makes the clock of one run; None: the machine's, at the context's speed."""
    foreign: Object | None = None
    cordoned: str | None = None
    """The node that somebody else has cordoned."""
    job: str = ""
    must_exist: bool = False
    """If true, losing the slice is an accident and not what was asked for."""
    as_processes: bool = False
    """If true, `tpuctl` runs the program in processes of their own; that needs a stage in real time."""

    # -- acting ------------------------------------------------------------------------------------------

    def tpuctl(self, *arguments: str) -> Done:
        """Run the program to its end, with connections of its own."""
        if self.as_processes:
            with self.child(*arguments) as process:
                out, err = process.communicate(timeout=CHILD_TIMEOUT_S)
            return Done(arguments, process.returncode, out, err)
        return self._in_this_process(arguments)

    def child(self, *arguments: str) -> subprocess.Popen[str]:
        """Start the program as a process of its own, which finds the simulator by a file."""
        env = {"TPUCTL_CONFIG": str(self.home / CONFIG), "PYTHONPATH": str(ROOT)}
        return conftest.Admin(self.home).start(*arguments, env=env)

    def _in_this_process(self, arguments: tuple[str, ...]) -> Done:
        out, err = io.StringIO(), io.StringIO()
        clock = self.clock() if self.clock is not None else None
        ports = wiring.connect(self.context, clock)
        with wiring.using(ports, self.context):
            status = main.main(
                arguments, env=self.env, cwd=self.home, stdin=io.StringIO(), stdout=out, stderr=err
            )
        return Done(arguments, status, out.getvalue(), err.getvalue())

    @property
    def env(self) -> dict[str, str]:
        """Nothing of the real user's is in reach."""
        return conftest.Admin(self.home).env

    def advance(self, seconds: float) -> None:
        self.simulator.advance(seconds)

    def request(self, method: str, path: str, document: Object | None = None) -> Object:
        """What somebody else does with their own kubectl."""
        asked = urllib.request.Request(
            f"{self.simulator.url}{path}",
            data=None if document is None else orjson.dumps(document),
            method=method,
            headers={
                "Authorization": f"Bearer {self.simulator.token}",
                "Content-Type": "application/merge-patch+json" if method == "PATCH" else "application/json",
            },
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(asked) as answer:
            found: Object = orjson.loads(answer.read())
        return found

    def objects(self, kind: str) -> list[Object]:
        """Objects as the server has them."""
        return self.simulator.call(lambda: [*self.simulator.world.store.list(kind)])

    def cordon(self, node: str | None) -> None:
        """Somebody else cordons this node, and undoes the cordon they had put elsewhere."""
        if self.cordoned is not None:
            self.request("PATCH", f"/api/v1/nodes/{self.cordoned}", {"spec": {"unschedulable": None}})
        self.cordoned = node
        if node is not None:
            self.request("PATCH", f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})

    @contextlib.contextmanager
    def intercepted(self, hook: Callable[..., Any]) -> Iterator[None]:
        """Let `hook` see the calls to the Kubernetes API before anything else does."""
        hooks = self.simulator.world.kube.intercept
        self.simulator.call(lambda: hooks.insert(0, hook))
        try:
            yield
        finally:
            self.simulator.call(lambda: hooks.remove(hook))

    def start_job(self) -> None:
        """A pod on each host of the slice; the Job before it goes, and its memory of failures with it."""
        if self.job:
            self.request("DELETE", f"{workloads.JOBS}/{self.job}", {"propagationPolicy": "Background"})
            self.until(lambda: not self.pods())
        number = int(self.job.rpartition("-")[2] or 0) + 1 if self.job else 1
        self.job = f"work-{number}"
        self.request("POST", workloads.JOBS, workloads.job(self.job, SLICE, HOSTS))
        self.until(self.all_run)

    def until(self, happened: Callable[[], bool], *, limit_s: float = 3600.0) -> None:
        """Let time pass until it happened."""
        passed_s = 0.0
        while not happened():
            if passed_s >= limit_s:
                raise AssertionError(f"it did not happen within {limit_s:.0f} s")
            self.advance(5)
            passed_s += 5

    # -- looking -----------------------------------------------------------------------------------------

    def whole(self) -> fleet.Fleet:
        return self.ports.fleet.observe(tuple(fleet.SourceName))

    def slice(self) -> fleet.Slice | None:
        return self.ports.slices.get(SLICE)

    def members(self) -> tuple[str, ...]:
        """Partitions of the slice."""
        found = self.slice()
        return () if found is None else found.partition_ids

    def foreign_slice(self) -> Object | None:
        """The Slice of another controller as it is now."""
        found = self.objects("slices.accelerator.gke.io")
        return next((item for item in found if item["metadata"]["name"] == FOREIGN), None)

    def open_operation(self) -> operations.Operation | None:
        entry = journal.of_slice(self.ports, SLICE)
        return None if entry is None else entry.operation

    def forget_namespace(self) -> None:
        """As on a cluster that tpuctl has never worked on."""
        name = "tpuctl-system"
        if any(item["metadata"]["name"] == name for item in self.objects("namespaces")):
            self.request("DELETE", f"/api/v1/namespaces/{name}")
            self.until(lambda: all(item["metadata"]["name"] != name for item in self.objects("namespaces")))

    def nodes_of(self, cube_id: str) -> list[str]:
        return [host.name for host in self.whole().cubes_by_id[cube_id].hosts]

    def pods(self) -> list[Object]:
        return self.objects("pods")

    def pods_outside(self, cube_id: str) -> dict[str, str]:
        """uid -> start time of the slice's pods that do not run in that cube."""
        nodes = set(self.nodes_of(cube_id))
        return {
            pod["metadata"]["uid"]: pod["status"]["startTime"]
            for pod in self.pods()
            if pod["spec"]["nodeName"] not in nodes
        }

    def all_run(self) -> bool:
        """All pods of the Job run, and none is on its way out."""
        found = self.pods()
        return len(found) == HOSTS and all(
            pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
            for pod in found
        )

    # -- what must hold ----------------------------------------------------------------------------------

    def broken_promises(self) -> list[str]:
        """What must hold at every moment, right after a crash too."""
        return [*self._double_allocation(), *self._foreign_marks(), *self._lost_slice()]

    def leftovers(self) -> list[str]:
        """What must not be there once everything has been finished. Locks count while they are held."""
        found = [
            *(f"record {entry.operation.id}" for entry in journal.list_open(self.ports)),
            *(f"config map {item['metadata']['name']}" for item in self._ours("configmaps")),
            *(f"held lock {lease.name}" for lease in self.ports.leases.list() if lease.is_held),
        ]
        for node in self.objects("nodes"):
            name = node["metadata"]["name"]
            if MARK in node["metadata"].get("annotations", {}):
                found.append(f"mark on node {name}")
            if node["spec"].get("unschedulable") and name != self.cordoned:
                found.append(f"cordon on node {name}")
        snapshot = self.whole()
        found += [f"claim {claim}" for claim in snapshot.claims]
        return [*found, *invariants.check_invariants(snapshot)]

    def check_simulator(self) -> None:
        """The simulated service kept its own rules."""
        self.simulator.call(lambda: cluster_world.check_invariants(self.simulator.world))

    def _ours(self, kind: str) -> list[Object]:
        return [item for item in self.objects(kind) if item["metadata"].get("namespace") == "tpuctl-system"]

    def _double_allocation(self) -> Iterator[str]:
        holders: dict[str, list[str]] = collections.defaultdict(list)
        for item in self.objects("slices.accelerator.gke.io"):
            for partition in item["spec"]["partitionIds"]:
                holders[partition].append(item["metadata"]["name"])
        for partition, names in holders.items():
            if len(names) > 1:
                yield f"partition {partition} is in slices {', '.join(names)}"

    def _foreign_marks(self) -> Iterator[str]:
        now = self.foreign_slice()
        if now is None or _identity(now) != _identity(self.foreign):
            yield f"slice {FOREIGN} of another controller was touched: {now}"
        if self.cordoned is None:
            return
        node = next(item for item in self.objects("nodes") if item["metadata"]["name"] == self.cordoned)
        if not node["spec"].get("unschedulable") or MARK in node["metadata"].get("annotations", {}):
            yield f"the foreign cordon on {self.cordoned} was touched"

    def _lost_slice(self) -> Iterator[str]:
        """Between the old slice and the new one there is a record that knows of both."""
        record = self.open_operation()
        if self.must_exist and self.slice() is None and record is None:
            yield f"slice {SLICE} is gone and nothing is written down about it"


def _identity(item: Object) -> tuple[Any, ...]:
    metadata = item["metadata"]
    return metadata["uid"], metadata.get("annotations"), metadata.get("labels"), item["spec"]


@contextlib.contextmanager
def in_virtual_time(home: pathlib.Path, *, seed: int = 0, blocks: int = 1, cubes: int = 4) -> Iterator[Stage]:
    """A stage whose time passes only while the program waits; `cubes` in each block."""
    settings = simulator.Settings(
        blocks=blocks, cubes=cubes, ready_cubes=blocks * cubes, slice_controller=True, seed=seed
    )
    with rehearsal.rehearse(settings) as scene:
        stage = Stage(
            simulator=scene.simulator,
            ports=scene.ports,
            context=scene.context,
            home=home,
            clock=lambda: rehearsal.DrivenClock(scene.simulator),
        )
        set_the_stage(stage)
        yield stage
        stage.check_simulator()


def set_the_stage(stage: Stage, cube: str | None = None) -> None:
    """Put there what others have: a Slice that Kueue owns, on `cube` or the last one."""
    on = cube if cube is not None else stage.whole().cubes[-1].id
    metadata = {
        "name": FOREIGN,
        "annotations": {
            "accelerator.gke.io/owner-workload-namespace": "ml",
            "accelerator.gke.io/owner-workload-name": "job-7",
        },
    }
    stage.request(
        "POST",
        SLICES,
        {
            "apiVersion": "accelerator.gke.io/v1beta1",
            "kind": "Slice",
            "metadata": metadata,
            "spec": {"type": "tpu7x", "topology": "4x4x4", "partitionIds": [on]},
        },
    )
    stage.until(lambda: str(stage.ports.slices.get(FOREIGN).state) == "ACTIVE")
    stage.foreign = stage.foreign_slice()
