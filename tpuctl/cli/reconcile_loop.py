"""`tpuctl reconcile run` as a process: signals, what it writes each cycle, metrics, probes, hooks."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING

from tpuctl.cli import hooks as hook_runs
from tpuctl.cli import output, reconcile_reread, reconcile_results, reconcile_setup, session, stopping
from tpuctl.ops import locking
from tpuctl.ops.reconciling import loop, outcomes, telling

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Iterator

    from tpuctl.cli import metrics as metrics_module
    from tpuctl.cli import probes as probes_module
    from tpuctl.cli import terminal as terminals
    from tpuctl.model import declared
    from tpuctl.ops import ports as ports_module

DEAF_AFTER_S = 600.0
"""Real seconds without a sign of life before the liveness probe fails; ten intervals if that is more."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wish:
    """The options of `reconcile run`."""

    file: pathlib.Path
    policy: pathlib.Path | None
    mode: declared.Mode
    once: bool
    interval_s: float
    deadline_s: float | None
    metrics_address: str | None
    fmt: output.Format | None


def run(wish: Wish) -> int:
    """Run the loop, and return the exit status: that of the loop, or of the signal that ended it."""
    screen = session.current().terminal
    seen = reconcile_reread.identity(wish.file)
    given = reconcile_setup.given(wish.file, wish.policy, mode=wish.mode)
    runner = hook_runs.Runner(given.spec.hooks, screen, fleet=given.spec.name)
    settings = dataclasses.replace(
        given.settings,
        hooks=runner,
        interval_s=wish.interval_s,
        about=screen.be_about,
        reread=reconcile_reread.Reread(
            wish.file, seen, given.settings, screen, on_new=lambda spec: runner.use(spec.hooks)
        ),
    )
    with contextlib.ExitStack() as stack:
        watcher = stack.enter_context(_watcher(wish, given, screen))
        show = _Shown(screen, wish)

        def on_cycle(outcome: outcomes.Outcome) -> None:
            watcher.on_cycle(outcome)
            show(outcome)
            runner.tell()

        stop = stack.enter_context(stopping.on_signals(watcher.on_look, screen.note))
        try:
            status = loop.run(
                given.ports,
                _Reporter(screen.reporter(), watcher.on_progress),
                settings,
                once=wish.once,
                interval_s=wish.interval_s,
                deadline_s=wish.deadline_s,
                on_cycle=on_cycle,
                stop=stop,
            )
        finally:
            runner.close(stop)
            screen.be_about({})
        return status if stop.status is None else stop.status


# -- what is written -------------------------------------------------------------------------------------


class _Shown:
    """Each cycle once: a sentence on stderr for whoever sits at a terminal, else an object on stdout."""

    def __init__(self, screen: terminals.Terminal, wish: Wish) -> None:
        self._screen = screen
        self._wish = wish
        self._format = output.chosen(wish.fmt)
        self._objects = _wants_objects(screen, wish.fmt)

    def __call__(self, outcome: outcomes.Outcome) -> None:
        self._screen.be_about({"cycle": outcome.cycle, "plan": outcome.plan_id})
        if self._objects and self._format is output.Format.NAME:
            for result in outcome.results:
                self._screen.out(result.action.id)
        elif self._objects:
            document = reconcile_results.cycle_plain(outcome, self._wish.mode)
            self._screen.out(output.encode_next(document, self._format))
        if not self._objects or self._screen.logs_json:
            self._tell(outcome)
        # Of one cycle the failure is the end of the command, which tells the hint itself.
        if outcome.failure is not None and outcome.failure.hint and not self._wish.once:
            self._screen.note(f"hint: {outcome.failure.hint}")
        self._screen.be_about({})

    def _tell(self, outcome: outcomes.Outcome) -> None:
        for result in outcome.results:
            if result.became is outcomes.Became.FAILED:
                why = f"{result.action.id} failed: {result.why}"
                self._screen.warn(why, object=telling.object_of(result.action))
        sentence = outcome.sentence
        if not self._wish.once and outcome.at is not None and not self._screen.logs_json:
            sentence = reconcile_results.stamped(outcome.at, sentence)
        if outcome.failure is not None:
            self._screen.warn(sentence)
        else:
            self._screen.note(sentence)


def _wants_objects(screen: terminals.Terminal, fmt: output.Format | None) -> bool:
    if fmt in (output.Format.TABLE, output.Format.WIDE):
        return False
    wanted = output.chosen(fmt)
    return wanted.is_document or wanted is output.Format.NAME or not screen.stdout_is_terminal


# -- who watches the loop --------------------------------------------------------------------------------


class _Watcher:
    """Watches nothing: no address to answer on was given."""

    def on_cycle(self, outcome: outcomes.Outcome) -> None:
        pass

    def on_look(self) -> None:
        pass

    def on_progress(self) -> None:
        pass


class _Measured(_Watcher):
    """Feeds metrics and probes with what the loop does."""

    def __init__(
        self,
        metrics: metrics_module.Metrics,
        probes: probes_module.Probes,
        clock: ports_module.Clock,
    ) -> None:
        self._metrics = metrics
        self._probes = probes
        self._clock = clock
        self._leads = False

    def on_cycle(self, outcome: outcomes.Outcome) -> None:
        from tpuctl.cli import metrics as metrics_module  # noqa: PLC0415 - imported already if we are here

        self._leads = not isinstance(outcome.failure, locking.LostLock)
        if not self._leads:
            self._metrics.stand_by()
        elif not outcome.is_full or outcome.view is None or outcome.decision is None or outcome.at is None:
            self._metrics.note_failure()
        else:
            self._probes.sign("cycle")
            self._metrics.note(
                metrics_module.Cycle(
                    at=outcome.at,
                    seen_s=self._clock.monotonic_s() - outcome.duration_s,
                    duration_s=outcome.duration_s,
                    spec=outcome.view.spec,
                    snapshot=outcome.view.snapshot,
                    decision=outcome.decision,
                    results=[(result.action.kind, str(result.became)) for result in outcome.results],
                    repairs=reconcile_results.repair_counts(outcome.reviewed),
                )
            )

    def on_look(self) -> None:
        """The loop asks whether to end: for a standby that is its sign of life, for a leader it is none."""
        if not self._leads:
            self._probes.sign("standby")

    def on_progress(self) -> None:
        self._probes.sign("progress")


@contextlib.contextmanager
def _watcher(wish: Wish, given: reconcile_setup.Given, screen: terminals.Terminal) -> Iterator[_Watcher]:
    """Answer on the address that was asked for, if any."""
    if wish.metrics_address is None:
        yield _Watcher()
        return
    from tpuctl.cli import metrics as metrics_module  # noqa: PLC0415 - the client costs 50 ms
    from tpuctl.cli import probes as probes_module  # noqa: PLC0415

    where = probes_module.address(wish.metrics_address)
    clock = given.ports.clock
    metrics = metrics_module.Metrics(given.settings.policy, clock.monotonic_s)
    limit_s = max(DEAF_AFTER_S, 10 * wish.interval_s / max(clock.scale, 1.0))
    probes = probes_module.Probes(screen.monotonic_s, limit_s)
    with probes_module.served(where, metrics, probes) as taken:
        screen.note(f"/metrics, /healthz and /readyz on {taken.host}:{taken.port}")
        yield _Measured(metrics, probes, clock)


class _Reporter:
    """A reporter whose steps are signs of life."""

    def __init__(self, inner: ports_module.Reporter, on_progress: Callable[[], None]) -> None:
        self._inner = inner
        self._on_progress = on_progress
        self.warn = inner.warn
        self.going_on = inner.going_on

    def step(self, text: str) -> None:
        self._on_progress()
        self._inner.step(text)

    def progress(self, done: int, total: int, text: str) -> None:
        self._on_progress()
        self._inner.progress(done, total, text)
