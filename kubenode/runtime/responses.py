"""Bounded cache of API server responses, each valid for a few seconds."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from kubenode.runtime.clock import Clock

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ResponseCache(Generic[K, V]):
    """Cache of responses.

    seconds: how long a response is valid.
    most: greatest number of responses; the oldest is dropped first.

    A request for a key that is already being requested shares that response. Failures are not
    cached.
    """

    def __init__(self, clock: Clock, *, seconds: float, most: int) -> None:
        self._clock, self._seconds, self._most = clock, seconds, most
        self._known: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._pending: dict[K, asyncio.Future[V]] = {}

    def __len__(self) -> int:
        return len(self._known)

    async def get(self, key: K, ask: Callable[[], Awaitable[V]]) -> V:
        """Return the response, from the cache or by `ask`. Raises what `ask` raises."""
        known = self._known.get(key)
        if known is not None and self._clock.monotonic() < known[0]:
            return known[1]
        pending = self._pending.get(key)
        if pending is None:
            pending = self._pending[key] = asyncio.ensure_future(self._find(key, ask))
            pending.add_done_callback(lambda done: self._drop_request(key, done))
        # A cancelled waiter must not cancel the request for the others.
        return await asyncio.shield(pending)

    async def _find(self, key: K, ask: Callable[[], Awaitable[V]]) -> V:
        response = await ask()
        self._known[key] = self._clock.monotonic() + self._seconds, response
        self._known.move_to_end(key)
        if len(self._known) > self._most:
            self._known.popitem(last=False)
        return response

    def _drop_request(self, key: K, done: "asyncio.Future[V]") -> None:
        self._pending.pop(key, None)
        if not done.cancelled():
            done.exception()  # mark it as retrieved, as nobody may be waiting any more
