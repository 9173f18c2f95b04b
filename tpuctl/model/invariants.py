"""What must hold in every snapshot; tests call it after each step, `fleet dump` and `doctor` report it."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING

from tpuctl.model import fleet, topology

if TYPE_CHECKING:
    from collections.abc import Iterator


def check_invariants(snapshot: fleet.Fleet) -> tuple[str, ...]:
    """One sentence for each rule that `snapshot` breaks; empty if all hold."""
    return (
        *_unique(snapshot),
        *_cube_shapes(snapshot),
        *_allocated_once(snapshot),
        *_slice_labels(snapshot),
        *_strays(snapshot),
    )


def _unique(snapshot: fleet.Fleet) -> Iterator[str]:
    hosts = (host.name for cube in snapshot.cubes for host in cube.hosts)
    for what, names in (
        ("block", (block.id for block in snapshot.blocks)),
        ("cube", (cube.id for cube in snapshot.cubes)),
        ("host", hosts),
        ("slice", (item.name for item in snapshot.slices)),
    ):
        for name, count in collections.Counter(names).items():
            if count > 1:
                yield f"{what} {name} occurs {count} times"


def _cube_shapes(snapshot: fleet.Fleet) -> Iterator[str]:
    for cube in snapshot.cubes:
        if len(cube.hosts) > topology.HOSTS_PER_CUBE:
            yield f"cube {cube.id} has {len(cube.hosts)} hosts, more than {topology.HOSTS_PER_CUBE}"
        for host in cube.hosts:
            if host.cube_id != cube.id:
                yield f"host {host.name} is listed in cube {cube.id} and labelled {host.cube_id}"
        for partition in cube.partitions:
            if len(partition.hosts) > partition.shape.hosts:
                yield f"partition {partition.id} of shape {partition.shape} has {len(partition.hosts)} hosts"


def _allocated_once(snapshot: fleet.Fleet) -> Iterator[str]:
    taken: dict[str, str] = {}
    for item in snapshot.slices:
        if item.state.is_failed:
            continue  # a failed slice may name partitions that it never got
        for host in snapshot.hosts_of(item):
            other = taken.setdefault(host.name, item.name)
            if other != item.name:
                yield f"host {host.name} is held by slices {other} and {item.name}"


def _slice_labels(snapshot: fleet.Fleet) -> Iterator[str]:
    if not snapshot.has(fleet.SourceName.SLICES):
        return
    for cube in snapshot.cubes:
        for host in cube.hosts:
            item = snapshot.slices_by_name.get(host.slice_name)
            if host.slice_name and item is None:
                yield f"host {host.name} is labelled with slice {host.slice_name}, which does not exist"
            elif item is not None and not set(item.partition_ids).intersection(host.partition_ids):
                yield f"host {host.name} is labelled with slice {item.name}, which does not list it"


def _strays(snapshot: fleet.Fleet) -> Iterator[str]:
    known = {stray.node for stray in snapshot.strays}
    for cube in snapshot.cubes:
        for name in cube.strays:
            if name not in known:
                yield f"node {name} is listed as a stray of cube {cube.id}, and not as one of the fleet"
