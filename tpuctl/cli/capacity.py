"""`tpuctl capacity`: what fits, why not, and what would help. Nothing here changes anything."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Annotated

import typer

from tpuctl.cli import (
    capacity_plans,
    capacity_views,
    commands,
    completion,
    durations,
    health_policy,
    options,
    output,
    requests_file,
    wiring,
)
from tpuctl.model import errors
from tpuctl.model.exit_status import ExitStatus
from tpuctl.ops import capacity, holding, simulating, ways_out

if TYPE_CHECKING:
    from collections.abc import Callable

app = commands.App(help="See what fits, why something does not, and what would help.")

_DAY_S = 86400.0

TermsOption = Annotated[
    pathlib.Path | None,
    typer.Option(
        "-f",
        "--file",
        metavar="FILE",
        help="What is known of running slices (see configs/requests.yaml): without it nobody is preempted.",
    ),
]
KeepFreeOption = Annotated[int, typer.Option("--spares", min=0, help="Cubes of each block to keep free.")]


@app.command()
def show(
    allow_degraded: options.AllowDegradedOption = False,
    policy: options.PolicyOption = None,
    file: options.FleetOption = None,
    fmt: output.FormatOption = None,
) -> None:
    """Show what fits now: the largest slice of each block, how many of each shape, stranded chips.

    Stranded chips are healthy and free, but in cubes that are in part used or broken: only sub-slices can
    have them.

    Examples:
      tpuctl capacity show
      tpuctl capacity show --fleet today.yaml -o json
    """
    snapshot = capacity.seen(wiring.snapshot(capacity.SOURCES, file))
    rules = health_policy.chosen(policy)
    found = capacity.overview(snapshot, rules, allow_degraded=allow_degraded)
    capacity_views.show_overview(snapshot, found, fmt)


@app.command("why-not")
def why_not(
    shape: options.WantedOption = None,
    chips: options.ChipsOption = None,
    priority: Annotated[int, typer.Option("--priority", help="How urgent it is: higher goes first.")] = 0,
    fallback: options.FallbackOption = None,
    block: options.BlockOption = None,
    allow_degraded: options.AllowDegradedOption = False,
    spares: KeepFreeOption = 0,
    terms: TermsOption = None,
    policy: options.PolicyOption = None,
    file: options.FleetOption = None,
    fmt: output.FormatOption = None,
) -> int:
    """Tell whether a slice fits now, and if not, why, and the cheapest ways to make it fit.

    Every way that is shown was tried on the snapshot. Exit status 0 if it fits now, 8 if not.

    Examples:
      tpuctl capacity why-not --topology 8x16x16
      tpuctl capacity why-not --chips 2048 --priority 10 -f requests.yaml
    """
    snapshot = capacity.seen(wiring.snapshot(capacity.sources(block), file))
    question = capacity.Question(
        shape=options.one_shape(shape, chips),
        block=block,
        allow_degraded=allow_degraded,
        priority=priority,
        fallbacks=options.shapes(fallback),
        keep_free=spares,
    )
    tenants = requests_file.read(terms).tenants
    found = capacity.why_not(snapshot, question, tenants, health_policy.chosen(policy))
    capacity_views.show_answer(snapshot, question, found, fmt, me=_me(file))
    return ExitStatus.OK if isinstance(found, capacity.Placement) else ExitStatus.DOES_NOT_FIT


def _me(file: pathlib.Path | None) -> Callable[[], str]:
    """Who asks, for commands that are exact; a dump does not tell."""
    return ways_out.nobody if file is not None else lambda: holding.owner_name(wiring.ports())


@app.command()
def plan(
    requests: Annotated[
        pathlib.Path,
        typer.Option("-f", "--file", metavar="FILE", help="Requests to place; see configs/requests.yaml."),
    ],
    optimal: Annotated[
        bool,
        typer.Option(
            "--optimal/--fast", help="The proven optimum within a time limit, or the quick heuristic."
        ),
    ] = True,
    time_limit: Annotated[
        durations.Duration, options.span("--time-limit", "For each priority, with --optimal.")
    ] = durations.Duration(10.0),  # noqa: B008
    spares: KeepFreeOption = 0,
    spares_below: Annotated[
        int, typer.Option("--spares-below", help="Requests of this priority and above may use the spares.")
    ] = 1,
    policy: options.PolicyOption = None,
    file: options.FleetOption = None,
    fmt: output.FormatOption = None,
) -> int:
    """Place many requests at once, beside what runs: the urgent first, then as many chips as possible.

    Says how far from the optimum the plan can be at most. What the file says of running slices counts: who
    is preemptible and past its minimum run may have to make room, and what has to wait is told until when.
    Exit status 0 if everything fits, 8 if not.

    Examples:
      tpuctl capacity plan -f requests.yaml
      tpuctl capacity plan -f requests.yaml --fast --fleet today.yaml -o json
    """
    asked = requests_file.read(requests)
    if not asked.wishes:
        raise errors.UsageError(f"{requests} holds no requests", hint="list them under 'requests:'")
    named = capacity.sources(*(wish.block for wish in asked.wishes))
    snapshot = capacity.seen(wiring.snapshot(named, file))
    settings = capacity.PackSettings(
        mode=capacity.Mode.OPTIMAL if optimal else capacity.Mode.FAST,
        time_limit_s=float(time_limit),
        weights=asked.weights,
        team_chips=capacity.team_chips(snapshot, asked.tenants),
        policy=health_policy.chosen(policy),
        spares=spares,
        spares_below=spares_below,
        tenants=asked.tenants,
    )
    found = capacity.pack(snapshot, asked.wishes, settings)
    capacity_plans.show_plan(snapshot, found, fmt)
    return ExitStatus.DOES_NOT_FIT if found.left else ExitStatus.OK


@app.command()
def defrag(
    shape: options.TopologyOption,
    block: options.BlockOption = None,
    move_cost: Annotated[
        durations.Duration, options.span("--move-cost", "Work that a moved slice loses.")
    ] = durations.Duration(1800.0),  # noqa: B008
    wait: Annotated[
        durations.Duration,
        options.span("--otherwise-wait", "How long it would wait where no end is known."),
    ] = durations.Duration(_DAY_S),  # noqa: B008
    dry_run: Annotated[  # noqa: ARG001 - what the command does anyway, said aloud
        bool, typer.Option("--dry-run", help="Only show the moves; this command never carries them out.")
    ] = False,
    terms: TermsOption = None,
    policy: options.PolicyOption = None,
    file: options.FleetOption = None,
    fmt: output.FormatOption = None,
) -> int:
    """Find the cheapest moves of running slices that make room for a slice, and weigh gain against cost.

    The moves are shown with the commands that make them, not carried out. Exit status 0 if it fits or moving
    pays, 8 if no moves help, 9 if they would cost more chip-hours than they win.

    Examples:
      tpuctl capacity defrag --topology 8x16x16
      tpuctl capacity defrag -t 8x8x16 --move-cost 1h -f requests.yaml
    """
    snapshot = capacity.seen(wiring.snapshot(capacity.sources(block), file))
    found = capacity.defragment(
        snapshot,
        capacity.Question(shape=shape, block=block),
        requests_file.read(terms).tenants,
        health_policy.chosen(policy),
        move_h=move_cost / 3600,
        unknown_wait_h=wait / 3600,
    )
    capacity_plans.show_defrag(snapshot, shape, found, fmt)
    if isinstance(found, capacity.Hopeless):
        return ExitStatus.DOES_NOT_FIT
    pays = isinstance(found, capacity.Placement) or found.pays
    return ExitStatus.OK if pays else ExitStatus.GUARD


@app.command("what-if")
def what_if(
    fail: Annotated[
        list[str] | None,
        typer.Option(
            "--fail",
            metavar="CUBE",
            help="As if this cube failed.",
            autocompletion=completion.complete_cubes,
        ),
    ] = None,
    repair: Annotated[
        list[str] | None,
        typer.Option(
            "--repair",
            metavar="CUBE",
            help="As if it were whole and healthy.",
            autocompletion=completion.complete_cubes,
        ),
    ] = None,
    end: Annotated[
        list[str] | None,
        typer.Option(
            "--end",
            metavar="SLICE",
            help="As if this slice had ended.",
            autocompletion=completion.complete_listed_slices,
        ),
    ] = None,
    add_block: Annotated[
        int, typer.Option("--add-block", metavar="N", min=0, help="So many more blocks of 144 cubes.")
    ] = 0,
    imagined: Annotated[
        pathlib.Path | None,
        typer.Option("-f", "--file", metavar="FILE", help="Changes in a file (kind FleetChanges)."),
    ] = None,
    policy: options.PolicyOption = None,
    file: options.FleetOption = None,
    fmt: output.FormatOption = None,
) -> None:
    """Show how the room would change, and which slices would be hit.

    Examples:
      tpuctl capacity what-if --fail 5f0c54a1d2b34e6f8a9b0c1d2e3f4a5b
      tpuctl capacity what-if --repair CUBE1,CUBE2 --add-block 1
    """
    snapshot = capacity.seen(wiring.snapshot(capacity.SOURCES, file))
    said = requests_file.read_changes(imagined) if imagined else capacity.WhatIf()
    wish = capacity.WhatIf(
        fail=(*said.fail, *options.split(fail)),
        repair=(*said.repair, *options.split(repair)),
        end=(*said.end, *options.split(end)),
        add_blocks=said.add_blocks + add_block,
    )
    if wish == capacity.WhatIf():
        raise errors.UsageError("nothing to imagine", hint="use --fail, --repair, --end, --add-block or -f")
    found = capacity.what_if(snapshot, wish, health_policy.chosen(policy))
    capacity_plans.show_outcome(snapshot, found, fmt)


@app.command()
def spares(
    confidence: Annotated[
        float, typer.Option("--confidence", help="Chance that the spares suffice, between 0 and 1.")
    ] = 0.99,
    failures: Annotated[
        float,
        typer.Option(
            "--failures-per-host-day",
            help="Measured rate; the default is published for TPU v4 (NSDI 2024): 0.08 % a day.",
        ),
    ] = 0.0008,
    outage: Annotated[
        durations.Duration, options.span("--outage", "How long a failed host is away.")
    ] = durations.Duration(_DAY_S),  # noqa: B008
    recovery: Annotated[
        durations.Duration, options.span("--recovery", "How long a swap interrupts a slice.")
    ] = durations.Duration(240.0),  # noqa: B008
    policy: options.PolicyOption = None,
    file: options.FleetOption = None,
    fmt: output.FormatOption = None,
    no_headers: output.NoHeadersOption = False,
) -> None:
    """Tell how many spare cubes each block needs, and how many it has.

    Rate and length of outages are both needed: availability is dominated by the days a host waits for repair.

    Examples:
      tpuctl capacity spares --confidence 0.99
      tpuctl capacity spares --outage 3d --failures-per-host-day 0.001
    """
    if not 0 < confidence < 1:
        raise errors.UsageError(f"--confidence must be between 0 and 1, not {confidence:g}")
    if failures <= 0:
        raise errors.UsageError("--failures-per-host-day must be above 0")
    snapshot = capacity.seen(wiring.snapshot(capacity.SOURCES, file))
    outages = capacity.Outages(failures_per_host_day=failures, outage_h=outage / 3600)
    found = capacity.spare_cubes(
        snapshot,
        outages,
        confidence,
        recovery_h=recovery / 3600,
        policy=health_policy.chosen(policy),
    )
    capacity_plans.show_spares(snapshot, found, fmt, no_headers=no_headers)


@app.command()
def simulate(
    figure: Annotated[
        str | None,
        typer.Option(
            "--figure",
            metavar="NAME",
            help=f"A published figure: {', '.join(simulating.FIGURES)}.",
            autocompletion=lambda: [*simulating.FIGURES],
        ),
    ] = None,
    pod: Annotated[int, typer.Option("--pod", min=1, help="Cubes of the pod, with --figure.")] = 64,
    days: Annotated[float, typer.Option("--days", min=0.01, help="How long to run a block.")] = 30.0,
    hosts_mtbf: Annotated[
        durations.Duration | None,
        options.span("--hosts-mtbf", "Mean time between failures of one host; without it nothing fails."),
    ] = None,
    repair: Annotated[
        durations.Duration, options.span("--repair", "Mean time to repair a host.")
    ] = durations.Duration(_DAY_S),  # noqa: B008
    load: Annotated[
        float, typer.Option("--load", min=0.01, help="Work offered, relative to capacity.")
    ] = 1.1,
    cubes: Annotated[int, typer.Option("--cubes", min=1, max=144, help="Cubes of the block.")] = 64,
    spare_cubes: Annotated[int, typer.Option("--spares", min=0, help="Cubes that only a swap may take.")] = 0,
    seed: Annotated[int, typer.Option("--seed", help="Jobs and failures are drawn from it.")] = 1,
    fmt: output.FormatOption = None,
) -> None:
    """Print a published figure beside our own values, or run one block with the published mix of jobs.

    A run is of one imagined block, not of your fleet, and gives the same jobs and failures to dynamic slicing
    and to what it replaced.

    Examples:
      tpuctl capacity simulate --figure isca4
      tpuctl capacity simulate --figure isca4 --pod 144 -o json
      tpuctl capacity simulate --days 90 --hosts-mtbf 1250d --repair 2d
    """
    if figure is not None:
        capacity_plans.show_figure(simulating.figure(figure, pod), fmt)
        return
    wanted = simulating.Run(
        days=days,
        host_mtbf_s=None if hosts_mtbf is None else float(hosts_mtbf),
        repair_s=float(repair),
        load=load,
        cubes=cubes,
        spares=spare_cubes,
        seed=seed,
    )
    capacity_plans.show_run(simulating.simulate(wanted), fmt)
