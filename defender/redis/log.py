"""A log that several processes share through a Redis: what was taken, and what became of it.

Nothing here knows what an entry means. `take` is the one step that can grant: it succeeds only if
the caller has seen every take before it. Everything else either tells or loosens.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from defender.redis import scripts

if TYPE_CHECKING:
    from redis.asyncio import Redis


def _away() -> tuple[type[Exception], ...]:
    """What a Redis that is away raises. The library comes with OpenTelemetry, in 0.2 s and 20 MB:
    it is loaded where a Redis is set, not by everybody who may have one.
    """
    from redis.exceptions import RedisError

    return (RedisError, OSError, TimeoutError)


class Away(Exception):
    """No answer in time, an error, no master, full. What was sent may still happen."""


class Strange(Exception):
    """Another epoch, or another reign of Redis: nothing that it says counts."""


class Unfit(Exception):
    """It answers, and may not be used: the text says why, and the remedy."""


@dataclass(frozen=True, slots=True)
class RedisEpoch:
    """`epoch` is ours, made anew by each `begin`; `replid` is Redis's own."""

    epoch: str
    replid: str


@dataclass(frozen=True, slots=True)
class LogEntry:
    """`text` "" means that what was taken came to nothing. `take` numbers the takes of a log."""

    name: str
    take: int
    text: str


@dataclass(frozen=True, slots=True)
class LogChanges:
    """full: these are all entries, whatever was known before is to be dropped."""

    version: int
    floor: int = 0
    full: bool = False
    entries: Sequence[LogEntry] = field(default_factory=tuple)


@dataclass(frozen=True, slots=True)
class Probed:
    """reign  the epoch that the log is in, and who answers
    began  the replid of the reign in which that epoch began
    """

    reign: RedisEpoch
    began: str


class SharedLog:
    """prefix: of its keys; in braces, so that a Redis Cluster keeps them in one place."""

    def __init__(self, redis: "Redis", prefix: str) -> None:
        self._redis = redis
        self._keys = [f"{{{prefix}}}:{part}" for part in ("head", "entries", "log")]
        register = redis.register_script
        self._probe, self._begin = register(scripts.PROBE), register(scripts.BEGIN)
        self._sync, self._take = register(scripts.SYNC), register(scripts.TAKE)
        self._put, self._trim = register(scripts.PUT), register(scripts.TRIM)

    async def probe(self, mark: str) -> Probed:
        """Who answers, after a write of `mark`. Raises Away, Unfit."""
        replid, epoch, began, policy = await self._call(self._probe, [mark])
        if policy not in ("noeviction", ""):
            raise Unfit(
                f"its maxmemory-policy is {policy}, which throws entries away: set noeviction"
            )
        return Probed(RedisEpoch(epoch, replid), began)

    async def begin(
        self, epoch: str, floor: int, entries: Mapping[str, str], *, instead: str = "*"
    ) -> RedisEpoch:
        """Throw everything away and begin with these entries. Raises Away.

        instead: only if the log is in this epoch; else the reign has no replid, and nothing is
        done.
        """
        pairs = [part for pair in entries.items() for part in pair]
        return RedisEpoch(epoch, await self._call(self._begin, [epoch, floor, instead, *pairs]))

    async def sync(self, reign: RedisEpoch, since: int) -> LogChanges:
        """What changed since a version; -1: everything. Raises Away, Strange."""
        _, found = await self._trusted(self._sync, reign, [since])
        return _changes(found)

    async def take(
        self, reign: RedisEpoch, since: int, entries: Mapping[str, str]
    ) -> tuple[int, LogChanges]:
        """The number of the take, 0 if others took something after `since`: judge again.

        Either way the changes since then, one's own among them. Raises Away, Strange.
        """
        pairs = [part for pair in entries.items() for part in pair]
        outcome, found, *number = await self._trusted(self._take, reign, [since, *pairs])
        return (int(number[0]) if outcome == scripts.TAKEN else 0), _changes(found)

    async def put(
        self, reign: RedisEpoch, entries: Iterable[LogEntry], *, known: bool = False
    ) -> int:
        """How many were still the last take of their name. Raises Away, Strange.

        known: tell nothing of what is not in the log.
        """
        parts = [part for e in entries for part in (e.name, e.take, e.text)]
        which = "known" if known else "any"
        _, done = await self._trusted(self._put, reign, [which, *parts])
        return int(done)

    async def trim(self, reign: RedisEpoch, floor: int, upto: Mapping[str, int]) -> None:
        """Cut off entries that have not changed since the given versions. Raises Away, Strange."""
        pairs = [part for pair in upto.items() for part in pair]
        await self._trusted(self._trim, reign, [floor, *pairs])

    async def _trusted(
        self, script: Callable[..., Awaitable[Any]], reign: RedisEpoch, rest: Any
    ) -> Any:
        found = await self._call(script, [reign.epoch, reign.replid, *rest])
        if found[0] == scripts.STRANGE:
            raise Strange("Redis was restarted, wiped, or another one is master now")
        return found

    async def _call(self, script: Callable[..., Awaitable[Any]], arguments: Any) -> Any:
        try:
            return await script(keys=self._keys, args=arguments)
        except _away() as error:
            raise Away(str(error) or type(error).__name__) from error


def _changes(found: Sequence[Any]) -> LogChanges:
    version, floor, full = (int(each) for each in found[:3])
    names, values = found[3::2], found[4::2]
    entries = [
        LogEntry(name, int(value.partition("|")[0]), value.partition("|")[2])
        for name, value in zip(names, values, strict=True)
        if value
    ]
    return LogChanges(version, floor, bool(full), entries)
