"""One frozen Fleet from the lists of several services.

Nodes make cubes (by their 4x4x4 partition id) and cubes make blocks (by their block label). The lists of node
pools and of reserved capacity add what they know, and the cubes that have no nodes yet. Everything is sorted,
so that the same world gives the same snapshot.

Read again, what has not changed is the same object as before, down to the host.
"""

from __future__ import annotations

import datetime
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from tpuctl.cloud import claims, clients, collector, documents, joining, parallel, sameness
from tpuctl.cloud import records as records_module
from tpuctl.model import fleet, records

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from tpuctl.cloud import clock as clock_module
    from tpuctl.cloud import googleapis, kube, slices
    from tpuctl.ops import context as context_module
    from tpuctl.ops import ports


# A kind that is not known here is read, and stops us: it may claim cubes.
_CLAIMS_SELECTOR = (
    f"{records_module.KIND_LABEL},"
    f"{records_module.KIND_LABEL} notin ({','.join(sorted(records.WITHOUT_CLAIMS))})"
)


NODES_PATH, PODS_PATH = "/api/v1/nodes", "/api/v1/pods"
YOUNG_S = 240.0
"""Real seconds. A server remembers the last five minutes (etcd compaction), so that a watch may begin there;
whether it has forgotten them nevertheless, it says itself."""
_NEVER = datetime.datetime.min.replace(tzinfo=datetime.UTC)


class Named(NamedTuple):
    """An object of a list."""

    name: str
    """Unlike that of any other one in the list; sorts as a server sorts."""
    revision: str
    item: Any


class Listing(NamedTuple):
    """A whole list at one revision, of a resource that can be watched from there on."""

    items: list[Named]
    revision: str
    observed_at: datetime.datetime
    begun_s: float
    """When it was asked for, on the context's clock."""


class Read(NamedTuple):
    """What one source gave."""

    source: fleet.Source
    items: Any


class FleetReader:
    """The FleetReader port."""

    def __init__(
        self,
        context: context_module.Context,
        clock: clock_module.WallClock,
        *,
        kube: kube.Kube,
        slices: slices.KubeSlices,
        apis: googleapis.GoogleApis,
        pools: ports.Pools,
        capacity: ports.Capacity,
        records: records_module.KubeRecords,
    ) -> None:
        self._context = context
        self._clock = clock
        self._kube = kube
        self._slices = slices
        self._apis = apis
        self._pools = pools
        self._capacity = capacity
        self._records = records
        self._same_nodes: sameness.Same[documents.PlacedHost | fleet.Stray] = sameness.Same()
        self._same_pods: sameness.Same[fleet.Pod] = sameness.Same()
        self._newest: dict[fleet.SourceName, Listing] = {}
        self._assembler = Assembler(context.fleet)

    def nodes_to_watch(self) -> Listing:
        """Where a watch of nodes begins: the last list, if it is young and was not taken yet, else a new one.

        A loop that has just read everything need not read it again in order to watch it.
        """
        return self._young(fleet.SourceName.NODES) or self.list_nodes()

    def pods_to_watch(self) -> Listing:
        """The same for pods."""
        return self._young(fleet.SourceName.PODS) or self.list_pods()

    def _young(self, source: fleet.SourceName) -> Listing | None:
        found = self._newest.pop(source, None)
        young_s = YOUNG_S * max(self._clock.scale, 1.0)
        is_young = found is not None and self._clock.monotonic_s() - found.begun_s <= young_s
        return found if is_young else None

    @property
    def assembler(self) -> Assembler:
        """For whoever reads by other means, and wants the same objects for the same cubes."""
        return self._assembler

    def observe(
        self, sources: Collection[fleet.SourceName], *, meanwhile: Callable[[], None] | None = None
    ) -> fleet.Fleet:
        """One snapshot; a source that fails fails the whole, since half a view looks like a smaller fleet."""
        with collector.paused():
            found = self.read(sources, meanwhile=meanwhile)
            moments = [read.source.observed_at for read in found.values()]
            # The oldest of the lists: what is decided on the snapshot is decided on data of that age.
            return self._assembler.assemble(found, min(moments) if moments else self._clock.now())

    def read(
        self, sources: Collection[fleet.SourceName], *, meanwhile: Callable[[], None] | None = None
    ) -> dict[fleet.SourceName, Read]:
        """The lists of the named sources, not joined yet."""
        names = [name for name in fleet.SourceName if name in sources]
        return dict(zip(names, self._read_all(names, meanwhile), strict=True))

    def _read_all(self, names: list[fleet.SourceName], meanwhile: Callable[[], None] | None) -> list[Read]:
        """In parallel: the services are independent. The first error in order of sources is raised."""
        readers: dict[fleet.SourceName, Callable[[], Read]] = {
            fleet.SourceName.NODES: self._read_nodes,
            fleet.SourceName.SLICES: self._read_slices,
            fleet.SourceName.PODS: self._read_pods,
            fleet.SourceName.NODE_POOLS: self._read_pools,
            fleet.SourceName.CAPACITY: self._read_capacity,
            fleet.SourceName.CLAIMS: self._read_claims,
        }
        if not names or (len(names) == 1 and meanwhile is None):
            return [readers[name]() for name in names]
        clients.load(names)
        return parallel.run_all([readers[name] for name in names], meanwhile=meanwhile)

    def list_nodes(self) -> Listing:
        """Hosts of cubes and strays, with what tells them apart from older and newer ones."""

        def keep(document: dict[str, Any]) -> Named | None:
            item = documents.node(document)
            if item is None:
                return None
            name = document["metadata"]["name"]
            return Named(name, _revision(document), self._same_nodes.of(name, item))

        begun_s = self._clock.monotonic_s()
        with collector.paused():
            found = self._kube.listing(NODES_PATH, keep, what="list nodes")
        self._same_nodes.only(entry.name for entry in found.items)
        return Listing(found.items, found.revision, found.observed_at, begun_s)

    def list_pods(self) -> Listing:
        """Pods that hold or want TPU chips, by namespace and name."""

        def keep(document: dict[str, Any]) -> Named | None:
            item = documents.pod(document)
            if item is None:
                return None
            name = pod_name(document)
            return Named(name, _revision(document), self._same_pods.of(name, item))

        begun_s = self._clock.monotonic_s()
        with collector.paused():
            found = self._kube.listing(PODS_PATH, keep, what="list pods")
        self._same_pods.only(entry.name for entry in found.items)
        items = sorted(found.items, key=lambda entry: entry.name)
        return Listing(items, found.revision, found.observed_at, begun_s)

    def _read_nodes(self) -> Read:
        return self._kept(fleet.SourceName.NODES, self.list_nodes())

    def _read_slices(self) -> Read:
        return _read(fleet.SourceName.SLICES, self._slices.listing())

    def _read_pods(self) -> Read:
        return self._kept(fleet.SourceName.PODS, self.list_pods())

    def _kept(self, name: fleet.SourceName, listing: Listing) -> Read:
        self._newest[name] = listing
        source = fleet.Source(name, listing.revision, listing.observed_at)
        return Read(source, [entry.item for entry in listing.items])

    def _read_claims(self) -> Read:
        listing = self._records.listing(_CLAIMS_SELECTOR)
        source = fleet.Source(fleet.SourceName.CLAIMS, listing.revision, listing.observed_at)
        return Read(source, claims.claims_of(listing.items))

    def _read_pools(self) -> Read:
        return self._from_google(fleet.SourceName.NODE_POOLS, self._pools.list)

    def _read_capacity(self) -> Read:
        return self._from_google(fleet.SourceName.CAPACITY, self._capacity.blocks)

    def _from_google(self, name: fleet.SourceName, read: Callable[[], Collection[Any]]) -> Read:
        items = read()
        return Read(fleet.Source(name, "", self._apis.observed_at), items)


class Assembler:
    """Joins the lists of several sources into snapshots, one after the other. Threads may share one."""

    def __init__(self, cluster: str) -> None:
        self._joiner = joining.Joiner()
        self._last = fleet.Fleet(cluster=cluster, observed_at=_NEVER)
        self._joined: tuple[Collection[Any], ...] = ()
        """The lists that the last blocks and strays were made of."""
        self._lock = threading.Lock()

    def assemble(self, found: Mapping[fleet.SourceName, Read], observed_at: datetime.datetime) -> fleet.Fleet:
        """What these lists say. A part that says what it said in the last snapshot is the same object."""
        with self._lock:
            parts = {
                **self._hardware(found),
                "slices": tuple(_items(found, fleet.SourceName.SLICES)),
                "pods": tuple(_items(found, fleet.SourceName.PODS)),
                "claims": tuple(_items(found, fleet.SourceName.CLAIMS)),
            }
            changes = {name: part for name, part in parts.items() if part != getattr(self._last, name)}
            self._last = self._last.amended(
                observed_at=observed_at, sources=tuple(read.source for read in found.values()), **changes
            )
            return self._last

    def _hardware(self, found: Mapping[fleet.SourceName, Read]) -> dict[str, Any]:
        names = (fleet.SourceName.NODES, fleet.SourceName.NODE_POOLS, fleet.SourceName.CAPACITY)
        lists = tuple(_items(found, name) for name in names)
        if self._joined and all(now is was for now, was in zip(lists, self._joined, strict=True)):
            return {}
        blocks, strays = self._joiner.blocks_of(*lists)
        self._joined = lists
        return {"blocks": blocks, "strays": strays}


def _read(name: fleet.SourceName, listing: kube.Listing[Any]) -> Read:
    return Read(fleet.Source(name, listing.revision, listing.observed_at), listing.items)


def _items(found: Mapping[fleet.SourceName, Read], name: fleet.SourceName) -> Collection[Any]:
    return found[name].items if name in found else ()


def pod_name(document: Mapping[str, Any]) -> str:
    """Namespace and name, so that they sort as a pair."""
    metadata = document["metadata"]
    return f"{metadata.get('namespace') or ''}\0{metadata['name']}"


def _revision(document: Mapping[str, Any]) -> str:
    return document["metadata"].get("resourceVersion") or ""
