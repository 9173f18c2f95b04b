"""Who has which host, and which hosts were given back only a moment ago.

Held is the host, not the partition id: a 2x2x2 inside a 4x4x4 has another id and the same hosts.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tpuctl.sim import clock as clocks
    from tpuctl.sim import hardware as hardwares


@dataclasses.dataclass(frozen=True, slots=True)
class Holder:
    """A Slice object, known by its uid: a name may be used again while the old slice is still attached."""

    uid: str
    name: str


class Holds:
    """At most one holder for each host."""

    def __init__(self, clock: clocks.Clock, *, settle_s: float) -> None:
        self._clock = clock
        self._settle_s = settle_s
        self._holders: dict[str, Holder] = {}
        self._released: dict[str, tuple[float, Holder]] = {}

    def take(self, holder: Holder, hosts: Iterable[hardwares.Host]) -> None:
        """Give `hosts` to `holder`; they must be free."""
        for host in hosts:
            other = self._holders.setdefault(host.id, holder)
            if other != holder:
                raise ValueError(f"host {host.id} belongs to slice {other.name}")

    def release(self, holder: Holder, hosts: Iterable[hardwares.Host]) -> None:
        """Take back what `holder` holds of `hosts`; they settle for a while before others can have them."""
        for host in hosts:
            if self._holders.get(host.id) == holder:
                del self._holders[host.id]
                self._released[host.id] = (self._clock.now_s + self._settle_s, holder)

    def holder_of(self, host: hardwares.Host) -> Holder | None:
        return self._holders.get(host.id)

    def settling(self, host: hardwares.Host) -> Holder | None:
        """The former holder that is still attached, or None."""
        until_s, holder = self._released.get(host.id, (0.0, None))
        return holder if self._clock.now_s < until_s else None

    def clear(self) -> None:
        self._holders.clear()
        self._released.clear()
