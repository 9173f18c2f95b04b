"""The cycle in one sentence, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.engine.reconciling import words
from tpuctl.model import reconciling, states

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tpuctl.engine.reconciling.breaker import Count
    from tpuctl.engine.reconciling.draft import Draft

Kind = reconciling.ActionKind
_VERBS = {
    Kind.FINISH: "finishes {}",
    Kind.SWAP: "swaps cubes of {}",
    Kind.DEFORM: "takes {} apart",
    Kind.CREATE_POOL: "creates node pool{s} {}",
    Kind.RECREATE_POOL: "makes node pool{s} {} again",
    Kind.FORM: "forms {}",
    Kind.GROW: "grows {}",
    Kind.MOVE: "moves {}",
}


def of(draft: Draft, count: Count) -> str:
    """`32 cubes healthy of 34; 3 slices ACTIVE of 3; nothing to do.`"""
    parts = [
        f"{words.count(count.healthy, 'cube')} healthy of {count.with_nodes:,}",
        _slices(draft),
        *_doing(draft.actions),
    ]
    stopped = [action for action in draft.actions if action.stopped_by]
    if stopped:
        parts.append(f"{words.count(len(stopped), 'action')} held back ({stopped[0].stopped_by})")
    if draft.waiting:
        name, why = next(iter(draft.waiting.items()))
        verb = "waits" if len(draft.waiting) == 1 else "wait"
        parts.append(f"{words.count(len(draft.waiting), 'slice')} {verb}: {name}: {why}")
    return "; ".join(parts).rstrip(".") + "."


def _slices(draft: Draft) -> str:
    slices = draft.view.snapshot.slices_by_name
    states_of = [slices[name].state for name in draft.view.wants if name in slices]
    up = sum(state.is_ready for state in states_of)
    worn = sum(state is states.SliceState.ACTIVE_DEGRADED for state in states_of)
    degraded = f", {worn} of them degraded" if worn else ""
    return f"{words.count(up, 'slice')} ACTIVE of {len(draft.view.wants):,}{degraded}"


def _doing(actions: Sequence[reconciling.Action]) -> list[str]:
    found = []
    for kind in Kind:
        targets = [action.target for action in actions if action.kind is kind and not action.stopped_by]
        if targets:
            found.append(_VERBS[kind].format(words.listed(targets), s="s" if len(targets) > 1 else ""))
    if not found and not actions:
        found.append("nothing to do")
    return found
