"""A server that says what a test wants, for worlds that the simulator refuses to be: lies, silence, junk."""

from __future__ import annotations

import dataclasses
import datetime
import http.server
import json
import socket
import threading
import urllib.parse
from typing import TYPE_CHECKING, Any, Self

import urllib3

from tpuctl.ops import context as contexts

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable

TOKEN = "s3cr3t-t0ken"
DATE = "Mon, 05 Jan 2026 08:00:00 GMT"
MOMENT = datetime.datetime(2026, 1, 5, 8, tzinfo=datetime.UTC)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    """Names in lower case."""
    body: Any


@dataclasses.dataclass(frozen=True)
class Reply:
    status: int = 200
    body: Any = None
    """Bytes are sent as they are, anything else as JSON."""
    headers: dict[str, str] = dataclasses.field(default_factory=dict)
    drop: bool = False
    """If true, the connection is reset and nothing is said."""
    cut: int = 0
    """So many bytes are missing at the end of the body."""


def status(code: int, reason: str, message: str = "no", **details: Any) -> Reply:
    """A Kubernetes Status."""
    document = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    document |= {"message": message, "reason": reason, "code": code}
    return Reply(code, document | ({"details": details} if details else {}))


def google_error(code: int, message: str, word: str = "", reason: str = "") -> Reply:
    """An error of a Google API."""
    error: dict[str, Any] = {"code": code, "message": message}
    if word:
        error["status"] = word
    if reason:
        error["errors"] = [{"reason": reason, "message": message, "domain": "global"}]
    return Reply(code, {"error": error})


class Server:
    """Answers each request with what `script` makes of it; a context manager."""

    def __init__(self, script: Callable[[Request], Reply]) -> None:
        self.script = script
        self.requests: list[Request] = []
        self.released = threading.Event()
        """Set when the test is over: a script may wait for it to keep a client waiting."""
        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler_class())
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def asked(self, method: str) -> list[Request]:
        return [request for request in self.requests if request.method == method]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def _handler_class(self) -> type[http.server.BaseHTTPRequestHandler]:
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                content = self.rfile.read(length)
                parts = urllib.parse.urlsplit(self.path)
                request = Request(
                    method=self.command,
                    path=parts.path,
                    query=dict(urllib.parse.parse_qsl(parts.query)),
                    headers={name.lower(): value for name, value in self.headers.items()},
                    body=_parsed(content),
                )
                outer.requests.append(request)
                self.send(outer.script(request))

            do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815 - the base class wants these names

            def send(self, reply: Reply) -> None:
                self.close_connection = True
                if reply.drop:
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                content = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
                self.send_response_only(reply.status)
                headers = {"Content-Type": "application/json", "Date": DATE, "Connection": "close"}
                for name, value in (headers | reply.headers).items():
                    if value:
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                try:
                    self.wfile.write(content[: len(content) - reply.cut])
                except OSError:
                    self.close_connection = True  # the client has hung up, as some tests want

            def log_message(self, *_: object) -> None:
                pass

        return Handler


def _parsed(content: bytes) -> Any:
    """JSON where it is JSON; other bodies (forms) are not looked at by any script."""
    return json.loads(content) if content.startswith((b"{", b"[")) else None


class FakeClock:
    """Time that moves when somebody sleeps; nobody waits."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.slept: list[float] = []

    @property
    def scale(self) -> float:
        return 1.0

    def monotonic_s(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds

    def now(self) -> datetime.datetime:
        return datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=self.now_s)


def context(url: str, directory: pathlib.Path, **changes: Any) -> contexts.Context:
    """A context whose three services are all at `url`."""
    token_file = directory / "token"
    token_file.write_text(f"{TOKEN}\n", encoding="ascii")
    values: dict[str, Any] = {
        "name": "test",
        "project": "p1",
        "location": "us-central1",
        "zone": "us-central1-c",
        "cluster": "c1",
        "reservations": ("r1",),
        "endpoint_kubernetes": url,
        "endpoint_container": url,
        "endpoint_compute": url,
        "token_file": str(token_file),
    }
    return contexts.Context(**(values | changes))


class Relay:
    """A script that passes requests on to a real server, and spoils the answers that a test names.

    `before` spoils a request without passing it on, `after` passes it on and then loses the answer.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._pool = urllib3.PoolManager(retries=False)
        self._spoilt: list[tuple[str, str, bool, Reply]] = []

    def before(self, method: str, path: str, reply: Reply | None = None) -> None:
        """The next request of this kind is answered by `reply` (or a reset) and not passed on."""
        self._spoilt.append((method, path, False, reply or Reply(drop=True)))

    def after(self, method: str, path: str, reply: Reply | None = None) -> None:
        """The next request of this kind is carried out; its answer is replaced by `reply` (or a reset)."""
        self._spoilt.append((method, path, True, reply or Reply(drop=True)))

    def close(self) -> None:
        self._pool.clear()

    def __call__(self, request: Request) -> Reply:
        for entry in self._spoilt:
            method, path, passes_on, reply = entry
            if request.method == method and path in request.path:
                self._spoilt.remove(entry)
                if passes_on:
                    self._pass_on(request)
                return reply
        return self._pass_on(request)

    def _pass_on(self, request: Request) -> Reply:
        kept = ("authorization", "content-type", "accept")
        answer = self._pool.request(
            request.method,
            f"{self._url}{request.path}?{urllib.parse.urlencode(request.query)}",
            headers={name: value for name, value in request.headers.items() if name in kept},
            body=None if request.body is None else json.dumps(request.body),
        )
        return Reply(
            answer.status,
            answer.data,
            {name: answer.headers.get(name, "") for name in ("Date", "Content-Type")},
        )
