"""tpuctl's records as ConfigMaps: the Records port.

A record's name makes it unique, so creating one claims something; its resourceVersion makes a change of a
record that somebody else has changed a conflict.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from tpuctl.cloud import documents, home, objects
from tpuctl.cloud import kube as kube_module
from tpuctl.model import errors
from tpuctl.ops import ports

if TYPE_CHECKING:
    import datetime
    from collections.abc import Sequence

PATH = f"/api/v1/namespaces/{home.NAMESPACE}/configmaps"
KIND_LABEL = "tpuctl.dev/record"
KEY = "record"


class KubeRecords:
    """The Records port."""

    def __init__(self, kube: kube_module.Kube) -> None:
        self._kube = kube

    def list(self, kind: str) -> Sequence[ports.Record]:
        return self.listing(f"{KIND_LABEL}={kind}").items

    def listing(self, selector: str = KIND_LABEL) -> kube_module.Listing[ports.Record]:
        """Records that match a label selector, by default all, with revision and time."""
        found = self._kube.listing(
            PATH, lambda document: document, what="list tpuctl's records", query={"labelSelector": selector}
        )
        items = sorted(_record(document, found.observed_at) for document in found.items)
        return kube_module.Listing(items, found.revision, found.observed_at)

    def get(self, name: str) -> ports.Record | None:
        answer = self._kube.find(f"{PATH}/{name}", name, what=f"read record {name}")
        return None if answer is None else _record(answer.document, answer.observed_at)

    def create(self, name: str, kind: str, text: str) -> ports.Record:
        home.ensure(self._kube)
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "labels": {documents.MANAGED_BY: documents.OURS, KIND_LABEL: kind},
            },
            "data": {KEY: text},
        }

        def look() -> ports.Record | None:
            found = self._look(name)
            return found if found is not None and found.text == text else None

        return self._kube.write(
            functools.partial(self._send, "POST", PATH, body), look=look, what=f"create record {name}"
        )

    def replace(self, record: ports.Record, text: str) -> ports.Record:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": record.name,
                "uid": record.uid,
                "resourceVersion": record.revision,
                "labels": {documents.MANAGED_BY: documents.OURS, KIND_LABEL: record.kind},
            },
            "data": {KEY: text},
        }

        def look() -> ports.Record | None:
            found = self._look(record.name)
            return found if found is not None and found.uid == record.uid and found.text == text else None

        return self._kube.write(
            functools.partial(self._send, "PUT", f"{PATH}/{record.name}", body),
            look=look,
            what=f"write record {record.name}",
        )

    def delete(self, record: ports.Record) -> None:
        objects.delete_exactly(
            self._kube,
            PATH,
            record.name,
            uid=record.uid,
            revision=record.revision,
            what=f"delete record {record.name}",
        )

    def _send(self, method: str, path: str, body: dict[str, Any]) -> ports.Record:
        answer = self._kube.request(method, path, body=body)
        return _record(answer.document, answer.observed_at)

    def _look(self, name: str) -> ports.Record | None:
        answer = objects.look(self._kube, PATH, name)
        return None if answer is None else _record(answer.document, answer.observed_at)


def _record(document: dict[str, Any], observed_at: datetime.datetime) -> ports.Record:
    metadata = document.get("metadata") or {}
    name = metadata.get("name") or ""
    text = (document.get("data") or {}).get(KEY)
    if not isinstance(text, str):
        raise errors.TpuctlError(
            f"record {name} in namespace {home.NAMESPACE} is damaged: it has no {KEY}",
            hint=f"look at it: kubectl -n {home.NAMESPACE} get configmap {name} -o yaml",
        )
    return ports.Record(
        name=name,
        kind=(metadata.get("labels") or {}).get(KIND_LABEL, ""),
        text=text,
        uid=metadata.get("uid") or "",
        revision=metadata.get("resourceVersion") or "",
        observed_at=observed_at,
    )
