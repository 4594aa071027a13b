"""A cache of one resource that recovers from failures of networks and servers.

It LISTs in pages and then WATCHes from there. It handles each way in which a watch can fail:

    the server ends it, the network fails     resume from the last resourceVersion
    410, or a server that is behind us        list again: changed objects become updates, vanished
                                              ones deletes; the old cache stays readable meanwhile
    silence beyond the requested time         the peer is dead: open a new connection
    a watch without a single line             check that the server still knows our version: one
                                              restored from a backup accepts it and stays silent
    a line that cannot be read, twice         list again
    an object that cannot be read or indexed  keep its last good copy and report it

`age()` returns the seconds since the server last proved that the cache is current. Check `fresh()`
before an act that depends on the cache. Check `hearing_since()` before a conclusion from silence,
such as a missing heartbeat, and `unheard()` before one from how long something has lasted.
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Sequence, Set
from typing import Generic, Protocol, TypeVar

import msgspec

from kubenode.runtime.clock import Clock, SystemClock, wait
from kubenode.runtime.garbage import give_back
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import TOO_LARGE_RESOURCE_VERSION, Gone, KubeError
from kubenode.runtime.kube.listwatch import PAGE, BadLine, ListWatch
from kubenode.runtime.kube.objects import Object
from kubenode.runtime.kube.paths import GROUP
from kubenode.runtime.kube.recovery import Recovery
from kubenode.runtime.kube.store import Handler, Index, ObjectStore, key_of
from kubenode.runtime.kube.wire import decode_event, decode_head, error_of
from kubenode.runtime.loopdelay import Span, joined
from kubenode.runtime.rate import Spread

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Object)

WATCH_SECONDS = 30.0
GRACE_SECONDS = 10.0
FRESH_SECONDS = 60.0
RESYNC_SECONDS = 450.0
RELIST_SECONDS = 1800.0
BACKOFF_LOW, BACKOFF_HIGH = 0.5, 10.0
GOOD_SPELL = 5.0
LATE_SECONDS = 5.0
"""How much later than the end of a quiet watch a proof may come. A later one ends a gap."""
LIST_RESTARTS = 3
RELIST_PAGE = 100
"""Objects of one page while the cache is full: a page of 500 Nodes takes another 20 MB."""
MANY = 1000
"""Size of a cache from which a relist leaves memory worth returning to the kernel."""
MOST_GAPS = 16
YIELD_EVERY = 50
MOST_READ = 1024
"""Most answers to our writes that are remembered, so that the watch need not decode them again."""


class WentBack(Gone):
    """The server's resourceVersion is below ours: it was restored from a backup."""


class InformerStats:
    """Counts of what has happened, for the metrics."""

    def __init__(self) -> None:
        self.lists = self.relists = self.watches = self.confirmed = 0
        self.events = self.errors = self.undecodable = 0


class InformerView(Protocol):
    """A second reader of the same cache, without requests of its own
    (kubenode.runtime.kube.informers).

    It is notified before callers that wait for a version.
    """

    def listed(self, raw: bytes, *, distrust: bool) -> None:
        """Take one object of a list. With `distrust` an equal version may have other content."""
        ...

    def listed_all(self, listed_keys: Set[str]) -> None:
        """End a list. Objects whose keys are not in `listed_keys` are gone."""
        ...

    def changed(self, raw: bytes) -> None: ...
    def gone(self, key: str) -> None: ...

    def reached(self, version: str) -> None:
        """Take note that all changes up to this resourceVersion have been passed on."""
        ...


class Informer(Generic[T]):
    """The objects under `path` that match the selectors, by key `name` or `namespace/name`.

    decode: one object's JSON to T; raises ValueError for what does not fit
    watch_seconds: requested length of a watch; agents use 300, as 10,000 of them share the server
    grace: seconds of silence beyond that which prove a dead peer
    resync: seconds between two rounds in which handlers get every object again, so that a
        level-triggered controller misses nothing for longer; None for no rounds
    relist: seconds between full lists, None for none: the last resort against a watch that lives
        but sends wrong data (failure mode F47)
    relist_spread: seconds over which the list after a 410 is spread, because thousands of agents
        get one together when the API server restarts
    relist_after_loss: list again after each lost connection, because etcd may have been restored
        from a backup meanwhile; operators notice a restore by themselves, agents do not
    """

    def __init__(
        self,
        kube: Kube,
        path: str,
        decode: Callable[[bytes], T],
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        clock: Clock | None = None,
        name: str | None = None,
        page: int = PAGE,
        watch_seconds: float = WATCH_SECONDS,
        grace: float = GRACE_SECONDS,
        resync: float | None = RESYNC_SECONDS,
        relist: float | None = RELIST_SECONDS,
        relist_spread: float = 0.0,
        relist_after_loss: bool = False,
        backoff: tuple[float, float] = (BACKOFF_LOW, BACKOFF_HIGH),
        spread: Spread = random.random,
    ) -> None:
        self.kube = kube
        self.path = path
        self.name = name or path.rsplit("/", 1)[-1]
        self.synced = asyncio.Event()
        self.stats = InformerStats()
        self.resource_version = ""
        self.broken: dict[str, str] = {}
        """Keys whose newest version did not decode, and why. `get` returns the last good copy."""
        self.views: list[InformerView] = []
        self._decode = decode
        self._clock = clock or kube.clock or SystemClock()
        self._server = ListWatch(
            kube,
            path,
            label_selector=label_selector,
            field_selector=field_selector,
            page=page,
            watch_seconds=watch_seconds,
            grace=grace,
            spread=spread,
        )
        self._good_gap = min(GOOD_SPELL, watch_seconds / 2)
        self._longest_silence = watch_seconds + LATE_SECONDS
        self._resync_seconds, self._relist_seconds = resync, relist
        self._relist_after_loss = relist_after_loss
        self._spread = spread
        self._recovery = Recovery(self.name, *backoff, self._clock, spread, relist_spread)
        self._store: ObjectStore[T] = ObjectStore(self.name)
        self._contact = self._listed = float("-inf")
        self._hearing_since: float | None = None
        self._unheard: deque[tuple[float, float]] = deque(maxlen=MOST_GAPS)
        self._watching_since = float("inf")
        self._must_list = True
        self._distrust = False
        self._restores = kube.restores
        self._custom = path.startswith(f"/apis/{GROUP}/")
        self._bad_line_at: str | None = None
        self._waiters: list[tuple[int, asyncio.Event]] = []
        self._read: dict[str, T] = {}

    # -- reading ------------------------------------------------------------------------------

    @property
    def cache(self) -> dict[str, T]:
        """Return the objects by key. Do not change it."""
        return self._store.cache

    def get(self, key: str) -> T | None:
        return self._store.cache.get(key)

    def by(self, index: str, value: str) -> list[T]:
        return self._store.by(index, value)

    def add_index(self, name: str, values: Index[T]) -> None:
        self._store.add_index(name, values)

    def read(self, raw: bytes) -> T:
        """Return the object in the answer to one of our writes.

        The watch brings it as well; whichever comes first is decoded. Raises ValueError.
        """
        head = decode_head(raw).metadata
        key = key_of(head)
        have = self.get(key)
        if have is not None and have.metadata.resource_version == head.resource_version:
            return have
        obj = self._decode(raw)
        if len(self._read) < MOST_READ:
            self._read[key] = obj
        return obj

    def add_handler(self, handler: Handler[T]) -> None:
        self._store.add_handler(handler)

    @property
    def woken(self) -> int:
        """Return the number of waits that ended early because an outage had ended."""
        return self._recovery.woken

    @property
    def handler_errors(self) -> int:
        return self._store.handler_errors

    def age(self) -> float:
        """Return the seconds since the server last proved this cache current; at first infinite."""
        return self._clock.monotonic() - self._contact

    def fresh(self, limit: float = FRESH_SECONDS) -> bool:
        """Return whether acts may depend on this cache. `limit` must exceed `watch_seconds`.

        It is not fresh while our own event loop is late, because changes may wait to be read.
        """
        in_time = self.kube.delay.late_since() is None
        return in_time and self.synced.is_set() and self.age() <= limit

    def hearing_since(self) -> float | None:
        """Return the monotonic time since which the cache was proved current without a gap.

        None while it is not: after a failed request or too long a silence of the server, or while
        our event loop is late.
        """
        in_time_since = self.kube.delay.in_time_since()
        if in_time_since is None or not self._is_fresh():
            return None
        return max(self._hearing_since or in_time_since, in_time_since)

    def unheard(self) -> Sequence[tuple[float, float]]:
        """Return the last gaps, in monotonic time, without a proof that the cache was current.

        The causes are failed requests, too long silences, or our own late event loop. A gap that
        still lasts ends now.
        """
        if self._contact == float("-inf"):
            return ()
        now = self._clock.monotonic()
        lasts = () if self._is_fresh() else ((self._contact, now),)
        return joined((*self._unheard, *lasts, *self.kube.delay.delays()))

    def _is_fresh(self) -> bool:
        return self._hearing_since is not None and self.age() <= self._longest_silence

    def delays(self) -> Sequence[Span]:
        """Return the last times, in monotonic time, when our own event loop was late."""
        return self.kube.delay.delays()

    def readable(self, key: str) -> bool:
        """Return False while the newest version of the object could not be decoded."""
        return key not in self.broken

    async def wait_for(
        self,
        key: str,
        resource_version: str,
        timeout: float = 5.0,  # noqa: ASYNC109  measured on our clock
    ) -> None:
        """Return when the cache holds what was written at `resource_version`, or something newer.

        Await it after a write, so that the next reconcile does not decide on the state before it.
        Raises TimeoutError; the caller then fails and is retried, which is safe.
        """
        wanted = int(resource_version)
        have = self.get(key)
        if self._version_number() >= wanted or (have is not None and _rv(have) >= wanted):
            return
        reached = asyncio.Event()
        waiter = (wanted, reached)
        self._waiters.append(waiter)
        try:
            if not await wait(self._clock, reached, timeout):
                raise TimeoutError(
                    f"{self.name}: our write of {key} at {resource_version} was not seen within"
                    f" {timeout:g} s"
                )
        finally:
            self._waiters.remove(waiter)

    # -- following the server -----------------------------------------------------------------

    def shorten(self, watch_seconds: float) -> None:
        """Limit the length of the next watches, for a reader that needs a proof more often."""
        self._server.shorten(watch_seconds)
        self._good_gap = min(self._good_gap, watch_seconds / 2)
        self._longest_silence = min(self._longest_silence, watch_seconds + LATE_SECONDS)

    async def run(self) -> None:
        """Follow the server until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow(), name=f"informer {self.name}")
            if self._resync_seconds is not None:
                tasks.create_task(self._resync(self._resync_seconds), name=f"resync {self.name}")

    async def _follow(self) -> None:
        while True:
            outage_ended = self.kube.outage.ended
            self._watching_since = float("inf")
            try:
                if self._must_list or self._list_is_old() or self._restores != self.kube.restores:
                    await self._list()
                    outage_ended = self.kube.outage.ended
                if not await self._watch():
                    await self._confirm()
            except (KubeError, BadLine) as error:
                self.stats.errors += 1
                self._lasted()
                await self._after(error, outage_ended)
            else:
                self._recovery.went_well()
                if not self._lasted():
                    await self._recovery.pause()

    def _lasted(self) -> bool:
        """Return whether the watch lasted, because only that proves that the server works."""
        if self._clock.monotonic() - self._watching_since < self._good_gap:
            return False
        self._recovery.lasted()
        return True

    def _list_is_old(self) -> bool:
        limit = self._relist_seconds
        return limit is not None and self._clock.monotonic() - self._listed > limit

    async def _after(self, error: KubeError | BadLine, outage_ended: asyncio.Event) -> None:
        """Decide after an error whether to list again, and wait for the backoff."""
        if isinstance(error, BadLine):
            self._must_list |= self._bad_line_at == self.resource_version
            self._bad_line_at = self.resource_version
            self._hearing_since = None
            await self._recovery.after(str(error))
            return
        behind = TOO_LARGE_RESOURCE_VERSION in error.causes or isinstance(error, WentBack)
        expired = behind or error.status == 410
        if not expired:
            self._hearing_since = None
        self._must_list |= expired or (self._relist_after_loss and error.status == 0)
        self._distrust |= behind
        outage = error.status == 0 or error.status >= 500
        await self._recovery.after(
            str(error),
            retry_after=error.retry_after,
            expired=expired,
            outage_ended=outage_ended if outage else None,
        )

    # -- list ---------------------------------------------------------------------------------

    async def _list(self) -> None:
        """Replace the cache. Objects that vanished meanwhile become deletes."""
        self._read.clear()
        for restart in range(LIST_RESTARTS + 1):
            try:
                listed_keys, version = await self._pages()
                break
            except Gone:  # compacted between two pages: the snapshot of the list is gone
                if restart == LIST_RESTARTS:
                    raise
        for key in self.cache.keys() - listed_keys:
            self._store.put(key, None)
        for key in self.broken.keys() - listed_keys:
            del self.broken[key]
        for view in self.views:
            view.listed_all(listed_keys)
        if self.stats.lists:
            self.stats.relists += 1
            if len(self.cache) >= MANY:
                give_back()
        self.stats.lists += 1
        self._reach(version)
        self._must_list = self._distrust = False
        self._proven()
        self._listed = self._contact
        self._wake_waiters()
        self.synced.set()

    async def _pages(self) -> tuple[set[str], str]:
        """Read all pages of one list; return the listed keys and the list's resourceVersion."""
        listed_keys: set[str] = set()
        more: str | None = None
        most = RELIST_PAGE if self.stats.lists else None
        while True:
            page = await self._server.page(more, most)
            if more is None:
                self._compare(int(page.metadata.resource_version))
            for count, raw in enumerate(page.items or (), start=1):
                whole = bytes(raw)
                listed_keys.add(self._store_listed(whole))
                for view in self.views:
                    view.listed(whole, distrust=self._distrust)
                if count % YIELD_EVERY == 0:
                    await asyncio.sleep(0)
            more = page.metadata.more
            if not more:
                return listed_keys, page.metadata.resource_version

    def _compare(self, version: int) -> None:
        """Detect a restored server: its full list, read from the store, is below our version.

        Handlers of the list's changes and deletes must know it before, so it is announced here.
        """
        if version < self._version_number() or self._restores != self.kube.restores:
            self._distrust = True
            for tell in self.kube.on_went_back:
                tell(self.path, self._version_number(), version)
            self._restores = self.kube.restores

    def _store_listed(self, raw: bytes) -> str:
        try:
            obj = self._decode(raw)
            key = key_of(obj.metadata)
            have = self.cache.get(key)
            # After a restore the same version may stand for other content, and handlers may
            # remember more than the cache.
            if (
                have is None
                or have.metadata.resource_version != obj.metadata.resource_version
                or self._distrust
            ):
                self._store.put(key, obj)
        except (ValueError, RecursionError) as error:
            return self._undecodable(raw, error)[0]
        self.broken.pop(key, None)
        return key

    def _undecodable(self, raw: bytes, error: Exception) -> tuple[str, str]:
        """Count and report an unreadable object; its last good copy stays.

        Returns its key and resourceVersion. Raises BadLine if not even these can be read.
        """
        try:
            head = decode_head(raw).metadata
        except msgspec.DecodeError as bad:
            raise BadLine(f"{self.name}: an object without metadata: {bad}") from bad
        key, text = key_of(head), str(error)
        self.stats.undecodable += 1
        if self.broken.get(key) != text:
            self.broken[key] = text
            extra = {"informer": self.name, "key": key, "why": text}
            log.error("object cannot be decoded", extra=extra)
        return key, head.resource_version

    async def _confirm(self) -> None:
        """Check after a silent watch that the server still knows our resourceVersion.

        It sends no bookmarks for a quiet resource, and accepts a watch from a version that it has
        not reached (etcd restored from a backup). A list of data not older than ours fails in that
        case.
        """
        if await self._server.version_not_below(self.resource_version) < self._version_number():
            raise WentBack(410, "Expired", "the server answers with an older resourceVersion")
        self.stats.confirmed += 1
        self._proven()

    # -- watch --------------------------------------------------------------------------------

    async def _watch(self) -> int:
        """Run one watch; return the number of lines until the server ended it."""
        lines = 0
        async with self._server.watch(self.resource_version) as read_line:
            self.stats.watches += 1
            self._watching_since = self._clock.monotonic()
            while line := await read_line():
                lines += 1
                self._event(line)
                if lines % YIELD_EVERY == 0:
                    await asyncio.sleep(0)
        return lines

    def _event(self, line: bytes) -> None:
        event = decode_event(line)
        self.stats.events += 1
        match event.type:
            case "ADDED" | "MODIFIED":
                self._changed(bytes(event.object))
            case "DELETED":
                head = decode_head(event.object).metadata
                key = key_of(head)
                self._check(head.resource_version)
                self._gone(key)
                for view in self.views:
                    view.gone(key)
                self._advance(head.resource_version)
            case "BOOKMARK":
                version = decode_head(event.object).metadata.resource_version
                self._check(version)
                self._advance(version)
            case "ERROR":
                raise error_of(event.object, f"WATCH {self.path}")
            case _:
                raise BadLine(f"{self.name}: unknown event type {event.type!r}")

    def _decoded(self, raw: bytes) -> T:
        if self._read:
            head = decode_head(raw).metadata
            read = self._read.pop(key_of(head), None)
            if read is not None and read.metadata.resource_version == head.resource_version:
                return read
        return self._decode(raw)

    def _changed(self, raw: bytes) -> None:
        try:
            obj = self._decoded(raw)
            self._check(obj.metadata.resource_version or "")
            self._store.put(key_of(obj.metadata), obj)
        except (ValueError, RecursionError) as error:
            _, version = self._undecodable(raw, error)
            self._check(version)
        else:
            version = obj.metadata.resource_version or ""
            self.broken.pop(key_of(obj.metadata), None)
        for view in self.views:
            view.changed(raw)
        self._advance(version)

    def _gone(self, key: str) -> None:
        self.broken.pop(key, None)
        self._read.pop(key, None)
        self._store.put(key, None)

    def _check(self, version: str) -> None:
        """Raise WentBack if `version` is below ours: versions of one resource only grow."""
        if int(version) < self._version_number():
            text = f"server went back from {self.resource_version} to {version}"
            raise WentBack(410, "Expired", text, tried=f"WATCH {self.path}")

    def _advance(self, version: str) -> None:
        self._reach(version)
        self._proven()
        if self._waiters:
            self._wake_waiters()

    def _reach(self, version: str) -> None:
        self.resource_version = version
        if self._custom:
            self.kube.newest = max(self.kube.newest, int(version))
        for view in self.views:
            view.reached(version)

    def _proven(self) -> None:
        """Record that the server has just proved the cache current."""
        now = self._clock.monotonic()
        if self._hearing_since is None or now - self._contact > self._longest_silence:
            if self._contact > float("-inf"):
                self._unheard.append((self._contact, now))
            self._hearing_since = now
        self._contact = now

    def _version_number(self) -> int:
        return int(self.resource_version or 0)

    def _wake_waiters(self) -> None:
        for wanted, reached in self._waiters:
            if wanted <= self._version_number():
                reached.set()

    # -- resync -------------------------------------------------------------------------------

    async def _resync(self, seconds: float) -> None:
        """Pass every object to the handlers again, spread over a tenth of the period."""
        while True:
            await self._clock.sleep(seconds * (0.9 + 0.2 * self._spread()))
            keys = list(self.cache)
            chunks = [keys[i : i + YIELD_EVERY] for i in range(0, len(keys), YIELD_EVERY)]
            for chunk in chunks:
                for key in chunk:
                    self._store.touch(key)
                await self._clock.sleep(0.1 * seconds / len(chunks))


def _rv(obj: Object) -> int:
    return int(obj.metadata.resource_version or 0)
