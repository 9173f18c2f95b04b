"""Watches that lie: silent ones, events twice, events in the wrong order.

All work on the lines of a watch, one event a line. Bookmarks and errors keep their places: a bookmark that
overtook an event would tell the client that it has seen what it has not.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from tpuctl.sim import connections

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from starlette import responses

_IN_PLACE = (b'{"type":"BOOKMARK"', b'{"type":"ERROR"')


async def _lines(source: responses.AsyncContentStream) -> AsyncGenerator[bytes, None]:
    async with contextlib.aclosing(connections.chunks_of(source)) as chunks:
        async for chunk in chunks:
            for line in chunk.splitlines(keepends=True):
                yield line


def _is_event(line: bytes) -> bool:
    return not line.startswith(_IN_PLACE)


async def silent(source: responses.AsyncContentStream, *, events: int) -> AsyncIterator[bytes]:
    """The first `events` lines, then nothing, with the connection open until the client leaves."""
    async with contextlib.aclosing(_lines(source)) as lines:
        left = events
        while left > 0:
            line = await anext(lines, None)
            if line is None:
                return
            left -= 1
            yield line
    await asyncio.Event().wait()


async def doubled(source: responses.AsyncContentStream) -> AsyncIterator[bytes]:
    """Every event twice."""
    async with contextlib.aclosing(_lines(source)) as lines:
        async for line in lines:
            yield line * 2 if _is_event(line) else line


async def swapped(source: responses.AsyncContentStream, *, hold_s: float) -> AsyncIterator[bytes]:
    """Every pair of events the wrong way round; one without a partner comes `hold_s` real seconds late."""
    async with contextlib.aclosing(_lines(source)) as lines:
        held = b""
        coming = asyncio.ensure_future(anext(lines, b""))
        try:
            while True:
                await asyncio.wait({coming}, timeout=hold_s if held else None)
                if not coming.done():
                    yield held
                    held = b""
                    continue
                line = coming.result()
                if not line:
                    break
                coming = asyncio.ensure_future(anext(lines, b""))
                if not held and _is_event(line):
                    held = line
                    continue
                yield line + held if _is_event(line) else held + line
                held = b""
            if held:
                yield held
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)


async def torn(source: responses.AsyncContentStream) -> AsyncIterator[bytes]:
    """The first line by half, the rest as it is: a line that is no JSON."""
    async with contextlib.aclosing(_lines(source)) as lines:
        first = True
        async for line in lines:
            yield line[: len(line) // 2] + b"\n" if first else line
            first = False
