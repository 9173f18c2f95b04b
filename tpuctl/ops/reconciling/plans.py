"""Apply a plan that was made before: once, and only if the world is still what it relies on.

That a plan was used is written down before its first action, and what of it is done after each, so that a run
that failed half-way is gone on with and nothing is done twice.
"""

from __future__ import annotations

import dataclasses
import datetime  # noqa: TC003 - the codec resolves annotations at run time
from typing import TYPE_CHECKING

from tpuctl.engine import reconciling as engine
from tpuctl.model import errors, operations, reconciling, records, states
from tpuctl.ops.reconciling import (
    acting,
    cycle,
    gates,
    leadership,
    memory,
    outcomes,
    plan_files,
    telling,
    views,
)
from tpuctl.ops.reconciling import desk as desks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tpuctl.ops import ports as ports_module
    from tpuctl.ops.reconciling import settings as settings_module

make, write, read = plan_files.make, plan_files.write, plan_files.read
_PREFIX = "plan-"
_Kind = reconciling.ActionKind
_WORKS = {
    _Kind.FORM: (operations.Kind.FORM,),
    _Kind.SWAP: (operations.Kind.SWAP,),
    _Kind.DEFORM: (operations.Kind.DEFORM,),
    _Kind.GROW: (operations.Kind.DEFORM, operations.Kind.FORM, operations.Kind.SWAP),
    _Kind.MOVE: (operations.Kind.DEFORM, operations.Kind.FORM, operations.Kind.SWAP),
}
"""Operations by which an action is carried out."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Used:
    """The record that a plan was used."""

    schema: int = reconciling.SCHEMA
    id: str
    actor: str
    at: datetime.datetime
    expires_at: datetime.datetime
    done: tuple[str, ...] = ()
    """Ids of the actions that are done, or that the service goes on with."""


def apply(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    settings: settings_module.Settings,
    plan: reconciling.PlanFile,
    *,
    version: str,
    resume: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> outcomes.Outcome:
    """Carry out the plan's actions. `settings` must be what it was made with.

    Raises Busy if a loop leads, Conflict with the list of what is otherwise, or if the plan was used and
    `resume` is not set, GuardStopped if it has expired or the breaker, a pause or a budget forbids it. With
    `resume`, actions that are done are left out.
    """
    with leadership.lead(ports, reporter) as leader:
        if leader is None:
            raise AssertionError("who does not wait leads or is told who does")
        return _Application(ports, reporter, settings, leader, plan).run(version, stop, resume=resume)


def used(ports: ports_module.Ports, plan: reconciling.PlanFile) -> Used | None:
    """What is known of an earlier use; raises DamagedRecord."""
    record = ports.records.get(_PREFIX + plan.id)
    return None if record is None else _read(record)


class _Application:
    """One use of a plan."""

    def __init__(
        self,
        ports: ports_module.Ports,
        reporter: ports_module.Reporter,
        settings: settings_module.Settings,
        leader: leadership.Leader,
        plan: reconciling.PlanFile,
    ) -> None:
        self._plain = ports
        self._ports = gates.guarded(ports, leader)
        self._reporter = reporter
        self._settings = settings
        self._leader = leader
        self._plan = plan

    def run(self, version: str, stop: Callable[[], bool], *, resume: bool) -> outcomes.Outcome:
        started_s = self._plain.clock.monotonic_s()
        observed = views.observe(self._ports, self._settings)
        plan_files.refuse_unfit(self._plan, observed.view, self._settings, version)
        record = self._plain.records.get(_PREFIX + self._plan.id)
        if record is not None and not resume:
            earlier = _read(record)
            raise errors.Conflict(
                f"plan {self._plan.id} was used already, by {earlier.actor} at "
                f"{earlier.at:%Y-%m-%d %H:%M:%S} UTC",
                hint=f"{plan_files.REMAKE}; to go on with what failed: add --resume",
                details=tuple(f"done: {action}" for action in earlier.done),
            )
        actions = self._left(observed.view, record)
        self._refuse(observed.view, actions)
        record = record or self._begin(observed.view)
        done = self._carry_out(observed, actions, record, stop, started_s)
        return self._outcome(observed.view, done, started_s)

    def _left(self, view: engine.View, record: ports_module.Record | None) -> tuple[reconciling.Action, ...]:
        """What is still to be done; what an earlier run has left open comes first."""
        if record is None:
            return self._plan.actions
        finished = set(_read(record).done)
        left = [
            action
            for action in self._plan.actions
            if action.id not in finished and not _is_true(view, action)
        ]
        openings = {operation.id: operation for action in left for operation in _open(view, action)}
        finishes = [
            reconciling.Action(
                kind=_Kind.FINISH, target=name, reason="an earlier run of this plan left it open"
            )
            for name in sorted(openings)
        ]
        return (*finishes, *(action for action in left if not any(_open(view, action))))

    def _refuse(self, view: engine.View, actions: Sequence[reconciling.Action]) -> None:
        moved = engine.drift(view, tuple(actions))
        if moved:
            raise errors.Conflict(
                f"the world moved since plan {self._plan.id} was made; nothing was done",
                hint=plan_files.REMAKE,
                details=moved,
            )
        if view.pause is not None:
            gates.refuse_if_paused(self._plain)
        tripped = view.memory.tripped or engine.decide(view).memory.tripped
        if tripped is not None:
            raise errors.GuardStopped(
                f"the breaker is open since {tripped.at:%Y-%m-%d %H:%M:%S} UTC: {tripped.why}",
                hint="when that is looked at: tpuctl reconcile resume --reset-breaker",
            )
        wanted = sum(action.chips for action in actions)
        left = cycle.budget_left(self._settings, view.memory, view.now)
        if wanted > left:
            raise errors.GuardStopped(
                f"the plan interrupts {wanted:,} chips, and {left:,} are left in this hour",
                hint="wait, or raise budgets.disruptedChipsPerHour in the fleet file and plan again",
            )

    def _begin(self, view: engine.View) -> ports_module.Record:
        """Mark the plan as used, and forget marks of plans that nobody can use any more."""
        gates.refuse_if_paused(self._plain)
        for record in self._ports.records.list(records.PLAN):
            if _read(record).expires_at < view.now:
                self._ports.records.delete(record)
        mark = Used(
            id=self._plan.id,
            actor=self._ports.identity.actor(),
            at=view.now,
            expires_at=self._plan.expires_at,
        )
        return self._ports.records.create(_PREFIX + self._plan.id, records.PLAN, records.write(mark))

    def _carry_out(
        self,
        observed: views.Observed,
        actions: tuple[reconciling.Action, ...],
        record: ports_module.Record,
        stop: Callable[[], bool],
        started_s: float,
    ) -> acting.Done:
        view = observed.view
        decided = _counted(view, actions)
        name = cycle.cycle_id(view, 1)
        desk = desks.Desk(
            ports=self._ports,
            reporter=self._reporter,
            settings=self._settings,
            teller=telling.Teller(
                self._ports, self._reporter, self._settings, cycle=name, plan=self._plan.id
            ),
            view=view,
            seen_s=started_s,
            loaded=memory.save(self._ports, observed.loaded, decided),
        )

        def mark(results: Sequence[outcomes.Result]) -> None:
            nonlocal record
            record = self._marked(record, results)

        done = acting.carry_out(desk, actions, stop=stop, on_results=mark)
        return cycle.remembered(desk, done, view, decided)

    def _marked(self, record: ports_module.Record, results: Sequence[outcomes.Result]) -> ports_module.Record:
        before = _read(record)
        fresh = tuple(
            result.action.id
            for result in results
            if result.has_changed and result.action.id not in before.done
        )
        if not fresh:
            return record
        return self._ports.records.replace(
            record, records.write(dataclasses.replace(before, done=(*before.done, *fresh)))
        )

    def _outcome(self, view: engine.View, done: acting.Done, started_s: float) -> outcomes.Outcome:
        return outcomes.Outcome(
            cycle=cycle.cycle_id(view, 1),
            at=view.now,
            sentence=outcomes.counted(done.results) or "nothing to do",
            results=done.results,
            view=view,
            failure=done.failure,
            plan_id=self._plan.id,
            duration_s=self._plain.clock.monotonic_s() - started_s,
        )


def _counted(view: engine.View, actions: Sequence[reconciling.Action]) -> reconciling.Memory:
    """The memory with what is going to be interrupted; a person who applies a plan has observed the fleet."""
    kept = view.memory
    disruptions = tuple(
        reconciling.Disruption(view.now, action.chips, action.id) for action in actions if action.chips
    )
    made = [one.name for action in actions for one in action.forming]
    gone = [action.target for action in actions if action.kind is _Kind.DEFORM]
    return dataclasses.replace(
        memory.expecting(kept, (*made, *gone), view.now),
        fleet=view.spec.name,
        observed_at=kept.observed_at or view.now,
        disruptions=(*kept.disruptions, *disruptions),
    )


def _is_true(view: engine.View, action: reconciling.Action) -> bool:
    """If true, what the action is for is the case, whoever did it."""
    slices = view.snapshot.slices_by_name
    if action.kind is _Kind.FINISH:
        return all(operation.id != action.target for operation in view.operations)
    if action.kind is _Kind.DEFORM:
        return action.target not in slices
    if action.kind is _Kind.CREATE_POOL and action.pool is not None:
        return any(
            pool.sub_block == action.pool.sub_block and pool.status is not states.PoolStatus.STOPPING
            for pool in view.pools
        )
    if action.exchanges:
        item = slices.get(action.target)
        members = set(item.partition_ids) if item is not None else set()
        return all(move.new in members and move.old not in members for move in action.exchanges)
    return bool(action.forming) and all(
        (item := slices.get(one.name)) is not None
        and set(item.partition_ids) == set(one.partition_ids)
        and not item.deleting
        and not item.state.is_failed
        for one in action.forming
    )


def _open(view: engine.View, action: reconciling.Action) -> Iterator[operations.Operation]:
    """Open operations that an earlier run of this action has begun."""
    targets = {one.name for one in action.forming} or {action.target}
    for operation in view.operations:
        if operation.slice_name in targets and operation.kind in _WORKS.get(action.kind, ()):
            yield operation


def _read(record: ports_module.Record) -> Used:
    return records.read(record.text, record.name, Used, schema=reconciling.SCHEMA)
