"""The Informer against a server that misbehaves: lost, stuck, expired and undecodable answers."""

import asyncio
import time
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from aiohttp import web
from support.clock import FakeClock
from support.fake_kube import FakeKube, answer, reset, status
from support.running import NODES, following, running, until

from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informer import LATE_SECONDS, RELIST_PAGE, WATCH_SECONDS, Informer
from kubenode.runtime.kube.listwatch import LONGEST_LINE, PAGE
from kubenode.runtime.kube.objects import Node, structs
from kubenode.runtime.kube.plain import PlainTransport

Change = tuple[str, str | None, str | None]


def node(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}}


def recorded(informer: Informer[Node]) -> list[Change]:
    """What handlers hear from now on: key, label `v` of the old and of the new object."""
    heard: list[Change] = []

    def hear(key: str, old: Node | None, new: Node | None) -> None:
        before = old.metadata.labels.get("v", "") if old else None
        after = new.metadata.labels.get("v", "") if new else None
        heard.append((key, before, after))

    informer.add_handler(hear)
    return heard


async def test_lists_in_pages_then_follows_changes(server: FakeKube, kube: Kube) -> None:
    for i in range(25):
        server.put(NODES, node(f"n{i}", zone=f"z{i % 3}"))
    async with following(kube, page=10) as informer:
        assert len(informer.cache) == 25
        assert server.asked("GET", limit="10") == 3
        informer.add_index("zone", lambda n: [n.metadata.labels["zone"]])
        assert len(informer.by("zone", "z0")) == 9
        heard = recorded(informer)
        heard.clear()
        written = server.put(NODES, node("n0", zone="z1", v="2"))
        await informer.wait_for("n0", written["metadata"]["resourceVersion"])
        gone = server.remove(NODES, "n3")
        await informer.wait_for("n3", gone["metadata"]["resourceVersion"])
        assert heard == [("n0", "", "2"), ("n3", "", None)]
        assert [n.metadata.name for n in informer.by("zone", "z0")] == [
            f"n{i}" for i in range(6, 25, 3)
        ]
        assert informer.fresh()


async def test_a_full_cache_lists_again_in_smaller_pages(server: FakeKube, kube: Kube) -> None:
    for i in range(2 * RELIST_PAGE + 1):
        server.put(NODES, node(f"n{i}"))
    async with following(kube, watch_seconds=1.0, relist=0.1) as informer:
        assert server.asked("GET", limit=str(PAGE)) == 1
        await until(lambda: informer.stats.relists == 1)
        assert server.asked("GET", limit=str(PAGE)) == 1
        assert server.asked("GET", limit=str(RELIST_PAGE)) == 3
        assert len(informer.cache) == 2 * RELIST_PAGE + 1


async def test_a_write_not_seen_in_time_is_an_error(server: FakeKube, kube: Kube) -> None:
    async with following(kube) as informer:
        with pytest.raises(TimeoutError, match="our write of n1 at 999"):
            await informer.wait_for("n1", "999", timeout=0.05)


async def test_resumes_without_a_list_when_the_server_ends_the_watch(
    server: FakeKube, kube: Kube
) -> None:
    server.put(NODES, node("n1"))
    async with following(kube) as informer:
        await until(lambda: server.watches == 1)
        server.close_watches()
        written = server.put(NODES, node("n1", v="2"))
        await informer.wait_for("n1", written["metadata"]["resourceVersion"])
        assert server.lists() == 1


async def test_a_server_that_ends_every_watch_is_not_stormed(server: FakeKube, kube: Kube) -> None:
    async def at_once(request: web.Request) -> web.StreamResponse | None:
        return web.Response(text="") if request.query.get("watch") else None

    server.faults.append(at_once)
    async with following(kube, backoff=(0.5, 10.0)) as informer:
        await asyncio.sleep(1.5)
        assert informer.stats.watches <= 4
        assert server.lists() == 1


async def test_after_an_outage_and_410_the_missed_delete_is_heard(
    server: FakeKube, kube: Kube
) -> None:
    for name in ("stays", "changes", "goes"):
        server.put(NODES, node(name, v="1"))
    async with following(kube) as informer:
        await until(lambda: server.watches == 1)
        heard = recorded(informer)
        heard.clear()
        outage = answer(status(503, "ServiceUnavailable"))
        server.faults.append(outage)
        server.close_watches()
        await until(lambda: informer.stats.errors >= 2)
        assert informer.get("goes") is not None, "the old cache stays readable"
        server.quiet = True
        server.put(NODES, node("changes", v="2"))
        server.remove(NODES, "goes")
        server.put(NODES, node("comes", v="1"))
        server.quiet = False
        server.compact()
        server.faults.remove(outage)
        await until(lambda: informer.stats.lists == 2)
        assert sorted(heard) == [
            ("changes", "1", "2"),
            ("comes", None, "1"),
            ("goes", "1", None),
        ]
        assert set(informer.cache) == {"stays", "changes", "comes"}


async def test_410_within_a_paged_list_starts_it_again(server: FakeKube, kube: Kube) -> None:
    for i in range(10):
        server.put(NODES, node(f"n{i}"))
    compacted = False

    async def compact_once(request: web.Request) -> web.StreamResponse | None:
        nonlocal compacted
        if request.query.get("continue") and not compacted:
            compacted = True
            server.put(NODES, node("late"))
            server.compact()
        return None

    server.faults.append(compact_once)
    async with following(kube, page=4) as informer:
        assert set(informer.cache) == {*(f"n{i}" for i in range(10)), "late"}
        assert informer.stats.errors == 0


async def test_a_frozen_peer_is_noticed_and_left(server: FakeKube, kube: Kube) -> None:
    server.frozen = True
    async with following(kube, watch_seconds=1.0, grace=0.3) as informer:
        await until(lambda: server.watches == 1)
        server.quiet = True
        server.put(NODES, node("n1"))
        await until(lambda: informer.stats.errors == 1, what="the dead peer")
        server.quiet = server.frozen = False
        await until(lambda: "n1" in informer.cache)
        assert server.lists() == 1


async def test_a_silent_watch_is_confirmed_and_keeps_the_cache_fresh(
    server: FakeKube, kube: Kube
) -> None:
    async with following(kube, watch_seconds=1.0) as informer:
        await until(lambda: informer.stats.confirmed >= 2)
        assert informer.age() < 2.0
        assert server.asked("GET", resourceVersionMatch="NotOlderThan") >= 2
        assert server.lists() == 1


async def test_it_is_known_since_when_the_server_is_heard_without_a_gap(
    server: FakeKube, kube: Kube
) -> None:
    async with following(kube, watch_seconds=1.0) as informer:
        first = informer.hearing_since()
        assert first is not None
        await until(lambda: informer.stats.confirmed >= 2)
        server.close_watches()
        server.put(NODES, node("n1"))
        await until(lambda: "n1" in informer.cache)
        assert informer.hearing_since() == first, "quiet watches and ended ones are no gaps"
        outage = answer(status(503, "ServiceUnavailable"))
        server.faults.append(outage)
        server.close_watches()
        assert informer.unheard() == ()
        await until(lambda: informer.hearing_since() is None, what="the outage")
        assert informer.fresh()
        ((began, until_now),) = informer.unheard()
        assert began <= until_now
        server.faults.remove(outage)
        back = kube.clock.monotonic()
        await until(lambda: informer.hearing_since() is not None)
        since = informer.hearing_since()
        assert since is not None and since >= back
        assert informer.unheard() == ((began, since),)


async def test_expired_versions_alone_are_no_gap(server: FakeKube, kube: Kube) -> None:
    async with following(kube) as informer:
        first = informer.hearing_since()
        server.compact()
        server.faults.append(answer(status(410, "Expired")))
        server.close_watches()
        await until(lambda: informer.stats.errors >= 1)
        server.faults.clear()
        await until(lambda: informer.stats.lists == 2)
        assert informer.hearing_since() == first is not None


async def test_a_proof_that_comes_too_late_ends_a_gap() -> None:
    """As of a server, or a process of ours, that stood still."""
    clock = FakeClock()
    informer = Informer(Kube(PlainTransport("http://nobody"), clock=clock), NODES, structs(Node))
    informer.synced.set()
    informer._event(bookmark(5))
    first = informer.hearing_since()
    clock.step(timedelta(seconds=WATCH_SECONDS))
    informer._event(bookmark(6))
    assert informer.hearing_since() == first == 1000.0
    clock.step(timedelta(seconds=WATCH_SECONDS + LATE_SECONDS + 1))
    assert informer.hearing_since() is None
    silent = 1000.0 + WATCH_SECONDS
    assert informer.unheard() == ((silent, clock.monotonic()),)
    informer._event(bookmark(7))
    assert informer.hearing_since() == clock.monotonic()
    assert informer.unheard() == ((silent, clock.monotonic()),)


def bookmark(version: int) -> bytes:
    head = {"metadata": {"resourceVersion": str(version)}}
    return msgspec.json.encode({"type": "BOOKMARK", "object": head})


async def test_a_restored_server_that_stays_silent_is_found_out(
    server: FakeKube, kube: Kube
) -> None:
    server.put(NODES, node("n1", v="new"))
    async with following(kube, watch_seconds=1.0) as informer:
        # The backup holds another n1, by chance at the same resourceVersion.
        old = server.objects[NODES]["n1"]
        old["metadata"]["labels"] = {"v": "old"}
        server.go_back_to(50)
        await until(lambda: informer.stats.lists == 2)
        restored = informer.get("n1")
        assert restored is not None
        assert restored.metadata.labels == {"v": "old"}
        assert informer.resource_version == "50"


async def test_a_quiet_resource_is_listed_anew_when_a_restore_was_noticed_elsewhere(
    server: FakeKube, kube: Kube
) -> None:
    """Other writes have passed the version that it saw: nothing of its own shows the restore."""
    server.put(NODES, node("n1", v="new"))
    told: list[str] = []
    kube.on_went_back.append(lambda path, before, now: told.append(path))
    async with following(kube) as informer:
        await until(lambda: server.watches == 1)
        seen = recorded(informer)
        seen.clear()
        server.objects[NODES]["n1"]["metadata"]["labels"] = {"v": "old"}
        server.version += 1_000
        kube.restored()
        await until(lambda: informer.stats.lists == 2)
        assert seen == [("n1", "new", "old")] and told == [NODES]
        await until(lambda: server.watches == 1)
        assert informer.stats.lists == 2


async def test_an_agents_informer_lists_anew_behind_each_lost_connection(
    server: FakeKube, kube: Kube
) -> None:
    """Behind it a backup may have been restored, and other writes have passed what was seen."""
    server.put(NODES, node("n1", v="new"))
    async with following(kube, relist_after_loss=True) as informer:
        await until(lambda: server.watches == 1)
        await server.stop()
        server.version += 1_000
        server.put(NODES, node("n1", v="old"))
        server._history.clear()
        await server.start()
        await until(lambda: informer.stats.lists == 2)
        assert (found := informer.get("n1")) is not None and found.metadata.labels == {"v": "old"}


async def test_that_the_server_went_back_is_known_before_what_its_backup_lacks_is_gone(
    server: FakeKube, kube: Kube
) -> None:
    server.put(NODES, node("n1"))
    order: list[str] = []
    kube.on_went_back.append(lambda path, before, now: order.append("went back"))
    async with following(kube, watch_seconds=1.0) as informer:
        informer.add_handler(lambda key, old, new: order.append("gone") if new is None else None)
        del server.objects[NODES]["n1"]
        server.go_back_to(50)
        await until(lambda: informer.stats.lists == 2)
        assert order == ["went back", "gone"]


async def test_an_event_below_our_version_lists_again(server: FakeKube, kube: Kube) -> None:
    server.put(NODES, node("n1"))
    async with following(kube) as informer:
        await until(lambda: server.watches == 1)
        server.go_back_to(40)
        server.put(NODES, node("n2"))
        await until(lambda: informer.stats.lists == 2)
        assert set(informer.cache) == {"n1", "n2"}
        assert informer.resource_version == "41"


async def test_an_undecodable_object_keeps_its_last_good_copy(server: FakeKube, kube: Kube) -> None:
    server.put(NODES, node("bad", v="1"))
    server.put(NODES, node("good", v="1"))
    async with following(kube) as informer:
        await until(lambda: server.watches == 1)
        odd = {"metadata": {"name": "bad"}, "spec": {"unschedulable": "perhaps"}}
        server.put(NODES, odd)
        written = server.put(NODES, node("good", v="2"))
        await informer.wait_for("good", written["metadata"]["resourceVersion"])
        assert informer.cache["bad"].metadata.labels == {"v": "1"}
        assert "unschedulable" in informer.broken["bad"]
        assert not informer.readable("bad")
        assert informer.readable("good")

        server.quiet = True
        server.put(NODES, node("another"))
        server.quiet = False
        server.compact()
        server.close_watches()
        await until(lambda: informer.stats.lists == 2)
        assert informer.cache["bad"].metadata.labels == {"v": "1"}, "also after a list"

        server.put(NODES, node("bad", v="3"))
        await until(lambda: informer.readable("bad"))
        assert informer.cache["bad"].metadata.labels == {"v": "3"}


async def test_an_undecodable_object_in_the_first_list_hides_nothing_else(
    server: FakeKube, kube: Kube
) -> None:
    server.put(NODES, {"metadata": {"name": "bad"}, "status": {"conditions": "none"}})
    server.put(NODES, node("good"))
    async with following(kube) as informer:
        assert set(informer.cache) == {"good"}
        assert set(informer.broken) == {"bad"}


async def test_what_an_answer_brought_is_not_decoded_again(server: FakeKube, kube: Kube) -> None:
    async with following(kube) as informer:
        await until(lambda: server.watches == 1)
        raw = msgspec.json.encode(server.put(NODES, node("n1", v="1")))
        answered = informer.read(raw)
        await until(lambda: "n1" in informer.cache)
        assert informer.get("n1") is answered
        assert informer.read(raw) is answered, "also when the watch was first"

        informer.read(msgspec.json.encode(server.put(NODES, node("n1", v="2"))))
        written = server.put(NODES, node("n1", v="3"))
        await informer.wait_for("n1", written["metadata"]["resourceVersion"])
        assert informer.cache["n1"].metadata.labels == {"v": "3"}, "another version is another one"


async def test_null_is_taken_for_absent(server: FakeKube, kube: Kube) -> None:
    server.put(NODES, {"metadata": {"name": "n1", "labels": None}, "spec": {"taints": None}})
    async with following(kube) as informer:
        got = informer.cache["n1"]
        assert (got.metadata.labels, got.spec.taints) == ({}, [])
        assert informer.stats.undecodable == 0


async def test_a_raising_handler_is_counted_and_the_others_still_hear(
    server: FakeKube, kube: Kube
) -> None:
    async with following(kube) as informer:
        await until(lambda: server.watches == 1)

        def broken(key: str, old: Node | None, new: Node | None) -> None:
            raise RuntimeError("a bug")

        informer.add_handler(broken)
        heard = recorded(informer)
        server.put(NODES, node("n1"))
        await until(lambda: heard == [("n1", None, "")])
        assert informer.handler_errors == 1


async def test_an_object_that_cannot_be_indexed_keeps_its_last_good_copy(
    server: FakeKube, kube: Kube
) -> None:
    def zone(found: Node) -> list[str]:
        return [found.metadata.labels["zone"]]

    def labelled(name: str, zone: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "labels": {"zone": zone}}}

    async with following(kube) as informer:
        await until(lambda: server.watches == 1)
        informer.add_index("zone", zone)
        server.put(NODES, labelled("n1", "a"))
        server.put(NODES, node("n1"))
        server.put(NODES, labelled("n2", "a"))
        await until(lambda: informer.get("n2") is not None)
        assert not informer.readable("n1")
        assert "index 'zone'" in informer.broken["n1"]
        assert [n.metadata.name for n in informer.by("zone", "a")] == ["n1", "n2"]
        server.put(NODES, labelled("n1", "b"))
        await until(lambda: informer.readable("n1"))
        assert [n.metadata.name for n in informer.by("zone", "b")] == ["n1"]


DEEP = (
    b'{"metadata": {"name": "deep", "resourceVersion": "101"}, "odd": '
    + b'{"a":' * 9000 + b"1" + b"}" * 9000 + b"}"
)  # fmt: skip


async def test_an_object_of_any_depth_in_a_watch_hides_nothing_else(
    server: FakeKube, kube: Kube
) -> None:
    async with following(kube) as informer:
        await until(lambda: server.watches == 1)
        server.send_line(b'{"type": "ADDED", "object": ' + DEEP + b"}\n")
        server.put(NODES, node("n1"))
        await until(lambda: informer.get("n1") is not None)
        assert list(informer.broken) == ["deep"]


async def test_an_object_of_any_depth_in_a_list_hides_nothing_else(
    server: FakeKube, kube: Kube
) -> None:
    async def listed(request: web.Request) -> web.StreamResponse | None:
        if request.query.get("watch"):
            return None
        page = b'{"metadata": {"resourceVersion": "100"}, "items": [' + DEEP + b"]}"
        return web.Response(body=page, content_type="application/json")

    server.faults.append(listed)
    async with following(kube) as informer:
        assert list(informer.broken) == ["deep"]
        server.put(NODES, node("n1"))
        await until(lambda: informer.get("n1") is not None)


async def test_a_line_that_fails_twice_leads_to_a_list(server: FakeKube, kube: Kube) -> None:
    server.put(NODES, node("n1"))
    async with following(kube) as informer:
        await until(lambda: informer.stats.watches == 1)
        server.send_line(b'{"type": "MODIFIED", "object": {"metada\n')
        await until(lambda: informer.stats.watches == 2)
        assert server.lists() == 1, "the first time it resumes"
        server.send_line(b'{"type": "MODIFIED", "object": {"metada\n')
        await until(lambda: informer.stats.lists == 2)


@pytest.mark.parametrize(("size", "lists"), [(5_000_000, 1), (LONGEST_LINE, 2)])
async def test_a_line_longer_than_the_buffer_does_not_stop_the_cache(
    server: FakeKube, kube: Kube, size: int, lists: int
) -> None:
    async with following(kube) as informer:
        await until(lambda: server.watches == 1)
        huge = node("huge")
        huge["metadata"]["annotations"] = {"a": "x" * size}
        server.put(NODES, huge)
        await until(lambda: "huge" in informer.cache, seconds=30)
        assert informer.stats.lists == lists


async def test_retry_after_wins_over_our_own_delays(server: FakeKube, kube: Kube) -> None:
    busy = answer(status(429, "TooManyRequests"), times=1, retry_after=1)
    server.faults.append(busy)
    began = time.monotonic()
    async with following(kube):
        assert time.monotonic() - began >= 1.0


async def test_the_first_success_of_anybody_wakes_waiting_informers(
    server: FakeKube, kube: Kube
) -> None:
    server.put(NODES, node("n1"))
    server.faults.append(reset)
    async with following(kube, synced=False, backoff=(20.0, 30.0)) as informer:
        await until(lambda: informer.stats.errors == 1)
        await asyncio.sleep(0.05)
        server.faults.clear()
        assert not informer.synced.is_set()
        await kube.get(f"{NODES}/n1")
        await asyncio.wait_for(informer.synced.wait(), 10)  # its own delay is twenty
        assert informer.woken == 1


async def test_waking_does_not_hammer_a_path_that_alone_fails(server: FakeKube, kube: Kube) -> None:
    server.put(NODES, node("n1"))

    async def lists_fail(request: web.Request) -> web.StreamResponse | None:
        if "limit" not in request.query:
            return None
        return web.json_response(status(500, "InternalError"), status=500)

    server.faults.append(lists_fail)
    async with following(kube, synced=False, backoff=(20.0, 30.0)) as informer:
        ends = time.monotonic() + 1.2
        while time.monotonic() < ends:
            await kube.get(f"{NODES}/n1")
            await asyncio.sleep(0.03)
        assert informer.stats.errors <= 3


async def test_f47_a_deaf_watch_is_noticed_by_the_relist(server: FakeKube, kube: Kube) -> None:
    server.put(NODES, node("n1", v="well"))
    async with following(kube, watch_seconds=1.0, relist=1.5) as informer:
        await until(lambda: server.watches == 1)
        server.quiet = True
        server.put(NODES, node("n1", v="ill"))
        await until(lambda: informer.cache["n1"].metadata.labels["v"] == "ill")


async def test_f47_a_cache_that_hears_nothing_is_not_fresh(server: FakeKube, kube: Kube) -> None:
    async with following(kube) as informer:
        await server.stop()
        await asyncio.sleep(0.3)
        assert informer.age() >= 0.25
        assert not informer.fresh(limit=0.25)
        await server.start()
        await until(lambda: informer.fresh(limit=0.25))


async def test_handlers_see_everything_again_at_a_resync(server: FakeKube, kube: Kube) -> None:
    for i in range(120):
        server.put(NODES, node(f"n{i}"))
    async with following(kube, resync=0.2) as informer:
        heard = recorded(informer)
        heard.clear()
        await until(lambda: len(heard) >= 240)
        assert {key for key, _, _ in heard} == set(informer.cache)
        assert server.lists() == 1


async def test_twenty_refused_requests_reload_the_credentials_once(
    server: FakeKube, tmp_path: Any
) -> None:
    token = tmp_path / "token"
    token.write_text("first")
    server.token = "first"
    for i in range(20):
        server.put(NODES, node(f"n{i}"))
    transport = PlainTransport(server.url, token_file=str(token))
    kube = Kube(transport)
    informer = Informer(kube, NODES, structs(Node))
    async with running(informer.run()):
        await informer.synced.wait()
        await until(lambda: server.watches == 1)
        server.token = "second"
        token.write_text("second")
        async with asyncio.TaskGroup() as tasks:
            for i in range(20):
                tasks.create_task(kube.get(f"{NODES}/n{i}"))
        assert transport.generation == 1
        written = server.put(NODES, node("n1", v="2"))
        await informer.wait_for("n1", written["metadata"]["resourceVersion"])
        assert informer.stats.watches == 1, "the open watch goes on over the old connection"
    await kube.close()
