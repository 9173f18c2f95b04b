"""Rules of the built-in types, as far as the simulator's users can meet them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tpuctl.sim.kube import access_rules, errors, names, pod_rules, resources, schema, workload_rules
from tpuctl.sim.kube.causes import bad, forbidden, required, too_long, unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Json = dict[str, Any]

TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
MAX_CONFIG_BYTES = 1024 * 1024


def causes(key: str, obj: Json) -> Iterator[errors.Cause]:
    """What in an object breaks the rules of its built-in type."""
    rule = RULES.get(key)
    return rule(obj) if rule else iter(())


def update_causes(key: str, old: Json, new: Json) -> Iterator[errors.Cause]:
    """What in a change breaks the rules of a built-in type."""
    rule = UPDATE_RULES.get(key)
    return rule(old, new) if rule else iter(())


def _lease(obj: Json) -> Iterator[errors.Cause]:
    spec = obj.get("spec") or {}
    if (duration_s := spec.get("leaseDurationSeconds")) is not None and duration_s <= 0:
        yield bad(duration_s, "must be greater than 0", "spec.leaseDurationSeconds")
    if (transitions := spec.get("leaseTransitions")) is not None and transitions < 0:
        yield bad(transitions, "must be greater than or equal to 0", "spec.leaseTransitions")


def _configmap(obj: Json) -> Iterator[errors.Cause]:
    total = 0
    for field in ("data", "binaryData"):
        for name, value in (obj.get(field) or {}).items():
            total += len(str(value).encode())
            if not re.fullmatch(r"[-._a-zA-Z0-9]+", name):
                why = (
                    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. "
                    "'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is "
                    "'[-._a-zA-Z0-9]+')"
                )
                yield bad(name, why, f"{field}[{name}]")
    if total > MAX_CONFIG_BYTES:
        yield too_long(MAX_CONFIG_BYTES, "")


def _configmap_update(old: Json, new: Json) -> Iterator[errors.Cause]:
    if not old.get("immutable"):
        return
    if not new.get("immutable"):
        yield forbidden("field is immutable when `immutable` is set", "immutable")
    for field in ("data", "binaryData"):
        if old.get(field) != new.get(field):
            yield forbidden("field is immutable when `immutable` is set", field)


def _node(obj: Json) -> Iterator[errors.Cause]:
    seen = set()
    for place, taint in enumerate((obj.get("spec") or {}).get("taints") or []):
        path = f"spec.taints[{place}]"
        if problem := names.qualified_problem(taint.get("key", "")):
            yield bad(taint.get("key", ""), problem, f"{path}.key")
        if not taint.get("effect"):
            yield required(f"{path}.effect")
        elif taint["effect"] not in TAINT_EFFECTS:
            yield unsupported(taint["effect"], TAINT_EFFECTS, f"{path}.effect")
        mark = (taint.get("key"), taint.get("effect"))
        if mark in seen:
            yield errors.Cause("FieldValueDuplicate", f"Duplicate value: {taint}", path)
        seen.add(mark)
    for field in ("capacity", "allocatable"):
        for resource, amount in ((obj.get("status") or {}).get(field) or {}).items():
            yield from pod_rules.amount_causes(resource, amount, f"status.{field}.{resource}")


def _event(obj: Json) -> Iterator[errors.Cause]:
    about = obj.get("involvedObject") or {}
    place = about.get("namespace") or "default"
    if place != obj["metadata"].get("namespace"):
        yield bad(about.get("namespace", ""), "does not match event.namespace", "involvedObject.namespace")


def _service(obj: Json) -> Iterator[errors.Cause]:
    spec = obj.get("spec") or {}
    ports = spec.get("ports") or []
    if not ports and spec.get("clusterIP") != "None" and spec.get("type") != "ExternalName":
        yield required("spec.ports")
    for place, port in enumerate(ports):
        if not 1 <= port.get("port", 0) <= pod_rules.MAX_PORT:
            why = "must be between 1 and 65535, inclusive"
            yield bad(port.get("port", 0), why, f"spec.ports[{place}].port")
        if len(ports) > 1 and not port.get("name"):
            yield required(f"spec.ports[{place}].name")


def _definition(obj: Json) -> Iterator[errors.Cause]:
    spec = obj.get("spec") or {}
    held = spec.get("names") or {}
    for field in ("group", "scope"):
        if not spec.get(field):
            yield required(f"spec.{field}")
    for field in ("plural", "kind"):
        if not held.get(field):
            yield required(f"spec.names.{field}")
    wanted = f"{held.get('plural')}.{spec.get('group')}"
    if obj["metadata"].get("name") != wanted:
        yield bad(obj["metadata"].get("name"), 'must be spec.names.plural+"."+spec.group', "metadata.name")
    if spec.get("scope") not in {"Cluster", "Namespaced", None}:
        yield unsupported(spec["scope"], ("Cluster", "Namespaced"), "spec.scope")
    if (spec.get("conversion") or {}).get("strategy", "None") != "None":
        yield forbidden("the simulator converts no versions", "spec.conversion.strategy")
    yield from _versions(spec.get("versions") or [])


def _versions(versions: list[Json]) -> Iterator[errors.Cause]:
    if sum(bool(version.get("storage")) for version in versions) != 1:
        why = "must have exactly one version marked as storage version"
        yield bad(len(versions), why, "spec.versions")
    for place, version in enumerate(versions):
        path = f"spec.versions[{place}].schema.openAPIV3Schema"
        if not version.get("name"):
            yield required(f"spec.versions[{place}].name")
        document = (version.get("schema") or {}).get("openAPIV3Schema")
        if document is None:
            yield required(path, "schemas are required")
            continue
        yield from schema.definition_causes(document, path)


RULES: dict[str, Callable[[Json], Iterator[errors.Cause]]] = {
    "configmaps": _configmap,
    "events": _event,
    "leases.coordination.k8s.io": _lease,
    "nodes": _node,
    "pods": pod_rules.pod,
    "services": _service,
    resources.CRD_KEY: _definition,
    **access_rules.RULES,
    **workload_rules.RULES,
}
UPDATE_RULES: dict[str, Callable[[Json, Json], Iterator[errors.Cause]]] = {
    "configmaps": _configmap_update,
    "pods": pod_rules.pod_update,
    **access_rules.UPDATE_RULES,
    **workload_rules.UPDATE_RULES,
}
