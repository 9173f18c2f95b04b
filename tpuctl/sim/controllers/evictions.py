"""Pods whose node is unreachable or gone: the taint manager and the pod garbage collector.

A pod on an unreachable node is deleted after the time it tolerates (300 s unless it says otherwise), but
stays Terminating until the node answers. A pod whose Node object is gone is failed and removed after a
while.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuctl.sim import store as stores
from tpuctl.sim.controllers import pod_status, scheduling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tpuctl.sim import clock as clocks

Object = dict[str, Any]

PODS, NODES = "pods", "nodes"
ORPHAN_S = 40.0
"""The garbage collector of Kubernetes waits so long before it believes that a node is gone."""
_DISRUPTION = "DisruptionTarget"


class Evictions:
    """Deletes pods that their node cannot look after."""

    def __init__(self, store: stores.Store, clock: clocks.Clock) -> None:
        self._store = store
        self._clock = clock
        store.subscribe(NODES, self._node_changed)
        store.subscribe(PODS, self._pod_changed)

    def _node_changed(self, kind: str, old: stores.Json | None, new: stores.Json | None) -> None:
        if kind == "DELETED" and old is not None:
            name = old["metadata"]["name"]
            self._clock.call_later(ORPHAN_S, lambda: self._remove_orphans(name))
        elif old is not None and new is not None and _no_execute(new) != _no_execute(old):
            for pod in self._pods_on(new["metadata"]["name"]):
                self._evict_later(pod, new)

    def _pod_changed(self, kind: str, old: stores.Json | None, new: stores.Json | None) -> None:
        """A custom scheduler may bind a pod to a node that is not there, or that is tainted already."""
        name = new["spec"].get("nodeName") if new is not None and kind != "DELETED" else None
        if new is None or not name or (old is not None and old["spec"].get("nodeName")):
            return
        node = self._store.get(NODES, None, name)
        if node is None:
            self._clock.call_later(ORPHAN_S, lambda: self._remove_orphans(name))
        elif _no_execute(node):
            self._evict_later(new, node)

    def _evict_later(self, pod: Object, node: Object) -> None:
        wait_s = _tolerated_s(pod, _no_execute(node))
        if wait_s is not None:
            uid, name = pod["metadata"]["uid"], node["metadata"]["name"]
            self._clock.call_later(wait_s, lambda: self._evict(pod, uid, name))

    def _evict(self, seen: Object, uid: str, node_name: str) -> None:
        pod = self._pod(seen, uid)
        node = self._store.get(NODES, None, node_name)
        if pod is None or node is None or pod_status.has_ended(pod) or "deletionTimestamp" in pod["metadata"]:
            return
        if _tolerated_s(pod, _no_execute(node)) is None:
            return
        self._mark(pod, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        self._store.delete(PODS, namespace, name, grace_s=pod_status.grace_s(pod))

    def _remove_orphans(self, node_name: str) -> None:
        if self._store.get(NODES, None, node_name) is not None:
            return
        for pod in list(self._pods_on(node_name)):
            namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
            if not pod_status.has_ended(pod):
                self._mark(pod, "DeletionByPodGC", "PodGC: node no longer exists", failed=True)
            if self._pod(pod, pod["metadata"]["uid"]) is not None:
                self._store.delete(PODS, namespace, name)

    def _mark(self, pod: Object, reason: str, message: str, *, failed: bool = False) -> None:
        now = stores.timestamp(self._clock.now())

        def mark(new: Object) -> None:
            pod_status.set_condition(new, _DISRUPTION, "True", now, reason=reason, message=message)
            if failed:
                new["status"]["phase"] = "Failed"

        self._store.mutate(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"], mark)

    def _pods_on(self, node: str) -> Iterator[Object]:
        return (pod for pod in self._store.list(PODS) if pod["spec"].get("nodeName") == node)

    def _pod(self, seen: Object, uid: str) -> Object | None:
        pod = self._store.get(PODS, seen["metadata"]["namespace"], seen["metadata"]["name"])
        return pod if pod is not None and pod["metadata"]["uid"] == uid else None


def _no_execute(node: Object) -> list[Object]:
    return [taint for taint in node["spec"].get("taints", []) if taint["effect"] == "NoExecute"]


def _tolerated_s(pod: Object, taints: list[Object]) -> float | None:
    """How long the pod stays beside these taints: None for ever, 0 if it tolerates one of them not at all."""
    limits = []
    for taint in taints:
        matching = [one for one in pod["spec"].get("tolerations", []) if scheduling.tolerates(one, taint)]
        if not matching:
            return 0.0
        limits += [float(one["tolerationSeconds"]) for one in matching if "tolerationSeconds" in one]
    return min(limits, default=None)
