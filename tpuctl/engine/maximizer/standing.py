"""A snapshot as the maximizer would see it: node pools of whole slices, and cubes in none.

It had the nodes, the pools and the labels, and no idea of the rest: no patience with a host that is being
repaired, no holds, no owners, no health of the reservation beyond "16 of 16". What is a Slice on its cubes
today was one pool then; a cube with a node pool and no Slice is a pool of one cube.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import TYPE_CHECKING

from tpuctl.engine.maximizer import turn
from tpuctl.model import states, topology

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tpuctl.model import fleet

_HOSTS = topology.HOSTS_PER_CUBE
_BEING_MADE = frozenset({states.PoolStatus.PROVISIONING, states.PoolStatus.RECONCILING})
_FORMING = frozenset({states.SliceState.CREATED, states.SliceState.NOT_CREATED, states.SliceState.ACTIVATING})
_BROKEN_LINKS = {
    states.PartitionState.DEGRADED: "has a failed link",
    states.PartitionState.UNHEALTHY: "is labelled UNHEALTHY",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class StaticPool:
    """What was one node pool, with what is known of it."""

    pool: turn.Pool
    why_sick: str = ""
    slices: tuple[str, ...] = ()
    """Slices on it with running work."""
    pods: int = 0
    chips: int = 0
    """Chips of that work."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Standing:
    """Everything, as one turn of the loop needs it."""

    pools: tuple[StaticPool, ...]
    loose: Mapping[str, tuple[str, ...]]
    """Block -> cubes without a node pool whose 16 hosts are there."""
    bad: frozenset[str]
    """Cubes of which no pool can be made: not all 16 hosts are good, and creation would fail."""
    ready_chips: Mapping[str, int]
    """Cube -> chips on hosts that are ready."""


def read(snapshot: fleet.Fleet, blocks: Iterable[fleet.Block], keys: Mapping[str, object]) -> Standing:
    """The maximizer's view of some blocks; `keys` names the wanted slices with the shape that each has."""
    return _Reader(snapshot, tuple(blocks), keys).read()


def trouble(cube: fleet.Cube) -> str:
    """Why it takes the pool of a cube for unhealthy; empty if it does not."""
    if len(cube.hosts) < _HOSTS:
        return f"{len(cube.hosts)} of {_HOSTS} hosts"
    if cube.ready_hosts < len(cube.hosts):
        return f"{cube.ready_hosts} of {_HOSTS} hosts are ready"
    return _BROKEN_LINKS.get(cube.state, "")


def _can_be_made(cube: fleet.Cube) -> bool:
    """If true, a pool can be made on a cube that has no nodes.

    The loop found that out by trying; here it knows what the reservation says, which flatters it.
    """
    told = None if cube.sub_block is None else cube.sub_block.healthy_hosts
    return told is None or told >= _HOSTS


class _Reader:
    """One reading of a snapshot."""

    def __init__(
        self, snapshot: fleet.Fleet, blocks: tuple[fleet.Block, ...], keys: Mapping[str, object]
    ) -> None:
        self._snapshot = snapshot
        self._blocks = blocks
        self._keys = keys
        self._home = {cube.id: block.id for block in blocks for cube in block.cubes}
        self._pods = collections.Counter(pod.node for pod in snapshot.pods if not pod.is_finished)
        self._taken: set[str] = set()

    def read(self) -> Standing:
        pools = [found for item in self._snapshot.slices for found in self._of_slice(item)]
        pools += [found for block in self._blocks for cube in block.cubes for found in self._of_cube(cube)]
        loose = {
            block.id: tuple(cube.id for cube in block.cubes if cube.id not in self._taken)
            for block in self._blocks
        }
        return Standing(
            pools=tuple(pools),
            loose=loose,
            bad=frozenset(cube.id for block in self._blocks for cube in block.cubes if self._is_bad(cube)),
            ready_chips={
                cube.id: cube.ready_hosts * topology.CHIPS_PER_HOST
                for block in self._blocks
                for cube in block.cubes
            },
        )

    def _is_bad(self, cube: fleet.Cube) -> bool:
        return bool(trouble(cube)) if cube.has_nodes else not _can_be_made(cube)

    def _of_slice(self, item: fleet.Slice) -> Iterable[StaticPool]:
        """The pool of one slice of whole cubes; sub-slices are on the pool of their cube."""
        cubes = self._snapshot.cubes_of(item)
        if item.topology is None or item.topology.is_sub_slice or not cubes:
            return
        if any(cube.id not in self._home for cube in cubes):
            return
        self._taken.update(cube.id for cube in cubes)
        if item.deleting:
            return  # it goes already; its cubes count when it has gone
        why = self._why_sick(item, cubes)
        hosts = self._snapshot.hosts_of(item)
        pods = sum(self._pods[host.name] for host in hosts)
        works = bool(pods) or item.state.is_ready
        key = self._keys.get(item.name)
        yield StaticPool(
            pool=turn.Pool(
                name=item.name,
                cubes=tuple(cube.id for cube in cubes),
                serves=None if key is None else (item.name, key),
                ground=self._home[cubes[0].id],
                shape=item.topology,
                is_sick=bool(why),
                is_idle=key is None and not pods and item.state not in _FORMING,
            ),
            why_sick=why,
            slices=(item.name,) if works else (),
            pods=pods,
            chips=len(hosts) * topology.CHIPS_PER_HOST if works else 0,
        )

    @staticmethod
    def _why_sick(item: fleet.Slice, cubes: tuple[fleet.Cube, ...]) -> str:
        for cube in cubes:
            if found := trouble(cube):
                return f"cube {cube.id}: {found}"
        if item.topology is not None and len(cubes) < item.topology.cubes:
            return f"{item.topology.cubes - len(cubes)} of {item.topology.cubes} cubes have gone"
        return f"it is {item.state}" if item.state.is_failed else ""

    def _of_cube(self, cube: fleet.Cube) -> Iterable[StaticPool]:
        """The pool of a cube on which no slice of whole cubes is."""
        if cube.id in self._taken or not (cube.has_nodes or cube.pool is not None):
            return
        self._taken.add(cube.id)
        status = None if cube.pool is None else cube.pool.status
        if status is states.PoolStatus.STOPPING:
            return
        why = "" if status in _BEING_MADE else trouble(cube)
        slices = self._snapshot.holders.get(cube.id, ())
        pods = sum(self._pods[host.name] for host in cube.hosts)
        wanted = next((name for name in sorted(slices) if name in self._keys), None)
        yield StaticPool(
            pool=turn.Pool(
                name=_pool_name(cube),
                cubes=(cube.id,),
                serves=None if wanted is None else (wanted, self._keys[wanted]),
                ground=cube.block,
                shape=topology.CUBE,
                is_sick=bool(why),
                is_idle=not slices and not pods and status not in _BEING_MADE,
            ),
            why_sick=why,
            slices=slices,
            pods=pods,
            chips=sum(self._chips(name) for name in slices),
        )

    def _chips(self, name: str) -> int:
        return len(self._snapshot.hosts_of(self._snapshot.slices_by_name[name])) * topology.CHIPS_PER_HOST


def _pool_name(cube: fleet.Cube) -> str:
    if cube.pool is not None:
        return cube.pool.name
    return cube.hosts[0].pool or cube.id
