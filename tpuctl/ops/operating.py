"""Open operations of others, or of an earlier run: list, resume, abort."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.engine import second_choice
from tpuctl.model import health, operations, states
from tpuctl.ops import journal, locking, retreating, running, swapping, waiting

if TYPE_CHECKING:
    from tpuctl.ops import ports as ports_module


_FORMING = frozenset({states.SliceState.CREATED, states.SliceState.NOT_CREATED, states.SliceState.ACTIVATING})


def resume(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    operation_id: str,
    *,
    timeout_s: float = waiting.DEFAULT_TIMEOUT_S,
    policy: health.HealthPolicy = health.DEFAULT_POLICY,
) -> swapping.Outcome | operations.Operation:
    """Go on with an open operation, whoever began it; the outcome of a swap, or the operation as it ended.

    Raises NotFound, Conflict while somebody is at work on it, Stopped if it still cannot go on.
    """
    started_s = ports.clock.monotonic_s()
    before = journal.find(ports, operation_id).operation
    with locking.held(ports, reporter, locking.slice_lock(before.slice_name)) as lock:
        fenced = locking.fenced(ports, lock)
        entry = journal.of_slice(fenced, before.slice_name)
        if entry is None or entry.operation.id != operation_id:
            reporter.step(f"operation {operation_id} was ended by somebody else meanwhile")
            return before
        if entry.operation.kind is operations.Kind.SWAP:
            return swapping.finish(
                fenced, reporter, entry, started_s=started_s, timeout_s=timeout_s, policy=policy
            )
        runner = running.Runner(fenced, reporter, entry, timeout_s=timeout_s)
        runner.run()
        return runner.operation


def let_go(ports: ports_module.Ports, reporter: ports_module.Reporter, operation_id: str) -> bool:
    """Close a forming of which nothing but waiting is left; false, and nothing done, if there is more to it.

    Its Slice is there as it was asked for and the service goes on by itself. What becomes of it is seen by
    whoever looks at the fleet; an open record would only keep others from acting on it. Raises what `resume`
    raises.
    """
    slice_name = journal.find(ports, operation_id).operation.slice_name
    with locking.held(ports, reporter, locking.slice_lock(slice_name)) as lock:
        fenced = locking.fenced(ports, lock)
        entry = journal.find(fenced, operation_id)
        found, item = entry.operation, fenced.slices.get(slice_name)
        if found.kind is not operations.Kind.FORM or found.aborting:
            return False
        if item is None or item.owner is not None or item.deleting or item.state not in _FORMING:
            return False
        if set(item.partition_ids) != set(found.partitions):
            return False
        entry.close(fenced)
    return True


def abort(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    operation_id: str,
    *,
    timeout_s: float = waiting.DEFAULT_TIMEOUT_S,
    policy: health.HealthPolicy = health.DEFAULT_POLICY,
    accept_failure: bool = False,
    shown: retreating.Retreat | None = None,
) -> operations.Operation:
    """Go back to what was before the operation, as far as that is still possible.

    A swap whose Slice is deleted makes it again on the old cubes; a forming takes its Slice away. `shown` is
    what the user has agreed to. Raises what `retreating.look` and `retreating.check` raise, PartlyDone with
    `accept_failure` if the old cubes did not form.
    """
    slice_name = journal.find(ports, operation_id).operation.slice_name
    with locking.held(ports, reporter, locking.slice_lock(slice_name)) as lock:
        fenced = locking.fenced(ports, lock)
        entry = journal.find(fenced, operation_id)
        now = retreating.of(fenced, entry.operation, policy)
        retreating.check(now, accept_failure=accept_failure, shown=shown)
        turned = _turned(fenced, entry)
        runner = running.Runner(fenced, reporter, turned, timeout_s=timeout_s, policy=policy, gives_in=True)
        runner.run()
        return runner.operation


def _turned(ports: ports_module.Ports, entry: journal.Entry) -> journal.Entry:
    found = entry.operation
    if found.kind is operations.Kind.SWAP and found.is_begun:
        back = dataclasses.replace(second_choice.way_back(found), note="")
        return entry.replaced(ports, back)
    return entry.amended(ports, aborting=True, note="")
