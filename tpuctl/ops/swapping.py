"""Swap failed cubes of a slice for healthy ones of its block, and restart only their pods.

The order is: choose under the placement lock, write the record (which claims old and new cubes), cordon the
hosts that go, delete the Slice, wait, create it again under its name, delete the pods of the replaced cubes.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.engine import leftovers, placement, swapping
from tpuctl.engine.inventory import obstacles
from tpuctl.model import errors, fleet, operations, topology
from tpuctl.model import health as health_values
from tpuctl.ops import holding, journal, locking, naming, refusals, running, waiting, ways_out

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tpuctl.ops import ports as ports_module

SOURCES = (*running.SOURCES, fleet.SourceName.PODS)
RESTART_TIMEOUT_S = 60.0
"""How long to wait until pods run again in the place of those that were deleted. A Job makes them again by
its own back-off: 10 s with backoffLimitPerIndex, up to 10 minutes without."""
_POLL_S = 5.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wish:
    """What the user asked for; cubes as the user calls them."""

    cubes: tuple[str, ...] = ()
    replacements: tuple[str, ...] = ()
    allow_degraded: bool = False
    include_degraded: bool = False
    force_foreign: bool = False
    policy: health_values.HealthPolicy = health_values.DEFAULT_POLICY
    accept_job_failure: bool = False
    """If true, go ahead although a Job cannot bear the restarts and will fail as a whole."""
    in_place: bool = False
    """If true, exchange nothing: make a slice that is down again on its own cubes, under its pods."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prepared:
    """A swap as it would be done, with what it hits."""

    snapshot: fleet.Fleet
    plan: swapping.SwapPlan
    doomed_jobs: tuple[str, ...]
    """One sentence for each Job that would fail as a whole."""

    @property
    def exchanges(self) -> tuple[operations.Exchange, ...]:
        return self.plan.exchanges

    @property
    def restarted(self) -> int:
        return len(self.plan.restarted)

    @property
    def kept(self) -> int:
        return len(self.plan.kept)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of it."""

    slice: fleet.Slice
    exchanges: tuple[operations.Exchange, ...]
    went_back: bool
    """If true, no other cubes would do and the slice has its old ones again."""
    restarted: int
    """Pods of the replaced cubes that are gone."""
    running_again: int
    """How many of those run on the new cubes by now."""
    kept: int
    """Pods that kept their uid."""
    lost: tuple[str, ...]
    """Pods that should have stayed and did not."""
    waited_s: float


def prepare(ports: ports_module.Ports, name: str, wish: Wish) -> Prepared | None:
    """Observe and decide; None if no cube of the slice needs to go.

    Raises NotFound, GuardStopped for a foreign slice or a Job that would fail, Conflict if an operation is
    open or the slice cannot be swapped now, DoesNotFit if there is no spare.
    """
    journal.refuse_if_open(ports, name)
    snapshot = leftovers.with_leftovers(_observe(ports, wish))
    item = snapshot.slices_by_name.get(name)
    if item is None:
        raise errors.NotFound(f"there is no slice {name}", hint="see: tpuctl slice list")
    if item.owner is not None and not wish.force_foreign:
        raise refusals.foreign(name, item.owner)
    asked = _in_ids(snapshot, wish)
    found = swapping.plan_swap(snapshot, item, asked)
    if isinstance(found, swapping.Whole):
        return None
    if isinstance(found, swapping.Impossible):
        raise errors.Conflict(f"slice {name} cannot be swapped: {found.why.value} ({found.detail})")
    if isinstance(found, placement.Refusal):
        raise _no_spare(snapshot, found, item, asked, lambda: holding.owner_name(ports))
    doomed = tuple(_doomed_jobs(ports, snapshot, found))
    if doomed and not wish.accept_job_failure:
        raise errors.GuardStopped(
            "the swap would make a whole job fail",
            hint="raise its backoffLimit, or add --accept-job-failure",
            details=doomed,
        )
    return Prepared(snapshot=snapshot, plan=found, doomed_jobs=doomed)


def _observe(ports: ports_module.Ports, wish: Wish) -> fleet.Fleet:
    """With the names of the reservation if the user named cubes; see `forming`."""
    named = (fleet.SourceName.NODE_POOLS, fleet.SourceName.CAPACITY)
    snapshot = ports.fleet.observe(SOURCES)
    known = {part for item in snapshot.slices for part in item.partition_ids} | set(snapshot.cubes_by_id)
    if known.issuperset((*wish.cubes, *wish.replacements)):
        return snapshot
    return ports.fleet.observe((*SOURCES, *named))


def swap(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    shown: Prepared,
    wish: Wish,
    *,
    timeout_s: float = waiting.DEFAULT_TIMEOUT_S,
) -> Outcome:
    """Do what was shown, if it is still what would be done.

    Raises Conflict if the world moved since, Stopped with the operation left open if a person must decide.
    """
    name = shown.plan.slice.name
    started_s = ports.clock.monotonic_s()
    with locking.held(ports, reporter, locking.slice_lock(name)) as lock:
        fenced = locking.fenced(ports, lock)
        with locking.held(fenced, reporter, locking.PLACEMENT) as choice:
            choosing = locking.fenced(ports, lock, choice)
            now = prepare(choosing, name, wish)
            _check_unmoved(shown, now)
            entry = journal.begin(choosing, _operation(ports, shown, wish))
        return finish(fenced, reporter, entry, started_s=started_s, timeout_s=timeout_s, policy=wish.policy)


def finish(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    entry: journal.Entry,
    *,
    started_s: float,
    timeout_s: float = waiting.DEFAULT_TIMEOUT_S,
    policy: health_values.HealthPolicy = health_values.DEFAULT_POLICY,
) -> Outcome:
    """Run an open swap to its end and compare what happened with what was promised.

    Raises what `running.Runner.run` raises, Conflict if the slice is gone or somebody else's by now.
    """
    runner = running.Runner(ports, reporter, entry, timeout_s=timeout_s, policy=policy)
    runner.run()
    name = entry.operation.slice_name
    item = runner.ready or ports.slices.get(name)
    if item is None:
        raise errors.Conflict(f"slice {name} is gone")
    if item.owner is not None and item.uid != entry.operation.old_uid:
        raise errors.Conflict(f"slice {name} was made anew by {item.owner} and left alone")
    operation = runner.operation
    restarted = 0 if operation.aborting else sum(pod.replaced for pod in operation.pods)
    running_again = _await_restarts(ports, reporter, operation, restarted)
    kept = [pod for pod in operation.pods if not pod.replaced]
    namespaces = {pod.namespace for pod in kept}
    after = {uid for namespace in namespaces for uid in ports.workloads.unfinished(namespace)}
    lost = tuple(sorted(f"{pod.namespace}/{pod.name}" for pod in kept if pod.uid not in after))
    return Outcome(
        slice=item,
        exchanges=operation.exchanges,
        went_back=operation.aborting,
        restarted=restarted,
        running_again=running_again,
        kept=len(kept) - len(lost),
        lost=lost,
        waited_s=ports.clock.monotonic_s() - started_s,
    )


def _await_restarts(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    operation: operations.Operation,
    wanted: int,
) -> int:
    """Wait until as many pods run on the new cubes as were taken from the old; how many do.

    A Job makes them again by itself; pods that nobody owns stay away, and waiting for them ends.
    """
    if not wanted:
        return 0
    deadline = waiting.Deadline.after(ports.clock, RESTART_TIMEOUT_S)
    new = {exchange.new for exchange in operation.exchanges}
    cubes = ports.fleet.observe((fleet.SourceName.NODES,)).cubes
    hosts = [host.name for cube in cubes if cube.id in new for host in cube.hosts]
    there: dict[str, int] = {}
    while True:
        # Host by host, and those with a pod not again: the cluster may have a hundred thousand other pods.
        there |= {host: ports.workloads.running_on(host) for host in hosts if not there.get(host)}
        running_now = sum(there.values())
        if running_now >= wanted:
            return running_now
        reporter.progress(running_now, wanted, "pods running again")
        if not deadline.pause(_POLL_S):
            reporter.warn(
                f"{running_now} of {wanted} restarted pods run so far; a Job makes the others again "
                "by its own back-off (backoffLimitPerIndex shortens it)"
            )
            return running_now


def _in_ids(snapshot: fleet.Fleet, wish: Wish) -> swapping.Wish:
    def ids(given: Sequence[str]) -> tuple[str, ...]:
        # A partition id that no node carries any more is still the name of the cube that is missing.
        known = {part for item in snapshot.slices for part in item.partition_ids}
        return tuple(
            text if text in known else naming.find_cube(snapshot, text).id for text in dict.fromkeys(given)
        )

    bad, replacements = ids(wish.cubes), ids(wish.replacements)
    if replacements and bad and len(replacements) != len(bad):
        raise errors.UsageError(f"--cube names {len(bad)} cubes and --with {len(replacements)}")
    return swapping.Wish(
        bad=bad,
        replacements=replacements,
        allow_degraded=wish.allow_degraded,
        include_degraded=wish.include_degraded,
        policy=wish.policy,
        in_place=wish.in_place,
    )


def _no_spare(
    snapshot: fleet.Fleet,
    refusal: placement.Refusal,
    item: fleet.Slice,
    asked: swapping.Wish,
    me: Callable[[], str],
) -> errors.DoesNotFit:
    """`no-replacement`: the slice is left as it is."""
    cubes = "1 spare cube" if refusal.needed == 1 else f"{refusal.needed} spare cubes"
    if asked.replacements:
        details = tuple(_of_replacement(snapshot, item, cube) for cube in asked.replacements)
    else:
        details = tuple(
            f"{count} {obstacle}{_by_whom(obstacle, candidate)}"
            for candidate in refusal.candidates
            for obstacle, count in candidate.obstacles
            if obstacle is not placement.Obstacle.NOT_ASKED
        )
    return errors.DoesNotFit(
        f"slice {item.name} was left as it is: {cubes} of its block needed, {refusal.usable} usable",
        hint=None if asked.replacements else _spare_way_out(snapshot, refusal, item, asked, me),
        details=tuple(line for line in details if line) or ("every other cube of its block is in use",),
    )


def _by_whom(obstacle: placement.Obstacle, candidate: placement.Candidate) -> str:
    kept = [who for who in candidate.claims if obstacles.of_claims((who,)) is obstacle]
    return f" ({'; '.join(kept)})" if kept else ""


def _spare_way_out(
    snapshot: fleet.Fleet,
    refusal: placement.Refusal,
    item: fleet.Slice,
    asked: swapping.Wish,
    me: Callable[[], str],
) -> str:
    """How a spare can be had in its block without disturbing another slice."""
    wanted = placement.Request(
        topology=refusal.topology,
        block=next(iter(cube.block for cube in snapshot.cubes_of(item)), None),
        allow_degraded=asked.allow_degraded,
        policy=asked.policy,
        slice_name=item.name,
        without=(*item.partition_ids, *asked.without),
    )
    found = ways_out.opening(snapshot, wanted, me)
    return (
        found or "every other cube of its block is in use: end or move a slice there; see: tpuctl slice list"
    )


def _of_replacement(snapshot: fleet.Fleet, item: fleet.Slice, cube_id: str) -> str:
    """Why a named replacement will not do."""
    blocks = {cube.block for cube in snapshot.cubes_of(item)}
    cube = snapshot.cubes_by_id.get(cube_id)
    if cube_id in item.partition_ids:
        return f"cube {cube_id}: it is in slice {item.name} already"
    if cube is not None and cube.block not in blocks:
        return f"cube {cube_id}: it is in another block"
    alone = placement.Request(topology=topology.CUBE, cubes=(cube_id,), slice_name=item.name)
    holders = ", ".join(snapshot.holders.get(cube_id, ()))
    return refusals.why_not(snapshot, cube_id, alone) + (f" (slice {holders})" if holders else "")


def _doomed_jobs(ports: ports_module.Ports, snapshot: fleet.Fleet, plan: swapping.SwapPlan) -> Sequence[str]:
    """Jobs whose backoffLimit is used up by the restarts: a deleted pod counts as a failed one."""
    owners = {pod.uid: pod.owner for pod in snapshot.pods}
    counts: dict[tuple[str, str], int] = {}
    for pod in plan.restarted:
        kind, _, job = owners.get(pod.uid, "").partition("/")
        if kind == "Job":
            counts[pod.namespace, job] = counts.get((pod.namespace, job), 0) + 1
    sentences = []
    for (namespace, job), count in sorted(counts.items()):
        budget = ports.workloads.job_budget(namespace, job)
        if budget is not None and budget.failures_left is not None and count > budget.failures_left:
            sentences.append(
                f"job {namespace}/{job}: {count} of its pods restart, its backoffLimit leaves room for "
                f"{budget.failures_left}"
            )
    return sentences


def _check_unmoved(shown: Prepared, now: Prepared | None) -> None:
    """What the user saw must still be what is done: cubes, slice and pods."""
    if now is None:
        raise errors.Conflict("the slice's cubes are healthy again; nothing was done")
    before, after = shown.plan, now.plan
    if (before.slice.uid, before.exchanges) != (after.slice.uid, after.exchanges):
        raise errors.Conflict(
            "the world moved since the plan was shown: other cubes would be used; nothing was done",
            hint="run the command again to see the new plan",
        )
    new = {pod.uid for pod in after.restarted} - {pod.uid for pod in before.pods}
    if new:
        raise errors.Conflict(
            f"{len(new)} pods have started on the cubes that go since the plan was shown; nothing was done",
            hint="run the command again to see them",
        )


def _operation(ports: ports_module.Ports, shown: Prepared, wish: Wish) -> operations.Operation:
    plan = shown.plan
    return operations.Operation(
        schema=operations.SCHEMA,
        id=journal.operation_id(operations.Kind.SWAP, plan.slice.name),
        kind=operations.Kind.SWAP,
        slice_name=plan.slice.name,
        topology=plan.slice.topology or topology.CUBE,
        actor=ports.identity.actor(),
        started_at=shown.snapshot.observed_at,
        intent=operations.Intent.PLANNED,
        old_uid=plan.slice.uid,
        old_partitions=plan.slice.partition_ids,
        partitions=plan.partitions,
        exchanges=plan.exchanges,
        pods=plan.pods,
        cordons=plan.cordons,
        allow_degraded=wish.allow_degraded,
        priority=plan.slice.priority,
    )
