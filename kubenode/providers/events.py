"""What a cloud is asked of its planned events and faults: lists that are looked at, queues that are
read.

A look only reads, so an SDK may repeat it as it thinks fit. What it gives is the cloud's own
answer, in a form that has a name; what it means is said elsewhere (remedy.hostdoctor.parsers).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

MOST_PAGES = 1000
"""Of one answer: a list that does not end is a mistake of somebody's."""


@dataclass(frozen=True, slots=True)
class EventListing:
    """transport  the payload's form
    scope      whose list it is, the same at each look
    whole      False: parts of the cloud did not answer, so what it lacks may still be
    """

    transport: str
    scope: str
    payload: Any
    whole: bool = True


@dataclass(frozen=True, slots=True)
class QueueMessage:
    """Of a queue. `receipt` is what it is deleted by."""

    id: str
    receipt: str
    transport: str
    body: str


class ProviderEventSource(Protocol):
    """name  in metrics and logs: `aws`, `aws-queue`
    where what exactly is looked at, for people
    """

    name: str
    where: str

    async def check(self) -> str:
        """What a person should know of it, "" if all is well. Raises ProviderError."""
        ...

    async def close(self) -> None: ...


class EventList(ProviderEventSource, Protocol):
    """Raises ProviderError and nothing else, as a queue does.

    every  how often it is looked at
    """

    every: timedelta

    async def list_events(self) -> Sequence[EventListing]:
        """All pages. What cannot be read to the end is an error, never a short list."""
        ...


class EventQueue(ProviderEventSource, Protocol):
    async def receive(self) -> Sequence[QueueMessage]:
        """Waits for messages; none after a while. They come again unless they are deleted."""
        ...

    async def delete(self, messages: Sequence[QueueMessage]) -> None: ...


@dataclass(frozen=True, slots=True)
class Sources:
    """All that is looked at and read; those of several providers add up."""

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
