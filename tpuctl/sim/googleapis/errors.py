"""Errors of Google's REST APIs: an HTTP code and a JSON body.

GKE's bodies carry the canonical status word (`status`), Compute Engine's do not.
"""

from __future__ import annotations

from typing import Any

CANONICAL = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
}
"""HTTP code -> the google.rpc code it stands for when nothing more precise is said."""

REASONS = {
    "INVALID_ARGUMENT": "badRequest",
    "FAILED_PRECONDITION": "failedPrecondition",
    "UNAUTHENTICATED": "authError",
    "PERMISSION_DENIED": "forbidden",
    "NOT_FOUND": "notFound",
    "ALREADY_EXISTS": "alreadyExists",
    "RESOURCE_EXHAUSTED": "rateLimitExceeded",
    "INTERNAL": "backendError",
    "UNIMPLEMENTED": "notImplemented",
    "UNAVAILABLE": "backendError",
}
"""Canonical word -> the `reason` beside it in `errors[]`."""

RPC_CODES = {"INVALID_ARGUMENT": 3, "RESOURCE_EXHAUSTED": 8, "FAILED_PRECONDITION": 9, "INTERNAL": 13}
"""Numbers of google.rpc.Code, as used in the `error` of a finished operation."""


class ApiError(Exception):
    """A request that the service refuses.

    `status` is the canonical word (from the code if not given), `reason` the lower-camel word in `errors[]`.
    """

    def __init__(
        self, code: int, message: str, *, status: str | None = None, reason: str | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status or CANONICAL[code]
        self.reason = reason or REASONS[self.status]

    def body(self, *, canonical: bool) -> dict[str, Any]:
        """Return the JSON body; with `canonical` it carries the status word."""
        detail = {"domain": "global", "message": self.message, "reason": self.reason}
        error: dict[str, Any] = {"code": self.code, "errors": [detail], "message": self.message}
        if canonical:
            error["status"] = self.status
        return {"error": error}


def invalid(message: str) -> ApiError:
    """A request that could never succeed."""
    return ApiError(400, message)


def precondition(message: str) -> ApiError:
    """A request that the present state does not allow: 400, FAILED_PRECONDITION."""
    return ApiError(400, message, status="FAILED_PRECONDITION")


def unimplemented(what: str) -> ApiError:
    """Something that the service may have and the simulator has not."""
    return ApiError(501, f"The simulator does not implement {what}.")


def unauthenticated() -> ApiError:
    return ApiError(
        401,
        "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or "
        "other valid authentication credential.",
    )
