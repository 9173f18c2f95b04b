"""What a cycle saw, decided and did."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.model import codec, reconciling

if TYPE_CHECKING:
    import datetime

    from tpuctl.engine import reconciling as engine
    from tpuctl.model import errors
    from tpuctl.ops.repairs import values

_ID_LENGTH = 12


class Became(enum.StrEnum):
    """What became of an action."""

    DONE = "done"
    GOING_ON = "going on"
    """Begun; the service goes on by itself and a later cycle judges it."""
    FAILED = "failed"
    STOPPED = "stopped"
    """Not begun: the world moved, somebody else is at work, a pause, the end of the loop."""


class Result(NamedTuple):
    """An action and what became of it."""

    action: reconciling.Action
    became: Became
    why: str = ""
    waited_s: float = 0.0
    """Seconds of the context's clock."""

    @property
    def has_changed(self) -> bool:
        """If true, the world is another one by it."""
        return self.became in (Became.DONE, Became.GOING_ON)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Planned:
    """What would be done on a view."""

    view: engine.View
    decision: reconciling.Decision
    reviewed: values.Review | None = None

    @property
    def plan_id(self) -> str:
        """Follows from the actions: the same plan has the same id. Empty if there is nothing to do."""
        return plan_id(self.decision.to_do)

    @property
    def is_quiet(self) -> bool:
        """If true, carrying it out would write nothing.

        A repair that runs is looked after by the cycles that read everything anew in any case: it may run for
        days. What people have agreed to begins at once, unless it waits for a window.
        """
        found = self.reviewed
        repairs_rest = found is None or not (found.opened or found.closed or found.due)
        return repairs_rest and not self.decision.to_do and self.decision.memory == self.view.memory


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """A cycle."""

    cycle: str
    """Its id."""
    at: datetime.datetime | None
    """When its view was taken, by the servers' clocks; None if there is no view."""
    sentence: str
    decision: reconciling.Decision | None = None
    """None if the world could not be observed."""
    results: tuple[Result, ...] = ()
    view: engine.View | None = None
    reviewed: values.Review | None = None
    failure: errors.TpuctlError | None = None
    """Why the cycle ended before its end."""
    plan_id: str = ""
    duration_s: float = 0.0

    @property
    def is_full(self) -> bool:
        """If true, it observed everything and did all it decided, or said why not."""
        return self.failure is None

    def count(self, became: Became) -> int:
        return sum(result.became is became for result in self.results)


def counted(results: tuple[Result, ...]) -> str:
    """`3 actions: 2 done, 1 failed`; empty if there was none."""
    if not results:
        return ""
    counts = [(became, sum(result.became is became for result in results)) for became in Became]
    said = ", ".join(f"{count} {became}" for became, count in counts if count)
    return f"{len(results)} {'action' if len(results) == 1 else 'actions'}: {said}"


def plan_id(actions: tuple[reconciling.Action, ...]) -> str:
    """Follows from the actions alone."""
    if not actions:
        return ""
    text = json.dumps([codec.encode(action) for action in actions], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_ID_LENGTH]
