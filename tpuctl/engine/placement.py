"""Choose partitions for one slice.

Pure: the answer depends only on the arguments. "No room" is an answer (`Refusal`), not an exception.

Any cubes of one block can be joined, since optical switches connect any cube with any other and there is no
adjacency rule; so whether a slice fits is a count per block. The block is chosen by best fit: the one with
the fewest usable cubes that still suffices, so that large holes stay large.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.engine import health
from tpuctl.model import states, topology

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tpuctl.model import fleet


class Obstacle(enum.StrEnum):
    """Why a cube or a partition cannot be taken; the value is what people read."""

    IN_USE = "in use"
    UNHEALTHY = "unhealthy"
    DEGRADED = "degraded"
    INCOMPLETE = "incomplete"
    UNKNOWN = "state unknown"
    CORDONED = "cordoned"
    NO_NODES = "no nodes"
    OTHER_BLOCK = "in another block"
    NOT_ASKED = "not in the given list"


_BY_VERDICT = {
    states.Verdict.UNHEALTHY: Obstacle.UNHEALTHY,
    states.Verdict.INCOMPLETE: Obstacle.INCOMPLETE,
    states.Verdict.UNKNOWN: Obstacle.UNKNOWN,
}


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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Candidate:
    """A block, and how it stood in the choice."""

    block: str
    usable: int
    """Cubes (for a sub-slice: partitions of the shape) that could be taken."""
    total: int
    obstacles: tuple[tuple[Obstacle, int], ...]
    """Counts for the rest, most frequent first."""
    holders: tuple[tuple[str, int], ...] = ()
    """Which slices hold how many of them."""


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
    def usable(self) -> int:
        return max((candidate.usable for candidate in self.candidates), default=0)


class _Piece(NamedTuple):
    """Something that could be taken: a whole cube or a partition inside one."""

    id: str
    cube: fleet.Cube
    obstacle: Obstacle | None
    holders: tuple[str, ...]


def place(snapshot: fleet.Fleet, request: Request) -> Placement | Refusal:
    """Return partitions of one block for `request`, or why there are none."""
    taken = taken_hosts(snapshot)
    needed = request.topology.partitions
    sub_slice = request.topology.is_sub_slice
    by_block = {
        block.id: [
            piece for cube in block.cubes for piece in (_parts if sub_slice else _whole)(cube, request, taken)
        ]
        for block in snapshot.blocks
        if request.block in (None, block.id)
    }
    free = {
        block: [piece for piece in pieces if piece.obstacle is None] for block, pieces in by_block.items()
    }
    candidates = tuple(_candidate(block, pieces) for block, pieces in by_block.items())
    fitting = [block for block, pieces in free.items() if len(pieces) >= needed]
    if not fitting:
        unit = "partitions" if sub_slice else "cubes"
        return Refusal(topology=request.topology, needed=needed, unit=unit, candidates=candidates)
    # Ids break ties, so that two runs on one snapshot agree and a dry run is honest.
    if sub_slice:
        chosen = [min((p for block in fitting for p in free[block]), key=lambda p: _wear(p, taken))]
    else:
        best = min(fitting, key=lambda block: (len(free[block]), block))
        chosen = sorted(free[best], key=lambda piece: piece.id)[:needed]
    return Placement(
        topology=request.topology,
        block=chosen[0].cube.block,
        cubes=tuple(sorted({piece.cube.id for piece in chosen})),
        partition_ids=tuple(sorted(piece.id for piece in chosen)),
        candidates=candidates,
    )


def taken_hosts(snapshot: fleet.Fleet) -> dict[str, tuple[str, ...]]:
    """Host name -> slices that hold it: failed ones too, since their object still names the partition."""
    found: dict[str, tuple[str, ...]] = {}
    for item in snapshot.slices:
        for host in snapshot.hosts_of(item):
            found[host.name] = (*found.get(host.name, ()), item.name)
    return found


def _whole(cube: fleet.Cube, request: Request, taken: dict[str, tuple[str, ...]]) -> Iterable[_Piece]:
    holders = _holders(cube.hosts, taken)
    yield _Piece(cube.id, cube, _cube_obstacle(cube, request, holders), holders)


def _cube_obstacle(cube: fleet.Cube, request: Request, holders: tuple[str, ...]) -> Obstacle | None:
    if request.cubes and cube.id not in request.cubes:
        return Obstacle.NOT_ASKED
    if holders:
        return Obstacle.IN_USE
    if not cube.has_nodes:
        return Obstacle.NO_NODES
    verdict = health.judge(cube).verdict
    if verdict in _BY_VERDICT:
        return _BY_VERDICT[verdict]
    if verdict is states.Verdict.DEGRADED and not request.allow_degraded:
        return Obstacle.DEGRADED
    return None if all(host.schedulable for host in cube.hosts) else Obstacle.CORDONED


def _parts(cube: fleet.Cube, request: Request, taken: dict[str, tuple[str, ...]]) -> Iterable[_Piece]:
    by_name = {host.name: host for host in cube.hosts}
    for partition in cube.partitions:
        if partition.shape == request.topology:
            hosts = tuple(by_name[name] for name in partition.hosts)
            holders = _holders(hosts, taken)
            yield _Piece(
                partition.id, cube, _part_obstacle(cube, partition, hosts, holders, request), holders
            )


def _part_obstacle(
    cube: fleet.Cube,
    partition: fleet.Partition,
    hosts: tuple[fleet.Host, ...],
    holders: tuple[str, ...],
    request: Request,
) -> Obstacle | None:
    """A smaller shape never shows DEGRADED: an optical link outside the cube does not concern it."""
    if request.cubes and not {cube.id, partition.id}.intersection(request.cubes):
        return Obstacle.NOT_ASKED
    if holders:
        return Obstacle.IN_USE
    if not partition.is_complete or partition.state is states.PartitionState.INCOMPLETE:
        return Obstacle.INCOMPLETE
    if any(host.ready is None for host in hosts):
        return Obstacle.UNKNOWN
    if partition.state is states.PartitionState.UNHEALTHY or any(host.ready is False for host in hosts):
        return Obstacle.UNHEALTHY
    if not partition.state.is_usable:
        return Obstacle.UNKNOWN
    return None if all(host.schedulable for host in hosts) else Obstacle.CORDONED


def _wear(piece: _Piece, taken: dict[str, tuple[str, ...]]) -> tuple[int, int, str]:
    """Order for sub-slices: cubes that cannot serve a large slice anyway come first, fullest first."""
    used = sum(host.name in taken for host in piece.cube.hosts)
    spoiled = used > 0 or health.judge(piece.cube).verdict is not states.Verdict.HEALTHY
    return (0 if spoiled else 1, -used, piece.id)


def _holders(hosts: tuple[fleet.Host, ...], taken: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(sorted({name for host in hosts for name in taken.get(host.name, ())}))


def _candidate(block: str, pieces: list[_Piece]) -> Candidate:
    counts = collections.Counter(piece.obstacle for piece in pieces if piece.obstacle is not None)
    holders = collections.Counter(
        name for piece in pieces if piece.obstacle is Obstacle.IN_USE for name in piece.holders
    )
    return Candidate(
        block=block,
        usable=sum(piece.obstacle is None for piece in pieces),
        total=len(pieces),
        obstacles=tuple(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))),
        holders=tuple(sorted(holders.items(), key=lambda entry: (-entry[1], entry[0]))),
    )
