"""What a swap hits: the pods of the slice, those that end with the cubes that go, and the hosts of these.

A node without a partition label is of a cube that goes if its node pool says so, or, where no node carries
the label of a cube any more, if such a cube goes. Where that cannot be told, and pods are there, it is a
riddle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.engine import astray
from tpuctl.model import operations

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tpuctl.model import fleet


def pods(snapshot: fleet.Fleet, item: fleet.Slice, bad: Collection[str]) -> tuple[operations.PodRef, ...]:
    """Unfinished pods of the slice; those on cubes in `bad` are replaced."""
    goes = {host.name: host.cube_id in bad for host in snapshot.hosts_of(item)}
    goes.update((node.name, _goes(snapshot, node, bad)) for node in astray.of_slice(snapshot, item))
    return tuple(
        operations.PodRef(pod.namespace, pod.name, pod.uid, pod.node, goes[pod.node])
        for pod in snapshot.pods
        if pod.node in goes and not pod.is_finished
    )


def cordons(snapshot: fleet.Fleet, item: fleet.Slice, bad: Sequence[str]) -> tuple[str, ...]:
    """Hosts of the cubes in `bad` that nobody has cordoned yet."""
    known = snapshot.cubes_by_id
    hosts = (host for cube_id in bad if cube_id in known for host in known[cube_id].hosts)
    nodes = (node for node in astray.of_slice(snapshot, item) if node.is_sure and _goes(snapshot, node, bad))
    return (
        *(host.name for host in hosts if host.schedulable),
        *(node.name for node in nodes if node.schedulable),
    )


def riddle(snapshot: fleet.Fleet, item: fleet.Slice, bad: Collection[str], unknown: Collection[str]) -> str:
    """Nodes with pods that would end though they may be another slice's, or of a cube that stays.

    `unknown`: cubes of the slice that no node carries.
    """
    stays = not set(unknown) <= set(bad)
    busy = {pod.node for pod in snapshot.pods if not pod.is_finished}
    return astray.listed(
        [
            node.name
            for node in astray.of_slice(snapshot, item)
            if node.name in busy
            and _goes(snapshot, node, bad)
            and (not node.is_sure or (stays and not node.cube))
        ]
    )


def _goes(snapshot: fleet.Fleet, node: astray.Node, bad: Collection[str]) -> bool:
    if node.cube:
        return node.cube in bad
    return any(not _has_nodes(snapshot, cube_id) for cube_id in bad)


def _has_nodes(snapshot: fleet.Fleet, cube_id: str) -> bool:
    cube = snapshot.cubes_by_id.get(cube_id)
    return cube is not None and cube.has_nodes
