"""Live pages: changes are sent as server-sent events while a page is open.

Each page that somebody watches has one Feed, whatever the number of viewers: its parts as HTML,
each with the number of the change that made it. A client says which change it has seen and gets the
newer parts. Nothing is queued: a slow client gets fewer messages and skips intermediate states. A
client that reconnects does the same.

Bounds: MOST_CLIENTS streams, MOST_FEEDS pages, two messages a second for each client. Rights are
    checked when a stream begins, so a stream lasts at most LASTS.
"""

import asyncio
import json
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from kubenode.runtime.clock import Clock, wait
from kubenode.runtime.site.parts import PagePart, PartRenderer, View
from kubenode.runtime.site.text import iso

TICK = 0.5
"""Seconds between two refreshes, so at most two messages a second."""
BEAT = 5.0
"""Seconds after which a message is sent without a change, to show that the stream is alive."""
LASTS = 600.0
"""Seconds after which a stream ends. The client reconnects at once and is authenticated again."""
MOST_CLIENTS = 100
MOST_FEEDS = 64

S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)
Build = Callable[[S], View]


class LiveSource(Protocol[S_co]):
    """The data of a site's pages.

    changed: set with each change. version: grows with each change that a view may show.
    """

    changed: asyncio.Event

    @property
    def version(self) -> int: ...

    def scene(self) -> S_co:
        """Return the data as they are now."""
        ...


class TooMany(Exception):
    """The process already serves the greatest number of streams."""


@dataclass(frozen=True, slots=True)
class ClientPosition:
    """What a client has seen: `run` of this process, and the number of the last change."""

    run: str = ""
    number: int = -1

    @classmethod
    def read(cls, text: str) -> "ClientPosition":
        run, _, number = text.partition(".")
        return cls(run, int(number)) if run and number.isdecimal() and len(text) < 40 else cls()

    def __str__(self) -> str:
        return f"{self.run}.{self.number}"


@dataclass(slots=True)
class LivePart:
    model: PagePart
    html: str
    number: int


@dataclass(slots=True)
class LiveSlot:
    """Parts of a slot. `number` is that of the last change of their set or order."""

    parts: dict[str, LivePart] = field(default_factory=dict)
    number: int = 0


class Feed(Generic[S]):
    """The live parts of one page."""

    def __init__(self, build: Build[S], render: Callable[[PagePart], str]) -> None:
        self.number = 0
        self.watched_by = 0
        self.version = -1
        self.built_at = float("-inf")
        self._build, self._render = build, render
        self._slots: dict[str, LiveSlot] = {}
        self._layout = 0

    def refresh(self, scene: S) -> bool:
        """Build the page again. Return whether anything changed. Unchanged parts are not rendered
        again.
        """
        number, changed = self.number + 1, False
        slots = {
            name: self._slot(self._slots.get(name, LiveSlot()), models, number)
            for name, models in self._build(scene).items()
        }
        for name, slot in slots.items():
            before = self._slots.get(name)
            if before is None or list(before.parts) != list(slot.parts):
                slot.number, changed = number, True
            changed = changed or any(part.number == number for part in slot.parts.values())
        if self._slots.keys() != slots.keys():
            self._layout, changed = number, True
        self._slots = slots
        self.number += changed
        return changed

    def _slot(self, before: LiveSlot, models: Sequence[PagePart], number: int) -> LiveSlot:
        parts: dict[str, LivePart] = {}
        for model in models:
            old = before.parts.get(model.key)
            if old is not None and old.model == model:
                parts[model.key] = old
            else:
                parts[model.key] = LivePart(model, self._render(model), number)
        return LiveSlot(parts, before.number)

    def html(self) -> dict[str, dict[str, str]]:
        """Return all parts by slot and key, in order."""
        return {
            name: {key: part.html for key, part in slot.parts.items()}
            for name, slot in self._slots.items()
        }

    def since(self, number: int) -> dict[str, dict[str, object]]:
        """Return what a client lacks that has seen change `number`, -1 for nothing.

        By slot: `keys` if the set or order of parts changed, `html` of the changed parts.
        """
        changes: dict[str, dict[str, object]] = {}
        for name, slot in self._slots.items():
            news: dict[str, object] = {}
            html = {key: part.html for key, part in slot.parts.items() if part.number > number}
            if html:
                news["html"] = html
            if slot.number > number:
                news["keys"] = list(slot.parts)
            if news:
                changes[name] = news
        return changes

    def layout(self, number: int) -> list[str]:
        """Return the slots if they changed after `number`, else an empty list. The client then
        reloads the page.
        """
        return list(self._slots) if self._layout > number else []


class Hub(Generic[S]):
    """A part that refreshes watched pages and wakes their viewers."""

    name = "dashboard live"

    def __init__(self, board: LiveSource[S], renderer: PartRenderer, clock: Clock) -> None:
        self.run_id = secrets.token_hex(6)
        self.clients = 0
        self._board, self._renderer, self._clock = board, renderer, clock
        self._feeds: OrderedDict[str, Feed[S]] = OrderedDict()
        self._tick = asyncio.Event()
        self._closed = False

    async def run(self) -> None:
        """Run until cancelled. Then every stream ends, so that no client delays the shutdown of the
        server.
        """
        try:
            while True:
                await wait(self._clock, self._board.changed, BEAT / 2)
                self._board.changed.clear()
                self._refresh()
                tick, self._tick = self._tick, asyncio.Event()
                tick.set()
                await self._clock.sleep(TICK)
        finally:
            self.close()

    def close(self) -> None:
        """End every stream. Clients then reconnect, perhaps to another replica."""
        self._closed = True
        self._tick.set()

    def _refresh(self) -> None:
        watched = [feed for feed in self._feeds.values() if feed.watched_by]
        if not watched:
            return
        scene = self._board.scene()
        for feed in watched:
            self._bring(feed, scene)

    def _bring(self, feed: Feed[S], scene: S) -> None:
        now = self._clock.monotonic()
        if feed.version == self._board.version and now < feed.built_at + BEAT:
            return  # only time has passed, which clients show by themselves
        feed.version, feed.built_at = self._board.version, now
        feed.refresh(scene)

    def snapshot(
        self, key: str, root: str, build: Build[S]
    ) -> tuple[ClientPosition, dict[str, dict[str, str]]]:
        """Return the page as it is now, and the position of a client that shows it."""
        feed = self._feed(key, root, build)
        self._bring(feed, self._board.scene())
        return ClientPosition(self.run_id, feed.number), feed.html()

    def _feed(self, key: str, root: str, build: Build[S]) -> Feed[S]:
        key = f"{root} {key}"
        feed = self._feeds.get(key)
        if feed is None:
            feed = self._feeds[key] = Feed(build, lambda model: self._renderer.part(model, root))
            for old in [k for k, f in self._feeds.items() if not f.watched_by and k != key]:
                if len(self._feeds) <= MOST_FEEDS:
                    break
                del self._feeds[old]
        self._feeds.move_to_end(key)
        return feed

    async def follow(
        self, key: str, root: str, build: Build[S], position: ClientPosition
    ) -> AsyncIterator[dict[str, str]]:
        """Yield events for one client: first what it lacks, then changes. Raises TooMany."""
        if self.clients >= MOST_CLIENTS:
            raise TooMany
        self.clients += 1
        feed = self._feed(key, root, build)
        feed.watched_by += 1
        try:
            self._bring(feed, self._board.scene())
            number = position.number if position.run == self.run_id else -1
            sent_at = float("-inf")
            ends_at = self._clock.monotonic() + LASTS
            while not self._closed and self._clock.monotonic() < ends_at:
                now = self._clock.monotonic()
                if feed.number > number or now >= sent_at + BEAT:
                    yield self._event(feed, number)
                    number, sent_at = feed.number, now
                await wait(self._clock, self._tick, BEAT)
        finally:
            feed.watched_by -= 1
            self.clients -= 1

    def _event(self, feed: Feed[S], number: int) -> dict[str, str]:
        news = feed.since(number) if feed.number > number else {}
        data = {"now": iso(self._clock.now()), "slots": news, "layout": feed.layout(number)}
        return {
            "id": str(ClientPosition(self.run_id, feed.number)),
            "event": "news" if news else "beat",
            "data": json.dumps(data, separators=(",", ":")),
        }
