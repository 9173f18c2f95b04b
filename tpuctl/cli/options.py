"""Options that several commands share."""

from __future__ import annotations

import pathlib
from typing import Annotated, Any

import typer

from tpuctl.cli import completion, durations
from tpuctl.model import errors, topology

_KINDS = ("slice", "cube", "block", "host", "nodepool", "operation", "lock", "repair")


def plain_name(text: str) -> str:
    """`slice/train-a` as `train-a`: what `-o name` prints can be given back."""
    kind, slash, name = text.partition("/")
    return name if slash and kind in _KINDS else text


def span(name: str, help: str) -> Any:  # noqa: A002 - typer's word
    """An option that takes a span of time, such as 90s or 10m; its parameter is a `Duration`."""
    return typer.Option(name, metavar="TIME", parser=durations.parse, help=help)


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
_SHAPE = typer.Option(
    "--topology",
    "-t",
    metavar="AxBxC",
    parser=topology.parse,
    help="Shape in chips, for example 4x4x8; see `tpuctl topology list`.",
)
TopologyOption = Annotated[topology.Topology, _SHAPE]
WantedOption = Annotated[topology.Topology | None, _SHAPE]
ChipsOption = Annotated[
    int | None,
    typer.Option("--chips", min=1, help="So many chips in the most cubic shape, in place of --topology."),
]
FallbackOption = Annotated[
    list[str] | None,
    typer.Option("--fallback", metavar="AxBxC,...", help="Smaller shapes that would do, in order."),
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
AllowDegradedOption = Annotated[
    bool, typer.Option("--allow-degraded", help="Also use cubes with a degraded link.")
]
ForceForeignOption = Annotated[
    bool, typer.Option("--force-foreign", help="Also a slice that another controller owns.")
]
SliceArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Name of the slice.",
        parser=plain_name,
        autocompletion=completion.complete_slices,
    ),
]
CubeArgument = Annotated[
    str,
    typer.Argument(
        metavar="CUBE",
        help="Partition id, node pool or sub-block.",
        parser=plain_name,
        autocompletion=completion.complete_cubes,
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask. Guards stay in force.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show the plan and change nothing.")]
TimeoutOption = Annotated[
    durations.Duration, span("--timeout", "Give up waiting after this long, for example 90s, 10m, 2h.")
]
TEN_MINUTES = durations.Duration(600.0)
WaitOption = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is done.")]


def split(values: list[str] | None) -> tuple[str, ...]:
    """`--cubes a,b --cubes c` as one list, with the prefix that `-o name` writes taken off.

    Raises UsageError for an empty part: an unset shell variable must not mean "any".
    """
    parts = [part.strip() for value in values or () for part in value.split(",")]
    if not all(parts):
        raise errors.UsageError("an empty name was given", hint="is a shell variable unset?")
    return tuple(plain_name(part) for part in parts)


def shapes(values: list[str] | None) -> tuple[topology.Topology, ...]:
    """`--fallback 8x8x16,8x8x8` as shapes; raises TopologyError."""
    return tuple(topology.parse(text) for text in split(values))


def one_shape(shape: topology.Topology | None, chips: int | None) -> topology.Topology:
    """The shape of `--topology`, or the most cubic one of so many `--chips`; exactly one must be given."""
    if (shape is None) == (chips is None):
        raise errors.UsageError("say either --topology or --chips")
    if shape is not None:
        return shape
    from tpuctl.ops import capacity  # noqa: PLC0415 - only with --chips

    return capacity.most_cubic(chips or 0)
