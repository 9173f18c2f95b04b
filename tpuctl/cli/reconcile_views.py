"""How a decision of the reconcile loop is shown before it is carried out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tpuctl.cli import durations, layout, output, reconcile_results, session, wrapping
from tpuctl.model import counts, reconciling
from tpuctl.ops import gauges

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tpuctl.model import declared, fleet, reserved

Kind = reconciling.ActionKind
_TOGETHER = (Kind.CREATE_POOL, Kind.FORM)
_SHOWN = 3
"""Slices or exchanges named in one line; `-o json` has them all."""
_MOST_LEFT_ALONE = 10
_STYLES = {"+": "green", "-": "red", "~": "yellow", "*": "cyan", ">": "magenta", "!": "yellow"}


class Plan(NamedTuple):
    """A decision with what it is shown beside."""

    decision: reconciling.Decision
    spec: declared.FleetSpec
    snapshot: fleet.Fleet
    mode: declared.Mode
    id: str = ""
    """Of the plan file that holds it; empty if none does."""
    left_alone: tuple[str, ...] = ()
    """Trouble that no repair is proposed for, each with why."""
    repairs_waiting: tuple[tuple[str, str], ...] = ()
    """Id of an approved repair, and why it has not begun."""


class Radius(NamedTuple):
    """What all actions that go ahead disturb together."""

    slices: tuple[str, ...]
    chips: int
    pods_restarted: int
    pods_kept: int

    def __str__(self) -> str:
        named = layout.few(self.slices, _SHOWN)
        told = (
            f"{counts.of(len(self.slices), 'running slice')} interrupted ({named}), {self.chips:,} chips"
            if self.slices
            else "no running slice is interrupted"
        )
        if self.pods_restarted or self.pods_kept:
            told += f"; {self.pods_restarted:,} pods restart, {self.pods_kept:,} stay"
        return told


def radius(decision: reconciling.Decision) -> Radius:
    """The blast radius of what goes ahead."""
    going = decision.to_do
    return Radius(
        slices=tuple(sorted({name for action in going for name in action.slices})),
        chips=sum(action.chips for action in going),
        pods_restarted=sum(action.pods_restarted for action in going),
        pods_kept=sum(action.pods_kept for action in going),
    )


def is_disruptive(decision: reconciling.Decision) -> bool:
    """If true, something that exists is taken away or interrupted."""
    found = radius(decision)
    takes = any(action.kind not in (*_TOGETHER, Kind.FINISH) for action in decision.to_do)
    return bool(takes or found.slices or found.chips or found.pods_restarted)


def estimate_s(decision: reconciling.Decision) -> float:
    """A guess at how long what goes ahead takes: pools are made together, slices formed together."""
    going = decision.to_do
    together = (
        max((action.estimate_s for action in going if action.kind is kind), default=0.0) for kind in _TOGETHER
    )
    return sum(together) + sum(action.estimate_s for action in going if action.kind not in _TOGETHER)


# -- one action ------------------------------------------------------------------------------------------


def what(action: reconciling.Action, labels: Mapping[str, str]) -> str:
    """What an action does to its target, in a few words."""
    if action.kind is Kind.SWAP:
        return layout.few([f"{old} -> {new}" for old, new in action.exchanges], _SHOWN)
    if action.kind is Kind.CREATE_POOL:
        return "create the node pool"
    if action.kind is Kind.RECREATE_POOL:
        return "delete the node pool and create it again"
    if action.kind is Kind.DEFORM:
        return "take apart"
    if action.kind is Kind.FINISH:
        return "carry on"
    formed = layout.few(
        [_formed(item, labels, many=len(action.forming) > 1) for item in action.forming], _SHOWN
    )
    if action.kind is Kind.GROW:
        return f"make again as {formed}"
    return f"make again on other cubes: {formed}" if action.kind is Kind.MOVE else formed


def _formed(item: reconciling.Forming, labels: Mapping[str, str], *, many: bool) -> str:
    name = f"{item.name} " if many else ""
    instead = "" if item.topology == item.wanted else f" in place of {item.wanted}"
    place = labels.get(item.block, item.block)
    return f"{name}{item.topology} ({item.topology.chips:,} chips) in {place}{instead}"


def action_plain(action: reconciling.Action, labels: Mapping[str, str]) -> dict[str, Any]:
    """An action as `-o json` gives it."""
    return {
        "id": action.id,
        "kind": str(action.kind),
        "sign": reconciling.SIGNS[action.kind],
        "target": action.target,
        "what": what(action, labels),
        "reason": action.reason,
        "stoppedBy": action.stopped_by or None,
        "voluntary": action.voluntary,
        "interruptedChips": action.chips,
        "interruptedSlices": list(action.slices),
        "podsToRestart": action.pods_restarted,
        "podsToKeep": action.pods_kept,
        "estimatedSeconds": round(action.estimate_s, 3),
        "gainChipHours": round(action.gain_chip_h, 3),
        "costChipHours": round(action.cost_chip_h, 3),
        "forming": [
            {
                "name": item.name,
                "topology": str(item.topology),
                "chips": item.topology.chips,
                "wantedTopology": str(item.wanted),
                "block": item.block,
                "partitionIds": list(item.partition_ids),
                "priority": item.priority,
            }
            for item in action.forming
        ],
        "exchanges": [{"old": old, "new": new} for old, new in action.exchanges],
        "nodePool": None if action.pool is None else _pool(action.pool),
    }


def _pool(pool: reserved.PoolSpec) -> dict[str, Any]:
    return {
        "name": pool.name,
        "reservation": pool.reservation,
        "block": pool.block,
        "subBlock": pool.sub_block,
        "policy": pool.policy,
        "hosts": pool.hosts,
    }


# -- plan ------------------------------------------------------------------------------------------------


def show_plan(plan: Plan, fmt: output.Format | None) -> None:
    """What would be done, what it disturbs, what is left, what stops it; on stdout."""
    wanted = output.chosen(fmt)
    screen = session.current().terminal
    if wanted.is_document:
        at = plan.snapshot.observed_at
        name = f"fleet/{plan.spec.name}"
        output.render_one("ReconcilePlan", plan_plain(plan), rows=(), name=name, fmt=fmt, observed_at=at)
    elif wanted is output.Format.NAME:
        if plan.decision.actions:
            screen.out("\n".join(action.id for action in plan.decision.actions))
    else:
        screen.out("\n".join(plan_lines(plan)))


def plan_plain(plan: Plan) -> dict[str, Any]:
    """A plan as `-o json` gives it."""
    decision, found, labels = plan.decision, radius(plan.decision), plan.snapshot.block_labels
    return {
        "id": plan.id or None,
        "fleet": plan.spec.name,
        "cluster": plan.snapshot.cluster,
        "mode": str(plan.mode),
        "changes": bool(decision.actions),
        "actions": [action_plain(action, labels) for action in decision.actions],
        "blastRadius": {
            "slices": list(found.slices),
            "chips": found.chips,
            "podsToRestart": found.pods_restarted,
            "podsToKeep": found.pods_kept,
        },
        "budget": {
            "disruptedChipsPerHour": plan.spec.budgets.disrupted_chips_per_hour,
            "leftChips": _left_after(plan) + found.chips,
            "leftAfterChips": _left_after(plan),
        },
        "guards": [
            {"name": guard.name, "state": str(guard.state), "says": guard.says} for guard in decision.guards
        ],
        "waiting": reconcile_results.waiting_plain(decision.waiting),
        "repairsWaiting": reconcile_results.repairs_waiting_plain(plan.repairs_waiting),
        "leftAlone": list(plan.left_alone),
        "recommendations": recommendations_plain(decision.memory.recommendations),
        "estimatedSeconds": round(estimate_s(decision), 3),
        "sentence": decision.sentence,
    }


def recommendations_plain(found: Sequence[reconciling.Recommendation]) -> list[dict[str, Any]]:
    """What only a person can do, as `-o json` gives it."""
    return [{"subject": item.subject, "text": item.text, "since": item.since} for item in found]


def plan_lines(plan: Plan) -> list[str]:
    """A plan for people."""
    decision = plan.decision
    parts = [_action_lines(plan)] if decision.actions else []
    parts.append(layout.pairs(_totals(plan), _bold, session.current().terminal.width))
    guards = [guard for guard in decision.guards if guard.state is not reconciling.GuardState.CLEAR]
    if guards:
        rows = [(item.name, str(item.state), item.says) for item in guards]
        parts.append([_bold("Guards"), *wrapping.records(rows)])
    if decision.waiting:
        parts.append([_bold("Wanted slices that wait"), *wrapping.records(decision.waiting)])
    if decision.memory.recommendations:
        told = [(item.subject, item.text) for item in decision.memory.recommendations]
        parts.append([_bold("For a person to do"), *wrapping.records(told)])
    if plan.repairs_waiting:
        parts.append([_bold("Repairs that wait"), *wrapping.records(plan.repairs_waiting)])
    if plan.left_alone:
        parts.append([_bold("Trouble without a repair"), *_left_alone(plan.left_alone)])
    parts.append(wrapping.wrapped(decision.sentence, ""))
    return [line for number, part in enumerate(parts) for line in ([""] if number else []) + part]


def _left_alone(found: Sequence[str]) -> list[str]:
    by_cube: dict[str, list[str]] = {}
    for text in found:
        by_cube.setdefault(text.partition(": ")[0], []).append(text)
    told = [
        f"{first} (and {len(more)} more of this cube)" if more else first for first, *more in by_cube.values()
    ]
    shown = [line for text in told[:_MOST_LEFT_ALONE] for line in wrapping.wrapped(text, "  ")]
    hidden = len(told) - _MOST_LEFT_ALONE
    return [*shown, *([f"  and {hidden} more, see -o json"] if hidden > 0 else [])]


def _totals(plan: Plan) -> list[tuple[str, object]]:
    found = radius(plan.decision)
    going = plan.decision.to_do
    stopped = len(plan.decision.actions) - len(going)
    budget = plan.spec.budgets.disrupted_chips_per_hour
    rows: list[tuple[str, object]] = [
        ("Actions", f"{len(going)} to do{f', {stopped} stopped by a guard' if stopped else ''}")
    ]
    if going:
        rows.append(("Blast radius", str(found)))
    rows.append(("Budget after", f"{_left_after(plan):,} of {budget:,} chips an hour left to disrupt"))
    if going:
        about = durations.short(estimate_s(plan.decision))
        rows.append(("Estimate", f"about {about}, from typical durations, no promise"))
    return rows


def _left_after(plan: Plan) -> int:
    """Chips that may still be disrupted; what the plan disrupts counts in what is to be remembered of it."""
    return gauges.budget_left(plan.spec.budgets, plan.decision.memory, plan.snapshot.observed_at)


def _action_lines(plan: Plan) -> list[str]:
    """A line for each action; on a terminal too narrow for that, the reason goes below."""
    rows = [
        (
            reconciling.SIGNS[action.kind],
            action.target,
            what(action, plan.snapshot.block_labels),
            _because(action),
        )
        for action in plan.decision.actions
    ]
    return wrapping.records(rows, [[_STYLES[row[0]], None, None, None] for row in rows])


def _because(action: reconciling.Action) -> str:
    return f"{action.reason}; stopped by {action.stopped_by}" if action.stopped_by else action.reason


def _bold(text: str) -> str:
    return session.current().terminal.styled(text, "bold")
