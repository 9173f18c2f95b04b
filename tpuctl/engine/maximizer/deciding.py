"""One turn of the maximizer on a snapshot: what it would delete, make, merge and make smaller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.engine.maximizer import changes, sizes, standing, turn
from tpuctl.model import topology

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tpuctl.model import declared, fleet

Kind = changes.ChangeKind
DEFAULT = changes.Settings()


def decide(
    snapshot: fleet.Fleet, spec: declared.FleetSpec, settings: changes.Settings = DEFAULT
) -> changes.Round:
    """What one turn of the maximizer does on a snapshot, in the order in which it does it.

    It serves the wanted slices, the largest first, and knows neither priorities, gangs, spares and budgets,
    nor owners and holds. Blocks that the declared state does not name are left out.
    """
    blocks = _blocks(snapshot, spec)
    names = {name: block.id for block in blocks for name in (block.name, block.id) if name}
    wants = sizes.wants(spec, names, halves=settings.halves)
    served = {size.key for want in wants for size in want.sizes}
    keys = {item.name: item.topology for item in snapshot.slices if (item.name, item.topology) in served}
    seen = standing.read(snapshot, blocks, keys)
    played = turn.play([item.pool for item in seen.pools], seen.loose, wants, seen.bad)
    return _Telling(seen, settings, played).round()


def _blocks(snapshot: fleet.Fleet, spec: declared.FleetSpec) -> tuple[fleet.Block, ...]:
    named = {block.name for block in spec.blocks}
    return tuple(block for block in snapshot.blocks if not named or named & {block.name, block.id})


class _Telling:
    """Puts a turn into words and numbers."""

    def __init__(self, seen: standing.Standing, settings: changes.Settings, played: turn.Turn) -> None:
        self._seen = seen
        self._settings = settings
        self._played = played
        self._pools = {item.pool.name: item for item in seen.pools}
        self._fell = {pool.serves[0]: pool for pool in played.deletes if isinstance(pool.serves, tuple)}
        """Wanted slices whose pool is deleted in this turn."""

    def round(self) -> changes.Round:
        deletes = [self._delete(self._pools[pool.name]) for pool in self._played.deletes]
        makes = [self._make(make) for make in self._played.makes]
        return changes.Round(
            changes=(*deletes, *makes),
            waiting=tuple((want.name, self._why_without(want)) for want in self._played.without),
            uses=tuple((use.want.name, str(use.pool.name)) for use in self._played.uses),
        )

    def _delete(self, item: standing.StaticPool) -> changes.Change:
        cubes = item.pool.cubes
        size = f"{len(cubes)} cubes" if len(cubes) > 1 else "1 cube"
        idled = sum(self._seen.ready_chips[cube] for cube in cubes if cube in self._seen.bad)
        return changes.Change(
            kind=Kind.DELETE,
            target=item.pool.name,
            reason=f"unhealthy ({item.why_sick}): a node pool of {size} is whole or is deleted as a whole",
            cubes=cubes,
            block=str(item.pool.ground),
            slices=item.slices,
            pods=item.pods,
            chips=item.chips,
            idled_chips=idled,
            duration=self._settings.operation,
            pool_operations=1,
        )

    def _make(self, make: turn.Make) -> changes.Change:
        merged = [self._pools[pool.name] for pool in make.merged]
        shape = _shape(make.size)
        alone = Kind.CREATE if make.is_full else Kind.WORK_DOWN
        return changes.Change(
            kind=Kind.MERGE if merged else alone,
            target=make.want.name,
            reason=self._why(make, merged),
            cubes=tuple(sorted(make.cubes)),
            block=str(make.ground),
            shape=shape,
            merged=tuple(item.pool.name for item in merged),
            slices=tuple(name for item in merged for name in item.slices),
            pods=sum(item.pods for item in merged),
            chips=sum(item.chips for item in merged),
            duration=self._duration(make, merged),
            pool_operations=1 + len(merged),
        )

    def _duration(self, make: turn.Make, merged: Iterable[standing.StaticPool]) -> changes.Duration:
        if make.want.name in self._fell:
            return self._settings.rebuild
        operation = self._settings.operation
        # All that goes is deleted at once, and nothing is made of its cubes before that.
        return operation.plus(operation) if merged else operation

    def _why(self, make: turn.Make, merged: list[standing.StaticPool]) -> str:
        full, shape = _shape(make.want.sizes[0]), _shape(make.size)
        again = "made again: its pool is unhealthy; " if make.want.name in self._fell else ""
        if not make.is_full:
            why = (
                f"{full} cannot be had ({make.want.sizes[0].cubes} whole cubes); {shape} is the next that can"
            )
        elif merged:
            why = f"{shape} can be had"
        else:
            why = f"{shape} is wanted and there is no pool for it"
        if merged:
            pods = sum(item.pods for item in merged)
            names = ", ".join(str(item.pool.name) for item in merged)
            ends = f", which ends {pods} running pods" if pods else ""
            why += f", merged from {len(merged)} smaller pools ({names}){ends}"
        return again + why

    def _why_without(self, want: turn.Want) -> str:
        least = want.sizes[-1]
        cubes = "1 whole cube" if least.cubes == 1 else f"{least.cubes} whole cubes"
        return f"even {_shape(least)} cannot be had: no block has {cubes} free"


def _shape(size: turn.Size) -> topology.Topology:
    """The shape of a size as `sizes` makes them."""
    if isinstance(size.key, tuple) and isinstance(size.key[1], topology.Topology):
        return size.key[1]
    raise TypeError(f"{size.key} names no shape")
