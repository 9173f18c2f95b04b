"""`tpuctl cube`: hosts, state, and which slice holds what."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tpuctl.cli import (
    commands,
    durations,
    health_policy,
    health_views,
    maps,
    options,
    output,
    session,
    slice_views,
    wiring,
)
from tpuctl.model import errors, fleet, states, topology
from tpuctl.ops import holding, journal, naming, views

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tpuctl.model import operations

app = commands.App(help="Show cubes: hosts, state, and which slice holds them.")


class State(enum.StrEnum):
    """What `--state` selects: a verdict, or a mark beside it."""

    HEALTHY = states.Verdict.HEALTHY.value
    DEGRADED = states.Verdict.DEGRADED.value
    UNHEALTHY = states.Verdict.UNHEALTHY.value
    INCOMPLETE = states.Verdict.INCOMPLETE.value
    UNKNOWN = states.Verdict.UNKNOWN.value
    CORDONED = "cordoned"
    HELD = "held"


_SOURCES = (
    fleet.SourceName.NODES,
    fleet.SourceName.SLICES,
    fleet.SourceName.NODE_POOLS,
    fleet.SourceName.CAPACITY,
    fleet.SourceName.CLAIMS,
)


@app.command("list")
def list_cubes(
    block: options.BlockOption = None,
    state: Annotated[
        list[State] | None,
        typer.Option(
            "--state", metavar="STATE", help="Only cubes judged or marked so; may be given several times."
        ),
    ] = None,
    free: Annotated[bool, typer.Option("--free", help="Only cubes that a slice could take now.")] = False,
    as_map: Annotated[bool, typer.Option("--map", help="Draw blocks as grids, one cell a cube.")] = False,
    file: options.FleetOption = None,
    fmt: output.FormatOption = None,
    no_headers: output.NoHeadersOption = False,
) -> None:
    """List cubes with their block, node pool, hosts, state and slice.

    A sub-block that has no nodes yet is listed under its name in the reservation, since its partition id is
    not known before.

    Examples:
      tpuctl cube list
      tpuctl cube list --map
      tpuctl cube list --state unhealthy --state incomplete -o name
      tpuctl cube list --state held -o wide
    """
    if as_map and fmt not in (None, output.Format.TABLE, output.Format.WIDE):
        raise errors.UsageError(f"--map draws a picture, which cannot be written as {fmt}")
    snapshot = wiring.snapshot(_SOURCES, file)
    if as_map:
        _draw(only_block(snapshot, block))
        return
    found = [
        view
        for view in views.cubes(only_block(snapshot, block), health_policy.chosen(None))
        if (not state or not {view.verdict, *view.marks}.isdisjoint(state)) and (not free or view.is_free)
    ]
    output.render_list(
        "Cube",
        found,
        columns=_columns(snapshot),
        to_plain=lambda view: _plain(snapshot, view),
        name_of=lambda view: f"cube/{view.cube.id}",
        fmt=fmt,
        no_headers=no_headers,
        observed_at=snapshot.observed_at,
    )
    tell_strays(snapshot)


@app.command()
def show(
    cube: options.CubeArgument,
    file: options.FleetOption = None,
    fmt: output.FormatOption = None,
) -> None:
    """Show one cube: its hosts, its partitions and every reason for its state.

    Examples:
      tpuctl cube show 5f0c54a1d2b34e6f8a9b0c1d2e3f4a5b
    """
    snapshot = wiring.snapshot(_SOURCES, file)
    wanted = naming.find_cube(snapshot, cube)
    found = views.cubes(snapshot, health_policy.chosen(None))
    view = next(view for view in found if view.cube is wanted)
    output.render_one(
        "Cube",
        {
            **_plain(snapshot, view),
            "hosts": [_host(host) for host in wanted.hosts],
            "partitions": _partitions(wanted),
        },
        rows=_rows(snapshot, view),
        name=f"cube/{wanted.id}",
        fmt=fmt,
        observed_at=snapshot.observed_at,
    )


@app.command()
def hold(
    cube: options.CubeArgument,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; others read this.")],
    until: Annotated[
        durations.Duration | None, options.span("--until", "End after so long, e.g. 12h.")
    ] = None,
    fmt: output.FormatOption = None,
) -> None:
    """Take a cube out of placement, for everybody who uses tpuctl.

    Slices that use the cube keep it; no new one gets it. The mark is tpuctl's own: nodes are not cordoned.

    Examples:
      tpuctl cube hold 5f0c54a1d2b34e6f8a9b0c1d2e3f4a5b --reason "burn-in" --until 12h
    """
    held = holding.hold(wiring.ports(), cube, reason=reason, for_s=until)
    for name in held.slices:
        session.current().terminal.note(f"slice {name} uses it and keeps it")
    _show_hold(held.hold, "held" if held.made else "unchanged", fmt)


@app.command()
def release(
    cube: options.CubeArgument,
    others: Annotated[bool, typer.Option("--others", help="Also what somebody else holds.")] = False,
    fmt: output.FormatOption = None,
) -> None:
    """Give a held cube back to placement. Cordons that others put on its nodes stay.

    Examples:
      tpuctl cube release 5f0c54a1d2b34e6f8a9b0c1d2e3f4a5b
    """
    ports = wiring.ports()
    released = holding.release(ports, cube, others=others)
    if released is None:
        session.current().terminal.note(f"cube {cube} was not held")
        for entry in journal.list_open(ports):
            if cube in entry.operation.claims:
                name = entry.operation.id
                session.current().terminal.warn(f"{name} keeps it; see: tpuctl operation show {name}")
        return
    _show_hold(released, "released", fmt)


def _show_hold(hold: operations.Hold, verb: str, fmt: output.Format | None) -> None:
    subject = f"cube/{hold.cube_id}"
    until = f" until {output.timestamp(hold.until)}" if hold.until else ""
    text = f"{subject} {verb}  by {hold.owner}{until}: {hold.reason}"
    document = {
        "id": hold.cube_id,
        "result": verb,
        "owner": hold.owner,
        "reason": hold.reason,
        "since": hold.since,
        "until": hold.until,
    }
    output.render_line("Hold", document, text, name=subject, fmt=fmt)


def tell_strays(snapshot: fleet.Fleet) -> None:
    """Warn of TPU nodes that belong to no cube: they are hardware that nobody uses."""
    for stray in snapshot.strays:
        session.current().terminal.warn(f"node {stray.node} belongs to no cube: {stray.why}")


def _draw(snapshot: fleet.Fleet) -> None:
    screen = session.current().terminal
    if not snapshot.blocks:
        screen.note("No cubes found.")
        return
    screen.out("\n".join(maps.draw(snapshot, screen.styled, health_policy.chosen(None))))


def only_block(snapshot: fleet.Fleet, block: str | None) -> fleet.Fleet:
    """The fleet, seen through one block if one is named; raises NotFound."""
    if block is None:
        return snapshot
    found = tuple(item for item in snapshot.blocks if block in (item.id, item.name))
    if not found:
        known = ", ".join(item.label for item in snapshot.blocks) or "none"
        raise errors.NotFound(f"there is no block '{block}'", hint=f"blocks: {known}")
    return snapshot.with_blocks(found)


def held_plain(snapshot: fleet.Fleet, cube_id: str) -> list[dict[str, Any]]:
    """What keeps a cube from new slices besides its health, as `-o json` gives it."""
    return [{"by": claim.holder, "until": claim.until} for claim in _claims(snapshot, cube_id)]


def held_lines(snapshot: fleet.Fleet, cube_id: str) -> list[str]:
    """The same for people: `hold by jo: burn-in, until 2026-01-05T20:00:00Z`."""
    return [
        claim.holder + (f", until {output.timestamp(claim.until)}" if claim.until else "")
        for claim in _claims(snapshot, cube_id)
    ]


def _claims(snapshot: fleet.Fleet, cube_id: str) -> Sequence[operations.Claim]:
    return snapshot.derived(_claims_by_cube).get(cube_id, ())


def _claims_by_cube(snapshot: fleet.Fleet) -> dict[str, list[operations.Claim]]:
    found: dict[str, list[operations.Claim]] = {}
    for claim in snapshot.claims:
        cube_id = snapshot.cube_of_partition.get(claim.cube_id, claim.cube_id)
        found.setdefault(cube_id, []).append(claim)
    return found


def _columns(snapshot: fleet.Fleet) -> list[output.Column[views.CubeView]]:
    column = output.Column
    return [
        column("CUBE", lambda view: view.cube.id, shorten=True),
        column("BLOCK", lambda view: view.block.label, shorten=True),
        column("POOL", lambda view: view.pool, shorten=True),
        column("HOSTS", lambda view: f"{view.cube.ready_hosts}/{topology.HOSTS_PER_CUBE}"),
        column(
            "STATE",
            lambda view: ",".join((view.verdict, *view.marks)),
            style=lambda view: health_views.STYLES[view.verdict],
        ),
        column("SLICE", lambda view: ",".join(view.slices)),
        column(
            "SUB-BLOCK",
            lambda view: view.cube.sub_block and view.cube.sub_block.name,
            wide=True,
            shorten=True,
        ),
        column(
            "WHY",
            lambda view: "; ".join((*view.reasons, *held_lines(snapshot, view.cube.id))),
            wide=True,
            keep=True,
        ),
    ]


def _plain(snapshot: fleet.Fleet, view: views.CubeView) -> dict[str, Any]:
    cube = view.cube
    return {
        "id": cube.id,
        "block": {"id": view.block.id, "name": view.block.name},
        "nodePool": view.pool or None,
        "nodePoolStatus": cube.pool.raw_status if cube.pool else None,
        "subBlock": cube.sub_block.name if cube.sub_block else None,
        "hosts": len(cube.hosts),
        "readyHosts": cube.ready_hosts,
        "verdict": str(view.verdict),
        "reasons": list(view.reasons),
        "where": [str(domain) for domain in view.judgement.domains],
        "usableHosts": view.judgement.usable_hosts,
        "partitionState": str(cube.state),
        "schedulable": view.is_schedulable,
        "free": view.is_free,
        "claims": list(view.claims),
        "held": held_plain(snapshot, cube.id),
        "slices": list(view.slices),
    }


def _host(host: fleet.Host) -> dict[str, Any]:
    return {
        "name": host.name,
        "ready": host.ready,
        "readySince": host.ready_since,
        "schedulable": host.schedulable,
        "taints": list(host.taints),
        "taintEffects": list(host.taint_effects),
        "slice": host.slice_name or None,
        "maintenanceAt": host.maintenance_at,
    }


def _partitions(cube: fleet.Cube) -> list[dict[str, Any]]:
    return [
        {"id": part.id, "shape": str(part.shape), "state": str(part.state), "hosts": list(part.hosts)}
        for part in cube.partitions
    ]


def _rows(snapshot: fleet.Fleet, view: views.CubeView) -> list[tuple[str, object]]:
    cube = view.cube
    sub_block = cube.sub_block
    health = f"{sub_block.health or 'unknown'} (reservation)" if sub_block else None
    return [
        ("Cube", cube.id),
        ("Block", f"{view.block.label} ({view.block.id})" if view.block.name else view.block.id),
        ("Sub-block", sub_block.name if sub_block else None),
        ("Node pool", f"{view.pool} ({cube.pool.raw_status})" if cube.pool else view.pool),
        ("State", "\n".join((health_views.verdict_text(view.judgement), *view.reasons))),
        ("Held", "\n".join(held_lines(snapshot, cube.id)) or None),
        ("Hardware", health),
        ("Slices", ", ".join(view.slices)),
        ("Hosts", "\n".join(_host_line(snapshot, host) for host in cube.hosts)),
        ("Partitions", "\n".join(_shape_lines(cube))),
    ]


def _host_line(snapshot: fleet.Fleet, host: fleet.Host) -> str:
    ready = slice_views.READY[host.ready]
    since = durations.age(snapshot.observed_at, host.ready_since)
    marks = [*(() if host.schedulable else ("cordoned",)), *host.told_taints]
    return f"{host.name}  {ready} for {since}" + (f"  {', '.join(marks)}" if marks else "")


def _shape_lines(cube: fleet.Cube) -> Sequence[str]:
    """How many partitions of each shape are in which state."""
    lines = []
    for shape in reversed(topology.PARTITION_SHAPES):
        found = [part.state for part in cube.partitions if part.shape == shape]
        counts = ", ".join(
            f"{found.count(state)} {state}" for state in states.PartitionState if state in found
        )
        if counts:
            lines.append(f"{shape}  {counts}")
    return lines
