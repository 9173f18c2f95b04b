"""Which nodes a pod may run on: the scheduler's filters that matter for TPU work.

Pure. Each filter names the reason in the words of kube-scheduler, so that "why is it Pending" reads as usual.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import collections
    from collections.abc import Iterable

Object = dict[str, Any]

TPU = "google.com/tpu"
TPU_TOLERATION: Object = {"key": TPU, "operator": "Equal", "value": "present", "effect": "NoSchedule"}
_BLOCKING = frozenset({"NoSchedule", "NoExecute"})
_NOT_SIMULATED = ("podAffinity", "podAntiAffinity")


def tpus(pod: Object) -> int:
    """Chips that a pod asks for."""
    return sum(int(_resources(container).get(TPU, 0)) for container in pod["spec"]["containers"])


def _resources(container: Object) -> Object:
    asked = container.get("resources", {})
    return {**asked.get("limits", {}), **asked.get("requests", {})}


def with_tpu_toleration(pod: Object) -> Object:
    """The pod with the toleration that GKE adds to pods asking for google.com/tpu; the same object if it
    has it."""
    tolerations = pod["spec"].get("tolerations", [])
    taint = {"key": TPU, "value": "present", "effect": "NoSchedule"}
    if not tpus(pod) or any(tolerates(one, taint) for one in tolerations):
        return pod
    return {**pod, "spec": {**pod["spec"], "tolerations": [*tolerations, TPU_TOLERATION]}}


def unsupported(pod: Object) -> list[str]:
    """Fields of a pod that would restrict where it runs and that are not simulated."""
    spec = pod["spec"]
    affinity = spec.get("affinity") or {}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    found = [f"affinity.{name}" for name in _NOT_SIMULATED if (affinity.get(name) or {}).get(required)]
    spread = spec.get("topologySpreadConstraints", [])
    if any(one.get("whenUnsatisfiable") != "ScheduleAnyway" for one in spread):
        found.append("topologySpreadConstraints")
    return found + [name for name in ("schedulingGates", "resourceClaims") if spec.get(name)]


def tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")


def untolerated(pod: Object, taints: Iterable[Object]) -> Object | None:
    """The first taint that keeps new pods like this one away, or None."""
    tolerations = pod["spec"].get("tolerations", [])
    for taint in taints:
        if taint["effect"] in _BLOCKING and not any(tolerates(one, taint) for one in tolerations):
            return taint
    return None


def matches(pod: Object, node: Object) -> bool:
    """Whether nodeSelector and required node affinity accept a node."""
    labels = node["metadata"].get("labels", {})
    selector = pod["spec"].get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or any(_term_matches(term, node) for term in required["nodeSelectorTerms"])


def _term_matches(term: Object, node: Object) -> bool:
    fields = {"metadata.name": node["metadata"]["name"]}
    labels = node["metadata"].get("labels", {})
    return all(_holds(one, labels) for one in term.get("matchExpressions", [])) and all(
        _holds(one, fields) for one in term.get("matchFields", [])
    )


def _holds(requirement: Object, values: dict[str, str]) -> bool:
    found, wanted = values.get(requirement["key"]), requirement.get("values", [])
    match requirement["operator"]:
        case "In":
            return found in wanted
        case "NotIn":
            return found not in wanted
        case "Exists":
            return found is not None
        case "DoesNotExist":
            return found is None
        case "Gt" | "Lt" as operator:
            return found is not None and _compare(found, wanted[0], greater=operator == "Gt")
    return False


def _compare(found: str, limit: str, *, greater: bool) -> bool:
    try:
        return int(found) > int(limit) if greater else int(found) < int(limit)
    except ValueError:
        return False


def rejection(pod: Object, node: Object) -> str | None:
    """Why a node cannot take any pod like this, whatever else runs there; None if it can."""
    taints = node["spec"].get("taints", [])
    if node["spec"].get("unschedulable"):
        taints = [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}, *taints]
        if untolerated(pod, taints[:1]):
            return "node(s) were unschedulable"
    if not matches(pod, node):
        return "node(s) didn't match Pod's node affinity/selector"
    taint = untolerated(pod, taints)
    if taint:
        value = taint.get("value", "")
        return f"node(s) had untolerated taint(s) {{{taint['key']}: {value}}}"
    return None


def explanation(reasons: collections.Counter[str], nodes: int) -> str:
    """The message of an unschedulable pod: "0/16 nodes are available: 12 ..., 4 ...."."""
    if not nodes:
        return "no nodes available to schedule pods"
    counted = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    return f"0/{nodes} nodes are available: {counted}."
