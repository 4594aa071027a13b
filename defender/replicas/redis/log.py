"""Log that several processes share through a Redis: what was taken, and what became of it.

The content of entries does not matter here. Only `take` can grant: it succeeds only if the caller
has seen all earlier takes. Everything else reports or releases.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from defender.replicas.redis import scripts

if TYPE_CHECKING:
    from redis.asyncio import Redis


def _away() -> tuple[type[Exception], ...]:
    """Return the errors that mean that Redis is away.

    The library loads OpenTelemetry, which takes 0.2 s and 20 MB, so it is only imported if a Redis
    is configured.
    """
    from redis.exceptions import RedisError

    return (RedisError, OSError, TimeoutError)


class Away(Exception):
    """Redis did not answer in time, failed, is no master or is full. The request may still be
    carried out.
    """


class Strange(Exception):
    """Redis is in another epoch or reign, so its content does not count."""


class Unfit(Exception):
    """Redis answers, but must not be used. The message says why, and the remedy."""


@dataclass(frozen=True, slots=True)
class RedisEpoch:
    """State of the log. `epoch` is made by each `begin`; `replid` identifies the Redis process's
    reign.
    """

    epoch: str
    replid: str


@dataclass(frozen=True, slots=True)
class LogEntry:
    """An entry. `text` "" means that the take was undone. `take` is the number of the take."""

    name: str
    take: int
    text: str


@dataclass(frozen=True, slots=True)
class LogChanges:
    """Changes of the log. full: they contain all entries, and replace what was known."""

    version: int
    floor: int = 0
    full: bool = False
    entries: Sequence[LogEntry] = field(default_factory=tuple)


@dataclass(frozen=True, slots=True)
class Probed:
    """State of Redis.

    reign: the epoch of the log, and the replid of the Redis that answers.
    began: the replid of the reign in which that epoch began.
    """

    reign: RedisEpoch
    began: str


class SharedLog:
    """The log. `prefix` of its keys is in braces, so that a Redis Cluster keeps them on one
    node.
    """

    def __init__(self, redis: "Redis", prefix: str) -> None:
        self._redis = redis
        self._keys = [f"{{{prefix}}}:{part}" for part in ("head", "entries", "log")]
        register = redis.register_script
        self._probe, self._begin = register(scripts.PROBE), register(scripts.BEGIN)
        self._sync, self._take = register(scripts.SYNC), register(scripts.TAKE)
        self._put, self._trim = register(scripts.PUT), register(scripts.TRIM)

    async def probe(self, mark: str) -> Probed:
        """Return the state of Redis after writing `mark`. Raises Away and Unfit."""
        replid, epoch, began, policy = await self._call(self._probe, [mark])
        if policy not in ("noeviction", ""):
            raise Unfit(
                f"its maxmemory-policy is {policy}, which throws entries away: set noeviction"
            )
        return Probed(RedisEpoch(epoch, replid), began)

    async def begin(
        self, epoch: str, floor: int, entries: Mapping[str, str], *, instead: str = "*"
    ) -> RedisEpoch:
        """Replace the log by these entries in a new epoch. Raises Away.

        instead: only if the log is in this epoch; otherwise nothing is done and the replid is "".
        """
        pairs = [part for pair in entries.items() for part in pair]
        return RedisEpoch(epoch, await self._call(self._begin, [epoch, floor, instead, *pairs]))

    async def sync(self, reign: RedisEpoch, since: int) -> LogChanges:
        """Return the changes since a version, -1 for everything. Raises Away and Strange."""
        _, reply = await self._trusted(self._sync, reign, [since])
        return _changes(reply)

    async def take(
        self, reign: RedisEpoch, since: int, entries: Mapping[str, str]
    ) -> tuple[int, LogChanges]:
        """Return the number of the take, 0 if others took something after `since`: then judge
        again.

        In either case the changes since then are returned, including this take. Raises Away and
        Strange.
        """
        pairs = [part for pair in entries.items() for part in pair]
        outcome, reply, *number = await self._trusted(self._take, reign, [since, *pairs])
        return (int(number[0]) if outcome == scripts.TAKEN else 0), _changes(reply)

    async def put(
        self, reign: RedisEpoch, entries: Iterable[LogEntry], *, known: bool = False
    ) -> int:
        """Update entries. Return how many were still the last take of their name.

        known: skip entries that are not in the log. Raises Away and Strange.
        """
        parts = [part for e in entries for part in (e.name, e.take, e.text)]
        which = "known" if known else "any"
        _, done = await self._trusted(self._put, reign, [which, *parts])
        return int(done)

    async def trim(self, reign: RedisEpoch, floor: int, upto: Mapping[str, int]) -> None:
        """Remove entries that have not changed since the given versions. Raises Away and
        Strange.
        """
        pairs = [part for pair in upto.items() for part in pair]
        await self._trusted(self._trim, reign, [floor, *pairs])

    async def _trusted(
        self, script: Callable[..., Awaitable[Any]], reign: RedisEpoch, rest: Any
    ) -> Any:
        reply = await self._call(script, [reign.epoch, reign.replid, *rest])
        if reply[0] == scripts.STRANGE:
            raise Strange("Redis was restarted, wiped, or another one is master now")
        return reply

    async def _call(self, script: Callable[..., Awaitable[Any]], arguments: Any) -> Any:
        try:
            return await script(keys=self._keys, args=arguments)
        except _away() as error:
            raise Away(str(error) or type(error).__name__) from error


def _changes(reply: Sequence[Any]) -> LogChanges:
    version, floor, full = (int(each) for each in reply[:3])
    names, values = reply[3::2], reply[4::2]
    entries = [
        LogEntry(name, int(value.partition("|")[0]), value.partition("|")[2])
        for name, value in zip(names, values, strict=True)
        if value
    ]
    return LogChanges(version, floor, bool(full), entries)
