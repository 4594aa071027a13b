"""Streams of server-sent events, bounded in number and duration, that end with the server.

A stream ends after LONGEST seconds and the client opens another one, so that a revoked right to
listen takes effect.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

from sse_starlette import EventSourceResponse, ServerSentEvent

from defender.server.http.failures import HttpRefusal

MOST = 64
MOST_PER_CLIENT = 16
LONGEST = 600.0
KEEP_ALIVE = 15
SEND_SECONDS = 10.0
"""Seconds after which a listener that reads nothing is disconnected."""


class Streams:
    """Open streams. At most `most` at once, and at most `share` of one client."""

    def __init__(
        self, most: int = MOST, longest: float = LONGEST, share: int = MOST_PER_CLIENT
    ) -> None:
        self._most, self._longest, self._share = most, longest, share
        self._open: Counter[str] = Counter()
        self._closed = asyncio.Event()

    def __len__(self) -> int:
        return self._open.total()

    def close(self) -> None:
        """End all streams, because the server stops."""
        self._closed.set()

    def serve(self, events: AsyncIterator[ServerSentEvent], client: str) -> EventSourceResponse:
        """Serve the events. Raises HttpRefusal if there are too many streams, in total or of this
        client.
        """
        if self._open[client] >= self._share:
            text = f"{self._share} streams of {client} are open already: close some, or ask later"
            raise HttpRefusal(503, text)
        if len(self) >= self._most:
            raise HttpRefusal(
                503, f"{self._most} streams are open already: close some, or ask later"
            )
        return EventSourceResponse(
            self._bounded(events, client), ping=KEEP_ALIVE, send_timeout=SEND_SECONDS
        )

    async def _bounded(
        self, events: AsyncIterator[ServerSentEvent], client: str
    ) -> AsyncIterator[ServerSentEvent]:
        self._open[client] += 1
        deadline = asyncio.get_running_loop().time() + self._longest
        closed = asyncio.ensure_future(self._closed.wait())
        try:
            while True:
                coming = asyncio.ensure_future(anext(events))
                remaining = deadline - asyncio.get_running_loop().time()
                try:
                    await asyncio.wait(
                        (coming, closed), timeout=remaining, return_when=asyncio.FIRST_COMPLETED
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
            self._open[client] -= 1
            if not self._open[client]:
                del self._open[client]
            closed.cancel()
