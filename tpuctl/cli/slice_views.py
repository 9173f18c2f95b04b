"""How slices and what was done to them are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuctl.cli import durations, layout, output
from tpuctl.model import states, topology

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tpuctl.model import fleet
    from tpuctl.ops import forming, views


READY = {True: "ready", False: "not ready", None: "silent"}
"""The node's Ready condition in words."""


def style(state: states.SliceState) -> str | None:
    """The colour of a state."""
    if state is states.SliceState.ACTIVE:
        return "green"
    if state.is_failed:
        return "bold red"
    return "yellow"


def columns(snapshot: fleet.Fleet) -> list[output.Column[views.SliceView]]:
    """The columns of `slice list`."""
    column = output.Column
    now = snapshot.observed_at
    return [
        column("NAME", lambda view: view.slice.name),
        column("TOPOLOGY", lambda view: view.slice.raw_topology),
        column("CHIPS", lambda view: _chips(view.slice)),
        column("CUBES", lambda view: _cubes(view.slice)),
        column("STATE", lambda view: state_text(view.slice), style=lambda view: style(view.slice.state)),
        column("SINCE", lambda view: durations.age(now, view.slice.since)),
        column("OWNER", lambda view: view.slice.owner),
        column("BLOCK", lambda view: ",".join(block.label for block in view.blocks), wide=True),
        column("PRIORITY", lambda view: view.slice.priority, wide=True),
        column("HOSTS", lambda view: view.hosts, wide=True),
        column("PODS", lambda view: view.pods, wide=True),
        column("AGE", lambda view: durations.age(now, view.slice.created_at), wide=True),
        column("MESSAGE", lambda view: view.slice.message, wide=True),
    ]


def state_text(item: fleet.Slice) -> str:
    """The state as the service words it, with what the word alone would hide."""
    word = item.reason or str(item.state)
    if item.deleting and item.state is not states.SliceState.DEACTIVATING:
        return f"{word},DELETING"
    # Health checks of the service hiccup: Ready=Unknown with reason ACTIVE still means usable.
    return f"{word}?" if item.ready == "Unknown" else word


def plain(view: views.SliceView) -> dict[str, Any]:
    """A slice as `-o json` gives it."""
    item = view.slice
    return {
        "name": item.name,
        "uid": item.uid,
        "topology": item.raw_topology,
        "chips": _chips(item),
        "cubes": None if item.topology is None else _number(item.topology.chips / topology.CHIPS_PER_CUBE),
        "state": str(item.state),
        "reason": item.reason,
        "ready": item.ready,
        "message": item.message,
        "createdAt": item.created_at,
        "since": item.since,
        "deleting": item.deleting,
        "priority": item.priority,
        "owner": None if item.owner is None else item.owner._asdict(),
        "partitionIds": list(item.partition_ids),
        "blocks": [{"id": block.id, "name": block.name} for block in view.blocks],
        "hosts": view.hosts,
        "pods": view.pods,
    }


def rows(
    snapshot: fleet.Fleet, view: views.SliceView, events: Sequence[str], following: str | None
) -> list[tuple[str, object]]:
    """The lines of `slice show`; `following` is what to do next."""
    item = view.slice
    shape = item.topology
    size = f" ({shape.chips:,} chips, {shape.hosts:,} hosts, {_cube_count(item)})" if shape else ""
    since = durations.age(snapshot.observed_at, item.since)
    return [
        ("Name", item.name),
        ("Topology", f"{item.raw_topology}{size}"),
        ("State", f"{state_text(item)} for {since}" + (f": {item.message}" if item.message else "")),
        ("Owner", item.owner),
        ("Priority", item.priority),
        ("Block", ", ".join(block.label for block in view.blocks)),
        ("Pods", view.pods),
        ("Age", durations.age(snapshot.observed_at, item.created_at)),
        ("Cubes", "\n".join(_cube_line(cube) for cube in view.cubes) or "not known to the nodes"),
        *_part_rows(snapshot, view),
        ("Events", "\n".join(events) or None),
        *([("Next", following)] if following else []),
    ]


def _part_rows(snapshot: fleet.Fleet, view: views.SliceView) -> list[tuple[str, object]]:
    """What a sub-slice has of its cube: the partition, and its hosts; nothing for whole cubes."""
    item = view.slice
    if item.topology is None or not item.topology.is_sub_slice:
        return []
    parts = [part for cube in view.cubes for part in cube.cube.partitions if part.id in item.partition_ids]
    hosts = [f"{host.name}  {READY[host.ready]}" for host in snapshot.hosts_of(item)]
    return [
        ("Partition", "\n".join(f"{part.id}  {part.shape}  {part.state}" for part in parts) or None),
        ("Hosts", "\n".join(hosts) or None),
    ]


def _cube_line(view: views.CubeView) -> str:
    why = f": {'; '.join(view.reasons)}" if view.reasons else ""
    return (
        f"{view.cube.id}  {view.pool}  {view.cube.ready_hosts}/{topology.HOSTS_PER_CUBE}  {view.verdict}{why}"
    )


def show_plans(found: Sequence[forming.Prepared], fmt: output.Format | None) -> None:
    """What forming one slice, or several together, would do; nothing was done."""
    if len(found) == 1:
        show_plan(found[0].slice_name, found[0], fmt)
        return
    column = output.Column
    output.render_list(
        "SlicePlan",
        found,
        columns=[
            column("SLICE", lambda one: one.slice_name),
            column("BLOCK", _block_label),
            column("PARTITIONS", lambda one: ",".join(one.partition_ids), shorten=True),
            column("PLAN", lambda one: "create it" if one.steps else "nothing to do"),
        ],
        to_plain=lambda one: {
            "name": one.slice_name,
            "changes": bool(one.steps),
            "block": one.block,
            "partitionIds": list(one.partition_ids),
        },
        name_of=lambda one: f"slice/{one.slice_name}",
        fmt=fmt,
        observed_at=found[0].snapshot.observed_at,
    )


def _block_label(prepared: forming.Prepared) -> str | None:
    for block in prepared.snapshot.blocks:
        if block.id == prepared.block:
            return block.label
    return prepared.block


def show_plan(name: str, prepared: forming.Prepared, fmt: output.Format | None) -> None:
    """What forming would do; nothing was done."""
    steps = [(step.name, step.target, step.does) for step in prepared.steps]
    document: dict[str, Any] = {
        "name": name,
        "changes": bool(steps),
        "block": prepared.block,
        "partitionIds": list(prepared.partition_ids),
        "steps": [{"name": str(step), "target": target, "does": does} for step, target, does in steps],
        "candidates": [
            {
                "block": candidate.block,
                "chosen": candidate.block == prepared.block,
                "usable": candidate.usable,
                "total": candidate.total,
                "obstacles": {str(reason): count for reason, count in candidate.obstacles},
            }
            for candidate in prepared.candidates
        ],
    }
    lines: list[tuple[str, object]] = [("Slice", name)]
    if steps:
        lines += [
            ("Partitions", "\n".join(prepared.partition_ids)),
            ("Blocks", "\n".join(_candidates(prepared))),
            ("Plan", "\n".join(f"{step} {target}: {does}" for step, target, does in steps)),
            ("Server", "validated the slice; nothing was stored"),
        ]
    else:
        lines.append(("Plan", "nothing to do, the slice is there as asked"))
    output.render_one(
        "SlicePlan",
        document,
        rows=lines,
        name=f"slice/{name}",
        fmt=fmt,
        observed_at=prepared.snapshot.observed_at,
    )


def _candidates(prepared: forming.Prepared) -> list[str]:
    labels = prepared.snapshot.block_labels
    cells = [
        [
            "*" if candidate.block == prepared.block else " ",
            labels[candidate.block],
            f"{candidate.usable} of {candidate.total} usable",
            prepared.why_not(candidate),
        ]
        for candidate in prepared.candidates
    ]
    return layout.lines(cells, None, [[None] * 4 for _ in cells], lambda text, _: text)


def show_outcome(outcome: forming.Outcome, fmt: output.Format | None) -> None:
    """One line about a slice that was formed, is forming, or was there."""
    item = outcome.slice
    waited = f"after {durations.short(outcome.waited_s)}" if outcome.verb == "formed" else ""
    text = [
        f"slice/{item.name} {outcome.verb}",
        item.raw_topology,
        f"{_chips(item):,} chips",
        f"{_cube_count(item)} of block {outcome.block}" if outcome.block else _cube_count(item),
        item.reason or str(item.state),
        waited,
    ]
    shown = "  ".join(part for part in text if part)
    output.render_line("SliceOutcome", _outcome(outcome), shown, name=f"slice/{item.name}", fmt=fmt)


def _outcome(outcome: forming.Outcome) -> dict[str, Any]:
    item = outcome.slice
    return {
        "name": item.name,
        "result": outcome.verb,
        "state": str(item.state),
        "topology": item.raw_topology,
        "block": outcome.block,
        "partitionIds": list(item.partition_ids),
        "waitedSeconds": round(outcome.waited_s, 3),
    }


def show_outcomes(outcomes: Sequence[forming.Outcome], fmt: output.Format | None) -> None:
    """One line for each slice; as a document, a list if there are several."""
    if len(outcomes) == 1:
        show_outcome(outcomes[0], fmt)
        return
    if output.chosen(fmt) in (output.Format.TABLE, output.Format.WIDE):
        for outcome in outcomes:
            show_outcome(outcome, fmt)
        return
    output.render_list(
        "SliceOutcome",
        outcomes,
        columns=(),
        to_plain=_outcome,
        name_of=lambda outcome: f"slice/{outcome.slice.name}",
        fmt=fmt,
    )


def show_end(name: str, verb: str, waited_s: float | None, fmt: output.Format | None) -> None:
    """One line about a slice that was taken apart."""
    after = "" if waited_s is None else f"  after {durations.short(waited_s)}"
    document = {"name": name, "result": verb, "waitedSeconds": waited_s and round(waited_s, 3)}
    subject = f"slice/{name}"
    output.render_line("SliceOutcome", document, f"{subject} {verb}{after}", name=subject, fmt=fmt)


def show_state(item: fleet.Slice, fmt: output.Format | None) -> None:
    """One line about a slice's state."""
    document = {"name": item.name, "result": "ready", "state": str(item.state), "topology": item.raw_topology}
    subject = f"slice/{item.name}"
    output.render_line("SliceOutcome", document, f"{subject} is {item.reason}", name=subject, fmt=fmt)


def _chips(item: fleet.Slice) -> int:
    return item.topology.chips if item.topology else 0


def _number(value: float) -> float:
    """Whole numbers without a point."""
    return int(value) if value == int(value) else value


def _cube_count(item: fleet.Slice) -> str:
    """`32 cubes`, `1 cube`, `1/4 of a cube`."""
    if item.topology is not None and item.topology.is_sub_slice:
        return f"{_cubes(item)} of a cube"
    return "1 cube" if _cubes(item) == 1 else f"{_cubes(item)} cubes"


def _cubes(item: fleet.Slice) -> object:
    return cubes_in(item.topology)


def cubes_in(shape: topology.Topology | None) -> object:
    """Whole cubes; a share for a sub-slice."""
    if shape is None:
        return None
    if shape.is_sub_slice:
        return f"1/{topology.CHIPS_PER_CUBE // shape.chips}"
    return shape.cubes
