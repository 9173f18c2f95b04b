"""Plans: show one, save one, carry one out."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import tpuctl
from tpuctl.cli import (
    directories,
    fleet_spec,
    health_policy,
    reconcile_results,
    reconcile_setup,
    reconcile_views,
    session,
    stopping,
    wiring,
)
from tpuctl.cli import hooks as hook_runs
from tpuctl.model import counts, declared, errors
from tpuctl.model.exit_status import ExitStatus
from tpuctl.ops.reconciling import cycle, outcomes, plan_files, plans

if TYPE_CHECKING:
    import pathlib

    from tpuctl.cli import output
    from tpuctl.model import reconciling
    from tpuctl.ops import ports as ports_module
    from tpuctl.ops.reconciling import settings as loop_settings

_Became = outcomes.Became


def plan(
    file: pathlib.Path,
    policy: pathlib.Path | None,
    out: pathlib.Path | None,
    fmt: output.Format | None,
    *,
    detailed: bool,
) -> int:
    """Show the plan, and save it to `out` (mode 0600) if asked."""
    given = reconcile_setup.given(file, policy, mode=declared.Mode.ACT)
    planned = _planned(given)
    saved = plan_files.make(planned, given.settings, version=tpuctl.__version__)
    reconcile_views.show_plan(_shown(planned, given.settings, saved.id if out else ""), fmt)
    if out is not None:
        directories.write_whole(out, plan_files.encode(saved))
        until = f"{saved.expires_at:%Y-%m-%d %H:%M:%S} UTC"
        session.current().terminal.note(
            f"plan {saved.id} saved; until {until}, and once: tpuctl reconcile apply {out}"
        )
    return ExitStatus.CHANGES_PENDING if detailed and planned.decision.actions else ExitStatus.OK


def apply_fleet(
    file: pathlib.Path, policy: pathlib.Path | None, fmt: output.Format | None, *, yes: bool
) -> int:
    """Plan, ask, and carry out exactly what was shown."""
    screen = session.current().terminal
    given = reconcile_setup.given(file, policy, mode=declared.Mode.ACT)
    wiring.require_named_context("bringing a fleet to its declared state")
    screen.require_answers(yes=yes, what="applying a plan needs a confirmation")
    planned = _planned(given)
    shown = _shown(planned, given.settings)
    if not planned.decision.actions:
        reconcile_results.show_nothing(shown, fmt)
        return ExitStatus.OK
    for line in reconcile_views.plan_lines(shown):
        screen.note(line)
    if not planned.decision.to_do:
        raise errors.GuardStopped(
            "everything that is to be done is stopped by a guard",
            details=tuple(dict.fromkeys(action.stopped_by for action in planned.decision.actions)),
        )
    _confirm(shown, yes=yes)
    saved = plan_files.make(planned, given.settings, version=tpuctl.__version__)
    return _carry_out(given.ports, given.settings, saved, fmt, resume=False, decision=planned.decision)


def apply_saved(
    plan_file: pathlib.Path,
    file: pathlib.Path | None,
    policy: pathlib.Path | None,
    fmt: output.Format | None,
    *,
    resume: bool,
) -> int:
    """Carry out a saved plan; a fleet file beside it must still declare the same."""
    saved = plan_files.read(plan_file)
    reconcile_setup.take_context(saved.spec)
    wiring.require_named_context("applying a plan")
    settings = reconcile_setup.settings(
        saved.spec,
        fleet_spec.digest(saved.spec) if file is None else fleet_spec.read(file).digest,
        health_policy.chosen(policy),
        declared.Mode.ACT,
    )
    return _carry_out(wiring.ports(), settings, saved, fmt, resume=resume)


def _planned(given: reconcile_setup.Given) -> outcomes.Planned:
    return cycle.plan(given.ports, session.current().terminal.reporter(), given.settings)


def _shown(
    planned: outcomes.Planned, settings: loop_settings.Settings, plan_id: str = ""
) -> reconcile_views.Plan:
    reviewed = planned.reviewed
    return reconcile_views.Plan(
        left_alone=() if reviewed is None else reviewed.told,
        repairs_waiting=() if reviewed is None else reviewed.waiting,
        decision=planned.decision,
        spec=settings.spec,
        snapshot=planned.view.snapshot,
        mode=settings.mode,
        id=plan_id,
    )


def _confirm(shown: reconcile_views.Plan, *, yes: bool) -> None:
    screen = session.current().terminal
    radius = reconcile_views.radius(shown.decision)
    name = shown.spec.name
    count = counts.of(len(shown.decision.to_do), "action")
    where = f"in context {wiring.context().name}"
    if reconcile_views.is_disruptive(shown.decision):
        screen.confirm_name(f"{count} on fleet {name} {where}: {radius}.", name, yes=yes)
    else:
        screen.confirm(f"Carry out {count} on fleet {name} {where}?", yes=yes)


def _carry_out(
    ports: ports_module.Ports,
    settings: loop_settings.Settings,
    saved: reconciling.PlanFile,
    fmt: output.Format | None,
    *,
    resume: bool,
    decision: reconciling.Decision | None = None,
) -> int:
    """`decision` is the one that the plan was made of, if it is at hand."""
    screen = session.current().terminal
    runner = hook_runs.Runner(saved.spec.hooks, screen, fleet=saved.fleet)
    with stopping.on_signals(lambda: None, screen.note) as stop:
        try:
            outcome = plans.apply(
                ports,
                screen.reporter(),
                dataclasses.replace(settings, hooks=runner, about=screen.be_about),
                saved,
                version=tpuctl.__version__,
                resume=resume,
                stop=stop,
            )
        finally:
            runner.close(stop)
            screen.be_about({})
    waiting = None if decision is None else decision.waiting
    reconcile_results.show_outcome(outcome, saved.spec, waiting, fmt)
    if outcome.failure is not None:
        raise outcome.failure
    if stop.status is not None:
        return stop.status
    _tell_rest(outcome, decision)
    return _status(outcome, saved.id)


def _tell_rest(outcome: outcomes.Outcome, decision: reconciling.Decision | None) -> None:
    """What of the declared state is not there yet though nothing failed, and how it gets there."""
    counts = {"going on at GKE": outcome.count(_Became.GOING_ON)}
    if decision is not None:
        counts["held back by guards"] = len(decision.actions) - len(decision.to_do)
        counts["waiting for room"] = len(decision.waiting)
    rest = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    if rest:
        session.current().terminal.note(
            f"not all is there yet: {rest}; look anew later with: tpuctl reconcile plan -f FLEET, "
            "or leave it to a loop: tpuctl reconcile run -f FLEET --mode act"
        )


def _status(outcome: outcomes.Outcome, plan_id: str) -> int:
    """7 if a part was done; otherwise what the rest came to."""
    failed, stopped = outcome.count(_Became.FAILED), outcome.count(_Became.STOPPED)
    if not failed and not stopped:
        return ExitStatus.OK
    session.current().terminal.warn(
        f"{failed} failed, {stopped} not begun; look anew with: tpuctl reconcile plan, "
        f"or go on with plan {plan_id} if it was saved: --resume"
    )
    if any(result.has_changed for result in outcome.results):
        return ExitStatus.PARTLY_DONE
    return ExitStatus.FAILED if failed else ExitStatus.CONFLICT
