"""Connections to Google Cloud APIs: credentials, REST transports, and a check of every answer.

google.* is imported inside functions only: the clients take up to seconds to import, and a command that needs
nothing but Kubernetes must not pay for that.
"""

from __future__ import annotations

import functools
import hashlib
import threading
import urllib.parse
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import orjson

from tpuctl.cloud import errors as cloud_errors
from tpuctl.cloud import google_errors, kube_config, retry
from tpuctl.model import errors
from tpuctl.ops import context as context_module

if TYPE_CHECKING:
    import datetime
    from collections.abc import Callable, Iterator

    import requests
    from google.auth import credentials as auth_credentials

    from tpuctl.cloud import clock as clock_module

T = TypeVar("T")

TIMEOUT_S = 10.0
"""Real seconds without a word after which an answer about one object counts as lost; half the deadline of a
retried call, so that there is time to look and to try again."""
LIST_TIMES = 3.0
"""Lists that come whole (thousands of node pools in one answer) may take so many times as long."""
_LISTS = retry.Policy(deadline_s=45.0)
"""Time for a second attempt after a lost list."""
_SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
_FIRST_ERROR = 400
_FIRST_NO_SUCCESS = 300
_HARMLESS_WARNINGS = frozenset({"", "NO_RESULTS_ON_PAGE"})


class _SameAnswer(Exception):
    """The service answered what it answered last: there is nothing to read in it."""


class _Known(NamedTuple):
    """A list as last read."""

    digest: bytes
    """Of its one answer."""
    result: Any


class GoogleApis:
    """What the adapters of the two Google APIs share; connects on first use."""

    def __init__(
        self,
        context: context_module.Context,
        clock: clock_module.WallClock,
        *,
        tell: Callable[[str], None] = retry.untold,
    ) -> None:
        self._context = context
        self._clock = clock
        self._telling = retry.Telling(tell)
        self._seen = threading.local()
        self._known: dict[str, _Known] = {}

    def client(self, client_class: Any, transport_class: Any, endpoint: str | None) -> Any:
        """A client over REST, against `endpoint` or the service's own.

        Raises what `google_errors.translated` turns into NotPermitted if there are no credentials.
        """
        options: dict[str, Any] = {"credentials": self._credentials}
        if endpoint is not None:
            parts = urllib.parse.urlsplit(endpoint)
            options |= {"host": parts.netloc, "url_scheme": parts.scheme}
        transport = transport_class(**options)
        # The transports have no public way to their session; every version with REST names it so.
        session: requests.Session = transport._session  # noqa: SLF001
        session.hooks["response"].append(self._check)
        session.mount(f"{options.get('url_scheme', 'https')}://", self._patient_adapter())
        if endpoint is not None and context_module.is_loopback(endpoint):
            session.trust_env = False  # no proxy and no .netrc for this machine itself
        return client_class(transport=transport)

    def read(self, attempt: Callable[[], T], *, what: str, policy: retry.Policy = retry.STANDARD) -> T:
        """The result of `attempt`, repeated while its fault may pass; `what` is for the error's text."""
        with google_errors.translated(what, context=self._context):
            return retry.read(
                self._clock, google_errors.classify_read, attempt, policy=policy, told=self._told(what)
            )

    def listing(self, key: str, attempt: Callable[[], T], *, what: str) -> T:
        """As `read`, for lists that are read again and again and hardly ever change.

        If the service's answer is that of the last time, byte for byte, the result of that time is given
        again: it must be one that nobody changes, and that says everything that is wanted of the answer.
        Reading 6,000 node pools with the client library takes a second of CPU. `key` names the list.
        """

        def attempt_or_known() -> T:
            known = self._known.get(key)
            self._seen.digests, self._seen.known, self._seen.times = [], known, LIST_TIMES
            try:
                result = attempt()
            except _SameAnswer:
                if known is None:
                    raise AssertionError("nothing is like what was not there") from None
                same: T = known.result
                return same
            finally:
                self._seen.known, self._seen.times = None, 1.0
            # Of several pages the first may be the same and another one not.
            if len(self._seen.digests) == 1:
                self._known[key] = _Known(self._seen.digests[0], result)
            else:
                self._known.pop(key, None)
            return result

        return self.read(attempt_or_known, what=what, policy=_LISTS)

    def write(self, attempt: Callable[[], T], *, look: Callable[[], T | None], what: str) -> T:
        """Carry out `attempt`; after an open outcome `look` tells what came of it before a second one."""
        with google_errors.translated(what, context=self._context, writing=True):
            return retry.write(self._clock, google_errors.classify, attempt, look=look, told=self._told(what))

    def _told(self, what: str) -> retry.Told:
        return lambda error: self._telling.failed(google_errors.told(error, what))

    @property
    def observed_at(self) -> datetime.datetime:
        """The Date header of this thread's last answer; this machine's time if it had none."""
        found: datetime.datetime | None = getattr(self._seen, "moment", None)
        return found or self._clock.now()

    def _patient_adapter(self) -> requests.adapters.HTTPAdapter:
        """How requests are sent: callers say what a single object may take, and lists take longer."""
        import requests.adapters  # noqa: PLC0415 - slow to import

        seen = self._seen

        class Patient(requests.adapters.HTTPAdapter):
            def send(
                self, request: requests.PreparedRequest, *args: Any, **options: Any
            ) -> requests.Response:
                options["timeout"] *= getattr(seen, "times", 1.0)
                return super().send(request, *args, **options)

        return Patient()

    @functools.cached_property
    def _credentials(self) -> auth_credentials.Credentials:
        if self._context.token_file is not None:
            return _file_credentials(self._context.token_file)
        import google.auth  # noqa: PLC0415 - slow to import

        with warnings.catch_warnings():
            # Personal credentials without a quota project are fine for an admin's tool.
            warnings.filterwarnings("ignore", module="google.auth")
            found, _ = google.auth.default(scopes=_SCOPES)
        credentials: auth_credentials.Credentials = found
        return credentials

    def _check(self, response: requests.Response, *_: object, **__: object) -> None:
        """Called by requests for each answer, before the client library reads it.

        The library ignores what it does not know: an error body under 200 would be an empty list to it.
        """
        moment = cloud_errors.http_date(response.headers.get("Date"))
        self._seen.moment = moment
        if response.status_code < _FIRST_NO_SUCCESS:
            self._compare(response.content)
        body = _parsed(response.content)
        if response.status_code >= _FIRST_ERROR:
            after_s = cloud_errors.retry_after_s(response.headers, moment)
            document = google_errors.error_of(body)
            request_id = google_errors.request_id(document)
            raise cloud_errors.Refused(response.status_code, document, after_s, request_id=request_id)
        if response.status_code >= _FIRST_NO_SUCCESS:
            return  # requests follows it
        if not isinstance(body, dict):
            kind = cloud_errors.clean(response.headers.get("Content-Type", "no type"), 60)
            raise cloud_errors.Malformed(f"the service's answer is not a JSON object ({kind})")
        if google_errors.is_error_body(body):
            error = google_errors.error_of(body) or {}
            code = error.get("code")
            status = code if isinstance(code, int) and code >= _FIRST_ERROR else 500
            raise cloud_errors.Refused(status, error, None)
        self._telling.answered()

    def _compare(self, content: bytes) -> None:
        """Raises _SameAnswer, which the client library lets through, if a list is read and it is as known."""
        digests: list[bytes] = getattr(self._seen, "digests", [])
        known: _Known | None = getattr(self._seen, "known", None)
        digest = hashlib.blake2b(content, digest_size=16).digest()
        digests.append(digest)
        if known is not None and len(digests) == 1 and digest == known.digest:
            raise _SameAnswer


def whole(pager: Any, not_whole: str) -> Iterator[Any]:
    """The items of all pages of a Compute list.

    Raises Unavailable, beginning with `not_whole`, at a page with a warning that something was left out.
    """
    for page in pager.pages:
        if page.warning.code not in _HARMLESS_WARNINGS:
            text = cloud_errors.clean(page.warning.message or page.warning.code)
            raise errors.Unavailable(f"{not_whole}: {text}")
        yield from page.items


def word(message: Any, field: str) -> str:
    """The name of an enum field's value; the number itself if this version of the client has no name for it.

    The client's own attribute would warn about a new value and give a bare number.
    """
    raw = type(message).pb(message)
    number = getattr(raw, field)
    known = raw.DESCRIPTOR.fields_by_name[field].enum_type.values_by_number.get(number)
    return str(known.name if known is not None else number)


def _parsed(content: bytes) -> object:
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        return None


def _file_credentials(path: str) -> auth_credentials.Credentials:
    from google.auth import credentials as auth_credentials  # noqa: PLC0415 - slow to import

    class FileCredentials(auth_credentials.Credentials):
        """A bearer token that somebody else keeps fresh in a file; read for each request."""

        def refresh(self, request: object) -> None:  # noqa: ARG002 - the interface has it
            self.token = kube_config.read_token(path)

        def before_request(self, request: object, method: str, url: str, headers: dict[str, str]) -> None:  # noqa: ARG002 - the interface has them
            self.refresh(request)
            headers["Authorization"] = f"Bearer {self.token}"

    make: Any = FileCredentials
    credentials: auth_credentials.Credentials = make()
    return credentials
