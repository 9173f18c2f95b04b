"""What a fault can be aimed at, and how it is found by name."""

from __future__ import annotations

import dataclasses
import difflib
import re
from typing import TYPE_CHECKING

from tpuctl.sim.controllers import slices as slice_controller

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tpuctl.sim import clock as clocks
    from tpuctl.sim import hardware as hardwares
    from tpuctl.sim import store as stores
    from tpuctl.sim.controllers import slice_faults

_CLOSE = 0.4
"""How alike a name must be to be suggested (0 to 1)."""
_SLICE_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


class UnknownTarget(LookupError):
    """Nothing of that name to aim at; `near` lists similar names."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.near = near(name, known)
        super().__init__(f"unknown {kind} {name!r}")


def near(name: str, known: Iterable[str]) -> list[str]:
    """Names like this one."""
    return difflib.get_close_matches(name, list(known), n=5, cutoff=_CLOSE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scene:
    """What faults act on."""

    clock: clocks.Clock
    hardware: hardwares.Hardware
    store: stores.Store
    slices: slice_faults.SliceFaults
    former: dict[str, hardwares.Host] = dataclasses.field(default_factory=dict)
    """Names by which hosts were hit: a host whose VM is gone can still be repaired by that name."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Thing:
    """What a name turned out to mean; what it is not stays empty."""

    name: str
    host: hardwares.Host | None = None
    cubes: tuple[hardwares.SubBlock, ...] = ()
    slice_name: str | None = None

    @property
    def its_host(self) -> hardwares.Host:
        """The host. ValueError if it is none, which the table of faults excludes."""
        if self.host is None:
            raise ValueError(f"{self.name} is no host")
        return self.host

    @property
    def its_slice(self) -> str:
        """The slice's name. ValueError if it is none, which the table of faults excludes."""
        if self.slice_name is None:
            raise ValueError(f"{self.name} is no slice")
        return self.slice_name


def node(scene: Scene, name: str) -> Thing:
    """A host, by node name, host id or `<sub-block>/<index>`."""
    try:
        host = scene.hardware.find_host(name)
    except KeyError:
        if name not in scene.former:
            raise UnknownTarget("node", name, _node_names(scene)) from None
        host = scene.former[name]
    scene.former[name] = host
    return Thing(name=name, host=host)


def _node_names(scene: Scene) -> Iterable[str]:
    hosts = (host for cube in scene.hardware.subblocks() for host in cube.hosts)
    return (host.vm.name for host in hosts if host.vm is not None)


def cube(scene: Scene, name: str) -> Thing:
    """A cube, by sub-block name, partition id or node pool."""
    found = _find_cube(scene, name)
    if found is None:
        raise UnknownTarget("cube", name, _cube_names(scene))
    return Thing(name=name, cubes=(found,))


def _find_cube(scene: Scene, name: str) -> hardwares.SubBlock | None:
    try:
        return scene.hardware.find_subblock(name)
    except KeyError:
        return _pools(scene).get(name)


def _pools(scene: Scene) -> dict[str, hardwares.SubBlock]:
    cubes = scene.hardware.subblocks()
    return {host.vm.pool: cube for cube in cubes for host in cube.hosts if host.vm is not None}


def _cube_names(scene: Scene) -> list[str]:
    return [*(cube.name for cube in scene.hardware.subblocks()), *_pools(scene)]


def cube_or_block(scene: Scene, name: str) -> Thing:
    """A cube, or all cubes of a block by its name or its id."""
    blocks = [block for home in scene.hardware.reservations.values() for block in home.blocks]
    for block in blocks:
        if name in {block.name, block.id}:
            return Thing(name=name, cubes=tuple(block.subblocks))
    found = _find_cube(scene, name)
    if found is None:
        known = [*(block.name for block in blocks), *_cube_names(scene)]
        raise UnknownTarget("cube or block", name, known)
    return Thing(name=name, cubes=(found,))


def existing_slice(scene: Scene, name: str) -> Thing:
    """A Slice that is there."""
    if scene.store.get(slice_controller.SLICES, None, name) is None:
        known = [obj["metadata"]["name"] for obj in scene.store.list(slice_controller.SLICES)]
        raise UnknownTarget("slice", name, known)
    return Thing(name=name, slice_name=name)


def slice_to_come_or_cube(scene: Scene, name: str) -> Thing:
    """A cube; any other name that a Slice can have is the name of a slice, there already or not."""
    found = _find_cube(scene, name)
    if found is not None:
        return Thing(name=name, cubes=(found,))
    if not _SLICE_NAME.fullmatch(name):
        raise UnknownTarget("slice or cube", name, _cube_names(scene))
    return Thing(name=name, slice_name=name)


def released_slice(_scene: Scene, name: str) -> Thing:
    """Any name: an object may be gone while its hardware is still held."""
    return Thing(name=name, slice_name=name)
