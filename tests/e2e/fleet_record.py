"""What happened to a fleet, as the simulator itself saw it: nothing of it comes from the loop.

It follows the objects where they are stored, so that nothing between two looks is missed, and reads the
operations that the simulated services kept.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

from tpuctl.model import topology

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tpuctl.sim import simulator as simulators

Object = dict[str, Any]

SLICES = "slices.accelerator.gke.io"
READY = frozenset({"ACTIVE", "ACTIVE_DEGRADED"})
HOUR_S = 3600.0
POOL_KINDS = ("CREATE_NODE_POOL", "DELETE_NODE_POOL")


class Disruption(NamedTuple):
    """A slice that ran, and was deleted."""

    at_s: float
    slice_name: str
    chips: int


class Span(NamedTuple):
    """Something that went on for a time."""

    start_s: float
    end_s: float
    subject: str


class Record:
    """Follows one simulator from now on. `wanted`: chips of each wanted slice in the shape wanted most."""

    def __init__(self, simulator: simulators.Simulator, wanted: Mapping[str, int]) -> None:
        self._simulator = simulator
        self._clock = simulator.world.clock
        self._wanted = dict(wanted)
        self._holders: dict[str, str] = {}
        """Host -> the slice whose object names it."""
        self._ready: dict[str, list[tuple[float, int]]] = {
            name: [(self._clock.now_s, 0)] for name in self._wanted
        }
        """Slice -> (from when, chips that are ready)."""
        self.lost_s = 0.0
        """When a wanted slice last ceased to be ready."""
        self.disruptions: list[Disruption] = []
        self.doubles: list[str] = []
        """Hosts that two slices named at the same time."""
        self.others: set[str] = set()
        """Operations on node pools that people began."""
        simulator.call(lambda: simulator.world.store.subscribe(SLICES, self._follow))

    # -- following ---------------------------------------------------------------------------------------

    def _follow(self, kind: str, old: Object | None, new: Object) -> None:
        name = new["metadata"]["name"]
        if kind == "ADDED":
            self._take(name, new)
        if kind == "DELETED":
            self._holders = {host: holder for host, holder in self._holders.items() if holder != name}
        ready = _ready_chips(new) if kind != "DELETED" else 0
        before = _ready_chips(old) if old is not None else 0
        if before and (kind == "DELETED" or "deletionTimestamp" in new["metadata"]):
            self.disruptions.append(Disruption(self._clock.now_s, name, before))
        if name in self._wanted and ready != self._ready[name][-1][1]:
            self.lost_s = self.lost_s if ready else self._clock.now_s
            self._ready[name].append((self._clock.now_s, ready))

    def _take(self, name: str, item: Object) -> None:
        hardware = self._simulator.world.hardware
        for partition in item["spec"]["partitionIds"]:
            for host in hardware.partition_hosts(partition):
                other = self._holders.setdefault(host.id, name)
                if other != name:
                    self.doubles.append(f"host {host.id} is named by slices {other} and {name}")

    # -- measures ----------------------------------------------------------------------------------------

    @property
    def is_whole(self) -> bool:
        """If true, every wanted slice is ready now, in the shape wanted most."""
        return all(self._ready[name][-1][1] >= chips for name, chips in self._wanted.items())

    def active_share(self, from_s: float, to_s: float) -> float:
        """Ready chips of the wanted ones, on average over time; a smaller shape counts with its own chips."""
        ready = sum(
            min(chips, self._wanted[name]) * max(min(end_s, to_s) - max(at_s, from_s), 0.0)
            for name, changes in self._ready.items()
            for (at_s, chips), end_s in zip(changes, [*(at for at, _ in changes[1:]), to_s], strict=True)
        )
        return ready / (sum(self._wanted.values()) * (to_s - from_s))

    def most_disrupted(self, window_s: float = HOUR_S) -> int:
        """Chips of running slices that were interrupted in the worst hour."""
        return max(
            (
                sum(one.chips for one in self.disruptions if last.at_s - window_s < one.at_s <= last.at_s)
                for last in self.disruptions
            ),
            default=0,
        )

    def pool_operations(self) -> list[Span]:
        """Creations and deletions of node pools that the loop began."""
        return self._simulator.call(
            lambda: [
                Span(one.started_s, self._end_s(one.ended_s), one.pool or "")
                for one in self._simulator.world.gke.operations
                if one.kind in POOL_KINDS and one.name not in self.others
            ]
        )

    def failed_creations(self) -> list[str]:
        """Node pools whose creation ended in an error."""
        return self._simulator.call(
            lambda: [
                one.pool or ""
                for one in self._simulator.world.gke.operations
                if one.kind == "CREATE_NODE_POOL" and one.failure is not None
            ]
        )

    def repairs(self) -> list[Span]:
        """Work on cubes: a pool that is made again, a VM that is reset, a host that is reported.

        A pool is under repair from the beginning of its deletion to the end of its creation.
        """
        return self._simulator.call(lambda: [*self._remade(), *self._mended()])

    def _remade(self) -> Iterable[Span]:
        operations = [one for one in self._simulator.world.gke.operations if one.name not in self.others]
        for one in operations:
            if one.kind != "DELETE_NODE_POOL":
                continue
            made = (
                other.ended_s
                for other in operations
                if other.kind == "CREATE_NODE_POOL"
                and other.pool == one.pool
                and other.started_s >= one.started_s
            )
            yield Span(one.started_s, self._end_s(next(made, None)), one.pool or "")

    def _mended(self) -> Iterable[Span]:
        world = self._simulator.world
        for one in world.compute.operations._all.values():
            if one.kind in ("reset", "reportHostAsFaulty"):
                # Instances of one pool, and so of one cube, begin with the same name.
                cube = one.target.rpartition("/")[2].rpartition("-")[0]
                yield Span(one.started_s, self._end_s(one.ended_s), cube)

    def _end_s(self, ended_s: float | None) -> float:
        return self._clock.now_s if ended_s is None else ended_s


def peak(spans: Sequence[Span]) -> int:
    """Subjects at work at once, at most."""
    moments = sorted({span.start_s for span in spans})
    return max(
        (
            len({span.subject for span in spans if span.start_s <= moment < span.end_s})
            for moment in itertools.chain(moments)
        ),
        default=0,
    )


def _ready_chips(item: Object) -> int:
    """Its chips if it is ready and stays, else none."""
    if "deletionTimestamp" in item["metadata"]:
        return 0
    conditions = item.get("status", {}).get("conditions", [])
    reason = next((one.get("reason", "") for one in conditions if one["type"] == "Ready"), "")
    return topology.parse(item["spec"]["topology"]).chips if reason in READY else 0
