"""The declared state of a fleet: what `tpuctl reconcile` keeps true.

Values only, as `configs/fleets/*.yaml` say them; `cli` reads the files and checks what they may hold.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.model import topology  # noqa: TC001 - the codec resolves annotations at run time

if TYPE_CHECKING:
    from collections.abc import Iterator

HOUR_S = 3600.0


class Mode(enum.StrEnum):
    """How far the loop may go by itself."""

    OBSERVE = "observe"
    """Read, decide and tell; write nothing but the lock that says who is looking."""
    RECOMMEND = "recommend"
    """Also open recommendations for people to approve, and carry out what they approved."""
    ACT = "act"
    """Also carry out what the policy allows without asking."""


class Weekday(enum.StrEnum):
    MON = "mon"
    TUE = "tue"
    WED = "wed"
    THU = "thu"
    FRI = "fri"
    SAT = "sat"
    SUN = "sun"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PoolSettings:
    """How node pools of a block are made; the defaults keep GKE from breaking slices by itself."""

    name_prefix: str = "cube"
    """Names of node pools begin with it (see `names.pool_name`)."""
    policy: str = ""
    """Workload policy; empty: the context's."""
    auto_repair: bool = True
    auto_upgrade: bool | None = None
    """False, or None: not said, and GKE's rule for the cluster holds. An upgrade under an active slice makes
    it FAILED; but a release channel, which dynamic slicing needs, refuses pools without auto-upgrade."""
    max_surge: int = 0
    max_unavailable: int = 16
    incomplete_grace_s: float = 24 * HOUR_S
    """How long a pool may lack hosts that the reservation calls healthy before it is made again."""
    error_grace_s: float = HOUR_S
    """How long a pool may be in ERROR with no node at all before it is made again."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BlockSpec:
    """A block of a reservation that the loop looks after."""

    name: str
    """The reservation block's name."""
    cubes: int | None = None
    """Node pools to make at most; None: one for each sub-block."""
    spares: int = 0
    """Healthy cubes to keep free for swaps."""
    pools: PoolSettings = PoolSettings()


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReservationSpec:
    name: str
    """Name, or `projects/P/reservations/R`."""
    blocks: tuple[BlockSpec, ...]


class OnDeletion(enum.StrEnum):
    """What to do when somebody else deletes a wanted slice."""

    RECOMMEND = "recommend"
    """Tell it once and leave the slice away until a person says so or the declared state changes."""
    REFORM = "reform"
    """Make it again, with a growing pause between attempts."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class WantedSlice:
    """One or several slices that shall exist."""

    name: str
    shapes: tuple[topology.Topology, ...]
    """The shape wanted, then those to fall back on, in order."""
    count: int = 1
    gang: str = ""
    """Entries with the same word are formed together or not at all."""
    same_block: bool = False
    block: str = ""
    """The only block to use; empty: any."""
    priority: int = 0
    """Higher goes first."""
    team: str = ""
    preemptible: bool = False
    min_run_s: float = 0.0
    """Once formed, neither preempted nor moved for so long."""
    allow_degraded: bool = False
    """If true, cubes with a degraded link will do, and a slice that becomes degraded is left alone."""
    on_deletion: OnDeletion = OnDeletion.RECOMMEND

    @property
    def slice_names(self) -> tuple[str, ...]:
        """The entry's own name for one slice, numbered from 0 for several."""
        return (self.name,) if self.count == 1 else tuple(f"{self.name}-{i}" for i in range(self.count))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Team:
    name: str
    weight: float
    """Share relative to the other teams'."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Budgets:
    """What the loop may disturb; each is a limit for all its actions together."""

    disrupted_chips_per_hour: int = 4096
    """Chips of running slices that its actions interrupt, in any 60 minutes."""
    cubes_in_repair_per_block: int = 4
    pool_operations_in_flight: int = 4


@dataclasses.dataclass(frozen=True, kw_only=True)
class Breaker:
    """So much trouble at once is more likely a false alarm, or too much for a loop: it stops and stays so."""

    percent: float = 25.0
    """Of the cubes with nodes, rounded up to whole cubes."""
    cubes: int = 16
    """An absolute number; whichever is reached first trips it."""
    minimum_cubes: int = 3
    """Fewer troubled cubes than this never trip it, however small the fleet: two hosts that fail within an
    hour are chance."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Window:
    """When voluntary disruption is allowed: moves, merges, remaking pools, repairs that stop work.

    Without any window it is allowed always. A swap of a failed cube never waits for a window.
    """

    name: str
    days: tuple[Weekday, ...]
    """Days on which it begins."""
    start_minute: int
    """Minutes after midnight UTC."""
    length_s: float


class Permission(enum.StrEnum):
    """Whether a remedy needs a person."""

    RECOMMEND = "recommend"
    ALLOW = "allow"
    OFF = "off"


class Remedy(enum.StrEnum):
    """What can be done about a fault, the mildest first."""

    REBOOT = "reboot"
    """Reset the VM (compute.instances.reset)."""
    REPROVISION = "reprovision"
    """Make the node pool of the cube again."""
    FAILOVER = "failover"
    """Swap the cube out of its slice."""
    REMOVE = "remove"
    """Report the host as faulty and hold the cube until there is evidence of repair."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Remediation:
    """How faults are dealt with."""

    reboot: Permission = Permission.RECOMMEND
    reprovision: Permission = Permission.RECOMMEND
    failover: Permission = Permission.ALLOW
    remove: Permission = Permission.RECOMMEND
    cooldown_s: float = 1800.0
    """After any finished repair its cube is left alone for so long, whether or not it helped."""
    attempts: int = 2
    """Attempts of one remedy on one cube before the next one up is proposed."""
    expiry_s: float = 24 * HOUR_S
    """A recommendation nobody answered ends after this."""
    second_approver: bool = False
    """If true, `remove` needs two different people."""

    def permission(self, remedy: Remedy) -> Permission:
        found: Permission = getattr(self, remedy.value)
        return found


class HookEvent(enum.StrEnum):
    SLICE_FORMED = "slice-formed"
    SLICE_DEFORMED = "slice-deformed"
    SWAP_STARTED = "swap-started"
    SWAP_DONE = "swap-done"
    REPAIR_RECOMMENDED = "repair-recommended"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hook:
    """A command to run when something has happened."""

    event: HookEvent
    command: tuple[str, ...]
    """Program and arguments; no shell is involved."""
    timeout_s: float = 30.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Consolidation:
    """When a slice that had to fall back may be made larger again."""

    enabled: bool = True
    move_cost_s: float = 1800.0
    """Work that a slice loses when it is made again: forming, restart, half the time between checkpoints."""
    horizon_s: float = 24 * HOUR_S
    """How long the larger slice is assumed to be of use: gain counts only within it."""
    settle_s: float = 900.0
    """Room must have been there for so long before anything is moved into it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FleetSpec:
    """A fleet's declared state."""

    name: str
    context: str = ""
    """Name of the context in the configuration; empty: whatever is current."""
    reservations: tuple[ReservationSpec, ...] = ()
    slices: tuple[WantedSlice, ...] = ()
    teams: tuple[Team, ...] = ()
    spares_below: int = 1
    """Slices of this priority and above may use the spares."""
    adopt_foreign: bool = False
    """If true, a slice of a wanted name that was made by hand counts as ours."""
    prune: bool = True
    """If true, slices that the loop formed and nobody wants any more are taken apart. Others never are."""
    prune_grace_s: float = 300.0
    """How long a slice must have been unwanted before."""
    budgets: Budgets = Budgets()
    breaker: Breaker = Breaker()
    windows: tuple[Window, ...] = ()
    remediation: Remediation = Remediation()
    consolidation: Consolidation = Consolidation()
    hooks: tuple[Hook, ...] = ()

    @property
    def blocks(self) -> tuple[BlockSpec, ...]:
        return tuple(block for reservation in self.reservations for block in reservation.blocks)


def is_open(windows: tuple[Window, ...], now: datetime.datetime) -> bool:
    """If true, voluntary disruption is allowed at `now` (UTC)."""
    return not windows or any(_covers(window, now) for window in windows)


def _covers(window: Window, now: datetime.datetime) -> bool:
    return any(0 <= (now - start).total_seconds() < window.length_s for start in _starts(window, now))


class Opening(NamedTuple):
    """One time that a window is open (UTC)."""

    starts_at: datetime.datetime
    ends_at: datetime.datetime


def next_window(windows: tuple[Window, ...], after: datetime.datetime) -> Opening | None:
    """The first window that opens after `after` (UTC), which is not one that is open then; None without any.

    Of several that open together, the one that stays open longest.
    """
    found = [
        Opening(start, start + datetime.timedelta(seconds=window.length_s))
        for window in windows
        for start in _starts(window, after)
        if start > after
    ]
    return min(found, key=lambda one: (one.starts_at, after - one.ends_at), default=None)


def _starts(window: Window, around: datetime.datetime) -> Iterator[datetime.datetime]:
    """When it begins in the week before a moment and the week after it."""
    days = [*Weekday]
    for offset in range(-7, 8):
        day = around + datetime.timedelta(days=offset)
        if days[day.weekday()] in window.days:
            midnight = day.replace(hour=0, minute=0, second=0, microsecond=0)
            yield midnight + datetime.timedelta(minutes=window.start_minute)
