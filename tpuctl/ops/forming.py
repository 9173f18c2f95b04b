"""Form a slice: observe, decide, create, wait; and leave nothing behind when it cannot be had."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.engine import forming, placement
from tpuctl.model import errors, fleet, states
from tpuctl.ops import ports as ports_module
from tpuctl.ops import waiting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tpuctl.model import topology

SOURCES = (fleet.SourceName.NODES, fleet.SourceName.SLICES)
SETTLE_S = 15.0
"""Pause before partitions of a slice that is just gone are used again; from a field note, not documented."""
ATTEMPTS = 3
"""How often SliceCreationFailed is answered by another try, when no other slice explains it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of it."""

    slice: fleet.Slice
    verb: str
    """`formed`, `forming` (not waited for) or `unchanged`."""
    waited_s: float = 0.0
    """Seconds of the context's clock spent waiting for the fabric."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prepared:
    """A decision on one snapshot, shown by a dry run and carried out by `execute`."""

    snapshot: fleet.Fleet
    plan: forming.FormPlan | forming.Unchanged

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
        if candidate.usable < self.plan.placement.topology.partitions:
            return "too few"
        return "a larger hole, kept for larger slices"


def request(
    shape: topology.Topology,
    *,
    block: str | None = None,
    cubes: Sequence[str] = (),
    allow_degraded: bool = False,
) -> placement.Request:
    """A wish as the user wrote it; blocks and cubes may be names, `prepare` finds their ids."""
    return placement.Request(topology=shape, block=block, cubes=tuple(cubes), allow_degraded=allow_degraded)


def prepare(ports: ports_module.Ports, name: str, wish: placement.Request) -> Prepared:
    """Observe and decide.

    Raises NotFound for a block or cube that does not exist, Conflict if the name is in use, DoesNotFit with
    counted reasons if there is no room.
    """
    snapshot = ports.fleet.observe(SOURCES)
    decision = forming.plan_form(snapshot, name, resolve(snapshot, wish))
    if isinstance(decision, placement.Refusal):
        raise refused(snapshot, decision)
    if isinstance(decision, forming.Clash):
        raise _clash(decision)
    return Prepared(snapshot=snapshot, plan=decision)


def validate(ports: ports_module.Ports, prepared: Prepared) -> None:
    """Let the server validate the Slice and store nothing: the real call, up to the write."""
    if isinstance(prepared.plan, forming.FormPlan):
        ports.slices.create(_spec(prepared.plan), validate_only=True)


def execute(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    prepared: Prepared,
    *,
    wait: bool = True,
    timeout_s: float = waiting.DEFAULT_TIMEOUT_S,
) -> Outcome:
    """Carry out what `prepare` decided.

    Raises Conflict if somebody else got one of the partitions first (our object is taken back), SliceFailed,
    TimedOut.
    """
    if isinstance(prepared.plan, forming.Unchanged):
        return _await_existing(ports, reporter, prepared.plan.slice, wait=wait, timeout_s=timeout_s)
    spec = _spec(prepared.plan)
    started_s = ports.clock.monotonic_s()
    for attempt in range(1, ATTEMPTS + 1):
        created = ports.slices.create(spec)
        count = len(spec.partition_ids)
        reporter.step(f"slice {spec.name} created with {count} {'partition' if count == 1 else 'partitions'}")
        if not wait:
            return Outcome(slice=created, verb="forming")
        try:
            ready = waiting.until_ready(
                ports,
                reporter,
                spec.name,
                uid=created.uid,
                shape=spec.topology,
                timeout_s=timeout_s - (ports.clock.monotonic_s() - started_s),
            )
        except waiting.SliceFailed as failure:
            _back_out(ports, reporter, failure.slice)
            _give_up_unless_worth_a_retry(ports, failure, attempt)
            reporter.warn(f"{failure.message}; trying again ({attempt + 1} of {ATTEMPTS})")
            ports.clock.sleep(SETTLE_S)
        else:
            return Outcome(slice=ready, verb="formed", waited_s=ports.clock.monotonic_s() - started_s)
    raise AssertionError("the last attempt returns or raises")


def wait(
    ports: ports_module.Ports, reporter: ports_module.Reporter, name: str, *, timeout_s: float
) -> fleet.Slice:
    """Wait for a slice that exists; raises NotFound if it does not."""
    item = ports.slices.get(name)
    if item is None:
        raise errors.NotFound(f"there is no slice {name}", hint="see: tpuctl slice list")
    return waiting.until_ready(ports, reporter, name, uid=item.uid, shape=item.topology, timeout_s=timeout_s)


def resolve(snapshot: fleet.Fleet, wish: placement.Request) -> placement.Request:
    """Turn what the user wrote (a block's name, a sub-block's or pool's name) into ids.

    Raises NotFound for what does not exist, UsageError for duplicates, a wrong count, or cubes of two blocks.
    """
    block = _block_id(snapshot, wish.block) if wish.block is not None else None
    cubes = tuple(_cube_id(snapshot, text, wish) for text in wish.cubes)
    _check_list(snapshot, wish, cubes, block)
    return dataclasses.replace(wish, block=block, cubes=cubes)


def find_cube(snapshot: fleet.Fleet, text: str) -> fleet.Cube:
    """The cube of that partition id, sub-block name or node pool; raises NotFound."""
    for cube in snapshot.cubes:
        pool = {host.pool for host in cube.hosts}
        if cube.pool is not None:
            pool.add(cube.pool.name)
        if text == cube.id or text in pool or (cube.sub_block and text == cube.sub_block.name):
            return cube
    raise errors.NotFound(f"there is no cube '{text}'", hint="see: tpuctl cube list -o wide")


def refused(snapshot: fleet.Fleet, refusal: placement.Refusal) -> errors.DoesNotFit:
    """The error for a refusal, with needed, usable and counted reasons for each block."""
    labels = {block.id: block.label for block in snapshot.blocks}
    lines = [_candidate_line(labels[candidate.block], candidate, refusal) for candidate in refusal.candidates]
    when = "never fits: no block is that large" if refusal.never else "does not fit now"
    best = "" if refusal.never else f", the best block has {refusal.usable} usable"
    return errors.DoesNotFit(
        f"topology {refusal.topology} {when}: {refusal.needed} {refusal.unit} of one block needed{best}",
        hint=_way_out(refusal),
        details=tuple(lines) or ("there are no cubes at all; make some with: tpuctl nodepool setup",),
    )


def _candidate_line(label: str, candidate: placement.Candidate, refusal: placement.Refusal) -> str:
    reasons = [f"{count} {obstacle}" for obstacle, count in candidate.obstacles]
    holders = ", ".join(f"{name} {count}" for name, count in candidate.holders)
    rest = f"; rest: {', '.join(reasons)}" if reasons else ""
    return f"block {label}: {candidate.usable} of {candidate.total} {refusal.unit} usable{rest}" + (
        f" (slices: {holders})" if holders else ""
    )


def _way_out(refusal: placement.Refusal) -> str | None:
    if refusal.never:
        return None
    missing = refusal.needed - refusal.usable
    for candidate in refusal.candidates:
        counts = dict(candidate.obstacles)
        if candidate.usable == refusal.usable and counts.get(placement.Obstacle.DEGRADED, 0) >= missing:
            return "--allow-degraded would make it fit, with less bandwidth"
    return f"{missing} more {refusal.unit} must become free or healthy in one block"


def _spec(plan: forming.FormPlan) -> ports_module.SliceSpec:
    return ports_module.SliceSpec(plan.slice_name, plan.placement.topology, plan.placement.partition_ids)


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


def _back_out(ports: ports_module.Ports, reporter: ports_module.Reporter, item: fleet.Slice) -> None:
    """Take back the object that we made: a failed Slice would go on claiming its partitions."""
    ports.slices.delete(item.name, uid=item.uid)
    waiting.until_gone(ports, reporter, item.name, uid=item.uid)


def _give_up_unless_worth_a_retry(
    ports: ports_module.Ports, failure: waiting.SliceFailed, attempt: int
) -> None:
    """Retry only the passing kind: a partition that another slice has just let go, or a pool that settles."""
    item = failure.slice
    holders = _other_holders(ports.fleet.observe(SOURCES), item)
    if holders:
        raise errors.Conflict(
            f"slice {item.name} was not formed: {_named(holders)} took some of its partitions first",
            hint="nothing was left behind; run the command again to use other cubes",
        ) from failure
    if item.state is not states.SliceState.CREATION_FAILED or attempt == ATTEMPTS:
        raise errors.TpuctlError(
            f"{failure.message or 'it failed'}; the slice was taken back, nothing was left behind",
            hint="look at the cubes with: tpuctl cube list; name other ones with --cubes",
        ) from failure


def _other_holders(snapshot: fleet.Fleet, item: fleet.Slice) -> Sequence[str]:
    cubes = {
        snapshot.cube_of_partition.get(partition_id, partition_id) for partition_id in item.partition_ids
    }
    return sorted({name for cube in cubes for name in snapshot.holders.get(cube, ()) if name != item.name})


def _named(slices: Sequence[str]) -> str:
    return ("slice " if len(slices) == 1 else "slices ") + ", ".join(slices)


def _clash(clash: forming.Clash) -> errors.Conflict:
    name = clash.slice.name
    hints = {
        forming.ClashKind.OTHER_SPEC: f"choose another name, or first: tpuctl slice deform {name}",
        forming.ClashKind.DELETING: "wait until it is gone, then run the command again",
        forming.ClashKind.FAILED: f"take it apart first: tpuctl slice deform {name}",
    }
    return errors.Conflict(f"slice {name}: {clash.kind.value}: {clash.why}", hint=hints[clash.kind])


def _block_id(snapshot: fleet.Fleet, text: str) -> str:
    for block in snapshot.blocks:
        if text in (block.id, block.name):
            return block.id
    known = ", ".join(block.label for block in snapshot.blocks) or "none"
    raise errors.NotFound(f"there is no block '{text}'", hint=f"blocks: {known}")


def _cube_id(snapshot: fleet.Fleet, text: str, wish: placement.Request) -> str:
    if wish.topology.is_sub_slice and text in snapshot.cube_of_partition:
        return text
    return find_cube(snapshot, text).id


def _check_list(
    snapshot: fleet.Fleet, wish: placement.Request, cubes: tuple[str, ...], block: str | None
) -> None:
    twice = sorted({text for text, cube in zip(wish.cubes, cubes, strict=True) if cubes.count(cube) > 1})
    if twice:
        raise errors.UsageError(f"--cubes names a cube twice: {', '.join(twice)}")
    if not cubes:
        return
    needed = wish.topology.cubes
    if not wish.topology.is_sub_slice and len(cubes) != needed:
        raise errors.UsageError(
            f"topology {wish.topology} needs exactly {needed} cubes, --cubes names {len(cubes)}"
        )
    blocks = {_block_of(snapshot, cube) for cube in cubes}
    if block is not None and blocks - {block}:
        raise errors.UsageError("--cubes names cubes outside the block given with --block")
    if len(blocks) > 1 and not wish.topology.is_sub_slice:
        raise errors.UsageError(
            f"--cubes names cubes of {len(blocks)} blocks; only cubes of one block can be joined"
        )


def _block_of(snapshot: fleet.Fleet, partition_id: str) -> str:
    cube_id = snapshot.cube_of_partition.get(partition_id, partition_id)
    return snapshot.cubes_by_id[cube_id].block
