"""Slices that name the same hardware: whose it is, nobody can tell from here."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tpuctl.model import fleet


def slices(snapshot: fleet.Fleet) -> frozenset[str]:
    """Names of slices of which another one has a part. Failed ones may name what they never got."""
    return snapshot.derived(_slices)


def _slices(snapshot: fleet.Fleet) -> frozenset[str]:
    live = [item for item in snapshot.slices if not item.state.is_failed]
    parts = {item.name: snapshot.hosts_of(item) for item in live if _is_small(item)}
    shared = {host.cube_id for hosts in parts.values() for host in hosts}
    first: dict[str, str] = {}
    found: set[str] = set()
    for item in live:
        hosts = parts.get(item.name)
        names = _cubes(snapshot, item, shared) if hosts is None else (host.name for host in hosts)
        for name in names:
            other = first.setdefault(name, item.name)
            if other != item.name:
                found |= {other, item.name}
    return frozenset(found)


def _is_small(item: fleet.Slice) -> bool:
    return item.topology is not None and item.topology.is_sub_slice


def _cubes(snapshot: fleet.Fleet, item: fleet.Slice, shared: set[str]) -> Iterator[str]:
    """Its cubes, and the hosts of those that sub-slices lie in."""
    for cube_id in item.partition_ids:
        yield f"cube {cube_id}"
        cube = snapshot.cubes_by_id.get(cube_id)
        if cube is not None and cube_id in shared:
            yield from (host.name for host in cube.hosts)
