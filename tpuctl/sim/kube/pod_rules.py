"""Rules of pods and of the templates that pods are made from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuctl.sim.kube import errors, names, quantities
from tpuctl.sim.kube.causes import bad, forbidden, not_found, required, unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

RESTART_POLICIES = ("Always", "OnFailure", "Never")
MAX_PORT = 65535
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
PROBE_ACTIONS = ("exec", "grpc", "httpGet", "tcpSocket")


def pod(obj: Json) -> Iterator[errors.Cause]:
    """A pod."""
    return spec_causes(obj.get("spec") or {}, "spec")


def spec_causes(spec: Json, path: str) -> Iterator[errors.Cause]:
    """The spec of a pod, or of a template for pods, which stands at `path`."""
    containers = spec.get("containers") or []
    if not containers:
        yield required(f"{path}.containers")
    volumes = frozenset(volume.get("name", "") for volume in spec.get("volumes") or [])
    yield from _volumes(spec.get("volumes") or [], f"{path}.volumes")
    seen: set[str] = set()
    for field in ("initContainers", "containers"):
        for place, container in enumerate(spec.get(field) or []):
            where = f"{path}.{field}[{place}]"
            yield from _container(container, where, seen)
            yield from _mounts(container.get("volumeMounts") or [], volumes, f"{where}.volumeMounts")
    if spec.get("restartPolicy", "Always") not in RESTART_POLICIES:
        yield unsupported(spec["restartPolicy"], RESTART_POLICIES, f"{path}.restartPolicy")


def _container(container: Json, path: str, seen: set[str]) -> Iterator[errors.Cause]:
    name = container.get("name", "")
    if not name:
        yield required(f"{path}.name")
    elif problem := names.label_problem(name):
        yield bad(name, problem, f"{path}.name")
    elif name in seen:
        yield errors.Cause("FieldValueDuplicate", f'Duplicate value: "{name}"', f"{path}.name")
    seen.add(name)
    if not container.get("image"):
        yield required(f"{path}.image")
    yield from _resources(container.get("resources") or {}, f"{path}.resources")
    for place, port in enumerate(container.get("ports") or []):
        yield from _port(port.get("containerPort"), f"{path}.ports[{place}].containerPort")
    for field in PROBES:
        if container.get(field) is not None:
            yield from _probe(container[field], f"{path}.{field}")


def _volumes(volumes: list[Json], path: str) -> Iterator[errors.Cause]:
    seen: set[str] = set()
    for place, volume in enumerate(volumes):
        name, field = volume.get("name", ""), f"{path}[{place}].name"
        if not name:
            yield required(field)
        elif problem := names.label_problem(name):
            yield bad(name, problem, field)
        elif name in seen:
            yield errors.Cause("FieldValueDuplicate", f'Duplicate value: "{name}"', field)
        seen.add(name)


def _mounts(mounts: list[Json], volumes: frozenset[str], path: str) -> Iterator[errors.Cause]:
    for place, mount in enumerate(mounts):
        name = mount.get("name", "")
        if not name:
            yield required(f"{path}[{place}].name")
        elif name not in volumes:
            yield not_found(name, f"{path}[{place}].name")
        if not mount.get("mountPath"):
            yield required(f"{path}[{place}].mountPath")


def _port(port: Any, path: str) -> Iterator[errors.Cause]:
    """A port number, or where names are allowed the name of one."""
    if port in (None, 0, ""):
        yield required(path)
    elif isinstance(port, int) and not 1 <= port <= MAX_PORT:
        yield bad(port, "must be between 1 and 65535, inclusive", path)


def _probe(probe: Json, path: str) -> Iterator[errors.Cause]:
    actions = [action for action in PROBE_ACTIONS if probe.get(action) is not None]
    if not actions:
        yield required(path, "must specify a handler type")
    for extra in actions[1:]:
        yield forbidden("may not specify more than 1 handler type", f"{path}.{extra}")
    for action in actions:
        if action != "exec":
            yield from _port(probe[action].get("port"), f"{path}.{action}.port")


def _resources(amounts_: Json, path: str) -> Iterator[errors.Cause]:
    limits, requests = amounts_.get("limits") or {}, amounts_.get("requests") or {}
    for field, amounts in (("limits", limits), ("requests", requests)):
        for resource, amount in amounts.items():
            yield from amount_causes(resource, amount, f"{path}.{field}[{resource}]")
    for resource in filter(quantities.is_extended, requests):
        if resource not in limits:
            yield required(
                f"{path}.limits", f"Limit must be set for non overcommitable resources: {resource}"
            )
        elif quantities.parse(requests[resource]) != quantities.parse(limits[resource]):
            why = f"must be equal to {resource} limit of {limits[resource]}"
            yield bad(str(requests[resource]), why, f"{path}.requests")


def amount_causes(resource: str, amount: Any, path: str) -> Iterator[errors.Cause]:
    """An amount of a resource. Raises `ApiError` (400) if it is no quantity."""
    value = quantities.parse(amount)
    if value is None:
        raise errors.bad_request(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    if value < 0:
        yield bad(str(amount), "must be greater than or equal to 0", path)
    elif quantities.is_extended(resource) and not quantities.is_whole(amount):
        yield bad(str(amount), "must be an integer", path)


POD_CHANGES = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def pod_update(old: Json, new: Json) -> Iterator[errors.Cause]:
    """A change of a pod."""
    if _fixed_part(old["spec"]) != _fixed_part(new["spec"]):
        yield forbidden(POD_CHANGES, "spec")
    kept = new["spec"].get("tolerations", [])
    if any(item not in kept for item in old["spec"].get("tolerations", [])):
        yield forbidden(
            "existing toleration can not be modified except its tolerationSeconds", "spec.tolerations"
        )


def _fixed_part(spec: Json) -> Json:
    fixed = {
        name: value for name, value in spec.items() if name not in {"tolerations", "activeDeadlineSeconds"}
    }
    for field in ("containers", "initContainers"):
        fixed[field] = [{**container, "image": ""} for container in spec.get(field, [])]
    return fixed
