"""Slices that are not there because an operation on them is open: it deleted them, or is to make them.

Whoever lists slices must show these too: their cubes are kept and their pods have no fabric.
"""

from __future__ import annotations

import collections
import types
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.model import errors, operations
from tpuctl.ops import journal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tpuctl.model import fleet, topology
    from tpuctl.ops import ports as ports_module


class Absence(NamedTuple):
    """A slice without its object, and the operation that is open on it."""

    slice_name: str
    operation_id: str
    partition_ids: tuple[str, ...]
    """Those it shall have, or had; all that the operation keeps if only a dump tells."""
    topology: topology.Topology | None
    """None if only a dump tells."""
    operation: operations.Operation | None
    """None if only a dump tells: it holds what is kept, not the record."""

    @property
    def stage(self) -> str:
        """How far the operation is, in a word."""
        return self.operation.stage if self.operation is not None else "open"

    @property
    def is_wanted(self) -> bool:
        """If true, the slice shall be there when the operation has ended."""
        if self.operation is None:
            return not operations.is_of_kind(self.operation_id, operations.Kind.DEFORM)
        if self.operation.kind is operations.Kind.FORM:
            return not self.operation.aborting
        return self.operation.kind is operations.Kind.SWAP

    @property
    def command(self) -> str:
        """What to run."""
        return f"tpuctl operation resume {self.operation_id}"

    @property
    def why(self) -> str:
        """What is the matter, in a sentence."""
        state = "it is not there" if self.operation is None else _STATES[self.operation.kind]
        by = f" of {self.operation.actor}" if self.operation is not None else ""
        return f"{state}: operation {self.operation_id}{by} is open"


_STATES = {
    operations.Kind.SWAP: "it is deleted and not made again yet",
    operations.Kind.FORM: "it is not made yet",
    operations.Kind.DEFORM: "it is deleted, and its cubes are not given back yet",
}


class Look(NamedTuple):
    """What open operations have to do with the slices of a snapshot."""

    missing: tuple[Absence, ...]
    """By name of the slice."""
    open_on: Mapping[str, str] = types.MappingProxyType({})
    """Slice that is there -> id of the operation that is open on it."""
    damaged: tuple[str, ...] = ()
    """A sentence for each record that cannot be read."""


def look(snapshot: fleet.Fleet, ports: ports_module.Ports | None) -> Look:
    """Read the records; without ports the snapshot's own claims tell, as in a dump."""
    if ports is None:
        return _of_claims(snapshot)
    entries, damaged = journal.list_readable(ports)
    known = snapshot.slices_by_name
    found = [entry.operation for entry in entries]
    missing = [_of(operation) for operation in found if operation.slice_name not in known]
    return Look(
        tuple(sorted(missing, key=lambda one: one.slice_name)),
        {operation.slice_name: operation.id for operation in found if operation.slice_name in known},
        tuple(damaged),
    )


def named(missing: Sequence[Absence], name: str) -> Absence | None:
    """The one of that slice."""
    return next((one for one in missing if one.slice_name == name), None)


def error_for(ports: ports_module.Ports, name: str) -> errors.TpuctlError:
    """The error for a command that needs a slice which is not there."""
    entry = journal.of_slice(ports, name)
    if entry is None:
        return errors.NotFound(f"there is no slice {name}", hint="see: tpuctl slice list")
    conflict = journal.open_error(ports, entry)
    return errors.Conflict(
        f"slice {name} is not there: {_of(entry.operation).why}",
        hint=conflict.hint,
        details=conflict.details,
    )


def _of(operation: operations.Operation) -> Absence:
    return Absence(
        slice_name=operation.slice_name,
        operation_id=operation.id,
        partition_ids=operation.partitions or operation.old_partitions,
        topology=operation.topology,
        operation=operation,
    )


def _of_claims(snapshot: fleet.Fleet) -> Look:
    kept: dict[tuple[str, str], list[str]] = collections.defaultdict(list)
    for claim in snapshot.claims:
        keeper, name = operations.kept_by(claim.holder)
        if keeper is operations.Keeper.OPERATION and claim.slice_name:
            kept[claim.slice_name, name].append(claim.cube_id)
    known = snapshot.slices_by_name
    return Look(
        tuple(
            Absence(slice_name, operation_id, tuple(sorted(partition_ids)), None, None)
            for (slice_name, operation_id), partition_ids in sorted(kept.items())
            if slice_name not in known
        ),
        {slice_name: operation_id for slice_name, operation_id in kept if slice_name in known},
    )
