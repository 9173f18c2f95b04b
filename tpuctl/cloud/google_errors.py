"""Errors of the Google Cloud APIs, google-auth and requests, turned into ours; causes are chained.

    401, 403                         NotPermitted
    no credentials, no refresh       NotPermitted, with the command that helps
    400, 409 "incompatible operation" Busy
    429, 403 rate limit              Busy
    stockout, quota                  DoesNotFit
    400 precondition                 Conflict
    400, 405, 412..422               UsageError
    404                              NotFound
    409                              Conflict
    other statuses, no answer        Unavailable

Sources of the words that are looked for: wire logs and issues of public clients of these APIs.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any

from tpuctl.cloud import errors as cloud_errors
from tpuctl.cloud import kube_errors, retry
from tpuctl.model import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tpuctl.ops import context as contexts

LOGIN_HINT = "run: gcloud auth application-default login"
_UNKNOWN_OUTCOME = "it is not known whether the service did it; look before trying again"
_BAD_REQUEST = frozenset({400, 405, 411, 413, 415, 416, 422})
_PRECONDITION = 412
_BUSY = re.compile(
    r"(?i)incompatible operation|CLUSTER_ALREADY_HAS_OPERATION|concurrent operations?"
    r"|operation .{0,80}(in progress|already running)|resourceNotReady"
)
_RATE = re.compile(r"(?i)rate ?limit|per minute|per second|userRateLimitExceeded")
_NO_ROOM = re.compile(
    r"(?i)ZONE_RESOURCE_POOL_EXHAUSTED|GCE_STOCKOUT|stockout|lack of capacity"
    r"|requested resource is exhausted|does not have enough resources"
    r"|insufficient .{0,40}quota|quota .{0,80}exceeded|quotaExceeded|QUOTA_EXCEEDED|exceeds? .{0,40}quota"
)


def error_of(body: object) -> dict[str, Any] | None:
    """The `error` member of a body in Google's error format; None for any other body."""
    if not isinstance(body, dict):
        return None
    found = body.get("error")
    return found if isinstance(found, dict) else None


def is_error_body(body: dict[str, Any]) -> bool:
    """If true, a body under a code of success is an error; in operations a name or kind stands beside it."""
    return "error" in body and not ("name" in body or "kind" in body)


def request_id(document: dict[str, Any] | None) -> str:
    """The requestId of a google.rpc.RequestInfo in an error's details; empty if there is none."""
    entries = (document or {}).get("details")
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("requestId"), str):
            return str(entry["requestId"])
    return ""


def classify(error: BaseException) -> retry.Fault:
    """What a failed request means for the next attempt.

    "Busy" answers are final here: their waits are minutes long and belong to the layer above.
    """
    if isinstance(error, cloud_errors.Refused):
        if error.status in cloud_errors.AMBIGUOUS_STATUSES:
            return retry.Fault(again=True, ambiguous=True, after_s=error.retry_after_s)
        return retry.FINAL
    if isinstance(error, cloud_errors.Malformed):
        return retry.Fault(ambiguous=True)
    if isinstance(error, errors.Unavailable):
        return retry.Fault(again=True)  # found out by an adapter: a list with a zone missing, for example
    return _classify_transport(error)


def classify_read(error: BaseException) -> retry.Fault:
    """As `classify`; a read that comes too often is worth a short wait."""
    if isinstance(error, cloud_errors.Refused) and error.status == cloud_errors.TOO_MANY:
        return retry.Fault(again=True, after_s=error.retry_after_s)
    return classify(error)


@contextlib.contextmanager
def translated(
    what: str, *, context: contexts.Context | None = None, writing: bool = False
) -> Iterator[None]:
    """Turn the errors of calls inside into ours. `what` says what was tried: `list node pools`.

    With the context the hints can tell commands to run.
    """
    import google.auth.exceptions  # noqa: PLC0415 - slow to import
    import requests  # noqa: PLC0415 - slow to import
    from google.api_core import exceptions as api_exceptions  # noqa: PLC0415 - slow to import
    from google.protobuf import json_format  # noqa: PLC0415 - slow to import

    try:
        yield
    except cloud_errors.Refused as refused:
        found = _from_refused(refused, what, writing=writing)
        found.details = (*found.details, *refused.facts)
        raise found from refused
    except (cloud_errors.Malformed, json_format.ParseError) as malformed:
        hint = _UNKNOWN_OUTCOME if writing else "is a proxy or a sign-in page in between?"
        text = cloud_errors.clean(malformed, 200)
        raise errors.Unavailable(f"cannot {what}: {text}", hint=hint) from malformed
    except google.auth.exceptions.TransportError as error:
        why = f"the sign-in service cannot be reached: {cloud_errors.clean(_root(error), 200)}"
        raise errors.Unavailable(f"cannot {what}: {why}") from error
    except google.auth.exceptions.GoogleAuthError as error:
        raise errors.NotPermitted(
            f"cannot {what}: no valid Google credentials: {cloud_errors.clean(error, 200)}", hint=LOGIN_HINT
        ) from error
    except api_exceptions.GoogleAPICallError as error:
        code = int(error.code) if error.code else 500
        document = {"message": error.message, "status": str(error.reason or "")}
        raise _from_refused(cloud_errors.Refused(code, document, None), what, writing=writing) from error
    except (requests.RequestException, api_exceptions.GoogleAPIError) as error:
        raise _from_transport(error, what, context, writing=writing) from error


def told(error: BaseException, what: str) -> str:
    """What an error of a call says, in our words."""
    try:
        with translated(what):
            raise error
    except errors.TpuctlError as ours:
        return ours.message


def _classify_transport(error: BaseException) -> retry.Fault:
    import requests  # noqa: PLC0415 - slow to import

    if isinstance(error, requests.exceptions.SSLError | requests.exceptions.ProxyError):
        return retry.FINAL
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return retry.Fault(again=True)
    if isinstance(error, requests.exceptions.ConnectionError):
        return retry.Fault(again=True, ambiguous=not _never_connected(error))
    if isinstance(error, requests.exceptions.Timeout | requests.exceptions.ChunkedEncodingError):
        return retry.Fault(again=True, ambiguous=True)
    return retry.FINAL


def _never_connected(error: BaseException) -> bool:
    """If true, nothing was sent: requests hides urllib3's error in its arguments."""
    import urllib3.exceptions  # noqa: PLC0415 - slow to import

    inner = error.args[0] if error.args else None
    reason = getattr(inner, "reason", inner)
    return isinstance(reason, urllib3.exceptions.NewConnectionError)


def _from_refused(refused: cloud_errors.Refused, what: str, *, writing: bool) -> errors.TpuctlError:
    document = refused.document or {}
    message = cloud_errors.clean(document.get("message") or f"the service answered HTTP {refused.status}")
    evidence = f"{message} {_words(document)}"
    text = f"cannot {what}: {message}"
    if refused.status == cloud_errors.UNAUTHORIZED:
        return errors.NotPermitted(text, hint=LOGIN_HINT)
    if refused.status == cloud_errors.TOO_MANY or _BUSY.search(evidence):
        return errors.Busy(text, hint="try again later")
    if _NO_ROOM.search(evidence) and not _RATE.search(evidence):
        return errors.DoesNotFit(text)
    if refused.status == cloud_errors.FORBIDDEN:
        if _RATE.search(evidence):
            return errors.Busy(text, hint="try again later")
        return errors.NotPermitted(text, hint="ask for an IAM role that allows this")
    if refused.status == cloud_errors.NOT_FOUND:
        return errors.NotFound(text)
    if refused.status in (cloud_errors.CONFLICT, _PRECONDITION) or "FAILED_PRECONDITION" in evidence:
        return errors.Conflict(text)
    if refused.status in _BAD_REQUEST:
        return errors.UsageError(text)
    hint = _UNKNOWN_OUTCOME if writing and refused.status in cloud_errors.AMBIGUOUS_STATUSES else None
    return errors.Unavailable(f"{text} (HTTP {refused.status})", hint=hint)


def _words(document: dict[str, Any]) -> str:
    """The machine-readable words of an error: status, reasons of `errors` and `details`."""
    found = [str(document.get("status") or "")]
    for part in ("errors", "details"):
        entries = document.get(part)
        if isinstance(entries, list):
            found += [str(entry.get("reason") or "") for entry in entries if isinstance(entry, dict)]
    return cloud_errors.clean(" ".join(found))


def _from_transport(
    error: Exception, what: str, context: contexts.Context | None, *, writing: bool
) -> errors.Unavailable:
    import requests  # noqa: PLC0415 - slow to import

    open_outcome = _UNKNOWN_OUTCOME if writing and classify(error).ambiguous else None
    if isinstance(error, requests.exceptions.Timeout):
        why = "the service did not answer in time"
    else:
        why = f"the connection failed: {_root(error)}"
    hint = open_outcome or kube_errors.unreachable_hint(context)
    return errors.Unavailable(f"cannot {what}: {why}", hint=hint)


def _root(error: BaseException) -> str:
    """The innermost words: `Connection refused` rather than the library's object notation."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    if isinstance(error, OSError) and error.strerror:
        return cloud_errors.clean(error.strerror)
    return cloud_errors.clean(error, 200)
