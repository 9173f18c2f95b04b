"""Probes for Kubernetes, and the server that answers them and Prometheus: /metrics, /healthz, /readyz."""

from __future__ import annotations

import contextlib
import http
import http.server
import socket
import threading
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.model import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tpuctl.cli import metrics as metrics_module

CLIENT_TIMEOUT_S = 10.0
"""Real seconds that a client may take to ask and to listen."""


class Address(NamedTuple):
    host: str
    port: int


def address(text: str) -> Address:
    """`HOST:PORT` or `[V6]:PORT`; raises UsageError. The host must be said: nothing listens by accident."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    if not (colon and host and port.isascii() and port.isdigit() and int(port) < 1 << 16):
        raise errors.UsageError(
            f"'{text}' is no address to listen on",
            hint="write HOST:PORT, for example 127.0.0.1:9464, or 0.0.0.0:9464 for all interfaces",
        )
    return Address(host, int(port))


class Probes:
    """Whether the loop lives and is of use, from what it did, not from whether its thread exists.

    The one that leads lives as long as full cycles end, or an action makes progress (forming a slice takes
    minutes); a standby as long as it asks for the lock. What goes deaf is restarted.
    """

    def __init__(self, monotonic_s: Callable[[], float], limit_s: float) -> None:
        self._monotonic_s = monotonic_s
        self.limit_s = limit_s
        """Real seconds without a sign of life."""
        self._started_s = monotonic_s()
        self._signs: dict[str, float] = {}

    def sign(self, kind: str) -> None:
        """A sign of life: `cycle`, `progress` or `standby`."""
        self._signs[kind] = self._monotonic_s()

    def alive(self) -> tuple[bool, str]:
        """Whether to leave it running, and why."""
        kind, at_s = max(self._signs.items(), key=lambda item: item[1], default=("start", self._started_s))
        age_s = self._monotonic_s() - at_s
        return age_s <= self.limit_s, f"last {kind} {age_s:.0f} s ago, limit {self.limit_s:.0f} s"

    def ready(self) -> tuple[bool, str]:
        """Whether it has seen everything once, or stands by for the one that leads."""
        if not {"cycle", "standby"} & self._signs.keys():
            return False, "no full cycle yet"
        return self.alive()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    # A scrape must not keep the program from ending.
    block_on_close = False


class _Server6(_Server):
    address_family = socket.AF_INET6


@contextlib.contextmanager
def served(where: Address, metrics: metrics_module.Metrics, probes: Probes) -> Iterator[Address]:
    """Answer on exactly this address until the end; yields it with the port that was really taken.

    Raises TpuctlError if it cannot be had.
    """
    handler = _handler(metrics, probes)
    server_class = _Server6 if ":" in where.host else _Server
    try:
        server = server_class(where, handler)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise errors.TpuctlError(f"cannot listen on {where.host}:{where.port}: {why}") from error
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield Address(where.host, server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(metrics: metrics_module.Metrics, probes: Probes) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        timeout = CLIENT_TIMEOUT_S
        server_version = "tpuctl"
        sys_version = ""

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/metrics":
                body, content_type = metrics.exposition(self.headers.get("Accept", ""))
                self._answer(http.HTTPStatus.OK, body, content_type)
            elif path in ("/healthz", "/readyz"):
                well, says = probes.alive() if path == "/healthz" else probes.ready()
                status = http.HTTPStatus.OK if well else http.HTTPStatus.SERVICE_UNAVAILABLE
                self._answer(status, f"{'ok' if well else 'not ok'}: {says}\n".encode())
            else:
                self._answer(http.HTTPStatus.NOT_FOUND, b"there are /metrics, /healthz and /readyz\n")

        def _answer(
            self, status: http.HTTPStatus, body: bytes, content_type: str = "text/plain; charset=utf-8"
        ) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            # A client that went away is no trouble of ours.
            with contextlib.suppress(OSError):
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's word
            """Say nothing: a probe every few seconds is no news."""

    return Handler
