"""Error answers of the three APIs, in the shape each of them gives to a code.

Texts say that the fault was injected, except where a client may act on the real text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
from starlette import responses

from tpuctl.sim.api_faults import calls
from tpuctl.sim.googleapis import errors as google_errors
from tpuctl.sim.kube import access, auth, documents, errors, exchange, paging

if TYPE_CHECKING:
    from tpuctl.sim.api_faults.calls import Call

Json = dict[str, Any]

USER = "sim-admin"
CODES = (401, 403, 404, 409, 429, 500, 503, 504)
"""Codes that all three APIs know; 410 is Kubernetes' alone and has a fault of its own."""
DEFAULT_RETRY_AFTER_S = 1
"""What a kube-apiserver tells a client that it turns away."""
_TOO_MANY = 429
_INJECTED = "injected fault"

_GOOGLE = {
    401: ("UNAUTHENTICATED", "authError", "Request had invalid authentication credentials."),
    403: ("PERMISSION_DENIED", "forbidden", f"Permission denied: {_INJECTED}."),
    404: ("NOT_FOUND", "notFound", f"Not found: {_INJECTED}."),
    # Not ALREADY_EXISTS, the usual word for 409: nothing exists.
    409: ("ABORTED", "conflict", f"The operation was aborted: {_INJECTED}."),
    429: ("RESOURCE_EXHAUSTED", "rateLimitExceeded", f"Quota exceeded for quota metric: {_INJECTED}."),
    500: ("INTERNAL", "backendError", f"Internal error: {_INJECTED}."),
    503: ("UNAVAILABLE", "backendError", f"The service is currently unavailable: {_INJECTED}."),
    504: ("DEADLINE_EXCEEDED", "backendError", f"Deadline exceeded: {_INJECTED}."),
}


def error(call: Call, code: int, *, retry_after_s: int | None = None) -> responses.Response:
    """The answer with this code. `retry_after_s` becomes the header Retry-After."""
    headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
    if call.api != calls.KUBERNETES:
        body = orjson.dumps(_google(call, code))
        return responses.Response(body, code, headers, media_type="application/json; charset=UTF-8")
    if code == _TOO_MANY:
        # Requests are turned away before anything knows of Status objects.
        headers = {"Retry-After": str(DEFAULT_RETRY_AFTER_S), "X-Content-Type-Options": "nosniff", **headers}
        return responses.PlainTextResponse("Too many requests, please try again later.\n", code, headers)
    named = call.target is not None and call.target.name
    if code == 404 and not named:  # noqa: PLR2004 - HTTP's own number
        return documents.missing_page()
    answer = exchange.refusal(_kubernetes(call, code))
    answer.headers.update(headers)
    return answer


def under_200(call: Call, code: int) -> responses.Response:
    """The body of an error under a code that says success."""
    body = _google(call, code) if call.api != calls.KUBERNETES else _kubernetes(call, code).status()
    return responses.Response(orjson.dumps(body), 200, media_type="application/json")


def expired(call: Call) -> responses.Response:
    """410 on a list or a watch; a list that was going on gets the token for going on regardless."""
    return exchange.refusal(_expired(call))


def expired_event() -> responses.Response:
    """A watch that begins well and ends at once with an ERROR event."""
    line = b'{"type":"ERROR","object":%b}\n' % orjson.dumps(errors.expired(paging.TOO_OLD).status())
    return responses.Response(line, 200, media_type="application/json")


def _expired(call: Call) -> errors.ApiError:
    if not call.token:
        return errors.expired(paging.TOO_OLD)
    return errors.expired(paging.CONTINUE_EXPIRED, continue_token=_regardless(call.token))


def _regardless(token: str) -> str | None:
    """The token with which a list goes on at the same place and no fixed revision; None for junk."""
    try:
        return paging.regardless(token)
    except errors.ApiError:
        return None


def _google(call: Call, code: int) -> Json:
    status, reason, message = _GOOGLE[code]
    failure = google_errors.ApiError(code, message, status=status, reason=reason)
    return failure.body(canonical=call.api == calls.CONTAINER)


def _kubernetes(call: Call, code: int) -> errors.ApiError:
    if code == 401:  # noqa: PLR2004 - HTTP's own numbers, here and below
        return errors.unauthorized()
    if code == 403:  # noqa: PLR2004
        return _forbidden(call)
    if code == 409:  # noqa: PLR2004
        return _conflict(call)
    reason, message, details = {
        404: ("NotFound", f'{_shown(call)} "{_name(call)}" not found', _details(call)),
        429: ("TooManyRequests", "Too many requests, please try again later.", {"retryAfterSeconds": 1}),
        500: ("InternalError", f"Internal error occurred: {_INJECTED}", {"causes": [{"message": _INJECTED}]}),
        503: ("ServiceUnavailable", f"the server is currently unable to handle the request: {_INJECTED}", {}),
        504: ("Timeout", f"Timeout: request did not complete within requested timeout: {_INJECTED}", {}),
    }[code]
    return errors.ApiError(code, reason, message, details=details)


def _forbidden(call: Call) -> errors.ApiError:
    if call.target is None:
        asked = access.Attributes.of_path("GET", call.path)
    else:
        asked = access.Attributes.of_target(call.verb, call.target, {})
    return access.refusal(auth.known(USER), asked)


def _conflict(call: Call) -> errors.ApiError:
    """What a lost race gives: on the object, or, for a creation, on the quota that counts it."""
    if call.target is None or not call.target.name:
        shown, name = "resourcequotas", "gke-resource-quotas"
        details = {"name": name, "kind": shown}
    else:
        shown, name, details = _shown(call), _name(call), _details(call)
    message = f'Operation cannot be fulfilled on {shown} "{name}": {errors.MODIFIED}'
    return errors.ApiError(409, "Conflict", message, details=details)


def _shown(call: Call) -> str:
    target = call.target
    return "" if target is None else ".".join(filter(None, (target.plural, target.group)))


def _name(call: Call) -> str:
    return "" if call.target is None else call.target.name


def _details(call: Call) -> Json:
    target = call.target
    if target is None:
        return {}
    found = {"name": target.name, "group": target.group, "kind": target.plural}
    return {key: value for key, value in found.items() if value}
