"""`tpuctl fleet`: everything at once, or saved to a file."""

from __future__ import annotations

import json
import pathlib
from typing import Annotated

import typer

from tpuctl.cli import commands, cube, durations, health_policy, options, output, session, slice_rows, wiring
from tpuctl.model import codec, errors, fleet, states
from tpuctl.ops import absences, views

app = commands.App(help="Look at everything at once, or save it to a file.")


@app.command()
def status(file: options.FleetOption = None, fmt: output.FormatOption = None) -> None:
    """Sum up blocks, cubes, slices and chips.

    Examples:
      tpuctl fleet status
      tpuctl fleet status --fleet yesterday.yaml -o json
    """
    snapshot = wiring.snapshot(tuple(fleet.SourceName), file)
    found = views.summary(snapshot, health_policy.chosen(None))
    verdicts = {str(verdict): found.by_verdict.get(verdict, 0) for verdict in states.Verdict}
    slice_states = dict(sorted(found.by_state.items()))
    missing = absences.look(snapshot, None).missing  # the snapshot holds all claims
    output.render_one(
        "FleetStatus",
        {
            "cluster": snapshot.cluster,
            "blocks": [
                {
                    "id": item.block.id,
                    "name": item.block.name,
                    "cubes": item.cubes,
                    "healthy": item.healthy,
                    "free": item.free,
                }
                for item in found.blocks
            ],
            "cubes": {"total": found.cubes, "free": found.free_cubes, **verdicts},
            "hosts": {
                "total": found.hosts,
                "ready": found.ready_hosts,
                "reserved": found.reserved_hosts,
            },
            "slices": {
                "total": found.slices,
                "byState": slice_states,
                "missing": [slice_rows.absence_plain(one) for one in missing],
            },
            "chips": {"ready": found.chips_ready, "inSlices": found.chips_in_slices},
            "pods": found.pods,
            "strayNodes": [stray.node for stray in snapshot.strays],
            "sources": [
                {"name": str(source.name), "revision": source.revision, "observedAt": source.observed_at}
                for source in snapshot.sources
            ],
        },
        rows=[
            ("Cluster", snapshot.cluster),
            ("Blocks", "\n".join(_block_line(item) for item in found.blocks) or 0),
            ("Cubes", f"{found.cubes} ({_counts(verdicts)}), {found.free_cubes} free"),
            ("Hosts", _hosts(found)),
            ("Slices", f"{found.slices} ({_counts(slice_states)})" if found.slices else 0),
            *([("Missing", "\n".join(map(_missing_line, missing)))] if missing else []),
            ("Chips", f"{found.chips_in_slices:,} in ready slices of {found.chips_ready:,} ready"),
            ("Pods", found.pods),
            ("Read", _sources(snapshot)),
        ],
        name=f"fleet/{snapshot.cluster}",
        fmt=fmt,
        observed_at=snapshot.observed_at,
    )
    cube.tell_strays(snapshot)


@app.command()
def dump(
    target: Annotated[
        pathlib.Path, typer.Option("-f", "--file", metavar="FILE", help="Where to write; - for stdout.")
    ] = pathlib.Path("-"),
    fmt: Annotated[
        output.Format | None, typer.Option("-o", "--output", metavar="FORMAT", help="yaml (default) or json.")
    ] = None,
) -> None:
    """Save the whole fleet, to look at it offline with `--fleet FILE`.

    The dump holds names, ids and states; no secret is in what it is read from.

    Examples:
      tpuctl fleet dump -f today.yaml
      tpuctl cube list --fleet today.yaml
    """
    wanted = fmt or (output.Format.JSON if target.suffix == ".json" else output.Format.YAML)
    if not wanted.is_document:
        raise errors.UsageError(f"a dump cannot be written as {wanted}", hint="use -o yaml or -o json")
    document = codec.dump(wiring.snapshot(tuple(fleet.SourceName), None))
    text = json.dumps(document, indent=1) if wanted is output.Format.JSON else _yaml(document)
    if str(target) == "-":
        session.current().terminal.out(text.rstrip("\n"))
        return
    try:
        target.write_text(f"{text.rstrip()}\n")
    except OSError as error:
        raise errors.TpuctlError(f"cannot write {target}: {error.strerror}") from error
    session.current().terminal.note(f"fleet written to {target}")


def _yaml(document: object) -> str:
    import yaml  # noqa: PLC0415 - JSON does without

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(document, Dumper=dumper, sort_keys=False, width=1_000_000)
    return text


def _block_line(item: views.BlockSummary) -> str:
    return f"{item.block.label}: {item.cubes} cubes, {item.healthy} healthy, {item.free} free for one slice"


def _hosts(found: views.Summary) -> str:
    text = f"{found.ready_hosts:,} of {found.hosts:,} ready"
    missing = (found.reserved_hosts or found.hosts) - found.hosts
    return f"{text}; {missing:,} more are reserved and have no node" if missing > 0 else text


def _missing_line(one: absences.Absence) -> str:
    return f"slice {one.slice_name}: {one.why}; run: {one.command}"


def _counts(found: dict[str, int]) -> str:
    return ", ".join(f"{count} {word}" for word, count in found.items() if count) or "none"


def _sources(snapshot: fleet.Fleet) -> str:
    return ", ".join(
        f"{source.name} {durations.age(snapshot.observed_at, source.observed_at)} ago"
        for source in snapshot.sources
    )
