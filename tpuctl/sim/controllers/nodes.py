"""Nodes: they join when their VM has booted, follow its health, and leave with it.

Played here are the kubelet's registration and the node life-cycle controller (Ready=Unknown and taints for
nodes that fell silent, the taint of cordoned ones). Node leases and heartbeats are not simulated: thousands
of nodes would write all day and say nothing.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.sim import partitions
from tpuctl.sim import store as stores
from tpuctl.sim.controllers import events, node_object

if TYPE_CHECKING:
    from tpuctl.sim import behaviour as behaviours
    from tpuctl.sim import clock as clocks
    from tpuctl.sim import hardware as hardwares

NODES = "nodes"
_COMPONENT = "node-controller"


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Member:
    """A registered node and the host under it."""

    name: str
    host: hardwares.Host
    number: int
    """Different for every node that ever joined; its addresses come from it."""


class NodeController:
    """Keeps Node objects in step with the VMs under them."""

    def __init__(
        self,
        store: stores.Store,
        clock: clocks.Clock,
        hardware: hardwares.Hardware,
        behaviour: behaviours.Behaviour,
        ledger: events.Ledger,
    ) -> None:
        self._store = store
        self._clock = clock
        self._behaviour = behaviour
        self._ledger = ledger
        self._members: dict[str, Member] = {}
        self._by_host: dict[str, Member] = {}
        self._joined = 0
        self._silent: dict[str, clocks.Timer] = {}
        hardware.subscribe(self._hardware_changed)
        store.subscribe(NODES, self._node_changed)

    def join(self, pool: str, host: hardwares.Host, *, max_pods: int = 15) -> None:
        """Register the node of the VM on `host`; nothing happens if it is there already."""
        vm = host.vm
        if vm is None:
            raise ValueError(f"no VM runs on host {host.id}")
        if vm.name in self._members:
            return
        self._joined += 1
        member = Member(vm.name, host, self._joined)
        self._members[vm.name] = self._by_host[host.id] = member
        node = self._store.create(
            NODES, node_object.build(self._spec(pool, member, vm, max_pods), self._now())
        )
        self._ledger.record(
            _COMPONENT,
            node,
            events.NORMAL,
            "RegisteredNode",
            f"Node {vm.name} event: Registered Node {vm.name}",
        )

    def leave(self, host: hardwares.Host) -> None:
        """Remove the node of `host`; nothing happens if it has none."""
        member = self._by_host.get(host.id)
        if member is not None:
            self._store.delete(NODES, None, member.name)

    def node_on(self, host: hardwares.Host) -> str | None:
        """Name of the node on `host`, or None."""
        member = self._by_host.get(host.id)
        return member.name if member else None

    def host_of(self, node: str) -> hardwares.Host | None:
        """The host under a node, or None if no node of that name is registered."""
        member = self._members.get(node)
        return member.host if member else None

    def address_of(self, node: str) -> str:
        """Internal address of a registered node."""
        return node_object.internal_ip(self._members[node].number)

    def _spec(self, pool: str, member: Member, vm: hardwares.Vm, max_pods: int) -> node_object.Spec:
        host, block = member.host, member.host.subblock.block
        return node_object.Spec(
            name=vm.name,
            instance_id=vm.id,
            group=vm.group,
            pool=pool,
            project=block.reservation.project,
            zone=block.reservation.zone,
            reservation=block.reservation.name,
            block_id=block.id,
            subblock_id=host.subblock.id,
            host_id=host.id,
            partition_ids={shape: host.partition_id(shape) for shape in partitions.SHAPES},
            version=self._behaviour.gke_version,
            number=member.number,
            max_pods=max_pods,
        )

    # Health

    def _hardware_changed(self, change: hardwares.Change) -> None:
        member = self._by_host.get(change.host.id) if change.host else None
        if member is None:
            return
        if member.host.serving:
            self._heard_again(member)
        elif member.name not in self._silent:
            wait_s = self._behaviour.node_unready_s
            self._silent[member.name] = self._clock.call_later(wait_s, lambda: self._fell_silent(member))

    def _heard_again(self, member: Member) -> None:
        timer = self._silent.pop(member.name, None)
        if timer is not None:
            timer.cancel()
        node = self._store.get(NODES, None, member.name)
        if node is not None and not node_object.ready(node):
            ready = node_object.with_ready(node, "True", self._now())
            keys = {node_object.UNREACHABLE, node_object.NOT_READY}
            self._store.replace(NODES, node_object.with_taints(ready, add=[], remove=keys))
            self._say(node, events.NORMAL, "NodeReady")

    def _fell_silent(self, member: Member) -> None:
        node = self._store.get(NODES, None, member.name)
        if node is None or member.host.serving:
            return
        unknown = node_object.with_ready(node, "Unknown", self._now())
        taints = [
            {"key": node_object.UNREACHABLE, "effect": effect, "timeAdded": self._now()}
            for effect in ("NoSchedule", "NoExecute")
        ]
        self._store.replace(NODES, node_object.with_taints(unknown, add=taints, remove=set()))
        self._say(node, events.WARNING, "NodeNotReady")

    def _say(self, node: node_object.Object, kind: str, reason: str) -> None:
        name = node["metadata"]["name"]
        self._ledger.record(_COMPONENT, node, kind, reason, f"Node {name} status is now: {reason}")

    # Other people's changes

    def _node_changed(self, kind: str, old: stores.Json | None, new: stores.Json | None) -> None:
        if kind == "DELETED" and old is not None:
            self._forget(old["metadata"]["name"])
        elif kind == "MODIFIED" and new is not None:
            self._follow_cordon(new)

    def _forget(self, name: str) -> None:
        member = self._members.pop(name, None)
        if member is not None:
            self._by_host.pop(member.host.id, None)
        timer = self._silent.pop(name, None)
        if timer is not None:
            timer.cancel()

    def _follow_cordon(self, seen: stores.Json) -> None:
        """Keep the taint of cordoned nodes in step with `spec.unschedulable`."""
        node = self._store.get(NODES, None, seen["metadata"]["name"])
        if node is None:
            return
        cordoned = bool(node["spec"].get("unschedulable"))
        tainted = any(taint["key"] == node_object.UNSCHEDULABLE for taint in node["spec"].get("taints", []))
        if cordoned and not tainted:
            taint = {"key": node_object.UNSCHEDULABLE, "effect": "NoSchedule", "timeAdded": self._now()}
            self._store.replace(NODES, node_object.with_taints(node, add=[taint], remove=set()))
        elif tainted and not cordoned:
            free = node_object.with_taints(node, add=[], remove={node_object.UNSCHEDULABLE})
            self._store.replace(NODES, free)

    def _now(self) -> str:
        return stores.timestamp(self._clock.now())
