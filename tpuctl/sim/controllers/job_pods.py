"""Pods as the Job controller makes them, and the text form of completed indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

Object = dict[str, Any]

TRACKING_FINALIZER = "batch.kubernetes.io/job-tracking"
"""Holds a finished or deleted pod until the Job has counted it."""
INDEX = "batch.kubernetes.io/job-completion-index"
JOB_NAME = "batch.kubernetes.io/job-name"
CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
MAX_NAME_STEM = 57
"""Generated names leave room for a dash and five letters in 63 characters."""


def is_indexed(job: Object) -> bool:
    return bool(job["spec"].get("completionMode") == "Indexed")


def build(job: Object, index: int | None, new_suffix: Callable[[], str]) -> Object:
    """A pod for a Job; `index` is its completion index, None for a Job without."""
    template = job["spec"]["template"]
    name = job["metadata"]["name"]
    stem = name if index is None else f"{name}-{index}"
    spec = dict(template["spec"])
    if index is not None:
        spec.setdefault("hostname", stem)
        spec["containers"] = [_with_index(container) for container in spec["containers"]]
        if "initContainers" in spec:
            spec["initContainers"] = [_with_index(container) for container in spec["initContainers"]]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **_labels_and_annotations(job, index),
            "name": f"{stem[:MAX_NAME_STEM]}-{new_suffix()}",
            "generateName": f"{stem[:MAX_NAME_STEM]}-",
            "namespace": job["metadata"]["namespace"],
            "finalizers": [TRACKING_FINALIZER],
            "ownerReferences": [_owner(job)],
        },
        "spec": spec,
        "status": {"phase": "Pending"},
    }


def _labels_and_annotations(job: Object, index: int | None) -> Object:
    metadata = job["spec"]["template"].get("metadata") or {}
    uid, name = job["metadata"]["uid"], job["metadata"]["name"]
    labels = {
        **metadata.get("labels", {}),
        CONTROLLER_UID: uid,
        "controller-uid": uid,
        JOB_NAME: name,
        "job-name": name,
    }
    annotations = dict(metadata.get("annotations", {}))
    if index is not None:
        labels[INDEX] = annotations[INDEX] = str(index)
    return {"labels": labels, "annotations": annotations} if annotations else {"labels": labels}


def _owner(job: Object) -> Object:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _with_index(container: Object) -> Object:
    name = "JOB_COMPLETION_INDEX"
    env = [one for one in container.get("env", []) if one["name"] != name]
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}}
    return {**container, "env": [*env, {"name": name, "valueFrom": source}]}


def owner_uid(pod: Object) -> str | None:
    """Uid of the Job that controls a pod, or None."""
    for owner in pod["metadata"].get("ownerReferences", []):
        if owner.get("controller") and owner["kind"] == "Job":
            return str(owner["uid"])
    return None


def index_of(pod: Object) -> int | None:
    text = pod["metadata"].get("annotations", {}).get(INDEX)
    return None if text is None else int(text)


def ranges(indexes: Collection[int]) -> str:
    """Text form of `status.completedIndexes`: {1, 3, 4, 5} -> "1,3-5"."""
    parts: list[list[int]] = []
    for index in sorted(indexes):
        if parts and parts[-1][-1] == index - 1:
            parts[-1] = [parts[-1][0], index]
        else:
            parts.append([index])
    # Two neighbours are written with a comma, three and more as a range.
    return ",".join(
        "-".join(map(str, part)) if part[-1] - part[0] != 1 else f"{part[0]},{part[-1]}" for part in parts
    )


def parse_ranges(text: str) -> set[int]:
    """The indexes that `ranges` wrote."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found
