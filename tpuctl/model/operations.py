"""Records that tpuctl keeps in the cluster: open operations, holds and locks.

An operation's record is written before the first irreversible step and says what is intended, so that any
machine can finish it. What really is, is always read from the world: the record never says "done" of a step
that the world can tell by itself.
"""

from __future__ import annotations

import dataclasses
import datetime  # noqa: TC003 - the codec resolves annotations at run time
import enum
import re
from typing import NamedTuple

from tpuctl.model import counts, topology

SCHEMA = 1
"""Version of the record's form; a program refuses a newer one rather than guess."""


class Kind(enum.StrEnum):
    FORM = "form"
    DEFORM = "deform"
    SWAP = "swap"


def is_of_kind(operation_id: str, kind: Kind) -> bool:
    """Whether an operation is of a kind, by its id alone: that is all that a claim tells of it."""
    return operation_id.startswith(f"{kind}-")


class Intent(enum.StrEnum):
    """How far the operation has committed itself; written before the act, so a crash leaves it behind."""

    PLANNED = "planned"
    """Nothing irreversible was begun."""
    DELETING = "deleting"
    """The old Slice is being deleted, or is gone."""
    CREATING = "creating"
    """The new Slice is being created, or exists."""
    RESTARTING = "restarting"
    """The new Slice was ready; pods of the replaced cubes are being deleted."""


class Exchange(NamedTuple):
    """One cube for another."""

    old: str
    """Cube id of the failed cube."""
    new: str
    """Cube id of its replacement."""


class PodRef(NamedTuple):
    """A pod as it was when the operation was planned."""

    namespace: str
    name: str
    uid: str
    node: str
    replaced: bool
    """If true, it ran on a failed cube and is restarted; otherwise it must survive."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Operation:
    """An open operation."""

    schema: int
    id: str
    kind: Kind
    slice_name: str
    topology: topology.Topology
    actor: str
    """Who began it: identity, host and process."""
    started_at: datetime.datetime
    intent: Intent
    old_uid: str
    """The Slice that was there; empty if none was."""
    old_partitions: tuple[str, ...]
    partitions: tuple[str, ...]
    """What the Slice shall have; empty if it shall go."""
    exchanges: tuple[Exchange, ...] = ()
    pods: tuple[PodRef, ...] = ()
    cordons: tuple[str, ...] = ()
    """Hosts that this operation cordons; those that somebody else had cordoned are not on the list."""
    tried: tuple[str, ...] = ()
    """Cubes with which formation has failed in this operation."""
    allow_degraded: bool = False
    aborting: bool = False
    """If true, the way back is being gone."""
    note: str = ""
    """Why it stopped, if it stopped."""
    priority: int = 0
    """Of the slice: whoever makes it again gives it the same."""

    @property
    def claims(self) -> tuple[str, ...]:
        """Partitions that nobody else may take while this is open."""
        return tuple(sorted({*self.old_partitions, *self.partitions}))

    @property
    def is_begun(self) -> bool:
        """If true, something may have been done to a Slice already."""
        return self.intent is not Intent.PLANNED

    @property
    def why_no_way_back(self) -> str:
        """Why it can only be finished; empty if it can still be taken back.

        A swap that has deleted its slice goes back only if its old cubes can form: that is for whoever looks
        at them to tell.
        """
        if self.kind is Kind.DEFORM and self.is_begun:
            return "has begun to delete the slice, which cannot be undone"
        if self.intent is Intent.RESTARTING:
            return "has formed its slice on the new cubes and restarts pods there: it can only be finished"
        return ""

    @property
    def stage(self) -> str:
        """How far it is, in a word."""
        return "going back" if self.aborting else str(self.intent)


class Hold(NamedTuple):
    """A cube taken out of placement."""

    cube_id: str
    owner: str
    """Who holds it."""
    reason: str
    since: datetime.datetime
    until: datetime.datetime | None = None
    """When it ends by itself; None: when somebody releases it."""
    sub_block: str = ""
    """Where the cube is: what is left of its name when all of its nodes are gone."""

    def is_over(self, now: datetime.datetime) -> bool:
        return self.until is not None and self.until <= now


class Keeper(enum.StrEnum):
    """What kind of thing keeps a cube from placement."""

    HOLD = "hold"
    """A person, until it is released; also what a decision under way has set aside."""
    OPERATION = "operation"
    """An open operation, until it is finished."""
    REBOOT = "reboot"
    """A repair that reboots a host of it."""
    PODS = "pods"
    """Pods that outlived their slice."""


class Kept(NamedTuple):
    """By what a cube is kept, read from the words in which a claim tells it."""

    keeper: Keeper
    name: str = ""
    """Owner of the hold, id of the operation or repair, `NAMESPACE/KIND/NAME` of what owns the pods; empty if
    the words do not tell."""


# Claims are told in words, in dumps too, and read again from them: what writes the words and what reads them
# stand together here.


def words_of_hold(owner: str, reason: str) -> str:
    return f"hold by {owner}: {reason}"


def words_of_operation(operation_id: str, actor: str) -> str:
    return f"operation {operation_id} of {actor}"


def words_of_reboot(repair_id: str, host: str) -> str:
    return f"repair {repair_id}: {host} is rebooted"


def words_of_pods(count: int, owner: str) -> str:
    """`owner` is `NAMESPACE/KIND/NAME`."""
    return f"{counts.of(count, 'pod')} of {owner} still {'runs' if count == 1 else 'run'}"


_KEPT = (
    (Keeper.HOLD, re.compile(r"hold by (\S+)")),
    (Keeper.OPERATION, re.compile(r"operation (\S+) of ")),
    (Keeper.REBOOT, re.compile(r"repair (\S+): ")),
    (Keeper.PODS, re.compile(r"[\d,]+ pods? of (\S+) still runs?")),
)


def kept_by(holder: str) -> Kept:
    """What the words of a claim say; whatever else keeps a cube has set it aside like a hold."""
    for keeper, words in _KEPT:
        found = words.match(holder)
        if found:
            name = found[1].removesuffix(":") if keeper is Keeper.HOLD else found[1]
            return Kept(keeper, name)
    return Kept(Keeper.HOLD)


class Claim(NamedTuple):
    """A reason why placement must leave a cube alone, whoever gave it."""

    cube_id: str
    """Cube or partition id."""
    holder: str
    """What people read: `hold by jo: burn-in` or `operation swap-train-a-1f2e of jo`."""
    slice_name: str = ""
    """The slice on whose behalf it is claimed; that one may use it."""
    until: datetime.datetime | None = None
    """When it ends by itself; None if it does not."""


class Lease(NamedTuple):
    """A lock as the server has it (coordination.k8s.io Lease)."""

    name: str
    uid: str
    holder: str
    """Empty if it was given back."""
    duration_s: float
    renewed_at: datetime.datetime | None
    transitions: int
    revision: str
    observed_at: datetime.datetime
    """The server's time, by which expiry is judged."""
    note: str = ""
    """Why it is free, if somebody broke it."""
    told: str = ""
    """What its holder had to say when it last renewed it."""

    @property
    def is_held(self) -> bool:
        if not self.holder:
            return False
        if self.renewed_at is None:
            return True  # who never said when it was renewed cannot be called expired
        return (self.observed_at - self.renewed_at).total_seconds() < self.duration_s
