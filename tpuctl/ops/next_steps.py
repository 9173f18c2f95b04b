"""What to do next about a slice that has failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.engine import placement, swapping
from tpuctl.model import counts, errors, fleet, health, states

if TYPE_CHECKING:
    from tpuctl.ops import ports as ports_module

SOURCES = (fleet.SourceName.NODES, fleet.SourceName.SLICES)


def of_failed(
    snapshot: fleet.Fleet, item: fleet.Slice, policy: health.HealthPolicy = health.DEFAULT_POLICY
) -> str:
    """A sentence with the commands; needs nodes and slices. What keeps most pods running comes first."""
    name, apart = item.name, f"tpuctl slice deform {item.name}"
    if item.deleting:
        return "it is being deleted: wait until it is gone"
    if item.state is states.SliceState.CREATION_FAILED and item.retries:
        return f"GKE tries again by itself; follow it with: tpuctl slice wait {name}"
    if item.owner is not None and item.owner != fleet.BY_HAND:
        return f"it belongs to {item.owner}: act on that {item.owner.kind or 'object'}"
    found = swapping.plan_swap(snapshot, item, swapping.Wish(policy=policy))
    if isinstance(found, swapping.SwapPlan):
        return (
            f"tpuctl slice swap {name} --auto exchanges its broken cubes and keeps the pods of the others; "
            f"or take it apart: {apart}"
        )
    if isinstance(found, placement.Refusal):
        verb = "is" if found.needed == 1 else "are"
        spares = f"{counts.of(found.needed, 'spare cube')} of its block {verb}"
        return (
            f"{spares} needed to swap in, {found.usable} usable: "
            f"free or repair some, then: tpuctl slice swap {name} --auto; or take it apart: {apart}"
        )
    again = f"tpuctl slice form {name} --topology {item.raw_topology}"
    return f"take it apart and make it again: {apart}, then {again}"


def refuse_if_failed(ports: ports_module.Ports, name: str) -> None:
    """Raise Conflict with what to do if a slice is down of which no cube is known to be broken.

    Its hosts may be back, or their failure is not seen yet: to call it unchanged would sound like mended.
    """
    item = ports.slices.get(name)
    if item is not None and item.state.is_failed:
        raise errors.Conflict(
            f"slice {name} is {item.reason or item.state}, and no cube of it is known to be broken",
            hint=looked_up(ports, item),
        )


def looked_up(ports: ports_module.Ports, item: fleet.Slice) -> str:
    """The same after a look at the fleet; if that fails, where to look."""
    try:
        snapshot = ports.fleet.observe(SOURCES)
    except errors.TpuctlError as error:
        # The failure of the slice is the news, and it is told in any case.
        return f"see: tpuctl slice show {item.name} (the fleet could not be read: {error.message})"
    return of_failed(snapshot, item)
