"""A fleet as people ask about it: cubes with verdict and holders, slices with what runs on them, sums."""

from __future__ import annotations

import collections
import dataclasses
from typing import TYPE_CHECKING

from tpuctl.engine import health
from tpuctl.model import states, topology

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tpuctl.model import fleet


@dataclasses.dataclass(frozen=True, kw_only=True)
class CubeView:
    """One cube with everything that was concluded about it."""

    cube: fleet.Cube
    block: fleet.Block
    verdict: states.Verdict
    reasons: tuple[str, ...]
    slices: tuple[str, ...]
    """Slices that hold it or a part of it."""

    @property
    def pool(self) -> str:
        """Its node pool, from the GKE API if that was read, else from the nodes' labels."""
        if self.cube.pool is not None:
            return self.cube.pool.name
        return next((host.pool for host in self.cube.hosts), "")

    @property
    def is_free(self) -> bool:
        """If true, a slice of whole cubes could take it now."""
        return self.verdict is states.Verdict.HEALTHY and not self.slices and self.is_schedulable

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary:
    """The fleet in numbers."""

    blocks: int
    cubes: int
    hosts: int
    ready_hosts: int
    by_verdict: Mapping[states.Verdict, int]
    free_cubes: int
    slices: int
    by_state: Mapping[str, int]
    chips_in_slices: int
    chips_ready: int
    pods: int | None


def cubes(snapshot: fleet.Fleet) -> tuple[CubeView, ...]:
    """Every cube, in the snapshot's order."""
    return tuple(_cube(snapshot, block, cube) for block in snapshot.blocks for cube in block.cubes)


def slices(snapshot: fleet.Fleet) -> tuple[SliceView, ...]:
    """Every slice, by name."""
    by_id = {view.cube.id: view for view in cubes(snapshot)}
    blocks = {block.id: block for block in snapshot.blocks}
    return tuple(
        _slice(snapshot, item, by_id, blocks) for item in sorted(snapshot.slices, key=lambda item: item.name)
    )


def summary(snapshot: fleet.Fleet) -> Summary:
    """Count what there is."""
    views = cubes(snapshot)
    in_slices = sum(len(snapshot.hosts_of(item)) for item in snapshot.slices if item.state.is_ready)
    ready = sum(view.cube.ready_hosts for view in views)
    has_pods = any(source.name == "pods" for source in snapshot.sources)
    return Summary(
        blocks=len(snapshot.blocks),
        cubes=len(views),
        hosts=sum(len(view.cube.hosts) for view in views),
        ready_hosts=ready,
        by_verdict=collections.Counter(view.verdict for view in views),
        free_cubes=sum(view.is_free for view in views),
        slices=len(snapshot.slices),
        by_state=collections.Counter(item.reason or str(item.state) for item in snapshot.slices),
        chips_in_slices=in_slices * topology.CHIPS_PER_HOST,
        chips_ready=ready * topology.CHIPS_PER_HOST,
        pods=sum(not pod.is_finished for pod in snapshot.pods) if has_pods else None,
    )


def _cube(snapshot: fleet.Fleet, block: fleet.Block, cube: fleet.Cube) -> CubeView:
    judgement = health.judge(cube)
    return CubeView(
        cube=cube,
        block=block,
        verdict=judgement.verdict,
        reasons=judgement.reasons,
        slices=snapshot.holders.get(cube.id, ()),
    )


def _slice(
    snapshot: fleet.Fleet,
    item: fleet.Slice,
    by_id: Mapping[str, CubeView],
    blocks: Mapping[str, fleet.Block],
) -> SliceView:
    found = tuple(by_id[cube.id] for cube in snapshot.cubes_of(item))
    hosts = snapshot.hosts_of(item)
    has_pods = any(source.name == "pods" for source in snapshot.sources)
    return SliceView(
        slice=item,
        blocks=tuple(blocks[block] for block in sorted({view.block.id for view in found})),
        cubes=found,
        hosts=len(hosts),
        pods=len(snapshot.pods_on(hosts)) if has_pods else None,
    )
