"""Delete one object or a collection, and bind pods to nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuctl.sim import store as stores
from tpuctl.sim.kube import errors, lifecycle, resources, verbs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tpuctl.sim.kube import targets

Json = dict[str, Any]

HOLDS = {"Orphan": "orphan", "Foreground": "foregroundDeletion"}
"""Finalizers by which the garbage collector gets time to do what the propagation policy asks."""

ORPHANS_BY_DEFAULT = "jobs.batch"
PODS_PRESERVED = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove "
    "them or set propagationPolicy=Orphan to suppress this warning"
)

RETURNS_OBJECT = frozenset({"pods", "services", "namespaces"})
"""Types whose deletion answers with the object even when it is gone at once."""


class Remover:
    """Deletes from the store as clients of the API do."""

    def __init__(self, store: stores.Store, writer: verbs.Writer) -> None:
        self._store = store
        self._writer = writer

    def delete(self, call: verbs.Call, options: targets.DeleteOptions) -> verbs.Answer:
        """DELETE of one object: gone, or marked if finalizers or a grace period hold it."""
        resource, target = call.resource, call.target
        obj = self._store.get(resource.key, target.namespace, target.name)
        if obj is None:
            raise errors.not_found(resource, target.name)
        _check_preconditions(resource, obj, options)
        self._writer.admit(call, "DELETE", obj, None)
        left = self._remove(resource, obj, options)
        preserved = resource.key == ORPHANS_BY_DEFAULT and options.propagation is None
        warnings = (PODS_PRESERVED,) if preserved else ()
        if left is not None:
            return verbs.Answer(200, left, warnings)
        details = {
            "name": target.name,
            "group": resource.group,
            "kind": resource.plural,
            "uid": obj["metadata"]["uid"],
        }
        shown = {name: value for name, value in details.items() if value}
        return verbs.Answer(200, errors.success(details=shown), warnings)

    def delete_collection(
        self, call: verbs.Call, objects: Iterable[Json], options: targets.DeleteOptions
    ) -> list[Json]:
        """DELETE of a list: returns the objects it was about."""
        chosen = list(objects)
        for obj in chosen:
            self._writer.admit(call, "DELETE", obj, None)
            self._remove(call.resource, obj, options)
        return chosen

    def _remove(
        self, resource: resources.ResourceType, obj: Json, options: targets.DeleteOptions
    ) -> Json | None:
        """Delete; returns what to show of the object, or None if a Status says enough."""
        namespace, name = stores.identity(obj)
        grace_s = lifecycle.grace_s(obj, options.grace_s) if resource.key == resources.PODS.key else 0
        shown = self._store.marked(obj, grace_s=grace_s)
        if options.dry_run:
            held = bool(obj["metadata"].get("finalizers"))
            return shown if held or resource.key in RETURNS_OBJECT else None
        self._hold_for_dependents(resource, obj, options)
        left = self._store.delete(resource.key, namespace, name, grace_s=grace_s)
        if left is not None:
            return left
        return shown if resource.key in RETURNS_OBJECT else None

    def _hold_for_dependents(
        self, resource: resources.ResourceType, obj: Json, options: targets.DeleteOptions
    ) -> None:
        default = "Orphan" if resource.key == ORPHANS_BY_DEFAULT else "Background"
        finalizer = HOLDS.get(options.propagation or default)
        if finalizer is None or "deletionTimestamp" in obj["metadata"]:
            return
        namespace, name = stores.identity(obj)

        def hold(held: Json) -> None:
            finalizers = held["metadata"].setdefault("finalizers", [])
            if finalizer not in finalizers:
                finalizers.append(finalizer)

        self._store.mutate(resource.key, namespace, name, hold)

    # Binding

    def bind(self, call: verbs.Call, binding: Json) -> verbs.Answer:
        """POST to `pods/NAME/binding`: what a scheduler does with its decision."""
        target = call.target
        pod = self._store.get(resources.PODS.key, target.namespace, target.name)
        if pod is None:
            raise errors.not_found(resources.PODS, target.name)
        node = _chosen_node(binding, target.name)
        if "deletionTimestamp" in pod["metadata"]:
            why = f"pod {target.name} is being deleted, cannot be assigned to a host"
            raise errors.binding_conflict(target.name, why)
        if bound := pod["spec"].get("nodeName"):
            why = f'pod {target.name} is already assigned to node "{bound}"'
            raise errors.binding_conflict(target.name, why)
        if not call.options.dry_run:
            self._store.mutate(
                resources.PODS.key, target.namespace, target.name, lambda pod: self._assign(pod, node)
            )
        return verbs.Answer(201, errors.success(201))

    def _assign(self, pod: Json, node: str) -> None:
        pod["spec"]["nodeName"] = node
        status = pod.setdefault("status", {})
        others = [item for item in status.get("conditions", ()) if item.get("type") != "PodScheduled"]
        now = stores.timestamp(self._store.clock.now())
        scheduled = {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": now,
        }
        status["conditions"] = [*others, scheduled]


def _check_preconditions(resource: resources.ResourceType, obj: Json, options: targets.DeleteOptions) -> None:
    metadata = obj["metadata"]
    if options.uid is not None and options.uid != metadata["uid"]:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record "
            f"({metadata['uid']}). The object might have been deleted and then recreated"
        )
        raise errors.precondition_failed(resource, metadata["name"], why)
    revision = metadata["resourceVersion"]
    if options.resource_version is not None and options.resource_version != revision:
        why = (
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match the "
            f"ResourceVersion in record ({revision}). The object might have been modified"
        )
        raise errors.precondition_failed(resource, metadata["name"], why)


def _chosen_node(binding: Json, pod: str) -> str:
    aim = binding.get("target") or {}
    causes = []
    if aim.get("kind", "Node") != "Node":
        text = f'Unsupported value: "{aim["kind"]}": supported values: "Node", "<empty>"'
        causes.append(errors.Cause("FieldValueNotSupported", text, "target.kind"))
    if not aim.get("name"):
        causes.append(errors.Cause("FieldValueRequired", "Required value", "target.name"))
    if causes:
        raise errors.invalid(BINDING, pod, causes)
    return str(aim["name"])


BINDING = resources.ResourceType(
    group="", version="v1", plural="bindings", singular="binding", kind="Binding", namespaced=True
)
"""Body of `pods/NAME/binding`; not served by itself."""
