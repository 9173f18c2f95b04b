"""What the hardware consists of, and what can be wrong with it."""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING

from tpuctl.sim import partitions

if TYPE_CHECKING:
    from tpuctl.sim import clock as clocks


class Fault(enum.StrEnum):
    """What can be wrong with one host. A host may have several faults at once."""

    CRASHED = "crashed"
    """The machine died under its VM and does not come back by itself. (A guest that crashed on a machine in
    order is no fault of the host: see `Hardware.crash_guest`.)"""
    MISSING = "missing"
    """The machine was never delivered, or was taken out: no VM can start on it."""
    IN_REPAIR = "in-repair"
    """Google works on the machine after a report; it comes back by itself."""
    MAINTENANCE = "maintenance"
    """A maintenance window is open; it comes back by itself."""
    CHIP_ERROR = "chip-error"
    """A chip is unusable. The VM goes on, partitions with the host cannot form a slice."""


VM_KEEPS_RUNNING = frozenset({Fault.CHIP_ERROR})


class VmStatus(enum.StrEnum):
    """The instance states of Compute Engine that the simulator uses."""

    PROVISIONING = "PROVISIONING"
    STAGING = "STAGING"
    RUNNING = "RUNNING"
    REPAIRING = "REPAIRING"
    STOPPING = "STOPPING"


@dataclasses.dataclass(slots=True, eq=False)
class Vm:
    """A virtual machine on a host. It keeps its host for life: repair is in place (published)."""

    name: str
    id: str
    pool: str
    group: str
    """Name of the managed instance group that made it."""
    created_s: float
    status: VmStatus = VmStatus.PROVISIONING
    ready: bool = False
    """If true, the guest has booted: its node reports Ready."""
    started_s: float | None = None
    boot: clocks.Timer | None = None

    @property
    def hangs(self) -> bool:
        """If true, the VM counts as running and its guest crashed."""
        return self.status is VmStatus.RUNNING and not self.ready and self.boot is None


@dataclasses.dataclass(slots=True, eq=False)
class Host:
    """One machine with 4 chips."""

    id: str
    index: int
    """Place in its cube, 0 to 15; decides its partitions."""
    subblock: SubBlock = dataclasses.field(repr=False)
    faults: frozenset[Fault] = frozenset()
    vm: Vm | None = None
    repair: clocks.Timer | None = None

    @property
    def healthy(self) -> bool:
        """True if nothing is wrong with the machine, whether or not a VM runs on it."""
        return not self.faults

    @property
    def powered(self) -> bool:
        """True if a VM can run on the machine."""
        return self.faults <= VM_KEEPS_RUNNING

    @property
    def serving(self) -> bool:
        """True if a VM runs on the machine and its guest is up: the node is Ready."""
        return self.powered and self.vm is not None and self.vm.ready

    @property
    def hung(self) -> bool:
        """True if the machine is in order and its VM runs, and the guest on it crashed."""
        return self.powered and self.vm is not None and self.vm.hangs

    def partition_id(self, shape: partitions.Shape) -> str:
        """Return the id of the partition of `shape` that this host is part of."""
        return self.subblock.partition_ids[shape][partitions.number_of(shape, self.index)]


@dataclasses.dataclass(slots=True)
class Maintenance:
    """One planned maintenance of a cube. Times in simulated seconds since the clock's start."""

    window_start_s: float
    window_end_s: float
    ongoing: bool = False


@dataclasses.dataclass(slots=True, eq=False)
class SubBlock:
    """A cube: 16 hosts, 64 chips."""

    name: str
    id: str
    block: Block = dataclasses.field(repr=False)
    partition_ids: dict[partitions.Shape, tuple[str, ...]] = dataclasses.field(repr=False)
    hosts: tuple[Host, ...] = dataclasses.field(default=(), repr=False)
    ocs_degraded: bool = False
    """If true, an optical link is down: usable with lower performance."""
    maintenance: Maintenance | None = None
    group_stuck: bool = False
    """If true, the instance group of its node pool is stuck in an update: not stable, nothing is formed."""

    @property
    def cube_id(self) -> str:
        """The id of the 4x4x4 partition, with which slices are made."""
        return self.partition_ids[partitions.CUBE][0]

    @property
    def used(self) -> int:
        """How many hosts carry a VM."""
        return sum(host.vm is not None for host in self.hosts)

    def members(self, partition_id: str) -> tuple[Host, ...]:
        """Return the hosts of one partition of this cube; KeyError if it is not one of its ids."""
        for shape, ids in self.partition_ids.items():
            if partition_id in ids:
                return tuple(self.hosts[i] for i in partitions.host_indices(shape, ids.index(partition_id)))
        raise KeyError(partition_id)


@dataclasses.dataclass(slots=True, eq=False)
class Block:
    """Cubes that can be joined: one ICI domain."""

    name: str
    id: str
    """Value of the label cloud.google.com/gce-topology-block."""
    reservation: Reservation = dataclasses.field(repr=False)
    subblocks: list[SubBlock] = dataclasses.field(default_factory=list, repr=False)


@dataclasses.dataclass(slots=True, eq=False)
class Reservation:
    """Paid-for capacity in one zone and one cluster of blocks."""

    name: str
    project: str
    zone: str
    cluster_id: str
    """Id of the cluster of blocks, not of a Kubernetes cluster."""
    blocks: list[Block] = dataclasses.field(default_factory=list, repr=False)


class ChangeKind(enum.Enum):
    """What kind of thing a `Change` is about."""

    HOST = enum.auto()
    """The faults of a host changed."""
    VM = enum.auto()
    """A VM appeared, went, booted or stopped."""
    FABRIC = enum.auto()
    """The optical links of a cube changed."""
    MAINTENANCE = enum.auto()
    """The maintenance plan of a cube changed."""
    GROUP = enum.auto()
    """The instance group over a cube got stuck or moves again."""


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """Something happened to a cube, or to one host of it."""

    kind: ChangeKind
    subblock: SubBlock
    host: Host | None = None
