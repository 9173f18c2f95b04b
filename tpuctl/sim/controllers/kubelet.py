"""The kubelets of all nodes: start the pods bound to them, end them, and lose them with their host.

Containers do nothing. They run until their pod is deleted, or for as long as the pod's annotation
`sim.tpuctl.dev/run-seconds` says (`behaviour.pod_run_s` without one), and end with the code in
`sim.tpuctl.dev/exit-code` (0 without one).
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

from tpuctl.sim import store as stores
from tpuctl.sim.controllers import events, pod_status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tpuctl.sim import behaviour as behaviours
    from tpuctl.sim import clock as clocks
    from tpuctl.sim import hardware as hardwares
    from tpuctl.sim.controllers import nodes as node_controller

Object = dict[str, Any]
Place = tuple[str, str]
"""(namespace, name) of a pod."""

PODS, NODES = "pods", "nodes"
COMPONENT = "kubelet"
RUN_SECONDS = "sim.tpuctl.dev/run-seconds"
EXIT_CODE = "sim.tpuctl.dev/exit-code"
KILLED = 137
"""Exit code of a process that got SIGKILL."""


class Kubelets:
    """Runs pods on nodes whose host works."""

    def __init__(
        self,
        store: stores.Store,
        clock: clocks.Clock,
        hardware: hardwares.Hardware,
        behaviour: behaviours.Behaviour,
        nodes: node_controller.NodeController,
        ledger: events.Ledger,
    ) -> None:
        self._store = store
        self._clock = clock
        self._behaviour = behaviour
        self._nodes = nodes
        self._ledger = ledger
        self._on_node: dict[str, dict[Place, str]] = collections.defaultdict(dict)
        """Node -> its pods (and their uids) that have not ended."""
        self._timers: dict[str, clocks.Timer] = {}
        """Next step of a pod, by uid."""
        self._lost: set[str] = set()
        """Nodes whose host went away; what ran there is dead, but nobody has said so yet."""
        self._addresses = 0
        hardware.subscribe(self._hardware_changed)
        store.subscribe(PODS, self._pod_changed)
        store.subscribe(NODES, self._node_changed)

    def fail_pods(self, nodes: Iterable[str], message: str) -> None:
        """End every running pod on these nodes as failed."""
        for node in nodes:
            for place in list(self._on_node[node]):
                self._end(place, KILLED, "Error", message)

    # What happened

    def _pod_changed(self, kind: str, old: stores.Json | None, new: stores.Json | None) -> None:
        pod = new if new is not None else old
        node = pod["spec"].get("nodeName") if pod is not None else None
        if pod is None or not node:
            return
        metadata = pod["metadata"]
        place, uid = (metadata["namespace"], metadata["name"]), metadata["uid"]
        if kind == "DELETED":
            self._forget(node, place, uid)
        elif "deletionTimestamp" in metadata and (old is None or "deletionTimestamp" not in old["metadata"]):
            self._stop_later(pod)
        elif pod_status.has_ended(pod):
            self._forget(node, place, uid)
        elif place not in self._on_node[node]:
            self._on_node[node][place] = uid
            self._plan(uid, self._behaviour.pod_start_s, lambda: self._start(place, uid))

    def _node_changed(self, kind: str, old: stores.Json | None, _new: stores.Json | None) -> None:
        if kind == "DELETED" and old is not None:
            # A node of the same name that joins later is a new one, with nothing lost on it.
            self._lost.discard(old["metadata"]["name"])

    def _forget(self, node: str, place: Place, uid: str) -> None:
        if self._on_node[node].get(place) == uid:
            del self._on_node[node][place]
        self._cancel(uid)

    def _hardware_changed(self, change: hardwares.Change) -> None:
        node = self._nodes.node_on(change.host) if change.host is not None else None
        if node is None or change.host is None:
            return
        if not change.host.serving:
            self._lost.add(node)
            for uid in self._on_node[node].values():
                self._cancel(uid)
        elif node in self._lost:
            self._lost.discard(node)
            for place, uid in list(self._on_node[node].items()):
                self._find_after_reboot(place, uid)

    # Steps of one pod

    def _start(self, place: Place, uid: str) -> None:
        pod = self._pod(place, uid)
        if pod is None or not self._serves(pod):
            return
        now, node_ip = stores.timestamp(self._clock.now()), self._nodes.address_of(pod["spec"]["nodeName"])
        pod_ip = node_ip if pod["spec"].get("hostNetwork") else self._new_address()
        new = self._store.mutate(
            PODS, *place, lambda pod: pod_status.run(pod, now, host_ip=node_ip, pod_ip=pod_ip)
        )
        for container in new["spec"]["containers"]:
            self._ledger.record(
                COMPONENT, new, events.NORMAL, "Started", f"Started container {container['name']}"
            )
        run_s = self._run_s(new)
        if run_s is not None:
            self._plan(uid, run_s, lambda: self._exit(place, uid))

    def _exit(self, place: Place, uid: str) -> None:
        """The containers end by themselves; the restart policy decides what that means."""
        pod = self._pod(place, uid)
        if pod is None:
            return
        code = int(pod["metadata"].get("annotations", {}).get(EXIT_CODE, 0))
        policy = pod["spec"].get("restartPolicy", "Always")
        if policy == "Always" or (policy == "OnFailure" and code):
            self._plan(uid, self._behaviour.pod_start_s, lambda: self._start(place, uid))
        else:
            self._end(place, code, "Error" if code else "Completed", "")

    def _stop_later(self, pod: Object) -> None:
        """The pod was deleted: its containers get a signal and end."""
        metadata = pod["metadata"]
        place, uid = (metadata["namespace"], metadata["name"]), metadata["uid"]
        grace_s = float(metadata.get("deletionGracePeriodSeconds") or 0)
        self._plan(uid, min(self._behaviour.pod_stop_s, grace_s), lambda: self._remove(place, uid))

    def _remove(self, place: Place, uid: str) -> None:
        pod = self._pod(place, uid)
        if pod is None or not self._serves(pod):
            return
        self._ledger.record(COMPONENT, pod, events.NORMAL, "Killing", "Stopping containers")
        if not pod_status.has_ended(pod):
            self._end(place, KILLED, "Error", "")
        if self._pod(place, uid) is not None:
            self._store.delete(PODS, *place)

    def _find_after_reboot(self, place: Place, uid: str) -> None:
        """The node is back, the containers are not."""
        pod = self._pod(place, uid)
        if pod is None:
            return
        if "deletionTimestamp" in pod["metadata"]:
            self._plan(uid, 0.0, lambda: self._remove(place, uid))
        elif (
            pod["status"].get("phase") == "Running" and pod["spec"].get("restartPolicy", "Always") == "Never"
        ):
            self._end(place, KILLED, "ContainerStatusUnknown", "The container went away with its node.")
        else:
            self._plan(uid, self._behaviour.pod_start_s, lambda: self._start(place, uid))

    def _end(self, place: Place, code: int, reason: str, message: str) -> None:
        now = stores.timestamp(self._clock.now())
        self._store.mutate(
            PODS,
            *place,
            lambda pod: pod_status.end(pod, now, exit_code=code, reason=reason, message=message),
        )

    # Small questions

    def _pod(self, place: Place, uid: str) -> Object | None:
        pod = self._store.get(PODS, *place)
        return pod if pod is not None and pod["metadata"]["uid"] == uid else None

    def _serves(self, pod: Object) -> bool:
        host = self._nodes.host_of(pod["spec"]["nodeName"])
        return host is not None and host.serving

    def _run_s(self, pod: Object) -> float | None:
        text = pod["metadata"].get("annotations", {}).get(RUN_SECONDS)
        return self._behaviour.pod_run_s if text is None else float(text)

    def _new_address(self) -> str:
        self._addresses = self._addresses % 0xFFFFF + 1
        number = self._addresses
        return f"10.{16 + (number >> 16)}.{(number >> 8) & 255}.{number & 255}"

    def _plan(self, uid: str, wait_s: float, step: Callable[[], None]) -> None:
        self._cancel(uid)

        def due() -> None:
            self._timers.pop(uid, None)
            step()

        self._timers[uid] = self._clock.call_later(wait_s, due)

    def _cancel(self, uid: str) -> None:
        timer = self._timers.pop(uid, None)
        if timer is not None:
            timer.cancel()
