"""The HTTP server: one thread with one event loop, in which everything of the simulator happens.

Handlers run to completion without awaiting between reading and writing state, so there are no locks. Another
thread reaches the simulator with `Server.call`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import email.utils
import logging
import socket
import threading
from typing import TYPE_CHECKING, Protocol, TypeVar

import uvicorn
from uvicorn.protocols.http import h11_impl

from tpuctl.sim import certificates, connections

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable

    from starlette import types

    from tpuctl.sim import clock as clocks

HOST = "127.0.0.1"
"""The simulator never listens anywhere else."""

START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 10.0
_LAST_ANSWERS_S = 0.2
"""Real seconds that answers on their way get when the server stops."""
_ALIVE_CHECK_S = 1.0
_MIN_TICK_S = 0.001
"""Real seconds between looks at a fast clock, so that requests get their turn."""

_logger = logging.getLogger(__name__)
_Result = TypeVar("_Result")


class _Cycle(Protocol):
    """What uvicorn knows of a request on a connection."""

    response_complete: bool


class SimulatedTime:
    """ASGI middleware: brings the clock up to date before a request and dates the answer by it.

    Written against ASGI itself: a wrapper that collects the body would hold back watches.
    """

    def __init__(
        self,
        app: types.ASGIApp,
        clock: clocks.Clock,
        *,
        after: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """`after` is called after each request: it may have planned something that is due sooner.

        `failed` is told of each exception that no handler expected.
        """
        self._app = app
        self._clock = clock
        self._after = after
        self._failed = failed

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_dated(message: types.Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": self._with_date(message.get("headers", ()))}
                self._after()
            await send(message)

        async def receive_after() -> types.Message:
            # A handler that waits for its client has done its work, even if it never answers.
            self._after()
            return await receive()

        try:
            self._clock.catch_up()
            await self._app(scope, receive_after, send_dated)
        except Exception as error:
            self._failed(error)
            raise

    def _with_date(self, headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """The headers with the simulated time, unless a fault has put another time there."""
        found = list(headers)
        if not any(name.lower() == b"date" for name, _ in found):
            date = email.utils.format_datetime(self._clock.now(), usegmt=True)
            found.append((b"date", date.encode()))
        return found


class _Protocol(h11_impl.H11Protocol):
    """uvicorn's HTTP over one connection; handlers find the connection, so that faults can break it."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn's
        super().connection_made(transport)
        self.app_state = {**self.app_state, connections.TRANSPORT: transport}


class Server:
    """Serves an ASGI app on two loopback ports, plain and TLS, and runs the clock's calendar."""

    def __init__(
        self,
        app: types.ASGIApp,
        clock: clocks.Clock,
        *,
        port: int = 0,
        before_stop: Callable[[], None] = lambda: None,
    ) -> None:
        """`port` is the plain one; 0 takes a free one, as the TLS port always does.

        `before_stop` is called on the server's thread; it ends answers that would last. Raises OSError if
        the port is taken.
        """
        self._clock = clock
        self._before_stop = before_stop
        self._wake = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="tpuctl-sim", daemon=True)
        self._tls = certificates.create(HOST)
        dated = SimulatedTime(app, clock, after=self._wake.set, failed=self._note)
        self._sockets = [_listen(port), _listen(0)]
        self._uvicorns = [_uvicorn(dated, None), _uvicorn(dated, self._tls.context)]

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._sockets[0].getsockname()[1]}"

    @property
    def tls_url(self) -> str:
        return f"https://{HOST}:{self._sockets[1].getsockname()[1]}"

    @property
    def authority_pem(self) -> bytes:
        """The authority that signed the certificate of `tls_url`."""
        return self._tls.authority_pem

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        """Return when requests are answered. Raises what kept the server from starting."""
        self._thread.start()
        if not self._started.wait(START_TIMEOUT_S) or self._failure is not None:
            raise RuntimeError("the simulator's server did not start") from self._failure

    def call(self, function: Callable[[], _Result]) -> _Result:
        """Run `function` on the server's thread and return its result, or raise what it raised."""
        if threading.current_thread() is self._thread:
            return function()
        if self._loop is None or not self.running:
            raise RuntimeError("the simulator is not running")
        future: concurrent.futures.Future[_Result] = concurrent.futures.Future()

        def run() -> None:
            try:
                result = function()
            except BaseException as error:  # noqa: BLE001 - it is raised again, in the caller's thread
                future.set_exception(error)
            else:
                future.set_result(result)
            self._wake.set()

        self._loop.call_soon_threadsafe(run)
        while not concurrent.futures.wait([future], timeout=_ALIVE_CHECK_S).done:
            if not self.running:
                raise RuntimeError("the simulator stopped before it got to this call")
        return future.result()

    def request_stop(self) -> None:
        """Begin to stop and return at once; from any thread, request handler or signal handler."""
        loop = self._loop
        if loop is not None and self.running:
            loop.call_soon_threadsafe(self._begin_stop)

    def stop(self) -> None:
        """Stop, wait for the thread, and raise what went wrong in it meanwhile."""
        self.request_stop()
        if self._thread.ident is not None:
            self._thread.join(STOP_TIMEOUT_S)
        for listener in self._sockets:
            listener.close()
        if self._thread.is_alive():
            raise RuntimeError("the simulator's server does not stop")
        if self._failure is not None:
            raise RuntimeError("the simulator failed while it ran") from self._failure

    def wait(self) -> None:
        """Block until the server has stopped, however that came."""
        self._thread.join()

    def _note(self, error: BaseException) -> None:
        """Remember what went wrong first; `stop` raises it."""
        self._failure = self._failure or error

    # On the server's thread

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:  # noqa: BLE001 - `start` and `stop` raise it in the owner's thread
            self._note(error)
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        ticker = self._loop.create_task(self._tick())
        ticker.add_done_callback(self._ticker_ended)
        serving = asyncio.gather(
            *(one.serve(sockets=[own]) for one, own in zip(self._uvicorns, self._sockets, strict=True))
        )
        while not all(one.started for one in self._uvicorns) and not serving.done():  # noqa: ASYNC110 - no event
            await asyncio.sleep(_MIN_TICK_S)
        self._started.set()
        await serving
        ticker.cancel()
        # A transport tells its protocol of the end in a later turn of the loop.
        while self._cut(lambda _cycle: True):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0)

    def _begin_stop(self) -> None:
        self._before_stop()
        for one in self._uvicorns:
            one.should_exit = True
        # A TLS connection that is closed politely waits for its client, which may be a pool that never looks.
        self._cut(lambda cycle: cycle is None or cycle.response_complete)
        asyncio.get_running_loop().call_later(_LAST_ANSWERS_S, self._cut_again_and_again)

    def _cut_again_and_again(self) -> None:
        """Until the loop ends: what was accepted just before the listeners closed comes in afterwards."""
        self._cut(lambda _cycle: True)
        asyncio.get_running_loop().call_later(_LAST_ANSWERS_S, self._cut_again_and_again)

    def _cut(self, which: Callable[[_Cycle | None], bool]) -> int:
        """Drop the connections whose present request `which` accepts; None stands for no request yet.

        Returns how many there were.
        """
        dropped = 0
        for one in self._uvicorns:
            for connection in list(one.server_state.connections):
                transport = connection.transport
                if transport is not None and which(getattr(connection, "cycle", None)):
                    transport.abort()
                    dropped += 1
        return dropped

    async def _tick(self) -> None:
        """Run what falls due by itself, on a clock that has a speed."""
        loop = asyncio.get_running_loop()
        while True:
            self._clock.catch_up()
            self._wake.clear()
            due_s = self._clock.next_due_s()
            wait_s = None if due_s is None else self._clock.real_s_until(due_s)
            timer = None if wait_s is None else loop.call_later(max(wait_s, _MIN_TICK_S), self._wake.set)
            await self._wake.wait()
            if timer is not None:
                timer.cancel()

    def _ticker_ended(self, ticker: asyncio.Task[None]) -> None:
        error = None if ticker.cancelled() else ticker.exception()
        if error is not None:
            self._note(error)
            _logger.error("the simulated world stopped", exc_info=error)
            self._begin_stop()


def _uvicorn(app: types.ASGIApp, context: ssl.SSLContext | None) -> uvicorn.Server:
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http=_Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        date_header=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    config.load()
    # Set after loading, because uvicorn itself takes certificates from files only.
    config.ssl = context
    return uvicorn.Server(config)


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
    except OSError:
        listener.close()
        raise
    return listener
