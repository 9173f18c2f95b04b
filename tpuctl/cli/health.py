"""`tpuctl health`: one verdict per cube and slice, what it rests on, and what is planned."""

from __future__ import annotations

from typing import Annotated

import typer

from tpuctl.cli import (
    commands,
    completion,
    cube,
    durations,
    health_policy,
    health_views,
    health_watch,
    options,
    output,
    session,
    slice_rows,
    wiring,
)
from tpuctl.model import errors, exit_status, fleet, health, states
from tpuctl.ops import fault_reports, health_checks, health_watching, maintenance

app = commands.App(help="Check and follow health, and report faulty hosts.")

TargetsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="CUBE|SLICE|BLOCK",
        help="What to check; everything that has a node pool if nothing is named.",
        parser=options.plain_name,
        autocompletion=completion.complete_health_targets,
    ),
]


@app.command()
def check(
    targets: TargetsArgument = None,
    fail_on: Annotated[
        health.FailOn | None,
        typer.Option("--fail-on", help="What counts as trouble; default: what the policy says (degraded)."),
    ] = None,
    policy: options.PolicyOption = None,
    file: options.FleetOption = None,
    fmt: output.FormatOption = None,
    no_headers: output.NoHeadersOption = False,
) -> int:
    """Judge cubes and slices, and say what is wrong, where, and who says so.

    Exit status 0: all healthy; 11: something is not; 1: it could not be checked. The table shows what is not
    healthy, and everything that was named; `-o json` holds all. WHERE is VM (a host) or fabric (links between
    chips or cubes: the hosts stay usable, with less bandwidth).

    Examples:
      tpuctl health check
      tpuctl health check train-a
      tpuctl health check --fail-on unhealthy -o name
    """
    rules = health_policy.chosen(policy)
    snapshot = wiring.snapshot(health_checks.SOURCES, file)
    result = health_checks.check(snapshot, rules, targets or (), slice_rows.missing(snapshot, file))
    troubled = result.troubled(fail_on or rules.fail_on)
    _show_checked(snapshot, result, troubled, all_of_them=bool(targets), fmt=fmt, no_headers=no_headers)
    return exit_status.ExitStatus.TROUBLE_FOUND if troubled else exit_status.ExitStatus.OK


def _show_checked(
    snapshot: fleet.Fleet,
    result: health_checks.Result,
    troubled: tuple[health_checks.Checked, ...],
    *,
    all_of_them: bool,
    fmt: output.Format | None,
    no_headers: bool,
) -> None:
    wanted = output.chosen(fmt)
    screen = session.current().terminal
    shown = tuple(sorted(result.items, key=lambda item: health.WORST_FIRST.index(item.judgement.verdict)))
    if wanted is output.Format.NAME:
        shown = troubled
    elif not wanted.is_document and not all_of_them:
        shown = tuple(item for item in shown if item.judgement.verdict is not states.Verdict.HEALTHY)
    output.render_list(
        "Health",
        shown,
        columns=health_views.columns(snapshot.observed_at, wide=wanted is output.Format.WIDE),
        to_plain=lambda item: health_views.plain(item, snapshot.observed_at),
        name_of=lambda item: f"{item.kind}/{item.id}",
        fmt=fmt,
        no_headers=no_headers,
        observed_at=snapshot.observed_at,
        empty="nothing is wrong",
    )
    screen.note(health_views.summary(result))
    if result.unused:
        noun = "sub-block" if result.unused == 1 else "sub-blocks"
        screen.note(f"not checked, for want of a node pool: {result.unused} {noun}")
    cube.tell_strays(snapshot)


@app.command()
def show(
    target: Annotated[
        str,
        typer.Argument(
            metavar="CUBE",
            help="Partition id, node pool or sub-block of a cube; or the name of a slice.",
            parser=options.plain_name,
            autocompletion=completion.complete_health_targets,
        ),
    ],
    policy: options.PolicyOption = None,
    file: options.FleetOption = None,
    fmt: output.FormatOption = None,
) -> None:
    """Show all evidence about one cube: who says what, since when, and which way it points.

    Examples:
      tpuctl health show 5f0c54a1d2b34e6f8a9b0c1d2e3f4a5b
      tpuctl health show train-a -o json
    """
    rules = health_policy.chosen(policy)
    claims = () if file else (fleet.SourceName.CLAIMS,)
    snapshot = wiring.snapshot((*health_checks.SOURCES, *claims), file)
    found = health_checks.check(snapshot, rules, (target,), slice_rows.missing(snapshot, file)).items
    first = found[0]
    if len(found) > 1 and first.kind == "cube":
        raise errors.UsageError(
            f"'{target}' is a block of {len(found)} cubes and slices; this shows one",
            hint=f"see: tpuctl health check {target}",
        )
    is_cube = first.kind == "cube"
    held = cube.held_lines(snapshot, first.id) if is_cube else []
    document = {"held": cube.held_plain(snapshot, first.id)} if is_cube else {}
    health_views.show_evidence(first, snapshot.observed_at, fmt, held=held, more=document)


@app.command()
def watch(
    policy: options.PolicyOption = None,
    timeout: Annotated[
        durations.Duration | None, options.span("--timeout", "End after this long (never).")
    ] = None,
    silence: Annotated[
        durations.Duration,
        options.span("--silence", "Read everything again if the server says nothing for this long (2m)."),
    ] = durations.Duration(health_watching.SILENCE_S),  # noqa: B008
    fmt: output.FormatOption = None,
) -> None:
    """Follow health: a live table on a terminal, otherwise one JSON object a line for every change.

    The first objects tell how everything is. A connection that breaks, expires or falls silent is begun again
    from whole lists; until that works, a HealthTrouble object (a line below the table) says that the view is
    old.

    Examples:
      tpuctl health watch
      tpuctl health watch --timeout 10m | jq -c 'select(.verdict == "unhealthy")'
    """
    rules = health_policy.chosen(policy)
    turns = health_watching.follow(wiring.ports(), rules, timeout_s=timeout, silence_s=silence)
    health_watch.show(turns, fmt)


@app.command("maintenance")
def show_maintenance(
    block: options.BlockOption = None,
    file: options.FleetOption = None,
    fmt: output.FormatOption = None,
    no_headers: output.NoHeadersOption = False,
) -> None:
    """List planned and running maintenance by block and cube, the nearest first.

    Examples:
      tpuctl health maintenance
      tpuctl health maintenance -o json
    """
    snapshot = cube.only_block(wiring.snapshot(maintenance.SOURCES, file), block)
    output.render_list(
        "MaintenanceWindow",
        maintenance.windows(snapshot),
        columns=health_views.maintenance_columns(snapshot.observed_at),
        to_plain=health_views.maintenance_plain,
        name_of=lambda window: f"cube/{window.cube}" if window.cube else f"block/{window.block}",
        fmt=fmt,
        no_headers=no_headers,
        observed_at=snapshot.observed_at,
        empty="No maintenance is planned.",
    )


@app.command("report-faulty")
def report_faulty(
    host: Annotated[
        str,
        typer.Argument(
            metavar="HOST",
            help="Name of the node.",
            parser=options.plain_name,
            autocompletion=completion.complete_nodes,
        ),
    ],
    behavior: Annotated[fault_reports.Behavior, typer.Option("--behavior", help="What is wrong with it.")],
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="What was seen, for whoever repairs it.")
    ],
    disruption: Annotated[
        fault_reports.Disruption,
        typer.Option(
            "--disruption", help="When the VM may be stopped: at once, or at a time Google chooses."
        ),
    ] = fault_reports.Disruption.IMMEDIATE,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait until the report is over (10 to 12 minutes).")
    ] = False,
    timeout: options.TimeoutOption = durations.Duration(  # noqa: B008
        fault_reports.DEFAULT_TIMEOUT_S
    ),
    yes: options.YesOption = False,
    fmt: output.FormatOption = None,
) -> None:
    """Report the host under a node as faulty, so that Google repairs it.

    The VM stops, and its slice breaks. The host is repaired in place, which takes 3 to 14 days or longer; the
    VM is not moved to another host. Only a running VM can be reported.

    Examples:
      tpuctl health report-faulty gke-sim-0001-abcd --behavior CHIP_ERROR --reason "chip 2 fails self-test"
      tpuctl health report-faulty gke-sim-0001-abcd --behavior PERFORMANCE --reason slow --disruption FUTURE
    """
    wiring.require_named_context("reporting a host as faulty")
    ports = wiring.ports()
    prepared = fault_reports.prepare(ports, host, behavior=behavior, reason=reason, disruption=disruption)
    _confirm(prepared, yes=yes)
    reporter = session.current().terminal.reporter()
    outcome = fault_reports.execute(ports, reporter, prepared, wait=wait, timeout_s=timeout)
    advice = [fault_reports.REPAIR] if wait else [fault_reports.KEEP, fault_reports.REPAIR]
    health_views.show_report(prepared, outcome, advice=advice, fmt=fmt)


def _confirm(prepared: fault_reports.Prepared, *, yes: bool) -> None:
    screen = session.current().terminal
    screen.require_answers(yes=yes, what=f"reporting host {prepared.host.name} needs a confirmation")
    screen.note(f"in context {wiring.context().name}, cube {prepared.cube.id}:")
    for line in health_views.blast_lines(prepared.host, prepared):
        screen.note(line)
    screen.note(fault_reports.REPAIR)
    text = "The VM stops, and a slice on it loses its fabric."
    if prepared.radius.slices or prepared.radius.is_disruptive:
        screen.confirm_name(text, prepared.host.name, yes=yes)
    else:
        screen.confirm(f"Report host {prepared.host.name} as faulty?", yes=yes)
