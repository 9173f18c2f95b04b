"""`tpuctl slice`: form, list, follow and take apart slices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tpuctl.cli import (
    commands,
    completion,
    durations,
    health_policy,
    options,
    output,
    session,
    slice_rows,
    slice_views,
    swap_views,
    wiring,
)
from tpuctl.model import counts, errors, fleet, names
from tpuctl.model.exit_status import ExitStatus
from tpuctl.ops import absences, deforming, forming, gangs, next_steps, swapping, views, waiting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tpuctl.ops import ports as ports_module

app = commands.App(help="Form, list, follow and take apart slices.")

MAX_PRIORITY = 1_000_000_000
"""The range that Kubernetes allows for priorities of pods."""
_EVERYTHING = (fleet.SourceName.NODES, fleet.SourceName.SLICES, fleet.SourceName.PODS)


@app.command()
def form(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the slice.")],
    *,
    topology: options.WantedOption = None,
    chips: options.ChipsOption = None,
    fallback: options.FallbackOption = None,
    count: Annotated[
        int, typer.Option("--count", min=1, help="So many slices NAME-0, NAME-1 ...: all or none.")
    ] = 1,
    priority: Annotated[
        int | None,
        typer.Option(
            "--priority", min=-MAX_PRIORITY, max=MAX_PRIORITY, help="How urgent it is, 0 if not told."
        ),
    ] = None,
    block: options.BlockOption = None,
    cubes: Annotated[
        list[str] | None,
        typer.Option(
            "--cubes",
            metavar="ID,ID",
            help="Exactly these cubes (partition ids, node pools or sub-blocks).",
            autocompletion=completion.complete_cubes,
        ),
    ] = None,
    allow_degraded: options.AllowDegradedOption = False,
    dry_run: options.DryRunOption = False,
    wait: options.WaitOption = True,
    timeout: options.TimeoutOption = durations.Duration(  # noqa: B008
        waiting.DEFAULT_TIMEOUT_S
    ),
    fmt: output.FormatOption = None,
) -> None:
    """Join cubes of one block into a slice, or take one partition of a cube.

    The block is the one with the fewest usable cubes that suffices. A slice that is there as asked is left
    alone and the command says `unchanged`. Why something does not fit, and what would help, tells
    `tpuctl capacity why-not`.

    Examples:
      tpuctl slice form train-a --topology 8x16x16
      tpuctl slice form serve-b --topology 4x4x8 --block res-block-0002
      tpuctl slice form small --topology 2x2x4 --dry-run
      tpuctl slice form train-c --chips 2048 --fallback 8x8x16,8x8x8
      tpuctl slice form sweep --chips 256 --count 4
      tpuctl slice form train-d --chips 512 --priority 10
    """
    members = gangs.members(name, count)
    for member in members:
        names.check_slice_name(member)
    if cubes and count > 1:
        raise errors.UsageError("--cubes names the cubes of one slice, --count asks for several")
    shapes = (options.one_shape(topology, chips), *options.shapes(fallback))
    ports = wiring.ports()
    *larger, last = [
        forming.request(
            shape,
            block=block,
            cubes=options.split(cubes),
            allow_degraded=allow_degraded,
            policy=health_policy.chosen(None),
            priority=priority,
        )
        for shape in gangs.shapes_to_try(ports, members, shapes)
    ]

    def carry_out(wish: forming.Request) -> None:
        if dry_run:
            slice_views.show_plans(_prepared(ports, members, wish), fmt)
            return
        reporter = session.current().terminal.reporter()
        outcomes = gangs.form(ports, reporter, members, wish, wait=wait, timeout_s=timeout)
        slice_views.show_outcomes(outcomes, fmt)

    for wish in larger:
        try:
            carry_out(wish)
        except errors.DoesNotFit as error:
            session.current().terminal.note(error.message)
        else:
            return
    carry_out(last)


def _prepared(
    ports: ports_module.Ports, members: Sequence[str], wish: forming.Request
) -> tuple[forming.Prepared, ...]:
    """What would be done, and the server's word that it would accept it."""
    found = gangs.prepare(ports, members, wish)
    for prepared in found:
        forming.validate(ports, prepared)
    return found


@app.command()
def deform(
    name: options.SliceArgument,
    yes: options.YesOption = False,
    force_foreign: options.ForceForeignOption = False,
    wait: options.WaitOption = True,
    timeout: options.TimeoutOption = durations.Duration(  # noqa: B008
        waiting.DEFAULT_GONE_TIMEOUT_S
    ),
    fmt: output.FormatOption = None,
) -> None:
    """Take a slice apart and free its cubes.

    Shows first which pods run on it: they lose their fabric. Nothing is done without a yes. A name that no
    slice has is `unchanged`.

    Examples:
      tpuctl slice deform serve-b
      tpuctl slice deform serve-b --yes --no-wait
    """
    wiring.require_named_context("taking a slice apart")
    ports = wiring.ports()
    prepared = deforming.prepare(ports, name, force_foreign=force_foreign)
    if prepared is None:
        finished = deforming.finish_earlier(ports, session.current().terminal.reporter(), name)
        if not finished:
            session.current().terminal.note(f"there is no slice {name}")
        slice_views.show_end(name, "deformed" if finished else "unchanged", None, fmt)
        return
    _confirm_end(prepared, yes=yes)
    reporter = session.current().terminal.reporter()
    waited_s = deforming.deform(ports, reporter, prepared, wait=wait, timeout_s=timeout)
    slice_views.show_end(name, "deformed" if wait else "deforming", waited_s if wait else None, fmt)
    if prepared.radius.pods:
        pods = counts.of(len(prepared.radius.pods), "pod")
        hold = "holds" if len(prepared.radius.pods) == 1 else "hold"
        left = f"{pods} still {hold} the chips of its hosts"
        session.current().terminal.warn(f"{left}; the cubes are free for a new slice when the pods are gone")


def _confirm_end(prepared: deforming.Prepared, *, yes: bool) -> None:
    screen = session.current().terminal
    radius = prepared.radius
    screen.require_answers(yes=yes, what=f"taking slice {prepared.slice.name} apart needs a confirmation")
    screen.note(f"blast radius in context {wiring.context().name}: {radius}")
    for owner, count in radius.owners:
        screen.note(f"  {counts.of(count, 'pod')} of {owner}")
    if radius.is_disruptive:
        screen.confirm_name("The pods lose their fabric.", prepared.slice.name, yes=yes)
    else:
        screen.confirm(f"Take slice {prepared.slice.name} apart?", yes=yes)


@app.command()
def swap(
    name: options.SliceArgument,
    cube: Annotated[
        list[str] | None,
        typer.Option(
            "--cube",
            metavar="BAD",
            help="Exchange this cube; may be given several times.",
            autocompletion=completion.complete_cubes,
        ),
    ] = None,
    replacement: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="GOOD",
            help="Use this cube in place of a --cube, in the same order.",
            autocompletion=completion.complete_cubes,
        ),
    ] = None,
    auto: Annotated[
        bool, typer.Option("--auto", help="Exchange every cube that is unhealthy or incomplete.")
    ] = False,
    include_degraded: Annotated[
        bool, typer.Option("--include-degraded", help="With --auto: degraded cubes too.")
    ] = False,
    allow_degraded: options.AllowDegradedOption = False,
    force_foreign: options.ForceForeignOption = False,
    accept_job_failure: Annotated[
        bool,
        typer.Option("--accept-job-failure", help="Also if a job cannot bear the restarts and fails."),
    ] = False,
    dry_run: options.DryRunOption = False,
    yes: options.YesOption = False,
    timeout: options.TimeoutOption = options.TEN_MINUTES,
    fmt: output.FormatOption = None,
) -> int:
    """Exchange failed cubes of a slice for healthy ones of its block; only their pods restart.

    The service has no replacement in place: the slice is deleted and made again under its name with the new
    cubes. Pods on the cubes that stay keep running; their fabric is away meanwhile. What is begun is recorded
    in the cluster, so any machine can finish it with `tpuctl operation resume`.

    Examples:
      tpuctl slice swap train-a --auto
      tpuctl slice swap train-a --cube 5f0c54a1d2b34e6f8a9b0c1d2e3f4a5b --dry-run
      tpuctl slice swap train-a --cube BAD1 --with GOOD1 --cube BAD2 --with GOOD2
    """
    bad = options.split(cube)
    if bool(bad) == auto:
        raise errors.UsageError("say which cubes with --cube, or let --auto find the broken ones")
    wish = swapping.Wish(
        cubes=bad,
        replacements=options.split(replacement),
        allow_degraded=allow_degraded,
        include_degraded=include_degraded,
        force_foreign=force_foreign,
        policy=health_policy.chosen(None),
        accept_job_failure=accept_job_failure,
    )
    ports = wiring.ports()
    prepared = swapping.prepare(ports, name, wish)
    if prepared is None:
        next_steps.refuse_if_failed(ports, name)
        swap_views.show_nothing(name, fmt)
        return ExitStatus.OK
    if dry_run:
        swap_views.show_plan(name, prepared, fmt)
        return ExitStatus.OK
    _confirm_swap(name, prepared, yes=yes)
    reporter = session.current().terminal.reporter()
    outcome = swapping.swap(ports, reporter, prepared, wish, timeout_s=timeout)
    return swap_views.show_outcome(outcome, fmt)


def _confirm_swap(name: str, prepared: swapping.Prepared, *, yes: bool) -> None:
    wiring.require_named_context("swapping cubes")
    screen = session.current().terminal
    screen.require_answers(yes=yes, what=f"swapping cubes of slice {name} needs a confirmation")
    for line in swap_views.lines(prepared):
        screen.note(f"  {line}")
    for job in prepared.doomed_jobs:
        screen.warn(f"{job}: the whole job fails")
    screen.note(f"blast radius in context {wiring.context().name}: {swap_views.radius(prepared)}")
    if prepared.restarted or prepared.kept:
        screen.confirm_name("The slice is deleted and made again.", name, yes=yes)
    else:
        screen.confirm(f"Delete slice {name} and make it again? Nothing runs on it.", yes=yes)


@app.command("list")
def list_slices(
    file: options.FleetOption = None,
    fmt: output.FormatOption = None,
    no_headers: output.NoHeadersOption = False,
) -> None:
    """List slices.

    The table reads only the Slice objects and open operations, and is fast. `-o wide` and `-o json` also read
    nodes and pods, to tell where each slice lies and what runs on it. A slice that an open operation has
    deleted or is yet to make is listed with how far that is; NEXT is what to run.

    Examples:
      tpuctl slice list
      tpuctl slice list -o wide
      tpuctl slice list -o json
    """
    wanted = output.chosen(fmt)
    quick = wanted in (output.Format.TABLE, output.Format.NAME)
    snapshot = wiring.snapshot((fleet.SourceName.SLICES,) if quick else _EVERYTHING, file)
    known = slice_rows.operations_of(snapshot, file)
    found = slice_rows.rows(views.slices(snapshot, health_policy.chosen(None)), known)
    output.render_list(
        "Slice",
        found,
        columns=slice_rows.columns(snapshot, found),
        to_plain=slice_rows.plain,
        name_of=lambda row: f"slice/{row.name}",
        fmt=fmt,
        no_headers=no_headers,
        observed_at=snapshot.observed_at,
        partial=not known.is_whole,
    )


@app.command()
def show(
    name: options.SliceArgument, file: options.FleetOption = None, fmt: output.FormatOption = None
) -> None:
    """Show one slice: state, cubes, pods and what was reported about it.

    Examples:
      tpuctl slice show train-a
      tpuctl slice show train-a -o yaml
    """
    snapshot = wiring.snapshot(_EVERYTHING, file)
    rules = health_policy.chosen(None)
    known = slice_rows.operations_of(snapshot, file)
    absent = absences.named(known.missing, name)
    if absent is not None:
        slice_rows.show_absent(snapshot, absent, fmt)
        return
    view = _find(views.slices(snapshot, rules), name)
    events: Sequence[str] | None = None if file else wiring.ports().slices.events(name, uid=view.slice.uid)
    operation = known.open_on.get(name, "")
    document: dict[str, Any] = {
        **slice_rows.plain(slice_rows.Row(view, None, operation)),
        "hostNames": [host.name for host in snapshot.hosts_of(view.slice)],
        "events": None if events is None else [*events],
    }
    failed = next_steps.of_failed(snapshot, view.slice, rules) if view.slice.state.is_failed else ""
    output.render_one(
        "Slice",
        document,
        rows=slice_views.rows(snapshot, view, events or (), slice_rows.next_of(operation, failed)),
        name=f"slice/{name}",
        fmt=fmt,
        observed_at=snapshot.observed_at,
    )


@app.command()
def wait(
    name: options.SliceArgument,
    timeout: options.TimeoutOption = durations.Duration(  # noqa: B008
        waiting.DEFAULT_TIMEOUT_S
    ),
    fmt: output.FormatOption = None,
) -> None:
    """Wait until a slice is ready.

    Examples:
      tpuctl slice wait train-a --timeout 5m
    """
    ports = wiring.ports()
    item = forming.wait(ports, session.current().terminal.reporter(), name, timeout_s=timeout)
    slice_views.show_state(item, fmt)


def _find(found: Sequence[views.SliceView], name: str) -> views.SliceView:
    for view in found:
        if view.slice.name == name:
            return view
    raise errors.NotFound(
        f"there is no slice {name}", hint=completion.did_you_mean(name, [view.slice.name for view in found])
    )
