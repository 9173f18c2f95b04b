"""Single objects in the cluster, handled by name, uid and revision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuctl.cloud import errors as cloud_errors
from tpuctl.cloud import kube_errors

if TYPE_CHECKING:
    from tpuctl.cloud import kube as kube_module


def look(kube: kube_module.Kube, path: str, name: str) -> kube_module.Answer | None:
    """One request for the object, without a second attempt: for looking after an open outcome."""
    try:
        return kube.request("GET", f"{path}/{name}")
    except cloud_errors.Refused as refused:
        if kube_errors.is_missing_object(refused, name):
            return None
        raise


def delete_exactly(
    kube: kube_module.Kube, path: str, name: str, *, uid: str, revision: str, what: str
) -> None:
    """Delete this object at this revision; one that is gone is fine. Raises Conflict if it was changed."""
    options: dict[str, Any] = {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "preconditions": {"uid": uid, "resourceVersion": revision},
    }

    def attempt() -> bool:
        try:
            kube.request("DELETE", f"{path}/{name}", body=options)
        except cloud_errors.Refused as refused:
            if not kube_errors.is_missing_object(refused, name):
                raise
        return True

    def is_gone() -> bool | None:
        found = look(kube, path, name)
        gone = found is None or (found.document.get("metadata") or {}).get("uid") != uid
        return True if gone else None

    kube.write(attempt, look=is_gone, what=what)
