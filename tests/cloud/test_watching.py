"""Watched fleets: what a stream can do to us, and that nothing makes us deaf or gives us the wrong fleet."""

from __future__ import annotations

import contextlib
import datetime
import json
import queue
import socket
import threading

import pytest

from tests.cloud import manifests, scripted
from tpuctl.cloud import connect, documents, snapshot, tables, watch_streams, watching
from tpuctl.model import errors, fleet
from tpuctl.sim import api_faults
from tpuctl.sim.kube import watch

Name = fleet.SourceName
BOTH = (Name.NODES, Name.SLICES)
SILENCE_S = 30.0


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Simulated seconds pass while we wait; real ones need not be many."""
    monkeypatch.setattr(watching, "_LISTEN_S", 0.01)


def follow(ports, sources=BOTH, *, timeout_s=2000.0, silence_s=SILENCE_S, reread_s=300.0):
    return ports.changes.follow(sources, silence_s=silence_s, reread_s=reread_s, timeout_s=timeout_s)


def until(sightings, wanted, *, limit=2000):
    """The first sighting that `wanted` accepts, and the troubles that were told before it."""
    troubles = []
    for number, sighting in enumerate(sightings):
        if sighting.trouble:
            troubles.append(sighting.trouble)
        if sighting.fleet is not None and wanted(sighting.fleet):
            return sighting.fleet, troubles
        assert number < limit, "too many sightings without the one that was waited for"
    raise AssertionError(f"the watch ended without what was waited for; troubles: {troubles}")


def silent_hosts(found):
    return [host.name for cube in found.cubes for host in cube.hosts if host.ready is None]


def is_whole(found):
    return sum(len(cube.hosts) for cube in found.cubes) == 64


def first_node(world):
    return world.ports.fleet.observe([Name.NODES]).cubes[0].hosts[0].name


def test_the_first_sighting_is_what_a_list_gives(ready):
    sighting = next(iter(follow(ready.ports, tuple(Name), timeout_s=100.0)))
    seen = sighting.fleet or until(follow(ready.ports, tuple(Name)), is_whole)[0]
    listed = ready.ports.fleet.observe(tuple(Name))
    assert seen.blocks == listed.blocks
    assert (seen.slices, seen.strays, seen.cluster) == (listed.slices, listed.strays, listed.cluster)
    assert [source.name for source in seen.sources] == list(Name)
    assert sighting.trouble == ""


def test_changes_come_without_another_list(ready):
    """draino#118: conditions seen only after a restart."""
    name = first_node(ready)
    with api_faults.injected(ready.sim, api_faults.Observe(), api="kubernetes", verb="list") as lists:
        sightings = follow(ready.ports)
        until(sightings, is_whole)
        before = lists.calls
        ready.sim.inject("host-crash", name)
        found, troubles = until(sightings, lambda found: silent_hosts(found) == [name])
        ready.sim.inject("host-up", name)
        until(sightings, lambda found: not silent_hosts(found))
        assert lists.calls == before
    assert troubles == []
    assert [host.taints for cube in found.cubes for host in cube.hosts if host.name == name] == [
        ("node.kubernetes.io/unreachable",) * 2
    ]


def test_a_node_that_is_deleted_is_gone_at_once(ready):
    """jobset#574: loss seen too late."""
    sightings = follow(ready.ports)
    until(sightings, is_whole)
    ready.sim.inject("host-gone", first_node(ready))
    found, _ = until(sightings, lambda found: not is_whole(found))
    assert sum(len(cube.hosts) for cube in found.cubes) == 63


@pytest.mark.parametrize("form", ["response", "event"])
def test_an_expired_watch_lists_again_and_loses_nothing(ready, form):
    """python#2223: 410 as HTTP status and as ERROR event, twice in a row."""
    name = first_node(ready)
    expired = api_faults.Expired(form=form)
    with api_faults.injected(
        ready.sim, expired, api="kubernetes", verb="watch", resource="nodes", times=2
    ) as fault:
        sightings = follow(ready.ports)
        _, troubles = until(sightings, lambda _: fault.hits == 2)
        ready.sim.inject("host-crash", name)
        _, more = until(sightings, lambda found: silent_hosts(found) == [name])
    assert troubles + more == []


def test_a_half_open_stream_is_noticed_by_its_silence(ready):
    """kopf#1276: deaf but alive."""
    name = first_node(ready)
    with api_faults.injected(
        ready.sim, api_faults.SilentWatch(), api="kubernetes", verb="watch", resource="nodes", times=1
    ) as fault:
        sightings = follow(ready.ports, silence_s=0.3)
        until(sightings, is_whole)
        ready.sim.inject("host-crash", name)
        until(sightings, lambda found: silent_hosts(found) == [name])
        assert fault.hits == 1


@pytest.mark.parametrize(
    "effect",
    [
        api_faults.Reset(when="before"),
        api_faults.Reset(when="after"),
        api_faults.Truncated(how="json"),
        api_faults.Truncated(how="connection"),
        api_faults.ErrorUnder200(),
        api_faults.Error(500),
        api_faults.Error(503),
        api_faults.Error(429, retry_after_s=1),
    ],
    ids=repr,
)
def test_whatever_happens_to_a_stream_is_told_and_mended(ready, effect):
    name = first_node(ready)
    with api_faults.injected(
        ready.sim, effect, api="kubernetes", verb="watch", resource="nodes", times=1
    ) as fault:
        sightings = follow(ready.ports)
        until(sightings, is_whole)
        ready.sim.inject("host-crash", name)
        found, _ = until(sightings, lambda found: silent_hosts(found) == [name])
        assert fault.hits >= 1
    assert is_whole(found)


@pytest.mark.parametrize("effect", [api_faults.DuplicateEvents(), api_faults.ReorderedEvents()], ids=repr)
def test_repeated_and_overtaken_events_end_in_the_truth(ready, effect):
    name = first_node(ready)
    with api_faults.injected(ready.sim, effect, api="kubernetes", verb="watch"):
        sightings = follow(ready.ports, timeout_s=1000.0)
        until(sightings, is_whole)
        for fault, wanted in (("host-crash", [name]), ("host-up", [])):
            ready.sim.inject(fault, name)
            until(sightings, lambda found, wanted=wanted: silent_hosts(found) == wanted)


def test_what_cannot_be_mended_ends_the_watch(ready):
    with (
        api_faults.injected(ready.sim, api_faults.Error(403), api="kubernetes", resource="nodes"),
        pytest.raises(errors.NotPermitted),
    ):
        list(follow(ready.ports))


def test_a_cluster_without_slices_says_how_to_get_them(make_world):
    world = make_world(ready_cubes=1, slice_controller=False)
    with pytest.raises(errors.NotFound, match="no Slice resource"):
        list(follow(world.ports))


def test_the_watch_ends_in_time_and_its_threads_with_it(ready):
    sightings = list(follow(ready.ports, timeout_s=35.0))
    assert 3 <= len(sightings) <= 8  # the first one, and one whenever nothing was told for ten seconds
    moments = [sighting.fleet.observed_at for sighting in sightings if sighting.fleet]
    assert moments == sorted(moments)
    for thread in threading.enumerate():
        if thread.name.startswith("tpuctl-watch"):
            thread.join(5)
            assert not thread.is_alive()


def test_what_has_no_watch_is_read_again(ready):
    cube = ready.ports.fleet.observe(tuple(Name)).cubes[0]
    sightings = follow(ready.ports, tuple(Name), reread_s=20.0)
    until(sightings, is_whole)
    ready.sim.inject("cube-degraded", cube.sub_block.name)

    def told(found):
        return any(item.sub_block.degraded_infra for item in found.cubes if item.sub_block)

    found, _ = until(sightings, told)
    assert [item.id for item in found.cubes if item.sub_block.degraded_infra] == [cube.id]


@pytest.mark.parametrize(
    "reply",
    [
        scripted.google_error(429, "Quota exceeded for quota metric 'Read requests'", "RESOURCE_EXHAUSTED"),
        scripted.google_error(403, "Rate Limit Exceeded", reason="rateLimitExceeded"),
    ],
    ids=["429", "403"],
)
def test_a_service_that_is_asked_too_often_is_told_and_asked_again(ready, reply):
    """It may pass, so it does not end the watch."""
    spoilt = []

    def script(request):
        is_pools = request.path.endswith("/nodePools")
        return reply if is_pools and spoilt else ready.relay(request)

    ready.relayed.script = script
    sightings = follow(ready.through_relay, (*BOTH, Name.NODE_POOLS), reread_s=100.0)
    until(sightings, is_whole)
    spoilt.append(True)
    troubled = next(item for item in sightings if item.trouble)
    assert "cannot list node pools" in troubled.trouble
    assert is_whole(troubled.fleet)
    spoilt.clear()
    assert is_whole(next(item for item in sightings if not item.trouble).fleet)


def test_a_service_that_fails_later_is_told_and_its_last_word_kept(ready):
    sightings = follow(ready.ports, tuple(Name), reread_s=20.0, timeout_s=2000.0)
    until(sightings, is_whole)
    with api_faults.injected(ready.sim, api_faults.Error(503), api="compute"):
        troubled = next(item for item in sightings if item.trouble)
        assert "cannot list blocks" in troubled.trouble
        assert all(cube.sub_block for cube in troubled.fleet.cubes)
    healed = next(item for item in sightings if not item.trouble)
    assert healed.fleet is not None


class Restarting:
    """A server on one port that can be taken down and come back, with chunked watches."""

    def __init__(self, revision):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.revision = revision
        self.nodes = manifests.cube("cube-1")
        self.connections = []
        self.watched = threading.Event()
        self._start()

    def _start(self):
        self._thread = threading.Thread(target=self._serve, args=(self._listener,), daemon=True)
        self._thread.start()

    def restart(self, nodes, revision):
        """Down, then up again as another server: its revisions begin anew."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self.connections:
            _hang_up(connection)
        self._thread.join(5)
        self.nodes, self.revision = nodes, revision
        self._listener = socket.create_server(("127.0.0.1", self.port), reuse_port=False)
        self._start()

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)
        for connection in self.connections:
            _hang_up(connection)

    def _serve(self, listener):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection):
        request = b""
        try:
            while b"\r\n\r\n" not in request:
                chunk = connection.recv(65_536)
                if not chunk:
                    return
                request += chunk
            head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            if b"watch=true" in request:
                connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
                self.watched.set()
                connection.recv(1)  # silent until somebody closes it
                return
            metadata = {"resourceVersion": str(self.revision)}
            body = json.dumps({"kind": "NodeList", "metadata": metadata, "items": self.nodes})
            connection.sendall(
                f"{head}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
            )
        except OSError:
            return
        finally:
            connection.close()


def _hang_up(connection):
    """Close it, though a thread may be reading from it; the client may have been faster."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def test_a_server_that_comes_back_as_another_one_is_listed_again(tmp_path):
    """python-base#57: resuming from an old revision on a new server would hear nothing for ever."""
    server = Restarting(revision=9_000_000)
    url = f"http://127.0.0.1:{server.port}"

    ports = connect.connect(scripted.context(url, tmp_path), clock=scripted.FakeClock())
    sightings = follow(ports, (Name.NODES,), timeout_s=10_000.0)
    try:
        until(sightings, lambda found: len(found.cubes) == 1)
        assert server.watched.wait(5)
        server.restart(manifests.cube("cube-1") + manifests.cube("cube-2"), revision=3)
        _, troubles = until(sightings, lambda found: len(found.cubes) == 2, limit=9_000)
        assert all("watch of nodes" in text or "list nodes" in text for text in troubles)
    finally:
        sightings.close()
        server.close()


# -- costs -----------------------------------------------------------------------------------------------


def test_a_stream_with_nothing_to_tell_is_heard_by_its_bookmarks(ready, monkeypatch):
    """Slices change once in hours; that is no silence."""
    monkeypatch.setattr(watch, "BOOKMARK_INTERVAL_S", 0.02)
    monkeypatch.setattr(watch, "BOOKMARK_BEFORE_END_S", 0.0)
    sightings = follow(ready.ports)
    first, _ = until(sightings, is_whole)
    ready.sim.advance(600)

    def is_heard(found):
        ages = [found.observed_at - source.observed_at for source in found.sources]
        return found.observed_at > first.observed_at and max(ages) < datetime.timedelta(seconds=60)

    later, troubles = until(sightings, is_heard)
    assert troubles == []
    assert later.blocks is first.blocks


def test_pods_are_watched_too(ready):
    with api_faults.injected(
        ready.sim, api_faults.Observe(), api="kubernetes", verb="list", resource="pods"
    ) as lists:
        sightings = follow(ready.ports, (Name.NODES, Name.SLICES, Name.PODS))
        first, _ = until(sightings, is_whole)
        assert first.pods == ()
        for chips in ("4", None):
            create_pod(ready.sim, f"pod-{chips}", first.cubes[0].hosts[0].name, chips)
        found, troubles = until(sightings, lambda found: found.pods)
        assert [(pod.name, pod.node, pod.chips) for pod in found.pods] == [
            ("pod-4", first.cubes[0].hosts[0].name, 4)
        ]
        assert found.blocks is first.blocks
        ready.sim.call(lambda: ready.sim.world.store.delete("pods", "default", "pod-4"))
        until(sightings, lambda found: not found.pods)
        assert lists.calls == 1
    assert troubles == []


def create_pod(sim, name, node, chips):
    container = {
        "name": "c",
        "image": "i",
        **({"resources": {"limits": {documents.TPU: chips}}} if chips else {}),
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeName": node, "containers": [container]},
        "status": {"phase": "Pending"},
    }
    sim.call(lambda: sim.world.store.create("pods", pod))


def test_what_was_just_read_is_not_read_again_to_watch_it(ready):
    """A loop that begins lists 100,000 nodes once, not twice; nothing that happens meanwhile is lost."""
    ports = ready.ports
    with api_faults.injected(
        ready.sim, api_faults.Observe(), api="kubernetes", verb="list", resource="nodes"
    ) as lists:
        listed = ports.fleet.observe(tuple(Name))
        name = listed.cubes[0].hosts[0].name
        ready.sim.inject("host-crash", name)
        ready.sim.advance(100)
        found, troubles = until(
            follow(ports, (Name.NODES, Name.SLICES, Name.PODS)), lambda found: silent_hosts(found) == [name]
        )
        assert lists.calls == 1
        assert troubles == []
        assert found.cubes_by_id[listed.cubes[1].id].hosts == listed.cubes[1].hosts
        # The next watch lists: that reading is spent.
        until(follow(ports), lambda found: silent_hosts(found) == [name])
        assert lists.calls == 2


def test_an_old_list_is_no_beginning(ready, monkeypatch):
    monkeypatch.setattr(snapshot, "YOUNG_S", 60.0)
    ports = ready.ports
    ports.fleet.observe(tuple(Name))
    ready.clock.sleep(61.0)
    with api_faults.injected(
        ready.sim, api_faults.Observe(), api="kubernetes", verb="list", resource="nodes"
    ) as lists:
        until(follow(ports), is_whole)
        assert lists.calls == 1


def test_after_a_break_only_a_new_list_will_do(ready):
    """What was read before says nothing about whether the server lives."""
    ports = ready.ports
    with api_faults.injected(
        ready.sim, api_faults.Reset(when="before"), api="kubernetes", verb="watch", resource="nodes", times=1
    ):
        sightings = follow(ports)
        until(sightings, is_whole)
        ports.fleet.observe(tuple(Name))
        with api_faults.injected(
            ready.sim, api_faults.Observe(), api="kubernetes", verb="list", resource="nodes"
        ) as lists:
            until(sightings, lambda _: lists.calls == 1)


# -- tables ----------------------------------------------------------------------------------------------


def entry(name, revision, item):
    return watch_streams.Entry(name, revision, item)


def test_an_overtaken_event_does_not_bring_back_what_is_gone():
    table = tables.Table()
    assert table.replace((entry("a", 1, "one"), entry("b", 2, "two")))
    assert table.take(entry("a", 5, "new"), deleted=False)
    assert not table.take(entry("a", 4, "old"), deleted=False)
    assert table.take(entry("b", 7, "two"), deleted=True)
    assert not table.take(entry("b", 6, "late"), deleted=False)
    assert table.items() == ("new",)
    assert table.take(entry("b", 8, "again"), deleted=False)
    assert table.items() == ("new", "again")


def test_a_heartbeat_is_no_news():
    """kueue#6570: heartbeats requeued everything."""
    table = tables.Table()
    table.replace((entry("a", 1, "same"),))
    assert not any(table.take(entry("a", 2 + beat, "same"), deleted=False) for beat in range(10_000))
    assert not table.replace((entry("a", 20_000, "same"),))
    assert table.replace(())


def test_revisions_that_are_no_numbers_are_taken_as_they_come():
    table = tables.Table()
    table.replace((entry("a", 0, "one"),))
    assert table.take(entry("a", 0, "two"), deleted=False)
    assert table.take(entry("a", 0, "two"), deleted=True)
    assert table.items() == ()


def test_as_long_as_nothing_is_new_the_same_objects_are_shown():
    table = tables.Table()
    table.replace((entry("a", 1, ["a"]), entry("b", 1, ["b"])))
    shown = table.items()
    table.take(entry("a", 2, ["a"]), deleted=False)
    table.take(entry("c", 3, None), deleted=False)
    table.take(entry("c", 4, None), deleted=True)
    table.replace((entry("a", 5, ["a"]), entry("b", 5, ["b"])))
    assert table.items() is shown
    table.take(entry("b", 6, ["other"]), deleted=False)
    assert table.items() == (["a"], ["other"])
    assert table.items()[0] is shown[0]


def test_only_so_many_deletions_are_remembered(monkeypatch):
    monkeypatch.setattr(tables, "_MOST_BURIED", 10)
    table = tables.Table()
    for number in range(100):
        table.take(entry(f"pod-{number}", 2 * number + 1, "pod"), deleted=False)
        table.take(entry(f"pod-{number}", 2 * number + 2, "pod"), deleted=True)
    assert not table.take(entry("pod-99", 199, "late"), deleted=False)
    assert table.items() == ()
    assert len(table._buried) == 10


def test_things_that_belong_to_no_fleet_are_known_and_not_shown():
    table = tables.Table()
    table.replace((entry("cpu", 1, None), entry("tpu", 1, "host")))
    assert table.items() == ("host",)


class NoEvents:
    """A kube whose watches end at once, in good order."""

    server = "nowhere"

    def __init__(self):
        self.opened = 0

    def stream(self, path, *, query, silence_s):
        self.opened += 1

        class Empty:
            def stream(self, amount, *, decode_content):
                return iter(())

            def close(self):
                pass

        return Empty()


class Fixed:
    source = Name.NODES
    what = "nodes"

    def __init__(self):
        self.lists = 0

    def path(self):
        return "/nodes"

    def listing(self, *, anew):
        self.lists += 1
        return watch_streams.Listed(Name.NODES, (), "1", scripted.MOMENT)

    def entry(self, document):
        raise AssertionError("there are no events")


def test_a_server_that_ends_every_watch_is_not_hammered():
    news = queue.SimpleQueue()
    kube, resource = NoEvents(), Fixed()
    stream = watch_streams.Stream(kube, resource, news, silence_s=1.0)
    stream.start()
    while not isinstance(news.get(timeout=5), watch_streams.Troubled):
        pass
    stream.stop()
    stream.join(5)
    assert not stream.is_alive()
    assert kube.opened <= 6
    assert resource.lists <= 2
