"""What is to go wrong with slices: formations that fail, dismantlings that fail or get stuck.

Published is that a slice can end in FAILED and that deletions can get stuck in DEACTIVATING; why, and that
the controller tries a failed dismantling again, is assumed.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tpuctl.sim import hardware as hardwares


@dataclasses.dataclass(eq=False)
class Failure:
    """So many failures to come, of one slice by name or of any slice that uses one cube."""

    left: int
    slice_name: str | None = None
    cube: hardwares.SubBlock | None = None


class SliceFaults:
    """Asked by the slice controller before each step that may fail."""

    def __init__(self, *, on_release: Callable[[str], None]) -> None:
        """`on_release` is told the name of a slice whose dismantling may go on."""
        self._on_release = on_release
        self._activations: list[Failure] = []
        self._deactivations: list[Failure] = []
        self._stuck: set[str] = set()

    # Asked for

    def fail_activations(self, failure: Failure) -> None:
        """Let the next formations end in FAILED."""
        self._activations.append(failure)

    def fail_deactivations(self, failure: Failure) -> None:
        """Let the next dismantlings of a deleted slice end in FAILED; the controller tries again later."""
        self._deactivations.append(failure)

    def withdraw(self, failure: Failure) -> None:
        """Let what is left of a failure not happen."""
        failure.left = 0

    def hold(self, name: str) -> None:
        """Keep the slice in DEACTIVATING once it is deleted, until `release`."""
        self._stuck.add(name)

    def release(self, name: str) -> None:
        """Let the dismantling of the slice go on; nothing happens if it is not held."""
        if name in self._stuck:
            self._stuck.discard(name)
            self._on_release(name)

    # Asked by the controller

    def activation_fails(self, name: str, hosts: Iterable[hardwares.Host]) -> bool:
        """Whether this formation fails; uses up one failure."""
        cubes = {host.subblock.name for host in hosts}
        return _use(self._activations, name, cubes)

    def deactivation_fails(self, name: str) -> bool:
        """Whether this dismantling fails; uses up one failure."""
        return _use(self._deactivations, name, frozenset())

    def is_stuck(self, name: str) -> bool:
        return name in self._stuck


def _use(failures: list[Failure], name: str, cubes: Iterable[str]) -> bool:
    failures[:] = [failure for failure in failures if failure.left > 0]
    for failure in failures:
        if failure.slice_name == name or (failure.cube is not None and failure.cube.name in cubes):
            failure.left -= 1
            return True
    return False
