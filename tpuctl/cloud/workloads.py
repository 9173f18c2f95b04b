"""Nodes and pods as far as a swap touches them: the Workloads port.

A cordon of ours is spec.unschedulable together with an annotation that names the operation. One without that
mark is somebody else's and is never undone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuctl.cloud import documents, kube_errors
from tpuctl.cloud import errors as cloud_errors
from tpuctl.cloud import kube as kube_module
from tpuctl.model import errors
from tpuctl.ops import ports

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tpuctl.model import operations

MARK = "tpuctl.dev/cordoned-by"
_MERGE = "application/merge-patch+json"
_NODES = "/api/v1/nodes"
_HOSTNAME = "kubernetes.io/hostname"
_NAMES_A_QUERY = 64
"""So many names of some 60 characters stay below the 8 KiB that proxies allow for a request line."""
_RACES = 5
"""How often a node that changed under our hands is read and written again."""


class KubeWorkloads:
    """The Workloads port."""

    def __init__(self, kube: kube_module.Kube) -> None:
        self._kube = kube

    def cordon(self, host: str, operation: str) -> bool:
        for _ in range(_RACES):
            node = self._node(host)
            if node is None:
                return False
            if (node.get("spec") or {}).get("unschedulable"):
                return _mark(node) == operation
            if self._patch(host, node, unschedulable=True, mark=operation):
                return True
        raise errors.Conflict(f"node {host} is changed by somebody else again and again")

    def uncordon(self, host: str, operation: str) -> bool:
        for _ in range(_RACES):
            node = self._node(host)
            if node is None or _mark(node) != operation:
                return False
            if self._patch(host, node, unschedulable=None, mark=None):
                return True
        raise errors.Conflict(f"node {host} is changed by somebody else again and again")

    def marked(self, hosts: Sequence[str], operation: str) -> Mapping[str, bool]:
        found: dict[str, str | None] = {}
        for begin in range(0, len(hosts), _NAMES_A_QUERY):
            found |= self._marks(hosts[begin : begin + _NAMES_A_QUERY])
        # The label is the kubelet's and may differ from the name: only a node that is asked for by its own
        # name, and not there, is gone.
        for host in hosts:
            if host not in found and (node := self._node(host)) is not None:
                found[host] = _mark(node)
        return {host: found[host] == operation for host in hosts if host in found}

    def live_pods(self, pods: Sequence[operations.PodRef]) -> frozenset[str]:
        return frozenset(pod.uid for pod in pods if self._is_live(pod))

    def running_on(self, host: str) -> int:
        listing = self._kube.listing(
            "/api/v1/pods",
            documents.pod,
            what=f"list the pods on node {host}",
            query={"fieldSelector": f"spec.nodeName={host},status.phase=Running"},
        )
        return len(listing.items)

    def unfinished(self, namespace: str) -> frozenset[str]:
        listing = self._kube.listing(
            f"/api/v1/namespaces/{namespace}/pods",
            lambda document: str(document["metadata"]["uid"]),
            what=f"list pods of namespace {namespace}",
            query={"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"},
            accept=kube_module.METADATA_ONLY,
        )
        return frozenset(listing.items)

    def delete_pod(self, namespace: str, name: str, *, uid: str) -> None:
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}}

        def attempt() -> bool:
            try:
                self._kube.request("DELETE", path, body=options)
            except cloud_errors.Refused as refused:
                gone = kube_errors.is_missing_object(refused, name)
                # The precondition failed: another pod has the name by now, and ours is gone.
                if not gone and refused.status != cloud_errors.CONFLICT:
                    raise
            return True

        # Deleting a pod by its uid twice is the same as once.
        self._kube.write(attempt, look=lambda: None, what=f"delete pod {namespace}/{name}")

    def job_budget(self, namespace: str, name: str) -> ports.JobBudget | None:
        path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}"
        answer = self._kube.find(path, name, what=f"read job {namespace}/{name}")
        if answer is None:
            return None
        spec, status = answer.document.get("spec") or {}, answer.document.get("status") or {}
        per_index = spec.get("backoffLimitPerIndex")
        if per_index is not None:
            # Each index may fail so often by itself; how often it has is noted on its pod, not on the Job.
            return ports.JobBudget(namespace, name, None if per_index else 0)
        limit = spec.get("backoffLimit")
        left = None if not isinstance(limit, int) else max(limit - (status.get("failed") or 0), 0)
        return ports.JobBudget(namespace, name, left)

    def _is_live(self, pod: operations.PodRef) -> bool:
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        answer = self._kube.find(path, pod.name, what=f"read pod {pod.namespace}/{pod.name}")
        if answer is None:
            return False
        metadata = answer.document.get("metadata") or {}
        finished = (answer.document.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        return metadata.get("uid") == pod.uid and not metadata.get("deletionTimestamp") and not finished

    def _node(self, host: str) -> dict[str, Any] | None:
        answer = self._kube.find(f"{_NODES}/{host}", host, what=f"read node {host}")
        return None if answer is None else answer.document

    def _marks(self, hosts: Sequence[str]) -> dict[str, str | None]:
        """Marks of the nodes that carry these names as their hostname: one call for all of them."""
        listing = self._kube.listing(
            _NODES,
            lambda document: (document["metadata"]["name"], _mark(document)),
            what="list the cordoned nodes",
            query={"labelSelector": f"{_HOSTNAME} in ({','.join(hosts)})"},
            accept=kube_module.METADATA_ONLY,
        )
        return dict(listing.items)

    def _patch(
        self, host: str, node: dict[str, Any], *, unschedulable: bool | None, mark: str | None
    ) -> bool:
        """Write cordon and mark together; False if the node was changed meanwhile."""
        body = {
            "metadata": {
                "resourceVersion": node["metadata"]["resourceVersion"],
                "annotations": {MARK: mark},
            },
            "spec": {"unschedulable": unschedulable},
        }

        def attempt() -> bool:
            try:
                self._kube.request("PATCH", f"{_NODES}/{host}", body=body, content_type=_MERGE)
            except cloud_errors.Refused as refused:
                if refused.status == cloud_errors.CONFLICT:
                    return False
                raise
            return True

        # The revision in the patch makes a second write after an open outcome a conflict, and that is
        # answered by reading the node again.
        return self._kube.write(attempt, look=lambda: None, what=f"cordon node {host}")


def _mark(node: dict[str, Any]) -> str | None:
    annotations = (node.get("metadata") or {}).get("annotations") or {}
    mark = annotations.get(MARK)
    return mark if isinstance(mark, str) else None
