"""What a disruptive act would hit: shown before, compared after."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tpuctl.engine import astray
from tpuctl.model import topology

if TYPE_CHECKING:
    from tpuctl.model import fleet


class BlastRadius(NamedTuple):
    """Slices, unfinished pods, hosts and chips that an act takes away."""

    slices: tuple[str, ...]
    pods: tuple[fleet.Pod, ...]
    hosts: int
    chips: int

    @property
    def owners(self) -> tuple[tuple[str, int], ...]:
        """`namespace/Kind/name` of the pods' controllers with how many pods each loses, largest first."""
        counts: dict[str, int] = {}
        for pod in self.pods:
            key = f"{pod.namespace}/{pod.owner or f'Pod/{pod.name}'}"
            counts[key] = counts.get(key, 0) + 1
        return tuple(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))

    @property
    def is_disruptive(self) -> bool:
        return bool(self.pods)

    def __str__(self) -> str:
        slices = "1 slice" if len(self.slices) == 1 else f"{len(self.slices)} slices"
        pods = "1 running pod" if len(self.pods) == 1 else f"{len(self.pods)} running pods"
        hosts = "1 host" if self.hosts == 1 else f"{self.hosts} hosts"
        return f"{slices}, {pods}, {hosts}, {self.chips:,} chips"


def of_hosts(snapshot: fleet.Fleet, hosts: tuple[fleet.Host, ...]) -> BlastRadius:
    """What the end of these hosts hits: a slice that loses a host loses its fabric, with all its pods."""
    names = {host.name for host in hosts}
    members = {item.name: snapshot.hosts_of(item) for item in snapshot.slices}
    hit = {name: found for name, found in members.items() if names.intersection(host.name for host in found)}
    every = names | {host.name for found in hit.values() for host in found}
    every.update(node for name in hit for node in astray.names_of(snapshot, snapshot.slices_by_name[name]))
    return BlastRadius(
        slices=tuple(sorted(hit)),
        pods=snapshot.pods_at(every),
        hosts=len(every),
        chips=len(every) * topology.CHIPS_PER_HOST,
    )


def of_slice(snapshot: fleet.Fleet, item: fleet.Slice) -> BlastRadius:
    """What taking `item` apart hits: every unfinished pod on its hosts, whoever owns it.

    Nodes that may be its hosts though no partition label says so count as such.
    """
    # Hosts that carry the label of another slice were never this one's, whatever its spec claims.
    hosts = tuple(host for host in snapshot.hosts_of(item) if host.slice_name in ("", item.name))
    names = {*(host.name for host in hosts), *astray.names_of(snapshot, item)}
    return BlastRadius(
        slices=(item.name,),
        pods=snapshot.pods_at(names),
        hosts=len(names),
        chips=len(names) * topology.CHIPS_PER_HOST,
    )
