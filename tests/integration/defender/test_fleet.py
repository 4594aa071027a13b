"""One budget over several clusters on a real Redis: together they never pass the limit."""

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from support.defender_world import Fate, a_policy
from support.redis_fleet import NAMESPACE, Cluster, Fleet
from support.redis_server import RedisServer

from defender.replicas.charge.note import NoteStore
from defender.replicas.fleet.budget import NAME
from defender.replicas.fleet.departure import ANNOTATION, Answered, Departure
from kubenode.api.v1alpha1 import Operation, Reason
from kubenode.api.v1alpha1.defenderpolicy import Limit, LimitScope, PerNode, Rate

pytestmark = pytest.mark.integration
Made = Callable[..., Awaitable[Fleet]]


def a_limit(**change: Any) -> Limit:
    given = {"max_concurrent": "2%", "on_unreachable": "LocalShare"} | change
    return Limit(scope=LimitScope.FLEET, group="prod", **given)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as found:
        yield found


@asynccontextmanager
async def a_fleet(server: RedisServer, limit: Limit, **options: Any) -> AsyncIterator[Fleet]:
    server.do("FLUSHALL")
    policy = a_policy(limit, per_node=PerNode(max_acts=1000))
    fleet = Fleet(server.url, policy, **options)
    await fleet.start()
    try:
        yield fleet
    finally:
        await fleet.close()


async def test_f14_one_bad_change_in_several_clusters_meets_one_budget(
    server: RedisServer,
) -> None:
    """Each cluster alone stays inside 2%; together they would take three times what all may."""
    async with a_fleet(server, a_limit(on_unreachable="Closed")) as fleet:
        for _ in range(4):
            for cluster in fleet.clusters:
                verdict = await cluster.ask()
                assert verdict.allowed or verdict.reason is Reason.CONCURRENCY_LIMIT
        assert fleet.held == 6
        refused = await fleet.clusters[0].ask()
        assert (refused.scope, refused.used, refused.limit) == ("fleet(prod)", 6, 6)
        assert "elsewhere" in refused.message
        await fleet.clusters[2].release()
        await fleet.beats(2)
        assert (await fleet.clusters[0].ask()).allowed
        assert fleet.held == 6


async def test_one_cluster_may_use_what_the_others_do_not_need(server: RedisServer) -> None:
    async with a_fleet(server, a_limit(on_unreachable="Closed")) as fleet:
        verdicts = [await fleet.clusters[0].ask() for _ in range(8)]
        assert sum(v.allowed for v in verdicts) == 6


async def test_f14_cut_off_from_the_others_each_cluster_has_its_share_and_no_more(
    server: RedisServer,
) -> None:
    async with a_fleet(server, a_limit(), sizes=(100, 100, 50)) as fleet:
        shares = [c.group().known.reserves["Node,Pods"] for c in fleet.clusters]
        assert shares == [2, 2, 1]  # of 5
        for cluster in fleet.clusters:
            cluster.cut = True
        await fleet.beats()
        for share, cluster in zip(shares, fleet.clusters, strict=True):
            verdicts = [await cluster.ask() for _ in range(4)]
            assert sum(v.allowed for v in verdicts) == share
            assert f"share of {share}" in verdicts[-1].message
        for cluster in fleet.clusters:
            cluster.cut = False
        await fleet.beats(3)
        assert fleet.held == 5
        assert (await fleet.clusters[2].ask()).reason is Reason.CONCURRENCY_LIMIT


async def test_a_share_survives_a_restart_of_a_cluster_that_is_cut_off(
    server: RedisServer,
) -> None:
    async with a_fleet(server, a_limit()) as fleet:
        cluster = fleet.clusters[0]
        cluster.cut = True
        await cluster.restart()
        await fleet.beats()
        assert [(await cluster.ask()).allowed for _ in range(3)] == [True, True, False]


async def test_the_others_leave_a_cluster_that_is_cut_off_its_share(server: RedisServer) -> None:
    async with a_fleet(server, a_limit()) as fleet:
        first, second, third = fleet.clusters
        first.cut = True
        await fleet.beats()
        for _ in range(5):
            await second.ask()
            await third.ask()
        assert second.held + third.held == 4
        for _ in range(3):
            await first.ask()
        assert fleet.held == 6


async def test_closed_means_nothing_while_the_others_cannot_be_seen(server: RedisServer) -> None:
    async with a_fleet(server, a_limit(on_unreachable="Closed")) as fleet:
        assert (await fleet.clusters[0].ask()).allowed
        fleet.clusters[0].cut = True
        await fleet.beats()
        refused = await fleet.clusters[0].ask()
        assert refused.reason is Reason.STORE_UNAVAILABLE
        assert "cannot be seen" in refused.message


async def test_after_redis_forgot_everything_nobody_goes_on_before_all_have_told(
    server: RedisServer,
) -> None:
    async with a_fleet(server, a_limit(on_unreachable="Closed")) as fleet:
        first, second, third = fleet.clusters
        for cluster in (first, second, third):
            assert (await cluster.ask()).allowed
        third.cut = True
        server.do("FLUSHALL")
        await fleet.beats(5)
        refused = await first.ask()
        assert (refused.reason, refused.allowed) == (Reason.STORE_UNAVAILABLE, False)
        assert "c2" in refused.message
        third.cut = False
        await fleet.beats(3)
        for _ in range(4):
            await first.ask()
        assert fleet.held == 6


async def test_a_cluster_that_joins_takes_nothing_before_the_others_remember_it(
    server: RedisServer,
) -> None:
    async with a_fleet(server, a_limit(on_unreachable="Closed"), sizes=(100, 100)) as fleet:
        first, new = fleet.clusters[0], fleet.clusters[1]
        assert "c1" in first.group().known.roster
        first.group().known.roster = frozenset({"c0"})
        server.do("FLUSHALL")
        first.cut = True
        await fleet.beats(2)
        assert not (await new.ask()).allowed
        first.cut = False
        await fleet.beats(3)
        assert (await new.ask()).allowed


async def test_a_rate_and_healthy_nodes_are_those_of_all_clusters(server: RedisServer) -> None:
    rate = Rate(count=3, per=timedelta(hours=1), burst=3)
    async with a_fleet(server, a_limit(max_concurrent=None, rate=rate)) as fleet:
        verdicts = [await cluster.ask() for cluster in fleet.clusters]
        assert all(v.allowed for v in verdicts)
        for cluster in fleet.clusters:
            await cluster.release()
        await fleet.beats(2)
        assert (await fleet.clusters[0].ask()).reason is Reason.RATE_LIMIT
        loss = await fleet.clusters[0].ask(operation=Operation.EVACUATE, inevitable=True)
        assert loss.allowed
    async with a_fleet(server, a_limit(max_concurrent=None, min_healthy=298)) as fleet:
        assert (await fleet.clusters[0].ask()).allowed
        assert (await fleet.clusters[1].ask()).allowed
        assert (await fleet.clusters[2].ask()).reason is Reason.MIN_HEALTHY
        fleet.clusters[0].node("n50", "False")
        await fleet.clusters[1].release()
        await fleet.beats(2)
        assert (await fleet.clusters[2].ask()).reason is Reason.MIN_HEALTHY


async def test_without_a_redis_a_policy_with_a_fleet_limit_refuses_and_says_what_to_do() -> None:
    from support.defender_world import World, an_ask

    world = World(10, a_policy(a_limit()))
    refused = await (await world.start()).ask(an_ask("n0"))
    assert refused.reason is Reason.POLICY_INVALID
    assert "--redis-url" in refused.message


@pytest.mark.parametrize("seed", range(6))
async def test_however_the_network_splits_the_sum_never_passes_the_limit(
    server: RedisServer, seed: int
) -> None:
    chance = random.Random(seed)
    kind = chance.choice(["LocalShare", "Closed"])
    most = 5
    limit = a_limit(max_concurrent=most, on_unreachable=kind)
    async with a_fleet(server, limit, sizes=(20, 30, 10)) as fleet:
        granted = 0
        for _ in range(250):
            cluster = chance.choice(fleet.clusters)
            match chance.choice("aaaarrrbbbcwfol"):
                case "a":
                    granted += (await cluster.ask()).allowed
                case "r":
                    await cluster.release(chance.randrange(9))
                case "b":
                    fleet.clock.step(timedelta(seconds=1))
                    cluster.current()
                    await cluster.sharing.round()
                case "c":
                    cluster.cut = not cluster.cut
                case "w" if chance.random() < 0.3:
                    server.do("FLUSHALL")
                case "f":
                    number = cluster.api.writes + chance.randrange(2)
                    cluster.api.fates[number] = chance.choice([Fate.LOST, Fate.UNHEARD])
                case "o" if chance.random() < 0.5:
                    await cluster.restart()
                    cluster.current()
                case "l" if chance.random() < 0.5:
                    await fleet.beats(65)  # for as long as it takes to be silent
            assert fleet.held <= most
        assert granted > 2
        for cluster in fleet.clusters:
            cluster.cut = False
            cluster.api.fates.clear()
        await fleet.beats(5)
        for cluster in fleet.clusters:
            await cluster.defender._keep()
        fleet.clock.step(timedelta(seconds=100))
        await fleet.beats(5)
        for cluster in fleet.clusters:
            await cluster.defender._keep()
            while cluster.held:
                await cluster.release()
        await fleet.beats(3)
        fleet.clock.step(timedelta(seconds=100))
        await fleet.beats(3)
        verdicts = [await fleet.clusters[i % 3].ask() for i in range(12)]
        assert sum(v.allowed for v in verdicts) == (most if kind == "Closed" else fleet.held)
        assert fleet.held >= 4


# -- a cluster that is gone -------------------------------------------------------------------


async def gone(fleet: Fleet, held: int = 2) -> Cluster:
    """The last cluster holds permits and is switched off; the others have noticed."""
    last = fleet.clusters[-1]
    for _ in range(held):
        assert (await last.ask()).allowed
    last.cut = True
    fleet.clusters.remove(last)
    await fleet.beats(75)
    return last


async def test_a_silent_cluster_keeps_its_claims_and_the_others_go_on(server: RedisServer) -> None:
    async with a_fleet(server, a_limit()) as fleet:
        last = await gone(fleet)
        for cluster in fleet.clusters:
            assert cluster.group().silent == {"c2"}
        for _ in range(6):
            for cluster in fleet.clusters:
                await cluster.ask()
        assert fleet.held + last.held == 6


async def test_healthy_nodes_of_a_silent_cluster_are_not_asked_for(server: RedisServer) -> None:
    async with a_fleet(server, a_limit(max_concurrent=None, min_healthy="98%")) as fleet:
        last = fleet.clusters[-1]
        for number in range(100):
            last.node(f"n{number}", "False")
        await fleet.beats(2)
        assert (await fleet.clusters[0].ask()).reason is Reason.MIN_HEALTHY
        await gone(fleet, held=0)
        assert (await fleet.clusters[0].ask()).allowed


async def test_after_redis_forgot_everything_a_silent_cluster_closes_nothing_for_ever(
    server: RedisServer,
) -> None:
    async with a_fleet(server, a_limit(on_unreachable="Closed")) as fleet:
        last = await gone(fleet)
        server.do("FLUSHALL")
        await fleet.beats(6)
        first, second = fleet.clusters
        assert "c2" not in first.group().rows
        await first.restart()
        await fleet.beats(6)
        for _ in range(6):
            await first.ask()
            await second.ask()
        assert fleet.held + last.held == 6


async def test_a_cluster_that_comes_back_takes_nothing_before_all_have_heard_it(
    server: RedisServer,
) -> None:
    async with a_fleet(server, a_limit(on_unreachable="Closed")) as fleet:
        first, second, last = fleet.clusters
        await gone(fleet, held=1)
        last.cut = False
        fleet.clock.step(timedelta(seconds=1))
        last.current()
        await last.sharing.round()
        refused = await last.ask()
        assert refused.reason is Reason.STORE_UNAVAILABLE
        fleet.clusters.append(last)
        await fleet.beats(5)
        assert (await last.ask()).allowed
        assert first.group().silent == second.group().silent == frozenset()


async def test_a_cluster_that_a_person_says_is_gone_frees_what_it_held(server: RedisServer) -> None:
    async with a_fleet(server, a_limit(on_unreachable="Closed")) as fleet:
        await gone(fleet)
        first, second = fleet.clusters
        note = NoteStore(first.api, NAMESPACE, NAME, ANNOTATION)
        await note.read()
        await note.write(Departure("c2", "ada", "the site was sold").text)
        await fleet.beats(15)
        assert await note.read() == ""
        for cluster in fleet.clusters:
            assert "c2" not in cluster.group().known.roster
        for _ in range(4):
            await first.ask()
            await second.ask()
        assert fleet.held == 4  # 2 % of the two hundred that are left
        server.do("FLUSHALL")
        await second.restart()
        await fleet.beats(6)
        assert not first.group().missing()


async def test_a_cluster_that_is_heard_is_not_forgotten(server: RedisServer) -> None:
    async with a_fleet(server, a_limit()) as fleet:
        first = fleet.clusters[0]
        told: list[Answered] = []
        first.sharing.on_departure = told.append
        note = NoteStore(first.api, NAMESPACE, NAME, ANNOTATION)
        await note.read()
        await note.write(Departure("c2", "ada", "a mistake").text)
        await fleet.beats(15)
        assert ["is heard" in each.refused for each in told] == [True]
        assert "c2" in first.group().known.roster


async def test_a_forgotten_cluster_that_comes_back_is_one_of_them_again(
    server: RedisServer,
) -> None:
    async with a_fleet(server, a_limit(on_unreachable="Closed")) as fleet:
        first, last = fleet.clusters[0], fleet.clusters[-1]
        await gone(fleet)
        note = NoteStore(first.api, NAMESPACE, NAME, ANNOTATION)
        await note.read()
        await note.write(Departure("c2", "ada", "believed to be gone").text)
        await fleet.beats(15)
        last.cut = False
        fleet.clusters.append(last)
        await fleet.beats(8)
        assert all("c2" in cluster.group().known.roster for cluster in fleet.clusters)
        for _ in range(6):
            for cluster in fleet.clusters:
                await cluster.ask()
        assert fleet.held == 6
