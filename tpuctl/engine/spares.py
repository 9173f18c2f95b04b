"""How many cubes each block should keep free, and how many it does."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.engine.availability import spares as formulas
from tpuctl.engine.inventory import recent, stock
from tpuctl.model import health as health_values

if TYPE_CHECKING:
    from tpuctl.model import fleet


@dataclasses.dataclass(frozen=True, kw_only=True)
class BlockSpares:
    """One block."""

    block: str
    in_slices: int
    """Cubes that slices of whole cubes have: what the spares stand behind."""
    largest: int
    """Cubes of its largest slice."""
    free: int
    """Healthy and free now."""
    needed: int
    """To replace failed cubes with the confidence asked for."""
    pays_below: float
    """Break-even for its largest slice: that many spares or more cost more than they save."""

    @property
    def missing(self) -> int:
        return max(self.needed - self.free, 0)

    @property
    def pays(self) -> bool:
        return self.needed < self.pays_below


def advise(
    snapshot: fleet.Fleet,
    outages: formulas.Outages,
    confidence: float,
    *,
    recovery_h: float,
    policy: health_values.HealthPolicy = health_values.DEFAULT_POLICY,
) -> tuple[BlockSpares, ...]:
    """One line for each block, by id. Raises ValueError for a confidence that no number reaches."""
    index = recent.of(snapshot, stock.Terms(policy=policy))
    sizes: list[dict[str, int]] = [{} for _ in index.blocks]
    for item in snapshot.slices:
        if item.topology is not None and not item.topology.is_sub_slice:
            for slot in index.held.get(item.name, ()):
                sizes[slot.block][item.name] = sizes[slot.block].get(item.name, 0) + 1
    found = []
    for number, block in enumerate(index.blocks):
        in_slices = sum(sizes[number].values())
        largest = max(sizes[number].values(), default=0)
        needed = formulas.needed(in_slices, outages.cube_unavailability, confidence) if in_slices else 0
        found.append(
            BlockSpares(
                block=block,
                in_slices=in_slices,
                largest=largest,
                free=index.free[number].bit_count(),
                needed=needed,
                pays_below=formulas.break_even(largest, outages, recovery_h),
            )
        )
    return tuple(found)
