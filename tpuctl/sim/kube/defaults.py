"""Values that the API server fills in: defaults of the built-in types, and what it sets on creation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuctl.sim.kube import resources, schema

if TYPE_CHECKING:
    from collections.abc import Callable

Json = dict[str, Any]

NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
"""Admission puts it on every node that is created through the API."""

PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
FILE_MODE = 0o644
"""Of files that a volume makes from configuration."""

EVICTED_AFTER_S = 300
"""How long pods tolerate a node that is not ready or not reachable."""

NODE_INFO = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)
STATUS_ZEROS: dict[str, Json] = {
    "addresses": {"type": "", "address": ""},
    "conditions": {"type": "", "status": ""},
    "containerStatuses": {"name": "", "ready": False, "restartCount": 0, "image": "", "imageID": ""},
}
"""Items of status lists of built-in types, and the fields that they always have."""

JOB_LABELS = (
    ("batch.kubernetes.io/controller-uid", "uid"),
    ("batch.kubernetes.io/job-name", "name"),
    ("controller-uid", "uid"),
    ("job-name", "name"),
)


def fill(resource: resources.ResourceType, obj: Json) -> Json:
    """A copy of the object with the defaults of its type."""
    if resource.schema is not None:
        filled: Json = schema.with_defaults(obj, resource.schema)
        return filled
    filler = FILLERS.get(resource.key)
    if filler:
        filler(obj)
    _fill_zeros(obj.get("status") or {})
    return obj


def _fill_zeros(status: Json) -> None:
    """Fields that Go writes even when they are empty, so that readers may count on them."""
    for field, zeros in STATUS_ZEROS.items():
        for item in status.get(field) or []:
            _set(item, **zeros)


def prepare_new(resource: resources.ResourceType, obj: Json) -> None:
    """Set, in place, what only the server says about a new object; its metadata is complete already.

    A type with a status subresource starts without the status that the client sent; nodes are an exception,
    because a kubelet registers its node with a status.
    """
    if resource.has_status and resource.key != "nodes":
        obj.pop("status", None)
    filler = NEW.get(resource.key)
    if filler:
        filler(obj)


def _set(target: Json, **values: Any) -> None:
    for name, value in values.items():
        if target.get(name) is None:
            target[name] = value


# Pods


def _pod(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    for field in ("containers", "initContainers"):
        for container in spec.get(field) or []:
            _requests_from_limits(container)
    _pod_template(spec)
    _set(spec, enableServiceLinks=True)


def _requests_from_limits(container: Json) -> None:
    limits = (container.get("resources") or {}).get("limits") or {}
    if limits:
        container["resources"]["requests"] = {**limits, **(container["resources"].get("requests") or {})}


def _pod_template(spec: Json) -> None:
    if spec.get("serviceAccountName"):
        # The old name of the field, which the server keeps beside the new one.
        _set(spec, serviceAccount=spec["serviceAccountName"])
    for volume in spec.get("volumes") or []:
        _volume(volume)
    for field in ("containers", "initContainers"):
        for container in spec.get(field) or []:
            _container(container)
    _set(
        spec,
        restartPolicy="Always",
        terminationGracePeriodSeconds=30,
        dnsPolicy="ClusterFirst",
        securityContext={},
        schedulerName="default-scheduler",
    )


def _container(container: Json) -> None:
    image = str(container.get("image", ""))
    tag = image.rpartition("/")[2].partition(":")[2]
    fixed = "@" in image or tag not in {"", "latest"}
    _set(
        container,
        resources={},
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
        imagePullPolicy="IfNotPresent" if fixed else "Always",
    )
    for amounts in container["resources"].values():
        # A quantity may be written as a number; the server answers with text.
        if isinstance(amounts, dict):
            amounts.update({resource: str(amount) for resource, amount in amounts.items()})
    for port in container.get("ports") or []:
        _set(port, protocol="TCP")
    for variable in container.get("env") or []:
        if field := (variable.get("valueFrom") or {}).get("fieldRef"):
            _set(field, apiVersion="v1")
    for probe in PROBES:
        if container.get(probe):
            _probe(container[probe])


def _probe(probe: Json) -> None:
    _set(probe, timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)
    if probe.get("httpGet"):
        _set(probe["httpGet"], path="/", scheme="HTTP")


def _volume(volume: Json) -> None:
    if not volume.keys() - {"name"}:
        volume["emptyDir"] = {}
    for source in ("configMap", "secret", "projected"):
        if volume.get(source):
            _set(volume[source], defaultMode=FILE_MODE)


def _new_pod(obj: Json) -> None:
    spec = obj["spec"]
    _set(spec, priority=0, preemptionPolicy="PreemptLowerPriority")
    tolerations = spec.setdefault("tolerations", [])
    for condition in ("not-ready", "unreachable"):
        key = f"node.kubernetes.io/{condition}"
        if not any(item.get("key") in {key, None} and _for_no_execute(item) for item in tolerations):
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": EVICTED_AFTER_S,
                }
            )
    obj["status"] = {"phase": "Pending", "qosClass": _quality(spec)}


def _for_no_execute(toleration: Json) -> bool:
    return toleration.get("effect") in {None, "", "NoExecute"}


def _quality(spec: Json) -> str:
    """Quality-of-service class: only cpu and memory count."""
    resources_ = [container.get("resources") or {} for container in spec.get("containers") or []]
    limits = [_computing(item.get("limits") or {}) for item in resources_]
    requests = [_computing(item.get("requests") or {}) for item in resources_]
    if not any(limits) and not any(requests):
        return "BestEffort"
    complete = all(len(item) == 2 for item in limits)  # noqa: PLR2004 - cpu and memory
    return "Guaranteed" if complete and limits == requests else "Burstable"


def _computing(amounts: Json) -> Json:
    return {name: amount for name, amount in amounts.items() if name in {"cpu", "memory"}}


# Jobs


def _job(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    replacement = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    _set(
        spec,
        parallelism=1,
        backoffLimit=6 if spec.get("backoffLimitPerIndex") is None else 2**31 - 1,
        completionMode="NonIndexed",
        suspend=False,
        podReplacementPolicy=replacement,
    )
    template = spec.setdefault("template", {})
    _pod_template(template.setdefault("spec", {}))
    labels = (template.get("metadata") or {}).get("labels")
    if labels and not obj["metadata"].get("labels"):
        obj["metadata"]["labels"] = dict(labels)


def _new_job(obj: Json) -> None:
    spec, metadata = obj["spec"], obj["metadata"]
    obj["status"] = {}
    if spec.get("manualSelector"):
        return
    labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
    labels.update({label: metadata.get(source, "") for label, source in JOB_LABELS})
    uid_label = JOB_LABELS[0][0]
    spec["selector"] = {"matchLabels": {uid_label: metadata["uid"]}}


# Deployments, cron jobs, roles


def _deployment(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    _set(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600, strategy={})
    _set(spec["strategy"], type="RollingUpdate")
    if spec["strategy"]["type"] == "RollingUpdate":
        _set(spec["strategy"], rollingUpdate={})
        _set(spec["strategy"]["rollingUpdate"], maxUnavailable="25%", maxSurge="25%")
    _pod_template(spec.setdefault("template", {}).setdefault("spec", {}))


def _cron_job(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    _set(
        spec,
        concurrencyPolicy="Allow",
        suspend=False,
        successfulJobsHistoryLimit=3,
        failedJobsHistoryLimit=1,
    )
    template = spec.setdefault("jobTemplate", {}).setdefault("spec", {}).setdefault("template", {})
    _pod_template(template.setdefault("spec", {}))


def _empty_status(obj: Json) -> None:
    """Stored without a controller: what runs elsewhere never reports here."""
    obj["status"] = {}


def _binding(obj: Json) -> None:
    _set(obj.setdefault("roleRef", {}), apiGroup=resources.RBAC_GROUP)
    for subject in obj.get("subjects") or []:
        if subject.get("kind") in {"User", "Group"}:
            _set(subject, apiGroup=resources.RBAC_GROUP)


# The others


def _node(obj: Json) -> None:
    status = obj.setdefault("status", {})
    _set(status, daemonEndpoints={"kubeletEndpoint": {"Port": 0}}, nodeInfo={})
    _set(status["nodeInfo"], **dict.fromkeys(NODE_INFO, ""))
    if obj.setdefault("spec", {}).get("unschedulable") is False:
        del obj["spec"]["unschedulable"]


def _new_node(obj: Json) -> None:
    taints = obj["spec"].setdefault("taints", [])
    if not any(taint.get("key") == NOT_READY["key"] for taint in taints):
        taints.append(dict(NOT_READY))


def _namespace(obj: Json) -> None:
    labels = obj["metadata"].setdefault("labels", {})
    labels["kubernetes.io/metadata.name"] = obj["metadata"].get("name", "")


def _new_namespace(obj: Json) -> None:
    obj["spec"] = {"finalizers": ["kubernetes"]}
    obj["status"] = {"phase": "Active"}


def _service(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    _set(spec, type="ClusterIP", sessionAffinity="None", internalTrafficPolicy="Cluster")
    for port in spec.get("ports") or []:
        _set(port, protocol="TCP", targetPort=port.get("port"))


def _new_service(obj: Json) -> None:
    spec = obj["spec"]
    if spec["type"] == "ExternalName":
        return
    number = int(obj["metadata"]["uid"].replace("-", "")[:4], 16)
    _set(spec, clusterIP=f"10.96.{number >> 8}.{number & 255}")
    spec["clusterIPs"] = [spec["clusterIP"]]
    _set(spec, ipFamilies=["IPv4"], ipFamilyPolicy="SingleStack")
    obj["status"] = {"loadBalancer": {}}


def _event(obj: Json) -> None:
    _set(obj, source={}, type="Normal")


def _definition(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    held = spec.setdefault("names", {})
    if held.get("kind"):
        _set(held, singular=held["kind"].lower(), listKind=f"{held['kind']}List")
    _set(spec, conversion={"strategy": "None"})


def _new_definition(obj: Json) -> None:
    empty: Json = {"kind": "", "plural": ""}
    obj["status"] = {"conditions": [], "acceptedNames": empty, "storedVersions": []}


FILLERS: dict[str, Callable[[Json], None]] = {
    f"clusterrolebindings.{resources.RBAC_GROUP}": _binding,
    f"rolebindings.{resources.RBAC_GROUP}": _binding,
    "cronjobs.batch": _cron_job,
    "deployments.apps": _deployment,
    "events": _event,
    "jobs.batch": _job,
    "namespaces": _namespace,
    "nodes": _node,
    "pods": _pod,
    "services": _service,
    resources.CRD_KEY: _definition,
}
NEW: dict[str, Callable[[Json], None]] = {
    "cronjobs.batch": _empty_status,
    "deployments.apps": _empty_status,
    "poddisruptionbudgets.policy": _empty_status,
    "jobs.batch": _new_job,
    "namespaces": _new_namespace,
    "nodes": _new_node,
    "pods": _new_pod,
    "services": _new_service,
    resources.CRD_KEY: _new_definition,
}
