"""Why a request does not fit, and what would make it fit.

Every way out that is named has been tried: its actions are applied to the snapshot one by one, and placement
is asked again, for each slice that is made again elsewhere and for the request. What cannot be shown to work
is not suggested.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.engine import backfill, defrag, mending, placement, preemption, tenancy
from tpuctl.engine.inventory import recent, stock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tpuctl.model import fleet, topology

Obstacle = placement.Obstacle
Act = mending.Act
Action = mending.Action


@dataclasses.dataclass(frozen=True, kw_only=True)
class Way:
    """Actions that together make the request fit; verified."""

    actions: tuple[Action, ...]
    request: placement.Request
    """What is then asked for: the request itself, unless it was softened."""
    placement: placement.Placement
    disturbed_chips: int
    """Chips of running slices that are ended, moved or swapped."""
    delay_h: float
    cost_chip_h: float
    """What it costs altogether, by the assumptions of `Costs`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Costs:
    """Assumptions by which ways are compared; inputs, not facts."""

    moves: defrag.Costs = defrag.DEFAULT_COSTS
    lost_h: float = 1.0
    """Hours of work that a preempted slice loses."""
    repair_h: float = 72.0
    """How long a repair takes: hosts that are reported faulty are away for 3 to 14 days."""
    swap_h: float = 0.1
    """A swap interrupts a slice for some minutes."""
    fallback_h: float = 24.0
    """A smaller slice misses chips for so long."""


DEFAULT_COSTS = Costs()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked."""

    request: placement.Request
    tenants: tenancy.Tenants
    priority: int = 0
    fallbacks: tuple[topology.Topology, ...] = ()
    costs: Costs = DEFAULT_COSTS


@dataclasses.dataclass(frozen=True, kw_only=True)
class Advice:
    """The refusal, and the ways out, the cheapest first."""

    refusal: placement.Refusal
    ways: tuple[Way, ...]


def advise(snapshot: fleet.Fleet, question: Question) -> placement.Placement | Advice:
    """The placement if the request fits now, else why not and what would help."""
    found = placement.place(snapshot, question.request)
    if isinstance(found, placement.Placement):
        return found
    ways = [way for attempt in _SINGLE for way in attempt(snapshot, question)]
    if not any(way.actions[0].act is not Act.FALL_BACK for way in ways):
        ways += _mixed(snapshot, question)
    order = list(Act)
    ways.sort(key=lambda way: (way.cost_chip_h, order.index(way.actions[0].act), way.actions))
    return Advice(refusal=found, ways=tuple(ways))


def opening(snapshot: fleet.Fleet, request: placement.Request) -> Way | None:
    """Unused cubes made usable, which disturbs nobody; None if the request does not fit even then."""
    return next(_by_mending(snapshot, Question(request=request, tenants=tenancy.Tenants())), None)


def apply(snapshot: fleet.Fleet, way: Way) -> fleet.Fleet:
    """The fleet after the actions of a way."""
    for action in way.actions:
        snapshot = mending.applied(snapshot, action)
    return snapshot


def _way(
    snapshot: fleet.Fleet,
    question: Question,
    actions: Sequence[Action],
    softer: placement.Request | None = None,
    *,
    disturbed_chips: int = 0,
    delay_h: float = 0.0,
    cost_chip_h: float = 0.0,
) -> Iterator[Way]:
    """The way, if it works; `softer` is what is asked for then in place of the request."""
    request = softer or question.request
    after = snapshot
    for action in actions:
        after = mending.applied(after, action)
    found = placement.place(after, request)
    if isinstance(found, placement.Placement) and mending.can_be_remade(
        snapshot, actions, question.tenants, request.policy
    ):
        yield Way(
            actions=tuple(actions),
            request=request,
            placement=found,
            disturbed_chips=disturbed_chips,
            delay_h=delay_h,
            cost_chip_h=cost_chip_h + request.topology.chips * delay_h,
        )


def _by_waiting(snapshot: fleet.Fleet, question: Question) -> Iterator[Way]:
    soon = backfill.shadow(snapshot, question.request, question.tenants)
    if soon is not None:
        delay_h = (soon.at - snapshot.observed_at).total_seconds() / 3600
        ends = _needed(snapshot, question.request, soon.ends)
        yield from _way(snapshot, question, [Action(Act.WAIT, name) for name in ends], delay_h=delay_h)


def _needed(snapshot: fleet.Fleet, request: placement.Request, names: Sequence[str]) -> tuple[str, ...]:
    """Only those ends that make it fit: not whoever ends before for other reasons elsewhere."""
    index = stock.Stock(snapshot, request.terms)
    receipts = {name: index.release(name) for name in names}
    needed = []
    for name in names:
        index.restore(name, receipts[name])
        if placement.choose(index, request) is None:
            index.release(name)
            needed.append(name)
    return tuple(needed)


def _by_preempting(snapshot: fleet.Fleet, question: Question) -> Iterator[Way]:
    found = preemption.choose(snapshot, question.request, question.tenants, question.priority)
    if found is not None:
        yield from _way(
            snapshot,
            question,
            [Action(Act.PREEMPT, name) for name in found.victims],
            disturbed_chips=found.chips,
            cost_chip_h=found.chips * question.costs.lost_h,
        )


def _by_moving(snapshot: fleet.Fleet, question: Question) -> Iterator[Way]:
    found = defrag.plan(snapshot, question.request, question.tenants, question.costs.moves)
    if isinstance(found, defrag.Plan):
        labels = snapshot.block_labels
        actions = [
            Action(Act.MOVE, move.slice_name, f"to block {labels[move.to_block]}", move.new_partitions)
            for move in found.moves
        ]
        chips = sum(move.topology.chips for move in found.moves)
        yield from _way(snapshot, question, actions, disturbed_chips=chips, cost_chip_h=found.cost_chip_h)


def _by_mending(snapshot: fleet.Fleet, question: Question) -> Iterator[Way]:
    """Cubes that nobody uses, made usable: open what is closed, and only then repair what is broken."""
    index = recent.of(snapshot, question.request.terms)
    for acts in (mending.OPENING, (*mending.OPENING, Act.REPAIR)):
        tries = sorted(
            (len(actions), block, actions)
            for block in range(len(index.blocks))
            if question.request.block in (None, index.blocks[block])
            and (actions := _mending(index, block, question.request, acts)) is not None
        )
        for _, _, actions in tries[:1]:
            found = list(_way(snapshot, question, actions, delay_h=_repair_h(question, actions)))
            yield from found
            if found:
                return


def _repair_h(question: Question, actions: Iterable[Action]) -> float:
    """How long repairs among the actions take; they go on side by side."""
    return question.costs.repair_h if any(action.act is Act.REPAIR for action in actions) else 0.0


def _mending(
    index: stock.Stock, block: int, request: placement.Request, acts: Sequence[Act]
) -> list[Action] | None:
    """Actions on unused cubes of a block that make up what is missing; None if they do not suffice."""
    if request.topology.is_sub_slice:
        missing = 1
    else:
        missing = request.topology.cubes + request.keep_free - index.free[block].bit_count()
    found = [mend for mend in _mends(index, block, request) if {*acts}.issuperset(_acts(mend))]
    found.sort(key=lambda mend: (mending.ORDER.index(mend.obstacle), mend.cube_id))
    return mending.actions_of(found[:missing]) if len(found) >= missing else None


def _mends(index: stock.Stock, block: int, request: placement.Request) -> list[mending.Mend]:
    """What could be mended for a request in one block."""
    found = (mending.of(slot) for slot in index.slots[block])
    return [mend for mend in found if mend is not None and request.admits(mend.cube_id, mend.cube_id)]


def _acts(mend: mending.Mend) -> set[Act]:
    return {action.act for action in mend.actions}


def _by_allowing(snapshot: fleet.Fleet, question: Question) -> Iterator[Way]:
    if not question.request.allow_degraded:
        softer = dataclasses.replace(question.request, allow_degraded=True)
        yield from _way(snapshot, question, [Action(Act.ALLOW_DEGRADED, str(softer.topology))], softer)


def _by_swapping(snapshot: fleet.Fleet, question: Question) -> Iterator[Way]:
    """Give degraded cubes to slices that can do with them and take their healthy ones."""
    request = question.request
    if request.topology.is_sub_slice or request.allow_degraded:
        return
    index = recent.of(snapshot, request.terms)
    for block, block_id in enumerate(index.blocks):
        if request.block not in (None, block_id):
            continue
        missing = request.topology.cubes + request.keep_free - index.free[block].bit_count()
        worn = [slot.cube.id for slot in index.slots[block] if _is_only_worn(slot)]
        actions, chips = _exchanges(snapshot, index, block, question, worn[:missing])
        if sum(len(action.detail.split(", ")) for action in actions) >= missing:
            cost_chip_h = chips * question.costs.swap_h
            found = list(_way(snapshot, question, actions, disturbed_chips=chips, cost_chip_h=cost_chip_h))
            yield from found
            if found:
                return


def _is_only_worn(slot: stock.Slot) -> bool:
    """If true, who does not mind a degraded link could take it: DEGRADED is told before CORDONED."""
    open_for_pods = all(host.schedulable for host in slot.cube.hosts)
    return slot.whole_obstacle is Obstacle.DEGRADED and open_for_pods


def _exchanges(
    snapshot: fleet.Fleet, index: stock.Stock, block: int, question: Question, worn: Sequence[str]
) -> tuple[list[Action], int]:
    """Swaps that use up the degraded cubes, in as few slices as possible."""
    left = list(worn)
    actions, chips = [], 0
    healthy: dict[str, list[str]] = {}
    for slot in index.slots[block]:
        if len(slot.holders) == 1 and slot.obstacle is None and not slot.claims:
            healthy.setdefault(next(iter(slot.holders)), []).append(slot.cube.id)
    for name, cubes in sorted(healthy.items(), key=lambda entry: (-len(entry[1]), entry[0])):
        item = snapshot.slices_by_name[name]
        fits = (
            question.tenants.of(item).allow_degraded
            and question.tenants.may_be_moved(item, snapshot.observed_at)
            and item.topology is not None
            and not item.topology.is_sub_slice
        )
        if not left or not fits or item.topology is None:
            continue
        count = min(len(left), len(cubes))
        old, new, left = cubes[:count], left[:count], left[count:]
        ids = tuple(sorted({*item.partition_ids} - {*old} | {*new}))
        exchanged = ", ".join(f"{bad} for {good}" for bad, good in zip(old, new, strict=True))
        actions.append(Action(Act.SWAP, name, exchanged, ids))
        chips += item.topology.chips
    return actions, chips


def _by_falling_back(snapshot: fleet.Fleet, question: Question) -> Iterator[Way]:
    for shape in question.fallbacks:
        softer = dataclasses.replace(question.request, topology=shape)
        lost = max(question.request.topology.chips - shape.chips, 0)
        found = list(
            _way(
                snapshot,
                question,
                [Action(Act.FALL_BACK, str(shape))],
                softer,
                cost_chip_h=lost * question.costs.fallback_h,
            )
        )
        yield from found
        if found:
            return


_SINGLE: tuple[Callable[[fleet.Fleet, Question], Iterator[Way]], ...] = (
    _by_mending,
    _by_allowing,
    _by_swapping,
    _by_moving,
    _by_waiting,
    _by_preempting,
    _by_falling_back,
)


def _mixed(snapshot: fleet.Fleet, question: Question) -> list[Way]:
    """Where no single kind of action suffices: mend what can be mended, then make room for the rest.

    What needs a repair is counted on only where opening what is closed does not suffice.
    """
    index = recent.of(snapshot, question.request.terms)
    mends = [
        mend
        for block, block_id in enumerate(index.blocks)
        if question.request.block in (None, block_id)
        for mend in _mends(index, block, question.request)
    ]
    for acts in (mending.OPENING, (*mending.OPENING, Act.REPAIR)):
        allowed = [mend for mend in mends if {*acts}.issuperset(_acts(mend))]
        ways = _mended_first(snapshot, question, allowed) if allowed else []
        if ways:
            return ways
    return []


def _mended_first(snapshot: fleet.Fleet, question: Question, mends: Sequence[mending.Mend]) -> list[Way]:
    """Ways on the fleet as it is with all these mended; only what a way needs of them is part of it."""
    mended = snapshot
    for action in mending.actions_of(mends):
        mended = mending.applied(mended, action)
    ways: list[Way] = []
    for attempt in (_by_moving, _by_waiting, _by_preempting):
        for rest in attempt(mended, question):
            new = {part for action in rest.actions for part in action.partition_ids}
            blocks = mending.blocks_with(snapshot, {*rest.placement.cubes, *new})
            of_use = {
                cube.id
                for block in blocks
                for cube in block.cubes
                if block.id == rest.placement.block or mending.has_any(cube, new)
            }
            used = mending.actions_of(mend for mend in mends if mend.cube_id in of_use)
            needed = _trimmed(snapshot.with_blocks(blocks), question, [*used, *rest.actions])
            ways += _way(
                snapshot,
                question,
                needed,
                disturbed_chips=rest.disturbed_chips,
                delay_h=max(rest.delay_h, _repair_h(question, needed)),
                cost_chip_h=rest.cost_chip_h - rest.delay_h * question.request.topology.chips,
            )
    return ways


def _trimmed(snapshot: fleet.Fleet, question: Question, actions: Sequence[Action]) -> list[Action]:
    """Without the actions that make no difference; `snapshot` is of the blocks in question."""
    needed = list(actions)
    for action in actions:
        fewer = [other for other in needed if other != action]
        if any(_way(snapshot, question, fewer)):
            needed = fewer
    return needed
