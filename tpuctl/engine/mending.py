"""What can be done about cubes and slices that stand in the way, and the fleet as it is afterwards."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.engine import changes, placement
from tpuctl.engine.inventory import stock
from tpuctl.model import operations

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from tpuctl.engine import tenancy
    from tpuctl.model import fleet, health

Obstacle = placement.Obstacle
Keeper = operations.Keeper


class Act(enum.StrEnum):
    """What can be done; the value is what people read."""

    UNCORDON = "uncordon"
    RELEASE = "release hold"
    FINISH = "finish operation"
    END_PODS = "end the pods of"
    ALLOW_DEGRADED = "allow degraded cubes"
    SWAP = "swap"
    MOVE = "move"
    WAIT = "wait for the end of"
    PREEMPT = "preempt"
    REPAIR = "repair"
    FALL_BACK = "use the fallback"


class Action(NamedTuple):
    """One thing to do."""

    act: Act
    target: str
    """A cube, a slice, an operation, the owner of pods (`NAMESPACE/KIND/NAME`), or a shape."""
    detail: str = ""
    partition_ids: tuple[str, ...] = ()
    """For a move or a swap: what the slice has afterwards."""


class Mend(NamedTuple):
    """What makes one cube usable that nobody uses."""

    obstacle: Obstacle
    cube_id: str
    actions: tuple[Action, ...]


_BY_OBSTACLE = {
    Obstacle.CORDONED: Act.UNCORDON,
    Obstacle.HELD: Act.RELEASE,
    Obstacle.OPERATION: Act.FINISH,
    Obstacle.PODS: Act.END_PODS,
    Obstacle.DEGRADED: Act.REPAIR,
    Obstacle.UNHEALTHY: Act.REPAIR,
    Obstacle.INCOMPLETE: Act.REPAIR,
    Obstacle.UNKNOWN: Act.REPAIR,
    Obstacle.NO_NODES: Act.REPAIR,
}
"""The easiest first."""
ORDER = tuple(_BY_OBSTACLE)
OPENING = (Act.UNCORDON, Act.RELEASE, Act.FINISH, Act.END_PODS)
"""What opens a cube that nothing is wrong with."""
_BY_KEEPER = {Keeper.HOLD: Act.RELEASE, Keeper.OPERATION: Act.FINISH, Keeper.PODS: Act.END_PODS}


def of(slot: stock.Slot) -> Mend | None:
    """What would make a cube usable; None if it is in use, usable, or nothing that is known would help."""
    obstacle = slot.whole_obstacle
    if obstacle not in _BY_OBSTACLE:
        return None
    if not slot.claims:
        return Mend(obstacle, slot.cube.id, (Action(_BY_OBSTACLE[obstacle], slot.cube.id, str(obstacle)),))
    if slot.obstacle is not None:
        return None  # held for a reason, it seems
    actions = [_against(slot.cube.id, holder) for holder in slot.claims]
    found = tuple(dict.fromkeys(action for action in actions if action is not None))
    return Mend(obstacle, slot.cube.id, found) if None not in actions else None


def _against(cube_id: str, holder: str) -> Action | None:
    """What ends one claim.

    Of open operations only a taking apart is known to free its cubes; a swap or a forming may want them.
    """
    keeper, name = operations.kept_by(holder)
    if not name or keeper not in _BY_KEEPER:
        return None
    if keeper is Keeper.OPERATION and not operations.is_of_kind(name, operations.Kind.DEFORM):
        return None
    return Action(_BY_KEEPER[keeper], cube_id if keeper is Keeper.HOLD else name, holder)


def actions_of(mends: Iterable[Mend]) -> list[Action]:
    """All actions, each once: one operation or one owner of pods may keep many cubes."""
    found: dict[tuple[Act, str], Action] = {}
    for mend in mends:
        for action in mend.actions:
            found.setdefault((action.act, action.target), action)
    return list(found.values())


def applied(snapshot: fleet.Fleet, action: Action) -> fleet.Fleet:
    """The fleet after one action."""
    target = (action.target,)
    if action.act is Act.UNCORDON:
        return changes.uncordoned(snapshot, target)
    if action.act in _BY_KEEPER.values():
        return _without_claims(snapshot, action)
    if action.act is Act.REPAIR:
        return changes.repaired(snapshot, target)
    if action.act in (Act.WAIT, Act.PREEMPT):
        return changes.without_slices(snapshot, target)
    if action.act in (Act.MOVE, Act.SWAP):
        return changes.moved(snapshot, action.target, action.partition_ids)
    return snapshot  # the request changes, not the fleet


def can_be_remade(
    snapshot: fleet.Fleet,
    actions: Sequence[Action],
    tenants: tenancy.Tenants,
    policy: health.HealthPolicy,
) -> bool:
    """If true, each slice that is made again can be formed there when its turn comes, by what it tolerates.

    All other actions come before: they open and mend what it is made of.
    """
    remade = [action for action in actions if action.act in (Act.MOVE, Act.SWAP)]
    if not remade:
        return True
    for action in actions:
        snapshot = snapshot if action in remade else applied(snapshot, action)
    items = [snapshot.slices_by_name[action.target] for action in remade]
    part = snapshot.with_blocks(
        blocks_with(snapshot, {part for action in remade for part in action.partition_ids})
    )
    indexes = {
        tolerant: stock.Stock(part, stock.Terms(policy=policy, allow_degraded=tolerant))
        for tolerant in {tenants.of(item).allow_degraded for item in items}
    }
    for item, action in zip(items, remade, strict=True):
        for index in indexes.values():
            index.release(item.name)
        if not _fits_on(indexes[tenants.of(item).allow_degraded], item, action.partition_ids):
            return False
        for index in indexes.values():
            index.take_ids(item.name, action.partition_ids)
    return True


def _fits_on(index: stock.Stock, item: fleet.Slice, partition_ids: tuple[str, ...]) -> bool:
    if item.topology is None:
        return False
    wish = placement.Request(topology=item.topology, cubes=partition_ids)
    return isinstance(placement.place_in(index, wish), placement.Placement)


def blocks_with(snapshot: fleet.Fleet, partition_ids: Collection[str]) -> tuple[fleet.Block, ...]:
    """The blocks in which partitions lie: all that an index need be made of to look at them."""
    return tuple(
        block for block in snapshot.blocks if any(has_any(cube, partition_ids) for cube in block.cubes)
    )


def has_any(cube: fleet.Cube, partition_ids: Collection[str]) -> bool:
    """If true, one of these is the cube or a part of it."""
    return cube.id in partition_ids or any(
        part in partition_ids for host in cube.hosts for part in host.partition_ids
    )


def _without_claims(snapshot: fleet.Fleet, action: Action) -> fleet.Fleet:
    ended: Callable[[operations.Claim], bool]
    if action.act is Act.RELEASE:

        def ended(claim: operations.Claim) -> bool:
            cube_id = snapshot.cube_of_partition.get(claim.cube_id, claim.cube_id)
            return cube_id == action.target and operations.kept_by(claim.holder).keeper is Keeper.HOLD
    else:

        def ended(claim: operations.Claim) -> bool:
            keeper, name = operations.kept_by(claim.holder)
            return name == action.target and _BY_KEEPER.get(keeper) is action.act

    return snapshot.amended(claims=tuple(claim for claim in snapshot.claims if not ended(claim)))
