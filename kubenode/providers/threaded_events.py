"""Event sources over a blocking SDK, run in threads so that they never block the event loop."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

from kubenode.providers.errors import ProviderError
from kubenode.providers.events import EventListing, QueueMessage
from kubenode.providers.threads import ThreadedCalls

LIST_TIMEOUT = timedelta(minutes=5)
"""Limit of one poll: all pages, and the SDK's waits when it is throttled."""


class BlockingSource(Protocol):
    """A source whose methods block.

    `explain` translates an exception of the SDK; None if the exception is unknown.
    """

    name: str
    where: str

    def check(self) -> str: ...

    def explain(self, error: Exception) -> ProviderError | None: ...

    def close(self) -> None: ...


class BlockingList(BlockingSource, Protocol):
    every: timedelta

    def list_events(self) -> Sequence[EventListing]: ...


class BlockingQueue(BlockingSource, Protocol):
    def receive(self) -> Sequence[QueueMessage]: ...

    def delete(self, messages: Sequence[QueueMessage]) -> None: ...


class _Source:
    def __init__(self, inner: BlockingSource) -> None:
        self.name, self.where = inner.name, inner.where
        self._inner = inner
        self._calls = ThreadedCalls(inner.name, inner.explain, LIST_TIMEOUT, threads=1)
        self.check = self._calls.wrap(inner.check)

    async def close(self) -> None:
        await self._calls.close()
        await asyncio.to_thread(self._inner.close)


class ThreadedList(_Source):
    """An EventList over a blocking list."""

    def __init__(self, inner: BlockingList) -> None:
        super().__init__(inner)
        self.every = inner.every
        self.list_events = self._calls.wrap(inner.list_events)


class ThreadedQueue(_Source):
    """An EventQueue over a blocking queue."""

    def __init__(self, inner: BlockingQueue) -> None:
        super().__init__(inner)
        self.receive = self._calls.wrap(inner.receive)
        self.delete = self._calls.wrap(inner.delete)
