"""Errors of the Kubernetes API, and of urllib3 below it, turned into ours; causes are chained.

401, 403              NotPermitted (never an empty list)
403 by a webhook      UsageError: the request was understood and is against a rule
400, 405, 422         UsageError
404                   NotFound
409                   Conflict
410                   Unavailable: what was being read has expired
429, other statuses   Unavailable
no answer             Unavailable
"""

from __future__ import annotations

import contextlib
import shlex
from typing import TYPE_CHECKING, Any

from tpuctl.cloud import errors as cloud_errors
from tpuctl.cloud import retry
from tpuctl.model import errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tpuctl.ops import context as contexts

_BAD_REQUEST = frozenset({400, 405, 406, 413, 415, 422})
_UNKNOWN_OUTCOME = "it is not known whether the server did it; look before trying again"


def status_of(body: object) -> dict[str, Any] | None:
    """`body` if it is a Kubernetes Status, else None: bodies of unknown kind are not shown."""
    return body if isinstance(body, dict) and body.get("kind") == "Status" else None


def status_code(document: Mapping[str, Any]) -> int:
    """The code that a Status carries; 500 if it has none that is an error."""
    code = document.get("code")
    return code if isinstance(code, int) and code >= 400 else 500  # noqa: PLR2004 - HTTP's first error


def is_missing_object(refused: cloud_errors.Refused, name: str) -> bool:
    """If true, the server knows the resource and says that the object `name` is not there.

    A resource that is not served is a 404 as well, with a plain text body or a Status without that name.
    """
    if refused.status != cloud_errors.NOT_FOUND or refused.document is None:
        return False
    details = refused.document.get("details")
    return isinstance(details, dict) and details.get("name") == name


def classify(error: BaseException) -> retry.Fault:
    """What a failed request means for the next attempt."""
    import urllib3.exceptions  # noqa: PLC0415 - slow to import

    if isinstance(error, cloud_errors.Refused):
        if error.status == cloud_errors.TOO_MANY:
            return retry.Fault(again=True, after_s=error.retry_after_s)
        if error.status in cloud_errors.AMBIGUOUS_STATUSES:
            return retry.Fault(again=True, ambiguous=True, after_s=error.retry_after_s)
        return retry.FINAL
    if isinstance(error, urllib3.exceptions.SSLError):
        return retry.FINAL
    # Nothing was sent if there was no connection.
    if isinstance(error, urllib3.exceptions.NewConnectionError | urllib3.exceptions.ConnectTimeoutError):
        return retry.Fault(again=True)
    if isinstance(error, urllib3.exceptions.ProtocolError | urllib3.exceptions.TimeoutError):
        return retry.Fault(again=True, ambiguous=True)
    if isinstance(error, cloud_errors.Malformed):
        return retry.Fault(ambiguous=True)
    return retry.FINAL


@contextlib.contextmanager
def translated(
    what: str, server: str, *, context: contexts.Context | None = None, writing: bool = False
) -> Iterator[None]:
    """Turn the errors of requests inside into ours. `what` says what was tried: `list slices`.

    With the context the hints can tell commands to run.
    """
    import urllib3.exceptions  # noqa: PLC0415 - slow to import

    try:
        yield
    except cloud_errors.Refused as refused:
        error = _from_refused(refused, what, context, writing=writing)
        error.details = (*error.details, *refused.facts)
        raise error from refused
    except cloud_errors.Malformed as malformed:
        hint = _UNKNOWN_OUTCOME if writing else "is a proxy or a sign-in page in between?"
        raise errors.Unavailable(f"cannot {what}: {malformed}", hint=hint) from malformed
    except urllib3.exceptions.HTTPError as error:
        raise _from_transport(error, what, server, context, writing=writing) from error


def told(error: BaseException, what: str, server: str) -> str:
    """What an error of a request says, in our words."""
    try:
        with translated(what, server):
            raise error
    except errors.TpuctlError as ours:
        return ours.message


def credentials_command(context: contexts.Context) -> str:
    """The command that writes the credentials of the context's cluster into its kubeconfig."""
    where = f"KUBECONFIG={shlex.quote(context.kubeconfig)} " if context.kubeconfig else ""
    words = ["gcloud", "container", "clusters", "get-credentials", context.cluster]
    options = [f"--location={context.location}", f"--project={context.project}"]
    return where + shlex.join([*words, *options])


def unreachable_hint(context: contexts.Context | None) -> str | None:
    """What to look at if a service of the context does not answer."""
    if context is None:
        return None
    return (
        f"is context '{context.name}' the right one, and is it reachable from here? "
        f"see: tpuctl context show {context.name}; choose another with: tpuctl context use NAME"
    )


def _credentials_hint(context: contexts.Context | None) -> str:
    command = "gcloud container clusters get-credentials" if context is None else credentials_command(context)
    return f"check the credentials of the kubeconfig; for GKE: {command}"


def _from_refused(
    refused: cloud_errors.Refused, what: str, context: contexts.Context | None, *, writing: bool
) -> errors.TpuctlError:
    message, causes = _texts(refused)
    text = f"cannot {what}: {message}"
    if refused.status == cloud_errors.UNAUTHORIZED:
        return errors.NotPermitted(text, hint=_credentials_hint(context))
    if refused.status == cloud_errors.FORBIDDEN:
        return _forbidden(message, text, context)
    if refused.status == cloud_errors.NOT_FOUND:
        return errors.NotFound(text)
    if refused.status == cloud_errors.CONFLICT:
        return errors.Conflict(text)
    if refused.status == cloud_errors.GONE:
        return errors.Unavailable(f"{text}; nothing was assumed", hint="run the command again")
    if refused.status in _BAD_REQUEST:
        return errors.UsageError(text, details=causes)
    hint = _UNKNOWN_OUTCOME if writing and refused.status in cloud_errors.AMBIGUOUS_STATUSES else None
    return errors.Unavailable(f"{text} (HTTP {refused.status})", hint=hint)


def _forbidden(message: str, text: str, context: contexts.Context | None) -> errors.TpuctlError:
    if message.startswith("admission webhook") or " denied the request" in message:
        return errors.UsageError(text)
    if "exceeded quota" in message:
        return errors.DoesNotFit(text)
    if "system:anonymous" in message:
        return errors.NotPermitted(f"{text} (no credentials were sent)", hint=_credentials_hint(context))
    return errors.NotPermitted(text, hint="ask for a role that allows this (see configs/kubernetes)")


def _texts(refused: cloud_errors.Refused) -> tuple[str, tuple[str, ...]]:
    """The message and the causes of a Status; for other bodies only the HTTP status is told."""
    document = refused.document
    if document is None:
        return f"the server answered HTTP {refused.status}", ()
    message = document.get("message") or document.get("reason") or f"HTTP {refused.status}"
    details = document.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    lines = tuple(
        cloud_errors.clean(f"{cause.get('field', '')}: {cause.get('message', '')}".strip(": "))
        for cause in (causes if isinstance(causes, list) else ())
        if isinstance(cause, dict)
    )
    return cloud_errors.clean(message), lines


def _from_transport(
    error: Exception, what: str, server: str, context: contexts.Context | None, *, writing: bool
) -> errors.Unavailable:
    import urllib3.exceptions  # noqa: PLC0415 - slow to import

    names = urllib3.exceptions
    open_outcome = _UNKNOWN_OUTCOME if writing and classify(error).ambiguous else None
    if type(error).__name__ == "NameResolutionError":  # urllib3 1.x does not have the class
        why = f"the name of {server} cannot be resolved"
    elif isinstance(error, names.SSLError):
        why = f"no secure connection to {server}: {cloud_errors.clean(error, 200)}"
    elif isinstance(error, names.ConnectTimeoutError | names.NewConnectionError):
        why = f"{server} cannot be reached: {_root(error)}"
    elif isinstance(error, names.TimeoutError):
        why = f"{server} did not answer in time"
    else:
        why = f"the connection to {server} broke: {_root(error)}"
    return errors.Unavailable(f"cannot {what}: {why}", hint=open_outcome or unreachable_hint(context))


def _root(error: BaseException) -> str:
    """The innermost words: `Connection refused` rather than the library's object notation."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    if isinstance(error, OSError) and error.strerror:
        return cloud_errors.clean(error.strerror)
    return cloud_errors.clean(error, 200)
