"""Kubernetes objects as a server would send them."""

from __future__ import annotations

from typing import Any

SHAPES = {"2x2x1": 1, "2x2x2": 2, "2x2x4": 4, "2x4x4": 8, "4x4x4": 16}
PREFIX = "cloud.google.com"


def node(
    name: str,
    *,
    cube: str = "cube-1",
    block: str = "block-1",
    sub_block: str = "sub-1",
    pool: str = "pool-1",
    index: int = 0,
    state: str = "HEALTHY",
    ready: str = "True",
    labels: dict[str, str | None] | None = None,
) -> dict[str, Any]:
    """A TPU7x node, the `index`-th of its cube; `labels` are added, None takes one away."""
    found: dict[str, str | None] = {
        f"{PREFIX}/gke-tpu-accelerator": "tpu7x",
        f"{PREFIX}/gke-accelerator-topology-mode": "PROVISION_ONLY",
        f"{PREFIX}/gke-nodepool": pool,
        f"{PREFIX}/gce-topology-block": block,
        f"{PREFIX}/gce-topology-subblock": sub_block,
        "kubernetes.io/hostname": name,
    }
    for shape, hosts in SHAPES.items():
        part = cube if shape == "4x4x4" else f"{cube}-{shape}-{index // hosts}"
        found[f"{PREFIX}/gke-tpu-partition-{shape}-id"] = part
        found[f"{PREFIX}/gke-tpu-partition-{shape}-state"] = state
    found |= labels or {}
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "labels": {key: value for key, value in found.items() if value is not None},
        },
        "spec": {"taints": [{"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"}]},
        "status": {
            "capacity": {"google.com/tpu": "4"},
            "conditions": [
                {"type": "MemoryPressure", "status": "False"},
                {"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-05T08:00:00Z"},
            ],
        },
    }


def cube(name: str, *, hosts: int = 16, **fields: Any) -> list[dict[str, Any]]:
    """All nodes of a cube, in an order that is not theirs."""
    made = [node(f"{name}-{index:02d}", cube=name, index=index, **fields) for index in range(hosts)]
    return made[::-1]


def slice_(
    name: str,
    *,
    topology: str = "4x4x4",
    partitions: tuple[str, ...] = ("cube-1",),
    reason: str | None = None,
    status: str = "False",
    message: str = "",
) -> dict[str, Any]:
    """A Slice; without `reason` it has no condition yet."""
    document: dict[str, Any] = {
        "apiVersion": "accelerator.gke.io/v1beta1",
        "kind": "Slice",
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": "11",
            "creationTimestamp": "2026-01-05T09:00:00Z",
        },
        "spec": {"type": "tpu7x", "topology": topology, "partitionIds": list(partitions)},
    }
    if reason is not None:
        condition = {"type": "Ready", "status": status, "reason": reason, "message": message}
        condition["lastTransitionTime"] = "2026-01-05T09:30:00Z"
        document["status"] = {"conditions": [condition]}
    return document
