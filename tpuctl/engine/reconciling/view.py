"""What a cycle looks at, and whether that may be trusted at all."""

from __future__ import annotations

import collections
import dataclasses
import functools
from typing import TYPE_CHECKING

from tpuctl.engine import leftovers
from tpuctl.engine.reconciling import contested, wanted
from tpuctl.model import fleet, reconciling, topology

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterator, Mapping

    from tpuctl.model import declared, health
    from tpuctl.model import operations as journal

SOURCES = (
    fleet.SourceName.NODES,
    fleet.SourceName.SLICES,
    fleet.SourceName.PODS,
    fleet.SourceName.NODE_POOLS,
    fleet.SourceName.CAPACITY,
    fleet.SourceName.CLAIMS,
)
"""Without any of these nothing is decided: what one of them did not tell would look like absence."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class View:
    """Everything that a decision may depend on; the same view gives the same decision."""

    snapshot: fleet.Fleet
    """Read from all of `SOURCES`."""
    spec: declared.FleetSpec
    spec_digest: str
    memory: reconciling.Memory
    blocks: tuple[fleet.ReservedBlock, ...]
    """As the Compute API lists them."""
    pools: tuple[fleet.NodePool, ...]
    operations: tuple[journal.Operation, ...] = ()
    """Open ones; who works on one that another process is busy with gets a conflict on its lock."""
    repairing: frozenset[str] = frozenset()
    """Ids of cubes with an open repair, or one that ended so recently that they are left alone."""
    policy: health.HealthPolicy
    pool_policy: str
    """The context's workload policy, for blocks that name none."""
    mode: declared.Mode
    pause: reconciling.Pause | None = None
    pool_operations: int = 0
    """Creations and deletions of node pools that are in flight."""

    @property
    def now(self) -> datetime.datetime:
        """The only clock that a decision knows."""
        return self.snapshot.observed_at

    @functools.cached_property
    def wants(self) -> Mapping[str, wanted.Want]:
        """Wanted slices by name, in the order of the declared state."""
        return wanted.by_name(self.spec)

    @functools.cached_property
    def busy(self) -> frozenset[str]:
        """Slices that an open operation works on: nobody else decides about them."""
        claimed = {claim.slice_name for claim in self.snapshot.claims if claim.slice_name}
        return frozenset(claimed | {operation.slice_name for operation in self.operations})

    @functools.cached_property
    def cubes_in_slices(self) -> frozenset[str]:
        """Cubes that a slice holds, wholly or in part."""
        known = self.snapshot.cubes_by_id
        named = {part for item in self.snapshot.slices for part in item.partition_ids}
        if any(part not in known for part in named):
            return frozenset(self.snapshot.holders)
        return frozenset(named)

    @functools.cached_property
    def contested(self) -> frozenset[str]:
        """Slices that name hardware which another one names as well."""
        return contested.slices(self.snapshot)

    @functools.cached_property
    def held_cubes(self) -> frozenset[str]:
        """Cubes that a person keeps out of placement."""
        claims = [claim for claim in self.snapshot.claims if not claim.slice_name]
        if not claims:
            return frozenset()
        cube_of = self.snapshot.cube_of_partition
        return frozenset(cube_of.get(claim.cube_id, claim.cube_id) for claim in claims)

    @functools.cached_property
    def pools_by_name(self) -> Mapping[str, fleet.NodePool]:
        return {pool.name: pool for pool in self.pools}

    @functools.cached_property
    def operations_by_id(self) -> Mapping[str, journal.Operation]:
        return {operation.id: operation for operation in self.operations}

    @functools.cached_property
    def cube_of_pool(self) -> Mapping[str, fleet.Cube]:
        """Name of a node pool -> the cube that it makes."""
        found = {host.pool: cube for cube in self.snapshot.cubes for host in cube.hosts[:1] if host.pool}
        return {cube.pool.name: cube for cube in self.snapshot.cubes if cube.pool is not None} | found

    @functools.cached_property
    def holders(self) -> Mapping[str, tuple[str, ...]]:
        """Cube id -> slices that hold it or a part of it."""
        return self.snapshot.holders

    def members(self, item: fleet.Slice) -> tuple[fleet.Cube, ...]:
        """The cubes of a slice, as far as they have nodes; the big table is made for sub-slices only."""
        known = self.snapshot.cubes_by_id
        if item.topology is not None and not item.topology.is_sub_slice:
            return tuple(known[part] for part in item.partition_ids if part in known and known[part].hosts)
        return self.snapshot.cubes_of(item)

    @functools.cached_property
    def pods_by_cube(self) -> Mapping[str, tuple[fleet.Pod, ...]]:
        """Cube id -> unfinished TPU pods on its hosts, and on nodes of its pool that lack its label."""
        return self.snapshot.derived(_pods_by_cube)

    @functools.cached_property
    def occupied(self) -> fleet.Fleet:
        """The snapshot with pods that outlived their slice counted as claims."""
        return leftovers.with_leftovers(self.snapshot)


UNWANTED = "unwanted"
"""Kind of sighting: a slice of ours that the declared state does not name."""


def attended(view: View) -> View:
    """The view as it is judged for a person who reads the plan before anything is done.

    That the first cycle only observes, and that what is not wanted any more stays for a grace, is for a loop
    that nobody watches: a slip in the fleet file must not end anything before somebody can notice.
    """
    memory = view.memory
    seen = [entry for entry in memory.sightings if entry.kind != UNWANTED]
    leaving = [item.name for item in view.snapshot.slices if item.name not in view.wants]
    known = {entry.subject: entry.since for entry in memory.sightings if entry.kind == UNWANTED}
    seen += [reconciling.Sighting(UNWANTED, name, known.get(name, view.now), 1) for name in leaving]
    return dataclasses.replace(
        view,
        spec=dataclasses.replace(view.spec, prune_grace_s=0.0),
        memory=dataclasses.replace(memory, observed_at=memory.observed_at or view.now, sightings=tuple(seen)),
    )


def distrust(view: View) -> str:
    """Why nothing may be decided on this view; empty if it is whole, consistent and no older than the memory.

    A source that was not read, or a list that contradicts itself, looks like missing hardware.
    """
    missing = [str(name) for name in SOURCES if not view.snapshot.has(name)]
    if missing:
        return f"not read: {', '.join(missing)}"
    doubles = view.snapshot.derived(_doubles_told)
    if doubles:
        return doubles
    newest = _newest(view.memory)
    if newest is not None and view.now < newest:
        return f"the view is of {view.now:%Y-%m-%d %H:%M:%S}, older than what the loop has seen already"
    return ""


def _pods_by_cube(snapshot: fleet.Fleet) -> Mapping[str, tuple[fleet.Pod, ...]]:
    running = [pod for pod in snapshot.pods if not pod.is_finished and pod.node]
    if not running:
        return {}
    cube_of = {name: cube.id for cube in snapshot.cubes for name in cube.strays}
    cube_of.update((host.name, cube.id) for cube in snapshot.cubes for host in cube.hosts)
    found: dict[str, list[fleet.Pod]] = {}
    for pod in running:
        if pod.node in cube_of:
            found.setdefault(cube_of[pod.node], []).append(pod)
    return {cube_id: tuple(pods) for cube_id, pods in found.items()}


def _doubles_told(snapshot: fleet.Fleet) -> str:
    return next(_doubles(snapshot), "")


def _doubles(snapshot: fleet.Fleet) -> Iterator[str]:
    for what, names in (
        ("block", [block.id for block in snapshot.blocks]),
        ("cube", [cube.id for cube in snapshot.cubes]),
        ("slice", [item.name for item in snapshot.slices]),
        ("host", [host.name for cube in snapshot.cubes for host in cube.hosts]),
    ):
        if len(set(names)) < len(names):
            name, count = collections.Counter(names).most_common(1)[0]
            yield f"{what} {name} occurs {count} times in one view"
    for cube in snapshot.cubes:
        if len(cube.hosts) > topology.HOSTS_PER_CUBE:
            yield f"cube {cube.id} has {len(cube.hosts)} hosts, more than {topology.HOSTS_PER_CUBE}"


def _newest(memory: reconciling.Memory) -> datetime.datetime | None:
    """The latest time that was taken from a snapshot."""
    times = [sighting.since for sighting in memory.sightings]
    times += [disruption.at for disruption in memory.disruptions]
    return max(times, default=memory.observed_at)
