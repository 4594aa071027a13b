"""Watches: missed events, current events, bookmarks, and an orderly end.

An open watch is a bounded queue that the store fills. A client that is too slow is cut off and
lists again, as on a real server.
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping

from aiohttp import web

from simulation.apiserver.errors import Cause, Obj, expired, invalid, too_large
from simulation.apiserver.forms import Form
from simulation.apiserver.reads import rendering
from simulation.apiserver.registry import ServedResource
from simulation.apiserver.selectors import Selection
from simulation.apiserver.store import Collection, Record, Store, StoreEvent, encode, watch_line

QUEUE_LIMIT = 20_000
"""Events that may wait for a slow client; with more it is cut off."""
LONGEST_SECONDS = 1800.0
BATCH = 256
TRUE = ("true", "1", "True")


class WatchQueue:
    """The events that a watch has still to send.

    after: earlier events, and that of this resourceVersion, are not sent.
    """

    def __init__(self, selection: Selection, after: int) -> None:
        self.selection = selection
        self.after = after
        self.closed = False
        self.events: deque[tuple[str, StoreEvent]] = deque()
        self._waiter: asyncio.Future[None] | None = None

    def offer(self, event: StoreEvent) -> None:
        kind = event.classify_for(self.selection)
        if kind is None or event.rv <= self.after:
            return
        if len(self.events) >= QUEUE_LIMIT:
            self.close()
            return
        self.events.append((kind, event))
        self.wake()

    def close(self) -> None:
        self.closed = True
        self.wake()

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self) -> None:
        """Wait until there is an event, the watch is closed, or `wake` is called (by a timer)."""
        if self.events or self.closed:
            return
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None


class Watch:
    """One watch request, from its parameters to its last line.

    The constructor raises ApiError 400, 422 or 504 for what is refused before the stream.
    """

    def __init__(
        self,
        resource: ServedResource,
        store: Store,
        selection: Selection,
        query: Mapping[str, str],
        form: Form,
        bookmark_seconds: float,
    ) -> None:
        self._resource = resource
        self._store = store
        self._collection: Collection = store.collection(resource.qualified)
        self._selection = selection
        self._marks = query.get("allowWatchBookmarks") in TRUE
        self._bookmark_seconds = bookmark_seconds
        self._seconds = float(_number(resource, query, "timeoutSeconds") or LONGEST_SECONDS)
        self._form = rendering(resource, form)
        self._start = _number(resource, query, "resourceVersion") or 0
        self._replay = query.get("sendInitialEvents") in TRUE
        if self._replay:
            if query.get("resourceVersionMatch") != "NotOlderThan":
                cause = Cause(
                    "resourceVersionMatch",
                    "Forbidden: sendInitialEvents requires setting resourceVersionMatch to "
                    "NotOlderThan",
                    "FieldValueForbidden",
                )
                raise invalid(resource, "", [cause])
            if self._start > store.rv:
                raise too_large(self._start, store.rv)

    async def stream(self, response: web.StreamResponse) -> None:
        """Send lines to a prepared response until the time is over or the client is cut off."""
        if self._start and not self._replay and self._start < self._collection.floor:
            await response.write(self._too_old())
            return
        initial = self._replay or not self._start
        queue = WatchQueue(self._selection, self._store.rv if initial else self._start)
        lines = list(self._initial() if initial else self._missed())
        # No await between reading the past and listening: no event is lost or sent twice.
        self._collection.listen(queue)
        try:
            if lines:
                await response.write(b"".join(lines))
            await self._follow(queue, response)
        finally:
            self._collection.unlisten(queue)

    async def _follow(self, queue: WatchQueue, response: web.StreamResponse) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + self._seconds
        mark_at = loop.time() + self._bookmark_seconds
        while not queue.closed and (now := loop.time()) < end:
            if not queue.events:
                timer = loop.call_at(min(end, mark_at) if self._marks else end, queue.wake)
                try:
                    await queue.wait()
                finally:
                    timer.cancel()
                now = loop.time()
            batch = [
                self._line(*queue.events.popleft()) for _ in range(min(BATCH, len(queue.events)))
            ]
            if not batch and self._marks and now >= mark_at:
                batch = self._bookmark(queue)
                mark_at = now + self._bookmark_seconds
            if batch:
                await response.write(b"".join(batch))

    # ---- lines

    def _initial(self) -> Iterator[bytes]:
        for record in self._collection.sorted(self._selection):
            yield self._encoded("ADDED", record)
        if self._replay and self._marks:
            yield self._mark({"k8s.io/initial-events-end": "true"})

    def _missed(self) -> Iterator[bytes]:
        for event in self._collection.missed(self._start):
            kind = event.classify_for(self._selection)
            if kind is not None:
                yield self._line(kind, event)

    def _line(self, kind: str, event: StoreEvent) -> bytes:
        if self._form is None:
            return event.line(kind)
        return self._encoded(kind, event.shown_as(kind))

    def _encoded(self, kind: str, record: Record) -> bytes:
        raw = record.raw
        if self._form is not None:
            raw = encode(self._form.render_object(record.obj))
        return watch_line(kind, raw)

    def _bookmark(self, queue: WatchQueue) -> list[bytes]:
        """Return a bookmark; none for a watch from a future resourceVersion.

        Its client must not skip events that it has not seen.
        """
        return [self._mark({})] if self._store.rv >= queue.after else []

    def _mark(self, annotations: Obj) -> bytes:
        metadata: Obj = {"resourceVersion": str(self._store.rv), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        if self._form is not None:
            return watch_line("BOOKMARK", encode(self._form.mark(metadata)))
        head = {"kind": self._resource.kind, "apiVersion": self._resource.gv}
        return watch_line("BOOKMARK", encode({**head, "metadata": metadata}))

    def _too_old(self) -> bytes:
        error = expired(f"too old resource version: {self._start} ({self._collection.floor})")
        return watch_line("ERROR", encode(error.status()))


def _number(resource: ServedResource, query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name) or ""
    if not text:
        return None
    if not text.isdigit():
        raise invalid(resource, "", [Cause(name, f'Invalid value: "{text}": must be a number')])
    return int(text)
