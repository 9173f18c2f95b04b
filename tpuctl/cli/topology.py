"""`tpuctl topology`: what a slice shape means, without touching a cluster."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tpuctl.cli import commands, completion, output
from tpuctl.model import topology

app = commands.App(help="Explain slice shapes: chips, hosts, cubes, and the rules.")


def _cubes(shape: topology.Topology) -> str:
    return "part of 1" if shape.is_sub_slice else str(shape.cubes)


_COLUMNS = (
    output.Column[topology.Topology]("TOPOLOGY", str),
    output.Column[topology.Topology]("CHIPS", lambda shape: shape.chips),
    output.Column[topology.Topology]("HOSTS", lambda shape: shape.hosts),
    output.Column[topology.Topology]("CUBES", _cubes),
    output.Column[topology.Topology]("ACCELERATOR-TYPE", lambda shape: shape.accelerator_type),
    output.Column[topology.Topology]("CORES", lambda shape: shape.cores, wide=True),
)


# `-4x4x4` is a wrong shape, not an unknown option.
@app.command("explain", context_settings={"ignore_unknown_options": True})
def explain(
    shape: Annotated[
        topology.Topology,
        typer.Argument(
            metavar="TOPOLOGY",
            help="AxBxC in chips.",
            parser=topology.parse,
            autocompletion=completion.complete_topologies,
        ),
    ],
    fmt: output.FormatOption = None,
) -> None:
    """Explain a slice shape: how many chips, hosts, cubes and pods, and what to write where.

    A shape that no slice can have is a usage error (64) that names the rule and the nearest legal shapes.

    Examples:
      tpuctl topology explain 8x16x16
      tpuctl topology explain 2x2x4 -o json
    """
    rows = (
        ("Topology", shape),
        (
            "Kind",
            "a sub-slice: one partition inside one cube" if shape.is_sub_slice else "a slice of whole cubes",
        ),
        ("Chips", f"{shape.chips:,} ({shape.cores:,} cores)"),
        ("Hosts", f"{shape.hosts:,} (VMs, one pod on each)"),
        ("Cubes", _cubes(shape)),
        ("Accelerator type", f"{shape.accelerator_type} (TPU_ACCELERATOR_TYPE; it counts cores)"),
        ("Slice resource", _slice_example(shape)),
        ("Pods", _pod_example(shape)),
        ("Form it", f"tpuctl slice form NAME --topology {shape}"),
    )
    output.render_one("Topology", _plain(shape), rows=rows, name=f"topology/{shape}", fmt=fmt)


@app.command("list")
def list_shapes(
    cubes: Annotated[
        int | None,
        typer.Option(
            "--cubes", metavar="N", min=1, max=topology.MAX_CUBES, help="Only shapes of exactly N cubes."
        ),
    ] = None,
    fmt: output.FormatOption = None,
    no_headers: output.NoHeadersOption = False,
) -> None:
    """List every legal slice shape, by chips; sub-slices first.

    Examples:
      tpuctl topology list --cubes 32
    """
    shapes = [shape for shape in topology.cube_shapes() if cubes in (None, shape.cubes)]
    small = list(topology.SUB_SLICE_SHAPES) if cubes is None else []
    output.render_list(
        "Topology",
        small + shapes,
        columns=_COLUMNS,
        to_plain=_plain,
        name_of=lambda shape: f"topology/{shape}",
        fmt=fmt,
        no_headers=no_headers,
    )


def _slice_example(shape: topology.Topology) -> str:
    ids = (
        "1 partition id" if shape.partitions == 1 else f"{shape.partitions} partition ids, one for each cube"
    )
    return f"spec.type: tpu7x\nspec.topology: {shape}\nspec.partitionIds: {ids}"


def _pod_example(shape: topology.Topology) -> str:
    return (
        f"parallelism and completions: {shape.hosts}\n"
        f"resources.limits google.com/tpu: {topology.CHIPS_PER_HOST}\n"
        f"nodeSelector cloud.google.com/gke-tpu-topology: {shape}"
    )


def _plain(shape: topology.Topology) -> dict[str, Any]:
    return {
        "topology": str(shape),
        "type": "sub-slice" if shape.is_sub_slice else "slice",
        "chips": shape.chips,
        "cores": shape.cores,
        "hosts": shape.hosts,
        "pods": shape.hosts,
        "cubes": shape.cubes,
        "partitionIds": shape.partitions,
        "acceleratorType": shape.accelerator_type,
    }
