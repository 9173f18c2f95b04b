"""Questions about room: what fits, why not, what would help. Nothing here changes anything."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.engine import advice, changes, defrag, leftovers, placement, spares, swapping, tenancy
from tpuctl.engine.availability import spares as formulas
from tpuctl.engine.inventory import recent, stock
from tpuctl.engine.packing import plan as packing
from tpuctl.engine.packing import promises, wishes
from tpuctl.model import errors, fleet, topology
from tpuctl.model import health as health_values
from tpuctl.ops import naming

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

SOURCES = (
    fleet.SourceName.NODES,
    fleet.SourceName.SLICES,
    fleet.SourceName.CLAIMS,
    fleet.SourceName.PODS,
)
"""What `slice form` reads too, so that both see the same room."""


def sources(*blocks: str | None) -> tuple[fleet.SourceName, ...]:
    """SOURCES, and the reservation itself if a block was named: only it tells which block has a name now."""
    return (*SOURCES, fleet.SourceName.CAPACITY) if any(blocks) else SOURCES


Advice = advice.Advice
BlockSpares = spares.BlockSpares
Candidate = placement.Candidate
DefragPlan = defrag.Plan
Hopeless = defrag.Hopeless
Mode = packing.Mode
Outages = formulas.Outages
Plan = packing.Plan
Promise = promises.Promise
PackSettings = packing.Settings
Placement = placement.Placement
Tenancy = tenancy.Tenancy
Tenants = tenancy.Tenants
Way = advice.Way
Wish = wishes.Wish
most_cubic = wishes.most_cubic

seen = leftovers.with_leftovers
"""A snapshot as placement must see it: pods that outlived their slice keep their cubes."""

SHAPES = (
    *topology.SUB_SLICE_SHAPES,
    *(
        topology.Topology(*edges)
        for edges in (
            (4, 4, 4),
            (4, 4, 8),
            (4, 8, 8),
            (8, 8, 8),
            (8, 8, 16),
            (8, 16, 16),
            (12, 16, 16),
            (16, 16, 16),
            (16, 24, 24),
        )
    ),
)
"""Shapes that an overview counts: the common sizes, up to a whole block."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BlockRoom:
    """What fits into one block now."""

    block: fleet.Block
    cubes: int
    free: int
    """Cubes that a slice of whole healthy cubes can use."""
    largest: topology.Topology | None
    """The largest slice, in its most cubic shape; a sub-slice if no cube is free; None if nothing fits."""
    stranded_chips: int
    """Free and healthy, but only of use to sub-slices: their cubes are in part used or broken."""
    obstacles: tuple[tuple[str, int], ...]
    """Counted reasons for the cubes that are not free."""
    holders: tuple[tuple[str, int], ...]


class ShapeRoom(NamedTuple):
    """How many slices of one shape fit now, if nothing else is placed."""

    shape: topology.Topology
    slices: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Overview:
    """What fits now."""

    blocks: tuple[BlockRoom, ...]
    shapes: tuple[ShapeRoom, ...]

    @property
    def free_chips(self) -> int:
        """In whole free cubes."""
        return sum(block.free for block in self.blocks) * topology.CHIPS_PER_CUBE

    @property
    def stranded_chips(self) -> int:
        return sum(block.stranded_chips for block in self.blocks)


def overview(
    snapshot: fleet.Fleet,
    policy: health_values.HealthPolicy = health_values.DEFAULT_POLICY,
    *,
    allow_degraded: bool = False,
) -> Overview:
    """What fits now, block by block and shape by shape."""
    index = recent.of(snapshot, stock.Terms(policy=policy, allow_degraded=allow_degraded))
    by_id = {block.id: block for block in snapshot.blocks}
    blocks = tuple(
        _block_room(index, number, by_id[block_id]) for number, block_id in enumerate(index.blocks)
    )
    return Overview(
        blocks=blocks, shapes=tuple(ShapeRoom(shape, _how_many(index, shape)) for shape in SHAPES)
    )


def _block_room(index: stock.Stock, number: int, block: fleet.Block) -> BlockRoom:
    free = index.free[number]
    found = index.candidate(number, topology.CUBE)
    rests = (slot for slot in index.slots[number] if not free >> slot.number & 1 and slot.cube.has_nodes)
    return BlockRoom(
        block=block,
        cubes=len(index.slots[number]),
        free=free.bit_count(),
        largest=_largest(index, number),
        stranded_chips=sum(index.hosts(slot).free for slot in rests) * topology.CHIPS_PER_HOST,
        obstacles=tuple((str(reason), count) for reason, count in found.obstacles),
        holders=found.holders,
    )


def _largest(index: stock.Stock, number: int) -> topology.Topology | None:
    free = min(index.free[number].bit_count(), topology.MAX_CUBES)
    if free:
        return wishes.most_cubic(free * topology.CHIPS_PER_CUBE)
    for shape in reversed(topology.SUB_SLICE_SHAPES):
        if index.best_part(shape, number) is not None:
            return shape
    return None


def _how_many(index: stock.Stock, shape: topology.Topology) -> int:
    if not shape.is_sub_slice:
        return sum(free.bit_count() // shape.cubes for free in index.free)
    # Partitions of one shape in a cube do not overlap.
    return sum(index.candidate(number, shape).usable for number in range(len(index.blocks)))


# -- why not ---------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True)
class Question:
    """A request as the user wrote it."""

    shape: topology.Topology
    block: str | None = None
    allow_degraded: bool = False
    priority: int = 0
    fallbacks: tuple[topology.Topology, ...] = ()
    keep_free: int = 0


def why_not(
    snapshot: fleet.Fleet,
    question: Question,
    tenants: tenancy.Tenants,
    policy: health_values.HealthPolicy = health_values.DEFAULT_POLICY,
) -> placement.Placement | advice.Advice:
    """The placement, or why there is none and what would help. Raises NotFound for an unknown block."""
    request = _request(snapshot, question, policy)
    return advice.advise(
        snapshot,
        advice.Question(
            request=request,
            tenants=tenants,
            priority=question.priority,
            fallbacks=question.fallbacks,
        ),
    )


def defragment(
    snapshot: fleet.Fleet,
    question: Question,
    tenants: tenancy.Tenants,
    policy: health_values.HealthPolicy = health_values.DEFAULT_POLICY,
    *,
    move_h: float,
    unknown_wait_h: float,
) -> defrag.Plan | placement.Placement | defrag.Hopeless:
    """The moves that would make it fit; raises NotFound for an unknown block."""
    costs = defrag.Costs(move_h=move_h, unknown_wait_h=unknown_wait_h)
    return defrag.plan(snapshot, _request(snapshot, question, policy), tenants, costs)


def _request(
    snapshot: fleet.Fleet, question: Question, policy: health_values.HealthPolicy
) -> placement.Request:
    wish = placement.Request(
        topology=question.shape,
        block=question.block,
        allow_degraded=question.allow_degraded,
        policy=policy,
        keep_free=question.keep_free,
    )
    return naming.resolve(snapshot, wish)


# -- planning --------------------------------------------------------------------------------------------


def pack(snapshot: fleet.Fleet, asked: Sequence[wishes.Wish], settings: packing.Settings) -> packing.Plan:
    """Place many requests at once; raises NotFound for an unknown block, UsageError for contradictions."""
    return packing.pack(snapshot, [_resolved(snapshot, wish) for wish in asked], settings)


def _resolved(snapshot: fleet.Fleet, wish: wishes.Wish) -> wishes.Wish:
    if wish.block is None:
        return wish
    found = naming.resolve(snapshot, placement.Request(topology=wish.shapes[0], block=wish.block))
    return dataclasses.replace(wish, block=found.block)


# -- what if ---------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True)
class WhatIf:
    """Changes to imagine, in the order of the fields."""

    repair: tuple[str, ...] = ()
    """Cubes, by id, sub-block or node pool."""
    fail: tuple[str, ...] = ()
    end: tuple[str, ...] = ()
    """Slices."""
    add_blocks: int = 0


class Hit(NamedTuple):
    """A slice that loses cubes."""

    slice_name: str
    cubes: tuple[str, ...]
    replacements: tuple[str, ...]
    """Cubes that a swap would use; empty if there are too few, or it cannot be swapped."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """Room before and after, and who is hit."""

    before: Overview
    after: Overview
    hits: tuple[Hit, ...]


def what_if(
    snapshot: fleet.Fleet,
    wish: WhatIf,
    policy: health_values.HealthPolicy = health_values.DEFAULT_POLICY,
) -> Outcome:
    """The same overview on a changed fleet; raises NotFound for a cube or slice that does not exist."""
    failing = _cube_ids(snapshot, wish.fail)
    unknown = sorted(set(wish.end) - set(snapshot.slices_by_name))
    if unknown:
        raise errors.NotFound(f"there is no slice {unknown[0]}")
    after = changes.repaired(snapshot, _cube_ids(snapshot, wish.repair))
    after = changes.failed(after, failing)
    after = changes.without_slices(after, wish.end)
    known = {block.id for block in snapshot.blocks}
    names = (name for number in range(len(known) + wish.add_blocks) if (name := f"new-{number}") not in known)
    for _ in range(wish.add_blocks):
        after = changes.with_block(after, next(names))
    return Outcome(
        before=overview(snapshot, policy),
        after=overview(after, policy),
        hits=_hits(after, failing),
    )


def _cube_ids(snapshot: fleet.Fleet, texts: Collection[str]) -> tuple[str, ...]:
    return tuple(naming.find_cube(snapshot, text).id for text in texts)


def _hits(after: fleet.Fleet, failing: Collection[str]) -> tuple[Hit, ...]:
    found = []
    for item in after.slices:
        lost = tuple(cube.id for cube in after.cubes_of(item) if cube.id in failing)
        if lost:
            plan = swapping.plan_swap(after, item, swapping.Wish())
            news = (
                tuple(exchange.new for exchange in plan.exchanges)
                if isinstance(plan, swapping.SwapPlan)
                else ()
            )
            found.append(Hit(item.name, lost, news))
    return tuple(sorted(found))


# -- spares ----------------------------------------------------------------------------------------------


def spare_cubes(
    snapshot: fleet.Fleet,
    outages: formulas.Outages,
    confidence: float,
    *,
    recovery_h: float,
    policy: health_values.HealthPolicy = health_values.DEFAULT_POLICY,
) -> tuple[spares.BlockSpares, ...]:
    """Spares needed and there, block by block; raises UsageError for a confidence out of reach."""
    try:
        return spares.advise(snapshot, outages, confidence, recovery_h=recovery_h, policy=policy)
    except ValueError as error:
        raise errors.UsageError(str(error)) from error


def team_chips(snapshot: fleet.Fleet, tenants: tenancy.Tenants) -> dict[str, int]:
    """Chips that the running slices of each team hold, as far as it is known whose they are."""
    found: dict[str, int] = {}
    for item in snapshot.slices:
        team = tenants.of(item).team
        if team and item.topology is not None:
            found[team] = found.get(team, 0) + item.topology.chips
    return found
