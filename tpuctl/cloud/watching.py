"""A fleet that is watched: the Changes port.

Streams of nodes and slices tell what happens; this side keeps the tables, joins them into fleets, and reads
node pools and reservations again from time to time, since they have no watch.
"""

from __future__ import annotations

import dataclasses
import datetime
import queue
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from tpuctl.cloud import clients, documents, snapshot, watch_streams
from tpuctl.model import errors, fleet
from tpuctl.ops import ports

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tpuctl.cloud import clock as clock_module
    from tpuctl.cloud import kube as kube_module
    from tpuctl.cloud import slices as slices_module
    from tpuctl.ops import context as context_module

Name = fleet.SourceName
PAUSE_S = 1.0
"""Changes are gathered for so long: a cube has 16 hosts, and they change together. Seconds of the context."""
_LISTEN_S = 0.05
"""Real seconds that the queue is waited on between looks at the clock."""
_NODES_PATH = "/api/v1/nodes"


class KubeChanges:
    """The Changes port."""

    def __init__(
        self,
        context: context_module.Context,
        clock: clock_module.WallClock,
        *,
        kube: kube_module.Kube,
        slices: slices_module.KubeSlices,
        reader: snapshot.FleetReader,
    ) -> None:
        self._context = context
        self._clock = clock
        self._kube = kube
        self._reader = reader
        self._resources: dict[fleet.SourceName, watch_streams.Resource] = {
            Name.NODES: _Nodes(kube),
            Name.SLICES: _Slices(slices),
        }

    def follow(
        self,
        sources: Collection[fleet.SourceName],
        *,
        silence_s: float,
        reread_s: float,
        timeout_s: float | None,
        tick_s: float = ports.TICK_S,
    ) -> Iterator[ports.Sighting]:
        """As in the port."""
        news: queue.SimpleQueue[watch_streams.News] = queue.SimpleQueue()
        streams = [
            watch_streams.Stream(self._kube, resource, news, silence_s=silence_s)
            for name, resource in self._resources.items()
            if name in sources
        ]
        others = [name for name in Name if name in sources and name not in self._resources]
        view = _View(self._context.fleet, self._clock, frozenset(sources), tick_s)
        rereader = _Rereader(self._reader, news, others, every_s=reread_s)
        end_s = None if timeout_s is None else self._clock.monotonic_s() + timeout_s
        clients.load(sources)
        for stream in streams:
            stream.start()
        try:
            while end_s is None or self._clock.monotonic_s() < end_s:
                rereader.look(self._clock.monotonic_s())
                view.take_all(news)
                if view.has_something_to_tell():
                    yield view.sighting()
                self._clock.sleep(PAUSE_S)
        finally:
            for stream in streams:
                stream.stop()


class _Nodes:
    """Nodes, as far as they are hosts of cubes or strays."""

    source = Name.NODES
    what = "nodes"

    def __init__(self, kube: kube_module.Kube) -> None:
        self._kube = kube

    def path(self) -> str:
        return _NODES_PATH

    def listing(self) -> watch_streams.Listed:
        found = self._kube.listing(_NODES_PATH, self.entry, what="list nodes")
        return watch_streams.Listed(self.source, tuple(found.items), found.revision, found.observed_at)

    def entry(self, document: dict[str, Any]) -> watch_streams.Entry:
        metadata = document["metadata"]
        revision = _number(metadata.get("resourceVersion"))
        return watch_streams.Entry(metadata["name"], revision, documents.node(document))


class _Slices:
    """All Slices."""

    source = Name.SLICES
    what = "slices"

    def __init__(self, slices: slices_module.KubeSlices) -> None:
        self._slices = slices
        self._observed_at = datetime.datetime.min.replace(tzinfo=datetime.UTC)

    def path(self) -> str:
        return self._slices.path

    def listing(self) -> watch_streams.Listed:
        found = self._slices.listing()
        self._observed_at = found.observed_at
        entries = tuple(watch_streams.Entry(item.name, _number(item.revision), item) for item in found.items)
        return watch_streams.Listed(self.source, entries, found.revision, found.observed_at)

    def entry(self, document: dict[str, Any]) -> watch_streams.Entry:
        item = documents.slice_(document, self._observed_at)
        return watch_streams.Entry(item.name, _number(item.revision), item)


class _Rereader:
    """Reads the sources without a watch in a thread of its own: a slow service holds up nothing else."""

    def __init__(
        self,
        reader: snapshot.FleetReader,
        news: queue.SimpleQueue[watch_streams.News],
        sources: list[fleet.SourceName],
        *,
        every_s: float,
    ) -> None:
        self._reader = reader
        self._news = news
        self._sources = sources
        self._every_s = every_s
        self._due_s: float | None = None
        self._thread: threading.Thread | None = None

    def look(self, now_s: float) -> None:
        """Begin a reading if one is due and none is under way."""
        busy = self._thread is not None and self._thread.is_alive()
        if not self._sources or busy or (self._due_s is not None and now_s < self._due_s):
            return
        self._due_s = now_s + self._every_s
        self._thread = threading.Thread(target=self._read, daemon=True, name="tpuctl-reread")
        self._thread.start()

    def _read(self) -> None:
        for name in self._sources:
            try:
                read = self._reader.read([name])[name]
            except errors.Unavailable as error:
                self._news.put(watch_streams.Troubled(name, error.message))
            except BaseException as error:  # noqa: BLE001 - raised by the thread that listens
                self._news.put(watch_streams.Ended(name, error))
                return
            else:
                entries = tuple(
                    watch_streams.Entry(str(number), 0, item) for number, item in enumerate(read.items)
                )
                source = read.source
                self._news.put(watch_streams.Listed(name, entries, source.revision, source.observed_at))


class _Heard(NamedTuple):
    """When a source last spoke."""

    revision: str
    at_s: float
    """On the context's clock."""


class _Table:
    """What is known of one source."""

    def __init__(self) -> None:
        self._entries: dict[str, watch_streams.Entry] = {}
        self._buried: dict[str, int] = {}
        """Deleted name -> revision of its end, so that a late word does not bring it back."""

    def replace(self, entries: tuple[watch_streams.Entry, ...]) -> bool:
        """Take a whole list; true if it says anything new."""
        fresh = {entry.name: entry for entry in entries}
        before = {name: entry.item for name, entry in self._entries.items()}
        self._entries, self._buried = fresh, {}
        return before != {name: entry.item for name, entry in fresh.items()}

    def take(self, entry: watch_streams.Entry, *, deleted: bool) -> bool:
        """Take one event; true if it says anything new. Repeated and overtaken events say nothing."""
        old = self._entries.get(entry.name)
        newest = max(old.revision if old else 0, self._buried.get(entry.name, 0))
        if entry.revision and entry.revision <= newest:
            return False
        if deleted:
            self._buried[entry.name] = entry.revision
            return self._entries.pop(entry.name, None) is not None
        self._entries[entry.name] = entry
        return old is None or old.item != entry.item

    def items(self) -> tuple[Any, ...]:
        return tuple(
            self._entries[name].item for name in sorted(self._entries) if self._entries[name].item is not None
        )


class _View:
    """The tables of all sources, and what has not been told of them yet."""

    def __init__(
        self,
        cluster: str,
        clock: clock_module.WallClock,
        sources: frozenset[fleet.SourceName],
        tick_s: float,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._sources = sources
        self._tick_s = tick_s
        self._shown: fleet.Fleet | None = None
        """The fleet as last joined; shown again as long as the tables say the same."""
        self._tables: dict[fleet.SourceName, _Table] = {}
        self._heard: dict[fleet.SourceName, _Heard] = {}
        self._troubles: dict[fleet.SourceName, str] = {}
        self._epoch: tuple[datetime.datetime, float] | None = None
        """A time that a server told, and when that was on our clock."""
        self._is_new = False
        self._told_s: float | None = None
        self._ticked_s = clock.monotonic_s()
        self._told_trouble = ""

    def take_all(self, news: queue.SimpleQueue[watch_streams.News]) -> None:
        """Take what has come; wait a moment of real time if nothing has. Raises what ended a source."""
        wait_s = _LISTEN_S
        while True:
            try:
                item = news.get(timeout=wait_s) if wait_s else news.get_nowait()
            except queue.Empty:
                return
            self._take(item)
            wait_s = 0.0

    def _take(self, item: watch_streams.News) -> None:
        if isinstance(item, watch_streams.Ended):
            raise item.error
        if isinstance(item, watch_streams.Troubled):
            self._troubles[item.source] = item.why
            return
        now_s = self._clock.monotonic_s()
        self._heard[item.source] = _Heard(item.revision, now_s)
        table = self._tables.setdefault(item.source, _Table())
        if isinstance(item, watch_streams.Listed):
            self._troubles.pop(item.source, None)
            self._epoch = (item.observed_at, now_s)
            self._is_new |= table.replace(item.entries) or self._told_s is None
        else:
            self._is_new |= table.take(item.entry, deleted=item.deleted)

    @property
    def _is_whole(self) -> bool:
        return all(name in self._tables for name in self._sources)

    @property
    def _trouble(self) -> str:
        return "; ".join(why for _, why in sorted(self._troubles.items()))

    def has_something_to_tell(self) -> bool:
        """Something changed, or a trouble came or went, or nothing was told for a while."""
        if self._trouble != self._told_trouble:
            return True
        if self._is_whole and (self._is_new or self._told_s is None):
            return True
        # Also as long as there is no fleet to show: whoever listens may have other things to look after.
        return self._clock.monotonic_s() - self._ticked_s >= self._tick_s

    def sighting(self) -> ports.Sighting:
        """The fleet as it is known now; None in it until every source was read once."""
        self._told_trouble = self._trouble
        self._ticked_s = self._clock.monotonic_s()
        if not self._is_whole or self._epoch is None:
            return ports.Sighting(None, self._trouble)
        is_new, self._is_new, self._told_s = self._is_new, False, self._clock.monotonic_s()
        then, then_s = self._epoch

        def at(seconds: float) -> datetime.datetime:
            return then + datetime.timedelta(seconds=seconds - then_s)

        sources = {
            name: fleet.Source(name, self._heard[name].revision, at(self._heard[name].at_s))
            for name in sorted(self._sources, key=list(Name).index)
        }
        if self._shown is None or is_new:
            found = {
                name: snapshot.Read(source, self._tables[name].items()) for name, source in sources.items()
            }
            self._shown = snapshot.assemble(self._cluster, found, at(self._told_s))
        else:
            # Joining 100,000 nodes takes about a second of CPU: only the times are others.
            self._shown = dataclasses.replace(
                self._shown, observed_at=at(self._told_s), sources=tuple(sources.values())
            )
        return ports.Sighting(self._shown, self._trouble)


def _number(revision: object) -> int:
    """A revision as a number; since Kubernetes 1.35 those of one resource may be compared."""
    text = str(revision or "")
    return int(text) if text.isascii() and text.isdigit() else 0
