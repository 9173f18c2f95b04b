"""What the API server's own controllers do: establish definitions, empty namespaces.

Both follow the store, so that objects written by other parts of the simulator are treated alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuctl.sim import store as stores
from tpuctl.sim.kube import resources

if TYPE_CHECKING:
    from collections.abc import Iterable

Json = dict[str, Any]

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""Finalizer that holds a definition until its objects are gone."""
DEFAULT_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
DEFAULT_GRACE_S = 30
"""Time a pod gets to stop if it does not say otherwise."""


def grace_s(pod: Json, asked_s: int | None) -> int:
    """Seconds between a pod's deletion and its end: none if it never started or has ended."""
    phase = (pod.get("status") or {}).get("phase")
    if not pod["spec"].get("nodeName") or phase in {"Succeeded", "Failed"}:
        return 0
    return pod["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE_S) if asked_s is None else asked_s


def delete_all(store: stores.Store, key: str, objects: Iterable[Json]) -> None:
    """Delete objects of a key, leaving alone those that are being deleted."""
    for obj in objects:
        if "deletionTimestamp" not in obj["metadata"]:
            namespace, name = stores.identity(obj)
            seconds = grace_s(obj, None) if key == resources.PODS.key else 0
            store.delete(key, namespace, name, grace_s=seconds)


class Definitions:
    """Establishes CustomResourceDefinitions, and removes the objects of deleted ones before they go."""

    def __init__(self, store: stores.Store) -> None:
        self._store = store
        self._followed: set[str] = set()
        store.subscribe(resources.CRD_KEY, self._changed)
        for definition in store.list(resources.CRD_KEY):
            self._changed("ADDED", None, definition)

    def _changed(self, kind: str, _old: Json | None, new: Json | None) -> None:
        if new is None or kind == "DELETED":
            return
        # Deliveries may be late: what counts is what is stored now.
        current = self._store.get(resources.CRD_KEY, None, new["metadata"]["name"])
        if current is None:
            return
        self._follow(current)
        if "deletionTimestamp" in current["metadata"]:
            self._empty(current)
        else:
            self._store.mutate(resources.CRD_KEY, None, current["metadata"]["name"], self._establish)

    def _establish(self, definition: Json) -> None:
        metadata, names = definition["metadata"], definition["spec"]["names"]
        if CLEANUP not in metadata.setdefault("finalizers", []):
            metadata["finalizers"].append(CLEANUP)
        status = definition.setdefault("status", {})
        stored = [version["name"] for version in definition["spec"]["versions"] if version.get("storage")]
        status["acceptedNames"] = stores.copy(names)
        status["storedVersions"] = [*status.get("storedVersions", ())] or stored
        if not resources.is_established(definition):
            status["conditions"] = [
                self._condition("NamesAccepted", "NoConflicts", "no conflicts found"),
                self._condition(
                    "Established", "InitialNamesAccepted", "the initial names have been accepted"
                ),
            ]

    def _condition(self, kind: str, reason: str, message: str) -> Json:
        now = stores.timestamp(self._store.clock.now())
        return {
            "lastTransitionTime": now,
            "message": message,
            "reason": reason,
            "status": "True",
            "type": kind,
        }

    def _follow(self, definition: Json) -> None:
        """Notice when the last object of a type goes."""
        key = definition["metadata"]["name"]
        if key not in self._followed:
            self._followed.add(key)
            self._store.subscribe(key, lambda kind, *_states: self._object_changed(kind, key))

    def _object_changed(self, kind: str, key: str) -> None:
        if kind != "DELETED":
            return
        definition = self._store.get(resources.CRD_KEY, None, key)
        if definition is not None and "deletionTimestamp" in definition["metadata"]:
            self._empty(definition)

    def _empty(self, definition: Json) -> None:
        key = definition["metadata"]["name"]
        delete_all(self._store, key, self._store.list(key))
        held = CLEANUP in (definition["metadata"].get("finalizers") or ())
        if held and not self._store.list(key):
            self._store.remove_finalizer(resources.CRD_KEY, None, key, CLEANUP)


class Namespaces:
    """Keeps the default namespaces there and empties deleted ones before they go."""

    def __init__(self, store: stores.Store, registry: resources.Registry) -> None:
        self._store = store
        self._registry = registry
        self._followed: set[str] = set()
        for name in DEFAULT_NAMESPACES:
            if store.get("namespaces", None, name) is None:
                store.create("namespaces", _namespace(name))
        store.subscribe("namespaces", self._changed)

    def _changed(self, _kind: str, _old: Json | None, new: Json | None) -> None:
        if new is not None:
            self.empty(new["metadata"]["name"])

    def empty(self, name: str) -> None:
        """Delete what is in a namespace that is being deleted, and then the namespace."""
        namespace = self._store.get("namespaces", None, name)
        if namespace is None or "deletionTimestamp" not in namespace["metadata"]:
            return
        self._store.mutate("namespaces", None, name, _end)
        keys = {item.key for item in self._registry.types() if item.namespaced}
        for key in keys:
            self._follow(key)
            delete_all(self._store, key, self._store.list(key, name))
        # Emptying may have removed it already, from inside a delivery.
        left = self._store.get("namespaces", None, name)
        if left is not None and not any(self._store.list(key, name) for key in keys):
            self._store.mutate("namespaces", None, name, _release)

    def _follow(self, key: str) -> None:
        if key not in self._followed:
            self._followed.add(key)
            self._store.subscribe(key, self._object_changed)

    def _object_changed(self, kind: str, _old: Json | None, new: Json | None) -> None:
        if kind == "DELETED" and new is not None:
            self.empty(new["metadata"].get("namespace", ""))


def _namespace(name: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def _end(namespace: Json) -> None:
    namespace["status"] = {**namespace.get("status", {}), "phase": "Terminating"}


def _release(namespace: Json) -> None:
    namespace["spec"].pop("finalizers", None)
