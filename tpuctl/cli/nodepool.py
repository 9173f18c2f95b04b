"""`tpuctl nodepool`: turn reserved sub-blocks into cubes, one node pool each."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tpuctl.cli import commands, completion, durations, options, output, session, wiring
from tpuctl.model import counts, errors, fleet, topology
from tpuctl.model.exit_status import ExitStatus
from tpuctl.ops import carving, pool_deletion

if TYPE_CHECKING:
    import datetime
    import pathlib
    from collections.abc import Sequence

    from tpuctl.ops import ports as ports_module

app = commands.App(help="Turn reserved sub-blocks into cubes, one node pool each.")

_UPGRADES = {True: "on", False: "off", None: "unknown"}
_STYLES = {carving.Result.FULL: "green", carving.Result.PARTIAL: "yellow", carving.Result.FAILED: "bold red"}


@app.command()
def setup(
    block: options.BlockOption = None,
    cubes: Annotated[
        int | None, typer.Option("--cubes", min=1, help="At most so many cubes, those that exist included.")
    ] = None,
    max_in_flight: Annotated[
        int, typer.Option("--max-in-flight", min=1, help="Node pool creations at once.")
    ] = carving.DEFAULT_IN_FLIGHT,
    dry_run: options.DryRunOption = False,
    timeout: options.TimeoutOption = durations.Duration(  # noqa: B008
        carving.DEFAULT_TIMEOUT_S
    ),
    fmt: output.FormatOption = None,
) -> int:
    """Make a node pool for every sub-block that has none.

    Turns the slice controller on and creates the workload policy if need be. A sub-block with broken hosts
    gets its pool too: the healthy hosts come up, the others join when they are repaired. Run it again after
    an interruption, it goes on where it stopped.

    Examples:
      tpuctl nodepool setup
      tpuctl nodepool setup --block res-block-0001 --cubes 12
      tpuctl nodepool setup --dry-run
    """
    ports = wiring.ports()
    policy = wiring.context().policy
    prepared = carving.prepare(ports, policy=policy, block=block, limit=cubes)
    if dry_run:
        _show_plan(prepared, fmt)
        return ExitStatus.OK
    outcome = carving.execute(
        ports, session.current().terminal.reporter(), prepared, in_flight=max_in_flight, timeout_s=timeout
    )
    _show_outcome(outcome, fmt)
    if outcome.changed:
        _learn_names(ports)
    _warn_of_upgrades(ports)
    return _status(outcome)


def _learn_names(ports: ports_module.Ports) -> None:
    """See blocks with nodes and names together once: from then on every command can call them by name.

    Commands that read nodes only know a block by its id, and before there were nodes, by its name only.
    """
    # The pools are made, whether this works or not; then blocks go by their ids for a while.
    with contextlib.suppress(errors.TpuctlError):
        ports.fleet.observe((fleet.SourceName.NODES, fleet.SourceName.CAPACITY))


def _warn_of_upgrades(ports: ports_module.Ports, pools: Sequence[fleet.NodePool] | None = None) -> None:
    """Tell if GKE may upgrade nodes by itself, and the command against it; without `pools` they are read."""
    screen = session.current().terminal
    try:
        left = carving.left_to_upgrades(ports, ports.pools.list() if pools is None else pools)
    except errors.TpuctlError as error:
        # What the command was for is done.
        screen.warn(f"it is not known whether GKE may upgrade nodes by itself: {error.message}")
        return
    if left:
        screen.warn(_upgrades_text(len(left)))


def _upgrades_text(pools: int) -> str:
    context = wiring.context()
    command = (
        f"gcloud container clusters update {context.cluster} --project={context.project} "
        f"--location={context.location} --add-maintenance-exclusion-name=no-node-upgrades "
        "--add-maintenance-exclusion-scope=no_minor_or_node_upgrades "
        "--add-maintenance-exclusion-start=START --add-maintenance-exclusion-end=END"
    )
    return (
        f"GKE may upgrade the nodes of {counts.of(pools, 'node pool')} by itself, and the slices on them "
        "become FAILED then; Google's demo of dynamic slicing and an example of its Cluster Toolkit keep "
        f"that away with a maintenance exclusion (START and END as 2026-01-31T00:00:00Z): {command}"
    )


@app.command("list")
def list_pools(
    file: options.FleetOption = None,
    fmt: output.FormatOption = None,
    no_headers: output.NoHeadersOption = False,
) -> None:
    """List the node pools made for cubes.

    A pool in ERROR can have all its nodes: the status may be left over from a first attempt. A warning tells
    if GKE may upgrade nodes by itself, and the command that keeps it from that.

    Examples:
      tpuctl nodepool list -o wide
    """
    pools, hosts, observed_at = _observed(file)
    output.render_list(
        "NodePool",
        [pool for pool in pools if pool.reservation],
        columns=_columns(hosts),
        to_plain=lambda pool: _plain(pool, hosts),
        name_of=lambda pool: f"nodepool/{pool.name}",
        fmt=fmt,
        no_headers=no_headers,
        observed_at=observed_at,
        empty="No node pools for cubes found.",
    )
    if file is None:
        _warn_of_upgrades(wiring.ports(), pools)


@app.command()
def show(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Node pool.", autocompletion=completion.complete_pools)
    ],
    file: options.FleetOption = None,
    fmt: output.FormatOption = None,
) -> None:
    """Show one node pool.

    Examples:
      tpuctl nodepool show cube-res-block-0001-subblock-0001
    """
    name = options.plain_name(name)
    pools, hosts, observed_at = _observed(file)
    pool = next((pool for pool in pools if pool.name == name), None)
    if pool is None:
        raise errors.NotFound(
            f"there is no node pool '{name}'",
            hint=completion.did_you_mean(name, [pool.name for pool in pools]),
        )
    output.render_one(
        "NodePool",
        _plain(pool, hosts),
        rows=[
            ("Node pool", pool.name),
            ("Status", "\n".join((pool.raw_status, *pool.conditions))),
            ("Hosts", f"{hosts.get(name, 0)} ready of {pool.wanted_hosts}"),
            ("Reservation", pool.reservation),
            ("Block", pool.block),
            ("Sub-block", pool.sub_block),
            ("Policy", pool.policy),
            ("Auto-upgrade", _UPGRADES[pool.auto_upgrade]),
        ],
        name=f"nodepool/{name}",
        fmt=fmt,
        observed_at=observed_at,
    )


@app.command()
def delete(
    pools: Annotated[
        list[str],
        typer.Argument(metavar="NAME", help="Node pools.", autocompletion=completion.complete_pools),
    ],
    yes: options.YesOption = False,
    timeout: options.TimeoutOption = durations.Duration(  # noqa: B008
        carving.DEFAULT_TIMEOUT_S
    ),
    fmt: output.FormatOption = None,
) -> None:
    """Delete node pools; refused while a slice uses one of them.

    Examples:
      tpuctl nodepool delete cube-res-block-0001-subblock-0001
    """
    wiring.require_named_context("deleting node pools")
    ports = wiring.ports()
    screen = session.current().terminal
    screen.require_answers(yes=yes, what="deleting node pools needs a confirmation")
    names = [options.plain_name(pool) for pool in pools]
    found = pool_deletion.prepare(ports, names)
    for name in sorted(set(names) - {pool.name for pool in found}):
        screen.note(f"there is no node pool {name}: unchanged")
    if not found:
        return
    hosts = carving.ready_hosts_by_pool(ports)
    total = sum(hosts.get(pool.name, 0) for pool in found)
    what = found[0].name if len(found) == 1 else f"{len(found)} pools"
    hit = ((len(found), "node pool"), (total, "host"), (total * topology.CHIPS_PER_HOST, "chip"))
    radius = ", ".join([*(counts.of(number, word) for number, word in hit), "no slice"])
    screen.note(f"blast radius in context {wiring.context().name}: {radius}")
    screen.confirm_name("The hosts and everything on them are deleted.", what, yes=yes)
    pool_deletion.execute(ports, screen.reporter(), found, timeout_s=timeout)
    output.render_list(
        "NodePoolResult",
        found,
        columns=[
            output.Column("NODEPOOL", lambda pool: pool.name),
            output.Column("RESULT", lambda _: "deleted"),
        ],
        to_plain=lambda pool: {"name": pool.name, "result": "deleted"},
        name_of=lambda pool: f"nodepool/{pool.name}",
        fmt=fmt,
    )


def _observed(
    file: pathlib.Path | None,
) -> tuple[Sequence[fleet.NodePool], dict[str, int], datetime.datetime]:
    """Pools, the ready hosts of each, and when that was."""
    if file is not None:
        snapshot = wiring.load(file)
        pools: Sequence[fleet.NodePool] = [cube.pool for cube in snapshot.cubes if cube.pool is not None]
    else:
        snapshot = wiring.ports().fleet.observe((fleet.SourceName.NODES,))
        pools = wiring.ports().pools.list()
    return pools, carving.ready_hosts(snapshot), snapshot.observed_at


def _columns(hosts: dict[str, int]) -> list[output.Column[fleet.NodePool]]:
    column = output.Column
    return [
        column("NODEPOOL", lambda pool: pool.name, shorten=True),
        column("STATUS", lambda pool: pool.raw_status),
        column("HOSTS", lambda pool: f"{hosts.get(pool.name, 0)}/{pool.wanted_hosts}"),
        column("BLOCK", lambda pool: pool.block, shorten=True),
        column("SUB-BLOCK", lambda pool: pool.sub_block, shorten=True),
        column("RESERVATION", lambda pool: pool.reservation, wide=True),
        column("POLICY", lambda pool: pool.policy, wide=True),
        column("AUTO-UPGRADE", lambda pool: _UPGRADES[pool.auto_upgrade], wide=True),
        column("CONDITIONS", lambda pool: "; ".join(pool.conditions), wide=True),
    ]


def _plain(pool: fleet.NodePool, hosts: dict[str, int]) -> dict[str, Any]:
    return {
        "name": pool.name,
        "status": pool.raw_status,
        "wantedHosts": pool.wanted_hosts,
        "readyHosts": hosts.get(pool.name, 0),
        "reservation": pool.reservation,
        "block": pool.block,
        "subBlock": pool.sub_block or None,
        "policy": pool.policy,
        "autoUpgrade": pool.auto_upgrade,
        "conditions": list(pool.conditions),
    }


def _show_plan(prepared: carving.Prepared, fmt: output.Format | None) -> None:
    actions = prepared.actions
    output.render_list(
        "PlannedAction",
        actions,
        columns=[
            output.Column("ACTION", lambda action: action.verb),
            output.Column("TARGET", lambda action: action.target),
            output.Column("FOR", lambda action: action.purpose),
        ],
        to_plain=lambda action: action._asdict(),
        name_of=lambda action: action.target,
        fmt=fmt,
        empty="Nothing to do: every sub-block asked for has a node pool.",
    )
    if actions:
        session.current().terminal.note(
            "nothing was done; GKE has no dry run, so this was not validated by it"
        )


def _show_outcome(outcome: carving.Outcome, fmt: output.Format | None) -> None:
    column = output.Column
    troubled = [item for item in outcome.results if item.result is not carving.Result.FULL]
    screen = session.current().terminal
    wanted = output.chosen(fmt)
    by_result = ", ".join(f"{outcome.count(result)} {result}" for result in carving.Result)
    verb = "set up" if outcome.changed else "unchanged"
    if wanted is output.Format.TABLE:
        screen.out(f"{counts.of(len(outcome.results), 'cube')} {verb}: {by_result}")
    shown: Sequence[carving.CubeResult] = troubled if wanted is output.Format.TABLE else outcome.results
    if shown or wanted.is_document:
        output.render_list(
            "CubeResult",
            shown,
            columns=[
                column("NODEPOOL", lambda item: item.pool),
                column("HOSTS", lambda item: f"{item.hosts}/16"),
                column("RESULT", lambda item: item.result, style=lambda item: _STYLES[item.result]),
                column("WHY", lambda item: item.why),
            ],
            to_plain=lambda item: {
                "nodePool": item.pool,
                "subBlock": item.sub_block,
                "result": str(item.result),
                "readyHosts": item.hosts,
                "created": item.made,
                "why": item.why,
            },
            name_of=lambda item: f"nodepool/{item.pool}",
            fmt=fmt,
        )


def _status(outcome: carving.Outcome) -> int:
    """Partial cubes are normal while hosts are in repair; only pools that could not be had are trouble."""
    failed = outcome.count(carving.Result.FAILED)
    if not failed:
        return ExitStatus.OK
    return ExitStatus.FAILED if failed == len(outcome.results) else ExitStatus.PARTLY_DONE
