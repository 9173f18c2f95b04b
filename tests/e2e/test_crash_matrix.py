"""The crash matrix: form, deform and swap survive kill -9 at every write and every API fault at every call.

The default run takes every kind of write with every fault; `-m slow` takes every call with every fault.
"""

from __future__ import annotations

import contextlib
import dataclasses
import traceback
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e import crash_cases, crash_scenarios, crash_stage, kill_cases
from tpuctl.cloud import kube

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Iterator, Sequence

    Points = dict[str, list[crash_cases.Point]]
    """Scenario -> its calls, as they are when nothing goes wrong."""
    Report = Callable[["Tally"], None]
    Run = Callable[[crash_stage.Stage, crash_scenarios.Scenario, Any], crash_cases.Verdict]

SCENARIOS: dict[str, Callable[[], crash_scenarios.Scenario]] = {
    "form": crash_scenarios.Form,
    "deform": crash_scenarios.Deform,
    "swap": lambda: crash_scenarios.Swap(dead_host=False),
    "swap of a dead host": lambda: crash_scenarios.Swap(dead_host=True),
}
MATRIX = ("form", "deform", "swap of a dead host")
WAYS = {
    "form": (crash_scenarios.AGAIN, crash_scenarios.RESUME, crash_scenarios.ABORT),
    "deform": (crash_scenarios.AGAIN, crash_scenarios.RESUME, crash_scenarios.ABORT),
    "swap": (crash_scenarios.AGAIN, crash_scenarios.ABORT, crash_scenarios.RESUME),
    # Going back to a cube with a dead host has to wait for its repair.
    "swap of a dead host": (crash_scenarios.AGAIN, crash_scenarios.RESUME),
}
SHOWN = 5
"""So many failures are printed in full."""


@dataclasses.dataclass
class Tally:
    """What a set of cases came to."""

    name: str
    cases: int = 0
    missed: int = 0
    """The command ended without the call at which it was to be hit."""
    failures: list[str] = dataclasses.field(default_factory=list)


class Theatre:
    """A stage that is used again for case after case, and built anew after a failure."""

    def __init__(
        self, home: pathlib.Path, build: Callable[[pathlib.Path], contextlib.AbstractContextManager]
    ) -> None:
        self._home = home
        self._build = build
        self._open = contextlib.ExitStack()
        self._stage: crash_stage.Stage | None = None

    @property
    def stage(self) -> crash_stage.Stage:
        if self._stage is None:
            self._stage = self._open.enter_context(self._build(self._home))
        return self._stage

    def close(self) -> None:
        self._stage = None
        self._open.close()

    def play(self, tally: Tally, scenario: crash_scenarios.Scenario, case: Any, run: Run) -> None:
        """One case; an exception is a failure of that case, not the end of the matrix."""
        tally.cases += 1
        try:
            verdict = run(self.stage, scenario, case)
            tally.missed += not verdict.hit
            wrong = verdict.wrong
        except Exception:  # noqa: BLE001 - shown, and counted as a failure
            wrong = [traceback.format_exc()]
        if wrong:
            tally.failures.append("\n  ".join([f"{tally.name}: {case}", *wrong]))
            self.close()


@contextlib.contextmanager
def quick_clients() -> Iterator[None]:
    """Clients that do not wait half a minute for an answer, and ask for small pages.

    Not for real time: on a busy machine an answer may take longer than that.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kube, "READ_TIMEOUT_S", crash_cases.SHORT_READ_S)
        patched.setattr(kube, "PAGE_SIZE", crash_cases.SMALL_PAGE)
        yield


@pytest.fixture
def theatre(tmp_path: pathlib.Path) -> Iterator[Theatre]:
    with quick_clients():
        made = Theatre(tmp_path, crash_stage.in_virtual_time)
        yield made
        made.close()


@pytest.fixture
def real_theatre(tmp_path: pathlib.Path) -> Iterator[Theatre]:
    made = Theatre(tmp_path, kill_cases.in_real_time)
    yield made
    made.close()


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> Points:
    """Scenario -> its calls, as they are when nothing goes wrong."""
    with quick_clients(), crash_stage.in_virtual_time(tmp_path_factory.mktemp("points")) as stage:
        return {name: crash_cases.points_of(stage, make()) for name, make in SCENARIOS.items()}


@pytest.fixture
def report(tell: Callable[[str], None], record_property: Callable[[str, object], None]) -> Report:
    """Tells one line, notes the numbers, fails if any case did."""

    def judge(tally: Tally) -> None:
        record_property("cases", tally.cases)
        record_property("failures", len(tally.failures))
        tell(f"crash matrix, {tally.name}: {tally.cases} cases, {len(tally.failures)} failures")
        assert not tally.failures, "\n\n".join(tally.failures[:SHOWN])
        # Waiting takes more or fewer reads from time to time.
        assert tally.missed <= max(tally.cases // 20, 1)

    return judge


@pytest.fixture
def complete(request: pytest.FixtureRequest) -> None:
    """For tests that take many minutes: only if they were asked for."""
    if "slow" not in request.config.option.markexpr:
        pytest.skip("the complete matrix takes long; it runs with -m slow")


# -- API faults, in process, virtual time --------------------------------------------------------------------


def api_cases(
    theatre: Theatre, name: str, chosen: Sequence[tuple[str, crash_cases.Point]], *, lasting: bool = False
) -> Tally:
    """Run these faults at these calls of a scenario."""
    tally = Tally(f"{name}, API faults" + (" that last" if lasting else ""))
    scenario = SCENARIOS[name]()
    for turn, (fault, point) in enumerate(chosen):
        case = crash_cases.Case(fault, point, WAYS[name][turn % len(WAYS[name])], lasting)
        theatre.play(tally, scenario, case, crash_cases.run)
    return tally


def lists(found: Sequence[crash_cases.Point]) -> list[crash_cases.Point]:
    return [point for point in found if point.verb == "list"]


@pytest.mark.parametrize("name", MATRIX)
def test_every_api_fault_at_every_kind_of_write(
    theatre: Theatre, points: Points, name: str, report: Report
) -> None:
    """python-base#57, kueue#14244 and their like: whatever the API does, the next run gets there."""
    matrix = {scenario: points[scenario] for scenario in MATRIX}
    chosen = crash_cases.of_every_kind(matrix, list(crash_cases.FAULTS))[name]
    [expired] = crash_cases.EXPIRED
    chosen += [(expired, point) for point in lists(points[name])[:: crash_cases.EVERY_SO_MANY]]
    report(api_cases(theatre, name, chosen))


@pytest.mark.parametrize("name", ["form", "deform", "swap"])
def test_an_api_that_goes_away_at_some_call_and_stays_away(
    theatre: Theatre, points: Points, name: str, report: Report
) -> None:
    """Nothing that would tidy up gets through either: what is left must do."""
    writes = [point for point in points[name] if point.is_write]
    chosen = [
        (crash_cases.OUTAGES[turn % len(crash_cases.OUTAGES)], point)
        for turn, point in enumerate(writes[:: 2 if name == "swap" else 1])
    ]
    report(api_cases(theatre, name, chosen, lasting=True))


@pytest.mark.slow
@pytest.mark.parametrize("fault", [*crash_cases.FAULTS, *crash_cases.EXPIRED])
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_api_fault_at_every_call(
    complete: None,
    theatre: Theatre,
    points: Points,
    name: str,
    fault: str,
    report: Report,
) -> None:
    calls = lists(points[name]) if fault in crash_cases.EXPIRED else points[name]
    report(api_cases(theatre, name, [(fault, point) for point in calls]))


@pytest.mark.slow
@pytest.mark.parametrize("fault", crash_cases.OUTAGES)
@pytest.mark.parametrize("name", SCENARIOS)
def test_an_outage_from_every_call_on(
    complete: None,
    theatre: Theatre,
    points: Points,
    name: str,
    fault: str,
    report: Report,
) -> None:
    chosen = [(fault, point) for point in points[name]]
    report(api_cases(theatre, name, chosen, lasting=True))


# -- kill -9, real processes ---------------------------------------------------------------------------------


def kills(theatre: Theatre, name: str, found: Sequence[kill_cases.Kill]) -> Tally:
    """Kill and go on, again and again."""
    tally = Tally(f"{name}, kill -9")
    scenario = SCENARIOS[name]()
    for kill in found:
        theatre.play(tally, scenario, kill, kill_cases.run)
    return tally


@pytest.mark.parametrize("name", MATRIX)
def test_killed_at_every_write_before_and_after(
    real_theatre: Theatre, points: Points, name: str, report: Report
) -> None:
    """slurm-operator#249: who dies leaves the old state, or a record that the next run finishes."""
    found = kill_cases.before_and_after(points[name])
    report(kills(real_theatre, name, found))


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_killed_at_every_write_in_every_way(
    complete: None, real_theatre: Theatre, points: Points, name: str, report: Report
) -> None:
    found = kill_cases.in_every_way(points[name], WAYS[name])
    report(kills(real_theatre, name, found))
