"""Faults of the APIs, as real clients on real sockets see them."""

from __future__ import annotations

import collections
import contextlib
import datetime
import email.utils
import http.client
import json
import socket
import ssl
import threading
import urllib.parse
from typing import TYPE_CHECKING

import kubernetes
import pytest
import urllib3
from google.api_core import exceptions as google_exceptions
from google.auth import exceptions as auth_exceptions
from google.cloud import container_v1
from google.cloud.container_v1.services.cluster_manager.transports.rest import ClusterManagerRestTransport
from google.oauth2 import credentials

from tests.sim import cluster_world
from tests.sim.fault_clients import CLUSTER, CONFIGMAPS, NODES, POLICIES, ask, config_map, names, watching
from tpuctl.sim import api_faults, simulator
from tpuctl.sim.kube import paging

if TYPE_CHECKING:
    from collections.abc import Iterator

SHORT_S = 0.05
NO_ANSWER = (http.client.RemoteDisconnected,)


@pytest.fixture(scope="module")
def shared() -> Iterator[simulator.Simulator]:
    settings = simulator.Settings(cubes=1, ready_cubes=1, slice_controller=True)
    with simulator.Simulator(settings) as running:
        yield running
        running.call(lambda: cluster_world.check_invariants(running.world))


@pytest.fixture
def sim(shared: simulator.Simulator) -> Iterator[simulator.Simulator]:
    yield shared
    assert shared.call(lambda: list(shared.world.api_faults)) == [], "a test left a fault behind"
    for name in names(shared):
        ask(shared, "DELETE", f"{CONFIGMAPS}/{name}")


def create(sim, name="a", **options):
    return ask(sim, "POST", CONFIGMAPS, config_map(name), **options)


# Error codes


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (401, "Unauthorized"),
        (403, "Forbidden"),
        (409, "Conflict"),
        (500, "InternalError"),
        (503, "ServiceUnavailable"),
        (504, "Timeout"),
    ],
)
def test_kubernetes_errors_are_status_bodies(sim, code, reason):
    with api_faults.injected(sim, api_faults.Error(code), api="kubernetes") as fault:
        answer = create(sim)
    assert (answer.status, answer.json["kind"], answer.json["status"]) == (code, "Status", "Failure")
    assert (answer.json["reason"], answer.json["code"]) == (reason, code)
    assert (fault.calls, fault.hits, names(sim)) == (1, 1, [])


@pytest.mark.parametrize("code", [401, 403, 404, 409, 429, 500, 503, 504])
@pytest.mark.parametrize(("api", "path"), [("container", CLUSTER), ("compute", POLICIES)])
def test_google_errors_carry_the_canonical_word_where_the_service_does(sim, api, path, code):
    with api_faults.injected(sim, api_faults.Error(code), api=api):
        answer = ask(sim, "GET", path)
    error = answer.json["error"]
    assert (answer.status, error["code"]) == (code, code)
    assert ("status" in error) is (api == "container")
    assert ask(sim, "GET", path).status == 200


def test_too_many_requests_come_with_retry_after(sim):
    with api_faults.injected(sim, api_faults.Error(429, retry_after_s=7), times=3):
        answers = [ask(sim, "GET", path) for path in (NODES, CLUSTER, POLICIES)]
    assert [(one.status, one.headers["Retry-After"]) for one in answers] == [(429, "7")] * 3
    with api_faults.injected(sim, api_faults.Error(429), api="kubernetes"):
        answer = ask(sim, "GET", NODES)
    assert (answer.headers["Retry-After"], answer.headers.get_content_type()) == ("1", "text/plain")


def test_a_forbidden_call_is_named_as_the_server_names_it(sim):
    with api_faults.injected(sim, api_faults.Error(403)):
        answer = ask(sim, "GET", NODES)
    refused = 'nodes is forbidden: User "sim-admin" cannot list resource "nodes" in API group ""'
    assert answer.json["message"] == f"{refused} at the cluster scope"


def test_an_error_after_the_work_leaves_the_work_done(sim):
    with api_faults.injected(sim, api_faults.Error(504, when="after"), verb="create"):
        assert create(sim).status == 504
    assert names(sim) == ["a"]


def test_a_missing_object_and_a_missing_page(sim):
    with api_faults.injected(sim, api_faults.Error(404), times=2, api="kubernetes"):
        named, listed = ask(sim, "GET", f"{CONFIGMAPS}/x"), ask(sim, "GET", CONFIGMAPS)
    assert (named.json["reason"], named.json["details"]) == (
        "NotFound",
        {"name": "x", "kind": "configmaps"},
    )
    assert listed.body == b"404 page not found\n"


@pytest.mark.parametrize(("path", "key"), [(NODES, "status"), (CLUSTER, "error"), (POLICIES, "error")])
def test_an_error_body_under_200(sim, path, key):
    with api_faults.injected(sim, api_faults.ErrorUnder200()):
        answer = ask(sim, "GET", path)
    assert answer.status == 200
    assert key in answer.json
    assert answer.json.get("kind", "Status") == "Status"


# Broken connections


@pytest.mark.parametrize(("when", "done"), [("before", []), ("after", ["a"])])
def test_a_reset_is_one_on_the_socket(sim, when, done):
    with (
        api_faults.injected(sim, api_faults.Reset(when), verb="create"),
        pytest.raises(ConnectionResetError) as caught,
    ):
        create(sim)
    # Not its subclass RemoteDisconnected, which is what an ordinary close looks like.
    assert type(caught.value) is ConnectionResetError
    assert names(sim) == done


@pytest.mark.parametrize(("when", "done"), [("before", []), ("after", ["a"])])
def test_over_tls_the_library_takes_a_reset_for_an_end(sim, when, done):
    with (
        api_faults.injected(sim, api_faults.Reset(when), verb="create"),
        pytest.raises(ConnectionResetError),
    ):
        create(sim, tls=True)
    assert names(sim) == done


def test_below_tls_it_is_a_reset_as_well(sim):
    place = urllib.parse.urlsplit(sim.tls_url)
    context = ssl.create_default_context(cadata=sim.call(lambda: sim._running().authority_pem).decode())
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    secure = context.wrap_bio(received, sent, server_hostname=place.hostname)
    with (
        api_faults.injected(sim, api_faults.Reset()),
        socket.create_connection((place.hostname, place.port), timeout=5) as raw,
    ):
        while secure.version() is None:
            with contextlib.suppress(ssl.SSLWantReadError):
                secure.do_handshake()
            raw.sendall(sent.read())
            if secure.version() is None:
                received.write(raw.recv(65536))
        secure.write(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
        raw.sendall(sent.read())
        with pytest.raises(ConnectionResetError):
            collections.deque(iter(lambda: raw.recv(65536), b""), maxlen=0)  # session tickets come first


@pytest.mark.parametrize(("path", "body"), [(CLUSTER, None), (POLICIES, None)])
def test_google_connections_are_reset_too(sim, path, body):
    with (
        api_faults.injected(sim, api_faults.Reset()),
        pytest.raises(ConnectionResetError, match="reset by peer"),
    ):
        ask(sim, "GET", path, body)


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize(("when", "done"), [("before", []), ("after", ["a"])])
def test_silence_ends_with_the_connection(sim, when, done, tls):
    effect = api_faults.Timeout(when, hold_s=SHORT_S)
    with api_faults.injected(sim, effect, verb="create"), pytest.raises(NO_ANSWER):
        create(sim, tls=tls)
    assert names(sim) == done


def test_silence_outlasts_an_impatient_client(sim):
    effect = api_faults.Timeout("after", hold_s=60)
    with api_faults.injected(sim, effect, verb="create"), pytest.raises(TimeoutError):
        create(sim, timeout_s=10 * SHORT_S)
    assert names(sim) == ["a"]


def test_a_slow_answer_is_right(sim):
    # A busy machine may keep the client from its timeout for a while.
    with api_faults.injected(sim, api_faults.Slow(10 * SHORT_S), verb="create"):
        with pytest.raises(TimeoutError):
            create(sim, "late", timeout_s=SHORT_S)
        assert create(sim, "patient").status == 201


def test_other_calls_go_on_while_one_is_held(sim):
    effect = api_faults.Timeout(hold_s=60)
    with api_faults.injected(sim, effect, resource="nodes"):
        ended = threading.Event()

        def hang():
            with contextlib.suppress(TimeoutError):
                ask(sim, "GET", NODES, timeout_s=0.15)
            ended.set()

        threading.Thread(target=hang).start()
        assert create(sim).status == 201
        assert ended.wait(5)


@pytest.mark.parametrize("tls", [False, True])
def test_a_body_that_ends_early(sim, tls):
    with (
        api_faults.injected(sim, api_faults.Truncated("connection"), resource="nodes"),
        pytest.raises(http.client.IncompleteRead) as caught,
    ):
        ask(sim, "GET", NODES, tls=tls)
    assert len(caught.value.partial) > 0
    assert caught.value.expected > 0


def test_a_body_that_is_half_a_document(sim):
    whole = ask(sim, "GET", NODES).body
    with api_faults.injected(sim, api_faults.Truncated("json"), resource="nodes"):
        half = ask(sim, "GET", NODES)
    assert (half.status, half.body) == (200, whole[: len(whole) // 2])
    with pytest.raises(json.JSONDecodeError):
        _ = half.json


def test_the_server_ends_while_calls_are_held():
    settings = simulator.Settings(cubes=1)
    with simulator.Simulator(settings) as sim:
        sim.call(lambda: sim.world.api_faults.add(api_faults.Timeout(hold_s=600)))
        seen = []

        def hang():
            try:
                ask(sim, "GET", "/version")
            except OSError as error:
                seen.append(error)

        thread = threading.Thread(target=hang)
        thread.start()
        while not sim.call(lambda: next(iter(sim.world.api_faults)).hits):
            pass
    thread.join(5)
    assert len(seen) == 1


# The Date header


@pytest.mark.parametrize("offset_s", [3600, -90])
def test_a_skewed_clock(sim, offset_s):
    with api_faults.injected(sim, api_faults.ClockSkew(offset_s), times=2):
        dates = [ask(sim, "GET", path).headers.get_all("Date") for path in (NODES, CLUSTER)]
    [told] = dates[0]
    now = sim.call(sim.world.clock.now).replace(microsecond=0)
    assert dates[1] == [told]
    assert email.utils.parsedate_to_datetime(told) - now == datetime.timedelta(seconds=offset_s)


# Lists that expire


def page(sim, token=""):
    return ask(sim, "GET", f"{NODES}?limit=5" + (f"&continue={token}" if token else ""))


@pytest.mark.parametrize("wanted", [1, 2, 3])
def test_a_list_expires_on_the_page_that_was_asked_for(sim, wanted):
    effect = api_faults.Expired()
    with api_faults.injected(sim, effect, resource="nodes", page=wanted) as fault:
        token = ""
        for _ in range(1, wanted):
            answer = page(sim, token)
            assert answer.status == 200
            token = answer.json["metadata"]["continue"]
        gone = page(sim, token)
    assert (gone.status, gone.json["reason"], fault.calls, fault.hits) == (410, "Expired", 1, 1)
    offered = gone.json["metadata"].get("continue")
    assert (offered is None) is (wanted == 1)
    if offered:
        assert gone.json["message"] == paging.CONTINUE_EXPIRED
        rest = page(sim, offered).json
        assert len(rest["items"]) == min(5, 16 - 5 * (wanted - 1))


def test_pages_begin_again_with_the_list(sim):
    with api_faults.injected(sim, api_faults.Expired(), page=2, times=1):
        token = page(sim).json["metadata"]["continue"]
        assert page(sim, token).status == 410
        token = page(sim).json["metadata"]["continue"]
        assert page(sim, token).status == 200


# Watches


def test_a_watch_that_stays_open_and_says_nothing(sim):
    with api_faults.injected(sim, api_faults.SilentWatch(events=1), times=1) as fault:
        with watching(sim, timeout_s=0.1) as watch:
            create(sim, "heard")
            assert watch.event() == ("ADDED", "heard")
            create(sim, "lost")
            with pytest.raises(TimeoutError):
                watch.line()
        with watching(sim) as watch:
            create(sim, "heard-again")
            assert watch.event() == ("ADDED", "heard-again")
    assert (fault.calls, fault.hits) == (2, 1)


def test_a_silent_watch_lets_go_of_the_store(sim):
    with api_faults.injected(sim, api_faults.SilentWatch()):
        with watching(sim, timeout_s=0.1) as watch, pytest.raises(TimeoutError):
            watch.line()
        for _ in range(200):
            if not sim.call(lambda: sim.world.kube.watches.count):
                break
        assert sim.call(lambda: sim.world.kube.watches.count) == 0


def test_events_that_come_twice(sim):
    with api_faults.injected(sim, api_faults.DuplicateEvents()), watching(sim) as watch:
        create(sim, "a")
        create(sim, "b")
        assert [watch.event() for _ in range(4)] == [("ADDED", "a")] * 2 + [("ADDED", "b")] * 2


def test_events_in_the_wrong_order(sim):
    effect = api_faults.ReorderedEvents(hold_s=5)
    with api_faults.injected(sim, effect), watching(sim) as watch:
        for name in "abcd":
            create(sim, name)
        assert [watch.event()[1] for _ in range(4)] == ["b", "a", "d", "c"]


def test_an_event_without_a_partner_comes_late_and_not_never(sim):
    effect = api_faults.ReorderedEvents(hold_s=SHORT_S)
    with api_faults.injected(sim, effect), watching(sim) as watch:
        create(sim, "alone")
        assert watch.event() == ("ADDED", "alone")


def test_a_watch_breaks_after_its_first_events(sim):
    create(sim, "a")
    with (
        api_faults.injected(sim, api_faults.Reset("after"), verb="watch"),
        pytest.raises((ConnectionResetError, http.client.IncompleteRead)),
        watching(sim, since=False) as watch,
    ):
        collections.deque(iter(watch.line, b""), maxlen=0)


def test_a_watch_with_half_a_line(sim):
    create(sim, "a")
    with (
        api_faults.injected(sim, api_faults.Truncated("json"), verb="watch"),
        watching(sim, since=False) as watch,
        pytest.raises(json.JSONDecodeError),
    ):
        watch.event()


def test_a_watch_is_told_that_it_expired_by_code_or_by_event(sim):
    with api_faults.injected(sim, api_faults.Expired(), verb="watch"), watching(sim) as watch:
        assert watch.status == 410
    with api_faults.injected(sim, api_faults.Expired("event")), watching(sim) as watch:
        assert watch.status == 200
        assert b'"type":"ERROR"' in (line := watch.line())
        assert b'"code":410' in line
        assert watch.line() == b""


# The usual clients


def kubernetes_client(sim, tmp_path):
    path = sim.kubeconfig(tmp_path / "kubeconfig")
    configuration = kubernetes.client.Configuration()
    kubernetes.config.load_kube_config(str(path), client_configuration=configuration)
    configuration.retries = False
    return kubernetes.client.CoreV1Api(kubernetes.client.ApiClient(configuration))


def test_the_kubernetes_client_sees_resets_and_errors(sim, tmp_path):
    client = kubernetes_client(sim, tmp_path)
    with (
        api_faults.injected(sim, api_faults.Reset("after"), verb="create"),
        pytest.raises(urllib3.exceptions.ProtocolError, match="Connection aborted"),
    ):
        client.create_namespaced_config_map("default", config_map("a"))
    assert names(sim) == ["a"]
    with (
        api_faults.injected(sim, api_faults.Error(409), verb="delete"),
        pytest.raises(kubernetes.client.ApiException) as caught,
    ):
        client.delete_namespaced_config_map("a", "default")
    assert (caught.value.status, names(sim)) == (409, ["a"])
    with (
        api_faults.injected(sim, api_faults.Timeout(hold_s=60)),
        pytest.raises(urllib3.exceptions.ReadTimeoutError),
    ):
        client.list_node(_request_timeout=SHORT_S)
    client.api_client.close()


def test_the_google_client_sees_its_own_exceptions(sim):
    transport = ClusterManagerRestTransport(
        host=sim.url.removeprefix("http://"),
        url_scheme="http",
        credentials=credentials.Credentials(token=sim.token),
    )
    client = container_v1.ClusterManagerClient(transport=transport)
    name = CLUSTER.removeprefix("/v1/")
    for code, kind in (
        (401, auth_exceptions.RefreshError),  # the library asks for a new token, and cannot get one
        (403, google_exceptions.Forbidden),
        (429, google_exceptions.TooManyRequests),
        (503, google_exceptions.ServiceUnavailable),
    ):
        with api_faults.injected(sim, api_faults.Error(code), api="container"), pytest.raises(kind):
            client.get_cluster(name=name, retry=None)
    assert client.get_cluster(name=name).name == "sim"
    transport.close()
