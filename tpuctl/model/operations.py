"""Records that tpuctl keeps in the cluster: open operations, holds and locks.

An operation's record is written before the first irreversible step and says what is intended, so that any
machine can finish it. What really is, is always read from the world: the record never says "done" of a step
that the world can tell by itself.
"""

from __future__ import annotations

import dataclasses
import datetime  # noqa: TC003 - the codec resolves annotations at run time
import enum
from typing import NamedTuple

from tpuctl.model import topology  # noqa: TC001 - the codec resolves annotations at run time

SCHEMA = 1
"""Version of the record's form; a program refuses a newer one rather than guess."""


class Kind(enum.StrEnum):
    FORM = "form"
    DEFORM = "deform"
    SWAP = "swap"


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


class Claim(NamedTuple):
    """A reason why placement must leave a cube alone, whoever gave it."""

    cube_id: str
    """Cube or partition id."""
    holder: str
    """What people read: `hold by jo: burn-in` or `operation swap-train-a-1f2e of jo`."""
    slice_name: str = ""
    """The slice on whose behalf it is claimed; that one may use it."""


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
