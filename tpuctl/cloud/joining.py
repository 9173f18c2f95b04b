"""Join nodes, node pools and reserved capacity into blocks of cubes. Pure; sorted by id.

The joints: label `gce-topology-block` is a block's physical id, label `gce-topology-subblock` a sub-block's,
label `gke-nodepool` the name of a pool; a pool's reservation path names its sub-block. A node that has lost
the label of its cube is still a node of its pool, and its cube does not lack a host for it.

A `Joiner` that is asked again gives the same object for every cube and block that is as it was: of 100,000
nodes a handful changes from one minute to the next, and all else need not be judged anew.
"""

from __future__ import annotations

import collections
import dataclasses
import operator
from typing import TYPE_CHECKING

from tpuctl.model import fleet, topology

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from tpuctl.cloud import documents

_NAME, _POOL = operator.attrgetter("name"), operator.attrgetter("pool")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Seen:
    """A cube as its nodes show it."""

    id: str
    block: str
    sub_block: str
    pool: str
    hosts: tuple[fleet.Host, ...]


def blocks_of(
    nodes: Iterable[documents.PlacedHost | fleet.Stray],
    pools: Collection[fleet.NodePool],
    reserved: Collection[fleet.ReservedBlock],
) -> tuple[tuple[fleet.Block, ...], tuple[fleet.Stray, ...]]:
    """The blocks, and the nodes that could not be placed."""
    return Joiner().blocks_of(nodes, pools, reserved)


class Joiner:
    """Joins one list after the other, and remembers the last result."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[list[documents.PlacedHost], _Seen]] = {}
        self._cubes: dict[str, fleet.Cube] = {}
        self._blocks: tuple[fleet.Block, ...] = ()

    def blocks_of(
        self,
        nodes: Iterable[documents.PlacedHost | fleet.Stray],
        pools: Collection[fleet.NodePool],
        reserved: Collection[fleet.ReservedBlock],
    ) -> tuple[tuple[fleet.Block, ...], tuple[fleet.Stray, ...]]:
        """As the function of that name."""
        strays: list[fleet.Stray] = []
        by_cube: dict[str, list[documents.PlacedHost]] = {}
        for node in nodes:
            if isinstance(node, fleet.Stray):
                strays.append(node)
            else:
                by_cube.setdefault(node.host.cube_id, []).append(node)
        seen = self._agreed(by_cube, strays)
        cubes = self._same_cubes(_with_strays(_Joint(seen, pools, reserved).cubes(), strays))
        blocks = self._same_blocks(_grouped(cubes, seen, pools, reserved))
        return blocks, tuple(sorted(strays))

    def _agreed(
        self, by_cube: dict[str, list[documents.PlacedHost]], strays: list[fleet.Stray]
    ) -> list[_Seen]:
        """Each cube as its nodes show it. Those that contradict themselves are looked at each time."""
        before, found = self._seen, []
        self._seen = {}
        for cube_id, placed in by_cube.items():
            known = before.get(cube_id)
            if known is not None and known[0] == placed:
                self._seen[cube_id] = known
                found.append(known[1])
                continue
            seen = _agreed(cube_id, placed, strays)
            if len(seen.hosts) == len(placed):
                self._seen[cube_id] = placed, seen
            found.append(seen)
        return found

    def _same_cubes(self, cubes: list[fleet.Cube]) -> list[fleet.Cube]:
        before = self._cubes
        found = [known if (known := before.get(cube.id)) == cube else cube for cube in cubes]
        self._cubes = {cube.id: cube for cube in found}
        return found

    def _same_blocks(self, blocks: tuple[fleet.Block, ...]) -> tuple[fleet.Block, ...]:
        before = {block.id: block for block in self._blocks}
        found = tuple(known if (known := before.get(block.id)) == block else block for block in blocks)
        if found != self._blocks:
            self._blocks = found
        return self._blocks


def _agreed(cube_id: str, placed: list[documents.PlacedHost], strays: list[fleet.Stray]) -> _Seen:
    """The block that most hosts of a cube name; those that name another one become strays.

    A cube lies in one block, so a contradiction means a wrong label: the cube is then short of hosts and not
    used, which is the safe side.
    """
    hosts, blocks, sub_blocks = zip(*placed, strict=True)
    block = _most_common(blocks)
    if blocks.count(block) < len(blocks):
        strays += [
            fleet.Stray(
                node=item.host.name,
                why=f"it names block {item.block}, the others of cube {cube_id} name {block}",
                pool=item.host.pool,
                slice_name=item.host.slice_name,
                partition_ids=tuple(filter(None, item.host.partition_ids)),
                uid=item.host.uid,
                created_at=item.host.created_at,
                schedulable=item.host.schedulable,
            )
            for item in placed
            if item.block != block
        ]
        hosts, _, sub_blocks = zip(*(item for item in placed if item.block == block), strict=True)
    return _Seen(
        id=cube_id,
        block=block,
        sub_block=_most_common(sub_blocks),
        pool=_most_common(tuple(map(_POOL, hosts))),
        hosts=tuple(sorted(hosts, key=_NAME)),
    )


def _most_common(words: Sequence[str]) -> str:
    """The word that occurs most often, the smaller one among equals; empty words count last."""
    if words.count(words[0]) == len(words):
        return words[0]
    counts = collections.Counter(words)
    return min(counts, key=lambda word: (not word, -counts[word], word))


def _with_strays(cubes: list[fleet.Cube], strays: Sequence[fleet.Stray]) -> list[fleet.Cube]:
    """The cubes with the nodes that lack only a label to be among their hosts.

    The cube's own id counts most, then the node pool; without both, the label of a slice that all hosts of
    the cube carry. A cube with all its hosts lacks none.
    """
    found = [stray for stray in strays if not stray.is_static]
    if not found:
        return cubes
    short = [cube for cube in cubes if len(cube.hosts) < topology.HOSTS_PER_CUBE]
    homes: dict[tuple[str, str], list[fleet.Cube]] = {}
    for cube in short:
        for key in _keys_of_cube(cube):
            homes.setdefault(key, []).append(cube)
    by_cube: dict[str, list[str]] = {}
    for stray in found:
        for cube in next((homes[key] for key in _keys_of_stray(stray) if key in homes), ()):
            by_cube.setdefault(cube.id, []).append(stray.node)
    return [
        dataclasses.replace(cube, strays=tuple(sorted(by_cube[cube.id]))) if cube.id in by_cube else cube
        for cube in cubes
    ]


def _keys_of_cube(cube: fleet.Cube) -> Iterator[tuple[str, str]]:
    yield "cube", cube.id
    pool = cube.pool.name if cube.pool is not None else _most_common(tuple(map(_POOL, cube.hosts)) or ("",))
    if pool:
        yield "pool", pool
    labels = {host.slice_name for host in cube.hosts}
    if len(labels) == 1:
        yield "slice", labels.pop()


def _keys_of_stray(stray: fleet.Stray) -> Iterator[tuple[str, str]]:
    yield from (("cube", partition_id) for partition_id in stray.partition_ids)
    if stray.pool:
        yield "pool", stray.pool
    elif stray.slice_name:
        yield "slice", stray.slice_name


class _Joint:
    """Finds the pool and the sub-block of each cube, and the cubes that have no nodes."""

    def __init__(
        self,
        seen: Collection[_Seen],
        pools: Collection[fleet.NodePool],
        reserved: Collection[fleet.ReservedBlock],
    ) -> None:
        self._seen = seen
        self._pools = {pool.name: pool for pool in pools}
        self._pool_of_sub_block = {pool.sub_block: pool for pool in pools if pool.sub_block}
        self._reserved = reserved
        sub_blocks = [item for block in reserved for item in block.sub_blocks]
        self._by_physical_id = {item.physical_id: item for item in sub_blocks if item.physical_id}
        self._by_name = {item.name: item for item in sub_blocks}

    def cubes(self) -> list[fleet.Cube]:
        """All cubes, in no particular order."""
        cubes = [self._with_nodes(item) for item in self._seen]
        told = {cube.sub_block.name for cube in cubes if cube.sub_block is not None}
        told |= {cube.pool.sub_block for cube in cubes if cube.pool is not None}
        for block in self._reserved:
            for sub_block in block.sub_blocks:
                if sub_block.name not in told:
                    told.add(sub_block.name)
                    cubes.append(self._bare(sub_block.name, _block_id(block), sub_block))
        physical = self._physical_ids()
        for pool in self._pools.values():
            if pool.sub_block and pool.sub_block not in told:
                told.add(pool.sub_block)
                cubes.append(self._bare(pool.sub_block, physical.get(pool.block, pool.block), None))
        return cubes

    def _with_nodes(self, seen: _Seen) -> fleet.Cube:
        pool = self._pools.get(seen.pool)
        sub_block = self._by_physical_id.get(seen.sub_block) if seen.sub_block else None
        if sub_block is None and pool is not None:
            sub_block = self._by_name.get(pool.sub_block)
        return fleet.Cube(id=seen.id, block=seen.block, hosts=seen.hosts, pool=pool, sub_block=sub_block)

    def _bare(self, name: str, block: str, sub_block: fleet.SubBlock | None) -> fleet.Cube:
        return fleet.Cube(id=name, block=block, pool=self._pool_of_sub_block.get(name), sub_block=sub_block)

    def _physical_ids(self) -> Mapping[str, str]:
        """Name of a reservation block -> its id on node labels, from the pools that have nodes."""
        return {
            pool.block: seen.block
            for seen in self._seen
            if (pool := self._pools.get(seen.pool)) is not None and pool.block
        }


def _grouped(
    cubes: Iterable[fleet.Cube],
    seen: Iterable[_Seen],
    pools: Iterable[fleet.NodePool],
    reserved: Iterable[fleet.ReservedBlock],
) -> tuple[fleet.Block, ...]:
    names = {_block_id(block): (block.name, block.reservation) for block in reserved}
    plans = {_block_id(block): block.maintenance for block in reserved}
    for block, pool in _told_by_pools(seen, pools):
        names.setdefault(block, (pool.block, pool.reservation))
    by_block: dict[str, list[fleet.Cube]] = {block: [] for block in names}
    for cube in cubes:
        by_block.setdefault(cube.block, []).append(cube)
    return tuple(
        fleet.Block(
            id=block,
            name=names.get(block, ("", ""))[0],
            reservation=names.get(block, ("", ""))[1],
            cubes=tuple(sorted(by_block[block], key=lambda cube: cube.id)),
            maintenance=plans.get(block),
        )
        for block in sorted(by_block)
    )


def _told_by_pools(
    seen: Iterable[_Seen], pools: Iterable[fleet.NodePool]
) -> Iterator[tuple[str, fleet.NodePool]]:
    """Block id and a pool in it that knows the block's name."""
    by_name = {pool.name: pool for pool in pools if pool.block}
    for item in seen:
        if item.pool in by_name:
            yield item.block, by_name[item.pool]


def _block_id(block: fleet.ReservedBlock) -> str:
    return block.physical_id or block.name
