"""Slices in a list or alone, beside those that are not there because an operation on them is open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tpuctl.cli import durations, output, session, slice_views, wiring
from tpuctl.model import counts, errors, operations, topology
from tpuctl.ops import absences

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Sequence

    from tpuctl.model import fleet
    from tpuctl.ops import views


class Found(NamedTuple):
    """What open operations have to do with the slices of a snapshot."""

    missing: tuple[absences.Absence, ...]
    open_on: dict[str, str]
    """Slice that is there -> the open operation on it, by id."""
    is_whole: bool
    """False if a record could not be read."""


class Row(NamedTuple):
    """A slice that is there, or one that is not."""

    view: views.SliceView | None
    absence: absences.Absence | None
    operation: str
    """Id of the open operation on it; empty if there is none."""

    @property
    def name(self) -> str:
        if self.absence is not None:
            return self.absence.slice_name
        return self.view.slice.name if self.view is not None else ""


def operations_of(snapshot: fleet.Fleet, file: pathlib.Path | None) -> Found:
    """From the cluster, or from the dump if there is one; what cannot be read is told as a warning."""
    screen = session.current().terminal
    try:
        found = absences.look(snapshot, None if file is not None else wiring.ports())
    except errors.NotPermitted as refused:
        screen.warn(f"open operations are not shown: {refused.message}")
        return Found((), {}, is_whole=False)
    for sentence in found.damaged:
        screen.warn(sentence)
    return Found(found.missing, dict(found.open_on), is_whole=not found.damaged)


def missing(snapshot: fleet.Fleet, file: pathlib.Path | None) -> tuple[absences.Absence, ...]:
    """Slices that are not there because an operation on them is open."""
    return operations_of(snapshot, file).missing


def rows(found: Sequence[views.SliceView], known: Found) -> list[Row]:
    """All of them by name."""
    there = [Row(view, None, known.open_on.get(view.slice.name, "")) for view in found]
    gone = [Row(None, one, one.operation_id) for one in known.missing]
    return sorted([*there, *gone], key=lambda row: row.name)


def columns(snapshot: fleet.Fleet, found: Sequence[Row]) -> list[output.Column[Row]]:
    """The columns of `slice list`; what to run comes last, if there is anything to run."""
    plain = [_column(column, snapshot) for column in slice_views.columns(snapshot)]
    if any(_next(row) for row in found):
        plain.append(output.Column("NEXT", lambda row: _next(row) or None))
    return plain


def _column(column: output.Column[views.SliceView], snapshot: fleet.Fleet) -> output.Column[Row]:
    absent, style = _ABSENT.get(column.title), column.style

    def cell(row: Row) -> object:
        if row.view is not None:
            return column.getter(row.view)
        return absent(row.absence, snapshot) if absent and row.absence is not None else None

    def paint(row: Row) -> str | None:
        return style(row.view) if style is not None and row.view is not None else "bold red"

    return output.Column(
        column.title, cell, wide=column.wide, style=paint if style else None, shorten=column.shorten
    )


_ABSENT: dict[str, Callable[[absences.Absence, fleet.Fleet], object]] = {
    "NAME": lambda one, _: one.slice_name,
    "TOPOLOGY": lambda one, _: one.topology,
    "CHIPS": lambda one, _: None if one.topology is None else one.topology.chips,
    "CUBES": lambda one, _: slice_views.cubes_in(one.topology),
    "STATE": lambda one, _: one.stage,
    "SINCE": lambda one, snapshot: durations.age(
        snapshot.observed_at, None if one.operation is None else one.operation.started_at
    ),
    "PRIORITY": lambda one, _: None if one.operation is None else one.operation.priority,
    "MESSAGE": lambda one, _: one.why,
}


def _next(row: Row) -> str:
    """What to run; empty if nothing needs to be done."""
    if row.absence is not None:
        return row.absence.command
    if row.view is None:
        return ""
    item = row.view.slice
    if row.operation:
        is_forming = operations.is_of_kind(row.operation, operations.Kind.FORM) and not item.state.is_failed
        return f"tpuctl slice wait {item.name}" if is_forming else f"tpuctl operation resume {row.operation}"
    return f"tpuctl slice show {item.name}" if item.state.is_failed else ""


def plain(row: Row) -> dict[str, Any]:
    """A row as `-o json` gives it; one that is not there has the same keys."""
    if row.view is not None:
        operation = {"id": row.operation} if row.operation else None
        return {**slice_views.plain(row.view), "operation": operation}
    if row.absence is None:
        raise ValueError("a row is of a slice or of an absence")
    one, shape = row.absence, row.absence.topology
    return {
        "name": one.slice_name,
        "uid": None,
        "topology": None if shape is None else str(shape),
        "chips": None if shape is None else shape.chips,
        "cubes": None if shape is None else shape.chips / topology.CHIPS_PER_CUBE,
        "state": None,
        "reason": None,
        "ready": None,
        "message": one.why,
        "createdAt": None,
        "since": None,
        "deleting": False,
        "priority": None if one.operation is None else one.operation.priority,
        "owner": None,
        "partitionIds": list(one.partition_ids),
        "blocks": [],
        "hosts": 0,
        "pods": None,
        "operation": absence_plain(one)["operation"],
    }


def absence_plain(one: absences.Absence) -> dict[str, Any]:
    """A slice that is not there, and its operation, as documents give it."""
    return {
        "name": one.slice_name,
        "operation": {
            "id": one.operation_id,
            "intent": None if one.operation is None else str(one.operation.intent),
            "aborting": one.operation is not None and one.operation.aborting,
            "why": one.why,
            "run": one.command,
        },
    }


def show_absent(snapshot: fleet.Fleet, one: absences.Absence, fmt: output.Format | None) -> None:
    """`slice show` of a slice that is not there."""
    shape, begun = one.topology, one.operation
    since = f" for {durations.age(snapshot.observed_at, begun.started_at)}" if begun is not None else ""
    keeps = len(begun.claims) if begun is not None else len(one.partition_ids)
    output.render_one(
        "Slice",
        {**plain(Row(None, one, one.operation_id)), "events": None},
        rows=[
            ("Name", one.slice_name),
            ("Topology", None if shape is None else f"{shape} ({shape.chips:,} chips)"),
            ("State", f"{one.stage}{since}: {one.why}"),
            ("Operation", f"{one.operation_id}, which keeps {counts.of(keeps, 'partition')}"),
            ("Cubes", "\n".join(one.partition_ids)),
            *([("Note", begun.note)] if begun is not None and begun.note else []),
            ("Next", one.command),
        ],
        name=f"slice/{one.slice_name}",
        fmt=fmt,
        observed_at=snapshot.observed_at,
    )


def next_of(operation: str, failed: str) -> str | None:
    """The `Next` line of `slice show`: the open operation goes before what to do about a failed slice."""
    if operation:
        return f"operation {operation} is open on it; to finish it: tpuctl operation resume {operation}"
    return failed or None
