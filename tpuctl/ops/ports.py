"""What ops needs from the world. `cloud` implements these; ops and its tests see nothing else.

Every method raises only errors of `tpuctl.model.errors`. Reads are whole or an error, never short.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tpuctl.model import fleet, operations

if TYPE_CHECKING:
    import datetime
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from tpuctl.model import topology

TICK_S = 10.0
"""A watched fleet is shown at least so often; seconds of the context."""
PoolSpec = fleet.PoolSpec
ReservedBlock = fleet.ReservedBlock


class Identity(Protocol):
    """Who is acting: an authenticated name where the server tells one, with host and process."""

    def actor(self) -> str:
        """`name@host/place:pid`; the name is the server's answer to SelfSubjectReview."""
        ...

    def is_dead(self, holder: str) -> bool:
        """True if `holder`, as `actor` writes it, was a process of this machine that is no more."""
        ...


class Clock(Protocol):
    """Time as the context has it: on a simulator, simulated seconds."""

    @property
    def scale(self) -> float:
        """Seconds of this clock for each real second: 1 in the world, more on a fast simulator."""
        ...

    def monotonic_s(self) -> float:
        """Seconds since some fixed moment; only differences mean something."""
        ...

    def sleep(self, seconds: float) -> None: ...


class FleetReader(Protocol):
    def observe(
        self, sources: Collection[fleet.SourceName], *, meanwhile: Callable[[], None] | None = None
    ) -> fleet.Fleet:
        """One snapshot from the named sources.

        A large fleet takes a minute to read: `meanwhile` is called now and then by the thread that waits,
        and what it raises ends the reading. Raises NotPermitted, Unavailable, NotFound (no Slice resource:
        the controller is off). A list that could not be read to its end is an error.
        """
        ...


class SliceSpec(NamedTuple):
    """What a Slice shall be."""

    name: str
    topology: topology.Topology
    partition_ids: tuple[str, ...]
    priority: int = 0


class Slices(Protocol):
    def get(self, name: str) -> fleet.Slice | None: ...

    def create(self, spec: SliceSpec, *, validate_only: bool = False) -> fleet.Slice:
        """Create it, or return the existing one if name, shape and set of partitions are the same.

        Raises Conflict if the name is taken by another spec or still being deleted, UsageError if the
        server's validation refuses it. `validate_only` asks the server to check and store nothing.
        """
        ...

    def delete(self, name: str, *, uid: str) -> None:
        """Ask for deletion of exactly this object; one that is gone already is fine.

        Raises Conflict if another object has the name now.
        """
        ...

    def labelled_hosts(self, name: str) -> int:
        """Nodes that carry the slice's label now; metadata is enough to count them."""
        ...

    def events(self, name: str, *, uid: str) -> Sequence[str]:
        """Newest event messages about exactly this slice, newest last."""
        ...


class OperationStatus(enum.Enum):
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class Operation(NamedTuple):
    """A long-running GKE operation (google.container.v1 Operation)."""

    name: str
    kind: str
    """operationType, for example CREATE_NODE_POOL."""
    target: str
    """Last part of targetLink: the pool or cluster."""
    status: OperationStatus
    error: str = ""


class Cluster(NamedTuple):
    """A GKE cluster."""

    name: str
    version: str
    status: str
    slice_controller: bool
    release_channel: str
    excludes_node_upgrades: bool = False
    """If true, a maintenance exclusion that holds now keeps GKE from upgrading nodes by itself."""


class Pools(Protocol):
    """The GKE side: one cluster and its node pools."""

    def cluster(self) -> Cluster: ...

    def enable_slice_controller(self) -> Operation: ...

    def list(self) -> Sequence[fleet.NodePool]: ...

    def create(self, spec: PoolSpec) -> Operation:
        """Start the creation.

        Raises Conflict if a pool of that name exists, Busy if the cluster runs an incompatible operation or
        too many at once (try again), DoesNotFit for stockout and quota, UsageError for what GKE calls
        invalid, settings that the cluster's release channel forbids among it.
        """
        ...

    def delete(self, name: str) -> Operation:
        """Start the deletion; raises NotFound, Busy, Conflict (an active slice uses it)."""
        ...

    def operations(self) -> Sequence[Operation]:
        """All operations the service still remembers."""
        ...

    def operation(self, name: str) -> Operation: ...


class Capacity(Protocol):
    """The Compute side: reservations with blocks and sub-blocks, and the workload policy."""

    def blocks(self) -> Sequence[ReservedBlock]: ...

    def has_policy(self, name: str) -> bool:
        """True if the workload policy exists and is HIGH_THROUGHPUT, 4x4x4, PROVISION_ONLY.

        Raises Conflict if a policy of that name exists and is something else.
        """
        ...

    def create_policy(self, name: str) -> None:
        """Create it and wait until the service says so; one that exists already is fine."""
        ...


class Record(NamedTuple):
    """One of tpuctl's own ConfigMaps in namespace `tpuctl-system`."""

    name: str
    kind: str
    """One of the words in `tpuctl.model.records`."""
    text: str
    """JSON."""
    uid: str
    revision: str
    observed_at: datetime.datetime


class Records(Protocol):
    """tpuctl's memory in the cluster, so that any machine can go on where another stopped."""

    def list(self, kind: str) -> Sequence[Record]: ...

    def get(self, name: str) -> Record | None: ...

    def create(self, name: str, kind: str, text: str) -> Record:
        """Raises Conflict if the name is taken; after an open outcome it looks whether it was us."""
        ...

    def replace(self, record: Record, text: str) -> Record:
        """Raises Conflict if somebody else changed it since it was read."""
        ...

    def delete(self, record: Record) -> None:
        """Delete exactly this object; one that is gone is fine. Raises Conflict if it was changed."""
        ...


class Leases(Protocol):
    """Locks (coordination.k8s.io Lease) in namespace `tpuctl-system`."""

    def list(self) -> Sequence[operations.Lease]: ...

    def get(self, name: str) -> operations.Lease | None: ...

    def create(self, name: str, holder: str, duration_s: float) -> operations.Lease:
        """Raises Conflict if it exists."""
        ...

    def renew(
        self, lease: operations.Lease, holder: str, duration_s: float, *, told: str = ""
    ) -> operations.Lease:
        """Write holder and time; a new holder counts as a transition. Raises Conflict if it was changed.

        `told` is what the holder has to say to whoever looks at the lock.
        """
        ...

    def free(self, lease: operations.Lease, *, note: str = "") -> None:
        """Take the holder's name off, and leave a note why and what it told last.

        Raises Conflict if it was changed.
        """
        ...

    def delete(self, lease: operations.Lease) -> None:
        """Delete exactly this revision; one that is gone is fine. Raises Conflict if it was changed."""
        ...


class JobBudget(NamedTuple):
    """What a Job can bear."""

    namespace: str
    name: str
    failures_left: int | None
    """Pods that may still fail before the whole Job does (batch/v1 backoffLimit); None: not limited."""


class Workloads(Protocol):
    """Nodes and pods, as far as a swap touches them."""

    def cordon(self, host: str, operation: str) -> bool:
        """Make a host unschedulable with our mark; False if somebody else already had, or it is gone."""
        ...

    def uncordon(self, host: str, operation: str) -> bool:
        """Take the mark of this operation and its cordon away; False if there was none of ours."""
        ...

    def marked(self, hosts: Sequence[str], operation: str) -> Mapping[str, bool]:
        """Those of `hosts` that exist -> whether they carry the mark of this operation."""
        ...

    def live_pods(self, pods: Sequence[operations.PodRef]) -> frozenset[str]:
        """uids of those pods that still exist as they were, and are not finished or on their way out."""
        ...

    def running_on(self, host: str) -> int:
        """How many pods that hold TPU chips run on a host."""
        ...

    def unfinished(self, namespace: str) -> frozenset[str]:
        """uids of the pods of a namespace that have neither succeeded nor failed."""
        ...

    def delete_pod(self, namespace: str, name: str, *, uid: str) -> None:
        """Delete exactly this pod, gracefully; one that is gone or was replaced is fine."""
        ...

    def job_budget(self, namespace: str, name: str) -> JobBudget | None:
        """None if there is no such Job."""
        ...


class Instance(NamedTuple):
    """A Compute Engine VM."""

    project: str
    zone: str
    name: str
    status: str
    """RUNNING, STOPPING, REPAIRING, ...; as the service wrote it."""
    provisioning_model: str
    """RESERVATION_BOUND for VMs on All Capacity mode capacity; empty if the service did not tell."""


class FaultReport(NamedTuple):
    """What to tell Google about a host."""

    behavior: str
    """PERFORMANCE, SILENT_DATA_CORRUPTION, CHIP_ERROR or BEHAVIOR_UNSPECIFIED."""
    description: str
    disruption: str
    """IMMEDIATE or FUTURE: when the VM may be stopped for the repair."""


class Instances(Protocol):
    """The VMs behind the nodes."""

    def get(self, provider_id: str) -> Instance | None:
        """The VM that a node's `spec.providerID` names; None if it does not exist.

        Raises UsageError for a provider id that names no Compute Engine VM.
        """
        ...

    def report_faulty(self, instance: Instance, report: FaultReport) -> Operation:
        """Start the report; after an open outcome a report that runs already is returned.

        Raises Conflict if the service finds the VM in the wrong state.
        """
        ...

    def reports(self, instance: Instance) -> Sequence[Operation]:
        """Reports of this VM that the service remembers, oldest first; a running one among them."""
        ...

    def operation(self, instance: Instance, name: str) -> Operation: ...

    def reset(self, instance: Instance, request_id: str) -> Operation:
        """Start a reset: the guest loses its memory, the VM keeps its host and its disks.

        `request_id` is a UUID: the service knows a repeated request by it and begins nothing anew. Raises
        Busy if the VM is not RUNNING, NotFound if it is gone.
        """
        ...

    def resets(self, instance: Instance) -> Sequence[Operation]:
        """Resets of this VM that the service remembers, oldest first, whoever asked for them."""
        ...


class About(NamedTuple):
    """The object that an event is about; both kinds belong to no namespace."""

    kind: str
    """`Slice` or `Node`."""
    name: str
    uid: str


class Events(Protocol):
    """Kubernetes Events, for those who look at an object with kubectl describe."""

    def emit(self, about: About, reason: str, message: str, *, warning: bool = False) -> None:
        """Say something about an object.

        The same words about the same object are counted in one Event, and written at most once in a while.
        """
        ...


class Sighting(NamedTuple):
    """What a watch sees: the fleet now, or why nothing new can be told."""

    fleet: fleet.Fleet | None
    """None until the first lists were read."""
    trouble: str = ""
    """Why the fleet may be old; empty while the streams are heard."""


class Changes(Protocol):
    """A fleet that is watched rather than read again and again."""

    def follow(
        self,
        sources: Collection[fleet.SourceName],
        *,
        silence_s: float,
        reread_s: float,
        timeout_s: float | None,
        tick_s: float = TICK_S,
    ) -> Iterator[Sighting]:
        """Yield a sighting at first and after every change or change of trouble, until `timeout_s` is over.

        One comes at least every `tick_s`, since ages grow while nothing happens. Nodes and slices are
        watched, other sources read again every `reread_s`. A stream that is silent for `silence_s` (real
        seconds), breaks, or has expired is begun again from a whole list, so that nothing is missed for ever.
        Raises NotPermitted and NotFound; anything that may pass is told as trouble.
        """
        ...


class Reporter(Protocol):
    """Where ops tells what happens; never a result."""

    def step(self, text: str) -> None:
        """A named step begins or a state changed."""
        ...

    def progress(self, done: int, total: int, text: str) -> None: ...

    def warn(self, text: str) -> None: ...

    def going_on(self, text: str) -> None:
        """What continues remotely if this program stops now, and how to follow it; empty: nothing.

        Shown when the user interrupts, or when waiting times out.
        """
        ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ports:
    """Everything a command may need; each is built on first use, since the clients are slow to import."""

    clock: Clock
    fleet: FleetReader
    slices: Slices
    pools: Pools
    capacity: Capacity
    records: Records
    leases: Leases
    workloads: Workloads
    identity: Identity
    instances: Instances
    changes: Changes
    events: Events
