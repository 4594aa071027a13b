"""What every store of permits must do, whether one Defender answers from memory or two by a Redis.

The same tests run on both: the record has levers (support.defender_world), Redis is a real one.
`anyone` is a replica that may be asked; with one Defender it is always the same.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from itertools import cycle
from time import monotonic
from typing import Any

import pytest
from support.defender_world import PERMITS, Fate, World, a_policy, an_ask
from support.redis_server import RedisServer
from support.redis_world import SharedWorld

from defender.client import DefenderUnreachable
from defender.replicas.charge.step import AnswerSource
from defender.server.store import UNCLEAR
from defender.service import Defender
from kubenode.api.v1alpha1 import Disruption, Reason, Verdict
from kubenode.api.v1alpha1.defenderpolicy import Limit, LimitScope, Rate
from kubenode.api.v1alpha1.permit import PermitState

pytestmark = pytest.mark.integration
ALL = [Disruption.HOST, Disruption.PODS, Disruption.NODE]
ONE = Limit(scope=LimitScope.CLUSTER, max_concurrent=1)
TWO = Limit(scope=LimitScope.CLUSTER, max_concurrent=2)
RATED = Limit(
    scope=LimitScope.CLUSTER,
    max_concurrent=2,
    rate=Rate(count=2, per=timedelta(hours=1), burst=2),
)


class Stores:
    """One store, and the replicas that work on it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._turn = cycle(range(2))

    @property
    def defenders(self) -> list[Defender]:
        world = self.world
        return world.defenders if isinstance(world, SharedWorld) else [world.defender]

    @property
    def anyone(self) -> Defender:
        """Another one each time."""
        return self.defenders[next(self._turn) % len(self.defenders)]

    async def ask(self, node: str, class_: Disruption = Disruption.NODE, **change: Any) -> Verdict:
        """A holder of a kind that cannot be looked at, and is taken to live."""
        return await self.anyone.ask(an_ask(node, class_, **({"kind": "Test"} | change)))

    async def later(self, **time: float) -> None:
        self.world.step(**time)
        if isinstance(self.world, SharedWorld):
            await self.world.until(AnswerSource.REDIS)

    async def keep(self) -> None:
        """A round of housekeeping, by who leads."""
        await self.defenders[0]._keep()

    async def restart(self) -> None:
        """Every process is gone with all that it knew."""
        world = self.world
        if isinstance(world, SharedWorld):
            for number in range(len(world.defenders)):
                world.replica(number)
            world.leads(0)
            await world.until(AnswerSource.REDIS)
        else:
            await world.restart(behind=True)

    def counted(self) -> set[str]:
        """Permits that every replica counts."""
        counted = [{held.name for held in d.ledger.open()} for d in self.defenders]
        return set.intersection(*counted)

    def on_record(self) -> set[str]:
        return {permit.metadata.name for permit in self.world.api.open_permits()}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as found:
        yield found


class Made:
    """Makes a store of the kind under test, with nodes and policies."""

    def __init__(self, kind: str, server: RedisServer) -> None:
        self.kind, self._server = kind, server
        self.worlds: list[SharedWorld] = []

    async def __call__(self, limit: Limit = TWO, nodes: int = 10, **spec: Any) -> Stores:
        policy = a_policy(limit, **spec)
        if self.kind == "memory":
            world = World(nodes, policy)
            await world.start()
            return Stores(world)
        self._server.do("FLUSHALL")
        shared = SharedWorld(self._server.url, 2, nodes, [policy])
        self.worlds.append(shared)
        await shared.until(AnswerSource.REDIS)
        return Stores(shared)


@pytest.fixture(params=["memory", "redis"])
async def made(request: pytest.FixtureRequest, server: RedisServer) -> AsyncIterator[Made]:
    makes = Made(request.param, server)
    yield makes
    for world in makes.worlds:
        await world.close()


async def test_however_many_ask_at_once_the_limit_is_given_and_no_more(made: Made) -> None:
    stores = await made(nodes=40)
    verdicts = await asyncio.gather(*(stores.ask(f"n{i}") for i in range(40) for _ in range(2)))
    granted = {v.permit for v in verdicts if v.allowed}
    assert len(granted) == 2
    assert granted == stores.on_record() == stores.counted()
    assert {v.reason for v in verdicts} == {Reason.GRANTED, Reason.CONCURRENCY_LIMIT}


async def test_one_holder_that_asks_everybody_at_once_has_one_permit(made: Made) -> None:
    stores = await made()
    verdicts = await asyncio.gather(*(stores.ask("n0") for _ in range(6)))
    assert len({v.permit for v in verdicts if v.allowed}) == 1
    assert len(stores.world.api.permits()) == 1
    asked_again = [await stores.ask("n0") for _ in range(2)]
    assert {v.permit for v in asked_again} == stores.on_record()


async def test_a_node_has_one_holder_whomever_they_ask(made: Made) -> None:
    stores = await made()
    verdicts = await asyncio.gather(*(stores.ask("n0", job=f"job-{i}") for i in range(6)))
    assert sum(v.allowed for v in verdicts) == 1
    assert {v.reason for v in verdicts if not v.allowed} == {Reason.NODE_BUSY}


async def test_what_one_grants_every_other_checks_renews_and_gives_back(made: Made) -> None:
    stores = await made(ONE)
    permit = (await stores.ask("n0")).permit
    await stores.later(minutes=10)
    before = await stores.anyone.check(permit, 60)
    assert before.allowed
    after = await stores.anyone.renew(permit)
    assert before.expires_at and after.expires_at and after.expires_at > before.expires_at
    for _ in range(2):
        assert (await stores.anyone.check(permit, 600)).allowed
    await stores.anyone.release(permit)
    for _ in range(2):
        assert not (await stores.anyone.check(permit, 0)).allowed
        assert not (await stores.anyone.renew(permit)).allowed
    assert (await stores.ask("n1")).allowed
    assert len(stores.on_record()) == 1


async def test_a_stronger_class_counts_everywhere_at_once(made: Made) -> None:
    stores = await made(ONE)
    mild = await stores.ask("n0", Disruption.HOST)
    strong = await stores.ask("n0", Disruption.NODE)
    assert (strong.permit, strong.class_) == (mild.permit, Disruption.NODE)
    for _ in range(2):
        assert (await stores.ask("n1")).reason is Reason.CONCURRENCY_LIMIT
        assert (await stores.anyone.check(mild.permit, 0)).class_ is Disruption.NODE


async def test_rates_count_what_everybody_granted_also_after_a_restart(made: Made) -> None:
    stores = await made(RATED)
    for node in ("n0", "n1"):
        await stores.anyone.release((await stores.ask(node)).permit)
    for _ in range(2):
        assert (await stores.ask("n2")).reason is Reason.RATE_LIMIT
    await stores.restart()
    for _ in range(2):
        assert (await stores.ask("n2")).reason is Reason.RATE_LIMIT
    await stores.later(minutes=30)
    assert (await stores.ask("n2")).allowed


async def test_a_restart_of_everybody_changes_no_answer(made: Made) -> None:
    stores = await made()
    held = [(await stores.ask(f"n{i}")).permit for i in range(2)]
    await stores.restart()
    assert stores.counted() == set(held)
    for permit in held:
        for _ in range(2):
            assert (await stores.anyone.check(permit, 0)).allowed
    assert (await stores.ask("n2")).reason is Reason.CONCURRENCY_LIMIT


@pytest.mark.parametrize("fate", Fate)
@pytest.mark.parametrize("number", range(6))
async def test_no_fate_of_a_write_makes_anybody_count_less_than_the_record(
    made: Made, fate: Fate, number: int
) -> None:
    stores = await made(ONE.model_copy(update={"classes": ALL}))
    stores.world.api.fates[stores.world.api.writes + number] = fate
    for act in range(4):
        with contextlib.suppress(asyncio.CancelledError, DefenderUnreachable):
            if act < 2:
                await stores.ask("n0", (Disruption.HOST, Disruption.NODE)[act])
            elif act == 2:
                await stores.ask("n1")
            elif name := next(iter(stores.on_record()), ""):
                await stores.anyone.release(name)
        assert len(stores.on_record()) <= 1
        for defender in stores.defenders:
            with contextlib.suppress(Exception):
                await defender.charge.sync_ledger()
            assert stores.on_record() <= {held.name for held in defender.ledger.open()}
    stores.world.api.land()
    stores.world.api.fates.clear()
    await stores.keep()
    await stores.later(seconds=UNCLEAR.total_seconds() + 1)
    await stores.keep()
    for name in stores.on_record():
        await stores.anyone.release(name)
    assert (await stores.ask("n2")).allowed
    assert len(stores.on_record()) == 1


async def test_what_was_taken_by_a_process_that_died_before_the_write_is_freed(made: Made) -> None:
    stores = await made(ONE)
    stores.world.api.fates[stores.world.api.writes] = Fate.LOST
    dying = stores.defenders[-1]
    assert not (await dying.ask(an_ask("n0", kind="Test"))).allowed
    if isinstance(stores.world, SharedWorld):
        stores.world.replica(1)
        await stores.world.until(AnswerSource.REDIS)
        assert not (await stores.ask("n1")).allowed  # it may still be written
    await stores.keep()
    assert not (await stores.ask("n1")).allowed
    await stores.later(seconds=UNCLEAR.total_seconds() + 1)
    await stores.keep()
    assert (await stores.ask("n1")).allowed


async def test_a_permit_of_a_former_leader_that_comes_late_counts_and_is_judged_anew(
    made: Made,
) -> None:
    stores = await made(ONE)
    world = stores.world
    first = await stores.ask("n0")
    late = await stores.anyone.ask(an_ask("n1", kind="Test"))
    assert late.reason is Reason.CONCURRENCY_LIMIT
    body = {
        "metadata": {"name": "n1-late"},
        "spec": world.api.objects[PERMITS][first.permit]["spec"]
        | {
            "nodeName": "n1",
            "holder": an_ask("n1", kind="Test").holder.to_dict(),
        },
    }
    await world.api.create(PERMITS, body)
    for defender in stores.defenders:
        assert not (await defender.check("n1-late", 0)).allowed
        assert not (await defender.renew("n1-late")).allowed
    await stores.anyone.release(first.permit)
    assert (await stores.ask("n2")).reason is Reason.CONCURRENCY_LIMIT  # it counts all the same
    again = await stores.ask("n1")
    assert (again.allowed, again.permit) == (True, "n1-late")
    for defender in stores.defenders:
        assert (await defender.check("n1-late", 0)).allowed


async def test_a_late_permit_that_is_one_too_many_is_given_back_when_its_holder_asks(
    made: Made,
) -> None:
    stores = await made(ONE)
    first = await stores.ask("n0")
    holder = an_ask("n1", kind="Test").holder.to_dict()
    spec = stores.world.api.objects[PERMITS][first.permit]["spec"]
    body = {"metadata": {"name": "n1-late"}, "spec": spec | {"nodeName": "n1", "holder": holder}}
    await stores.world.api.create(PERMITS, body)
    assert (await stores.ask("n1")).reason is Reason.CONCURRENCY_LIMIT
    assert stores.on_record() == {first.permit}
    for defender in stores.defenders:
        assert (await defender.check(first.permit, 0)).allowed


async def test_released_permits_are_forgotten_when_no_limit_looks_back(made: Made) -> None:
    stores = await made()
    await stores.anyone.release((await stores.ask("n0")).permit)
    await stores.later(hours=30)
    await stores.keep()
    assert stores.world.api.permits() == []
    assert {len(defender.ledger) for defender in stores.defenders} == {0}


async def test_ten_thousand_permits_are_there_soon_after_a_restart(made: Made) -> None:
    stores = await made(nodes=1)
    world = stores.world
    first = await stores.ask("n0")
    template = world.api.objects[PERMITS][first.permit]
    for i in range(10_000):
        name = f"old-{i}"
        spec = template["spec"] | {"nodeName": f"gone-{i}"}
        status = template["status"] | {"state": PermitState.RELEASED}
        status |= {"releasedAt": status["grantedAt"]}
        world.api.version += 1
        meta = {"name": name, "uid": f"u{i}", "resourceVersion": str(world.api.version)}
        world.api.objects[PERMITS][name] = {"metadata": meta, "spec": spec, "status": status}
    began = monotonic()
    await stores.restart()
    assert monotonic() - began < 20  # three seconds where nothing else runs
    assert {len(defender.ledger) for defender in stores.defenders} == {10_001}
    assert stores.counted() == {first.permit}
