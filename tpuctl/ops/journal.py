"""Open operations, kept in the cluster: written before the first irreversible step, gone after the last.

There is one record for a slice, named after it, so two operations on one slice cannot both be open.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Self

from tpuctl.model import errors, names, operations, records
from tpuctl.ops import locking

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tpuctl.ops import ports as ports_module

_PREFIX = "op-"


def operation_id(kind: operations.Kind, slice_name: str) -> str:
    return f"{kind}-{slice_name}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entry:
    """An operation with the record that holds it."""

    operation: operations.Operation
    record: ports_module.Record

    def amended(self, ports: ports_module.Ports, **changes: Any) -> Self:
        """Write changes down and return the entry as it is then; raises Conflict if somebody else did."""
        return self.replaced(ports, dataclasses.replace(self.operation, **changes))

    def replaced(self, ports: ports_module.Ports, operation: operations.Operation) -> Self:
        """The same with a whole operation."""
        if operation == self.operation:
            return self
        record = ports.records.replace(self.record, records.write_operation(operation))
        return dataclasses.replace(self, operation=operation, record=record)

    def close(self, ports: ports_module.Ports) -> None:
        ports.records.delete(self.record)


def begin(ports: ports_module.Ports, operation: operations.Operation) -> Entry:
    """Write an operation down; raises Conflict if another one is open for the slice."""
    name = _record_name(operation.slice_name)
    try:
        record = ports.records.create(name, records.OPERATION, records.write_operation(operation))
    except locking.LostLock:
        raise
    except errors.Conflict as conflict:
        raise _somebody_elses(ports, operation.slice_name) from conflict
    return Entry(operation=operation, record=record)


def of_slice(ports: ports_module.Ports, slice_name: str) -> Entry | None:
    """The open operation on a slice; raises DamagedRecord."""
    record = ports.records.get(_record_name(slice_name))
    return None if record is None else _entry(record)


def find(ports: ports_module.Ports, operation_id: str) -> Entry:
    """The open operation of that id; raises NotFound."""
    for entry in list_open(ports):
        if entry.operation.id == operation_id:
            return entry
    raise errors.NotFound(f"there is no open operation {operation_id}", hint="see: tpuctl operation list")


def list_open(ports: ports_module.Ports) -> Sequence[Entry]:
    """All open operations, by id; raises DamagedRecord if any cannot be read."""
    found = [_entry(record) for record in ports.records.list(records.OPERATION)]
    return sorted(found, key=lambda entry: entry.operation.id)


def list_readable(ports: ports_module.Ports) -> tuple[Sequence[Entry], Sequence[str]]:
    """Open operations that can be read, by id, and a sentence for each record that cannot.

    For looking only: whoever is going to write must use `list_open`, which stops at damage.
    """
    entries, damaged = [], []
    for record in ports.records.list(records.OPERATION):
        try:
            entries.append(_entry(record))
        except records.DamagedRecord as error:
            damaged.append(error.message)
    return sorted(entries, key=lambda entry: entry.operation.id), damaged


def refuse_if_open(ports: ports_module.Ports, slice_name: str) -> None:
    """Raise Conflict if an operation on the slice is open."""
    entry = of_slice(ports, slice_name)
    if entry is not None:
        raise open_error(ports, entry)


def _entry(record: ports_module.Record) -> Entry:
    return Entry(operation=records.read_operation(record.text, record.name), record=record)


def open_error(ports: ports_module.Ports, entry: Entry) -> errors.Conflict:
    """The error for a command that meets an operation which is not its own: who is at it, and what to run."""
    found = entry.operation
    at_work = locking.at_work(ports, locking.slice_lock(found.slice_name))
    return errors.Conflict(
        f"operation {found.id} of {found.actor} is open on slice {found.slice_name}",
        hint=f"{at_work} is at work on it: wait until it has ended, then run the command again"
        if at_work
        else _how_to_end(ports, found),
        details=(found.note,) if found.note else (),
    )


def ways_to_end(operation: operations.Operation) -> str:
    """The commands that end an open operation; a way back only where there may be one."""
    finish = f"finish it: tpuctl operation resume {operation.id}"
    back = f"tpuctl operation abort {operation.id}"
    if operation.why_no_way_back or operation.aborting:
        return finish
    if operation.kind is operations.Kind.SWAP and operation.is_begun:
        return f"{finish}, or if the old cubes can form again, go back: {back}"
    return f"{finish}, or go back: {back}"


def _how_to_end(ports: ports_module.Ports, found: operations.Operation) -> str:
    item = ports.slices.get(found.slice_name) if found.kind is operations.Kind.FORM else None
    if item is not None and item.state.is_ready and not found.aborting:
        return (
            f"the slice is {item.state} and nobody is at work on it: close it with "
            f"tpuctl operation resume {found.id}, then run the command again"
        )
    return ways_to_end(found)


def _somebody_elses(ports: ports_module.Ports, slice_name: str) -> errors.Conflict:
    entry = of_slice(ports, slice_name)
    if entry is None:
        return errors.Conflict(f"another operation on slice {slice_name} was open a moment ago; try again")
    return open_error(ports, entry)


def _record_name(slice_name: str) -> str:
    return names.shortened(f"{_PREFIX}{slice_name}", 63)
