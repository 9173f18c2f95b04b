"""What a cycle of the reconcile loop decides, and what the loop remembers between cycles.

Level-triggered: every cycle reads everything and compares it with the declared state. The memory holds only
what the world cannot tell: since when something has looked wrong, what was disturbed lately, what a person
has said. Losing it makes the loop slower (graces begin anew), never wrong.
"""

from __future__ import annotations

import dataclasses
import datetime  # noqa: TC003 - the codec resolves annotations at run time
import enum
from typing import NamedTuple

# The codec resolves annotations at run time.
from tpuctl.model import declared, operations, reserved, topology  # noqa: TC001

SCHEMA = 1
"""Version of the records' form."""


class ActionKind(enum.StrEnum):
    """What the loop can do, in the order in which it does it."""

    FINISH = "finish"
    """An open operation: carry it on."""
    SWAP = "swap"
    """Without exchanges: the slice failed though its cubes are well, and is made again on them."""
    DEFORM = "deform"
    CREATE_POOL = "create-pool"
    RECREATE_POOL = "recreate-pool"
    """Delete, then make again; slices on it are never under it."""
    FORM = "form"
    """One slice, or a whole gang."""
    GROW = "grow"
    """A slice that had to fall back: take it apart and form it in a larger shape."""
    MOVE = "move"
    """Make a slice again on other cubes, so that another one fits."""


SIGNS = {
    ActionKind.FINISH: "!",
    ActionKind.SWAP: "~",
    ActionKind.DEFORM: "-",
    ActionKind.CREATE_POOL: "*",
    ActionKind.RECREATE_POOL: "*",
    ActionKind.FORM: "+",
    ActionKind.GROW: ">",
    ActionKind.MOVE: ">",
}
"""One character for a line of a plan."""


class Fact(NamedTuple):
    """Something that an action relies on; if it is otherwise when the action begins, the action is off."""

    kind: str
    """`slice`, `cube`, `pool`, `operation` or `spec`."""
    name: str
    fingerprint: str
    """Changes with what matters of it (uid, partitions, verdict, holder, status), not with heartbeats.
    Empty: it does not exist."""


class Forming(NamedTuple):
    """One slice that an action forms."""

    name: str
    topology: topology.Topology
    block: str
    """Id of the block."""
    partition_ids: tuple[str, ...]
    priority: int
    wanted: topology.Topology
    """The shape that was asked for; another one than `topology` if it had to fall back."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Action:
    """One thing to do, or one that a guard stops."""

    kind: ActionKind
    target: str
    """Slice, gang, node pool or operation."""
    reason: str
    forming: tuple[Forming, ...] = ()
    exchanges: tuple[operations.Exchange, ...] = ()
    pool: reserved.PoolSpec | None = None
    chips: int = 0
    """Chips of running work that it interrupts."""
    slices: tuple[str, ...] = ()
    """Running slices that it interrupts."""
    pods_restarted: int = 0
    """Pods that cannot go on: whoever carries it out deletes them once their slice is gone, since they would
    keep its hosts; their controllers make them again."""
    pods_kept: int = 0
    """Pods on its hosts that are left alone."""
    voluntary: bool = False
    """If true, nothing is broken: it waits for a window."""
    facts: tuple[Fact, ...] = ()
    estimate_s: float = 0.0
    """How long it takes, from the durations that the reference gives; a guess, labelled so."""
    gain_chip_h: float = 0.0
    cost_chip_h: float = 0.0
    """For what is voluntary: why it pays."""
    stopped_by: str = ""
    """The guard that stops it, as people read it; empty: it goes ahead."""

    @property
    def id(self) -> str:
        return f"{self.kind}/{self.target}"


class GuardState(enum.StrEnum):
    CLEAR = "clear"
    STOPS_SOME = "stops some actions"
    STOPS_ALL = "stops everything"


class Guard(NamedTuple):
    """A limit and how it stands."""

    name: str
    """`view`, `first run`, `mode`, `pause`, `breaker`, `disruption budget`, `repair budget`,
    `pool operations`, `window`, `churn`."""
    state: GuardState
    says: str


class Sighting(NamedTuple):
    """Something that has looked wrong since some time; acted on only after its grace, seen at least twice."""

    kind: str
    """Of pools `pool-short`, `pool-error`; of cubes `trouble`, `seen-trouble`; of slices `unwanted`,
    `foreign-deletion`, `room` (also of a cube), `made-room`, `slice-trouble`, `slice-worn`, `slice-down`,
    `slice-forming`, `slice-no-spare`, `cubes-coming`."""
    subject: str
    since: datetime.datetime
    cycles: int
    """Full cycles in a row that saw it."""


class Disruption(NamedTuple):
    """Chips that an action of the loop interrupted; counts for an hour."""

    at: datetime.datetime
    chips: int
    action: str
    uids: str = ""
    """Of the slices as they were: as long as they are, the action was not carried out."""


class Attempt(NamedTuple):
    """Failed attempts at one action; the next one waits."""

    action: str
    """`Action.id`; `again/UNIT` counts how often the world has undone a slice or gang that was formed."""
    failures: int
    last_at: datetime.datetime
    why: str


class Suspect(NamedTuple):
    """A cube, or a partition of one, that looks well and with which something went wrong lately."""

    partition_id: str
    failures: int
    """Formations that failed with it, and failures under a slice."""
    last_at: datetime.datetime


class Formed(NamedTuple):
    """A slice that the loop formed or adopted, so that its absence can be told from never having been."""

    name: str
    uid: str
    """Empty: the loop is about to form it, or has itself taken it apart; nobody else deleted it."""
    since: datetime.datetime


class Tripped(NamedTuple):
    """The breaker, open since."""

    at: datetime.datetime
    why: str


class Recommendation(NamedTuple):
    """Something the loop does not do by itself, told once."""

    subject: str
    text: str
    since: datetime.datetime


@dataclasses.dataclass(frozen=True, kw_only=True)
class Memory:
    """Kept in the cluster, written only when it changed."""

    schema: int = SCHEMA
    fleet: str = ""
    """Name of the FleetSpec."""
    spec_digest: str = ""
    """Of the declared state that the last full cycle worked towards."""
    observed_at: datetime.datetime | None = None
    """When this fleet was first observed; acting begins with the cycle after it."""
    sightings: tuple[Sighting, ...] = ()
    disruptions: tuple[Disruption, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    formed: tuple[Formed, ...] = ()
    tripped: Tripped | None = None
    recommendations: tuple[Recommendation, ...] = ()
    churn: tuple[Attempt, ...] = ()
    """Actions repeated without effect: `failures` counts cycles that did the same again."""
    suspects: tuple[Suspect, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Decision:
    """What one cycle would do, on one snapshot."""

    actions: tuple[Action, ...]
    """In the order in which they are carried out, those that a guard stops among them."""
    guards: tuple[Guard, ...]
    memory: Memory
    """What to remember of this cycle if it is carried out."""
    waiting: tuple[tuple[str, str], ...] = ()
    """Wanted slices that do not fit now, each with why."""
    sentence: str = ""
    """The cycle in one sentence."""

    @property
    def to_do(self) -> tuple[Action, ...]:
        return tuple(action for action in self.actions if not action.stopped_by)


class Pause(NamedTuple):
    """A person's word that the loop shall not act."""

    actor: str
    reason: str
    since: datetime.datetime
    until: datetime.datetime | None = None

    def is_over(self, now: datetime.datetime) -> bool:
        return self.until is not None and self.until <= now


class Entry(NamedTuple):
    """One line of the history: a cycle that changed something, or an action of a person on the loop."""

    at: datetime.datetime
    cycle: str
    """Cycle id."""
    plan: str
    """Plan id; empty for what no plan did."""
    actor: str
    text: str
    result: str
    """`done`, `failed`, `stopped`, `told`."""
    subject: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlanFile:
    """A plan as a file: bound to what it saw, single use."""

    schema: int = SCHEMA
    id: str
    version: str
    """Of the tpuctl that wrote it."""
    cluster: str
    """`project/location/cluster`."""
    fleet: str
    spec_digest: str
    policy_digest: str
    pool_policy: str
    """The context's workload policy when it was made."""
    spec: declared.FleetSpec
    """The declared state itself: what the plan is judged by when it is applied."""
    observed_at: datetime.datetime
    expires_at: datetime.datetime
    actions: tuple[Action, ...]
