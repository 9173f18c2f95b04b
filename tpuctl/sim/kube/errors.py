"""Errors of the Kubernetes API: an HTTP code and a `Status` body.

Shapes follow what a kube-apiserver of 1.36 answers.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tpuctl.sim.kube import resources

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


@dataclasses.dataclass(frozen=True)
class Cause:
    """One reason for a refusal; `field` is a path such as `spec.topology`, or empty."""

    reason: str
    message: str
    field: str = ""

    def to_json(self) -> dict[str, str]:
        shown = {"reason": self.reason, "message": self.message, "field": self.field}
        return {name: value for name, value in shown.items() if value}


class ApiError(Exception):
    """A request that the API server refuses."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.metadata = metadata or {}
        self.headers = headers or {}

    def status(self) -> dict[str, Any]:
        """The body of the answer."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": dict(self.metadata),
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = dict(self.details)
        return {**body, "code": self.code}


def success(code: int | None = None, details: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A `Status` body that reports success."""
    body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        body["details"] = dict(details)
    return body if code is None else {**body, "code": code}


def _named(resource: resources.ResourceType, name: str, kind: str) -> dict[str, Any]:
    shown = {"name": name, "group": resource.group, "kind": kind}
    return {field: value for field, value in shown.items() if value}


def not_found(resource: resources.ResourceType, name: str) -> ApiError:
    details = _named(resource, name, resource.plural)
    return ApiError(404, "NotFound", f'{resource.key} "{name}" not found', details=details)


def already_exists(resource: resources.ResourceType, name: str, *, deleting: bool = False) -> ApiError:
    prefix = "object is being deleted: " if deleting else ""
    details = _named(resource, name, resource.plural)
    return ApiError(409, "AlreadyExists", f'{prefix}{resource.key} "{name}" already exists', details=details)


def conflict(resource: resources.ResourceType, name: str, why: str = MODIFIED) -> ApiError:
    """The object is not as the caller believes."""
    message = f'Operation cannot be fulfilled on {resource.key} "{name}": {why}'
    return ApiError(409, "Conflict", message, details=_named(resource, name, resource.plural))


def precondition_failed(resource: resources.ResourceType, name: str, why: str) -> ApiError:
    """A failed precondition of a deletion: a conflict whose details name the kind, not the plural."""
    message = f'Operation cannot be fulfilled on {resource.qualified_kind} "{name}": {why}'
    return ApiError(409, "Conflict", message, details=_named(resource, name, resource.kind))


def binding_conflict(name: str, why: str) -> ApiError:
    message = f'Operation cannot be fulfilled on pods/binding "{name}": {why}'
    return ApiError(409, "Conflict", message, details={"name": name, "kind": "pods/binding"})


def apply_conflict(causes: Sequence[Cause]) -> ApiError:
    """Server-side apply touches fields that others own."""
    count = f"{len(causes)} conflict" + ("s" if len(causes) > 1 else "")
    if len(causes) == 1:
        text = f": {causes[0].message}: {causes[0].field}"
    else:
        text = ": " + ", ".join(f"{cause.message}: {cause.field}" for cause in causes)
    details = {"causes": [cause.to_json() for cause in causes]}
    return ApiError(409, "Conflict", f"Apply failed with {count}{text}", details=details)


def invalid(resource: resources.ResourceType, name: str, causes: Sequence[Cause]) -> ApiError:
    """The object breaks rules; one cause for each."""
    return _invalid(resource.qualified_kind, _named(resource, name, resource.kind), name, causes)


def invalid_update(resource: resources.ResourceType, name: str, causes: Sequence[Cause]) -> ApiError:
    """As `invalid`, for the checks that name the plural in place of the kind."""
    return _invalid(resource.key, _named(resource, name, resource.plural), name, causes)


def invalid_options(kind: str, causes: Sequence[Cause]) -> ApiError:
    """Bad query parameters of a request (`ListOptions`, `PatchOptions`, ...)."""
    details = {"group": "meta.k8s.io", "kind": kind}
    return _invalid(f"{kind}.meta.k8s.io", details, "", causes)


def _invalid(shown: str, details: dict[str, Any], name: str, causes: Sequence[Cause]) -> ApiError:
    texts = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details["causes"] = [cause.to_json() for cause in causes]
    return ApiError(422, "Invalid", f'{shown} "{name}" is invalid: {text}', details=details)


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", "Unauthorized")


def forbidden(resource: resources.ResourceType, name: str, why: str) -> ApiError:
    shown = f'{resource.key} "{name}"' if name else resource.key
    details = _named(resource, name, resource.plural)
    return ApiError(403, "Forbidden", f"{shown} is forbidden: {why}", details=details)


def denied(webhook: str, why: str) -> ApiError:
    """A validating webhook says no; 403 is the code when the webhook names none."""
    message = f'admission webhook "{webhook}" denied the request: {why}'
    return ApiError(403, "Forbidden", message)


def expired(message: str, *, continue_token: str | None = None) -> ApiError:
    metadata = {"continue": continue_token} if continue_token else None
    return ApiError(410, "Expired", message, metadata=metadata)


def version_too_large(asked: int, current: int) -> ApiError:
    """The client knows a revision that this server has not reached: try again later."""
    cause = Cause("ResourceVersionTooLarge", "Too large resource version")
    return ApiError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {asked}, current: {current}",
        details={"causes": [cause.to_json()], "retryAfterSeconds": 1},
        headers={"Retry-After": "1"},
    )


def method_not_allowed(resource: resources.ResourceType, verb: str) -> ApiError:
    details = _named(resource, "", resource.plural)
    message = f"{verb} is not supported on resources of kind {resource.key!r}"
    return ApiError(405, "MethodNotAllowed", message, details=details)


def not_implemented(what: str) -> ApiError:
    """A real API server could do this; the simulator says so instead of pretending."""
    return ApiError(501, "NotImplemented", f"the simulator does not implement {what}")


def not_acceptable(accepted: Sequence[str]) -> ApiError:
    message = f"only the following media types are accepted: {', '.join(accepted)}"
    return ApiError(406, "NotAcceptable", message)


def unsupported_media_type(accepted: Sequence[str]) -> ApiError:
    message = "the body of the request was in an unknown format - accepted media types include: " + ", ".join(
        accepted
    )
    return ApiError(415, "UnsupportedMediaType", message)


def body_too_large(limit_bytes: int) -> ApiError:
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit_bytes}")


def patch_test_failed() -> ApiError:
    """A JSON patch that cannot be applied, such as a failing `test`."""
    return ApiError(
        422, "Invalid", "the server rejected our request due to an error in our request", details={}
    )
