"""One frozen Fleet from the lists of several services.

Nodes make cubes (by their 4x4x4 partition id) and cubes make blocks (by their block label). The lists of node
pools and of reserved capacity add what they know, and the cubes that have no nodes yet. Everything is sorted,
so that the same world gives the same snapshot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tpuctl.cloud import claims, clients, collector, documents, joining, parallel
from tpuctl.cloud import records as records_module
from tpuctl.model import fleet, records

if TYPE_CHECKING:
    import datetime
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

    def observe(self, sources: Collection[fleet.SourceName]) -> fleet.Fleet:
        """One snapshot; a source that fails fails the whole, since half a view looks like a smaller fleet."""
        with collector.paused():
            found = self.read(sources)
            moments = [read.source.observed_at for read in found.values()]
            # The oldest of the lists: what is decided on the snapshot is decided on data of that age.
            return assemble(self._context.fleet, found, min(moments) if moments else self._clock.now())

    def read(self, sources: Collection[fleet.SourceName]) -> dict[fleet.SourceName, Read]:
        """The lists of the named sources, not joined yet."""
        names = [name for name in fleet.SourceName if name in sources]
        return dict(zip(names, self._read_all(names), strict=True))

    def _read_all(self, names: list[fleet.SourceName]) -> list[Read]:
        """In parallel: the services are independent. The first error in order of sources is raised."""
        readers: dict[fleet.SourceName, Callable[[], Read]] = {
            fleet.SourceName.NODES: self._read_nodes,
            fleet.SourceName.SLICES: self._read_slices,
            fleet.SourceName.PODS: self._read_pods,
            fleet.SourceName.NODE_POOLS: self._read_pools,
            fleet.SourceName.CAPACITY: self._read_capacity,
            fleet.SourceName.CLAIMS: self._read_claims,
        }
        if len(names) <= 1:
            return [readers[name]() for name in names]
        clients.load(names)
        return parallel.run_all([readers[name] for name in names])

    def _read_nodes(self) -> Read:
        listing = self._kube.listing("/api/v1/nodes", documents.node, what="list nodes")
        return _read(fleet.SourceName.NODES, listing)

    def _read_slices(self) -> Read:
        return _read(fleet.SourceName.SLICES, self._slices.listing())

    def _read_pods(self) -> Read:
        listing = self._kube.listing("/api/v1/pods", documents.pod, what="list pods")
        listing.items.sort(key=lambda pod: (pod.namespace, pod.name))
        return _read(fleet.SourceName.PODS, listing)

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


def assemble(
    cluster: str, found: Mapping[fleet.SourceName, Read], observed_at: datetime.datetime
) -> fleet.Fleet:
    """Join the lists of several sources into one snapshot."""
    nodes = _items(found, fleet.SourceName.NODES)
    blocks, strays = joining.blocks_of(
        nodes, _items(found, fleet.SourceName.NODE_POOLS), _items(found, fleet.SourceName.CAPACITY)
    )
    return fleet.Fleet(
        cluster=cluster,
        observed_at=observed_at,
        blocks=blocks,
        slices=tuple(_items(found, fleet.SourceName.SLICES)),
        pods=tuple(_items(found, fleet.SourceName.PODS)),
        strays=strays,
        claims=tuple(_items(found, fleet.SourceName.CLAIMS)),
        sources=tuple(read.source for read in found.values()),
    )


def _read(name: fleet.SourceName, listing: kube.Listing[Any]) -> Read:
    return Read(fleet.Source(name, listing.revision, listing.observed_at), listing.items)


def _items(found: Mapping[fleet.SourceName, Read], name: fleet.SourceName) -> Collection[Any]:
    return found[name].items if name in found else ()
