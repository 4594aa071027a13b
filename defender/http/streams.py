"""Streams of server-sent events: a bounded number, each of bounded length, ended with the server.

A stream ends by itself after LONGEST seconds and the client opens another one, so that whoever has
lost the right to listen does not go on listening.
"""

import asyncio
from collections.abc import AsyncIterator

from sse_starlette import EventSourceResponse, ServerSentEvent

from defender.http.failures import Refused

MOST = 64
LONGEST = 600.0
KEEP_ALIVE = 15
SEND_SECONDS = 10.0
"""A listener that takes nothing for so long is cut off."""


class Streams:
    def __init__(self, most: int = MOST, longest: float = LONGEST) -> None:
        self._most, self._longest = most, longest
        self._open = 0
        self._closed = asyncio.Event()

    def __len__(self) -> int:
        return self._open

    def close(self) -> None:
        """End all streams: the server stops."""
        self._closed.set()

    def serve(self, events: AsyncIterator[ServerSentEvent]) -> EventSourceResponse:
        """Raises Refused when there are too many."""
        if self._open >= self._most:
            raise Refused(503, f"{self._most} streams are open already: close some, or ask later")
        return EventSourceResponse(
            self._bounded(events), ping=KEEP_ALIVE, send_timeout=SEND_SECONDS
        )

    async def _bounded(
        self, events: AsyncIterator[ServerSentEvent]
    ) -> AsyncIterator[ServerSentEvent]:
        self._open += 1
        deadline = asyncio.get_running_loop().time() + self._longest
        closed = asyncio.ensure_future(self._closed.wait())
        try:
            while True:
                coming = asyncio.ensure_future(anext(events))
                left = deadline - asyncio.get_running_loop().time()
                try:
                    await asyncio.wait(
                        (coming, closed), timeout=left, return_when=asyncio.FIRST_COMPLETED
                    )
                finally:
                    if not coming.done():
                        coming.cancel()
                        await asyncio.wait((coming,))
                if coming.cancelled() or closed.done():
                    return
                try:
                    yield coming.result()
                except StopAsyncIteration:
                    return
        finally:
            self._open -= 1
            closed.cancel()
