"""One cycle of the loop as a function: a view in, a decision out.

Level-triggered: nothing but what is now, what is declared and what is remembered counts. The same view gives
the same decision, and a fleet that is as declared gives an empty one.
"""

from __future__ import annotations

from tpuctl.engine.reconciling import (
    belonging,
    breaker,
    churn,
    consolidation,
    finishing,
    forming,
    gathering,
    guards,
    ledger,
    pools,
    sentence,
    suspicion,
    swaps,
    unwanted,
    view,
)
from tpuctl.engine.reconciling.draft import Draft
from tpuctl.model import reconciling


def decide(seen: view.View) -> reconciling.Decision:
    """What this cycle does, what stops it from doing more, and what to remember of it.

    A view that is not whole or contradicts itself decides nothing and leaves the memory as it is.
    """
    why = view.distrust(seen)
    if why:
        return _nothing(seen, why)
    memory = ledger.Ledger(seen)
    churn.carry_over(memory)
    memory.suspects = suspicion.carried_over(seen, memory.before.suspects)
    count = breaker.watch(seen, memory)
    draft = Draft(seen, memory, guards.Gate(seen, memory, count))
    _steps(draft)
    return reconciling.Decision(
        actions=_in_order(draft),
        guards=draft.gate.guards(),
        memory=memory.memory(seen),
        waiting=tuple(draft.waiting.items()),
        sentence=sentence.of(draft, count),
    )


def _steps(draft: Draft) -> None:
    """In the order in which one thing has precedence over another."""
    finishing.finish(draft)
    belonging.sort_out(draft)
    swaps.mend(draft)
    unwanted.prune(draft)
    pools.name_unknown(draft)
    pools.create(draft)
    pools.recreate(draft)
    unwanted.reshape(draft)
    left = forming.form(draft)
    gathering.gather(draft, left)
    consolidation.consolidate(draft, left)
    belonging.forgive(draft)
    suspicion.tell(draft)


def _in_order(draft: Draft) -> tuple[reconciling.Action, ...]:
    """By kind, in the order of decision within one: room is made before anything is formed."""
    kinds = [*reconciling.ActionKind]
    return tuple(sorted(draft.actions, key=lambda action: kinds.index(action.kind)))


def _nothing(seen: view.View, why: str) -> reconciling.Decision:
    stops = reconciling.GuardState.STOPS_ALL
    return reconciling.Decision(
        actions=(),
        guards=(reconciling.Guard("view", stops, why),),
        memory=seen.memory,
        sentence=f"Nothing was decided, since the view cannot be trusted: {why}.",
    )
