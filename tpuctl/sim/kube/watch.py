"""Watches: a stream of JSON lines, one for each change.

Everything here counts real seconds: a watch is bounded as an HTTP request, not as simulated work.
"""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Any

import orjson

from tpuctl.sim import store as stores
from tpuctl.sim.kube import errors, paging, resources, targets

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from tpuctl.sim.kube import representation

Json = dict[str, Any]

DEFAULT_TIMEOUT_S = 1800
"""How long a watch lives if the client does not say."""
BOOKMARK_INTERVAL_S = 60
BOOKMARK_BEFORE_END_S = 2
"""A last bookmark is sent this long before the end, so that the next watch starts near the present."""
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


@dataclasses.dataclass(frozen=True, kw_only=True)
class WatchRequest:
    """A watch, understood."""

    resource: resources.ResourceType
    namespace: str
    form: representation.Form
    options: paging.ListOptions
    timeout_s: float
    bookmarks: bool
    send_initial: bool | None
    """`sendInitialEvents`: a list as a stream, ended by a marked bookmark. None if the client is silent."""

    def selects(self, obj: Json) -> bool:
        if self.namespace and obj["metadata"].get("namespace") != self.namespace:
            return False
        return self.options.selector is None or self.options.selector(obj)


def parse(
    query: Mapping[str, str],
    resource: resources.ResourceType,
    namespace: str,
    name: str,
    form: representation.Form,
) -> WatchRequest:
    """Read and check the parameters of a watch. Raises `ApiError` (400, 422)."""
    send_initial = targets.flag(query, "sendInitialEvents") if "sendInitialEvents" in query else None
    bookmarks = targets.flag(query, "allowWatchBookmarks")
    match = query.get("resourceVersionMatch", "")
    _check_initial(send_initial, match)
    rest = {key: value for key, value in query.items() if key != "resourceVersionMatch"}
    return WatchRequest(
        resource=resource,
        namespace=namespace,
        form=form,
        options=paging.ListOptions.parse(rest, resource, name),
        timeout_s=targets.whole(query, "timeoutSeconds") or DEFAULT_TIMEOUT_S,
        bookmarks=bookmarks,
        send_initial=send_initial,
    )


def _check_initial(send_initial: bool | None, match: str) -> None:
    field = "resourceVersionMatch"
    if send_initial is None and match:
        text = "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
    elif send_initial is not None and match != "NotOlderThan":
        text = 'Forbidden: sendInitialEvents requires setting resourceVersionMatch to "NotOlderThan"'
    else:
        return
    raise errors.invalid_options("ListOptions", [errors.Cause("FieldValueForbidden", text, field)])


class Watches:
    """Serves watches on a store."""

    def __init__(
        self, store: stores.Store, registry: resources.Registry, renderer: representation.Renderer
    ) -> None:
        self._store = store
        self._registry = registry
        self._renderer = renderer
        self._open: set[asyncio.Event] = set()
        self._closing = False

    def close(self) -> None:
        """End every watch, so that the server can stop. Call it on the server's thread."""
        self._closing = True
        for wake in self._open:
            wake.set()

    @property
    def count(self) -> int:
        """Watches that are open now."""
        return len(self._open)

    async def stream(self, request: WatchRequest) -> AsyncIterator[bytes]:
        """The lines of a watch, several at a time where several changes are due."""
        wake = asyncio.Event()
        keys = (
            {request.resource.key, resources.CRD_KEY} if request.resource.custom else {request.resource.key}
        )
        ends = [self._store.subscribe(key, lambda *_event: wake.set()) for key in keys]
        self._open.add(wake)
        try:
            async for chunk in self._chunks(request, wake):
                yield chunk
        finally:
            self._open.discard(wake)
            for end in ends:
                end()

    async def _chunks(self, request: WatchRequest, wake: asyncio.Event) -> AsyncIterator[bytes]:
        now_s = asyncio.get_running_loop().time
        end_s = now_s() + request.timeout_s
        bookmark_s = _next_bookmark_s(request, now_s(), end_s)
        session = _Session(self._store, self._renderer, request)
        chunk = session.start()
        while True:
            if chunk:
                yield chunk
            if session.over or self._closing or not self._served(request.resource):
                return
            # A write between here and the wait sets the event again, so that none is missed.
            wake.clear()
            chunk = session.news()
            if chunk or session.over:
                continue
            if now_s() >= end_s:
                return
            if now_s() >= bookmark_s:
                chunk = session.bookmark()
                bookmark_s = _next_bookmark_s(request, now_s(), end_s)
                continue
            await _wait(wake, min(end_s, bookmark_s) - now_s())

    def _served(self, resource: resources.ResourceType) -> bool:
        return self._registry.find(resource.group, resource.version, resource.plural) is not None


async def _wait(wake: asyncio.Event, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            await wake.wait()
    except TimeoutError:
        return


def _next_bookmark_s(request: WatchRequest, now_s: float, end_s: float) -> float:
    """When the next bookmark is due; never, if none is wanted or the end is near."""
    last_s = end_s - BOOKMARK_BEFORE_END_S
    if not request.bookmarks or now_s >= last_s:
        return float("inf")
    return min(now_s + BOOKMARK_INTERVAL_S, last_s)


class _Session:
    """What one watch has sent, and what it sends next."""

    def __init__(self, store: stores.Store, renderer: representation.Renderer, request: WatchRequest) -> None:
        self._store = store
        self._renderer = renderer
        self._request = request
        self._position = 0
        self._first = True
        self.over = False
        """Whether the watch ended with an error."""

    def start(self) -> bytes:
        """The first lines: the present state if the client does not say where it stands."""
        revision = self._request.options.revision
        wants_state = not revision if self._request.send_initial is None else self._request.send_initial
        if wants_state:
            return self._state()
        self._position = revision or self._store.revision
        try:
            self._store.check_kept(self._position)
        except stores.Expired as expired:
            return self._expired(expired)
        return b""

    def _state(self) -> bytes:
        request = self._request
        self._position = self._store.revision
        found = filter(request.selects, self._store.list(request.resource.key, request.namespace))
        lines = [self._line("ADDED", obj) for obj in found]
        if request.send_initial and request.bookmarks:
            lines.append(self.bookmark(initial_events_end=True))
        return b"".join(lines)

    def news(self) -> bytes:
        """Lines for the writes since the last call."""
        try:
            events = self._store.events_since(self._request.resource.key, self._position)
        except stores.Expired as expired:
            return self._expired(expired)
        # A client may start at a revision of the future; it hears nothing until that one has passed.
        self._position = max(self._position, self._store.revision)
        return b"".join(self._line(kind, obj) for event in events for kind, obj in self._seen(event))

    def _seen(self, event: stores.Event) -> Iterator[tuple[str, Json]]:
        """The event as this client sees it: an object that begins to match is new, one that ends is gone."""
        before = event.old is not None and self._request.selects(event.old)
        after = event.type != "DELETED" and self._request.selects(event.new)
        if after:
            yield ("MODIFIED" if before else "ADDED"), event.new
        elif before and event.old is not None:
            yield "DELETED", event.new if event.type == "DELETED" else _at(event.old, event.revision)

    def bookmark(self, *, initial_events_end: bool = False) -> bytes:
        """A line that only says how far the client is."""
        metadata: Json = {"resourceVersion": str(self._position)}
        if initial_events_end:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        resource = self._request.resource
        obj = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        return self._line("BOOKMARK", obj)

    def _line(self, kind: str, obj: Json) -> bytes:
        line = self._renderer.event(self._request.form, self._request.resource, kind, obj, first=self._first)
        self._first = False
        return line

    def _expired(self, expired: stores.Expired) -> bytes:
        self.over = True
        status = errors.expired(str(expired)).status()
        return b'{"type":"ERROR","object":%b}\n' % orjson.dumps(status)


def _at(obj: Json, revision: int) -> Json:
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(revision)}}
