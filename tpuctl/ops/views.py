"""A fleet as people ask about it: cubes with verdict and holders, slices with what runs on them, sums."""

from __future__ import annotations

import collections
import dataclasses
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.engine import astray, health
from tpuctl.engine.health import verdicts
from tpuctl.model import fleet, operations, states, topology
from tpuctl.model import health as health_values

if TYPE_CHECKING:
    from collections.abc import Mapping


_MARKS = {
    operations.Keeper.HOLD: "held",
    operations.Keeper.OPERATION: "in operation",
    operations.Keeper.REBOOT: "rebooting",
    operations.Keeper.PODS: "pods left",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class CubeView:
    """One cube with everything that was concluded about it."""

    cube: fleet.Cube
    block: fleet.Block
    judgement: health_values.Judgement
    slices: tuple[str, ...]
    """Slices that hold it or a part of it."""
    claims: tuple[str, ...] = ()
    """Holds and open operations that keep it."""

    @property
    def verdict(self) -> states.Verdict:
        return self.judgement.verdict

    @property
    def reasons(self) -> tuple[str, ...]:
        return self.judgement.reasons

    @property
    def marks(self) -> tuple[str, ...]:
        """What keeps it from new slices besides its health."""
        kept = {_MARKS[operations.kept_by(claim).keeper]: None for claim in self.claims}
        return (*(() if self.is_schedulable else ("cordoned",)), *kept)

    @property
    def pool(self) -> str:
        """Its node pool, from the GKE API if that was read, else from the nodes' labels."""
        if self.cube.pool is not None:
            return self.cube.pool.name
        return next((host.pool for host in self.cube.hosts), "")

    @property
    def is_free(self) -> bool:
        """If true, a slice of whole cubes could take it now."""
        return self.verdict is states.Verdict.HEALTHY and not self.slices and not self.marks

    @property
    def is_schedulable(self) -> bool:
        return all(host.schedulable for host in self.cube.hosts)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SliceView:
    """One slice with where it lies and what runs there."""

    slice: fleet.Slice
    blocks: tuple[fleet.Block, ...]
    cubes: tuple[CubeView, ...]
    hosts: int
    """Hosts found that carry its partitions; 0 if nodes were not read."""
    pods: int | None
    """Unfinished TPU pods on its hosts; None if pods were not read."""
    judgement: health_values.Judgement | None
    """None if nodes were not read: a Ready condition alone is no health."""


class BlockSummary(NamedTuple):
    """One block in numbers."""

    block: fleet.Block
    cubes: int
    healthy: int
    free: int
    """Cubes of the largest slice that fits now."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary:
    """The fleet in numbers."""

    blocks: tuple[BlockSummary, ...]
    cubes: int
    hosts: int
    ready_hosts: int
    reserved_hosts: int | None
    """Hosts in the reservations, with or without a node; None if the Compute API was not asked."""
    by_verdict: Mapping[states.Verdict, int]
    free_cubes: int
    slices: int
    by_state: Mapping[str, int]
    chips_in_slices: int
    chips_ready: int
    pods: int | None


def cubes(
    snapshot: fleet.Fleet, policy: health_values.HealthPolicy = health_values.DEFAULT_POLICY
) -> tuple[CubeView, ...]:
    """Every cube, in the snapshot's order."""
    return tuple(_cube(snapshot, block, cube, policy) for block in snapshot.blocks for cube in block.cubes)


def slices(
    snapshot: fleet.Fleet, policy: health_values.HealthPolicy = health_values.DEFAULT_POLICY
) -> tuple[SliceView, ...]:
    """Every slice, by name."""
    return slices_on(snapshot, cubes(snapshot, policy), policy)


def slices_on(
    snapshot: fleet.Fleet, found: tuple[CubeView, ...], policy: health_values.HealthPolicy
) -> tuple[SliceView, ...]:
    """Every slice, by name, on cubes that were judged already."""
    by_id = {view.cube.id: view for view in found}
    blocks = {block.id: block for block in snapshot.blocks}
    return tuple(
        _slice(snapshot, item, by_id, blocks, policy)
        for item in sorted(snapshot.slices, key=lambda item: item.name)
    )


def summary(
    snapshot: fleet.Fleet, policy: health_values.HealthPolicy = health_values.DEFAULT_POLICY
) -> Summary:
    """Count what there is."""
    views = cubes(snapshot, policy)
    in_slices = sum(len(snapshot.hosts_of(item)) for item in snapshot.slices if item.state.is_ready)
    ready = sum(view.cube.ready_hosts for view in views)
    return Summary(
        blocks=tuple(_block(block, views) for block in snapshot.blocks),
        cubes=len(views),
        hosts=sum(len(view.cube.hosts) for view in views),
        ready_hosts=ready,
        reserved_hosts=_reserved(snapshot),
        by_verdict=collections.Counter(view.verdict for view in views),
        free_cubes=sum(view.is_free for view in views),
        slices=len(snapshot.slices),
        by_state=collections.Counter(item.reason or str(item.state) for item in snapshot.slices),
        chips_in_slices=in_slices * topology.CHIPS_PER_HOST,
        chips_ready=ready * topology.CHIPS_PER_HOST,
        pods=sum(not pod.is_finished for pod in snapshot.pods)
        if snapshot.has(fleet.SourceName.PODS)
        else None,
    )


def _block(block: fleet.Block, views: tuple[CubeView, ...]) -> BlockSummary:
    mine = [view for view in views if view.block is block]
    healthy = sum(view.verdict is states.Verdict.HEALTHY for view in mine)
    return BlockSummary(block, len(mine), healthy, sum(view.is_free for view in mine))


def _reserved(snapshot: fleet.Fleet) -> int | None:
    known = [cube.sub_block.hosts for cube in snapshot.cubes if cube.sub_block is not None]
    return sum(known) if known else None


def _cube(
    snapshot: fleet.Fleet, block: fleet.Block, cube: fleet.Cube, policy: health_values.HealthPolicy
) -> CubeView:
    names = snapshot.holders.get(cube.id, ())
    holders = tuple(snapshot.slices_by_name[name] for name in names)
    judgement = verdicts.of(cube, policy, snapshot.observed_at, holders)
    claims = snapshot.claimants.get(cube.id, ())
    return CubeView(cube=cube, block=block, judgement=judgement, slices=names, claims=claims)


def _slice(
    snapshot: fleet.Fleet,
    item: fleet.Slice,
    by_id: Mapping[str, CubeView],
    blocks: Mapping[str, fleet.Block],
    policy: health_values.HealthPolicy,
) -> SliceView:
    found = tuple(by_id[cube.id] for cube in snapshot.cubes_of(item))
    hosts = snapshot.hosts_of(item)
    return SliceView(
        slice=item,
        blocks=tuple(blocks[block] for block in sorted({view.block.id for view in found})),
        cubes=found,
        hosts=len(hosts),
        pods=len(astray.pods_of(snapshot, item)) if snapshot.has(fleet.SourceName.PODS) else None,
        judgement=_judged(snapshot, item, found, policy) if snapshot.has(fleet.SourceName.NODES) else None,
    )


def _judged(
    snapshot: fleet.Fleet,
    item: fleet.Slice,
    found: tuple[CubeView, ...],
    policy: health_values.HealthPolicy,
) -> health_values.Judgement:
    judged = {view.cube.id: view.judgement for view in found}
    return health.judge_slice(snapshot, item, judged, policy)
