"""Check health: of everything, or of the cubes, slices and blocks that were named."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.model import errors, fleet, health, states, topology
from tpuctl.ops import absences, naming, views

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SOURCES = (
    fleet.SourceName.NODES,
    fleet.SourceName.SLICES,
    fleet.SourceName.NODE_POOLS,
    fleet.SourceName.CAPACITY,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Checked:
    """A cube or a slice with its judgement."""

    kind: str
    """`cube` or `slice`."""
    id: str
    block: str
    """Label of its block; of a slice, all its blocks with commas between."""
    hosts: int
    """Hosts that have a node."""
    wanted_hosts: int
    slices: tuple[str, ...]
    """Slices on a cube; of a slice, itself."""
    judgement: health.Judgement

    @property
    def key(self) -> tuple[str, str]:
        return self.kind, self.id


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """What a check found."""

    items: tuple[Checked, ...]
    unused: int
    """Sub-blocks without a node pool that were left out: nothing is wrong with them, and nothing is there."""

    def count(self, kind: str, verdict: states.Verdict) -> int:
        return sum(item.kind == kind and item.judgement.verdict is verdict for item in self.items)

    def total(self, kind: str) -> int:
        return sum(item.kind == kind for item in self.items)

    def troubled(self, fail_on: health.FailOn) -> tuple[Checked, ...]:
        """What makes the check fail."""
        return tuple(item for item in self.items if fail_on.is_trouble(item.judgement))


def check(
    snapshot: fleet.Fleet,
    policy: health.HealthPolicy,
    names: Sequence[str] = (),
    missing: Sequence[absences.Absence] = (),
) -> Result:
    """Judge what `names` name, or everything; `missing` are slices that open operations have yet to make.

    Raises NotFound for a name that nothing has; Unavailable if there is nothing to check at all, since an
    empty fleet is more likely a wrong cluster than a healthy one.
    """
    cubes = views.cubes(snapshot, policy)
    slices = views.slices_on(snapshot, cubes, policy)
    owed = {one.slice_name: of_absence(snapshot, one) for one in missing if one.is_wanted}
    if names:
        rest = [name for name in names if name not in owed]
        items = (
            *(owed[name] for name in dict.fromkeys(names) if name in owed),
            *_selected(snapshot, cubes, slices, rest),
        )
    else:
        items = (*_all(cubes, slices), *owed.values())
    if not items:
        raise errors.Unavailable(
            "there is nothing to check: no cube has nodes or a node pool",
            hint="see `tpuctl context show` for the cluster; make cubes with: tpuctl nodepool setup",
        )
    left_out = [view for view in cubes if not names or {view.block.id, view.block.name} & set(names)]
    return Result(items=items, unused=sum(map(is_unused, left_out)))


def is_unused(view: views.CubeView) -> bool:
    """If true, nobody has made a node pool of this sub-block, and nothing else is said against it."""
    cube = view.cube
    if cube.has_nodes or cube.pool is not None:
        return False
    return all(item.origin is health.Origin.NODE for item in view.judgement.troubles)


def of_cube(view: views.CubeView) -> Checked:
    return Checked(
        kind="cube",
        id=view.cube.id,
        block=view.block.label,
        hosts=len(view.cube.hosts),
        wanted_hosts=topology.HOSTS_PER_CUBE,
        slices=view.slices,
        judgement=view.judgement,
    )


def of_slice(view: views.SliceView) -> Checked:
    """Raises ValueError if the view was made without nodes."""
    if view.judgement is None:
        raise ValueError("a slice cannot be judged without its nodes")
    shape = view.slice.topology
    return Checked(
        kind="slice",
        id=view.slice.name,
        block=",".join(block.label for block in view.blocks),
        hosts=view.hosts,
        wanted_hosts=view.hosts if shape is None else shape.hosts,
        slices=(view.slice.name,),
        judgement=view.judgement,
    )


def of_absence(snapshot: fleet.Fleet, missing: absences.Absence) -> Checked:
    """A slice that shall be there and is not: nothing of it works until its operation is finished."""
    cubes = {snapshot.cube_of_partition.get(part, part) for part in missing.partition_ids}
    blocks = [block.label for block in snapshot.blocks if any(cube.id in cubes for cube in block.cubes)]
    trouble = health.Evidence(
        origin=health.Origin.SLICE,
        subject="",
        says=f"{missing.why}; run: {missing.command}",
        points_to=states.Verdict.UNHEALTHY,
        since=missing.operation.started_at if missing.operation is not None else None,
    )
    return Checked(
        kind="slice",
        id=missing.slice_name,
        block=",".join(blocks),
        hosts=0,
        wanted_hosts=0 if missing.topology is None else missing.topology.hosts,
        slices=(missing.slice_name,),
        judgement=health.Judgement(states.Verdict.UNHEALTHY, (trouble,), evidence=(trouble,)),
    )


def _all(cubes: Sequence[views.CubeView], slices: Sequence[views.SliceView]) -> tuple[Checked, ...]:
    used = (view for view in cubes if not is_unused(view))
    return (*map(of_cube, used), *map(of_slice, slices))


def _selected(
    snapshot: fleet.Fleet,
    cubes: Sequence[views.CubeView],
    slices: Sequence[views.SliceView],
    names: Sequence[str],
) -> tuple[Checked, ...]:
    """What the names name, each thing once."""
    wanted = [item for name in names for item in _named(snapshot, cubes, slices, name)]
    return tuple({item.key: item for item in wanted}.values())


def _named(
    snapshot: fleet.Fleet,
    cubes: Sequence[views.CubeView],
    slices: Sequence[views.SliceView],
    name: str,
) -> Iterable[Checked]:
    """A slice with its cubes, a block with its cubes and their slices, or one cube."""
    slice_view = next((view for view in slices if view.slice.name == name), None)
    if slice_view is not None:
        return [of_slice(slice_view), *map(of_cube, slice_view.cubes)]
    of_block = [view for view in cubes if name in (view.block.id, view.block.name)]
    if of_block:
        on_block = {holder for view in of_block for holder in view.slices}
        there = [view for view in slices if view.slice.name in on_block]
        return [*(of_cube(view) for view in of_block if not is_unused(view)), *map(of_slice, there)]
    cube = _cube(snapshot, name)
    return [of_cube(view) for view in cubes if view.cube is cube]


def _cube(snapshot: fleet.Fleet, name: str) -> fleet.Cube:
    try:
        return naming.find_cube(snapshot, name)
    except errors.NotFound as missing:
        raise errors.NotFound(
            f"there is no cube, slice or block '{name}'",
            hint="see: tpuctl cube list -o wide, tpuctl slice list",
        ) from missing
