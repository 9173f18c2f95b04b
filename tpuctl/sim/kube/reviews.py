"""Questions that are answered and not stored: who am I, may I."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuctl.sim import store as stores
from tpuctl.sim.kube import errors

if TYPE_CHECKING:
    import datetime

    from tpuctl.sim.kube import auth, resources

Json = dict[str, Any]


def answer(
    resource: resources.ResourceType, review: Json, identity: auth.Identity, now: datetime.datetime
) -> Json:
    """The review with its status filled in. Raises `ApiError` (422)."""
    head = {"kind": resource.kind, "apiVersion": resource.api_version}
    if resource.plural == "selfsubjectreviews":
        metadata = {"creationTimestamp": stores.timestamp(now)}
        return {**head, "metadata": metadata, "status": {"userInfo": identity.to_json()}}
    spec = review.get("spec") or {}
    return {**head, "metadata": {}, "spec": spec, "status": {"allowed": _allowed(resource, spec, identity)}}


def _allowed(resource: resources.ResourceType, spec: Json, identity: auth.Identity) -> bool:
    about: Json | None = spec.get("resourceAttributes")
    path: Json | None = spec.get("nonResourceAttributes")
    if about is not None and path is None:
        asked = "/".join(filter(None, (about.get("resource", ""), about.get("subresource", ""))))
        return identity.may(about.get("verb", ""), about.get("group", ""), asked)
    if path is None or about is not None:
        text = "Invalid value: exactly one of nonResourceAttributes or resourceAttributes must be specified"
        cause = errors.Cause("FieldValueInvalid", text, "spec.resourceAttributes")
        raise errors.invalid(resource, "", [cause])
    return path.get("verb") == "get" and identity.may_get(path.get("path", ""))
