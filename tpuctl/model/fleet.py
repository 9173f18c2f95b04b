"""The fleet as one frozen snapshot: reservation > block > cube > host, and the slices on it.

A snapshot says where each part of it comes from, at which revision and when (`Source`). What a source did
not tell is None or UNKNOWN here: never "gone", never "healthy".
"""

from __future__ import annotations

import dataclasses
import datetime  # noqa: TC003 - the codec resolves annotations at run time
import enum
import functools
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tpuctl.model import nodes, operations, reserved, states, topology

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

T = TypeVar("T")

TopologyCount = reserved.TopologyCount
Maintenance = reserved.Maintenance
SubBlock = reserved.SubBlock
NodePool = reserved.NodePool
PoolSpec = reserved.PoolSpec
ReservedBlock = reserved.ReservedBlock
NodeCondition = nodes.NodeCondition
Stray = nodes.Stray


class SourceName(enum.StrEnum):
    """What a snapshot can be read from."""

    NODES = "nodes"
    SLICES = "slices"
    PODS = "pods"
    NODE_POOLS = "nodePools"
    CAPACITY = "capacity"
    """Reservations, blocks and sub-blocks of the Compute API."""
    CLAIMS = "claims"
    """tpuctl's own records: holds on cubes and open operations."""


class Source(NamedTuple):
    """One list that went into a snapshot."""

    name: SourceName
    revision: str
    """The list's resourceVersion where the service has one, else empty."""
    observed_at: datetime.datetime
    """The server's time when it answered."""


class Host(NamedTuple):
    """One VM with 4 chips, seen as a Kubernetes node."""

    name: str
    cube_id: str
    """The 4x4x4 partition id it carries."""
    partition_ids: tuple[str, ...]
    """Ids in the order of `topology.PARTITION_SHAPES`; empty text where the node has no such label."""
    partition_states: tuple[states.PartitionState, ...]
    ready: bool | None
    """The node's Ready condition; None if the node does not say (status Unknown or missing)."""
    ready_since: datetime.datetime | None
    schedulable: bool
    """False if somebody cordoned it."""
    slice_name: str
    """Label `cloud.google.com/gke-tpu-slice`; empty if none."""
    pool: str
    uid: str
    taints: tuple[str, ...] = ()
    """Taint keys other than the one every TPU node has."""
    maintenance_at: datetime.datetime | None = None
    """Planned host maintenance, from label `cloud.google.com/scheduled-maintenance-time`."""
    maintenance_ongoing: bool = False
    """If true, label `cloud.google.com/active-node-maintenance` says ONGOING."""
    created_at: datetime.datetime | None = None
    """When the node object was made: the first boot of the VM."""
    conditions: tuple[NodeCondition, ...] = ()
    """Those that are not False."""
    chips: int | None = None
    """Chips that pods can use (allocatable `google.com/tpu`); None if the node does not tell."""
    provider_id: str = ""
    """`gce://PROJECT/ZONE/INSTANCE`: the VM behind the node."""
    taint_effects: tuple[str, ...] = ()
    """NoSchedule, NoExecute ...: one for each of `taints`; empty if they were not kept."""

    @property
    def told_taints(self) -> tuple[str, ...]:
        """The taints as `key:effect`, each once."""
        effects = self.taint_effects or ("",) * len(self.taints)
        pairs = zip(self.taints, effects, strict=False)
        return tuple(dict.fromkeys(f"{key}:{effect}" if effect else key for key, effect in pairs))

    def state(self, shape: topology.Topology) -> states.PartitionState:
        return self.partition_states[topology.PARTITION_SHAPES.index(shape)]

    def partition_id(self, shape: topology.Topology) -> str:
        return self.partition_ids[topology.PARTITION_SHAPES.index(shape)]


class Partition(NamedTuple):
    """A piece of one cube that a slice can be made from."""

    id: str
    shape: topology.Topology
    state: states.PartitionState
    """The label's value; UNKNOWN if its hosts contradict each other."""
    hosts: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        return len(self.hosts) == self.shape.hosts


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cube:
    """A sub-block of 16 hosts, with or without a node pool."""

    id: str
    """The 4x4x4 partition id; the sub-block's name as long as no node has told the id."""
    block: str
    hosts: tuple[Host, ...] = ()
    pool: NodePool | None = None
    sub_block: SubBlock | None = None
    strays: tuple[str, ...] = ()
    """Nodes of its node pool that carry no label of this cube: there, though it is not told which hosts."""

    @property
    def has_nodes(self) -> bool:
        return bool(self.hosts)

    @property
    def missing_hosts(self) -> int:
        """Hosts that have no node for certain: a node without its labels stands for one of them."""
        return max(topology.HOSTS_PER_CUBE - len(self.hosts) - len(self.strays), 0)

    @property
    def ready_hosts(self) -> int:
        return sum(host.ready is True for host in self.hosts)

    @property
    def state(self) -> states.PartitionState:
        """The 4x4x4 state label on which all hosts agree; UNKNOWN if they do not, or there are none."""
        found = {host.state(topology.CUBE) for host in self.hosts}
        return found.pop() if len(found) == 1 else states.PartitionState.UNKNOWN

    @functools.cached_property
    def partitions(self) -> tuple[Partition, ...]:
        """Its pieces of all shapes, the cube first, in the order of their hosts' names."""
        return tuple(
            partition for shape in reversed(topology.PARTITION_SHAPES) for partition in self._of_shape(shape)
        )

    def _of_shape(self, shape: topology.Topology) -> Iterator[Partition]:
        by_id: dict[str, list[Host]] = {}
        for host in self.hosts:
            if host.partition_id(shape):
                by_id.setdefault(host.partition_id(shape), []).append(host)
        for partition_id, hosts in by_id.items():
            found = {host.state(shape) for host in hosts}
            state = found.pop() if len(found) == 1 else states.PartitionState.UNKNOWN
            yield Partition(partition_id, shape, state, tuple(host.name for host in hosts))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Block:
    """Cubes that can be joined: one ICI domain."""

    id: str
    """Value of node label `cloud.google.com/gce-topology-block`; the Compute name if no node told it."""
    name: str = ""
    """Name in the reservation, empty if the Compute API was not asked."""
    reservation: str = ""
    cubes: tuple[Cube, ...] = ()
    maintenance: Maintenance | None = None
    """Planned for the block as the reservation tells it; None if nothing is, or nobody asked."""

    @property
    def label(self) -> str:
        """What people call it: the reservation's name for it where known."""
        return self.name or self.id


class Owner(NamedTuple):
    """Who made a Slice, by the marks that known controllers leave on it."""

    controller: str
    """`kueue`, `tpu-provisioner`, `ome`, or the manager's own word."""
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        what = f"{self.kind} {place}".strip()
        return f"{self.controller}: {what}" if what else self.controller


BY_HAND = Owner("by hand", "", "", "")
"""The owner of a Slice that carries no mark of any program, tpuctl's included."""


class Slice(NamedTuple):
    """A Slice resource."""

    name: str
    uid: str
    topology: topology.Topology | None
    """None if the text in the resource is no legal shape."""
    raw_topology: str
    partition_ids: tuple[str, ...]
    """Sorted: order has no published meaning, so equal sets are equal slices."""
    state: states.SliceState
    reason: str
    """The Ready condition's reason as written; empty if there is no condition."""
    ready: str
    """The Ready condition's status: True, False, Unknown, or empty."""
    message: str
    created_at: datetime.datetime
    since: datetime.datetime
    """When the Ready condition last changed; the creation if there is none."""
    deleting: bool
    owner: Owner | None
    revision: str
    retries: bool = False
    """If true, GKE itself tries again after SliceCreationFailed (slice.gke.io/retry-on-failure)."""
    priority: int = 0
    """How urgent it is, from tpuctl's annotation; nothing in GKE looks at it."""


class Pod(NamedTuple):
    """A pod that holds or wants TPU chips."""

    namespace: str
    name: str
    uid: str
    node: str
    phase: str
    chips: int
    owner: str
    """`Kind/name` of its controller; empty if it has none."""
    started_at: datetime.datetime | None = None

    @property
    def is_finished(self) -> bool:
        return self.phase in ("Succeeded", "Failed")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fleet:
    """Everything, at one moment."""

    cluster: str
    """`project/location/cluster`."""
    observed_at: datetime.datetime
    blocks: tuple[Block, ...] = ()
    slices: tuple[Slice, ...] = ()
    pods: tuple[Pod, ...] = ()
    strays: tuple[Stray, ...] = ()
    claims: tuple[operations.Claim, ...] = ()
    """What tpuctl itself has put a mark on."""
    sources: tuple[Source, ...] = ()

    def has(self, name: SourceName) -> bool:
        """If true, this snapshot was read from that source, so its absences mean something."""
        return any(source.name is name for source in self.sources)

    def amended(self, **changes: Any) -> Fleet:
        """The same snapshot with other fields; what is known already and does not rest on them is kept.

        A table of 100,000 hosts takes a tenth of a second to make, and often only the time is another.
        """
        made = dataclasses.replace(self, **changes)
        for name, fields in _RESTS_ON.items():
            if name in self.__dict__ and fields.isdisjoint(changes):
                made.__dict__[name] = self.__dict__[name]
        return made

    def with_blocks(self, blocks: tuple[Block, ...]) -> Fleet:
        """The same snapshot, seen through some of its blocks only."""
        return self.amended(blocks=blocks)

    def without_slice(self, name: str) -> Fleet:
        """The same snapshot as if that slice did not exist."""
        return self.amended(slices=tuple(item for item in self.slices if item.name != name))

    def derived(self, make: Callable[[Fleet], T]) -> T:
        """What `make` makes of this snapshot, made once as long as nothing but the time changes.

        `make` is a function of a module that looks at no time, and whose result does not hold the snapshot.
        """
        if make not in self._derived:
            self._derived[make] = make(self)
        found: T = self._derived[make]
        return found

    @functools.cached_property
    def _derived(self) -> dict[Callable[[Fleet], Any], Any]:
        return {}

    @functools.cached_property
    def cubes(self) -> tuple[Cube, ...]:
        return tuple(cube for block in self.blocks for cube in block.cubes)

    @functools.cached_property
    def cubes_by_id(self) -> Mapping[str, Cube]:
        return {cube.id: cube for cube in self.cubes}

    @functools.cached_property
    def _cube_places(self) -> Mapping[str, int]:
        return {cube.id: place for place, cube in enumerate(self.cubes)}

    @functools.cached_property
    def slices_by_name(self) -> Mapping[str, Slice]:
        return {item.name: item for item in self.slices}

    @functools.cached_property
    def block_labels(self) -> Mapping[str, str]:
        """Block id -> what people call it."""
        return {block.id: block.label for block in self.blocks}

    @functools.cached_property
    def cube_of_partition(self) -> Mapping[str, str]:
        """Partition id of any shape -> cube id: shapes overlap in a cube, and ids alone do not show it."""
        return {
            partition_id: cube.id
            for cube in self.cubes
            for host in cube.hosts
            for partition_id in host.partition_ids
            if partition_id
        }

    @functools.cached_property
    def holders(self) -> Mapping[str, tuple[str, ...]]:
        """Cube id -> slices that hold it or a part of it; one being deleted holds until it is gone."""
        found: dict[str, list[str]] = {}
        for item in self.slices:
            for partition_id in item.partition_ids:
                cube_id = self.cube_of_partition.get(partition_id, partition_id)
                if item.name not in found.setdefault(cube_id, []):
                    found[cube_id].append(item.name)
        return {cube_id: tuple(names) for cube_id, names in found.items()}

    @functools.cached_property
    def claimants(self) -> Mapping[str, tuple[str, ...]]:
        """Cube id -> holds and open operations of tpuctl that keep it or a part of it."""
        found: dict[str, tuple[str, ...]] = {}
        for claim in self.claims:
            cube_id = self.cube_of_partition.get(claim.cube_id, claim.cube_id)
            found[cube_id] = (*found.get(cube_id, ()), claim.holder)
        return found

    def cubes_of(self, item: Slice) -> tuple[Cube, ...]:
        """The cubes of a slice, as far as this snapshot knows them."""
        ids = {self.cube_of_partition.get(partition_id, "") for partition_id in item.partition_ids}
        places = sorted(self._cube_places[cube_id] for cube_id in ids if cube_id in self._cube_places)
        return tuple(self.cubes[place] for place in places)

    def hosts_of(self, item: Slice) -> tuple[Host, ...]:
        """The hosts of a slice: those that carry one of its partition ids, of whatever shape."""
        wanted = set(item.partition_ids)
        return tuple(
            host
            for cube in self.cubes_of(item)
            for host in cube.hosts
            if wanted.intersection(host.partition_ids)
        )

    def pods_on(self, hosts: tuple[Host, ...]) -> tuple[Pod, ...]:
        """Unfinished pods on these hosts."""
        return self.pods_at(host.name for host in hosts)

    def pods_at(self, names: Iterable[str]) -> tuple[Pod, ...]:
        """Unfinished pods on the nodes of these names."""
        there = set(names)
        return tuple(pod for pod in self.pods if pod.node in there and not pod.is_finished)


_FACTS = frozenset({"blocks", "slices", "pods", "strays", "claims"})
_RESTS_ON = {
    "cubes": frozenset({"blocks"}),
    "cubes_by_id": frozenset({"blocks"}),
    "_cube_places": frozenset({"blocks"}),
    "cube_of_partition": frozenset({"blocks"}),
    "slices_by_name": frozenset({"slices"}),
    "holders": frozenset({"blocks", "slices"}),
    "claimants": frozenset({"blocks", "claims"}),
    "_derived": _FACTS,
}
"""What a snapshot remembers of itself -> the fields that it follows from."""
