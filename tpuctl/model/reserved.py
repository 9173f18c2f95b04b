"""Reserved hardware as the Compute API lists it, and the node pools that GKE makes on it."""

from __future__ import annotations

import dataclasses
import datetime  # noqa: TC003 - the codec resolves annotations at run time
from typing import NamedTuple

from tpuctl.model import states, topology


class TopologyCount(NamedTuple):
    """How many partitions of one shape are in one state (acceleratorTopologiesInfo of the Compute API)."""

    shape: str
    state: str
    """AVAILABLE, RUNNING, or DEGRADED, which here means not usable; as the service wrote it."""
    partitions: int


class Maintenance(NamedTuple):
    """The next planned maintenance of reserved hardware (compute.v1 GroupMaintenanceInfo)."""

    start: datetime.datetime | None
    end: datetime.datetime | None
    status: str = ""
    """PENDING, ONGOING or UNKNOWN, as the service wrote it."""
    kind: str = ""
    """SCHEDULED, UNSCHEDULED, MULTIPLE or UNKNOWN_TYPE."""
    can_reschedule: bool = False
    """If true, it can be started earlier by hand."""
    hosts_ongoing: int = 0
    """VMs under maintenance now."""
    infra_ongoing: int = 0
    """Parts of the infrastructure under maintenance now; what they are for TPUs is not published."""

    @property
    def is_ongoing(self) -> bool:
        return self.status == "ONGOING" or self.hosts_ongoing > 0 or self.infra_ongoing > 0


class SubBlock(NamedTuple):
    """What the Compute API says of the hardware of one cube (compute.v1 ReservationSubBlock)."""

    name: str
    physical_id: str
    """physicalTopology.subBlock, the value of node label `cloud.google.com/gce-topology-subblock`."""
    health: str
    """healthInfo.healthStatus as the service wrote it; empty if it said nothing."""
    healthy_hosts: int | None
    degraded_hosts: int | None
    hosts: int
    """VMs it can hold (`count` in the API)."""
    hosts_in_use: int
    maintenance_start: datetime.datetime | None = None
    maintenance_end: datetime.datetime | None = None
    healthy_infra: int | None = None
    degraded_infra: int | None = None
    """healthInfo's infra counts; what they count for TPUs is not published."""
    topologies: tuple[TopologyCount, ...] = ()
    maintenance: Maintenance | None = None
    """Everything about the window of the two fields above; None if nothing is planned or going on."""
    status: str = ""
    """CREATING, READY, DELETING or INVALID, as the service wrote it."""


class NodePool(NamedTuple):
    """A GKE node pool made for one cube."""

    name: str
    status: states.PoolStatus
    raw_status: str
    sub_block: str
    """Name of the sub-block it was made for; empty if it was aimed at a block."""
    block: str
    """Name of the reservation block it was aimed at."""
    reservation: str
    policy: str
    wanted_hosts: int
    conditions: tuple[str, ...] = ()
    """`CODE: message` for each NodePool.conditions entry."""
    auto_upgrade: bool | None = None
    """If true, GKE may upgrade its nodes by itself, unless the cluster excludes it; None: not known."""


class PoolSpec(NamedTuple):
    """A node pool to make for one cube."""

    name: str
    reservation: str
    block: str
    sub_block: str
    policy: str
    hosts: int = topology.HOSTS_PER_CUBE
    auto_repair: bool = True
    auto_upgrade: bool | None = None
    """None: left to GKE, together with an `auto_repair` that is true; it turns on both."""
    max_surge: int = 0
    """Hosts that an upgrade adds for the time being; the reservation has none to spare."""
    max_unavailable: int = topology.HOSTS_PER_CUBE
    """Hosts that an upgrade takes away at once."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReservedBlock:
    """A reservation block with its sub-blocks, as the Compute API lists it."""

    reservation: str
    name: str
    physical_id: str
    """physicalTopology.block, the value of node label `cloud.google.com/gce-topology-block`."""
    sub_blocks: tuple[SubBlock, ...]
    maintenance: Maintenance | None = None
