"""Events that wait for the receiver, in memory and bounded. Pure.

The objects of the cluster are the durable part: an event that leaves a full outbox is derived again
later, as long as its object exists. So nothing is written to a disk.
"""

from collections import deque
from collections.abc import Iterable
from itertools import islice

from kubenode.runtime.stream.model import StreamEvent

MOST_EVENTS = 20_000


class StreamOutbox:
    """Waiting events, oldest first, and the IDs of all events of each object.

    most: events that wait at the same time; a further one removes the oldest
    """

    def __init__(self, most: int = MOST_EVENTS) -> None:
        self._most = most
        self._waiting: deque[tuple[str, StreamEvent]] = deque()
        self._known: dict[str, set[str]] = {}
        self._incomplete: set[str] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, uid: str, events: Iterable[StreamEvent]) -> int:
        """Queue the new events of an object. Return how many older events were dropped."""
        known = self._known.setdefault(uid, set())
        for event in events:
            if event.id not in known:
                known.add(event.id)
                self._waiting.append((uid, event))
        return self._shrink()

    def batch(self, most: int) -> list[StreamEvent]:
        """Return the oldest events. They stay until `remove`."""
        return [event for _, event in islice(self._waiting, most)]

    def remove(self, count: int) -> None:
        """Remove the oldest `count` events, which the receiver has answered."""
        for _ in range(count):
            self._waiting.popleft()

    def forget(self, uid: str) -> None:
        """Forget the IDs of an object that is gone. Its waiting events stay."""
        self._known.pop(uid, None)
        self._incomplete.discard(uid)

    def take_incomplete(self) -> set[str]:
        """Return the objects that had events dropped, once the outbox is empty, else none."""
        if self._waiting:
            return set()
        uids, self._incomplete = self._incomplete, set()
        return uids

    def _shrink(self) -> int:
        dropped = 0
        while len(self._waiting) > self._most:
            uid, event = self._waiting.popleft()
            dropped += 1
            if (known := self._known.get(uid)) is not None:
                known.discard(event.id)
                self._incomplete.add(uid)
        return dropped
