"""Breaking the connection that a request came over, as networks do: by reset, by silence, in mid-answer.

The server puts each connection's transport into the ASGI scope's state; ASGI itself has no word for this.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from typing import TYPE_CHECKING, Any

from starlette import responses

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette import types

TRANSPORT = "tpuctl.sim.transport"
"""Key of the transport in the scope's state."""
_LINGER_NOT = struct.pack("ii", 1, 0)
"""SO_LINGER with no time: closing sends a reset at once and drops what is unsent."""


class NoAnswer(responses.Response):
    """Says nothing, holds the connection for a while, then ends it."""

    def __init__(self, *, hold_s: float = 0.0, reset: bool) -> None:
        """`hold_s` counts real seconds. `reset`: end by a TCP reset, otherwise by an ordinary close."""
        super().__init__()
        self._hold_s = hold_s
        self._reset = reset

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:  # noqa: ARG002
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._hold_s):
                await _disconnected(receive)
        await _end(scope, receive, reset=self._reset)


class Cut(responses.Response):
    """The first part of another answer; then the connection ends, although more was promised."""

    def __init__(self, answer: responses.Response, *, reset: bool) -> None:
        """Half of the body is sent; of a stream, its first chunk by half, or whole if it ends by reset."""
        super().__init__()
        self._answer = answer
        self._reset = reset

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        answer = self._answer
        await send(
            {"type": "http.response.start", "status": answer.status_code, "headers": answer.raw_headers}
        )
        first, gone = asyncio.ensure_future(self._first_part()), asyncio.ensure_future(_disconnected(receive))
        await asyncio.wait({first, gone}, return_when=asyncio.FIRST_COMPLETED)
        if first.done() and first.result():
            await send({"type": "http.response.body", "body": first.result(), "more_body": True})
        await _cancelled(first, gone)
        await _end(scope, receive, reset=self._reset)

    async def _first_part(self) -> bytes:
        if not isinstance(self._answer, responses.StreamingResponse):
            body = bytes(self._answer.body)
            return body[: len(body) // 2]
        async with contextlib.aclosing(chunks_of(self._answer.body_iterator)) as chunks:
            async for chunk in chunks:
                return chunk if self._reset else chunk[: len(chunk) // 2]
        return b""


async def chunks_of(source: responses.AsyncContentStream) -> AsyncGenerator[bytes, None]:
    """The chunks of a streamed answer's body; closes their source when it is closed itself."""
    try:
        async for chunk in source:
            yield chunk.encode() if isinstance(chunk, str) else bytes(chunk)
    finally:
        close = getattr(source, "aclose", None)
        if close is not None:
            await close()


async def _cancelled(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _end(scope: types.Scope, receive: types.Receive, *, reset: bool) -> None:
    transport: asyncio.Transport = scope["state"][TRANSPORT]
    if reset:
        connection = transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
    # Not `close`: over TLS it would wait for the client to agree.
    transport.abort()
    await _disconnected(receive)


async def _disconnected(receive: types.Receive) -> None:
    """Return when the client, or the server, has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
