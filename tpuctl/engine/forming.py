"""What forming a slice comes to: a plan, nothing to do, or a reason against it."""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING

from tpuctl.engine import placement
from tpuctl.model import counts, states

if TYPE_CHECKING:
    from tpuctl.model import fleet


class StepName(enum.StrEnum):
    """Steps of a plan."""

    CREATE_SLICE = "create-slice"
    WAIT_READY = "wait-ready"
    DELETE_SLICE = "delete-slice"
    WAIT_GONE = "wait-gone"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """One named step with what must hold right before it."""

    name: StepName
    target: str
    does: str
    requires: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class FormPlan:
    """Make a slice on these partitions."""

    slice_name: str
    placement: placement.Placement

    @property
    def steps(self) -> tuple[Step, ...]:
        size = self.placement.topology
        return (
            Step(
                name=StepName.CREATE_SLICE,
                target=f"slice/{self.slice_name}",
                does=f"create it with {counts.of(len(self.placement.partition_ids), 'partition')}",
                requires="the partitions are free and usable, the name is free",
            ),
            Step(
                name=StepName.WAIT_READY,
                target=f"slice/{self.slice_name}",
                does=f"wait until it is ACTIVE and its {counts.of(size.hosts, 'host')} carry its label",
                requires="the slice exists",
            ),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Unchanged:
    """The slice is there as asked."""

    slice: fleet.Slice


class ClashKind(enum.Enum):
    OTHER_SPEC = "the name is taken by another slice"
    DELETING = "a slice of this name is still being deleted"
    FAILED = "a slice of this name exists and has failed"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Clash:
    """The name cannot be used."""

    kind: ClashKind
    slice: fleet.Slice
    why: str


def plan_form(
    snapshot: fleet.Fleet, slice_name: str, request: placement.Request
) -> FormPlan | Unchanged | Clash | placement.Refusal:
    """Decide how to get slice `slice_name` as `request` wants it."""
    existing = snapshot.slices_by_name.get(slice_name)
    if existing is not None:
        return _existing(snapshot, existing, request)
    found = placement.place(snapshot, request)
    if isinstance(found, placement.Refusal):
        return found
    return FormPlan(slice_name=slice_name, placement=found)


def _existing(snapshot: fleet.Fleet, item: fleet.Slice, request: placement.Request) -> Unchanged | Clash:
    if item.deleting:
        return Clash(kind=ClashKind.DELETING, slice=item, why="its deletion was asked for and has not ended")
    difference = _difference(snapshot, item, request)
    if difference:
        return Clash(kind=ClashKind.OTHER_SPEC, slice=item, why=difference)
    if item.state.is_failed or item.state is states.SliceState.DEACTIVATING:
        why = f"it is {item.reason}" + (f": {item.message}" if item.message else "")
        return Clash(kind=ClashKind.FAILED, slice=item, why=why)
    return Unchanged(slice=item)


def _difference(snapshot: fleet.Fleet, item: fleet.Slice, request: placement.Request) -> str:
    """How an existing slice differs from what was asked; empty if it does not."""
    if item.raw_topology != str(request.topology):
        return f"it is {item.raw_topology}, not {request.topology}"
    cubes = snapshot.cubes_of(item)
    if request.block is not None and {cube.block for cube in cubes} - {request.block}:
        return f"it is in block {', '.join(sorted({cube.block for cube in cubes}))}, not {request.block}"
    asked = set(request.cubes)
    if request.priority not in (None, item.priority):
        return f"its priority is {item.priority}, not {request.priority}"
    if asked and not request.topology.is_sub_slice and set(item.partition_ids) != asked:
        return "it uses other cubes"
    if (
        asked
        and request.topology.is_sub_slice
        and not asked.intersection({*item.partition_ids, *(cube.id for cube in cubes)})
    ):
        return "it lies in another cube"
    return ""
