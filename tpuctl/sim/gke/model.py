"""What the GKE API knows: one cluster and its node pools."""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, Any

from tpuctl.sim import partitions

if TYPE_CHECKING:
    from tpuctl.sim import hardware

_LETTERS = "0123456789bcdfghjklmnpqrstvwxz"
"""Letters of the last part of a node's name. Host indices are looked up in it, so it has at least 16."""


class PoolStatus(enum.StrEnum):
    """NodePool.Status of the API."""

    PROVISIONING = "PROVISIONING"
    RUNNING = "RUNNING"
    RUNNING_WITH_ERROR = "RUNNING_WITH_ERROR"
    RECONCILING = "RECONCILING"
    STOPPING = "STOPPING"
    ERROR = "ERROR"


@dataclasses.dataclass(frozen=True)
class Condition:
    """One entry of `conditions[]`."""

    code: str
    message: str
    canonical: str


@dataclasses.dataclass(eq=False)
class NodePool:
    """One node pool: up to 16 nodes in one cube."""

    name: str
    request: dict[str, Any]
    """The NodePool as the client sent it, checked, with defaults filled in."""
    size: int
    """Nodes wanted."""
    reservation: str
    zone: str
    base_name: str
    """What its VMs' names start with."""
    created_s: float
    changed_s: float
    """When its instance group last began or ended a change."""
    subblock: hardware.SubBlock | None = None
    """The cube it took; None if it found none."""
    status: PoolStatus = PoolStatus.PROVISIONING
    conditions: tuple[Condition, ...] = ()
    joined: list[hardware.Host] = dataclasses.field(default_factory=list)
    """Hosts whose nodes registered, in order of joining. A node stays registered while its host is down."""
    vms_requested: bool = False
    """If true, its instance group may start VMs on powered hosts."""
    vms: int = 0
    """VMs ever started for it; makes their ids unique."""

    @property
    def group(self) -> str:
        """Name of its managed instance group."""
        return f"{self.base_name}-grp"

    @property
    def hosts(self) -> tuple[hardware.Host, ...]:
        """The hosts of its cube that it wants nodes on."""
        return () if self.subblock is None else self.subblock.hosts[: self.size]

    @property
    def complete(self) -> bool:
        """True if as many nodes registered as are wanted."""
        return len(self.joined) == self.size

    @property
    def policy(self) -> str:
        """Name of the resource policy it was made with."""
        return str(self.request["placementPolicy"]["policyName"])

    def instance_name(self, host: hardware.Host) -> str:
        """Return the name a VM of this pool has on a host: a group keeps names when it makes VMs again."""
        digest = partitions.opaque_id(self.base_name, host.index)
        letters = [_LETTERS[int(digest[at : at + 2], 16) % len(_LETTERS)] for at in (0, 2, 4)]
        return f"{self.base_name}-{letters[0]}{_LETTERS[host.index]}{letters[1]}{letters[2]}"

    @property
    def max_pods(self) -> int:
        """Pods that fit on one node."""
        return int(self.request["maxPodsConstraint"]["maxPodsPerNode"])


@dataclasses.dataclass(eq=False)
class Cluster:
    """One regional Standard cluster."""

    name: str
    project: str
    location: str
    zones: tuple[str, ...]
    """Zones in which its nodes may be."""
    version: str
    created_s: float
    slice_controller: bool = False
    reconciling: bool = False
    release_channel: str = "RAPID"
    maintenance_policy: dict[str, Any] | None = None
    """A MaintenancePolicy as it is shown; None: there is none."""
    pools: dict[str, NodePool] = dataclasses.field(default_factory=dict)

    @property
    def path(self) -> str:
        """Its resource name."""
        return f"projects/{self.project}/locations/{self.location}/clusters/{self.name}"

    def pool_path(self, pool: str) -> str:
        """Return the resource name of a pool."""
        return f"{self.path}/nodePools/{pool}"
