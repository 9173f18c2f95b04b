"""Days of a declared fleet: the real loop on the simulator in virtual time, failures drawn from a seed.

What happens to the fleet is settled before the first cycle: which hosts fail and for how long, planned
maintenance, a stockout, the death of a leader. Between events a loop finds nothing to do, so that cycles are
far apart there; within 15 s of an event, and as long as there is something to do, they come every 30 s. After
each cycle everything that must always hold is looked at in the simulator itself.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING

from tests import workloads
from tests.e2e import crash_stage, fleet_fate, fleet_model, fleet_record
from tpuctl.cli import fleet_spec, reconcile_setup, rehearsal
from tpuctl.model import declared, health, invariants
from tpuctl.ops import journal
from tpuctl.ops.reconciling import loop, outcomes
from tpuctl.sim import simulator

if TYPE_CHECKING:
    import datetime
    import pathlib
    from collections.abc import Callable, Iterator

    from tpuctl.model import fleet
    from tpuctl.ops import ports as ports_module

DAY_S = fleet_model.DAY_S
INTERVAL_S = 30.0
WAKES_S = 15.0
"""A watch, or the next cycle, notices an event so late on average."""
CALM = 2
"""Cycles in a row that do nothing before the pace slackens: labels follow hardware, graces run."""
WAITING_S = 900.0
"""Between cycles while something is missing that only a repair brings, or a window."""
CONVERGES_WITHIN_S = 3 * DAY_S


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """What is played."""

    fleet: str
    """The fleet file."""
    cubes: int
    days: float
    seed: int
    failures_per_host_day: float
    repair_s: float
    """Mean; single repairs are drawn from an exponential distribution."""
    idle_s: float
    """Between cycles while all is as it should be."""
    maintained: int
    """Cubes that the planned window takes away."""
    maintenance_s: float
    jobs: tuple[str, ...]
    """Slices that work runs on."""

    @property
    def horizon_s(self) -> float:
        return self.days * DAY_S


@dataclasses.dataclass
class Result:
    """What a run came to."""

    run: Run
    converged_s: float = 0.0
    failures: int = 0
    cycles: int = 0
    actions: int = 0
    active: float = 0.0
    model: float = 0.0
    most_disrupted: int = 0
    most_in_repair: int = 0
    most_pool_operations: int = 0
    takeover_s: float = 0.0
    """From the death of the leader until another loop decides."""

    def line(self) -> str:
        run = self.run
        return (
            f"{run.cubes} cubes, {run.days:g} days, {self.failures} host failures, seed {run.seed}: "
            f"converged in {self.converged_s / 3600:.1f} h; ACTIVE {100 * self.active:.2f} % of the wanted "
            f"chips (model {100 * self.model:.2f} %); {self.cycles} cycles, {self.actions} actions; at most "
            f"{self.most_disrupted} chips disrupted in an hour, {self.most_in_repair} cubes in repair, "
            f"{self.most_pool_operations} pool operations at once; another leader after "
            f"{self.takeover_s:.0f} s"
        )


class Telling:
    """A Reporter that keeps warnings."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def step(self, text: str) -> None: ...

    def progress(self, done: int, total: int, text: str) -> None: ...

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def going_on(self, text: str) -> None: ...


class Days:
    """One fleet, from an empty cluster to its last day."""

    def __init__(self, stage: crash_stage.Stage, run: Run) -> None:
        self.stage = stage
        self.run = run
        self.file = stage.home / "fleet.yaml"
        self.file.write_text(run.fleet)
        read = fleet_spec.read(self.file)
        self.spec = read.spec
        self._settings = reconcile_setup.settings(
            read.spec, read.digest, health.DEFAULT_POLICY, declared.Mode.ACT
        )
        chips = {name: entry.shapes[0].chips for entry in read.spec.slices for name in entry.slice_names}
        self.record = fleet_record.Record(stage.simulator, chips)
        self.result = Result(run)
        self.wrong: list[str] = []
        """What must never be, with the time."""
        self.outcomes: list[outcomes.Outcome] = []
        """Of all cycles, without their views; what it decided is kept of the last one only."""
        self._start_s = 0.0
        self.fate = fleet_fate.Fate(self)

    # -- looking -----------------------------------------------------------------------------------------

    @property
    def now_s(self) -> float:
        return self.stage.simulator.call(lambda: self.stage.simulator.world.clock.now_s)

    @property
    def since_s(self) -> float:
        """Since the days began."""
        return self.now_s - self._start_s

    def seconds_of(self, moment: datetime.datetime) -> float:
        """A server's time, as `now_s` counts."""
        return (moment - self.stage.simulator.world.clock.start).total_seconds()

    def slices(self) -> list[fleet.Slice]:
        """Those that are not somebody else's."""
        return [item for item in self.stage.whole().slices if item.name != crash_stage.FOREIGN]

    def free_cubes(self) -> list[fleet.Cube]:
        return fleet_fate.free_cubes(self.stage.whole())

    # -- cycles ------------------------------------------------------------------------------------------

    def cycle(self) -> outcomes.Outcome:
        """One cycle, as cron runs it."""
        self.loop(self.stage.ports, once=True)
        return self.outcomes[-1]

    def loop(
        self,
        ports: ports_module.Ports,
        *,
        once: bool = False,
        deadline_s: float | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Telling:
        """The loop itself, with everything looked at after each cycle."""
        told = Telling()
        loop.run(
            ports,
            told,
            self._settings,
            once=once,
            interval_s=INTERVAL_S,
            deadline_s=deadline_s,
            on_cycle=self._look,
            stop=stop,
            watch=False,
        )
        return told

    def _look(self, outcome: outcomes.Outcome) -> None:
        """What must hold after each cycle."""
        if self.outcomes:
            self.outcomes[-1] = dataclasses.replace(self.outcomes[-1], decision=None)
        self.outcomes.append(dataclasses.replace(outcome, view=None, reviewed=None))
        if outcome.failure is not None:
            self._note(f"the cycle failed: {outcome.failure.message}")
        if outcome.view is not None:
            for broken in invariants.check_invariants(outcome.view.snapshot):
                self._note(broken)
        for double in self.record.doubles:
            self._note(double)
        self.record.doubles.clear()
        if self.stage.foreign is not None:
            for broken in self.stage._foreign_marks():
                self._note(broken)

    def _note(self, text: str) -> None:
        self.wrong.append(f"after {self.since_s / 3600:.2f} h: {text}")

    # -- from empty to converged --------------------------------------------------------------------------

    @property
    def is_converged(self) -> bool:
        """If true, the last cycle found everything as it is declared."""
        decision = self.outcomes[-1].decision if self.outcomes else None
        if decision is None or decision.actions or decision.waiting:
            return False
        return self.record.is_whole

    def converge(self) -> None:
        """Until everything is as declared: the loop by itself, then slower while it waits for a window."""
        start_s = self.now_s
        self.loop(self.stage.ports, deadline_s=CONVERGES_WITHIN_S, stop=self._waits)
        while not self.is_converged and self.now_s - start_s < CONVERGES_WITHIN_S:
            self.stage.advance(INTERVAL_S if self.cycle().results else WAITING_S)
        assert self.is_converged, self.outcomes[-1].sentence
        self.result.converged_s = self.now_s - start_s

    def _waits(self) -> bool:
        """If true, everything is there in some shape, and what is left to do waits for something else."""
        decision = self.outcomes[-1].decision if self.outcomes else None
        if decision is None or decision.to_do or decision.waiting or self.outcomes[-1].results:
            return False
        return len(self.outcomes) > 1 and all(action.pool is None for action in decision.actions)

    def others_come(self) -> None:
        """Somebody else's Slice on a free cube, and their cordon on one of its nodes."""
        cube = self.free_cubes()[0].id
        crash_stage.set_the_stage(self.stage, cube)
        self.stage.cordon(self.stage.nodes_of(cube)[0])

    def start_jobs(self) -> None:
        """Work on some slices."""
        found = {item.name: item for item in self.slices()}
        for name in self.run.jobs:
            shape = found[name].topology
            assert shape is not None
            self.stage.request("POST", workloads.JOBS, workloads.job(f"work-{name}", name, shape.hosts))

    # -- days --------------------------------------------------------------------------------------------

    def play(self) -> None:
        """All the days."""
        self._start_s = self.now_s
        self.fate.settle()
        calm, seen_s = 0, 0.0
        while self.since_s < self.run.horizon_s:
            busy = self.fate.act() or bool(self.cycle().results)
            calm = 0 if busy or self.fate.happened(seen_s, self.since_s) else calm + 1
            seen_s = self.since_s
            pause_s = INTERVAL_S
            if calm > CALM:
                pause_s = self.run.idle_s if self.record.is_whole else WAITING_S
            self.stage.advance(self._until_next(pause_s))
        self.result.active = self.record.active_share(self._start_s, self.now_s)

    def _until_next(self, pause_s: float) -> float:
        """The pause, or less if something happens within it; never beyond the end."""
        now_s = self.since_s
        wake_s = self.fate.next_s(now_s) + WAKES_S - now_s
        return max(min(pause_s, wake_s, self.run.horizon_s - now_s), 1.0)

    # -- the end -----------------------------------------------------------------------------------------

    def come_to_rest(self) -> None:
        """Everything is repaired; then all must be as declared again."""
        for fault in self.stage.simulator.call(lambda: list(self.stage.simulator.world.faults)):
            self.stage.simulator.clear(fault)
        end_s = self.now_s + CONVERGES_WITHIN_S
        calm = 0
        while calm <= CALM and self.now_s < end_s:
            self.cycle()
            calm = calm + 1 if self.is_converged else 0
            self.stage.advance(INTERVAL_S if self.outcomes[-1].results else WAITING_S)
        if not self.is_converged:
            self._note(f"not converged at the end: {self.outcomes[-1].sentence}")
        self._sum_up()

    def _sum_up(self) -> None:
        record, run, result = self.record, self.run, self.result
        result.failures = self.fate.failures
        result.cycles = len(self.outcomes)
        result.actions = sum(len(outcome.results) for outcome in self.outcomes)
        result.most_disrupted = record.most_disrupted()
        result.most_in_repair = fleet_record.peak(record.repairs())
        result.most_pool_operations = fleet_record.peak(record.pool_operations())
        model = fleet_model.Model(
            cubes=run.cubes - 1,  # one is somebody else's
            failures_per_host_day=run.failures_per_host_day,
            repair_s=run.repair_s,
        )
        needs = fleet_model.needs_of(self.spec)
        share = run.maintenance_s / run.horizon_s
        result.model = (1 - share) * model.active_share(needs) + share * model.active_share(
            needs, maintained=run.maintained
        )

    def leftovers(self) -> list[str]:
        """What must not be there once all is as declared."""
        found = [f"operation {entry.operation.id}" for entry in journal.list_open(self.stage.ports)]
        found += [f"held lock {lease.name}" for lease in self.stage.ports.leases.list() if lease.is_held]
        for node in self.stage.objects("nodes"):
            name = node["metadata"]["name"]
            if crash_stage.MARK in node["metadata"].get("annotations", {}):
                found.append(f"mark on node {name}")
            if node["spec"].get("unschedulable") and name != self.stage.cordoned:
                found.append(f"cordon on node {name}")
        snapshot = self.stage.whole()
        return [*found, *(f"claim {claim}" for claim in snapshot.claims)]

    @property
    def stockout_was_met(self) -> bool:
        """If true, a creation failed, and the pool is there all the same."""
        there = {pool.name for pool in self.stage.ports.pools.list()}
        return self.fate.stockout in self.record.failed_creations() and self.fate.stockout in there


@contextlib.contextmanager
def empty_cluster(home: pathlib.Path, run: Run) -> Iterator[Days]:
    """Hardware, and a cluster without a node pool whose slice controller is off."""
    settings = simulator.Settings(cubes=run.cubes, seed=run.seed)
    with rehearsal.rehearse(settings) as scene:
        stage = crash_stage.Stage(
            simulator=scene.simulator,
            ports=scene.ports,
            context=scene.context,
            home=home,
            clock=lambda: rehearsal.DrivenClock(scene.simulator),
        )
        yield Days(stage, run)
        stage.check_simulator()
