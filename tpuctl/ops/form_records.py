"""The record of an open forming: whether it is what is asked for now, and when it is closed without a run."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from tpuctl.model import errors, operations
from tpuctl.ops import journal, locking, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tpuctl.engine import placement
    from tpuctl.model import fleet
    from tpuctl.ops import ports as ports_module

_REFUSALS = (errors.UsageError, errors.NotPermitted, errors.DoesNotFit, errors.Conflict)
"""By these a server says that it has not done what it was asked."""


def difference(
    begun: operations.Operation,
    wish: placement.Request,
    look: Callable[[], tuple[fleet.Fleet, placement.Request]],
) -> str:
    """In what an open operation is not what is asked for now; empty if to finish it gives just that.

    `look` is called only if the wish names a block or cubes: for a snapshot, and for the wish in its ids.
    """
    if begun.kind is not operations.Kind.FORM:
        return f"it is to {begun.kind} the slice, not to form it"
    if begun.topology != wish.topology:
        return f"it forms {begun.topology}, not {wish.topology}"
    if wish.priority not in (None, begun.priority):
        return f"its priority is {begun.priority}, not {wish.priority}"
    if begun.allow_degraded and not wish.allow_degraded:
        return "it was begun with leave to use degraded cubes"
    return _elsewhere(begun, *look()) if wish.cubes or wish.block is not None else ""


def _elsewhere(begun: operations.Operation, snapshot: fleet.Fleet, asked: placement.Request) -> str:
    cubes = {snapshot.cube_of_partition.get(part, part) for part in begun.partitions}
    blocks = {cube.block for cube in snapshot.cubes if cube.id in cubes}
    if asked.block is not None and blocks != {asked.block}:
        return f"it uses block {', '.join(sorted(blocks)) or 'unknown'}, not {asked.block}"
    if not asked.cubes:
        return ""
    named = set(asked.cubes)
    # For a sub-slice the names are those to choose from, for all others they are exactly what it gets.
    is_there = named & {*begun.partitions, *cubes} if asked.topology.is_sub_slice else named == cubes
    return "" if is_there else f"it uses other cubes: {', '.join(sorted(cubes))}"


@contextlib.contextmanager
def closed_if_refused(
    ports: ports_module.Ports, reporter: ports_module.Reporter, operation: operations.Operation
) -> Iterator[None]:
    """Close the operation if what is done inside is refused and there is no Slice: nothing is left to finish.

    A rule of a webhook, a quota or a right that is missing does not go away by going on, and an open
    operation keeps its cubes from everybody. Where it is not known what the server did, it stays open.
    """
    try:
        yield
    except locking.LostLock:
        raise  # somebody else may be at work on it
    except _REFUSALS:
        try:
            if _close_without_slice(ports, operation):
                reporter.going_on("")
        except errors.TpuctlError as error:
            reporter.warn(f"operation {operation.id} is still open: {error.message}")
        raise


def _close_without_slice(ports: ports_module.Ports, operation: operations.Operation) -> bool:
    """Whether the operation is closed, by this or before."""
    left = journal.of_slice(ports, operation.slice_name)
    if left is None or left.operation.id != operation.id:
        return True
    if ports.slices.get(operation.slice_name) is not None:
        return False
    left.close(ports)
    return True


def close_if_ready(ports: ports_module.Ports, reporter: ports_module.Reporter, name: str) -> None:
    """Close what a forming left open that ran out of time or died; a living one closes it by itself."""
    left = journal.of_slice(ports, name)
    if left is None or left.operation.kind is not operations.Kind.FORM or left.operation.aborting:
        return
    operation_id = left.operation.id
    try:
        with locking.held(ports, reporter, locking.slice_lock(name), wait_s=0) as lock:
            fenced = locking.fenced(ports, lock)
            entry = journal.of_slice(fenced, name)
            if entry is not None and running.Runner(fenced, reporter, entry).close_if_done():
                reporter.step(f"operation {operation_id} of {left.operation.actor} is closed")
    except (errors.Conflict, errors.NotPermitted) as refused:
        # The slice is ready, and that was the question; who may not write is told who can.
        reporter.warn(
            f"operation {operation_id} is still open ({refused.message}); "
            f"if nobody is at work on it: tpuctl operation resume {operation_id}"
        )
