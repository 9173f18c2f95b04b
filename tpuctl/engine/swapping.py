"""Hot swap: which cubes to exchange, and what to do next.

The service has no replacement in place: a swap deletes the Slice and makes it again under the same name with
another list of partitions. `next_step` looks at what the record intends and what the world is, and names the
one step that follows. It is asked again after every step, so a run that died is finished by asking the same
question on another machine.

Two stores take part: the record says what is intended and how far we have committed ourselves, the world
says what is. Invariant: from the moment the old Slice may be gone until the new one is ready, the record
exists and claims the partitions of both.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.engine import astray, health, placement, swap_radius
from tpuctl.model import fleet, operations, states, topology
from tpuctl.model import health as health_values

if TYPE_CHECKING:
    import datetime
    from collections.abc import Sequence

Intent = operations.Intent


@dataclasses.dataclass(frozen=True, kw_only=True)
class SwapPlan:
    """Exchange these cubes."""

    slice: fleet.Slice
    exchanges: tuple[operations.Exchange, ...]
    partitions: tuple[str, ...]
    """What the Slice will have, sorted."""
    reasons: tuple[str, ...]
    """Why each old cube goes, in the order of `exchanges`."""
    pods: tuple[operations.PodRef, ...]
    cordons: tuple[str, ...]
    """Hosts of the old cubes that nobody has cordoned yet."""

    @property
    def restarted(self) -> tuple[operations.PodRef, ...]:
        return tuple(pod for pod in self.pods if pod.replaced)

    @property
    def kept(self) -> tuple[operations.PodRef, ...]:
        return tuple(pod for pod in self.pods if not pod.replaced)


class Whole(NamedTuple):
    """No cube of the slice needs to go."""

    slice: fleet.Slice


class Why(enum.Enum):
    """Why a slice cannot be swapped at all."""

    SUB_SLICE = "it is a sub-slice: its one partition cannot be exchanged for part of another cube's network"
    UNKNOWN_CUBE = "a cube of it is not known to the nodes, so its block cannot be told"
    NOT_A_MEMBER = "it has no such cube"
    MOVING = "it is being formed or taken apart"
    SHAPE = "its shape is none that can be formed"
    ASTRAY = (
        "pods run on nodes without a partition label, and which cube or slice these are of cannot be told"
    )


_FORMING = (states.SliceState.CREATED, states.SliceState.NOT_CREATED, states.SliceState.ACTIVATING)


class Impossible(NamedTuple):
    """The slice cannot be swapped."""

    why: Why
    detail: str


class Wish(NamedTuple):
    """What the user asked for."""

    bad: tuple[str, ...] = ()
    """Cube ids to exchange; empty: those that are broken."""
    replacements: tuple[str, ...] = ()
    """Cube ids to use, in the order of `bad`; empty: the engine chooses."""
    allow_degraded: bool = False
    include_degraded: bool = False
    """If true, degraded cubes count as broken when `bad` is empty."""
    without: tuple[str, ...] = ()
    """Cubes not to use."""
    policy: health_values.HealthPolicy = health_values.DEFAULT_POLICY
    in_place: bool = False
    """If true, nothing is exchanged: a slice that is down is made again on its own partitions, under its
    pods."""


def plan_swap(
    snapshot: fleet.Fleet, item: fleet.Slice, wish: Wish
) -> SwapPlan | Whole | Impossible | placement.Refusal:
    """Choose which cubes of `item` go and which come, all of one block."""
    if item.deleting or item.state in _FORMING:
        return Impossible(Why.MOVING, item.reason or str(item.state))
    if wish.in_place:
        return _in_place(snapshot, item)
    if item.topology is None or item.topology.is_sub_slice:
        return Impossible(Why.SUB_SLICE, str(item.raw_topology))
    members = {cube.id: cube for cube in snapshot.cubes_of(item)}
    unknown = sorted(set(item.partition_ids) - set(members))
    if not members:
        return Impossible(Why.UNKNOWN_CUBE, ", ".join(unknown[:3]))
    strangers = sorted(set(wish.bad) - set(item.partition_ids))
    if strangers:
        return Impossible(Why.NOT_A_MEMBER, ", ".join(strangers))
    lost = () if astray.instead_of_lost(snapshot, item) else unknown
    bad = _chosen_bad(members, lost, wish, snapshot.observed_at)
    if not bad:
        return Whole(item)
    riddle = swap_radius.riddle(snapshot, item, bad, unknown)
    if riddle:
        return Impossible(Why.ASTRAY, riddle)
    found = _replacements(snapshot, item, bad, wish, next(iter(members.values())).block)
    if isinstance(found, placement.Refusal):
        return found
    news = [entry for entry in wish.replacements if entry in found] or list(found)
    exchanges = tuple(map(operations.Exchange, bad, news))
    return SwapPlan(
        slice=item,
        exchanges=exchanges,
        partitions=tuple(sorted({*item.partition_ids} - {*bad} | {*news})),
        reasons=tuple(_reason(snapshot, item, members.get(cube_id), wish) for cube_id in bad),
        pods=swap_radius.pods(snapshot, item, bad),
        cordons=swap_radius.cordons(snapshot, item, bad),
    )


def _in_place(snapshot: fleet.Fleet, item: fleet.Slice) -> SwapPlan | Whole | Impossible:
    if item.topology is None:
        return Impossible(Why.SHAPE, item.raw_topology)
    if item.state.is_ready:
        return Whole(item)
    return SwapPlan(
        slice=item,
        exchanges=(),
        partitions=item.partition_ids,
        reasons=(),
        pods=swap_radius.pods(snapshot, item, ()),
        cordons=(),
    )


class StepName(enum.StrEnum):
    """What can follow, in the usual order."""

    CORDON = "cordon"
    DELETE = "delete-slice"
    WAIT_GONE = "wait-gone"
    CREATE = "create-slice"
    WAIT_READY = "wait-ready"
    TRY_OTHERS = "try-other-cubes"
    RESTART_PODS = "restart-pods"
    UNCORDON = "uncordon"
    CLOSE = "close"
    STOP = "stop"


class Step(NamedTuple):
    """The one thing to do now."""

    name: StepName
    why: str = ""


class World(NamedTuple):
    """What is, as far as an operation needs it."""

    slice: fleet.Slice | None
    labelled_hosts: int
    """Nodes that carry the slice's label."""
    cordoned: tuple[str, ...]
    """Hosts that carry this operation's mark."""
    live_pods: frozenset[str]
    """uids of those pods of replaced cubes that exist and are not finished; read once their time has come."""
    hosts: frozenset[str]
    """Nodes that exist."""


def next_step(operation: operations.Operation, world: World) -> Step:
    """What follows from intent and world; pure, so every crash point is a row of a table."""
    if operation.kind is operations.Kind.FORM:
        return _next_of_form(operation, world)
    if operation.kind is operations.Kind.DEFORM:
        return _next_of_deform(operation, world)
    return _next_of_swap(operation, world)


def _next_of_swap(operation: operations.Operation, world: World) -> Step:
    item = world.slice
    if operation.aborting and operation.intent is Intent.PLANNED:
        return _tidy(world)
    if operation.intent is Intent.RESTARTING:
        return _restarting(operation, world)
    if item is not None and item.uid == operation.old_uid:
        return _old_slice(operation, item, world)
    if item is None:
        return _no_slice(operation, world)
    return _new_slice(operation, item, world)


def _old_slice(operation: operations.Operation, item: fleet.Slice, world: World) -> Step:
    if item.deleting:
        return Step(StepName.WAIT_GONE)
    if operation.aborting:
        return _tidy(world)  # we died before its deletion was asked for: it is what we want back
    missing = set(operation.cordons) - set(world.cordoned)
    if missing & world.hosts:
        return Step(StepName.CORDON, f"{len(missing & world.hosts)} hosts")
    return Step(StepName.DELETE)


def _no_slice(operation: operations.Operation, world: World) -> Step:
    if operation.intent is Intent.PLANNED:
        return Step(StepName.STOP, "the slice was deleted by somebody else before the swap began")
    if world.labelled_hosts:
        return Step(StepName.WAIT_GONE)
    return Step(StepName.CREATE)


def _new_slice(operation: operations.Operation, item: fleet.Slice, world: World) -> Step:
    if item.owner is not None:
        return _of_others(operation, world, f"slice {item.name} was made anew by {item.owner}")
    if set(item.partition_ids) != set(operation.partitions) or operation.intent is Intent.PLANNED:
        if operation.intent is Intent.CREATING and set(item.partition_ids) <= _ever(operation):
            # An attempt with other cubes, which was given up: take it away before the next.
            return Step(StepName.WAIT_GONE if item.deleting else StepName.DELETE)
        why = f"slice {item.name} was made anew by somebody else with other cubes"
        return _of_others(operation, world, why)
    if item.deleting:
        return Step(StepName.WAIT_GONE)
    if item.state.is_failed and not item.retries:
        return Step(StepName.TRY_OTHERS, f"{item.reason}: {item.message}".rstrip(": "))
    if not item.state.is_ready or world.labelled_hosts < operation.topology.hosts:
        return Step(StepName.WAIT_READY)
    if _must_restart(operation, world) and not operation.aborting:
        return Step(StepName.RESTART_PODS)
    return _tidy(world)


def _of_others(operation: operations.Operation, world: World, why: str) -> Step:
    """A slice of the name that this operation did not make is left alone: the way back ends beside it."""
    return _tidy(world) if operation.aborting else Step(StepName.STOP, why)


def _restarting(operation: operations.Operation, world: World) -> Step:
    """The new slice was ready. What has become of it since is for another operation; this one ends."""
    item = world.slice
    still_ours = (
        item is not None
        and item.owner is None
        and not item.deleting
        and set(item.partition_ids) == set(operation.partitions)
    )
    if still_ours and _must_restart(operation, world):
        return Step(StepName.RESTART_PODS)
    return _tidy(world)


def _must_restart(operation: operations.Operation, world: World) -> bool:
    return any(pod.replaced and pod.uid in world.live_pods for pod in operation.pods)


def _next_of_form(operation: operations.Operation, world: World) -> Step:
    item = world.slice
    is_theirs = item is not None and item.owner is not None
    if operation.aborting:
        if item is None or is_theirs or set(item.partition_ids) != set(operation.partitions):
            return Step(StepName.CLOSE)
        return Step(StepName.WAIT_GONE if item.deleting else StepName.DELETE)
    if item is None:
        return Step(StepName.CREATE)
    if is_theirs:
        return Step(StepName.STOP, f"slice {item.name} was made by {item.owner}")
    if set(item.partition_ids) != set(operation.partitions):
        return Step(StepName.STOP, f"slice {item.name} was made by somebody else with other cubes")
    if item.deleting:
        if operation.intent is Intent.DELETING:
            return Step(StepName.WAIT_GONE)  # an attempt that failed, which we were taking back
        return Step(StepName.STOP, f"slice {item.name} is being deleted by somebody else")
    if item.state.is_failed and not item.retries:
        return Step(StepName.TRY_OTHERS, f"{item.reason}: {item.message}".rstrip(": "))
    ready = item.state.is_ready and world.labelled_hosts >= operation.topology.hosts
    return Step(StepName.CLOSE if ready else StepName.WAIT_READY)


def _next_of_deform(operation: operations.Operation, world: World) -> Step:
    item = world.slice
    if item is not None and item.uid == operation.old_uid:
        if item.deleting:
            return Step(StepName.WAIT_GONE)
        return Step(StepName.CLOSE if operation.aborting else StepName.DELETE)
    if item is None and world.labelled_hosts:
        return Step(StepName.WAIT_GONE)
    if _must_restart(operation, world) and not operation.aborting:
        return Step(StepName.RESTART_PODS)
    return Step(StepName.CLOSE)


def _tidy(world: World) -> Step:
    return Step(StepName.UNCORDON if world.cordoned else StepName.CLOSE)


def _ever(operation: operations.Operation) -> set[str]:
    """Partitions that any attempt of this operation may have used."""
    return {*operation.old_partitions, *operation.partitions, *operation.tried}


def _chosen_bad(
    members: dict[str, fleet.Cube], lost: Sequence[str], wish: Wish, now: datetime.datetime
) -> tuple[str, ...]:
    if wish.bad:
        return wish.bad
    broken = {cube_id for cube_id, cube in members.items() if _is_broken(cube, wish, now)}
    # A member that no node belongs to any more is as broken as can be.
    return tuple(sorted({*broken, *lost}))


def _is_broken(cube: fleet.Cube, wish: Wish, now: datetime.datetime) -> bool:
    """Unknown is no reason to act: what nobody reports may be fine."""
    verdict = health.judge(cube, wish.policy, now).verdict
    bad = {states.Verdict.UNHEALTHY, states.Verdict.INCOMPLETE}
    return verdict in (bad | {states.Verdict.DEGRADED} if wish.include_degraded else bad)


def _replacements(
    snapshot: fleet.Fleet, item: fleet.Slice, bad: Sequence[str], wish: Wish, block: str
) -> tuple[str, ...] | placement.Refusal:
    request = placement.Request(
        topology=row_of(len(bad)),
        block=block,
        cubes=wish.replacements,
        allow_degraded=wish.allow_degraded,
        policy=wish.policy,
        slice_name=item.name,
        without=(*item.partition_ids, *wish.without),
    )
    found = placement.place(snapshot, request)
    return found if isinstance(found, placement.Refusal) else found.partition_ids


def row_of(cubes: int) -> topology.Topology:
    """Any shape of so many cubes: inside a block only their number matters."""
    edge = topology.CUBE_EDGE_CHIPS
    return topology.Topology(edge, edge, edge * cubes)


def _reason(snapshot: fleet.Fleet, item: fleet.Slice, cube: fleet.Cube | None, wish: Wish) -> str:
    if cube is None:
        nodes = astray.instead_of_lost(snapshot, item)
        return astray.told(nodes, "that may be of it") if nodes else "no node of it exists"
    judgement = health.judge(cube, wish.policy, snapshot.observed_at)
    return "; ".join(judgement.reasons) or str(judgement.verdict)
