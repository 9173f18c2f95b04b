"""Rules of the built-in types, as far as the simulator's users can meet them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tpuctl.sim.kube import errors, names, quantities, resources, schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Json = dict[str, Any]

TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
RESTART_POLICIES = ("Always", "OnFailure", "Never")
MAX_CONFIG_BYTES = 1024 * 1024
MAX_PORT = 65535
IMMUTABLE = "field is immutable"


def causes(key: str, obj: Json) -> Iterator[errors.Cause]:
    """What in an object breaks the rules of its built-in type."""
    rule = RULES.get(key)
    return rule(obj) if rule else iter(())


def update_causes(key: str, old: Json, new: Json) -> Iterator[errors.Cause]:
    """What in a change breaks the rules of a built-in type."""
    rule = UPDATE_RULES.get(key)
    return rule(old, new) if rule else iter(())


def _required(field: str, why: str = "") -> errors.Cause:
    return errors.Cause("FieldValueRequired", f"Required value: {why}" if why else "Required value", field)


def _bad(value: Any, why: str, field: str) -> errors.Cause:
    shown = f'"{value}"' if isinstance(value, str) else value
    return errors.Cause("FieldValueInvalid", f"Invalid value: {shown}: {why}", field)


def _unsupported(value: Any, allowed: Iterable[str], field: str) -> errors.Cause:
    shown = ", ".join(f'"{item}"' for item in allowed)
    text = f'Unsupported value: "{value}": supported values: {shown}'
    return errors.Cause("FieldValueNotSupported", text, field)


def _forbidden(why: str, field: str) -> errors.Cause:
    return errors.Cause("FieldValueForbidden", f"Forbidden: {why}", field)


# Pods and their templates


def _pod(obj: Json) -> Iterator[errors.Cause]:
    return _pod_spec(obj.get("spec") or {}, "spec")


def _pod_spec(spec: Json, path: str) -> Iterator[errors.Cause]:
    containers = spec.get("containers") or []
    if not containers:
        yield _required(f"{path}.containers")
    seen: set[str] = set()
    for field in ("initContainers", "containers"):
        for place, container in enumerate(spec.get(field) or []):
            yield from _container(container, f"{path}.{field}[{place}]", seen)
    if spec.get("restartPolicy", "Always") not in RESTART_POLICIES:
        yield _unsupported(spec["restartPolicy"], RESTART_POLICIES, f"{path}.restartPolicy")


def _container(container: Json, path: str, seen: set[str]) -> Iterator[errors.Cause]:
    name = container.get("name", "")
    if not name:
        yield _required(f"{path}.name")
    elif problem := names.label_problem(name):
        yield _bad(name, problem, f"{path}.name")
    elif name in seen:
        yield errors.Cause("FieldValueDuplicate", f'Duplicate value: "{name}"', f"{path}.name")
    seen.add(name)
    if not container.get("image"):
        yield _required(f"{path}.image")
    yield from _resources(container.get("resources") or {}, f"{path}.resources")


def _resources(amounts_: Json, path: str) -> Iterator[errors.Cause]:
    limits, requests = amounts_.get("limits") or {}, amounts_.get("requests") or {}
    for field, amounts in (("limits", limits), ("requests", requests)):
        for resource, amount in amounts.items():
            yield from _amount(resource, amount, f"{path}.{field}[{resource}]")
    for resource in filter(quantities.is_extended, requests):
        if resource not in limits:
            yield _required(
                f"{path}.limits", f"Limit must be set for non overcommitable resources: {resource}"
            )
        elif quantities.parse(requests[resource]) != quantities.parse(limits[resource]):
            why = f"must be equal to {resource} limit of {limits[resource]}"
            yield _bad(str(requests[resource]), why, f"{path}.requests")


def _amount(resource: str, amount: Any, path: str) -> Iterator[errors.Cause]:
    value = quantities.parse(amount)
    if value is None:
        raise errors.bad_request(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    if value < 0:
        yield _bad(str(amount), "must be greater than or equal to 0", path)
    elif quantities.is_extended(resource) and not quantities.is_whole(amount):
        yield _bad(str(amount), "must be an integer", path)


POD_CHANGES = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def _pod_update(old: Json, new: Json) -> Iterator[errors.Cause]:
    if _fixed_part(old["spec"]) != _fixed_part(new["spec"]):
        yield _forbidden(POD_CHANGES, "spec")
    kept = new["spec"].get("tolerations", [])
    if any(item not in kept for item in old["spec"].get("tolerations", [])):
        yield _forbidden(
            "existing toleration can not be modified except its tolerationSeconds", "spec.tolerations"
        )


def _fixed_part(spec: Json) -> Json:
    fixed = {
        name: value for name, value in spec.items() if name not in {"tolerations", "activeDeadlineSeconds"}
    }
    for field in ("containers", "initContainers"):
        fixed[field] = [{**container, "image": ""} for container in spec.get(field, [])]
    return fixed


# Jobs


JOB_COUNTS = (
    "parallelism",
    "completions",
    "backoffLimit",
    "activeDeadlineSeconds",
    "ttlSecondsAfterFinished",
)


def _job(obj: Json) -> Iterator[errors.Cause]:
    spec = obj.get("spec") or {}
    for field in (
        "parallelism",
        "completions",
        "backoffLimit",
        "activeDeadlineSeconds",
        "ttlSecondsAfterFinished",
    ):
        if (spec.get(field) or 0) < 0:
            yield _bad(spec[field], "must be greater than or equal to 0", f"spec.{field}")
    if spec.get("completionMode") == "Indexed" and spec.get("completions") is None:
        yield _required("spec.completions", "when completion mode is Indexed")
    template = (spec.get("template") or {}).get("spec") or {}
    yield from _pod_spec(template, "spec.template.spec")
    policy = template.get("restartPolicy", "Always")
    if policy == "Always":
        yield errors.Cause(
            "FieldValueRequired",
            'Required value: valid values: "OnFailure", "Never"',
            "spec.template.spec.restartPolicy",
        )


def _job_update(old: Json, new: Json) -> Iterator[errors.Cause]:
    fields = ["selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex"]
    if old["spec"].get("completionMode") != "Indexed":
        fields.append("completions")
    # Templates of suspended jobs may be changed before their first start, by schedulers such as Kueue.
    if not old["spec"].get("suspend") or (old.get("status") or {}).get("startTime"):
        fields.append("template")
    for field in fields:
        if old["spec"].get(field) != new["spec"].get(field):
            yield _bad(field, IMMUTABLE, f"spec.{field}")


# The small ones


def _lease(obj: Json) -> Iterator[errors.Cause]:
    spec = obj.get("spec") or {}
    if (duration_s := spec.get("leaseDurationSeconds")) is not None and duration_s <= 0:
        yield _bad(duration_s, "must be greater than 0", "spec.leaseDurationSeconds")
    if (transitions := spec.get("leaseTransitions")) is not None and transitions < 0:
        yield _bad(transitions, "must be greater than or equal to 0", "spec.leaseTransitions")


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
                yield _bad(name, why, f"{field}[{name}]")
    if total > MAX_CONFIG_BYTES:
        text = f"Too long: may not be more than {MAX_CONFIG_BYTES} bytes"
        yield errors.Cause("FieldValueTooLong", text, "")


def _configmap_update(old: Json, new: Json) -> Iterator[errors.Cause]:
    if not old.get("immutable"):
        return
    if not new.get("immutable"):
        yield _forbidden("field is immutable when `immutable` is set", "immutable")
    for field in ("data", "binaryData"):
        if old.get(field) != new.get(field):
            yield _forbidden("field is immutable when `immutable` is set", field)


def _node(obj: Json) -> Iterator[errors.Cause]:
    seen = set()
    for place, taint in enumerate((obj.get("spec") or {}).get("taints") or []):
        path = f"spec.taints[{place}]"
        if problem := names.qualified_problem(taint.get("key", "")):
            yield _bad(taint.get("key", ""), problem, f"{path}.key")
        if not taint.get("effect"):
            yield _required(f"{path}.effect")
        elif taint["effect"] not in TAINT_EFFECTS:
            yield _unsupported(taint["effect"], TAINT_EFFECTS, f"{path}.effect")
        mark = (taint.get("key"), taint.get("effect"))
        if mark in seen:
            yield errors.Cause("FieldValueDuplicate", f"Duplicate value: {taint}", path)
        seen.add(mark)
    for field in ("capacity", "allocatable"):
        for resource, amount in ((obj.get("status") or {}).get(field) or {}).items():
            yield from _amount(resource, amount, f"status.{field}.{resource}")


def _event(obj: Json) -> Iterator[errors.Cause]:
    about = obj.get("involvedObject") or {}
    place = about.get("namespace") or "default"
    if place != obj["metadata"].get("namespace"):
        yield _bad(about.get("namespace", ""), "does not match event.namespace", "involvedObject.namespace")


def _service(obj: Json) -> Iterator[errors.Cause]:
    spec = obj.get("spec") or {}
    ports = spec.get("ports") or []
    if not ports and spec.get("clusterIP") != "None" and spec.get("type") != "ExternalName":
        yield _required("spec.ports")
    for place, port in enumerate(ports):
        if not 1 <= port.get("port", 0) <= MAX_PORT:
            why = "must be between 1 and 65535, inclusive"
            yield _bad(port.get("port", 0), why, f"spec.ports[{place}].port")
        if len(ports) > 1 and not port.get("name"):
            yield _required(f"spec.ports[{place}].name")


def _definition(obj: Json) -> Iterator[errors.Cause]:
    spec = obj.get("spec") or {}
    held = spec.get("names") or {}
    for field in ("group", "scope"):
        if not spec.get(field):
            yield _required(f"spec.{field}")
    for field in ("plural", "kind"):
        if not held.get(field):
            yield _required(f"spec.names.{field}")
    wanted = f"{held.get('plural')}.{spec.get('group')}"
    if obj["metadata"].get("name") != wanted:
        yield _bad(obj["metadata"].get("name"), 'must be spec.names.plural+"."+spec.group', "metadata.name")
    if spec.get("scope") not in {"Cluster", "Namespaced", None}:
        yield _unsupported(spec["scope"], ("Cluster", "Namespaced"), "spec.scope")
    if (spec.get("conversion") or {}).get("strategy", "None") != "None":
        yield _forbidden("the simulator converts no versions", "spec.conversion.strategy")
    yield from _versions(spec.get("versions") or [])


def _versions(versions: list[Json]) -> Iterator[errors.Cause]:
    if sum(bool(version.get("storage")) for version in versions) != 1:
        why = "must have exactly one version marked as storage version"
        yield _bad(len(versions), why, "spec.versions")
    for place, version in enumerate(versions):
        path = f"spec.versions[{place}].schema.openAPIV3Schema"
        if not version.get("name"):
            yield _required(f"spec.versions[{place}].name")
        document = (version.get("schema") or {}).get("openAPIV3Schema")
        if document is None:
            yield _required(path, "schemas are required")
            continue
        yield from schema.definition_causes(document, path)


RULES: dict[str, Callable[[Json], Iterator[errors.Cause]]] = {
    "configmaps": _configmap,
    "events": _event,
    "jobs.batch": _job,
    "leases.coordination.k8s.io": _lease,
    "nodes": _node,
    "pods": _pod,
    "services": _service,
    resources.CRD_KEY: _definition,
}
UPDATE_RULES: dict[str, Callable[[Json, Json], Iterator[errors.Cause]]] = {
    "configmaps": _configmap_update,
    "jobs.batch": _job_update,
    "pods": _pod_update,
}
