"""Take a slice apart: show what it hits, look again, delete, wait until the hardware is free."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.engine import astray, blast
from tpuctl.model import errors, fleet, operations, topology
from tpuctl.ops import journal, locking, refusals, running, waiting

if TYPE_CHECKING:
    import datetime

    from tpuctl.ops import ports as ports_module

SOURCES = (fleet.SourceName.NODES, fleet.SourceName.SLICES, fleet.SourceName.PODS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prepared:
    """The slice as seen, and what its end would hit."""

    slice: fleet.Slice
    radius: blast.BlastRadius
    observed_at: datetime.datetime
    perhaps: frozenset[str] = frozenset()
    """Nodes in the radius that may be another slice's, since no label tells: their pods are never ended."""


def prepare(ports: ports_module.Ports, name: str, *, force_foreign: bool) -> Prepared | None:
    """Observe; None if there is no such slice (so there is nothing to do).

    Raises GuardStopped if another controller owns it and `force_foreign` is not set, Conflict if another kind
    of operation on it is open: a swap will make it again.
    """
    left = journal.of_slice(ports, name)
    if left is not None and left.operation.kind is not operations.Kind.DEFORM:
        raise journal.open_error(ports, left)
    snapshot = ports.fleet.observe(SOURCES)
    item = snapshot.slices_by_name.get(name)
    if item is None:
        return None
    if item.owner is not None and not force_foreign:
        raise refusals.foreign(name, item.owner)
    return Prepared(
        slice=item,
        radius=blast.of_slice(snapshot, item),
        observed_at=snapshot.observed_at,
        perhaps=frozenset(node.name for node in astray.of_slice(snapshot, item) if not node.is_sure),
    )


def deform(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    prepared: Prepared,
    *,
    wait: bool = True,
    timeout_s: float = waiting.DEFAULT_GONE_TIMEOUT_S,
    with_pods: bool = False,
) -> float:
    """Delete what was shown, if it still is what was shown; returns the seconds waited.

    Pods outlive their slice and keep its chips, unless `with_pods`: those that ran on it are deleted once it
    is gone. Then it must be waited for.

    Raises Conflict if a lock is held, another operation is open, the slice was replaced, or pods have come
    that the user did not see; TimedOut.
    """
    before = prepared.slice
    started_s = ports.clock.monotonic_s()
    with locking.held(ports, reporter, locking.slice_lock(before.name)) as lock:
        fenced = locking.fenced(ports, lock)
        entry = journal.of_slice(fenced, before.name) or _begin(fenced, prepared, with_pods=with_pods)
        if entry is None:
            return 0.0
        if not _is_ours(entry, before):
            raise journal.open_error(ports, entry)
        runner = running.Runner(fenced, reporter, entry, timeout_s=timeout_s)
        if wait:
            runner.run()
            # So that "deformed" means: these cubes can be used again now.
            reporter.step("letting the hardware settle")
            fenced.clock.sleep(running.SETTLE_S)
        else:
            runner.advance()
            runner.entry.close(fenced)
    return ports.clock.monotonic_s() - started_s


def finish_earlier(ports: ports_module.Ports, reporter: ports_module.Reporter, name: str) -> bool:
    """Finish what a run that died has left of a slice that is gone already; False if it left nothing."""
    if journal.of_slice(ports, name) is None:
        return False
    with locking.held(ports, reporter, locking.slice_lock(name)) as lock:
        fenced = locking.fenced(ports, lock)
        left = journal.of_slice(fenced, name)
        if left is not None:
            running.Runner(fenced, reporter, left).run()
    return True


def _begin(ports: ports_module.Ports, prepared: Prepared, *, with_pods: bool) -> journal.Entry | None:
    """Look again, and write the operation down; None if the slice is gone by itself."""
    now = prepare(ports, prepared.slice.name, force_foreign=True)
    if now is None:
        return None
    _check_unmoved(prepared, now)
    item = now.slice
    return journal.begin(
        ports,
        operations.Operation(
            schema=operations.SCHEMA,
            id=journal.operation_id(operations.Kind.DEFORM, item.name),
            kind=operations.Kind.DEFORM,
            slice_name=item.name,
            topology=item.topology or topology.CUBE,
            actor=ports.identity.actor(),
            started_at=now.observed_at,
            intent=operations.Intent.PLANNED,
            old_uid=item.uid,
            old_partitions=item.partition_ids,
            partitions=(),
            pods=_pods(now) if with_pods else (),
            priority=item.priority,
        ),
    )


def _pods(shown: Prepared) -> tuple[operations.PodRef, ...]:
    """In the record, so that whoever finishes the operation ends them too."""
    return tuple(
        operations.PodRef(pod.namespace, pod.name, pod.uid, pod.node, replaced=True)
        for pod in shown.radius.pods
        if pod.node not in shown.perhaps
    )


def _is_ours(entry: journal.Entry, item: fleet.Slice) -> bool:
    """An earlier run of the same command that died is ours to finish."""
    found = entry.operation
    return found.kind is operations.Kind.DEFORM and found.old_uid == item.uid


def _check_unmoved(before: Prepared, now: Prepared) -> None:
    if now.slice.uid != before.slice.uid:
        raise errors.Conflict(
            f"slice {before.slice.name} was replaced by another one meanwhile; nothing was done"
        )
    seen = {pod.uid for pod in before.radius.pods}
    new = sorted(f"{pod.namespace}/{pod.name}" for pod in now.radius.pods if pod.uid not in seen)
    if new:
        started = "1 pod has" if len(new) == 1 else f"{len(new)} pods have"
        raise errors.Conflict(
            f"{started} started on slice {before.slice.name} since it was shown; nothing was done",
            hint="run the command again to see them",
            details=tuple(new[:5]),
        )
