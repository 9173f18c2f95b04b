"""Hold cubes out of placement, with owner and reason, by a record of tpuctl's own.

The record's name is the cube's, so a cube is held once, and creating it is a claim that one of two wins.
Cordons that others have put on nodes are another thing: they are shown and never undone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tpuctl.model import errors, fleet, names, operations, records
from tpuctl.ops import naming

if TYPE_CHECKING:
    import datetime

    from tpuctl.ops import ports as ports_module

SOURCES = (fleet.SourceName.NODES, fleet.SourceName.SLICES, fleet.SourceName.CAPACITY)
_PREFIX = "hold-"


class Held(NamedTuple):
    """A hold, and whether this call made it."""

    hold: operations.Hold
    made: bool
    slices: tuple[str, ...]
    """Slices that use the cube now: a hold does not take it from them."""


def owner_name(ports: ports_module.Ports) -> str:
    """The name under which whoever acts here holds cubes: the same on every machine."""
    return ports.identity.actor().rpartition("@")[0]


def hold(ports: ports_module.Ports, cube: str, *, reason: str, for_s: float | None = None) -> Held:
    """Take a cube out of placement; the same hold again is unchanged.

    `for_s` seconds later it ends by itself. Raises NotFound, UsageError without a reason, Conflict if
    somebody else holds it.
    """
    if not reason.strip():
        raise errors.UsageError("a hold needs a reason", hint="write it for whoever finds the cube held")
    snapshot = ports.fleet.observe(SOURCES)
    found = naming.find_cube(snapshot, cube)
    now = snapshot.observed_at
    wanted = operations.Hold(
        cube_id=found.id,
        owner=owner_name(ports),
        reason=reason.strip(),
        since=now,
        until=None if for_s is None else _later(now, for_s),
        sub_block=found.sub_block.name if found.sub_block is not None else "",
    )
    slices = snapshot.holders.get(found.id, ())
    existing = ports.records.get(_record_name(found.id))
    if existing is not None:
        before = records.read_hold(existing.text, existing.name)
        if not before.is_over(existing.observed_at):
            return _same_or_conflict(before, wanted, slices)
        ports.records.delete(existing)
    ports.records.create(_record_name(found.id), records.HOLD, records.write_hold(wanted))
    return Held(wanted, made=True, slices=slices)


def release(ports: ports_module.Ports, cube: str, *, others: bool = False) -> operations.Hold | None:
    """Give a cube back to placement; None if it was not held.

    Raises NotFound, GuardStopped if somebody else holds it and `others` is not set.
    """
    record = _record_of(ports, cube)
    if record is None:
        return None
    found = records.read_hold(record.text, record.name)
    me = owner_name(ports)
    if found.owner != me and not others and not found.is_over(record.observed_at):
        raise errors.GuardStopped(
            f"cube {found.cube_id} is held by {found.owner}: {found.reason}", hint="ask them, or add --others"
        )
    ports.records.delete(record)
    return found


def _same_or_conflict(before: operations.Hold, wanted: operations.Hold, slices: tuple[str, ...]) -> Held:
    if (before.owner, before.reason) == (wanted.owner, wanted.reason):
        return Held(before, made=False, slices=slices)
    raise errors.Conflict(
        f"cube {before.cube_id} is held by {before.owner} already: {before.reason}",
        hint=f"release it first: tpuctl cube release {before.cube_id}",
    )


def _record_of(ports: ports_module.Ports, cube: str) -> ports_module.Record | None:
    """The hold on a cube; one that exists no more can still be released by its id."""
    found = ports.records.get(_record_name(cube))
    if found is not None:
        return found
    cube_id = naming.find_cube(ports.fleet.observe(SOURCES), cube).id
    found = ports.records.get(_record_name(cube_id))
    if found is not None:
        return found
    for record in ports.records.list(records.HOLD):
        if records.read_hold(record.text, record.name).sub_block == cube_id:
            return record  # it was held under the name that it had while it had nodes
    return None


def _later(now: datetime.datetime, seconds: float) -> datetime.datetime:
    import datetime  # noqa: PLC0415 - only for this sum

    return now + datetime.timedelta(seconds=seconds)


def _record_name(cube_id: str) -> str:
    return names.shortened(f"{_PREFIX}{cube_id}", 63)
