"""What the reconcile loop does in one cycle: pure decisions over a view.

view           what a cycle looks at, and whether that may be trusted
wanted         the declared slices one by one
decide         the order of the steps
draft          the decision while it is made: the fleet as the steps so far will leave it
ledger         the memory while it is used: sightings, attempts, recommendations
guards, breaker, budgets, churn    what stops an action
belonging      which slices are ours
finishing, swaps, relocating, unwanted, pools, forming, gathering, consolidation    the steps
granting, awaiting, arriving    what fits now, who waits for cubes, and which cubes are only coming up
fitting, making_room    where something would go, and who would have to go for it
facts          what an action relies on
suspicion      cubes with which something went wrong lately
verdicts       judgements of cubes, remembered
"""

from tpuctl.engine.reconciling.breaker import reset as reset_breaker
from tpuctl.engine.reconciling.decide import decide
from tpuctl.engine.reconciling.facts import digest, drift, facts_of
from tpuctl.engine.reconciling.view import SOURCES, View, attended, distrust

__all__ = [
    "SOURCES",
    "View",
    "attended",
    "decide",
    "digest",
    "distrust",
    "drift",
    "facts_of",
    "reset_breaker",
]
