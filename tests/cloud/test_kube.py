"""The Kubernetes connection against servers that lie, stall and break off."""

from __future__ import annotations

import pytest

from tests.cloud import scripted
from tpuctl.cloud import kube as kube_module
from tpuctl.model import errors

Reply = scripted.Reply


@pytest.fixture
def world(tmp_path):
    """Makes a server that follows a script, and a client of it."""
    servers = []

    def make(script, **changes):
        server = scripted.Server(script)
        servers.append(server)
        server.__enter__()
        clock = scripted.FakeClock()
        return server, kube_module.Kube(scripted.context(server.url, tmp_path, **changes), clock), clock

    yield make
    for server in servers:
        server.__exit__()


def page(names, *, revision="7", token="", remaining=None):
    metadata = {"resourceVersion": revision}
    if token:
        metadata["continue"] = token
    if remaining is not None:
        metadata["remainingItemCount"] = remaining
    items = [{"metadata": {"name": name}} for name in names]
    return Reply(200, {"kind": "NodeList", "apiVersion": "v1", "metadata": metadata, "items": items})


def in_order(*replies):
    """A script of fixed answers; the last one repeats."""
    left = list(replies)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


def listed(kube):
    return kube.listing("/api/v1/nodes", lambda item: item["metadata"]["name"], what="list nodes")


def test_credentials_are_really_on_the_wire(world):
    server, kube, _ = world(in_order(page(["a"])))
    listed(kube)
    assert server.requests[0].headers["authorization"] == f"Bearer {scripted.TOKEN}"
    assert server.requests[0].headers["user-agent"].startswith("tpuctl/")


def test_all_pages_are_read_at_one_revision(world):
    script = in_order(page(["a", "b"], token="t1", remaining=1), page(["c"]))
    server, kube, _ = world(script)
    found = listed(kube)
    assert found == kube_module.Listing(["a", "b", "c"], "7", scripted.MOMENT)
    assert [request.query for request in server.requests] == [
        {"limit": "500"},
        {"limit": "500", "continue": "t1"},
    ]


def test_a_list_that_expires_half_way_is_begun_again(world):
    script = in_order(
        page(["old"], token="t1"),
        scripted.status(410, "Expired"),
        page(["a"], revision="9", token="t2"),
        page(["b"], revision="9"),
    )
    _, kube, _ = world(script)
    assert listed(kube) == kube_module.Listing(["a", "b"], "9", scripted.MOMENT)


def test_a_list_that_always_expires_is_an_error_and_not_a_short_list(world):
    def script(request):
        return scripted.status(410, "Expired") if "continue" in request.query else page(["a"], token="t1")

    server, kube, _ = world(script)
    with pytest.raises(errors.Unavailable, match=r"expired in the middle.*nothing was assumed"):
        listed(kube)
    assert len(server.requests) == 2 * (1 + kube_module.MAX_RESTARTS)


def test_a_token_for_an_inconsistent_rest_is_not_used(world):
    expired = scripted.status(410, "Expired")
    expired.body["metadata"] = {"continue": "inconsistent"}
    server, kube, _ = world(in_order(page(["a"], token="t1"), expired, page(["b"])))
    listed(kube)
    assert "inconsistent" not in [request.query.get("continue") for request in server.requests]


@pytest.mark.parametrize(
    "replies",
    [
        [page(["a"], token="t1", remaining=5), page(["b"])],  # ends before the promised count
        [page(["a"], remaining=3)],  # promises more and does not go on
        [page(["a"], token="t1"), page(["b"], revision="8")],  # another revision half-way
        [page(["a"], token="t1")],  # does not get past its first page
    ],
)
def test_truncated_lists_are_errors(world, replies):
    def script(request):
        return replies[-1] if "continue" in request.query else replies[0]

    _, kube, _ = world(script)
    with pytest.raises(errors.Unavailable, match="nothing was assumed"):
        listed(kube)


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "NodeList", "items": []},
        {"kind": "NodeList", "metadata": {}, "items": []},
        {"kind": "NodeList", "metadata": {"resourceVersion": "1", "continue": "t"}},
        {"kind": "NodeList", "metadata": {"resourceVersion": "1", "continue": "t"}, "items": None},
        {"kind": "NodeList", "metadata": {"resourceVersion": "1"}},
        {"kind": "NodeList", "metadata": {"resourceVersion": "1"}, "items": {}},
        {"kind": "NodeList", "metadata": {"resourceVersion": "1"}, "items": ["x"]},
        {"kind": "NodeList", "metadata": {"resourceVersion": "1"}, "items": [{"metadata": {}}]},
        ["not", "an", "object"],
        b"<html><body>Sign in</body></html>",
        b'{"kind": "NodeList", "metadata": {"resourceVersion": "1"}, "items": [',
        b"",
        {"error": {"code": 500, "message": "backend"}},
    ],
)
def test_bodies_that_are_no_list(world, body):
    _, kube, _ = world(in_order(Reply(200, body)))
    with pytest.raises(errors.Unavailable) as caught:
        listed(kube)
    assert "<html>" not in caught.value.message
    assert caught.value.__cause__ is not None


def test_an_empty_list_is_a_list(world):
    _, kube, _ = world(in_order(page([])))
    assert listed(kube).items == []


def test_a_failure_under_a_code_of_success_is_a_failure(world):
    _, kube, _ = world(in_order(Reply(200, scripted.status(403, "Forbidden", "no list for you").body)))
    with pytest.raises(errors.NotPermitted, match="no list for you"):
        listed(kube)


@pytest.mark.parametrize(
    ("reply", "error", "text"),
    [
        (scripted.status(401, "Unauthorized", "Unauthorized"), errors.NotPermitted, "Unauthorized"),
        (
            scripted.status(403, "Forbidden", 'User "system:anonymous" cannot'),
            errors.NotPermitted,
            "no credentials",
        ),
        (scripted.status(403, "Forbidden", 'User "limited" cannot list'), errors.NotPermitted, "limited"),
        (
            scripted.status(403, "Forbidden", 'admission webhook "w" denied the request: x'),
            errors.UsageError,
            "webhook",
        ),
        (scripted.status(403, "Forbidden", "exceeded quota: q"), errors.DoesNotFit, "exceeded quota"),
        (scripted.status(404, "NotFound"), errors.NotFound, "no"),
        (Reply(404, b"404 page not found\n"), errors.NotFound, "HTTP 404"),
        (scripted.status(409, "Conflict"), errors.Conflict, "no"),
        (scripted.status(400, "BadRequest"), errors.UsageError, "no"),
        (scripted.status(422, "Invalid", "bad name"), errors.UsageError, "bad name"),
        (Reply(302, b"", {"Location": "https://login.example"}), errors.Unavailable, "redirection"),
        (Reply(500, b"<html>oops</html>"), errors.Unavailable, "HTTP 500"),
        (scripted.status(503, "ServiceUnavailable"), errors.Unavailable, "HTTP 503"),
    ],
)
def test_refusals(world, reply, error, text):
    _, kube, _ = world(in_order(reply))
    with pytest.raises(error) as caught:
        kube.get("/x", what="read x")
    assert type(caught.value) is error
    assert text in caught.value.message
    assert caught.value.message.startswith("cannot read x: ")
    assert "<html>" not in caught.value.message


def test_causes_of_an_invalid_object_are_told(world):
    reply = scripted.status(
        422, "Invalid", "bad", causes=[{"field": "spec.type", "message": "unsupported"}, {"message": "m"}]
    )
    _, kube, _ = world(in_order(reply))
    with pytest.raises(errors.UsageError) as caught:
        kube.get("/x", what="read x")
    assert caught.value.details == ("spec.type: unsupported", "m")


def test_a_secret_in_a_message_is_removed(world):
    _, kube, _ = world(
        in_order(scripted.status(403, "Forbidden", f"bad header Authorization: Bearer {scripted.TOKEN}"))
    )
    with pytest.raises(errors.NotPermitted) as caught:
        kube.get("/x", what="read x")
    assert scripted.TOKEN not in caught.value.message


@pytest.mark.parametrize("code", [429, 500, 502, 503, 504])
def test_passing_errors_of_reads_are_waited_out(world, code):
    _, kube, clock = world(in_order(scripted.status(code, "x"), page(["a"])))
    assert listed(kube).items == ["a"]
    assert len(clock.slept) == 1


def test_retry_after_header_and_body_are_honoured(world):
    header = Reply(429, scripted.status(429, "TooManyRequests").body, {"Retry-After": "6"})
    date = Reply(503, b"busy", {"Retry-After": "Mon, 05 Jan 2026 08:00:05 GMT"})
    body = scripted.status(504, "Timeout", retryAfterSeconds=4)
    _, kube, clock = world(in_order(header, date, body, page(["a"])))
    listed(kube)
    assert [round(slept) for slept in clock.slept] == [6, 5, 4]


def test_a_reset_connection_is_waited_out(world):
    _, kube, clock = world(in_order(Reply(drop=True), page(["a"])))
    assert listed(kube).items == ["a"]
    assert len(clock.slept) == 1


def test_half_a_body_is_not_an_answer(world):
    whole = page(["a"])
    server, kube, _ = world(in_order(Reply(200, whole.body, cut=10), whole))
    assert listed(kube).items == ["a"]
    assert len(server.requests) == 2


def test_a_server_that_is_down(tmp_path):
    clock, heard = scripted.FakeClock(), []
    kube = kube_module.Kube(scripted.context("http://127.0.0.1:1", tmp_path), clock, tell=heard.append)
    message = "cannot list nodes: 127.0.0.1:1 cannot be reached: Connection refused"
    with pytest.raises(errors.Unavailable, match=message) as caught:
        listed(kube)
    assert clock.slept, "a restarting server is worth a few seconds"
    assert heard == [f"{message}; trying again"]
    for part in ("context 'test'", "tpuctl context show test", "tpuctl context use"):
        assert part in caught.value.hint


def test_a_server_that_does_not_answer(world, monkeypatch):
    monkeypatch.setattr(kube_module, "READ_TIMEOUT_S", 0.05)
    held = []

    def script(_):
        held[0].released.wait(10)
        return page(["late"])

    server, kube, _ = world(script)
    held.append(server)
    with pytest.raises(errors.Unavailable, match="did not answer in time"):
        kube.get("/x", what="read x")


class Unanswered:
    """A script that keeps the client waiting at the requests of these numbers."""

    def __init__(self, script, *numbers):
        self._script = script
        self._left = set(numbers)
        self._seen = 0
        self.server = None

    def __call__(self, request):
        self._seen += 1
        if self._seen in self._left:
            self.server.released.wait(10)
        return self._script(request)


def test_a_page_whose_answer_is_lost_is_asked_for_again(world, monkeypatch):
    """One lost page of two hundred is no reason to give up the list."""
    monkeypatch.setattr(kube_module, "READ_TIMEOUT_S", 0.1)

    def pages(request):
        number = int(request.query.get("continue", "0")) + 1
        return page([f"n{number}"], token=str(number) if number < 4 else "")

    script = Unanswered(pages, 2, 5)
    server, kube, clock = world(script)
    script.server = server
    assert listed(kube).items == ["n1", "n2", "n3", "n4"]
    asked = [request.query.get("continue", "0") for request in server.requests]
    assert asked == ["0", "1", "1", "2", "3", "3"]
    assert len(clock.slept) == 2


def test_a_page_may_take_longer_than_an_object(world, monkeypatch):
    asked = []
    _, kube, _ = world(in_order(page(["a"])))
    real = kube.request

    def request(*args, times=1.0, **options):
        asked.append(times * kube_module.READ_TIMEOUT_S)
        return real(*args, times=times, **options)

    monkeypatch.setattr(kube, "request", request)
    listed(kube)
    kube.get("/x", what="read x")
    assert asked == [15.0, 10.0]


def test_without_a_date_header_this_machines_time_counts(world):
    _, kube, clock = world(in_order(Reply(200, page([]).body, {"Date": ""})))
    assert listed(kube).observed_at == clock.now()


def test_find_tells_a_missing_object_from_a_missing_resource(world):
    missing = scripted.status(404, "NotFound", "gone", name="a", kind="slices")
    _, kube, _ = world(in_order(missing))
    assert kube.find("/x/a", "a", what="read a") is None
    _, kube, _ = world(in_order(Reply(404, b"404 page not found\n")))
    with pytest.raises(errors.NotFound):
        kube.find("/x/a", "a", what="read a")
