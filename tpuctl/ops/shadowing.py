"""The policy that the reconcile loop replaces, beside ours, on one view; nothing is carried out."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.engine import reconciling as engine
from tpuctl.engine.reconciling import shadow
from tpuctl.model import declared
from tpuctl.ops.reconciling import views

if TYPE_CHECKING:
    import datetime

    from tpuctl.ops import ports as ports_module
    from tpuctl.ops.reconciling import settings as settings_module

Shadow = shadow.Shadow
Row = shadow.Row
Side = shadow.Side
Total = shadow.Total


def compare(
    ports: ports_module.Ports, settings: settings_module.Settings
) -> tuple[Shadow, datetime.datetime]:
    """Both decisions on the world as it is now, and when that was.

    Ours is what a loop would do that may act, is not paused, and has observed the fleet before: otherwise a
    comparison made before the loop is let loose would show what holds it back, not what it decides. Graces,
    budgets and the breaker stay as they are.
    """
    view = views.observe(ports, settings).view
    memory = view.memory
    if memory.observed_at is None:
        memory = dataclasses.replace(memory, observed_at=view.now)
    view = dataclasses.replace(view, memory=memory, mode=declared.Mode.ACT, pause=None)
    return shadow.compare(view, engine.decide(view)), view.now
