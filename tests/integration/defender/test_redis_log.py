"""The log that replicas share, on a real redis-server: who takes, who judges again, who is told."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from redis.asyncio import Redis
from support.redis_server import RedisServer

from defender.replicas.redis.client import RedisAddress, connect
from defender.replicas.redis.log import Away, LogEntry, RedisEpoch, SharedLog, Strange, Unfit

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as found:
        yield found


@pytest.fixture
async def redis(server: RedisServer) -> AsyncIterator[Redis]:
    server.do("FLUSHALL")
    server.do("SCRIPT", "FLUSH")  # as after a restart: every script is sent again
    client = connect(RedisAddress(server.url, seconds=2.0))
    yield client
    await client.aclose()


@pytest.fixture
def log(redis: Redis) -> SharedLog:
    return SharedLog(redis, "test")


async def test_only_who_has_seen_every_take_may_take(log: SharedLog) -> None:
    reign = await log.begin("e1", 7, {})
    first = await log.sync(reign, -1)
    assert (first.full, first.floor, first.entries) == (True, 7, [])
    number, changes = await log.take(reign, first.version, {"a": "A"})
    assert number == changes.version
    assert changes.entries == [LogEntry("a", number, "A")]
    refused, changes = await log.take(reign, first.version, {"b": "B"})
    assert (refused, changes.entries) == (0, [LogEntry("a", number, "A")])
    again, _ = await log.take(reign, changes.version, {"b": "B"})
    assert again > number


async def test_what_loosens_makes_nobody_judge_again(log: SharedLog) -> None:
    reign = await log.begin("e1", 0, {})
    number, changes = await log.take(reign, 1, {"a": "A"})
    assert await log.put(reign, [LogEntry("a", number, "")]) == 1
    later, _ = await log.take(reign, changes.version, {"b": "B"})
    assert later


async def test_what_came_to_nothing_stays_nothing_however_late_its_confirmation(
    log: SharedLog,
) -> None:
    reign = await log.begin("e1", 0, {})
    number, _ = await log.take(reign, 1, {"a": "A"})
    await log.put(reign, [LogEntry("a", number, "")])
    assert await log.put(reign, [LogEntry("a", number, "A!")], known=True) == 0
    assert await log.put(reign, [LogEntry("a", number, "A!")]) == 0
    (entry,) = (await log.sync(reign, -1)).entries
    assert entry == LogEntry("a", number, "")


async def test_a_late_word_about_an_earlier_take_of_a_name_changes_nothing(log: SharedLog) -> None:
    reign = await log.begin("e1", 0, {})
    first, changes = await log.take(reign, 1, {"a": "A"})
    second, _ = await log.take(reign, changes.version, {"a": "A2"})
    assert await log.put(reign, [LogEntry("a", first, "")]) == 0
    (entry,) = (await log.sync(reign, -1)).entries
    assert entry == LogEntry("a", second, "A2")


async def test_who_was_away_while_the_log_was_trimmed_gets_all_of_it(log: SharedLog) -> None:
    reign = await log.begin("e1", 0, {})
    _, changes = await log.take(reign, 1, {"a": "A"})
    behind = changes.version
    second, changes = await log.take(reign, behind, {"b": "B"})
    third, changes = await log.take(reign, changes.version, {"c": "C"})
    await log.trim(reign, 99, {"b": changes.version, "c": second})  # c has changed since
    found = await log.sync(reign, behind)
    assert (found.full, found.floor) == (True, 99)
    assert [e.name for e in found.entries] == ["a", "c"]
    assert not (await log.sync(reign, found.version)).full
    assert third == found.version


@pytest.mark.parametrize("call", ["sync", "take", "put", "trim"])
async def test_another_epoch_or_another_reign_is_never_believed(log: SharedLog, call: str) -> None:
    reign = await log.begin("e1", 0, {})
    for wrong in (RedisEpoch("e2", reign.replid), RedisEpoch("e1", "0" * 40)):
        with pytest.raises(Strange):
            match call:
                case "sync":
                    await log.sync(wrong, 1)
                case "take":
                    await log.take(wrong, 1, {"a": "A"})
                case "put":
                    await log.put(wrong, [LogEntry("a", 1, "A")])
                case _:
                    await log.trim(wrong, 1, {"a": 1})
    assert (await log.sync(reign, -1)).entries == []


async def test_a_wiped_redis_is_a_stranger(log: SharedLog, server: RedisServer) -> None:
    reign = await log.begin("e1", 0, {})
    server.do("FLUSHALL")
    with pytest.raises(Strange):
        await log.sync(reign, 1)
    assert (await log.probe("x")).reign == RedisEpoch("", reign.replid)


async def test_thousands_of_changes_come_in_one_answer(log: SharedLog) -> None:
    entries = {f"permit-{i}": f"{i}" for i in range(12_000)}
    reign = await log.begin("e1", 0, entries)
    found = await log.sync(reign, -1)
    assert {e.name: e.text for e in found.entries} == entries


async def test_a_redis_that_evicts_is_refused_and_told_what_to_set(
    log: SharedLog, server: RedisServer
) -> None:
    server.do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(Unfit, match=r"allkeys-lru.*set noeviction"):
            await log.probe("x")
    finally:
        server.do("CONFIG", "SET", "maxmemory-policy", "noeviction")


async def test_a_redis_that_restarted_has_another_reign_though_it_kept_everything(
    tmp_path: Path,
) -> None:
    with RedisServer(tmp_path) as server:
        client = connect(RedisAddress(server.url))
        log = SharedLog(client, "test")
        reign = await log.begin("e1", 0, {"a": "A"})
        server.kill()
        with pytest.raises(Away):
            await log.sync(reign, -1)
        server.start()
        after = (await log.probe("x")).reign
        assert after.epoch == "e1"  # the append-only file has it
        assert after.replid != reign.replid
        with pytest.raises(Strange):
            await log.sync(reign, -1)
        await client.aclose()


async def test_a_frozen_redis_and_a_full_one_are_away_at_once(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as server:
        client = connect(RedisAddress(server.url, seconds=0.2))
        log = SharedLog(client, "test")
        reign = await log.begin("e1", 0, {})
        server.freeze()
        with pytest.raises(Away):
            await log.sync(reign, -1)
        server.thaw()
        server.do("CONFIG", "SET", "maxmemory", "1")
        for call in (log.probe("x"), log.take(reign, 1, {"a": "A"})):
            with pytest.raises(Away, match=r"OOM|memory"):
                await call
        await client.aclose()
