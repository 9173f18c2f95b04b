"""What ops needs from the world. `cloud` implements these; ops and its tests see nothing else.

Every method raises only errors of `tpuctl.model.errors`. Reads are whole or an error, never short.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tpuctl.model import fleet

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tpuctl.model import topology

PoolSpec = fleet.PoolSpec
ReservedBlock = fleet.ReservedBlock


class Clock(Protocol):
    """Time as the context has it: on a simulator, simulated seconds."""

    def monotonic_s(self) -> float:
        """Seconds since some fixed moment; only differences mean something."""
        ...

    def sleep(self, seconds: float) -> None: ...


class FleetReader(Protocol):
    def observe(self, sources: Collection[fleet.SourceName]) -> fleet.Fleet:
        """One snapshot from the named sources.

        Raises NotPermitted, Unavailable, NotFound (no Slice resource: the controller is off). A list that
        could not be read to its end is an error.
        """
        ...


class SliceSpec(NamedTuple):
    """What a Slice shall be."""

    name: str
    topology: topology.Topology
    partition_ids: tuple[str, ...]


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

    def events(self, name: str) -> Sequence[str]:
        """Newest event messages about a slice, newest last."""
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


class Pools(Protocol):
    """The GKE side: one cluster and its node pools."""

    def cluster(self) -> Cluster: ...

    def enable_slice_controller(self) -> Operation: ...

    def list(self) -> Sequence[fleet.NodePool]: ...

    def create(self, spec: PoolSpec) -> Operation:
        """Start the creation.

        Raises Conflict if a pool of that name exists, Busy if the cluster runs an incompatible operation or
        too many at once (try again), DoesNotFit for stockout and quota, UsageError for what GKE calls
        invalid.
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
