"""What users run on a slice, as they submit it to Kubernetes."""

from __future__ import annotations

from typing import Any

JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"

Object = dict[str, Any]


def job(name: str, slice_name: str, pods: int, **limits: int) -> Object:
    """A Job with a pod for each host of a slice; without `limits` it bears any number of restarts."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "completions": pods,
            "parallelism": pods,
            "completionMode": "Indexed",
            **(limits or {"backoffLimitPerIndex": 1000}),
            "template": {"spec": {"restartPolicy": "Never", **_on_a_host(slice_name)}},
        },
    }


def pod(name: str, slice_name: str) -> Object:
    """A pod without an owner on some host of a slice."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": _on_a_host(slice_name),
    }


def _on_a_host(slice_name: str) -> Object:
    chips = {"google.com/tpu": "4"}
    container = {"name": "c", "image": "i", "resources": {"limits": chips, "requests": chips}}
    return {"nodeSelector": {"cloud.google.com/gke-tpu-slice": slice_name}, "containers": [container]}
