"""Locks as Lease objects: the Leases port. Times are the server's own: no clock has to agree with it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from tpuctl.cloud import documents, home, objects
from tpuctl.model import operations

if TYPE_CHECKING:
    import datetime
    from collections.abc import Sequence

    from tpuctl.cloud import kube as kube_module

NOTE = "tpuctl.dev/note"
TOLD = "tpuctl.dev/told"
PATH = f"/apis/coordination.k8s.io/v1/namespaces/{home.NAMESPACE}/leases"


class KubeLeases:
    """The Leases port."""

    def __init__(self, kube: kube_module.Kube) -> None:
        self._kube = kube

    def list(self) -> Sequence[operations.Lease]:
        found = self._kube.listing(
            PATH,
            lambda document: document,
            what="list locks",
            query={"labelSelector": f"{documents.MANAGED_BY}={documents.OURS}"},
        )
        return sorted(_lease(document, found.observed_at) for document in found.items)

    def get(self, name: str) -> operations.Lease | None:
        answer = self._kube.find(f"{PATH}/{name}", name, what=f"read lock {name}")
        return None if answer is None else _lease(answer.document, answer.observed_at)

    def create(self, name: str, holder: str, duration_s: float) -> operations.Lease:
        now = home.ensure(self._kube)
        metadata = {"name": name, "labels": {documents.MANAGED_BY: documents.OURS}}
        body = _body(metadata, holder, duration_s, now, transitions=0)
        return self._kube.write(
            functools.partial(self._send, "POST", PATH, body),
            look=lambda: self._ours(name, holder),
            what=f"take lock {name}",
        )

    def renew(
        self, lease: operations.Lease, holder: str, duration_s: float, *, told: str = ""
    ) -> operations.Lease:
        transitions = lease.transitions + (holder != lease.holder)
        metadata = _metadata(lease, {TOLD: told} if told else {})
        body = _body(metadata, holder, duration_s, lease.observed_at, transitions=transitions)
        return self._kube.write(
            functools.partial(self._send, "PUT", f"{PATH}/{lease.name}", body),
            look=lambda: self._renewed(lease, holder, transitions),
            what=f"write lock {lease.name}",
        )

    def free(self, lease: operations.Lease, *, note: str = "") -> None:
        left = {name: text for name, text in ((NOTE, note), (TOLD, lease.told)) if text}
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": _metadata(lease, left),
            "spec": {"holderIdentity": "", "leaseTransitions": lease.transitions + 1},
        }

        def look() -> operations.Lease | None:
            found = self._look(lease.name)
            return found if found is not None and not found.holder and found.note == note else None

        self._kube.write(
            functools.partial(self._send, "PUT", f"{PATH}/{lease.name}", body),
            look=look,
            what=f"free lock {lease.name}",
        )

    def delete(self, lease: operations.Lease) -> None:
        objects.delete_exactly(
            self._kube,
            PATH,
            lease.name,
            uid=lease.uid,
            revision=lease.revision,
            what=f"give lock {lease.name} back",
        )

    def _send(self, method: str, path: str, body: dict[str, Any]) -> operations.Lease:
        answer = self._kube.request(method, path, body=body)
        return _lease(answer.document, answer.observed_at)

    def _ours(self, name: str, holder: str) -> operations.Lease | None:
        found = self._look(name)
        return found if found is not None and found.holder == holder else None

    def _renewed(self, before: operations.Lease, holder: str, transitions: int) -> operations.Lease | None:
        found = self._look(before.name)
        done = (
            found is not None
            and found.uid == before.uid
            and found.revision != before.revision
            and (found.holder, found.transitions) == (holder, transitions)
        )
        return found if done else None

    def _look(self, name: str) -> operations.Lease | None:
        answer = objects.look(self._kube, PATH, name)
        return None if answer is None else _lease(answer.document, answer.observed_at)


def _metadata(lease: operations.Lease, annotations: dict[str, str]) -> dict[str, Any]:
    """Of exactly this revision of the lock: a write with it is a conflict if the lock was changed."""
    return {
        "name": lease.name,
        "uid": lease.uid,
        "resourceVersion": lease.revision,
        "labels": {documents.MANAGED_BY: documents.OURS},
        **({"annotations": annotations} if annotations else {}),
    }


def _body(
    metadata: dict[str, Any], holder: str, duration_s: float, now: datetime.datetime, *, transitions: int
) -> dict[str, Any]:
    moment = now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata,
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": int(duration_s),
            "acquireTime": moment,
            "renewTime": moment,
            "leaseTransitions": transitions,
        },
    }


def _lease(document: dict[str, Any], observed_at: datetime.datetime) -> operations.Lease:
    metadata, spec = document.get("metadata") or {}, document.get("spec") or {}
    annotations = metadata.get("annotations") or {}
    return operations.Lease(
        name=metadata.get("name") or "",
        uid=metadata.get("uid") or "",
        holder=spec.get("holderIdentity") or "",
        duration_s=float(spec.get("leaseDurationSeconds") or 0),
        renewed_at=documents.moment(spec.get("renewTime")),
        transitions=spec.get("leaseTransitions") or 0,
        revision=metadata.get("resourceVersion") or "",
        observed_at=observed_at,
        note=annotations.get(NOTE, ""),
        told=annotations.get(TOLD, ""),
    )
