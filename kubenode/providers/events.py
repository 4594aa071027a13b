"""Ports for the planned events and faults of a cloud: lists to poll, queues to receive from.

Polling only reads, so an SDK may retry it at will. A payload is the cloud's own answer in the form
that `transport` names; remedy.hostdoctor.parsers interprets it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

MOST_PAGES = 1000
"""Pages of one list. A list that does not end by then is a fault of the cloud or of ours."""


@dataclass(frozen=True, slots=True)
class EventListing:
    """One complete answer of a list.

    transport: name of the payload's form
    scope: what the list is about, the same at each poll
    whole: False if parts of the cloud did not answer, so that a missing event may still exist
    """

    transport: str
    scope: str
    payload: Any
    whole: bool = True


@dataclass(frozen=True, slots=True)
class QueueMessage:
    """A message of a queue. `receipt` identifies it when it is deleted."""

    id: str
    receipt: str
    transport: str
    body: str


class ProviderEventSource(Protocol):
    """A list or a queue.

    name: in metrics and logs, such as `aws` or `aws-queue`
    where: what exactly is read, for people
    """

    name: str
    where: str

    async def check(self) -> str:
        """Return a warning for people, "" without one. Raises ProviderError."""
        ...

    async def close(self) -> None: ...


class EventList(ProviderEventSource, Protocol):
    """A list that is polled. Methods raise ProviderError and nothing else, as those of a queue.

    every: interval between two polls
    """

    every: timedelta

    async def list_events(self) -> Sequence[EventListing]:
        """Read all pages. A list that cannot be read to its end is an error, never a short list."""
        ...


class EventQueue(ProviderEventSource, Protocol):
    async def receive(self) -> Sequence[QueueMessage]:
        """Wait a while for messages, none after that. They are delivered again unless deleted."""
        ...

    async def delete(self, messages: Sequence[QueueMessage]) -> None: ...


@dataclass(frozen=True, slots=True)
class Sources:
    """All lists and queues that are read. The sum of two holds those of both."""

    lists: Sequence[EventList] = field(default_factory=tuple)
    queues: Sequence[EventQueue] = field(default_factory=tuple)

    def __add__(self, other: "Sources") -> "Sources":
        return Sources((*self.lists, *other.lists), (*self.queues, *other.queues))

    def __bool__(self) -> bool:
        return bool(self.lists or self.queues)

    def __iter__(self) -> Iterator[ProviderEventSource]:
        yield from self.lists
        yield from self.queues

    async def close(self) -> None:
        for source in self:
            await source.close()
