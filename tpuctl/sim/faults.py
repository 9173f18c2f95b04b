"""Faults that can be put into a running simulator, by name.

One table: what a fault is called, what it is aimed at, and what it does. A new fault is a new entry.
"""

from __future__ import annotations

import dataclasses
import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tpuctl.sim import hardware as hardwares

    Action = Callable[[hardwares.Hardware, str, Mapping[str, int]], str]

_CLOSE = 0.4
"""How alike a name must be to be suggested (0 to 1)."""


class UnknownFault(ValueError):
    """No fault of that name; `near` lists similar ones."""

    def __init__(self, name: str) -> None:
        self.near = _near(name, FAULTS)
        super().__init__(f"unknown fault {name!r}")


class UnknownTarget(LookupError):
    """Nothing of that name to aim at; `near` lists similar names."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.near = _near(name, known)
        super().__init__(f"unknown {kind} {name!r}")


class BadFault(ValueError):
    """The fault does not fit: a parameter is missing, or the target is in the wrong state."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fault:
    """One entry of the table."""

    target: str
    """What it is aimed at: "node" or "cube"."""
    summary: str
    action: Action
    parameters: tuple[str, ...] = ()
    """Numbers it needs besides the target."""


def inject(hardware: hardwares.Hardware, name: str, target: str, parameters: Mapping[str, int]) -> str:
    """Put a fault into the hardware; returns a sentence about what happened.

    Raises `UnknownFault`, `UnknownTarget` or `BadFault`.
    """
    fault = FAULTS.get(name)
    if fault is None:
        raise UnknownFault(name)
    missing = [one for one in fault.parameters if one not in parameters]
    if missing:
        raise BadFault(f"fault {name} needs {', '.join(missing)}")
    unwanted = sorted(set(parameters) - set(fault.parameters))
    if unwanted:
        raise BadFault(f"fault {name} takes no {', '.join(unwanted)}")
    return fault.action(hardware, target, parameters)


def _host(hardware: hardwares.Hardware, name: str) -> hardwares.Host:
    try:
        return hardware.find_host(name)
    except KeyError:
        names = (host.vm.name for cube in hardware.subblocks() for host in cube.hosts if host.vm is not None)
        raise UnknownTarget("node", name, names) from None


def _cube(hardware: hardwares.Hardware, name: str) -> hardwares.SubBlock:
    try:
        return hardware.find_subblock(name)
    except KeyError:
        pools = {host.vm.pool: cube for cube in hardware.subblocks() for host in cube.hosts if host.vm}
        if name in pools:
            return pools[name]
        names = [cube.name for cube in hardware.subblocks()]
        raise UnknownTarget("cube", name, [*names, *pools]) from None


def _host_down(hardware: hardwares.Hardware, target: str, _parameters: Mapping[str, int]) -> str:
    host = _host(hardware, target)
    hardware.host_down(host)
    return f"host {host.index} of {host.subblock.name} is down"


def _host_up(hardware: hardwares.Hardware, target: str, _parameters: Mapping[str, int]) -> str:
    host = _host(hardware, target)
    hardware.host_up(host)
    return f"host {host.index} of {host.subblock.name} is repaired"


def _cube_degraded(hardware: hardwares.Hardware, target: str, _parameters: Mapping[str, int]) -> str:
    cube = _cube(hardware, target)
    hardware.cube_degraded(cube)
    return f"an optical link of {cube.name} is down"


def _cube_restored(hardware: hardwares.Hardware, target: str, _parameters: Mapping[str, int]) -> str:
    cube = _cube(hardware, target)
    hardware.cube_restored(cube)
    return f"the optical links of {cube.name} are up"


def _partial(hardware: hardwares.Hardware, target: str, parameters: Mapping[str, int]) -> str:
    cube, hosts = _cube(hardware, target), parameters["hosts"]
    try:
        hardware.partial(cube, hosts=hosts)
    except ValueError as error:
        raise BadFault(str(error)) from error
    return f"{cube.name} has {hosts} of {len(cube.hosts)} hosts"


FAULTS: dict[str, Fault] = {
    "host-down": Fault(target="node", summary="the machine under a node dies", action=_host_down),
    "host-up": Fault(target="node", summary="the machine is repaired, its VM boots", action=_host_up),
    "cube-degraded": Fault(target="cube", summary="an optical link of a cube fails", action=_cube_degraded),
    "cube-restored": Fault(target="cube", summary="the links of a cube work again", action=_cube_restored),
    "partial": Fault(
        target="cube",
        summary="a cube has fewer hosts than 16, before its pool exists",
        action=_partial,
        parameters=("hosts",),
    ),
}


def _near(name: str, known: Iterable[str]) -> list[str]:
    return difflib.get_close_matches(name, list(known), n=5, cutoff=_CLOSE)
