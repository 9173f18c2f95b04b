"""The Kubernetes API as plain JSON: single requests, repeated reads, careful writes, whole lists.

The client library gives connection and credentials; bodies are parsed by orjson, since building the library's
models for a few thousand nodes takes longer than reading them. A list that cannot be read to its end is an
error, never a short answer.
"""

from __future__ import annotations

import functools
import threading
import urllib.parse
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import orjson

import tpuctl
from tpuctl.cloud import errors as cloud_errors
from tpuctl.cloud import kube_config, kube_errors, retry
from tpuctl.model import errors
from tpuctl.ops import context as context_module

if TYPE_CHECKING:
    import contextlib
    import datetime
    from collections.abc import Callable, Iterator, Mapping

    import urllib3

    from tpuctl.cloud import clock as clock_module

T = TypeVar("T")

CONNECT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 10.0
"""Real seconds without a word after which an answer about one object counts as lost: as long as an admission
webhook has by default. Twice that is the deadline of a retried call, so that a lost answer can be made up for
while the lock under which it was asked for still holds."""
PAGE_TIMES = 1.5
"""A page of 500 nodes takes a server seconds to make: it may be silent for so many times as long."""
PAGE_SIZE = 500
MAX_RESTARTS = 3
"""How often a list that expired half-way is begun again."""
LIST_DEADLINE_S = 120.0
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"
_FIRST_ERROR = 400
_FIRST_NO_SUCCESS = 300


class Answer(NamedTuple):
    """A success."""

    document: dict[str, Any]
    observed_at: datetime.datetime
    """The server's Date header; this machine's time if it sent none."""


class Listing(NamedTuple, Generic[T]):
    """A whole list at one revision."""

    items: list[T]
    revision: str
    observed_at: datetime.datetime


class _Broken(Exception):
    """This attempt at a list came to nothing; another one from the beginning may succeed."""


class Kube:
    """One API server; connects on first use, so that making one costs nothing."""

    def __init__(
        self,
        context: context_module.Context,
        clock: clock_module.WallClock,
        *,
        tell: Callable[[str], None] = retry.untold,
    ) -> None:
        self._context = context
        self._clock = clock
        self._lock = threading.Lock()
        self._telling = retry.Telling(tell)

    def get(self, path: str, *, what: str, query: Mapping[str, str] | None = None) -> Answer:
        """Read one document, trying again while the fault may pass; `what` is for the error's text."""
        with self.translated(what):
            return self._read(lambda: self.request("GET", path, query=query), what)

    def find(self, path: str, name: str, *, what: str) -> Answer | None:
        """Read one object; None if the server says that this object does not exist.

        Raises NotFound if the resource itself is not served.
        """
        with self.translated(what):
            try:
                return self._read(lambda: self.request("GET", path), what)
            except cloud_errors.Refused as refused:
                if kube_errors.is_missing_object(refused, name):
                    return None
                raise

    def write(self, attempt: Callable[[], T], *, look: Callable[[], T | None], what: str) -> T:
        """Carry out `attempt`; after an open outcome `look` tells what came of it before a second one."""
        with self.translated(what, writing=True):
            return retry.write(self._clock, kube_errors.classify, attempt, look=look, told=self._told(what))

    def translated(self, what: str, *, writing: bool = False) -> contextlib.AbstractContextManager[None]:
        """Turn the errors of requests inside into ours."""
        return kube_errors.translated(what, self.server, context=self._context, writing=writing)

    def _read(self, attempt: Callable[[], Answer], what: str) -> Answer:
        return retry.read(self._clock, kube_errors.classify, attempt, told=self._told(what))

    def _told(self, what: str) -> retry.Told:
        return lambda error: self._telling.failed(kube_errors.told(error, what, self.server))

    def listing(
        self,
        path: str,
        keep: Callable[[dict[str, Any]], T | None],
        *,
        what: str,
        query: Mapping[str, str] | None = None,
        accept: str = "application/json",
    ) -> Listing[T]:
        """Read a whole list; `keep` turns each object into what is wanted of it, None leaves it out.

        All pages are of one revision. A list that expires half-way is begun again.
        Raises Unavailable if it cannot be read to its end.
        """
        deadline_s = self._clock.monotonic_s() + LIST_DEADLINE_S
        with self.translated(what):
            for _ in range(1 + MAX_RESTARTS):
                try:
                    return self._list_once(path, keep, query or {}, accept, what)
                except _Broken as broken:
                    last = broken
                if self._clock.monotonic_s() > deadline_s:
                    break
        raise errors.Unavailable(
            f"cannot {what}: {last}; nothing was assumed", hint="run the command again"
        ) from last

    @functools.cached_property
    def server(self) -> str:
        """Host and port, for messages."""
        return urllib.parse.urlsplit(self._host).netloc

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        accept: str = "application/json",
        content_type: str = "application/json",
        times: float = 1.0,
    ) -> Answer:
        """One request, one answer, no second attempt; it may take `times` as long as a single object.

        Raises Refused, Malformed, or what urllib3 raises: callers go through `kube_errors.translated`.
        """
        import urllib3  # noqa: PLC0415 - slow to import

        headers = {"Accept": accept, "User-Agent": f"tpuctl/{tpuctl.__version__}", **self._authorization()}
        if not context_module.is_loopback(self._host):
            headers["Accept-Encoding"] = "gzip"
        if body is not None:
            headers["Content-Type"] = content_type
        response = self._pool.request(
            method,
            f"{self._host}{path}" + (f"?{urllib.parse.urlencode(query)}" if query else ""),
            body=None if body is None else orjson.dumps(body),
            headers=headers,
            timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT_S, read=times * READ_TIMEOUT_S),
        )
        return self._judged(response)

    def stream(self, path: str, *, query: Mapping[str, str], silence_s: float) -> urllib3.BaseHTTPResponse:
        """Open an answer that goes on; each read waits at most `silence_s` real seconds.

        Raises as `request` does. Whoever opens it closes it.
        """
        import urllib3  # noqa: PLC0415 - slow to import

        headers = {"Accept": "application/json", "User-Agent": f"tpuctl/{tpuctl.__version__}"}
        response = self._pool.request(
            "GET",
            f"{self._host}{path}?{urllib.parse.urlencode(query)}",
            headers=headers | self._authorization(),
            timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT_S, read=silence_s),
            preload_content=False,
        )
        if response.status >= _FIRST_NO_SUCCESS:
            try:
                self._judged(response)
            finally:
                response.close()
        return response

    def _judged(self, response: urllib3.BaseHTTPResponse) -> Answer:
        moment = cloud_errors.http_date(response.headers.get("Date"))
        document = _parsed(response.data)
        if response.status >= _FIRST_ERROR:
            status = kube_errors.status_of(document)
            raise cloud_errors.Refused(
                response.status,
                status,
                _retry_after_s(response, status, moment),
                request_id=response.headers.get("Audit-Id", ""),
            )
        if response.status >= _FIRST_NO_SUCCESS:
            raise cloud_errors.Malformed(f"the server answered with a redirection ({response.status})")
        if not isinstance(document, dict):
            kind = cloud_errors.clean(response.headers.get("Content-Type", "no type"), 60)
            raise cloud_errors.Malformed(f"the server's answer is not a JSON object ({kind})")
        status = kube_errors.status_of(document)
        if status is not None and status.get("status") != "Success":
            raise cloud_errors.Refused(kube_errors.status_code(status), status, None)
        if "error" in document and "kind" not in document:
            raise cloud_errors.Malformed("the server's answer is an error under a code of success")
        self._telling.answered()
        return Answer(document, moment or self._clock.now())

    def _list_once(
        self,
        path: str,
        keep: Callable[[dict[str, Any]], T | None],
        query: Mapping[str, str],
        accept: str,
        what: str,
    ) -> Listing[T]:
        items: list[T] = []
        seen, promised = 0, 0
        revision, observed_at = "", None
        for page in self._pages(path, query, accept, what):
            observed_at = observed_at or page.observed_at
            metadata, objects = _page_parts(page.document)
            if revision not in ("", metadata["resourceVersion"]):
                raise _Broken("its pages are of different revisions")
            revision = metadata["resourceVersion"]
            items += _kept(objects, keep)
            seen += len(objects)
            promised = max(promised, seen + (metadata.get("remainingItemCount") or 0))
        if seen < promised:
            raise _Broken(f"it ended after {seen:,} of {promised:,} objects")
        if observed_at is None:
            raise AssertionError("there is always a first page")
        return Listing(items, revision, observed_at)

    def _pages(self, path: str, query: Mapping[str, str], accept: str, what: str) -> Iterator[Answer]:
        token = ""
        while True:
            asked = {**query, "limit": str(PAGE_SIZE), **({"continue": token} if token else {})}
            try:
                ask = functools.partial(
                    self.request, "GET", path, query=asked, accept=accept, times=PAGE_TIMES
                )
                page = self._read(ask, what)
            except cloud_errors.Refused as refused:
                if refused.status == cloud_errors.GONE:
                    # The token offered for going on would give a list of mixed revisions.
                    raise _Broken("the list expired in the middle of being read") from refused
                raise
            yield page
            following = page.document["metadata"].get("continue") or ""
            if not following:
                return
            if following == token:
                raise _Broken("it does not get past one page")
            token = following

    @functools.cached_property
    def _client(self) -> Any:
        return kube_config.load(self._context)

    @functools.cached_property
    def _host(self) -> str:
        with self._lock:
            return str(self._client.configuration.host).rstrip("/")

    @property
    def _pool(self) -> urllib3.PoolManager:
        pool: urllib3.PoolManager = self._client.rest_client.pool_manager
        return pool

    def _authorization(self) -> dict[str, str]:
        # One thread at a time: an expired token makes the library run a plugin.
        with self._lock:
            return kube_config.authorization(self._client.configuration)


def _parsed(body: bytes) -> object:
    """The JSON in `body`; None if it is something else (a sign-in page, half a document)."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


def _retry_after_s(
    response: urllib3.BaseHTTPResponse, status: dict[str, Any] | None, moment: datetime.datetime | None
) -> float | None:
    """The header, else `details.retryAfterSeconds` of the Status."""
    from_header = cloud_errors.retry_after_s(response.headers, moment)
    details = (status or {}).get("details")
    from_body = details.get("retryAfterSeconds") if isinstance(details, dict) else None
    if from_header is not None or not isinstance(from_body, int):
        return from_header
    return float(from_body)


def _page_parts(document: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """Metadata and items of a page; raises Malformed if it is not a page of a list."""
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("resourceVersion"), str):
        raise cloud_errors.Malformed("the server's list has no revision")
    goes_on = bool(metadata.get("continue") or metadata.get("remainingItemCount"))
    items = document.get("items")
    if items is None and "items" in document and not goes_on:
        return metadata, []  # the way some servers write an empty list
    if not isinstance(items, list):
        raise cloud_errors.Malformed("the server's list has no items")
    return metadata, items


def _kept(objects: list[Any], keep: Callable[[dict[str, Any]], T | None]) -> list[T]:
    try:
        return [found for item in objects if (found := keep(item)) is not None]
    except cloud_errors.UNREADABLE as error:
        raise cloud_errors.Malformed(
            f"the server's list holds an object that cannot be read ({type(error).__name__})"
        ) from error
