"""Watches of the Kubernetes API, each in a thread of its own that never goes deaf.

A stream that breaks, expires (410), reports an error, or says nothing for too long is begun again from a
whole list: what happened in between is in the list. Only a stream that the server ends in good order goes on
from where it was. Waits here are real seconds, since sockets know no others.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import orjson

from tpuctl.cloud import errors as cloud_errors
from tpuctl.cloud import kube_errors
from tpuctl.model import errors, fleet

if TYPE_CHECKING:
    import datetime
    import queue
    from collections.abc import Iterator

    import urllib3

    from tpuctl.cloud import kube as kube_module

SERVER_ENDS_AFTER_S = 600
"""What the server is asked to end a watch after."""
FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 15.0
"""Between attempts while nothing works."""
_SHORT_LIVED = 3
"""So many streams in a row that end without a word, and the next one begins with a pause and a list."""


class Entry(NamedTuple):
    """An object as read, or its end."""

    name: str
    revision: int
    """0 if the server's revisions are no numbers: then every word counts as newer than the last."""
    item: Any
    """None for objects that do not belong to the fleet."""


class Listed(NamedTuple):
    """A whole list: it replaces everything known of its source."""

    source: fleet.SourceName
    entries: tuple[Entry, ...]
    revision: str
    observed_at: datetime.datetime
    at_s: float | None = None
    """When that was on the context's clock; None: just now. Reading a large list to its end takes a while."""


class Happened(NamedTuple):
    """One object was added, changed or deleted."""

    source: fleet.SourceName
    entry: Entry
    deleted: bool
    revision: str


class Heard(NamedTuple):
    """The server speaks, and has nothing new to tell of what belongs to the fleet (a bookmark)."""

    source: fleet.SourceName
    revision: str


class Troubled(NamedTuple):
    """Nothing is heard of a source for now; the next `Listed` of it ends that."""

    source: fleet.SourceName
    why: str


class Ended(NamedTuple):
    """A source is given up: trying again does not help."""

    source: fleet.SourceName
    error: BaseException


News = Listed | Happened | Heard | Troubled | Ended


class Resource(Protocol):
    """What a stream watches."""

    source: fleet.SourceName
    what: str
    """For messages: `nodes`."""

    def path(self) -> str: ...

    def listing(self, *, anew: bool) -> Listed:
        """A whole list; unless `anew`, one that was read a moment ago will do."""
        ...

    def entry(self, document: dict[str, Any]) -> Entry | None:
        """None for an object that never belongs to the fleet, whatever becomes of it."""
        ...


class _Again(Exception):
    """This stream is of no more use; begin with a list."""

    def __init__(self, why: str, *, tell: bool) -> None:
        super().__init__(why)
        self.tell = tell
        """If true, the server may be gone, so that the view is old until a list was read."""


class Stream(threading.Thread):
    """Keeps telling `news` about one resource until it is stopped."""

    def __init__(
        self,
        kube: kube_module.Kube,
        resource: Resource,
        news: queue.SimpleQueue[News],
        *,
        silence_s: float,
    ) -> None:
        super().__init__(daemon=True, name=f"tpuctl-watch-{resource.what}")
        self._kube = kube
        self._resource = resource
        self._news = news
        self._silence_s = silence_s
        self._stopped = threading.Event()
        self._open: urllib3.BaseHTTPResponse | None = None
        self._delay_s = FIRST_DELAY_S
        """Before the next list; it grows while streams end without a word, so that nobody is hammered."""

    def stop(self) -> None:
        """End it soon; a read that waits is broken off."""
        self._stopped.set()
        response = self._open
        if response is not None:
            with contextlib.suppress(Exception):  # the connection may be gone, or of a kind that cannot
                response.shutdown()

    def run(self) -> None:
        anew = False
        while not self._stopped.is_set():
            try:
                listed = self._resource.listing(anew=anew)
                anew = True  # from now on a list also says that the server lives
                self._tell(listed)
                self._watch(listed.revision)
            except _Again as again:
                if again.tell:
                    self._tell(Troubled(self._resource.source, str(again)))
            except errors.Unavailable as error:
                self._tell(Troubled(self._resource.source, error.message))
            except BaseException as error:  # noqa: BLE001 - handed to the thread that listens, which raises it
                self._tell(Ended(self._resource.source, error))
                return
            self._stopped.wait(self._delay_s)
            self._delay_s = min(max(self._delay_s * 2, FIRST_DELAY_S), LONGEST_DELAY_S)

    def _tell(self, news: News) -> None:
        if not self._stopped.is_set():
            self._news.put(news)

    def _watch(self, revision: str) -> None:
        """Follow from `revision` until the stream is of no more use, which is always an error here."""
        silent_streams = 0
        while not self._stopped.is_set():
            before = revision
            for event in self._events(revision):
                revision = self._take(event)
            silent_streams = silent_streams + 1 if revision == before else 0
            if silent_streams >= _SHORT_LIVED:
                raise _Again(f"the server ends every watch of {self._resource.what} at once", tell=True)

    def _take(self, event: Any) -> str:
        """Tell about one event; returns the revision that it brings us to."""
        try:
            kind, document = event["type"], event["object"]
            if kind == "ERROR":
                raise self._refused(document)
            revision = document["metadata"]["resourceVersion"]
            self._delay_s = FIRST_DELAY_S
            entry = None if kind == "BOOKMARK" else self._resource.entry(document)
        except cloud_errors.UNREADABLE as error:
            what = self._resource.what
            raise _Again(f"the watch of {what} sent what cannot be read", tell=True) from error
        if kind not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK"):
            raise _Again(f"the watch of {self._resource.what} sent an unknown event", tell=True)
        if entry is None:
            self._tell(Heard(self._resource.source, str(revision)))
        else:
            self._tell(Happened(self._resource.source, entry, kind == "DELETED", str(revision)))
        return str(revision)

    def _refused(self, status: Any) -> _Again:
        """An ERROR event; 410 is ordinary, it says that the stream fell behind."""
        document = kube_errors.status_of(status) or {}
        message = cloud_errors.clean(document.get("message") or "an error without a reason")
        gone = document.get("code") == cloud_errors.GONE
        return _Again(f"the watch of {self._resource.what} ended: {message}", tell=not gone)

    def _events(self, revision: str) -> Iterator[Any]:
        """The events of one stream; returns when the server ends it in good order."""
        import urllib3.exceptions  # noqa: PLC0415 - slow to import

        query = {
            "watch": "true",
            "resourceVersion": revision,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(SERVER_ENDS_AFTER_S),
        }
        what = f"watch {self._resource.what}"
        try:
            with kube_errors.translated(what, self._kube.server):
                response = self._kube.stream(self._resource.path(), query=query, silence_s=self._silence_s)
        except errors.Unavailable as error:
            # Expired (410) or out of order: either way a list comes next, and tells whether the server lives.
            raise _Again(error.message, tell=not _is_gone(error)) from error
        self._open = response
        try:
            for line in _lines(response):
                yield orjson.loads(line)
        except urllib3.exceptions.ReadTimeoutError as error:
            self._delay_s = 0.0  # silence has been waiting enough
            why = f"the watch of {self._resource.what} was silent for {self._silence_s:.0f} s"
            raise _Again(why, tell=False) from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise _Again(f"the watch of {self._resource.what} broke", tell=True) from error
        except orjson.JSONDecodeError as error:
            what = self._resource.what
            raise _Again(f"the watch of {what} sent what cannot be read", tell=True) from error
        finally:
            self._open = None
            response.close()


def _is_gone(error: errors.Unavailable) -> bool:
    cause = error.__cause__
    return isinstance(cause, cloud_errors.Refused) and cause.status == cloud_errors.GONE


def _lines(response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    """Whole lines as they come; a last one without an end was cut off and is an error."""
    rest = b""
    for chunk in response.stream(65_536, decode_content=True):
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line for line in whole if line.strip())
    if rest.strip():
        raise OSError("the stream ended in the middle of a line")
