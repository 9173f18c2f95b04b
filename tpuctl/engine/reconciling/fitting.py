"""Where a slice that is there would go if it were made again: beside all others, with the spares left."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tpuctl.engine import changes, placement
from tpuctl.engine.inventory import recent, stock
from tpuctl.engine.reconciling import suspicion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tpuctl.engine.reconciling import wanted
    from tpuctl.engine.reconciling.draft import Draft
    from tpuctl.model import fleet, topology


class Place(NamedTuple):
    """A shape that fits, and where."""

    topology: topology.Topology
    block: str
    partition_ids: tuple[str, ...]


def best_option(draft: Draft, want: wanted.Want, item: fleet.Slice) -> Place | None:
    """The first of its shapes that fits once it is gone."""
    found = together(draft, [want], [item], len(want.shapes))
    return None if found is None else found[0]


def together(
    draft: Draft, wants: Sequence[wanted.Want], items: Sequence[fleet.Slice], options: int
) -> tuple[Place, ...] | None:
    """Places for all of a unit in the first of its `options` shapes in which they fit together."""
    names = [item.name for item in items]
    for option in range(options):

        def attempt(left_out: tuple[str, ...], option: int = option) -> tuple[Place, ...] | None:
            return _all(draft, _index(draft, names, wants, left_out), wants, option)

        places = suspicion.fewest(draft, attempt)
        if places is not None:
            return places
    return None


def _index(
    draft: Draft, names: Sequence[str], wants: Sequence[wanted.Want], left_out: Sequence[str]
) -> stock.Stock:
    """An index of its own, since it is taken from."""
    without = suspicion.without(draft.ours(changes.without_slices(draft.snapshot, names)), left_out)
    tolerant = all(want.entry.allow_degraded for want in wants)
    one = names[0] if len(names) == 1 else ""
    return stock.Stock(
        without, stock.Terms(policy=draft.view.policy, allow_degraded=tolerant, slice_name=one)
    )


def _all(
    draft: Draft, index: stock.Stock, wants: Sequence[wanted.Want], option: int
) -> tuple[Place, ...] | None:
    """The largest first, as the packing does; in the order of `wants` in the end."""
    shapes = [want.shapes[min(option, len(want.shapes) - 1)] for want in wants]
    priority = min(want.entry.priority for want in wants)
    found: dict[int, Place] = {}
    same_block = len(wants) > 1 and any(want.entry.same_block for want in wants)
    block: str | None = None
    for number in sorted(range(len(wants)), key=lambda number: (-shapes[number].chips, number)):
        place = _one(draft, index, wants[number], shapes[number], priority, block)
        if place is None:
            return None
        index.take_ids(wants[number].name, place.partition_ids)
        found[number] = place
        block = place.block if same_block else block
    return tuple(found[number] for number in range(len(wants)))


def _one(
    draft: Draft,
    index: stock.Stock,
    want: wanted.Want,
    shape: topology.Topology,
    priority: int,
    only: str | None,
) -> Place | None:
    """The block with the least room that suffices beside its own spares."""
    fitting = []
    for block in draft.ours(draft.view.snapshot).blocks:
        if only not in (None, block.id) or want.entry.block not in ("", block.name, block.id):
            continue
        request = placement.Request(
            topology=shape, block=block.id, keep_free=draft.spares_of(block, priority)
        )
        chosen = placement.choose(index, request)
        if chosen is not None:
            free = index.free[index.number_of_block[block.id]].bit_count()
            fitting.append((free - request.keep_free, Place(shape, chosen[0], chosen[2])))
    return min(fitting, key=lambda entry: (entry[0], entry[1].block))[1] if fitting else None


def free_cubes(draft: Draft) -> int:
    """Healthy cubes that are free in all blocks together: moving slices makes no more of them."""
    snapshot = draft.ours(draft.snapshot)
    index = recent.of(snapshot, stock.Terms(policy=draft.view.policy))
    return sum(free.bit_count() for free in index.free)
