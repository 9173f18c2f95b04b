"""A long random run: commands, dying hardware, failing APIs, killed programs; invariants after each of them.

One seed decides what is done and what goes wrong, and time is virtual. A run with the same seed is much the
same, not quite: reads in parallel and the jitter between retries decide which call is the so-many-th.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests import workloads
from tests.e2e import crash_cases, soak_checks, soak_faults
from tests.e2e.crash_stage import LEASE_IS_OVER_S, Done, Stage, in_virtual_time
from tpuctl.cloud import kube
from tpuctl.model import operations, topology
from tpuctl.ops import journal

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable

    from tpuctl.sim import faults

NAMES = ("alpha", "beta", "gamma", "delta")
SHAPES = ("4x4x4", "4x4x8", "4x4x8", "4x4x12", "2x2x4")
BLOCKS, CUBES = 2, 5
CALM_EVERY = 60
"""Operations between two times at which everything is repaired and must come to an end."""
RECOVERY_S = 900.0
"""Until repaired hosts have booted and their slices and pods have settled."""
SENSIBLE = 0.85
"""Share of commands about a slice that is there, or not there, as the command needs it."""


@dataclasses.dataclass
class Result:
    """What a soak came to."""

    seed: int
    operations: int = 0
    faults: int = 0
    """Calls that met a fault, programs killed, hosts killed, formations made to fail."""
    crashes: int = 0
    hardware: int = 0
    by_status: dict[int, int] = dataclasses.field(default_factory=dict)
    violations: list[str] = dataclasses.field(default_factory=list)
    wall_s: float = 0.0


class Soak:
    """One run on one stage."""

    def __init__(self, stage: Stage, *, fault_rate: float, seed: int) -> None:
        self._stage = stage
        self._dice = random.Random(seed)
        self._rate = fault_rate
        self._broken: dict[str, faults.Entry] = {}
        """Node -> the fault that took it down."""
        self._jobs: dict[str, str] = {}
        """Slice -> its Job."""
        self._serial = 0
        self._saw = ""
        self.checks = soak_checks.Checks(stage)
        self.result = Result(seed)

    def run(self, count: int) -> Result:
        """Do so many operations; the last thing is that everything is finished and nothing is left."""
        started_s = time.perf_counter()
        for number in range(1, count + 1):
            self._turn(number)
            if number % CALM_EVERY == 0:
                self._calm(number)
        self._calm(count)
        self._clear(count)
        self.result.wall_s = time.perf_counter() - started_s
        return self.result

    # -- one operation -----------------------------------------------------------------------------------

    def _turn(self, number: int) -> None:
        deeds: list[tuple[Callable[[], None], int]] = [
            (self._form, 28),
            (self._deform, 12),
            (self._swap, 26),
            (self._hold, 4),
            (self._release, 8),
            (self._host_dies, 7),
            (self._hosts_are_repaired, 7),
            (self._formation_will_fail, 3),
            (self._finish_something, 22),
            (self._time_passes, 4),
        ]
        deed = self._dice.choices([one for one, _ in deeds], [weight for _, weight in deeds])[0]
        self._saw = deed.__name__.strip("_")
        self.checks.before()
        deed()
        self.result.operations += 1
        self._note(number, self.checks.after())

    def _form(self) -> None:
        name, shape = self._name(there=False), self._dice.choice(SHAPES)
        done = self._command("slice", "form", name, "--topology", shape)
        if done is not None and done.status == 0:
            self.checks.formed(name, shape)
            self._start_job(name, shape)

    def _deform(self) -> None:
        name = self._name(there=True)
        self.checks.may_go(name)
        done = self._command("slice", "deform", name, "--yes")
        if done is not None and done.status == 0:
            self.checks.deformed(name)
            self._end_job(name)

    def _swap(self) -> None:
        there = [item for item in self._stage.whole().slices if item.name in NAMES]
        if not there:
            return
        item = self._dice.choice(there)
        which = (
            ("--auto",) if self._dice.random() < 0.5 else ("--cube", self._dice.choice(item.partition_ids))
        )
        self._command("slice", "swap", item.name, *which, "--yes")

    def _name(self, *, there: bool) -> str:
        """A slice's name: mostly one that makes sense."""
        found = {item.name for item in self._stage.whole().slices}
        fitting = [name for name in NAMES if (name in found) is there]
        return self._dice.choice(fitting if fitting and self._dice.random() < SENSIBLE else NAMES)

    def _hold(self) -> None:
        cube = self._dice.choice(self._stage.whole().cubes)
        self._command("cube", "hold", cube.id, "--reason", "soak")

    def _release(self) -> None:
        held = [claim.cube_id for claim in self._stage.whole().claims if claim.holder.startswith("hold")]
        if held:
            self._command("cube", "release", self._dice.choice(held))

    def _finish_something(self) -> None:
        found = journal.list_open(self._stage.ports)
        if not found:
            return
        left = self._dice.choice(found).operation
        self._stage.advance(LEASE_IS_OVER_S)
        if left.kind is operations.Kind.DEFORM:
            self.checks.may_go(left.slice_name)
        if self._dice.random() < 0.3:
            if left.kind is operations.Kind.FORM:
                self.checks.may_go(left.slice_name)
            self.checks.was_taken_back(left.slice_name)
            self._command("operation", "abort", left.id, "--yes")
        else:
            self._command("operation", "resume", left.id)

    def _time_passes(self) -> None:
        self._stage.advance(self._dice.choice((20, 90, 400)))

    # -- hardware ----------------------------------------------------------------------------------------

    def _host_dies(self, after_s: float = 0.0) -> None:
        hosts = [host.name for cube in self._stage.whole().cubes for host in cube.hosts]
        name = self._dice.choice([host for host in hosts if host not in self._broken])
        self._broken[name] = self._stage.simulator.inject("host-down", name, after_s=after_s)
        self.checks.dead_hosts.add(name)
        self.result.hardware += 1
        if not after_s:
            self._stage.advance(self._dice.choice((5, 60, 150)))

    def _hosts_are_repaired(self) -> None:
        self._repair()
        self._stage.advance(self._dice.choice((60, 300)))

    def _repair(self) -> None:
        for name in list(self._broken):
            self._stage.simulator.clear(self._broken.pop(name))

    def _formation_will_fail(self) -> None:
        cube = self._dice.choice(self._stage.whole().cubes)
        self._stage.simulator.inject("fail-activation", cube.id, times=self._dice.choice((1, 2)))
        self.result.hardware += 1

    # -- commands under fire -----------------------------------------------------------------------------

    def _command(self, *arguments: str) -> Done | None:
        """Run the program, disturbed or not; None if it was killed."""
        self._saw = " ".join(arguments)
        kind = self._dice.choices(("none", "api", "crash", "host"), (6, 6, 6, 3))[0]
        if kind == "host" and len(self._broken) < 3:
            self._host_dies(after_s=self._dice.uniform(1, 60))
        disturbance: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
        if kind == "api":
            disturbance = soak_faults.api_fault(self._stage, self._dice, self._rate, arguments)
        elif kind == "crash":
            disturbance = soak_faults.killed_at(self._dice, arguments)
        with disturbance as met:
            try:
                done = self._stage.tpuctl(*arguments)
            except soak_faults.Killed:
                done = None
        if kind == "api":
            self.result.faults += met.hits
            self._saw += f" [{met.name} {met.hits} times]"
        if done is None:
            self.result.crashes += 1
            self._saw += f" [killed at call {met.seen}]"
            return None
        self._saw += f" -> {done.status}"
        self.result.by_status[done.status] = self.result.by_status.get(done.status, 0) + 1
        if done.is_bug:
            self._note(self.result.operations, [done.err])
        return done

    # -- jobs --------------------------------------------------------------------------------------------

    def _start_job(self, name: str, shape: str) -> None:
        size = topology.parse(shape)
        if name in self._jobs or size.is_sub_slice or self._dice.random() < 0.4:
            return
        self._serial += 1
        self._jobs[name] = f"{name}-{self._serial}"
        self._stage.request("POST", workloads.JOBS, workloads.job(self._jobs[name], name, size.hosts))
        self._stage.advance(20)

    def _end_job(self, name: str) -> None:
        if name in self._jobs:
            path = f"{workloads.JOBS}/{self._jobs.pop(name)}"
            self.checks.pods_may_go()
            self._stage.request("DELETE", path, {"propagationPolicy": "Background"})

    # -- coming to rest ----------------------------------------------------------------------------------

    def _calm(self, number: int) -> None:
        """Repair everything; whatever is open must then come to an end with one command, or with two."""
        self._saw = "calm"
        self._repair()
        for fault in self._stage.simulator.call(lambda: list(self._stage.simulator.world.faults)):
            self._stage.simulator.clear(fault)
        self._stage.advance(RECOVERY_S)
        self.checks.dead_hosts.clear()
        self.checks.before()
        for entry in journal.list_open(self._stage.ports):
            left = entry.operation
            if left.kind is not operations.Kind.SWAP:
                self.checks.may_go(left.slice_name)
            first = self._stage.tpuctl("operation", "resume", left.id)
            if journal.of_slice(self._stage.ports, left.slice_name) is None:
                continue
            self.checks.was_taken_back(left.slice_name)
            second = self._stage.tpuctl("operation", "abort", left.id, "--yes")
            if journal.of_slice(self._stage.ports, left.slice_name) is not None:
                ends = [f"`{' '.join(done.arguments)}`: {done.status} {done.err}" for done in (first, second)]
                self._note(number, [f"{left.id} does not come to an end: {left}", *ends])
        self._note(number, self.checks.after(at_rest=True))

    def _clear(self, number: int) -> None:
        """Take all away; then nothing of ours may be there."""
        self._saw = "clear"
        for name in NAMES:
            self.checks.may_go(name)
            done = self._stage.tpuctl("slice", "deform", name, "--yes")
            if done.status != 0:
                self._note(number, [f"{name} cannot be taken apart: {done.err}"])
            self._end_job(name)
        for claim in self._stage.whole().claims:
            self._stage.tpuctl("cube", "release", claim.cube_id)
        self._stage.advance(LEASE_IS_OVER_S)
        self._note(number, self._stage.leftovers())

    def _note(self, number: int, wrong: list[str]) -> None:
        self.result.violations += [
            f"seed {self.result.seed}, operation {number} ({self._saw}): {one}" for one in wrong
        ]


def run(home: pathlib.Path, *, count: int, fault_rate: float, seed: int) -> Result:
    """A soak on a fleet of its own."""
    with (
        pytest.MonkeyPatch.context() as patched,
        in_virtual_time(home, seed=seed, blocks=BLOCKS, cubes=CUBES) as stage,
    ):
        patched.setattr(kube, "READ_TIMEOUT_S", crash_cases.SHORT_READ_S)
        stage.cordon(stage.nodes_of(stage.whole().cubes[0].id)[0])
        soak = Soak(stage, fault_rate=fault_rate, seed=seed)
        result = soak.run(count)
        result.faults += result.crashes + result.hardware
        return result
