"""Options that several commands share."""

from __future__ import annotations

import pathlib
from typing import Annotated

import typer

from tpuctl.cli import completion, durations
from tpuctl.model import topology

FleetOption = Annotated[
    pathlib.Path | None,
    typer.Option(
        "--fleet",
        metavar="FILE",
        help="Read this dump (`tpuctl fleet dump`) in place of the cluster; - for stdin.",
    ),
]
PolicyOption = Annotated[
    pathlib.Path | None,
    typer.Option(
        "--policy",
        metavar="FILE",
        help="Judge health by this policy (see configs/policies/health.yaml), not by the context's.",
    ),
]
TopologyOption = Annotated[
    topology.Topology,
    typer.Option(
        "--topology",
        "-t",
        metavar="AxBxC",
        parser=topology.parse,
        help="Shape in chips, for example 4x4x8; see `tpuctl topology list`.",
    ),
]
BlockOption = Annotated[
    str | None,
    typer.Option(
        "--block",
        metavar="BLOCK",
        help="Only this block (name or id).",
        autocompletion=completion.complete_blocks,
    ),
]
SliceArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the slice.", autocompletion=completion.complete_slices)
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask. Guards stay in force.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show the plan and change nothing.")]
TimeoutOption = Annotated[
    durations.Duration,
    typer.Option(
        "--timeout",
        metavar="TIME",
        parser=durations.parse,
        help="Give up waiting after this long, for example 90s, 10m, 2h.",
    ),
]
TEN_MINUTES = durations.Duration(600.0)
WaitOption = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is done.")]


def split(values: list[str] | None) -> tuple[str, ...]:
    """`--cubes a,b --cubes c` as one list; empty parts are dropped."""
    return tuple(part.strip() for value in values or () for part in value.split(",") if part.strip())
