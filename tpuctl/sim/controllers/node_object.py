"""Node objects as GKE makes them for `tpu7x-standard-4t`, and small changes to them.

Objects in the store are shared, so every change here returns a new object that shares the parts it did
not touch: 2,304 nodes with their history stay small.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from typing import TYPE_CHECKING, Any

from tpuctl.sim import rules

if TYPE_CHECKING:
    from collections.abc import Mapping

Object = dict[str, Any]

POOL = "cloud.google.com/gke-nodepool"
SLICE = "cloud.google.com/gke-tpu-slice"
TOPOLOGY = "cloud.google.com/gke-tpu-topology"
BLOCK = "cloud.google.com/gce-topology-block"
TPU_TAINT: Object = {"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"}
UNREACHABLE = "node.kubernetes.io/unreachable"
NOT_READY = "node.kubernetes.io/not-ready"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"

MACHINE_TYPE = "tpu7x-standard-4t"
_VCPUS = 224
_MEMORY_GB = 960


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spec:
    """What a Node is made from: the VM, the pool it belongs to and the place it stands in."""

    name: str
    """Instance name, which is also the node's name."""
    instance_id: str
    group: str
    """Name of the managed instance group that made the VM."""
    pool: str
    project: str
    zone: str
    reservation: str
    block_id: str
    subblock_id: str
    host_id: str
    partition_ids: Mapping[str, str]
    """Shape -> partition id, for all five shapes."""
    version: str
    """Node version without the leading "v"."""
    number: int
    """A number no other node of the cluster has; addresses come from it."""
    max_pods: int = 15


def partition_label(shape: str) -> str:
    return f"cloud.google.com/gke-tpu-partition-{shape}-id"


def state_label(shape: str) -> str:
    return f"cloud.google.com/gke-tpu-partition-{shape}-state"


def build(spec: Spec, now: str) -> Object:
    """A fresh, Ready node without slice labels; partition states are the slice controller's business."""
    pod_cidr = _pod_cidr(spec.number)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": spec.name, "annotations": _annotations(spec), "labels": _labels(spec)},
        "spec": {
            "podCIDR": pod_cidr,
            "podCIDRs": [pod_cidr],
            "providerID": f"gce://{spec.project}/{spec.zone}/{spec.name}",
            "taints": [TPU_TAINT],
        },
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": internal_ip(spec.number)},
                {"type": "Hostname", "address": spec.name},
            ],
            "allocatable": _allocatable(spec.max_pods),
            "capacity": _capacity(spec.max_pods),
            "conditions": _conditions(now),
            "daemonEndpoints": _DAEMON_ENDPOINTS,
            "images": _IMAGES,
            "nodeInfo": _node_info(spec),
        },
    }


def internal_ip(number: int) -> str:
    return f"10.{128 + (number >> 16)}.{(number >> 8) & 255}.{number & 255}"


def ready(node: Object) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"]["conditions"])


def with_labels(node: Object, changes: Mapping[str, str | None]) -> Object:
    """The node with labels set, or removed where the value is None; the same object if nothing changes."""
    labels: dict[str, str] = node["metadata"].get("labels", {})
    wanted = {**labels, **{key: value for key, value in changes.items() if value is not None}}
    for key, value in changes.items():
        if value is None:
            wanted.pop(key, None)
    if wanted == labels:
        return node
    return {**node, "metadata": {**node["metadata"], "labels": wanted}}


def with_taints(node: Object, *, add: list[Object], remove: set[str]) -> Object:
    """The node without taints of the keys in `remove`, then with `add`; the same object if nothing
    changes."""
    old: list[Object] = node["spec"].get("taints", [])
    dropped = remove | {taint["key"] for taint in add}
    kept = [taint for taint in old if taint["key"] not in dropped]
    if not add and len(kept) == len(old):
        return node
    return {**node, "spec": {**node["spec"], "taints": kept + add}}


def with_ready(node: Object, status: str, now: str) -> Object:
    """The node with kubelet's conditions "True" (heard of again) or "Unknown" (kubelet fell silent)."""
    conditions = [_turned(one, status, now) for one in node["status"]["conditions"]]
    return {**node, "status": {**node["status"], "conditions": conditions}}


def _turned(condition: Object, status: str, now: str) -> Object:
    kind = condition["type"]
    if kind not in _KUBELET_REASONS:
        return condition
    if status == "Unknown":
        silent = {"reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
        return {**condition, "status": "Unknown", "lastTransitionTime": now, **silent}
    reason, message = _KUBELET_REASONS[kind]
    value = "True" if kind == "Ready" else "False"
    return _condition(kind, value, reason, message, now)


def _annotations(spec: Spec) -> dict[str, str]:
    place = f"projects/{spec.project}/zones/{spec.zone}"
    return {
        "container.googleapis.com/instance_id": spec.instance_id,
        "csi.volume.kubernetes.io/nodeid": f'{{"pd.csi.storage.gke.io":"{place}/instances/{spec.name}"}}',
        "node.alpha.kubernetes.io/ttl": "300",
        "node.gke.io/created-by-mig": f"{place}/instanceGroupManagers/{spec.group}",
        "node.gke.io/last-applied-node-taints": "google.com/tpu=present:NoSchedule",
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
    }


def _labels(spec: Spec) -> dict[str, str]:
    region = spec.zone.rsplit("-", 1)[0]
    place = {
        "topology.kubernetes.io/region": region,
        "topology.kubernetes.io/zone": spec.zone,
        "topology.gke.io/zone": spec.zone,
        BLOCK: spec.block_id,
        "cloud.google.com/gce-topology-subblock": spec.subblock_id,
        "cloud.google.com/gce-topology-host": spec.host_id,
    }
    own = {
        POOL: spec.pool,
        "kubernetes.io/hostname": spec.name,
        "cloud.google.com/reservation-name": spec.reservation,
        "cloud.google.com/gke-max-pods-per-node": str(spec.max_pods),
    }
    partitions = {partition_label(shape): spec.partition_ids[shape] for shape in rules.SHAPES}
    return {**_FIXED_LABELS, **place, **own, **partitions}


_FIXED_LABELS = {
    "beta.kubernetes.io/arch": "amd64",
    "beta.kubernetes.io/instance-type": MACHINE_TYPE,
    "beta.kubernetes.io/os": "linux",
    "cloud.google.com/gke-accelerator-count": "4",
    "cloud.google.com/gke-accelerator-topology-mode": "PROVISION_ONLY",
    "cloud.google.com/gke-boot-disk": "hyperdisk-balanced",
    "cloud.google.com/gke-container-runtime": "containerd",
    "cloud.google.com/gke-cpu-scaling-level": str(_VCPUS),
    "cloud.google.com/gke-logging-variant": "DEFAULT",
    "cloud.google.com/gke-memory-gb-scaling-level": str(_MEMORY_GB),
    "cloud.google.com/gke-os-distribution": "cos",
    "cloud.google.com/gke-provisioning": "standard",
    "cloud.google.com/gke-stack-type": "IPV4",
    "cloud.google.com/gke-tpu-accelerator": rules.TPU_TYPE,
    "cloud.google.com/machine-family": "tpu7x",
    "kubernetes.io/arch": "amd64",
    "kubernetes.io/os": "linux",
    "node.kubernetes.io/instance-type": MACHINE_TYPE,
}


def _pod_cidr(number: int) -> str:
    """A /27 for each node: room for the 15 pods a TPU node usually allows, doubled as GKE does."""
    start = number * 32
    return f"10.{(start >> 16) & 127}.{(start >> 8) & 255}.{start & 255}/27"


@functools.cache
def _capacity(max_pods: int) -> Object:
    return {
        "cpu": str(_VCPUS),
        "ephemeral-storage": "98831908Ki",
        "google.com/tpu": "4",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "memory": "990559652Ki",
        "pods": str(max_pods),
    }


@functools.cache
def _allocatable(max_pods: int) -> Object:
    smaller = {"cpu": "223390m", "ephemeral-storage": "47060071478", "memory": "973148708Ki"}
    return {**_capacity(max_pods), **smaller}


_KUBELET_REASONS = {
    "MemoryPressure": ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    "Ready": ("KubeletReady", "kubelet is posting ready status"),
}
_PROBLEM_REASONS = {
    "FrequentKubeletRestart": ("NoFrequentKubeletRestart", "kubelet is functioning properly"),
    "FrequentContainerdRestart": ("NoFrequentContainerdRestart", "containerd is functioning properly"),
    "KernelDeadlock": ("KernelHasNoDeadlock", "kernel has no deadlock"),
    "ReadonlyFilesystem": ("FilesystemIsNotReadOnly", "Filesystem is not read-only"),
    "NetworkUnavailable": ("RouteCreated", "NodeController create implicit route"),
}


@functools.lru_cache(maxsize=64)
def _conditions(now: str) -> list[Object]:
    problems = [_condition(kind, "False", *text, now) for kind, text in _PROBLEM_REASONS.items()]
    kubelet = [
        _condition(kind, "True" if kind == "Ready" else "False", *text, now)
        for kind, text in _KUBELET_REASONS.items()
    ]
    return problems + kubelet


def _condition(kind: str, status: str, reason: str, message: str, now: str) -> Object:
    return {
        "type": kind,
        "status": status,
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }


_DAEMON_ENDPOINTS = {"kubeletEndpoint": {"Port": 10250}}
_IMAGES: list[Object] = [
    {"names": ["gke.gcr.io/tpu-device-plugin:sim"], "sizeBytes": 58_720_256},
    {"names": ["gke.gcr.io/fluent-bit:sim"], "sizeBytes": 91_226_112},
    {"names": ["gke.gcr.io/pause:3.10"], "sizeBytes": 319_488},
]


def _node_info(spec: Spec) -> Object:
    digest = hashlib.sha256(spec.name.encode()).hexdigest()
    return {
        **_NODE_INFO,
        "kubeletVersion": f"v{spec.version}",
        "bootID": _uuid_text(digest[32:]),
        "machineID": digest[:32],
        "systemUUID": _uuid_text(digest[:32]),
    }


def _uuid_text(digits: str) -> str:
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:32]}"


_NODE_INFO = {
    "architecture": "amd64",
    "containerRuntimeVersion": "containerd://2.1.4",
    "kernelVersion": "6.12.46+",
    "kubeProxyVersion": "",
    "operatingSystem": "linux",
    "osImage": "Container-Optimized OS from Google",
}
