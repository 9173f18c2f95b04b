"""What one cycle works with, and how an attempt at an action ends."""

from __future__ import annotations

import dataclasses
import datetime
from typing import TYPE_CHECKING

from tpuctl.engine import reconciling as engine
from tpuctl.model import errors, fleet
from tpuctl.ops import locking, running
from tpuctl.ops.reconciling import leadership, memory, outcomes, pauses, views

if TYPE_CHECKING:
    from collections.abc import Callable

    from tpuctl.model import declared, reconciling
    from tpuctl.ops import ports as ports_module
    from tpuctl.ops.reconciling import settings as settings_module
    from tpuctl.ops.reconciling import telling

FRESH_S = 5.0
"""A view this old is read anew before the next action; seconds of the context."""
FATAL = (leadership.LostLeadership, errors.NotPermitted, errors.Unavailable)
"""After these nothing more is tried in a cycle: it would fail as well, or is not ours to do."""
_Became = outcomes.Became


class Drift(errors.Conflict):
    """The world moved: what was decided is not what would be done now."""


@dataclasses.dataclass
class Desk:
    """One cycle at work."""

    ports: ports_module.Ports
    """Guarded ones."""
    reporter: ports_module.Reporter
    settings: settings_module.Settings
    teller: telling.Teller
    view: engine.View
    """The newest one of this cycle."""
    seen_s: float
    """When it was read, on the context's clock."""
    loaded: memory.Loaded
    """The memory as it was last written."""
    formed: list[fleet.Slice] = dataclasses.field(default_factory=list)
    """Slices that exist by what this cycle did."""
    suspects: list[str] = dataclasses.field(default_factory=list)
    """Partitions on which a slice did not form, and cubes that failed under one."""

    @property
    def snapshot(self) -> fleet.Fleet:
        return self.view.snapshot

    def want(self, slice_name: str) -> declared.WantedSlice | None:
        """What the declared state says of a slice."""
        return next((entry for entry in self.settings.spec.slices if slice_name in entry.slice_names), None)

    def allows_degraded(self, slice_name: str) -> bool:
        entry = self.want(slice_name)
        return entry is not None and entry.allow_degraded

    def is_adopted(self, item: fleet.Slice) -> bool:
        """If true, it was made by hand, and the declared state says that such a one counts as ours."""
        adopts = self.settings.spec.adopt_foreign and self.want(item.name) is not None
        return adopts and item.owner == fleet.BY_HAND

    @property
    def now(self) -> datetime.datetime:
        """The servers' time of the newest view, and what has passed since."""
        return self.view.now + datetime.timedelta(seconds=self.ports.clock.monotonic_s() - self.seen_s)

    def suspect(self, error: errors.TpuctlError) -> None:
        """Note whose formation failed, if that is what the error says."""
        if isinstance(error, running.NotFormed):
            self.suspects += error.partition_ids

    def remember(self, changed: reconciling.Memory) -> None:
        """Write the memory; raises Conflict if somebody else did since it was read."""
        self.loaded = memory.save(self.ports, self.loaded, changed)

    def look_again(self) -> None:
        """Read the world anew if the view is not of this moment."""
        now_s = self.ports.clock.monotonic_s()
        if now_s - self.seen_s < FRESH_S:
            return
        found = views.observe(self.ports, self.settings, self.view).view
        self.view = dataclasses.replace(found, repairing=self.view.repairing)
        self.seen_s = now_s

    def refuse_drift(self, action: reconciling.Action) -> None:
        """Raise Drift with what is otherwise than it was when the action was decided."""
        moved = engine.drift(self.view, (action,))
        if moved:
            raise Drift("; ".join(moved))


def attempt(
    desk: Desk,
    action: reconciling.Action,
    do: Callable[[], tuple[outcomes.Became, str]],
    failures: list[errors.TpuctlError],
    *,
    since_s: float | None = None,
) -> outcomes.Result:
    """Do it and say what became of it. What ends the whole cycle is added to `failures`.

    `since_s`: when it began, if that was before now.
    """
    started_s = desk.ports.clock.monotonic_s() if since_s is None else since_s
    desk.teller.about(action)
    try:
        became, why = do()
    except FATAL as fatal:
        failures.append(fatal)
        became, why = _Became.FAILED, fatal.message
    except errors.TpuctlError as error:
        desk.suspect(error)
        became, why = judged(error)
    return outcomes.Result(action, became, why, desk.ports.clock.monotonic_s() - started_s)


def judged(error: errors.TpuctlError) -> tuple[outcomes.Became, str]:
    """What an error means for the action that raised it."""
    why = "; ".join((error.message, *error.details[:3]))
    if isinstance(error, Drift):
        return _Became.STOPPED, f"the world moved: {why}"
    if isinstance(error, locking.LostLock):
        return _Became.FAILED, why  # somebody else is at work on what we had begun
    if isinstance(error, errors.TimedOut):
        return _Became.GOING_ON, why
    if isinstance(error, errors.GuardStopped) and not isinstance(error, pauses.Paused | views.Stale):
        return _Became.FAILED, why  # it does not go away by looking again, so people must hear of it
    if isinstance(error, errors.Conflict | errors.GuardStopped | errors.Busy):
        return _Became.STOPPED, why
    return _Became.FAILED, why
