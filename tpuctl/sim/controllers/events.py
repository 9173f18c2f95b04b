"""Event objects: what controllers say about the objects they work on.

Repeated events are counted in one object, and objects go after an hour, both as in a real cluster.
"""

from __future__ import annotations

import collections
import datetime as dt
from typing import TYPE_CHECKING, Any

from tpuctl.sim import store as stores

if TYPE_CHECKING:
    from tpuctl.sim.controllers import node_object

EVENTS = "events"
TIME_TO_LIVE_S = 3_600.0
"""The API server's default for --event-ttl."""

NORMAL, WARNING = "Normal", "Warning"


class Ledger:
    """All events of the cluster, written through one place so that old ones can be dropped."""

    def __init__(self, store: stores.Store) -> None:
        self._store = store
        self._names: dict[tuple[str, ...], str] = {}
        self._order: collections.deque[tuple[float, tuple[str, ...], str]] = collections.deque()

    def record(self, component: str, about: node_object.Object, kind: str, reason: str, message: str) -> None:
        """Say something about an object; `kind` is NORMAL or WARNING."""
        self._drop_old()
        metadata = about["metadata"]
        namespace = metadata.get("namespace") or "default"
        series = (namespace, metadata["uid"], component, kind, reason, message)
        name = self._names.get(series)
        if name is not None and self._store.get(EVENTS, namespace, name) is not None:
            self._count(namespace, name)
            return
        name = self._names[series] = f"{metadata['name']}.{self._store.revision:016x}"
        self._store.create(EVENTS, self._event(name, component, about, kind, reason, message))
        self._order.append((self._store.clock.now_s, series, name))

    def _event(
        self, name: str, component: str, about: node_object.Object, kind: str, reason: str, message: str
    ) -> node_object.Object:
        metadata, now = about["metadata"], self._now()
        involved = {
            "kind": about["kind"],
            "namespace": metadata.get("namespace"),
            "name": metadata["name"],
            "uid": metadata["uid"],
            "apiVersion": about["apiVersion"],
            "resourceVersion": metadata["resourceVersion"],
        }
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": metadata.get("namespace") or "default"},
            "involvedObject": {field: value for field, value in involved.items() if value},
            "reason": reason,
            "message": message,
            "source": {"component": component},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "type": kind,
            "eventTime": None,
            "reportingComponent": component,
            "reportingInstance": "",
        }

    def _count(self, namespace: str, name: str) -> None:
        def again(event: dict[str, Any]) -> None:
            event["count"] += 1
            event["lastTimestamp"] = self._now()

        self._store.mutate(EVENTS, namespace, name, again)

    def _drop_old(self) -> None:
        limit_s = self._store.clock.now_s - TIME_TO_LIVE_S
        while self._order and self._order[0][0] < limit_s:
            _, series, name = self._order.popleft()
            self._drop(series, name)

    def _drop(self, series: tuple[str, ...], name: str) -> None:
        namespace = series[0]
        event = self._store.get(EVENTS, namespace, name)
        if event is not None and not self._is_old(event):
            self._order.append((self._store.clock.now_s, series, name))
            return
        if self._names.get(series) == name:
            del self._names[series]
        if event is not None:
            self._store.delete(EVENTS, namespace, name)

    def _is_old(self, event: dict[str, Any]) -> bool:
        oldest = self._store.clock.now() - dt.timedelta(seconds=TIME_TO_LIVE_S)
        return bool(event["lastTimestamp"] < stores.timestamp(oldest))

    def _now(self) -> str:
        return stores.timestamp(self._store.clock.now())
