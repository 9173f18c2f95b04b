"""A fleet that is watched: the Changes port.

Streams of nodes, slices and pods tell what happens; this side keeps the tables, joins them into fleets, and
reads node pools, reservations and claims again from time to time: the first two have no watch, and claims are
few. A watch that hears nothing new costs next to nothing, however large the fleet is.
"""

from __future__ import annotations

import datetime
import queue
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from tpuctl.cloud import clients, documents, snapshot, tables, watch_streams
from tpuctl.model import errors, fleet
from tpuctl.ops import ports

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tpuctl.cloud import clock as clock_module
    from tpuctl.cloud import kube as kube_module
    from tpuctl.cloud import slices as slices_module

Name = fleet.SourceName
PAUSE_S = 1.0
"""Changes are gathered for so long: a cube has 16 hosts, and they change together. Seconds of the context."""
RESTS = 10
"""After joining a fleet in which something changes all the time, the watch waits so many times as long."""
_LISTEN_S = 0.05
"""Real seconds that the queue is waited on between looks at the clock."""


class KubeChanges:
    """The Changes port."""

    def __init__(
        self,
        clock: clock_module.WallClock,
        *,
        kube: kube_module.Kube,
        slices: slices_module.KubeSlices,
        reader: snapshot.FleetReader,
    ) -> None:
        self._clock = clock
        self._kube = kube
        self._reader = reader
        self._resources: dict[fleet.SourceName, watch_streams.Resource] = {
            Name.NODES: _Nodes(reader),
            Name.SLICES: _Slices(slices, clock),
            Name.PODS: _Pods(reader),
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
        view = _View(self._reader.assembler, self._clock, frozenset(sources), tick_s)
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

    def __init__(self, reader: snapshot.FleetReader) -> None:
        self._reader = reader

    def path(self) -> str:
        return snapshot.NODES_PATH

    def listing(self, *, anew: bool) -> watch_streams.Listed:
        return _listed(self.source, self._reader.list_nodes() if anew else self._reader.nodes_to_watch())

    def entry(self, document: dict[str, Any]) -> watch_streams.Entry:
        """Also for a node that is no host: labels may make it one, or have done so."""
        metadata = document["metadata"]
        revision = _number(metadata.get("resourceVersion"))
        return watch_streams.Entry(metadata["name"], revision, documents.node(document))


class _Pods:
    """Pods, as far as they hold or want TPU chips. What a pod asks for never changes."""

    source = Name.PODS
    what = "pods"

    def __init__(self, reader: snapshot.FleetReader) -> None:
        self._reader = reader

    def path(self) -> str:
        return snapshot.PODS_PATH

    def listing(self, *, anew: bool) -> watch_streams.Listed:
        return _listed(self.source, self._reader.list_pods() if anew else self._reader.pods_to_watch())

    def entry(self, document: dict[str, Any]) -> watch_streams.Entry | None:
        item = documents.pod(document)
        if item is None:
            return None
        revision = _number(document["metadata"].get("resourceVersion"))
        return watch_streams.Entry(snapshot.pod_name(document), revision, item)


class _Slices:
    """All Slices."""

    source = Name.SLICES
    what = "slices"

    def __init__(self, slices: slices_module.KubeSlices, clock: clock_module.WallClock) -> None:
        self._slices = slices
        self._clock = clock
        self._observed_at = datetime.datetime.min.replace(tzinfo=datetime.UTC)

    def path(self) -> str:
        return self._slices.path

    def listing(self, *, anew: bool) -> watch_streams.Listed:  # noqa: ARG002 - slices are few
        begun_s = self._clock.monotonic_s()
        found = self._slices.listing()
        self._observed_at = found.observed_at
        entries = tuple(watch_streams.Entry(item.name, _number(item.revision), item) for item in found.items)
        return watch_streams.Listed(self.source, entries, found.revision, found.observed_at, begun_s)

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
            except (errors.Unavailable, errors.Busy) as error:
                self._news.put(watch_streams.Troubled(name, error.message))
            except BaseException as error:  # noqa: BLE001 - raised by the thread that listens
                self._news.put(watch_streams.Ended(name, error))
                return
            else:
                # They have no names of their own here; numbers keep them in the order of the list.
                entries = tuple(
                    watch_streams.Entry(f"{number:09}", 0, item) for number, item in enumerate(read.items)
                )
                source = read.source
                self._news.put(watch_streams.Listed(name, entries, source.revision, source.observed_at))


class _Heard(NamedTuple):
    """When a source last spoke."""

    revision: str
    at_s: float
    """On the context's clock."""


class _View:
    """The tables of all sources, and what has not been told of them yet."""

    def __init__(
        self,
        assembler: snapshot.Assembler,
        clock: clock_module.WallClock,
        sources: frozenset[fleet.SourceName],
        tick_s: float,
    ) -> None:
        self._assembler = assembler
        self._clock = clock
        self._sources = sources
        self._tick_s = tick_s
        self._tables: dict[fleet.SourceName, tables.Table] = {}
        self._heard: dict[fleet.SourceName, _Heard] = {}
        self._troubles: dict[fleet.SourceName, str] = {}
        self._epoch: tuple[datetime.datetime, float] | None = None
        """A time that a server told, and when that was on our clock."""
        self._is_new = False
        self._told_s: float | None = None
        self._ticked_s = clock.monotonic_s()
        self._rests_until_s = self._ticked_s
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
        at_s = item.at_s if isinstance(item, watch_streams.Listed) else None
        at_s = self._clock.monotonic_s() if at_s is None else at_s
        self._heard[item.source] = _Heard(item.revision, at_s)
        if isinstance(item, watch_streams.Heard):
            return
        table = self._tables.setdefault(item.source, tables.Table())
        if isinstance(item, watch_streams.Listed):
            self._troubles.pop(item.source, None)
            self._epoch = (item.observed_at, at_s)
            self._note(item.source, is_new=table.replace(item.entries) or self._told_s is None)
        else:
            self._note(item.source, is_new=table.take(item.entry, deleted=item.deleted))

    def _note(self, source: fleet.SourceName, *, is_new: bool) -> None:
        """Pods come and go all the time in a large fleet: they are told of with the next tick."""
        self._is_new |= is_new and source is not Name.PODS

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
        now_s = self._clock.monotonic_s()
        if self._is_whole and ((self._is_new and now_s >= self._rests_until_s) or self._told_s is None):
            return True
        # Also as long as there is no fleet to show: whoever listens may have other things to look after.
        return now_s - self._ticked_s >= self._tick_s

    def sighting(self) -> ports.Sighting:
        """The fleet as it is known now; None in it until every source was read once."""
        self._told_trouble = self._trouble
        self._ticked_s = self._clock.monotonic_s()
        if not self._is_whole or self._epoch is None:
            return ports.Sighting(None, self._trouble)
        self._is_new, self._told_s = False, self._clock.monotonic_s()
        then, then_s = self._epoch

        def at(seconds: float) -> datetime.datetime:
            return then + datetime.timedelta(seconds=seconds - then_s)

        sources = {
            name: fleet.Source(name, self._heard[name].revision, at(self._heard[name].at_s))
            for name in sorted(self._sources, key=list(Name).index)
        }
        found = {name: snapshot.Read(source, self._tables[name].items()) for name, source in sources.items()}
        seen = self._assembler.assemble(found, at(self._told_s))
        joined_s = self._clock.monotonic_s()
        self._rests_until_s = joined_s + RESTS * (joined_s - self._told_s)
        return ports.Sighting(seen, self._trouble)


def _listed(source: fleet.SourceName, found: snapshot.Listing) -> watch_streams.Listed:
    entries = tuple(
        watch_streams.Entry(entry.name, _number(entry.revision), entry.item) for entry in found.items
    )
    return watch_streams.Listed(source, entries, found.revision, found.observed_at, found.begun_s)


def _number(revision: object) -> int:
    """A revision as a number; since Kubernetes 1.35 those of one resource may be compared."""
    text = str(revision or "")
    return int(text) if text.isascii() and text.isdigit() else 0
