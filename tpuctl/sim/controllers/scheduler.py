"""The default scheduler: binds pending pods to nodes with enough free chips.

Pods that name another scheduler are left to it: a custom scheduler binds through the API. Only
google.com/tpu and the number of pods count as resources; nodes of this fleet have nothing else that runs
out.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import TYPE_CHECKING, Any

import orjson

from tpuctl.sim import store as stores
from tpuctl.sim.controllers import events, pod_status, scheduling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tpuctl.sim import behaviour as behaviours
    from tpuctl.sim import clock as clocks

Object = dict[str, Any]

PODS, NODES = "pods", "nodes"
COMPONENT = "default-scheduler"
_ENDED = frozenset({"Succeeded", "Failed"})
Place = tuple[str, str]
"""(namespace, name) of a pod."""


@dataclasses.dataclass(slots=True)
class _Load:
    """What runs on one node."""

    chips: int = 0
    pods: int = 0


@dataclasses.dataclass(eq=False)
class _Candidates:
    """Nodes for pods of one signature, and why the others are none; taken from the front as they fill up."""

    nodes: Iterator[Object]
    refused: collections.Counter[str]
    current: Object | None


class Scheduler:
    """Gives nodes to pods that have none, in order of arrival."""

    def __init__(
        self,
        store: stores.Store,
        clock: clocks.Clock,
        behaviour: behaviours.Behaviour,
        ledger: events.Ledger,
    ) -> None:
        self._store = store
        self._clock = clock
        self._behaviour = behaviour
        self._ledger = ledger
        self._waiting: dict[Place, None] = {}
        self._bound: dict[Place, tuple[str, int]] = {}
        self._loads: dict[str, _Load] = collections.defaultdict(_Load)
        self._next: clocks.Timer | None = None
        store.subscribe(PODS, self._pod_changed)
        store.subscribe(NODES, self._node_changed)

    # What happened

    def _pod_changed(self, kind: str, old: stores.Json | None, new: stores.Json | None) -> None:
        pod = new if new is not None else old
        if pod is None:
            return
        place = pod["metadata"]["namespace"], pod["metadata"]["name"]
        ended = kind == "DELETED" or pod.get("status", {}).get("phase") in _ENDED
        node = pod["spec"].get("nodeName")
        self._account(place, pod, None if ended else node)
        if ended or node or not _is_ours(pod):
            self._waiting.pop(place, None)
        elif place not in self._waiting:
            self._waiting[place] = None
            self._soon()

    def _account(self, place: Place, pod: Object, node: str | None) -> None:
        """Book the pod's chips on `node`, and give back what it had elsewhere."""
        before = self._bound.get(place)
        after = (node, scheduling.tpus(pod)) if node else None
        if before == after:
            return
        if before is not None:
            load = self._loads[before[0]]
            load.chips, load.pods = load.chips - before[1], load.pods - 1
            self._bound.pop(place)
            self._soon()
        if after is not None:
            load = self._loads[after[0]]
            load.chips, load.pods = load.chips + after[1], load.pods + 1
            self._bound[place] = after

    def _node_changed(self, kind: str, old: stores.Json | None, new: stores.Json | None) -> None:
        if kind == "ADDED" or (old and new and _offer(old) != _offer(new)):
            self._soon()

    def _soon(self) -> None:
        if self._waiting and self._next is None:
            self._next = self._clock.call_later(self._behaviour.schedule_s, self._work)

    # Decisions

    def _work(self) -> None:
        self._next = None
        known: dict[bytes, _Candidates] = {}
        for place in list(self._waiting):
            pod = self._store.get(PODS, *place)
            if pod is not None and not pod["spec"].get("nodeName"):
                self._schedule(pod, known)

    def _schedule(self, pod: Object, known: dict[bytes, _Candidates]) -> None:
        unsupported = scheduling.unsupported(pod)
        if unsupported:
            self._refuse(pod, f"not simulated: spec.{', spec.'.join(unsupported)}")
            return
        signature = _signature(pod)
        candidates = known.get(signature)
        if candidates is None:
            candidates = known[signature] = self._candidates(pod)
        node = self._first_with_room(pod, candidates)
        if node is None:
            self._refuse(pod, self._explain(candidates))
        else:
            self._bind(pod, node["metadata"]["name"])

    def _candidates(self, pod: Object) -> _Candidates:
        refused: collections.Counter[str] = collections.Counter()
        fitting = []
        for node in self._store.list(NODES):
            reason = scheduling.rejection(pod, node)
            if reason:
                refused[reason] += 1
            else:
                fitting.append(node)
        nodes = iter(fitting)
        return _Candidates(nodes, refused, next(nodes, None))

    def _first_with_room(self, pod: Object, candidates: _Candidates) -> Object | None:
        chips = scheduling.tpus(pod)
        while candidates.current is not None:
            node = candidates.current
            allocatable, load = node["status"]["allocatable"], self._loads[node["metadata"]["name"]]
            if load.chips + chips > int(allocatable.get(scheduling.TPU, 0)):
                candidates.refused[f"Insufficient {scheduling.TPU}"] += 1
            elif load.pods + 1 > int(allocatable.get("pods", 0)):
                candidates.refused["Too many pods"] += 1
            else:
                return node
            candidates.current = next(candidates.nodes, None)
        return None

    def _explain(self, candidates: _Candidates) -> str:
        return scheduling.explanation(candidates.refused, sum(candidates.refused.values()))

    def _bind(self, pod: Object, node: str) -> None:
        metadata, now = pod["metadata"], stores.timestamp(self._clock.now())

        def bind(bound: Object) -> None:
            bound["spec"]["nodeName"] = node
            pod_status.set_condition(bound, "PodScheduled", "True", now)

        new = self._store.mutate(PODS, metadata["namespace"], metadata["name"], bind)
        text = f"Successfully assigned {metadata['namespace']}/{metadata['name']} to {node}"
        self._ledger.record(COMPONENT, new, events.NORMAL, "Scheduled", text)

    def _refuse(self, pod: Object, why: str) -> None:
        metadata, now = pod["metadata"], stores.timestamp(self._clock.now())
        rest = {"reason": "Unschedulable", "message": why}
        new = self._store.mutate(
            PODS,
            metadata["namespace"],
            metadata["name"],
            lambda pod: pod_status.set_condition(pod, "PodScheduled", "False", now, **rest),
        )
        if new is not pod:
            self._ledger.record(COMPONENT, new, events.WARNING, "FailedScheduling", why)


def _is_ours(pod: Object) -> bool:
    return bool(pod["spec"].get("schedulerName", COMPONENT) == COMPONENT)


def _offer(node: Object) -> tuple[Any, ...]:
    """What of a node decides about pods."""
    return node["metadata"].get("labels"), node["spec"], node["status"].get("allocatable")


def _signature(pod: Object) -> bytes:
    """Equal for pods that fit the same nodes."""
    spec = pod["spec"]
    wanted = [spec.get(name) for name in ("nodeSelector", "affinity", "tolerations")]
    return orjson.dumps([*wanted, scheduling.tpus(pod)], option=orjson.OPT_SORT_KEYS)
