"""What a loop is told, and what it tells."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tpuctl.model import declared, health
from tpuctl.ops import context
from tpuctl.ops.repairs import reviewing

if TYPE_CHECKING:
    import datetime
    from collections.abc import Callable, Mapping

    from tpuctl.model import fleet, repairs
    from tpuctl.ops import ports
    from tpuctl.ops.repairs import values

INTERVAL_S = 30.0


class Hooks(Protocol):
    """Commands that the fleet's owner wants to be run; never raises."""

    def run(self, event: declared.HookEvent, facts: Mapping[str, str]) -> None: ...


class NoHooks:
    """Runs nothing."""

    def run(self, event: declared.HookEvent, facts: Mapping[str, str]) -> None:
        pass


class Seen(NamedTuple):
    """What repairs are judged on."""

    snapshot: fleet.Fleet
    spec: declared.FleetSpec
    policy: health.HealthPolicy
    mode: declared.Mode
    """OBSERVE means: judge, and write nothing."""
    now: datetime.datetime


class Review(Protocol):
    """Judges repairs: opens what is to be proposed, ends what is over, carries out what was agreed to."""

    def __call__(
        self,
        ports: ports.Ports,
        reporter: ports.Reporter,
        situation: Seen,
        hooks: Hooks,
        *,
        may_act: Callable[[repairs.Item], str],
    ) -> values.Review:
        """`may_act` is asked right before an item is carried out: what forbids it, empty if nothing does."""
        ...


def nobody(_about: Mapping[str, str]) -> None:
    """Who does not want to know what is being worked on."""


def unchanged(settings: Settings) -> Settings:
    """Whose declared state is given once and for all."""
    return settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """What a loop works towards, and how far it may go."""

    spec: declared.FleetSpec
    spec_digest: str
    policy: health.HealthPolicy = health.DEFAULT_POLICY
    policy_digest: str = ""
    pool_policy: str = context.DEFAULT_POLICY
    """The context's workload policy, for blocks that name none."""
    mode: declared.Mode = declared.Mode.ACT
    hooks: Hooks = dataclasses.field(default_factory=NoHooks)
    review: Review | None = reviewing.review
    """Called in each cycle before anything else is decided; None: repairs are not looked at."""
    about: Callable[[Mapping[str, str]], None] = nobody
    """Told what is being worked on (`cycle`, `plan`, `object`), so that each line of a log can say it."""
    interval_s: float = INTERVAL_S
    """Between cycles; told to whoever asks whether the loop still lives."""
    reread: Callable[[Settings], Settings] = unchanged
    """Asked between cycles, every few seconds: these settings with what is declared by now. Must be quick as
    long as nothing changes, and never raise."""
    trouble: str = ""
    """Why what is declared by now cannot be used, so that `spec` is of before; empty if nothing is wrong."""
