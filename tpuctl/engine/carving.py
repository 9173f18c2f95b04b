"""Which node pools to make so that every sub-block becomes a cube."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.model import declared, fleet, names, states

if TYPE_CHECKING:
    from collections.abc import Sequence

STANDARD = declared.PoolSettings()
"""How node pools are made where no fleet file says otherwise."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CarvePlan:
    """Pools to make, pools that are there, and names that cannot be used."""

    create: tuple[fleet.PoolSpec, ...]
    existing: tuple[fleet.NodePool, ...]
    """Pools that already serve a wanted sub-block, whatever they are called and whoever made them."""
    stopping: tuple[fleet.NodePool, ...]
    """Pools on their way out: neither capacity nor in the way for ever."""
    clashes: tuple[str, ...]
    """One sentence for each wanted name that a pool for something else has."""


def plan_carving(
    blocks: Sequence[fleet.ReservedBlock],
    pools: Sequence[fleet.NodePool],
    *,
    policy: str,
    block: str | None = None,
    limit: int | None = None,
    settings: declared.PoolSettings = STANDARD,
) -> CarvePlan:
    """One pool for each sub-block, in order of block and sub-block name.

    Pools are made with `policy` and with what else `settings` says; those that exist are taken as they are.
    `block` takes one block only (name or physical id), `limit` the first so many sub-blocks of what is left,
    counting those that have a pool: asking twice for 12 cubes gives 12, not 24.
    """
    wanted = [
        (owner, sub_block)
        for owner in sorted(blocks, key=lambda item: (item.reservation, item.name))
        if block in (None, owner.name, owner.physical_id)
        for sub_block in sorted(owner.sub_blocks)
    ][:limit]
    by_aim = {_aim(pool.reservation, pool.block, pool.sub_block): pool for pool in pools if pool.sub_block}
    by_name = {pool.name: pool for pool in pools}
    create: list[fleet.PoolSpec] = []
    found: list[fleet.NodePool] = []
    clashes: list[str] = []
    for owner, sub_block in wanted:
        name = names.pool_name(sub_block.name, settings.name_prefix)
        aim = _aim(owner.reservation, owner.name, sub_block.name)
        if aim in by_aim:
            found.append(by_aim[aim])
        elif name in by_name:
            other = by_name[name].sub_block or by_name[name].block or "no reservation"
            clashes.append(f"node pool {name} exists, but is aimed at {other}, not at {sub_block.name}")
        else:
            spec = fleet.PoolSpec(name, owner.reservation, owner.name, sub_block.name, policy)
            create.append(_as_declared(spec, settings))
    return CarvePlan(
        create=tuple(create),
        existing=tuple(pool for pool in found if pool.status is not states.PoolStatus.STOPPING),
        stopping=tuple(pool for pool in found if pool.status is states.PoolStatus.STOPPING),
        clashes=tuple(clashes),
    )


def _as_declared(spec: fleet.PoolSpec, settings: declared.PoolSettings) -> fleet.PoolSpec:
    return spec._replace(
        auto_repair=settings.auto_repair,
        auto_upgrade=settings.auto_upgrade,
        max_surge=settings.max_surge,
        max_unavailable=settings.max_unavailable,
    )


def _aim(reservation: str, block: str, sub_block: str) -> tuple[str, str, str]:
    """What a pool is aimed at; a reservation is written as a name or as a path that ends in it."""
    return (reservation.rsplit("/", maxsplit=1)[-1], block, sub_block)
