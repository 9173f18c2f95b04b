"""Nodes that are there, though no partition label tells which part of the fleet they are.

A label that is missing is missing data: the machine runs on, the slice on it too, and so do its pods. Nothing
is concluded to be gone from such nodes. Here stands whose they are, or may be: by the label of a slice and
the partition ids that they still carry, else by their node pool, and where its cube has no labelled node
left, by which slices name partitions that no node carries.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.model import counts, topology

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tpuctl.model import fleet

_SHOWN = 3


class Node(NamedTuple):
    """A node that no label places, as seen from a slice."""

    name: str
    cube: str
    """The cube that lacks it; empty if that one has no labelled node, so that its id is not known."""
    is_sure: bool
    """If true, it can be of no other slice."""
    is_labelled: bool
    """If true, it carries the slice's label or one of its partitions."""
    schedulable: bool


def of_slice(snapshot: fleet.Fleet, item: fleet.Slice) -> tuple[Node, ...]:
    """Nodes that are, or may be, hosts of the slice without a label that says so."""
    return snapshot.derived(_by_slice).get(item.name, ()) if snapshot.strays else ()


def names_of(snapshot: fleet.Fleet, item: fleet.Slice) -> tuple[str, ...]:
    """The names of those nodes."""
    return tuple(node.name for node in of_slice(snapshot, item))


def instead_of_lost(snapshot: fleet.Fleet, item: fleet.Slice) -> tuple[str, ...]:
    """Nodes that may be those of the partitions that no node carries; empty if these are gone for certain.

    They are gone if all such nodes tell that they are of this slice and are too few for one whole partition.
    """
    found = [node for node in of_slice(snapshot, item) if not node.cube]
    whole = min(item.topology.hosts if item.topology is not None else 1, topology.HOSTS_PER_CUBE)
    if len(found) < whole and all(node.is_labelled for node in found):
        return ()
    return tuple(node.name for node in found)


def pods_of(snapshot: fleet.Fleet, item: fleet.Slice) -> tuple[fleet.Pod, ...]:
    """Unfinished pods on the hosts of a slice, those without partition labels among them."""
    hosts = (host.name for host in snapshot.hosts_of(item))
    return snapshot.pods_at((*hosts, *names_of(snapshot, item)))


def told(names: Sequence[str], of: str) -> str:
    """`node n1 of its node pool carries no partition label`."""
    node, carry = ("node", "carries") if len(names) == 1 else ("nodes", "carry")
    return f"{node} {listed(names)} {of} {carry} no partition label"


def listed(names: Sequence[str]) -> str:
    """The first few, and how many more."""
    rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + rest


def users_of_pool(snapshot: fleet.Fleet, pool: fleet.NodePool) -> tuple[str, ...]:
    """Who may use nodes of a pool that no label places, or a pool that has no labelled node at all."""
    nodes = {stray.node for stray in snapshot.strays if stray.pool == pool.name}
    nodes.update(node for cube in snapshot.cubes if _is_made_by(cube, pool) for node in cube.strays)
    says = [
        f"slice {item.name}"
        for item in snapshot.slices
        if nodes and nodes.intersection(names_of(snapshot, item))
    ]
    pods = len(snapshot.pods_at(nodes)) if nodes else 0
    if pods:
        says.append(f"{counts.of(pods, 'pod')} on nodes without a partition label")
    if not any(host.pool == pool.name for cube in snapshot.cubes for host in cube.hosts):
        lost = _lost(snapshot)
        for item in snapshot.slices:
            if item.name in lost and f"slice {item.name}" not in says and _may_lie_in(snapshot, item, pool):
                says.append(
                    f"slice {item.name}, which may lie here: it names a partition that no node carries"
                )
    return tuple(says)


def _is_made_by(cube: fleet.Cube, pool: fleet.NodePool) -> bool:
    return cube.pool is not None and cube.pool.name == pool.name


def _may_lie_in(snapshot: fleet.Fleet, item: fleet.Slice, pool: fleet.NodePool) -> bool:
    """False if its other cubes are known to be in another block."""
    blocks = {cube.pool.block if cube.pool is not None else "" for cube in snapshot.cubes_of(item)}
    return not blocks or "" in blocks or not pool.block or pool.block in blocks


# -- whose they are --------------------------------------------------------------------------------------


def _by_slice(snapshot: fleet.Fleet) -> Mapping[str, tuple[Node, ...]]:
    lost = _lost(snapshot)
    homes = {name: cube for cube in snapshot.cubes for name in cube.strays}
    found: dict[str, list[Node]] = collections.defaultdict(list)
    for stray in snapshot.strays:
        if stray.is_static:
            continue
        home = homes.get(stray.node)
        owners = _owners(snapshot, stray, home, lost)
        for item in owners:
            is_labelled = stray.slice_name == item.name or _carries(stray, item)
            cube = home.id if home is not None and home.hosts else ""
            is_sure = is_labelled or len(owners) == 1
            found[item.name].append(Node(stray.node, cube, is_sure, is_labelled, stray.schedulable))
    return {name: tuple(nodes) for name, nodes in found.items()}


def _lost(snapshot: fleet.Fleet) -> Mapping[str, frozenset[str]]:
    """Slice -> partitions of it that no node carries."""
    known = snapshot.cubes_by_id
    named = {part for item in snapshot.slices for part in item.partition_ids}
    if all(part in known and known[part].hosts for part in named):
        return {}
    carried = snapshot.cube_of_partition
    found = {item.name: frozenset(item.partition_ids).difference(carried) for item in snapshot.slices}
    return {name: parts for name, parts in found.items() if parts}


def _owners(
    snapshot: fleet.Fleet,
    stray: fleet.Stray,
    home: fleet.Cube | None,
    lost: Mapping[str, frozenset[str]],
) -> list[fleet.Slice]:
    """Slices that it is a host of, or may be: what it says itself counts most."""
    own = snapshot.slices_by_name.get(stray.slice_name)
    if own is not None:
        return [own]
    carriers = [item for item in snapshot.slices if _carries(stray, item)]
    if carriers:
        return carriers
    of_lost = (snapshot.slices_by_name[name] for name in lost)
    if home is None or not home.hosts:
        return [item for item in of_lost if _may_be_of(snapshot, stray, item, home)]
    holders = (snapshot.slices_by_name[name] for name in snapshot.holders.get(home.id, ()))
    there = [item for item in holders if _lacks_hosts(snapshot, item)]
    return [*there, *(item for item in of_lost if _is_small(item) and item not in there)]


def _carries(stray: fleet.Stray, item: fleet.Slice) -> bool:
    return not set(stray.partition_ids).isdisjoint(item.partition_ids)


def _may_be_of(snapshot: fleet.Fleet, stray: fleet.Stray, item: fleet.Slice, home: fleet.Cube | None) -> bool:
    """False if its cube is in another block, or if the node is younger than the slice.

    Such a node is not one that the slice was formed on: pods do not outlive their node object.
    """
    if stray.created_at is not None and stray.created_at > item.created_at:
        return False
    blocks = {cube.block for cube in snapshot.cubes_of(item)}
    return home is None or not blocks or home.block in blocks


def _lacks_hosts(snapshot: fleet.Fleet, item: fleet.Slice) -> bool:
    return item.topology is None or len(snapshot.hosts_of(item)) < item.topology.hosts


def _is_small(item: fleet.Slice) -> bool:
    return item.topology is not None and item.topology.is_sub_slice
