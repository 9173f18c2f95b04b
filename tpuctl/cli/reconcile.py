"""`tpuctl reconcile`: keep a fleet at its declared state, once or for ever."""

# ruff: noqa: PLC0415 - help and Tab do without the loop, whose import costs them more than all the rest

from __future__ import annotations

import json
import pathlib
from typing import Annotated

import typer

from tpuctl.cli import commands, durations, moments, options, output, session, wiring
from tpuctl.model import declared, errors
from tpuctl.model.exit_status import ExitStatus

app = commands.App(help="Keep a fleet at its declared state: plan, apply, run the loop.")

LEGACY = "maximizer"
"""The only policy there is to compare with."""
_FILE = typer.Option(
    "-f", "--file", metavar="FLEET", help="The fleet's declared state (see configs/fleets/block.yaml)."
)
FileOption = Annotated[pathlib.Path, _FILE]
ReasonOption = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is recorded.")]


@app.command()
def plan(
    file: FileOption,
    out: Annotated[
        pathlib.Path | None,
        typer.Option("--out", metavar="PLAN", help="Also save the plan, for `reconcile apply PLAN`."),
    ] = None,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="Exit status 2 if there are changes.")
    ] = False,
    policy: options.PolicyOption = None,
    fmt: output.FormatOption = None,
) -> int:
    """Show what would bring the fleet to its declared state, and change nothing.

    A line begins with + form, - take apart, ~ swap cubes, > make again elsewhere, * node pool, or ! finish
    what is open. Below: what would be interrupted, what is left of the budget, the guards that stand in the
    way, wanted slices that do not fit, and what only a person can do. Changes that a guard stops count as
    changes, too. Slices taken out of the fleet file are shown at once; a loop waits for pruneGrace first.

    Examples:
      tpuctl reconcile plan -f fleet.yaml
      tpuctl reconcile plan -f fleet.yaml --out plan.json --detailed-exitcode
    """
    from tpuctl.cli import reconcile_apply

    return reconcile_apply.plan(file, policy, out, fmt, detailed=detailed_exitcode)


@app.command()
def apply(
    plan_file: Annotated[
        pathlib.Path | None,
        typer.Argument(metavar="PLAN", help="A plan that `reconcile plan --out` saved."),
    ] = None,
    file: Annotated[pathlib.Path | None, _FILE] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a plan of which a part was done.")
    ] = False,
    yes: options.YesOption = False,
    policy: options.PolicyOption = None,
    fmt: output.FormatOption = None,
) -> int:
    """Bring the fleet to its declared state now: plan, ask, and carry it out.

    A saved plan was looked at when it was made, so nobody is asked again. It can be used once, within an
    hour, by the same version of tpuctl, and only if what it relies on is still so; otherwise nothing is done
    and the exit status is 6 with a list of what moved. Other statuses: 0 done or nothing to do, 7 partly
    done, 9 stopped by a guard or too old, 75 a loop works on this fleet: it brings it to its declared state
    by itself. Node pools are only begun: what is to run on them waits for the next plan.

    Examples:
      tpuctl reconcile apply -f fleet.yaml
      tpuctl reconcile apply plan.json
      tpuctl reconcile apply plan.json --resume
    """
    from tpuctl.cli import reconcile_apply

    if plan_file is not None:
        return reconcile_apply.apply_saved(plan_file, file, policy, fmt, resume=resume)
    if file is None:
        raise errors.UsageError("say what to apply: a saved plan, or a fleet file with -f")
    if resume:
        raise errors.UsageError(
            "--resume goes on with a saved plan", hint="with -f everything is looked at anew: leave it out"
        )
    return reconcile_apply.apply_fleet(file, policy, fmt, yes=yes)


@app.command()
def run(
    file: FileOption,
    mode: Annotated[
        declared.Mode,
        typer.Option(
            "--mode",
            help="observe: only look; recommend: also propose repairs; act: bring the fleet to its state.",
        ),
    ] = declared.Mode.RECOMMEND,
    once: Annotated[
        bool, typer.Option("--once", help="One cycle, for cron: status 75 if another loop is at work.")
    ] = False,
    interval: Annotated[
        durations.Duration, options.span("--interval", "Between cycles; changes are noticed earlier.")
    ] = durations.Duration(30.0),  # noqa: B008
    deadline: Annotated[
        durations.Duration | None, options.span("--deadline", "Begin nothing new after this long, and end.")
    ] = None,
    metrics_addr: Annotated[
        str | None,
        typer.Option(
            "--metrics-addr",
            metavar="HOST:PORT",
            help="Answer /metrics, /healthz and /readyz there; without it nothing listens.",
        ),
    ] = None,
    policy: options.PolicyOption = None,
    fmt: output.FormatOption = None,
) -> int:
    """Keep the fleet at its declared state, cycle after cycle, within the budgets.

    Acts only with --mode act, and not in the first cycle on a fleet, unless a person has applied its file
    before. Of several loops one acts, the others stand by. Each cycle is told in one sentence on stderr; off
    a terminal, or with -o json, as one JSON object a line on stdout. SIGTERM and Ctrl-C finish the step at
    hand and give the lock back.

    Commands under `hooks` in the fleet file run without a shell and beside the loop, with PATH, HOME,
    TPUCTL_HOOK_EVENT, TPUCTL_FLEET, TPUCTL_CYCLE, TPUCTL_PLAN and TPUCTL_REASON; of slices also with
    TPUCTL_SLICE, TPUCTL_TOPOLOGY, TPUCTL_CHIPS and TPUCTL_BLOCK, of swaps with TPUCTL_EXCHANGES and
    TPUCTL_RESULT, of repairs with TPUCTL_REPAIR, TPUCTL_REMEDY, TPUCTL_CUBE and TPUCTL_HOST.

    The fleet file is read anew when it changes. One with a fault, or of another fleet or context, is told
    once and shown by `status`; until it is mended the loop keeps the state that it has.

    Examples:
      tpuctl reconcile run -f fleet.yaml
      tpuctl reconcile run -f fleet.yaml --mode act --metrics-addr 127.0.0.1:9464 --log-format json
      tpuctl reconcile run -f fleet.yaml --mode act --once --deadline 10m
    """
    if interval < 1:
        raise errors.UsageError("--interval must be at least 1s")
    if mode is declared.Mode.ACT:
        wiring.require_named_context("a loop that acts")
    from tpuctl.cli import reconcile_loop

    return reconcile_loop.run(
        reconcile_loop.Wish(
            file=file,
            policy=policy,
            mode=mode,
            once=once,
            interval_s=float(interval),
            deadline_s=None if deadline is None else float(deadline),
            metrics_address=metrics_addr,
            fmt=fmt,
        )
    )


@app.command()
def status(
    max_age: Annotated[
        durations.Duration | None,
        options.span("--max-age", "How old the last full cycle may be; default: three intervals."),
    ] = None,
    fmt: output.FormatOption = None,
) -> int:
    """Show whether a loop looks after the fleet, what is to do, and what is stuck.

    Exit status 0 if all is well, also while paused; 11 if the last full cycle is too old or there was none,
    if the breaker has tripped, or if something is stuck. For a loop that cron runs, say --max-age.

    Examples:
      tpuctl reconcile status
      tpuctl reconcile status --max-age 20m -o json
    """
    from tpuctl.cli import reconcile_status
    from tpuctl.ops.reconciling import status as statuses

    found = statuses.read(wiring.ports(), max_age_s=None if max_age is None else float(max_age))
    return reconcile_status.show_status(found, fmt)


@app.command()
def pause(
    reason: ReasonOption,
    until: Annotated[
        moments.Moment | None,
        typer.Option(
            "--until",
            metavar="TIME",
            parser=moments.parse,
            help="Ends by itself at this time, or after a span such as 2h; default: when somebody resumes.",
        ),
    ] = None,
    fmt: output.FormatOption = None,
) -> None:
    """Keep the loop from acting, on whatever machine it runs; it goes on looking.

    The word is kept in the cluster and looked up before each action. A step that has begun is finished.

    Examples:
      tpuctl reconcile pause --reason "network maintenance, jo"
      tpuctl reconcile pause --reason "benchmark on train-a" --until 2h
    """
    from tpuctl.cli import reconcile_status
    from tpuctl.ops.reconciling import pauses

    ports = wiring.ports()
    for_s = None
    if until is not None:
        now = pauses.server_time(ports)
        for_s = (until.after(now) - now).total_seconds()
        if for_s <= 0:
            raise errors.UsageError(f"--until {until} is not in the future: it is {now:%Y-%m-%dT%H:%M:%SZ}")
    found, is_new = pauses.pause(ports, reason=reason, for_s=for_s)
    reconcile_status.show_pause(found, fmt, is_new=is_new)


@app.command()
def resume(
    reason: ReasonOption,
    reset_breaker: Annotated[
        bool, typer.Option("--reset-breaker", help="Also trust the fleet again after the breaker tripped.")
    ] = False,
    fmt: output.FormatOption = None,
) -> None:
    """Let a paused loop act again.

    Examples:
      tpuctl reconcile resume --reason "maintenance is over, jo"
      tpuctl reconcile resume --reset-breaker --reason "the alarm was false: a switch was restarted"
    """
    from tpuctl.cli import reconcile_status
    from tpuctl.ops.reconciling import memory, pauses

    ports = wiring.ports()
    tripped = memory.peek(ports).memory.tripped if reset_breaker else None
    ended = pauses.resume(ports, reason=reason, reset_breaker=reset_breaker)
    reconcile_status.show_resumed(ended, tripped, fmt)


@app.command()
def history(
    since: Annotated[
        moments.Moment | None,
        typer.Option(
            "--since",
            metavar="TIME",
            parser=moments.parse,
            help="Only from this time on, or of a span until now such as 2h.",
        ),
    ] = None,
    fmt: output.FormatOption = None,
    no_headers: output.NoHeadersOption = False,
) -> None:
    """Show what the loop did and failed at, and what people told it, the newest last.

    Examples:
      tpuctl reconcile history --since 24h
      tpuctl reconcile history -o json
    """
    from tpuctl.cli import reconcile_status
    from tpuctl.ops.reconciling import history as histories
    from tpuctl.ops.reconciling import pauses

    ports = wiring.ports()
    entries = histories.read(ports)
    if since is not None:
        from_when = since.before(pauses.server_time(ports))
        entries = tuple(entry for entry in entries if entry.at >= from_when)
    reconcile_status.show_history(entries, fmt, no_headers=no_headers)


@app.command()
def shadow(
    file: FileOption,
    legacy: Annotated[
        str, typer.Option("--legacy", metavar="POLICY", help="What to compare with: maximizer.")
    ] = LEGACY,
    policy: options.PolicyOption = None,
    fmt: output.FormatOption = None,
) -> None:
    """Compare what the loop would do now with the policy that it replaces.

    Both decide on the same snapshot of the chosen context, a real fleet or a simulated one; nothing is
    changed. Shown is what the loop decides when it may act; what graces, budgets or the breaker hold back
    counts as not done.

    Examples:
      tpuctl reconcile shadow -f fleet.yaml --legacy maximizer
      tpuctl reconcile shadow -f fleet.yaml -o json
    """
    from tpuctl.cli import reconcile_setup, shadow_views
    from tpuctl.ops import shadowing

    if legacy != LEGACY:
        raise errors.UsageError(f"there is no policy '{legacy}'", hint=f"the only one is {LEGACY}")
    given = reconcile_setup.given(file, policy, mode=declared.Mode.ACT)
    found, at = shadowing.compare(given.ports, given.settings)
    shadow_views.show(given.spec.name, found, at, fmt)


@app.command()
def schema() -> int:
    """Print the JSON schema of fleet files, for editors.

    Examples:
      tpuctl reconcile schema > fleet.schema.json
    """
    from tpuctl.cli import fleet_spec

    session.current().terminal.out(json.dumps(fleet_spec.schema(), indent=2))
    return ExitStatus.OK
