"""API faults at chosen calls of a command: which there are, and what one case does."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, NamedTuple

from tests.e2e import crash_scenarios, crash_stage
from tpuctl.sim import api_faults
from tpuctl.sim.api_faults import calls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from starlette import requests, responses

SHORT_READ_S = 0.3
"""Real seconds that clients wait for an answer in these tests."""
HELD_S = 2 * SHORT_READ_S
ALWAYS = 1_000_000
ONE_TURN = 8
"""At most so many calls belong to one turn of a loop: the write, with its reads and lock checks."""
EVERY_SO_MANY = 10
"""Stride over the reads where not all of them are taken."""
TWIST = 5
"""Keeps calls that follow each other from meeting the same fault."""
SMALL_PAGE = 20
"""Objects on a page of a list, so that lists of nodes and pods have pages in these tests."""

FAULTS: dict[str, api_faults.Effect] = {
    "401": api_faults.Error(401),
    "403": api_faults.Error(403),
    "409": api_faults.Error(409),
    "429 with Retry-After": api_faults.Error(429, retry_after_s=3),
    "500": api_faults.Error(500),
    "500 after commit": api_faults.Error(500, when="after"),
    "503": api_faults.Error(503),
    "reset before": api_faults.Reset("before"),
    "reset after commit": api_faults.Reset("after"),
    "timeout before": api_faults.Timeout("before", hold_s=HELD_S),
    "timeout after commit": api_faults.Timeout("after", hold_s=HELD_S),
    "cut off": api_faults.Truncated("connection"),
    "half a document": api_faults.Truncated("json"),
    "error under 200": api_faults.ErrorUnder200(500),
}
"""Name -> a fault that fits every call."""
EXPIRED = {"410 on a list page": api_faults.Expired()}
OUTAGES = ("503", "reset before", "reset after commit", "401")
"""Faults that are also left in place, on all calls, until the command has ended."""


class Point(NamedTuple):
    """One call of a command: the so-many-th of its kind."""

    verb: str
    resource: str
    ordinal: int
    position: int
    """The so-many-th of all calls."""

    @property
    def is_write(self) -> bool:
        return self.verb not in ("get", "list", "watch")

    def __str__(self) -> str:
        return f"{self.verb} {self.resource or 'discovery'} #{self.ordinal}"


@contextlib.contextmanager
def watched(stage: crash_stage.Stage) -> Iterator[list[Point]]:
    """The calls to the Kubernetes API while this lasts."""
    seen: list[Point] = []
    counts: dict[tuple[str, str], int] = {}

    async def note(
        request: requests.Request, _proceed: Callable[[], responses.Response]
    ) -> responses.Response | None:
        call = calls.understand(calls.KUBERNETES, request)
        kind = (call.verb, call.resource)
        counts[kind] = counts.get(kind, 0) + 1
        seen.append(Point(*kind, counts[kind], len(seen) + 1))
        return None

    with stage.intercepted(note):
        yield seen


def points_of(stage: crash_stage.Stage, scenario: crash_scenarios.Scenario) -> list[Point]:
    """The calls of the command when nothing goes wrong, on a cluster that tpuctl has never worked on.

    Of calls of one kind in a row only the first, the middle and the last: sixteen hosts, sixteen pods.
    """
    scenario.arrange(stage)
    stage.forget_namespace()
    with watched(stage) as seen:
        crash_scenarios.finished(stage, *scenario.command())
    scenario.tidy(stage)
    return _ends_and_middle(seen)


def _ends_and_middle(points: Sequence[Point]) -> list[Point]:
    runs: list[list[Point]] = []
    latest: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        kind = (point.verb, point.resource)
        run = latest.get(kind)
        if run is not None and point.position - run[-1].position <= ONE_TURN:
            run.append(point)
        else:
            latest[kind] = [point]
            runs.append(latest[kind])
    chosen = {run[index] for run in runs for index in (0, len(run) // 2, -1)}
    return sorted(chosen, key=lambda point: point.position)


def of_every_kind(
    points: Mapping[str, Sequence[Point]], faults: Sequence[str]
) -> dict[str, list[tuple[str, Point]]]:
    """Each fault at each kind of write; each write, and every so-many-th read, with some fault.

    A kind of write that several commands make is met in the first of them, where it takes the calls in turn.
    Deterministic: scenario -> (fault, point).
    """
    chosen: dict[str, list[tuple[str, Point]]] = {name: [] for name in points}
    seen: set[tuple[str, str]] = set()
    for name, found in points.items():
        writes: dict[tuple[str, str], list[Point]] = {}
        for point in found:
            if point.is_write:
                writes.setdefault((point.verb, point.resource), []).append(point)
        for turn, (kind, same) in enumerate(writes.items()):
            if kind not in seen:
                chosen[name] += [(fault, same[number % len(same)]) for number, fault in enumerate(faults)]
            else:
                chosen[name] += [
                    (faults[(turn * TWIST + number) % len(faults)], point)
                    for number, point in enumerate(same)
                ]
        seen |= set(writes)
        reads = [point for point in found if not point.is_write][::EVERY_SO_MANY]
        chosen[name] += [(faults[turn % len(faults)], point) for turn, point in enumerate(reads)]
    return chosen


@dataclasses.dataclass(frozen=True)
class Case:
    """One fault at one call, and the way to go on afterwards."""

    fault: str
    point: Point
    way: str
    lasting: bool = False

    def __str__(self) -> str:
        length = "from then on" if self.lasting else "once"
        return f"{self.fault} at {self.point} {length}, then {self.way}"

    def injected(self, stage: crash_stage.Stage) -> contextlib.AbstractContextManager[api_faults.Injection]:
        effect = FAULTS.get(self.fault) or EXPIRED[self.fault]
        if self.lasting:
            trigger = {"call": self.point.position, "times": ALWAYS}
            return api_faults.injected(stage.simulator, effect, api=calls.KUBERNETES, **trigger)
        return api_faults.injected(
            stage.simulator,
            effect,
            api=calls.KUBERNETES,
            verb=self.point.verb,
            resource=self.point.resource,
            call=self.point.ordinal,
        )


class Verdict(NamedTuple):
    """How a case ended."""

    hit: bool
    """If false, the command ended without the call in question."""
    wrong: list[str]


def run(stage: crash_stage.Stage, scenario: crash_scenarios.Scenario, case: Case) -> Verdict:
    """Set up, meet the fault, go on without it, and look at everything."""
    scenario.arrange(stage)
    if case.point.resource == "namespaces":
        stage.forget_namespace()
    with case.injected(stage) as fault:
        done = stage.tpuctl(*scenario.command())
    wrong = stage.broken_promises()
    if done.is_bug:
        wrong.append(done.err)
    back = False
    if done.status == 0:
        wrong += [f"success was claimed, but {miss}" for miss in scenario.misses(stage, back=False)]
    stage.advance(crash_stage.LEASE_IS_OVER_S)
    if done.status != 0:
        complaints, back = crash_scenarios.go_on(stage, scenario, case.way)
        wrong += [*complaints, *scenario.misses(stage, back=back)]
    wrong += [*stage.broken_promises(), *stage.leftovers()]
    if not wrong:
        scenario.tidy(stage)
    return Verdict(fault.hits > 0, wrong)
