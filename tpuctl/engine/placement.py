"""Choose partitions for one slice.

Pure: the answer depends only on the arguments. "No room" is an answer (`Refusal`), not an exception.

Any cubes of one block can be joined, since optical switches connect any cube with any other and there is no
adjacency rule; so whether a slice fits is a count per block. The block is chosen by best fit: the one with
the fewest usable cubes that still suffices, so that large holes stay large. A sub-slice goes to a cube that
cannot serve a large slice anyway, the fullest of those first.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.engine.inventory import counting, obstacles, recent, shelves, stock
from tpuctl.model import health as health_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
    """Spares: usable whole cubes that must be left over in the block."""
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
    if request.is_restricted:
        return _restricted(index, request)
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


def choose(index: stock.Stock, request: Request) -> tuple[str, tuple[str, ...], tuple[str, ...]] | None:
    """Block, cubes and partitions for an unrestricted request; the cost does not grow with the fleet."""
    only = None if request.block is None else index.number_of_block.get(request.block, -1)
    if only == -1:
        return None
    if request.topology.is_sub_slice:
        return _choose_part(index, request, only)
    needed = request.topology.cubes
    block = index.best_block(needed, keep_free=request.keep_free) if only is None else only
    if block is None or index.free[block].bit_count() < needed + request.keep_free:
        return None
    slots = index.slots[block]
    ids = tuple(slots[number].cube.id for number in shelves.members(shelves.first(index.free[block], needed)))
    return index.blocks[block], ids, ids


def candidates(index: stock.Stock, request: Request) -> tuple[Candidate, ...]:
    """How every block stood."""
    return tuple(
        _spared(index.candidate(block, request.topology), request) for block in _blocks(index, request)
    )


def _choose_part(
    index: stock.Stock, request: Request, only: int | None
) -> tuple[str, tuple[str, ...], tuple[str, ...]] | None:
    found = index.best_part(request.topology, only)
    if found is None:
        return None
    slot, part = found
    free = index.free[slot.block]
    if request.keep_free and free >> slot.number & 1 and free.bit_count() <= request.keep_free:
        return _part_beside_spares(index, request, only)
    return index.blocks[slot.block], (slot.cube.id,), (part.id,)


def _part_beside_spares(
    index: stock.Stock, request: Request, only: int | None
) -> tuple[str, tuple[str, ...], tuple[str, ...]] | None:
    """The first block whose spares would not be broken into; spoiled cubes were looked at before."""
    for block in range(len(index.blocks)) if only is None else (only,):
        found = index.best_part(request.topology, block)
        if found is None:
            continue
        slot, part = found
        free = index.free[block]
        if not free >> slot.number & 1 or free.bit_count() > request.keep_free:
            return index.blocks[block], (slot.cube.id,), (part.id,)
    return None


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


def _spared(found: Candidate, request: Request) -> Candidate:
    """Spares are not usable for this request."""
    spares = min(request.keep_free, found.usable)
    if not spares or request.topology.is_sub_slice:
        return found
    counts = sorted([*found.obstacles, (Obstacle.SPARE, spares)], key=lambda entry: (-entry[1], entry[0]))
    return dataclasses.replace(found, usable=found.usable - spares, obstacles=tuple(counts))


def _restricted(index: stock.Stock, request: Request) -> Placement | Refusal:
    """Cubes were named or excluded: every piece of the blocks in question is looked at."""
    compared: list[Candidate] = []
    free: dict[int, list[tuple[stock.Slot, str]]] = {}
    for block in _blocks(index, request):
        pieces: list[counting.Piece] = []
        free[block] = []
        for slot, piece_id, piece in index.pieces(block, request.topology):
            if not request.admits(slot.cube.id, piece_id):
                pieces.append(piece._replace(obstacle=Obstacle.NOT_ASKED))
                continue
            pieces.append(piece)
            if piece.obstacle is None:
                free[block].append((slot, piece_id))
        compared.append(_spared(counting.candidate_of(index.blocks[block], pieces), request))
    needed = request.topology.partitions
    fitting = [block for block, found in free.items() if len(found) >= needed + _kept(request)]
    if not fitting:
        return _refusal(request, compared)
    if request.topology.is_sub_slice:
        everywhere = [piece for block in fitting for piece in free[block]]
        chosen = [min(everywhere, key=_wear)]
    else:
        best = min(fitting, key=lambda block: (len(free[block]), block))
        chosen = free[best][:needed]
    return Placement(
        topology=request.topology,
        block=index.blocks[chosen[0][0].block],
        cubes=tuple(sorted({slot.cube.id for slot, _ in chosen})),
        partition_ids=tuple(sorted(piece_id for _, piece_id in chosen)),
        candidates=tuple(compared),
    )


def _kept(request: Request) -> int:
    return 0 if request.topology.is_sub_slice else request.keep_free


def _wear(piece: tuple[stock.Slot, str]) -> tuple[int, int, int, int, str]:
    """Order for sub-slices: cubes that cannot serve a large slice anyway come first, fullest first."""
    slot, piece_id = piece
    return (*slot.wear, slot.block, slot.number, piece_id)
