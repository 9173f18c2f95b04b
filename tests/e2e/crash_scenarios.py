"""What is interrupted: a form, a deform, a swap; how each is set up, finished, and judged afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tests.e2e.crash_stage import SHAPE, SLICE, Done, Stage
from tpuctl.model import operations

if TYPE_CHECKING:
    from tpuctl.sim import faults

AGAIN, RESUME, ABORT = "same command again", "operation resume", "operation abort"
"""The ways to go on after an accident."""
CONFLICT = 6
DEAD_HOST = 3
CORDONED_HOST = 5
FAILURE_SHOWS_S = 120.0
"""Until a dead host has made its slice FAILED and its node NotReady."""


class Scenario(Protocol):
    """One command with the scene around it; used again and again on one stage."""

    def arrange(self, stage: Stage) -> None:
        """Bring the stage to where the command begins."""
        ...

    def command(self) -> tuple[str, ...]: ...

    def misses(self, stage: Stage, *, back: bool) -> list[str]:
        """What the goal lacks; `back`: the goal is what was before the command."""
        ...

    def was_done(self, again: Done) -> bool:
        """Whether this refusal of a second run means that the first one did everything."""
        ...

    def tidy(self, stage: Stage) -> None:
        """Make the stage fit for the next case."""
        ...


class Form:
    """Form a slice of two cubes."""

    def arrange(self, stage: Stage) -> None:
        _without_slice(stage)

    def command(self) -> tuple[str, ...]:
        return ("slice", "form", SLICE, "--topology", SHAPE)

    def misses(self, stage: Stage, *, back: bool) -> list[str]:
        if back:
            return [] if stage.slice() is None else [f"slice {SLICE} is still there"]
        return _whole_slice(stage)

    def was_done(self, again: Done) -> bool:
        return False

    def tidy(self, stage: Stage) -> None:
        _without_slice(stage)


class Deform:
    """Take a slice of two cubes apart."""

    def arrange(self, stage: Stage) -> None:
        finished(stage, "slice", "form", SLICE, "--topology", SHAPE)

    def command(self) -> tuple[str, ...]:
        return ("slice", "deform", SLICE, "--yes")

    def misses(self, stage: Stage, *, back: bool) -> list[str]:
        if back:
            return _whole_slice(stage)
        labelled = stage.ports.slices.labelled_hosts(SLICE)
        gone = stage.slice() is None
        return [] if gone and not labelled else [f"gone: {gone}, labelled hosts: {labelled}"]

    def was_done(self, again: Done) -> bool:
        return False

    def tidy(self, stage: Stage) -> None:
        _without_slice(stage)


class Swap:
    """Exchange the first cube of a busy slice; one of its hosts carries a cordon of somebody else.

    With `dead_host` another of its hosts has died and `--auto` finds the cube; without, it is named.
    """

    def __init__(self, *, dead_host: bool) -> None:
        self._dead_host = dead_host
        self._fault: faults.Entry | None = None
        self._before: tuple[str, ...] = ()
        self._stay: dict[str, str] = {}
        self._turns = 0
        self._on: Stage | None = None

    @property
    def bad(self) -> str:
        """The cube that goes."""
        return self._before[0]

    def arrange(self, stage: Stage) -> None:
        if stage is not self._on:
            self._on, self._turns, self._fault = stage, 0, None
        if stage.slice() is None:
            finished(stage, "slice", "form", SLICE, "--topology", SHAPE)
            stage.must_exist = True
        # A Job makes its pods again more slowly each time: it is replaced before that takes minutes.
        if self._turns % 3 == 0:
            stage.start_job()
        self._turns += 1
        stage.until(stage.all_run)
        self._before = stage.members()
        nodes = stage.nodes_of(self.bad)
        stage.cordon(nodes[CORDONED_HOST])
        if self._dead_host:
            self._fault = stage.simulator.inject("host-down", nodes[DEAD_HOST])
            stage.advance(FAILURE_SHOWS_S)
        self._stay = stage.pods_outside(self.bad)

    def command(self) -> tuple[str, ...]:
        which = ("--auto",) if self._dead_host else ("--cube", self.bad)
        return ("slice", "swap", SLICE, *which, "--yes")

    def misses(self, stage: Stage, *, back: bool) -> list[str]:
        found = _whole_slice(stage)
        members = set(stage.members())
        if back:
            found += [] if members == set(self._before) else [f"it did not go back: {members}"]
        elif self.bad in members or not members & set(self._before):
            found.append(f"not one cube was exchanged: {self._before} -> {members}")
        now = {pod["metadata"]["uid"]: pod["status"].get("startTime") for pod in stage.pods()}
        lost = [uid for uid, started in self._stay.items() if now.get(uid) != started]
        return [*found, *(f"pod {uid} did not stay" for uid in lost)]

    def was_done(self, again: Done) -> bool:
        # Named again, the cube is a stranger: that it was exchanged is not remembered.
        return not self._dead_host and "it has no such cube" in again.err

    def tidy(self, stage: Stage) -> None:
        stage.cordon(None)
        if self._fault is not None:
            stage.simulator.clear(self._fault)
            self._fault = None
        stage.until(lambda: stage.all_run() and _all_ready(stage))


def finished(stage: Stage, *command: str) -> Done:
    """Run a command that must succeed."""
    done = stage.tpuctl(*command)
    if done.status != 0:
        raise AssertionError(f"{done.arguments} ended with {done.status}: {done.err}")
    return done


def go_on(stage: Stage, scenario: Scenario, way: str) -> tuple[list[str], bool]:
    """Finish what was interrupted, as an admin would; what went wrong, and whether it went back."""
    left = stage.open_operation()
    if left is None or way == AGAIN:
        return _again(stage, scenario)
    if way == RESUME:
        return _must_end(stage, "operation", "resume", left.id), False
    before = stage.slice()
    done = stage.tpuctl("operation", "abort", left.id, "--yes")
    if _is_past_return(left):
        # The refusal says how to finish it.
        refused = [] if done.status == CONFLICT and "resume" in done.err else [_told(done)]
        return [*refused, *_must_end(stage, "operation", "resume", left.id)], False
    wrong = [] if done.status == 0 else [_told(done)]
    after = stage.slice()
    is_intact = before is not None and before.uid == left.old_uid and not before.deleting
    if is_intact and (after is None or after.uid != left.old_uid):
        wrong.append("the old slice was still there, and going back made another one")
    return wrong, True


def _is_past_return(left: operations.Operation) -> bool:
    """What is deleted cannot be undeleted; pods that run on new cubes are not moved back."""
    begun = left.intent is not operations.Intent.PLANNED
    return left.intent is operations.Intent.RESTARTING or (left.kind is operations.Kind.DEFORM and begun)


def _again(stage: Stage, scenario: Scenario) -> tuple[list[str], bool]:
    left = stage.open_operation()
    done = stage.tpuctl(*scenario.command())
    if left is None or left.kind is not operations.Kind.SWAP:
        return [] if done.status == 0 or scenario.was_done(done) else [_told(done)], False
    # A swap that is open is not begun anew: the error says how it is finished.
    hint = f"tpuctl operation resume {left.id}"
    wrong = [] if done.status == CONFLICT and hint in done.err else [_told(done)]
    return [*wrong, *_must_end(stage, "operation", "resume", left.id)], False


def _without_slice(stage: Stage) -> None:
    if stage.slice() is not None:
        finished(stage, "slice", "deform", SLICE, "--yes")


def _must_end(stage: Stage, *command: str) -> list[str]:
    done = stage.tpuctl(*command)
    return [] if done.status == 0 else [_told(done)]


def _told(done: Done) -> str:
    return f"`{' '.join(done.arguments)}` ended with {done.status}: {done.err.strip()}"


def _whole_slice(stage: Stage) -> list[str]:
    found = stage.slice()
    if found is None:
        return [f"slice {SLICE} is not there"]
    cubes = len(found.partition_ids)
    if (str(found.state), found.deleting, cubes) != ("ACTIVE", False, 2):
        return [f"slice {SLICE} is {found.state} with {cubes} cubes (deleting: {found.deleting})"]
    return []


def _all_ready(stage: Stage) -> bool:
    """All nodes are Ready and their cubes can be used."""
    return all(
        any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"]["conditions"])
        and node["metadata"]["labels"].get("cloud.google.com/gke-tpu-partition-4x4x4-state") == "HEALTHY"
        for node in stage.objects("nodes")
    )
