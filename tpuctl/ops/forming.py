"""Form a slice: observe, decide, create, wait; and leave nothing behind when it cannot be had."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.engine import forming, leftovers, placement
from tpuctl.model import errors, fleet, health, operations
from tpuctl.ops import (
    absences,
    form_records,
    holding,
    journal,
    locking,
    naming,
    next_steps,
    refusals,
    running,
    waiting,
    ways_out,
)
from tpuctl.ops import ports as ports_module

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tpuctl.model import topology

Request = placement.Request
SOURCES = (*running.SOURCES, fleet.SourceName.PODS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of it."""

    slice: fleet.Slice
    verb: str
    """`formed`, `forming` (not waited for) or `unchanged`."""
    waited_s: float = 0.0
    """Seconds of the context's clock spent waiting for the fabric."""
    block: str | None = None
    """Name or id of its block; None if this run did not look."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prepared:
    """A decision on one snapshot, shown by a dry run and carried out by `start` and `finish`."""

    snapshot: fleet.Fleet
    slice_name: str
    plan: forming.FormPlan | forming.Unchanged
    priority: int = 0
    allow_degraded: bool = False

    @property
    def steps(self) -> tuple[forming.Step, ...]:
        return self.plan.steps if isinstance(self.plan, forming.FormPlan) else ()

    @property
    def partition_ids(self) -> tuple[str, ...]:
        if isinstance(self.plan, forming.FormPlan):
            return self.plan.placement.partition_ids
        return self.plan.slice.partition_ids

    @property
    def block(self) -> str | None:
        """Id of the chosen block; None if there is nothing to do."""
        return self.plan.placement.block if isinstance(self.plan, forming.FormPlan) else None

    @property
    def candidates(self) -> tuple[placement.Candidate, ...]:
        return self.plan.placement.candidates if isinstance(self.plan, forming.FormPlan) else ()

    def why_not(self, candidate: placement.Candidate) -> str:
        """Why a block was not chosen; empty for the one that was."""
        if candidate.block == self.block or not isinstance(self.plan, forming.FormPlan):
            return ""
        found = self.plan.placement
        if candidate.usable < found.topology.partitions:
            return "too few"
        if found.topology.is_sub_slice:
            return "its cubes are less worn"
        chosen = next(one for one in found.candidates if one.block == found.block)
        return "a larger hole, kept for larger slices" if candidate.usable > chosen.usable else "equal"


def request(
    shape: topology.Topology,
    *,
    block: str | None = None,
    cubes: Sequence[str] = (),
    allow_degraded: bool = False,
    policy: health.HealthPolicy = health.DEFAULT_POLICY,
    priority: int | None = None,
) -> placement.Request:
    """A wish as the user wrote it; blocks and cubes may be names, `prepare` finds their ids."""
    return placement.Request(
        topology=shape,
        block=block,
        cubes=tuple(cubes),
        allow_degraded=allow_degraded,
        policy=policy,
        priority=priority,
    )


def prepare(ports: ports_module.Ports, name: str, wish: placement.Request) -> Prepared:
    """Observe and decide.

    Raises NotFound for a block or cube that does not exist, Conflict if the name is in use or somebody has
    the cubes that were named, DoesNotFit with counted reasons if there is no room.
    """
    snapshot, resolved = _observe(ports, wish)
    return decided(snapshot, name, resolved, me=lambda: holding.owner_name(ports))


def decided(
    snapshot: fleet.Fleet, name: str, wish: placement.Request, *, me: Callable[[], str] = ways_out.nobody
) -> Prepared:
    """Decide on a snapshot with `SOURCES`; the wish is in ids. Raises as `prepare` does."""
    decision = forming.plan_form(snapshot, name, wish)
    if isinstance(decision, placement.Refusal):
        raise refusals.error_for(snapshot, decision, wish, me=me)
    if isinstance(decision, forming.Clash):
        raise refusals.clash(decision, snapshot)
    return Prepared(
        snapshot=snapshot,
        slice_name=name,
        plan=decision,
        priority=wish.priority or 0,
        allow_degraded=wish.allow_degraded,
    )


def look(ports: ports_module.Ports) -> fleet.Fleet:
    """A snapshot to decide on."""
    return leftovers.with_leftovers(ports.fleet.observe(SOURCES))


def _observe(ports: ports_module.Ports, wish: placement.Request) -> tuple[fleet.Fleet, placement.Request]:
    """A snapshot in which everything that the user named is found, and the wish in its ids.

    Nodes know ids only. The names that a reservation gives to blocks and sub-blocks are asked for when one
    was used, since the client for them takes longer to load than all the rest.
    """
    snapshot = look(ports)
    try:
        return snapshot, naming.resolve(snapshot, wish)
    except errors.NotFound:
        named = ports.fleet.observe((*SOURCES, fleet.SourceName.NODE_POOLS, fleet.SourceName.CAPACITY))
        snapshot = leftovers.with_leftovers(named)
        return snapshot, naming.resolve(snapshot, wish)


def validate(ports: ports_module.Ports, prepared: Prepared) -> None:
    """Let the server validate the Slice and store nothing: the real call, up to the write."""
    if isinstance(prepared.plan, forming.FormPlan):
        found = prepared.plan.placement
        spec = ports_module.SliceSpec(
            prepared.slice_name, found.topology, found.partition_ids, prepared.priority
        )
        ports.slices.create(spec, validate_only=True)


def form(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    name: str,
    wish: placement.Request,
    *,
    wait: bool = True,
    timeout_s: float = waiting.DEFAULT_TIMEOUT_S,
) -> Outcome:
    """Form slice `name`, or finish what an earlier run began, or find that it is there as asked.

    Cubes are chosen and claimed under a lock of the whole cluster, which is then given back; the slice stays
    locked until it is ready. Raises what `prepare` raises, Conflict if a lock is held or somebody without
    our locks got a partition first (our object is taken back), TpuctlError if it does not form, TimedOut.
    """
    there = _as_asked(ports, name, wish)
    if there is not None:
        return _await_existing(ports, reporter, there, wait=wait, timeout_s=timeout_s)
    with locking.held(ports, reporter, locking.slice_lock(name)) as lock:
        fenced = locking.fenced(ports, lock)
        left = _open_one(fenced, reporter, name)
        if left is not None:
            return _finish_earlier(fenced, reporter, left, wish, timeout_s)
        with locking.held(fenced, reporter, locking.PLACEMENT) as choice:
            choosing = locking.fenced(ports, lock, choice)
            prepared = prepare(choosing, name, wish)
            started = start(choosing, reporter, prepared, timeout_s=timeout_s)
        outcome = finish(fenced, reporter, prepared, started, wait=wait, timeout_s=timeout_s)
    return dataclasses.replace(outcome, block=_block_label(prepared.snapshot, prepared.partition_ids))


def _as_asked(ports: ports_module.Ports, name: str, wish: placement.Request) -> fleet.Slice | None:
    """The slice, if it is there as asked and nothing is left to finish: then nothing is written at all.

    Raises what `prepare` raises for a slice of that name that is something else.
    """
    if ports.slices.get(name) is None or journal.of_slice(ports, name) is not None:
        return None
    plan = prepare(ports, name, wish).plan
    return plan.slice if isinstance(plan, forming.Unchanged) else None


class Started(NamedTuple):
    """A Slice object that was created, with the operation that is to make it ready."""

    entry: journal.Entry
    created: fleet.Slice
    at_s: float


def start(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    prepared: Prepared,
    *,
    timeout_s: float = waiting.DEFAULT_TIMEOUT_S,
) -> Started | None:
    """Write the operation down and create the Slice; None if it is there already.

    If the server refuses the Slice, nothing stays open: its cubes are for whoever asks next.
    """
    if isinstance(prepared.plan, forming.Unchanged):
        return None
    found = prepared.plan.placement
    entry = journal.begin(
        ports,
        operations.Operation(
            schema=operations.SCHEMA,
            id=journal.operation_id(operations.Kind.FORM, prepared.slice_name),
            kind=operations.Kind.FORM,
            slice_name=prepared.slice_name,
            topology=found.topology,
            actor=ports.identity.actor(),
            started_at=prepared.snapshot.observed_at,
            intent=operations.Intent.PLANNED,
            old_uid="",
            old_partitions=(),
            partitions=found.partition_ids,
            allow_degraded=prepared.allow_degraded,
            priority=prepared.priority,
        ),
    )
    with form_records.closed_if_refused(ports, reporter, entry.operation):
        runner = running.Runner(ports, reporter, entry, timeout_s=timeout_s)
        runner.advance()
        created = ports.slices.get(prepared.slice_name)
        if created is None:
            raise errors.Conflict(f"slice {prepared.slice_name} was deleted as soon as it was created")
    return Started(runner.entry, created, ports.clock.monotonic_s())


def finish(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    prepared: Prepared,
    started: Started | None,
    *,
    wait: bool = True,
    timeout_s: float = waiting.DEFAULT_TIMEOUT_S,
) -> Outcome:
    """Wait until what was started is ready; with `wait` false, leave it to the service."""
    if started is None:
        if isinstance(prepared.plan, forming.Unchanged):
            return _await_existing(ports, reporter, prepared.plan.slice, wait=wait, timeout_s=timeout_s)
        raise AssertionError("a plan to form was started")
    if not wait:
        started.entry.close(ports)
        return Outcome(slice=started.created, verb="forming")
    return _run(ports, reporter, started.entry, started.at_s, timeout_s)


def wait(
    ports: ports_module.Ports, reporter: ports_module.Reporter, name: str, *, timeout_s: float
) -> fleet.Slice:
    """Wait for a slice that exists, and close the forming that made it if its program is gone.

    Raises NotFound if there is no slice, Conflict if an open operation has it deleted, SliceFailed with what
    to do next, TimedOut.
    """
    item = ports.slices.get(name)
    if item is None:
        raise absences.error_for(ports, name)
    try:
        ready = waiting.until_ready(
            ports, reporter, name, uid=item.uid, shape=item.topology, timeout_s=timeout_s
        )
    except waiting.SliceFailed as failure:
        failure.hint = next_steps.looked_up(ports, failure.slice)
        raise
    form_records.close_if_ready(ports, reporter, name)
    return ready


def _block_label(snapshot: fleet.Fleet, partition_ids: Sequence[str]) -> str | None:
    cubes = {snapshot.cube_of_partition.get(partition_id) for partition_id in partition_ids}
    for block in snapshot.blocks:
        if any(cube.id in cubes for cube in block.cubes):
            return block.label
    return None


def _run(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    entry: journal.Entry,
    started_s: float,
    timeout_s: float,
) -> Outcome:
    runner = running.Runner(ports, reporter, entry, timeout_s=timeout_s)
    with form_records.closed_if_refused(ports, reporter, entry.operation):
        runner.run()
    if runner.ready is None:
        raise AssertionError("an operation that forms ends with the slice ready, or raises")
    return Outcome(slice=runner.ready, verb="formed", waited_s=ports.clock.monotonic_s() - started_s)


def _open_one(ports: ports_module.Ports, reporter: ports_module.Reporter, name: str) -> journal.Entry | None:
    """What an earlier run left to be gone on with. One that was taking its attempt back is first ended."""
    left = journal.of_slice(ports, name)
    if left is None or not (left.operation.kind is operations.Kind.FORM and left.operation.aborting):
        return left
    reporter.step(f"taking back what operation {left.operation.id} of {left.operation.actor} left")
    running.Runner(ports, reporter, left).run()
    return None


def _finish_earlier(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    left: journal.Entry,
    wish: placement.Request,
    timeout_s: float,
) -> Outcome:
    """An earlier run of the same command died: go on with its cubes. Anything else open is a conflict."""
    difference = form_records.difference(left.operation, wish, lambda: _observe(ports, wish))
    if difference:
        refused = journal.open_error(ports, left)
        refused.details = (difference, *refused.details)
        raise refused
    reporter.step(f"going on with operation {left.operation.id} of {left.operation.actor}")
    return _run(ports, reporter, left, ports.clock.monotonic_s(), timeout_s)


def _await_existing(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    item: fleet.Slice,
    *,
    wait: bool,
    timeout_s: float,
) -> Outcome:
    if item.state.is_ready or not wait:
        return Outcome(slice=item, verb="unchanged")
    started_s = ports.clock.monotonic_s()
    ready = waiting.until_ready(
        ports, reporter, item.name, uid=item.uid, shape=item.topology, timeout_s=timeout_s
    )
    return Outcome(slice=ready, verb="formed", waited_s=ports.clock.monotonic_s() - started_s)
