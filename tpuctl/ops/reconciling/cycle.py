"""One cycle: observe everything, judge repairs, decide, act, remember. Or: observe, decide, and only tell."""

from __future__ import annotations

import dataclasses
import datetime
from typing import TYPE_CHECKING

from tpuctl.engine import reconciling as engine
from tpuctl.model import errors, reconciling
from tpuctl.ops.reconciling import acting, gates, leadership, memory, outcomes, telling, views
from tpuctl.ops.reconciling import desk as desks
from tpuctl.ops.reconciling import settings as settings_module
from tpuctl.ops.repairs import reviewing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tpuctl.model import repairs
    from tpuctl.ops import ports as ports_module
    from tpuctl.ops.repairs import values

_HOUR = datetime.timedelta(hours=1)
Planned = outcomes.Planned
Outcome = outcomes.Outcome
Result = outcomes.Result
Became = outcomes.Became


def plan(
    ports: ports_module.Ports, reporter: ports_module.Reporter, settings: settings_module.Settings
) -> Planned:
    """What a cycle would do now, for a person to read; nothing is written.

    What is so only because nobody watches a loop is left out: see `engine.attended`.
    """
    view = engine.attended(views.observe(ports, settings).view)
    return look(ports, reporter, settings, view)


def look(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    settings: settings_module.Settings,
    view: engine.View,
) -> Planned:
    """Decide on a view and write nothing: what a full cycle on it would come to."""
    reviewed = _reviewed(ports, reporter, settings, view, None)
    if reviewed is not None and _is_held(view):
        reviewed = dataclasses.replace(reviewed, opened=(), due=(), closed=())
    view = _with_repairs(view, reviewed)
    return Planned(view=view, decision=engine.decide(view), reviewed=reviewed)


def run(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    settings: settings_module.Settings,
    leader: leadership.Leader,
    *,
    number: int = 1,
    previous: engine.View | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Observe anew, decide and act. Never raises what a cycle can meet: see `Outcome.failure`.

    `number` tells apart cycles of one second; `previous` is the newest view of the cycles before.
    """
    started_s = ports.clock.monotonic_s()
    try:
        leader.check()
        observed = views.observe(gates.guarded(ports, leader), settings, previous)
    except errors.TpuctlError as error:
        return blind(error, number)
    return _Cycle(ports, reporter, settings, leader, observed, number, started_s).run(stop)


def blind(error: errors.TpuctlError, number: int = 1) -> Outcome:
    """A cycle that could not see everything, and therefore did nothing."""
    sentence = f"nothing was done: {error.message}"
    return Outcome(cycle=f"blind-{number}", at=None, sentence=sentence, failure=error)


def quiet(planned: Planned, number: int) -> Outcome:
    """A full cycle with nothing to do."""
    return Outcome(
        cycle=cycle_id(planned.view, number),
        at=planned.view.now,
        sentence=_sentence(planned.decision, (), None, planned.reviewed),
        decision=planned.decision,
        view=planned.view,
        reviewed=planned.reviewed,
    )


def cycle_id(view: engine.View, number: int) -> str:
    """Names a cycle by the servers' time of its view."""
    return f"{view.now:%Y%m%dT%H%M%SZ}-{number}"


class _Cycle:
    """One cycle on one view."""

    def __init__(
        self,
        ports: ports_module.Ports,
        reporter: ports_module.Reporter,
        settings: settings_module.Settings,
        leader: leadership.Leader,
        observed: views.Observed,
        number: int,
        started_s: float,
    ) -> None:
        self._plain = ports
        self._ports = gates.guarded(ports, leader)
        self._reporter = reporter
        self._settings = settings
        self._leader = leader
        self._view = observed.view
        self._loaded = observed.loaded
        self._id = cycle_id(observed.view, number)
        self._started_s = self._seen_s = started_s

    def run(self, stop: Callable[[], bool]) -> Outcome:
        reviewed: values.Review | None = None
        decision: reconciling.Decision | None = None
        self._settings.about({"cycle": self._id})
        try:
            reviewed = self._review()
            decision = engine.decide(self._view)
            # What is going to be disturbed counts before it is: a crash in between errs on the safe side.
            self._loaded = memory.save(self._ports, self._loaded, decision.memory)
        except errors.TpuctlError as error:
            return self._outcome(decision, reviewed, (), error)
        done = self._act(decision, reviewed, stop)
        return self._outcome(decision, reviewed, done.results, done.failure)

    def _review(self) -> values.Review | None:
        """Repairs first: what they hold on to is nobody else's. After one was carried out, look again."""
        # Like everything else they are not carried out on a first look, and not while paused.
        may_act = None if _is_held(self._view) else self._may_act
        reviewed = _reviewed(self._ports, self._reporter, self._settings, self._view, may_act)
        if reviewed is not None and reviewed.executed:
            observed = views.observe(self._ports, self._settings, self._view)
            self._view, self._loaded = observed
            self._seen_s = self._ports.clock.monotonic_s()
        self._view = _with_repairs(self._view, reviewed)
        return reviewed

    def _may_act(self, item: repairs.Item) -> str:
        """The breaker and the budget of disruption hold for repairs too; what they take counts before."""
        kept, now, chips = self._loaded.memory, self._view.now, item.case.blast.interrupted_chips
        tripped = kept.tripped or engine.decide(self._view).memory.tripped
        if tripped is not None:
            return f"breaker: {tripped.why}"
        name = f"repair/{item.id}"
        if not chips or any(entry.action == name for entry in kept.disruptions):
            return ""
        left = budget_left(self._settings, kept, now)
        if chips > left:
            return f"disruption budget: it interrupts {chips:,} chips, {left:,} are left in this hour"
        counted = (*kept.disruptions, reconciling.Disruption(now, chips, name))
        self._loaded = memory.save(self._ports, self._loaded, dataclasses.replace(kept, disruptions=counted))
        self._view = dataclasses.replace(self._view, memory=self._loaded.memory)
        return ""

    def _act(
        self,
        decision: reconciling.Decision,
        reviewed: values.Review | None,
        stop: Callable[[], bool],
    ) -> acting.Done:
        actions = decision.to_do
        if actions:
            self._leader.begins_to_act()
        desk = desks.Desk(
            ports=self._ports,
            reporter=self._reporter,
            settings=self._settings,
            teller=telling.Teller(
                self._ports,
                self._reporter,
                self._settings,
                cycle=self._id,
                plan=outcomes.plan_id(actions),
            ),
            view=self._view,
            seen_s=self._seen_s,
            loaded=self._loaded,
        )
        done = acting.carry_out(desk, actions, stop=stop)
        repaired = () if reviewed is None else reviewed.executed
        return remembered(desk, done, self._view, decision.memory, repaired)

    def _outcome(
        self,
        decision: reconciling.Decision | None,
        reviewed: values.Review | None,
        results: tuple[Result, ...],
        failure: errors.TpuctlError | None,
    ) -> Outcome:
        outcome = Outcome(
            cycle=self._id,
            at=self._view.now,
            sentence=_sentence(decision, results, failure, reviewed),
            decision=decision,
            results=results,
            view=self._view,
            reviewed=reviewed,
            failure=failure,
            plan_id="" if decision is None else outcomes.plan_id(decision.to_do),
            duration_s=self._plain.clock.monotonic_s() - self._started_s,
        )
        if failure is None and decision is not None:
            try:
                self._leader.tell(told(self._settings, self._view, decision, results, self._id, reviewed))
            except errors.TpuctlError as error:
                return dataclasses.replace(outcome, failure=error)
        return outcome


def remembered(
    desk: desks.Desk,
    done: acting.Done,
    view: engine.View,
    decided: reconciling.Memory,
    repaired: Sequence[values.Executed] = (),
) -> acting.Done:
    """Write down what became of the actions. Who does not lead any more writes nothing.

    `view` is what the cycle began with, `decided` the memory that it decided on.
    """
    if isinstance(done.failure, leadership.LostLeadership):
        return done
    try:
        desk.remember(
            memory.after(
                desk.loaded.memory,
                done.results,
                desk.formed,
                suspects=desk.suspects,
                decided_at=view.now,
                now=desk.now,
            )
        )
        actor = desk.ports.identity.actor()
        entries = desk.teller.entries(view.now, actor, _worth_telling(done.results), view.memory, decided)
        desk.teller.remember([*desk.teller.repairs(view.now, actor, repaired), *entries])
        _tell_failures(desk, done.results, view)
    except errors.TpuctlError as error:
        return done._replace(failure=done.failure or error)
    return done


def _tell_failures(desk: desks.Desk, results: Sequence[Result], view: engine.View) -> None:
    """For whoever looks at a slice that does not come right."""
    for result in results:
        item = view.snapshot.slices_by_name.get(result.action.target)
        if result.became is Became.FAILED and item is not None:
            text = f"{telling.line(result.action, result.why)}"
            desk.teller.of_slice(item, "ReconcileFailed", text, warning=True)


def told(
    settings: settings_module.Settings,
    view: engine.View,
    decision: reconciling.Decision,
    results: Sequence[Result],
    cycle: str,
    reviewed: values.Review | None,
) -> leadership.Told:
    """What the leader says of a full cycle."""
    changed = {result.action.id for result in results if result.became is Became.DONE}
    pending = [
        f"{telling.line(action)}" + (f" [{action.stopped_by}]" if action.stopped_by else "")
        for action in decision.actions
        if action.id not in changed
    ]
    return leadership.Told(
        cycle=cycle,
        full_cycle_at=view.now,
        interval_s=settings.interval_s,
        fleet=settings.spec.name,
        spec_digest=settings.spec_digest,
        sentence=_sentence(decision, tuple(results), None, reviewed),
        pending=tuple(pending),
        waiting=tuple(f"{name}: {why}" for name, why in decision.waiting),
        stuck=(*_unread(settings), *(() if reviewed is None else reviewed.stuck)),
        paused=view.pause is not None,
    )


def _unread(settings: settings_module.Settings) -> tuple[str, ...]:
    return (f"declared state: {settings.trouble}",) if settings.trouble else ()


def budget_left(settings: settings_module.Settings, kept: reconciling.Memory, now: datetime.datetime) -> int:
    """Chips of running slices that may still be interrupted in this hour."""
    spent = sum(entry.chips for entry in kept.disruptions if now - entry.at < _HOUR)
    return max(settings.spec.budgets.disrupted_chips_per_hour - spent, 0)


def _reviewed(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    settings: settings_module.Settings,
    view: engine.View,
    may_act: Callable[[repairs.Item], str] | None,
) -> values.Review | None:
    """Repairs, judged as the loop's mode demands; without `may_act` nothing is written."""
    if settings.review is None:
        return None
    seen = settings_module.Seen(view.snapshot, settings.spec, settings.policy, settings.mode, view.now)
    if may_act is None:
        return reviewing.look(ports, reporter, seen)
    return settings.review(ports, reporter, seen, settings.hooks, may_act=may_act)


def _is_held(view: engine.View) -> bool:
    """If true, repairs are only looked at: on a first look, or while the loop is paused."""
    return view.memory.observed_at is None or view.pause is not None


def _with_repairs(view: engine.View, reviewed: values.Review | None) -> engine.View:
    return view if reviewed is None else dataclasses.replace(view, repairing=reviewed.repairing)


def _worth_telling(results: Sequence[Result]) -> list[Result]:
    """What changed something or failed; that something was put off is told by the next cycle's plan."""
    return [result for result in results if result.has_changed or result.became is Became.FAILED]


def _sentence(
    decision: reconciling.Decision | None,
    results: tuple[Result, ...],
    failure: errors.TpuctlError | None,
    reviewed: values.Review | None,
) -> str:
    parts = [] if decision is None else [decision.sentence.rstrip(".")]
    told = () if reviewed is None else _of_repairs(reviewed)
    if told:
        parts = [part.removesuffix("; nothing to do") for part in parts]
    parts += [*told, outcomes.counted(results)]
    if failure is not None:
        parts.append(f"the cycle ended early: {failure.message}".rstrip("."))
    return "; ".join(part for part in parts if part) + "."


def _of_repairs(reviewed: values.Review) -> tuple[str, ...]:
    """What repairs add to the sentence of a cycle: what was done, and what a person is to say yes to."""
    done = tuple(one.text.rstrip(".") for one in reviewed.executed)
    count = len(reviewed.to_approve)
    if not count:
        return done
    wait = "1 repair waits" if count == 1 else f"{count:,} repairs wait"
    return (*done, f"{wait} for a yes (tpuctl repair list)")
