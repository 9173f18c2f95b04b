"""Choose partitions for one slice.

Pure: the answer depends only on the arguments. "No room" is an answer (`Refusal`), not an exception.

Any cubes of one block can be joined, since optical switches connect any cube with any other and there is no
adjacency rule; so whether a slice fits is a count per block. The block is chosen by best fit: the one with
the fewest usable cubes that still suffices, so that large holes stay large. A sub-slice goes to a cube that
cannot serve a large slice anyway, the fullest of those first.

Spares are healthy. A request that takes degraded cubes takes those before healthy ones, and breaks no spare
by it; neither does a sub-slice in a cube that is shared or not healthy.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.engine.inventory import counting, obstacles, recent, shelves, stock
from tpuctl.model import health as health_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tpuctl.engine.inventory import tree
    from tpuctl.model import fleet, topology

Obstacle = obstacles.Obstacle
Candidate = counting.Candidate


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """A wish for one slice."""

    topology: topology.Topology
    block: str | None = None
    """Id of the only block to look at."""
    cubes: tuple[str, ...] = ()
    """If not empty: exactly these cubes (for a sub-slice: these cubes or partitions to choose from)."""
    allow_degraded: bool = False
    """If true, DEGRADED cubes count as usable; UNHEALTHY ones never do."""
    slice_name: str = ""
    """Whose claims do not stand in the way: what an operation claims, it claims for this slice."""
    without: tuple[str, ...] = ()
    """Cubes that must not be used."""
    policy: health_values.HealthPolicy = health_values.DEFAULT_POLICY
    keep_free: int = 0
    """Spares: healthy free cubes that must be left over in the block if any is taken from them."""
    priority: int | None = None
    """What the slice is to carry; None if nothing was said. Where it goes does not depend on it."""

    @property
    def terms(self) -> stock.Terms:
        """What the index must be built for."""
        return stock.Terms(policy=self.policy, allow_degraded=self.allow_degraded, slice_name=self.slice_name)

    @property
    def is_restricted(self) -> bool:
        """If true, some cubes of a block are out of the question from the start."""
        return bool(self.cubes or self.without)

    def admits(self, cube_id: str, partition_id: str) -> bool:
        """If true, this piece is among those that were asked for."""
        if cube_id in self.without:
            return False
        return not self.cubes or cube_id in self.cubes or partition_id in self.cubes


@dataclasses.dataclass(frozen=True, kw_only=True)
class Placement:
    """The partitions to use, and the blocks that were compared."""

    topology: topology.Topology
    block: str
    cubes: tuple[str, ...]
    partition_ids: tuple[str, ...]
    """Sorted."""
    candidates: tuple[Candidate, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Refusal:
    """Why there is no room."""

    topology: topology.Topology
    needed: int
    unit: str
    """`cubes`, or `partitions` for a sub-slice."""
    candidates: tuple[Candidate, ...]

    @property
    def never(self) -> bool:
        """If true, no block looked at has enough hardware, whatever becomes free or healthy."""
        return all(candidate.total < self.needed for candidate in self.candidates)

    @property
    def demand(self) -> str:
        """`2 cubes of one block needed`."""
        unit = self.unit.removesuffix("s") if self.needed == 1 else self.unit
        return f"{self.needed} {unit} of one block needed"

    @property
    def usable(self) -> int:
        return max((candidate.usable for candidate in self.candidates), default=0)


def place(snapshot: fleet.Fleet, request: Request) -> Placement | Refusal:
    """Return partitions of one block for `request`, or why there are none."""
    terms = request.terms
    if not any(claim.slice_name == request.slice_name for claim in snapshot.claims):
        terms = dataclasses.replace(terms, slice_name="")  # nothing of its own: the common index serves
    return place_in(recent.of(snapshot, terms), request)


def place_in(index: stock.Stock, request: Request) -> Placement | Refusal:
    """The same on an index; the index is not changed."""
    found = choose(index, request)
    if found is None:
        return _refusal(request, candidates(index, request))
    block, cubes, partition_ids = found
    return Placement(
        topology=request.topology,
        block=block,
        cubes=cubes,
        partition_ids=partition_ids,
        candidates=candidates(index, request),
    )


_Choice = tuple[str, tuple[str, ...], tuple[str, ...]]
"""Block, cubes and partitions."""


def choose(index: stock.Stock, request: Request) -> _Choice | None:
    """Block, cubes and partitions; the cost does not grow with the fleet unless the request is restricted."""
    if request.is_restricted:
        return _choose_among(index, request)
    only = None if request.block is None else index.number_of_block.get(request.block, -1)
    if only == -1:
        return None
    if request.topology.is_sub_slice:
        return _choose_part(index, request, only)
    needed = request.topology.cubes
    block = index.best_block(needed, keep_free=request.keep_free) if only is None else only
    free = 0 if block is None else _cubes_left(index, request, block)
    return None if block is None or free.bit_count() < needed else _take_first(index, block, free, needed)


def candidates(index: stock.Stock, request: Request) -> tuple[Candidate, ...]:
    """How every block stood."""
    if not request.is_restricted:
        return tuple(_less_spares(index, block, request) for block in _blocks(index, request))
    asked = _asked(index, request)
    return tuple(_recounted(index, block, request, asked.get(block, 0)) for block in _blocks(index, request))


# -- spares ----------------------------------------------------------------------------------------------


def spare_cubes(index: stock.Stock, block: int, request: Request, asked: int = -1) -> int:
    """Those of the cubes asked for, as bits, that must be left over: the last of the healthy free ones."""
    if not request.keep_free:
        return 0
    healthy = index.healthy(block)
    may = healthy & asked
    left = max(healthy.bit_count() - request.keep_free, 0)
    return may ^ shelves.first(may, min(left, may.bit_count()))


def _less_spares(index: stock.Stock, block: int, request: Request) -> Candidate:
    """Spares are not usable for this request, nor are the partitions in them."""
    found = index.candidate(block, request.topology)
    spares = spare_cubes(index, block, request)
    if not spares:
        return found
    count = spares.bit_count()
    if request.topology.is_sub_slice:
        trees = (index.tree_of(index.slots[block][number]) for number in shelves.members(spares))
        count = sum(sum(1 for _ in partitions.free(request.topology, 0)) for partitions in trees)
    if not count:
        return found
    counts = sorted([*found.obstacles, (Obstacle.SPARE, count)], key=lambda entry: (-entry[1], entry[0]))
    return dataclasses.replace(found, usable=found.usable - count, obstacles=tuple(counts))


# -- choosing --------------------------------------------------------------------------------------------


def _cubes_left(index: stock.Stock, request: Request, block: int, asked: int = -1) -> int:
    """The cubes, as bits, that a slice of whole cubes may take."""
    return index.free[block] & asked & ~spare_cubes(index, block, request, asked)


def _take_first(index: stock.Stock, block: int, free: int, needed: int) -> _Choice:
    slots = index.slots[block]
    ids = tuple(slots[number].cube.id for number in shelves.members(index.pick(block, free, needed)))
    return index.blocks[block], ids, ids


def _choose_part(index: stock.Stock, request: Request, only: int | None) -> _Choice | None:
    found = index.best_part(request.topology, only)
    if found is not None and spare_cubes(index, found[0].block, request) >> found[0].number & 1:
        found = _part_beside_spares(index, request, only)
    return None if found is None else _in_part(index, *found)


def _in_part(index: stock.Stock, slot: stock.Slot, part: tree.Part) -> _Choice:
    return index.blocks[slot.block], (slot.cube.id,), (part.id,)


def _part_beside_spares(
    index: stock.Stock, request: Request, only: int | None
) -> tuple[stock.Slot, tree.Part] | None:
    """The first block whose spares would not be broken into; spoiled cubes were looked at before."""
    last_resort = None
    for block in range(len(index.blocks)) if only is None else (only,):
        found = index.best_part(request.topology, block, avoid=spare_cubes(index, block, request))
        if found is not None and found[0].leaving is None:
            return found
        last_resort = last_resort or found
    return last_resort


def _blocks(index: stock.Stock, request: Request) -> Iterator[int]:
    for block, block_id in enumerate(index.blocks):
        if request.block in (None, block_id):
            yield block


def _refusal(request: Request, compared: Iterable[Candidate]) -> Refusal:
    return Refusal(
        topology=request.topology,
        needed=request.topology.partitions,
        unit="partitions" if request.topology.is_sub_slice else "cubes",
        candidates=tuple(compared),
    )


# -- some cubes only -------------------------------------------------------------------------------------


def _asked(index: stock.Stock, request: Request) -> dict[int, int]:
    """Block -> cubes, as bits, that the request admits or of which it admits a piece."""
    asked: dict[int, int] = {}
    if request.cubes:
        find = index.slot_of if request.topology.is_sub_slice else index.slot_of_cube.get
        for slot in filter(None, map(find, request.cubes)):
            asked[slot.block] = asked.get(slot.block, 0) | 1 << slot.number
    else:
        asked = {block: (1 << len(slots)) - 1 for block, slots in enumerate(index.slots)}
    for slot in filter(None, map(index.slot_of_cube.get, request.without)):
        asked[slot.block] = asked.get(slot.block, 0) & ~(1 << slot.number)
    return {block: asked[block] for block in _blocks(index, request) if asked.get(block)}


def _choose_among(index: stock.Stock, request: Request) -> _Choice | None:
    asked = _asked(index, request)
    if request.topology.is_sub_slice:
        piece = min(_pieces_among(index, request, asked), key=_order, default=None)
        return None if piece is None else _in_part(index, *piece)
    needed = request.topology.cubes
    left = {block: _cubes_left(index, request, block, cubes) for block, cubes in asked.items()}
    fitting = [block for block, cubes in left.items() if cubes.bit_count() >= needed]
    if not fitting:
        return None
    best = min(fitting, key=lambda block: (index.order(block, left[block], needed), block))
    return _take_first(index, best, left[best], needed)


def _pieces_among(
    index: stock.Stock, request: Request, asked: dict[int, int]
) -> Iterator[tuple[stock.Slot, tree.Part]]:
    """Pieces that could be taken; of a block of which no cubes were named, only the best."""
    for block, cubes in asked.items():
        open_cubes = cubes & ~spare_cubes(index, block, request, cubes)
        if not request.cubes:
            found = index.best_part(request.topology, block, avoid=~open_cubes)
            if found is not None:
                yield found
            continue
        for number in shelves.members(open_cubes):
            slot = index.slots[block][number]
            if not slot.claims:
                for part in index.tree_of(slot).free(request.topology, slot.used):
                    if request.admits(slot.cube.id, part.id):
                        yield slot, part


def _recounted(index: stock.Stock, block: int, request: Request, asked: int) -> Candidate:
    """How a block stands when only some of its pieces were asked for: each of them is looked at."""
    spares = spare_cubes(index, block, request, asked)
    pieces = []
    for slot, piece_id, piece in index.pieces(block, request.topology):
        if not request.admits(slot.cube.id, piece_id):
            pieces.append(piece._replace(obstacle=Obstacle.NOT_ASKED))
        elif piece.obstacle is None and spares >> slot.number & 1:
            pieces.append(piece._replace(obstacle=Obstacle.SPARE))
        else:
            pieces.append(piece)
    return counting.candidate_of(index.blocks[block], pieces)


def _order(found: tuple[stock.Slot, tree.Part]) -> tuple[int, int, int, int, str]:
    """Order for sub-slices: cubes that cannot serve a large slice anyway come first, fullest first."""
    slot, part = found
    return (*slot.wear, slot.block, slot.number, part.id)
