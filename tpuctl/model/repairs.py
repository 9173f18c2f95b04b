"""Repairs: what is wrong, what is proposed against it, what people said, and how far it got.

An item is one attempt of one remedy on one cube or host. Its record is written before each step that cannot
be taken back. What has become of the step is read from the world; the record never says "healed" of what the
world can tell by itself.
"""

from __future__ import annotations

import dataclasses
import datetime  # noqa: TC003 - the codec resolves annotations at run time
import enum
from typing import NamedTuple

from tpuctl.model import counts, declared

SCHEMA = 1
"""Version of the records' form; a program refuses a newer one rather than guess."""


class Ailment(enum.StrEnum):
    """What is wrong, as far as there is a remedy for it."""

    CUBE_BROKEN = "cube-broken"
    """A cube under a slice lacks hosts or is unhealthy."""
    CUBE_DEGRADED = "cube-degraded"
    """A cube under a slice that demands healthy ones has a degraded link."""
    CHIPS_MISSING = "chips-missing"
    """A ready host offers fewer than its 4 chips."""
    CHIPS_UNUSABLE = "chips-unusable"
    """A ready host's own partition (2x2x1) is labelled UNHEALTHY."""
    HOST_NOT_READY = "host-not-ready"
    """The node says that it is not ready, and its VM runs."""
    HOST_SILENT = "host-silent"
    """The kubelet does not report, and its VM runs."""
    NODE_CONDITION = "node-condition"
    """A condition that the policy calls unhealthy, newer than the last start of the host."""
    POOL_ERROR = "pool-error"
    """A node pool in ERROR has no node at all, and the reservation has healthy hosts for it."""
    POOL_SHORT = "pool-short"
    """A node pool lacks hosts that the reservation calls healthy."""


class State(enum.StrEnum):
    """Where an item is."""

    PROPOSED = "proposed"
    """Somebody has to say yes, or the policy allows it and it waits to be seen again."""
    APPROVED = "approved"
    """Everybody who must has said yes; the loop looks once more, then begins."""
    RUNNING = "running"
    """The first step that cannot be taken back was begun, or the cube is held for it."""
    DONE = "done"
    FAILED = "failed"
    REJECTED = "rejected"
    CANCELLED = "cancelled"
    """A person stopped it, somebody else is at work there, or its target is gone."""
    WITHDRAWN = "withdrawn"
    """What it was proposed against is not so any more."""
    EXPIRED = "expired"
    ESCALATED = "escalated"
    """Of a rung: a stronger remedy took its place in the same item."""

    @property
    def is_open(self) -> bool:
        return self in (State.PROPOSED, State.APPROVED, State.RUNNING)


class Step(enum.StrEnum):
    """How far it has committed itself; written before the act, so a crash leaves it behind."""

    NONE = "nothing done"
    HELD = "the cube is held"
    RESETTING = "the VM is being reset"
    RESET = "the VM was reset"
    DELETING = "the node pool is being deleted"
    DELETED = "the deletion of the node pool was asked for"
    SWAPPING = "the cube is being swapped out"
    REPORTING = "the host is being reported"
    REPORTED = "the host was reported as faulty"

    @property
    def is_open_ended(self) -> bool:
        """If true, the act was announced and nobody wrote down whether it was carried out."""
        return self in (Step.RESETTING, Step.DELETING, Step.SWAPPING, Step.REPORTING)


class Proof(NamedTuple):
    """One thing that one source says; what a person decides on."""

    origin: str
    """Who says so: `node`, `partition label`, `VM`, `reservation health`, ..."""
    subject: str
    says: str
    since: datetime.datetime | None = None

    def __str__(self) -> str:
        return f"{self.origin}: {f'{self.subject}: ' if self.subject else ''}{self.says}"


class Blast(NamedTuple):
    """What the remedy takes away."""

    slices: tuple[str, ...]
    pods: int
    """Unfinished pods that end."""
    hosts: int
    """Hosts that it is done to. A slice that loses one of its hosts is interrupted as a whole."""
    chips: int
    """Chips of the running work that it interrupts; where there is no work at all, of the hosts."""
    owners: tuple[str, ...] = ()
    """`16 pods of default/Job/train`."""

    @property
    def is_on_work(self) -> bool:
        """If true, slices or pods are there, though the slices may be down."""
        return bool(self.slices or self.pods)

    @property
    def interrupted_chips(self) -> int:
        """Chips of running work that it interrupts: what the budget of disruption counts."""
        return self.chips if self.is_on_work else 0

    def __str__(self) -> str:
        return ", ".join(
            (
                counts.of(len(self.slices), "slice"),
                counts.of(self.pods, "running pod"),
                counts.of(self.hosts, "host") + (" touched" if self.is_on_work else ""),
                counts.of(self.chips, "chip") + (" interrupted" if self.is_on_work else ""),
            )
        )


class Cost(NamedTuple):
    """How long it takes and what is out of use meanwhile: estimates, with their source."""

    from_s: float
    to_s: float
    chips: int
    """Chips that cannot be used meanwhile."""
    source: str


class Rung(NamedTuple):
    """A remedy that was tried before, or that a stronger one replaced."""

    item: str
    cube: str
    host: str
    ailment: Ailment
    remedy: declared.Remedy
    state: State
    at: datetime.datetime
    note: str = ""

    @property
    def counts(self) -> bool:
        """If true, it was carried out: it counts as an attempt and begins a cooldown."""
        return self.state in (State.DONE, State.FAILED)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """What is wrong with what, and what to do about it."""

    ailment: Ailment
    remedy: declared.Remedy
    cube: str
    """Cube id."""
    block: str
    """Label of its block."""
    pool: str = ""
    sub_block: str = ""
    """Name in the reservation: it stays when the node pool goes."""
    host: str = ""
    """Node name; empty if it is about the whole cube."""
    host_uid: str = ""
    provider_id: str = ""
    slice: str = ""
    """For a failover: the slice that loses the cube."""
    behavior: str = ""
    """For a report: what is wrong, in the words of the API."""
    reason: str
    """One sentence for people."""
    evidence: tuple[Proof, ...]
    blast: Blast
    cost: Cost
    attempt: int = 1
    """Number of this attempt of this remedy on this target."""
    attempt_limit: int = 1
    why_person: str = ""
    """Why a person must approve it whatever the policy allows; empty if nothing speaks for that."""
    voluntary: bool = False
    """If true, it interrupts work that goes on: it waits for a maintenance window."""
    cordoned: tuple[str, ...] = ()
    """Hosts of the cube that somebody had cordoned when it was proposed."""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The same remedy on the same target has the same key."""
        return self.remedy.value, self.cube, self.host, self.slice

    @property
    def target(self) -> str:
        """What people call it."""
        if self.remedy is declared.Remedy.FAILOVER:
            return f"cube {self.cube} of slice {self.slice}"
        if self.remedy is declared.Remedy.REPROVISION:
            return f"node pool {self.pool}"
        return f"host {self.host}"


class Approval(NamedTuple):
    """One person's yes."""

    by: str
    """Authenticated name, without host and process."""
    at: datetime.datetime
    reason: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Item:
    """One attempt of one remedy."""

    schema: int = SCHEMA
    id: str
    case: Case
    state: State
    proposed_at: datetime.datetime
    """When it was proposed as it stands now: an escalation begins anew, and what has to be approved again."""
    expires_at: datetime.datetime
    """When it is over if it has not begun. What was approved and waits for a maintenance window lasts to the
    end of the next one."""
    approvals_needed: int
    """0: the policy allows it without asking."""
    approvals: tuple[Approval, ...] = ()
    previous: tuple[Rung, ...] = ()
    """What was tried before on this target, and what it was before it was escalated; newest last."""
    step: Step = Step.NONE
    step_at: datetime.datetime | None = None
    started_at: datetime.datetime | None = None
    due_at: datetime.datetime | None = None
    """When an item that runs has failed; None: never by itself."""
    known: tuple[str, ...] = ()
    """Names of remote operations of the same kind on this target from before our act: any other is ours."""
    request_id: str = ""
    """Under which the act is asked for; a repeated request with the same one changes nothing."""
    operation: str = ""
    """The remote operation, once its name is known."""
    ended_at: datetime.datetime | None = None
    ended_by: str = ""
    """Who ended it, if it was a person."""
    note: str = ""

    @property
    def is_open(self) -> bool:
        return self.state.is_open

    @property
    def approvals_missing(self) -> int:
        return max(self.approvals_needed - len({approval.by for approval in self.approvals}), 0)

    def ended(self, state: State, at: datetime.datetime, note: str, *, by: str = "") -> Item:
        """The same item, over."""
        return dataclasses.replace(self, state=state, ended_at=at, note=note, ended_by=by)

    def rung(self, state: State, at: datetime.datetime, note: str = "") -> Rung:
        """This item as one line of a history."""
        case = self.case
        return Rung(self.id, case.cube, case.host, case.ailment, case.remedy, state, at, note)


class Sighting(NamedTuple):
    """Something whose beginning no source tells, and since when it was seen in every review."""

    kind: str
    """`pool-error`, `pool-short`, or `kept-away` (healthy, and held or cordoned)."""
    subject: str
    since: datetime.datetime


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ledger:
    """What was done lately; attempts and cooldowns are counted from it, never kept as numbers."""

    schema: int = SCHEMA
    rungs: tuple[Rung, ...] = ()
    """Items that are over, newest last, as long as they count for anything."""
    closed: tuple[Item, ...] = ()
    """The newest of them in full, for people."""
    sightings: tuple[Sighting, ...] = ()
