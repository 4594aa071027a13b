"""Redis restarts, dies, freezes, is wiped, full, fails over: no limit breaks, and all heals.

The servers are real; time and the record are the test's. In each story permits are held through the
fault, somebody asks at every moment of it, and in the end everybody answers by Redis again.
"""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from support.daemons import Daemon, free_port
from support.defender_world import a_policy, an_ask
from support.redis_server import RedisServer
from support.redis_world import SharedWorld

from defender.client import DefenderUnreachable
from defender.replicas.charge.step import AnswerSource
from defender.server.store import UNCLEAR
from kubenode.api.v1alpha1 import Reason
from kubenode.api.v1alpha1.defenderpolicy import Limit, LimitScope, PerNode

pytestmark = pytest.mark.integration
AT_ONCE, REPLICAS, NODES = 4, 3, 30
POLICY = a_policy(
    Limit(scope=LimitScope.CLUSTER, max_concurrent=AT_ONCE), per_node=PerNode(max_acts=1000)
)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RedisServer]:
    with RedisServer(tmp_path) as found:
        yield found


@pytest.fixture
async def world(server: RedisServer) -> AsyncIterator[SharedWorld]:
    made = SharedWorld(server.url, REPLICAS, NODES, [POLICY])
    await made.until(AnswerSource.REDIS)
    yield made
    await made.close()


class Life:
    """Holders that come and go, at every replica in turn; never more than the limit."""

    def __init__(self, world: SharedWorld) -> None:
        self.world, self.number = world, 0
        self.held: dict[str, str] = {}
        """Permit to node: those that an answer allowed and whose holder goes on."""
        self.answers: set[bool] = set()

    async def once(self) -> None:
        """Everybody is asked once for a node of its own; one holder gives back."""
        for defender in self.world.defenders:
            node, self.number = f"n{self.number % NODES}", self.number + 1
            verdict = await defender.ask(an_ask(node, kind="Test"))
            self.answers.add(verdict.allowed)
            if verdict.allowed:
                self.held[verdict.permit] = node
            self.within()
        if self.held and self.number % 2:
            await self.give_back(next(iter(self.held)))

    async def give_back(self, permit: str) -> None:
        for defender in self.world.defenders:
            try:
                await defender.release(permit)
            except DefenderUnreachable:
                continue
            del self.held[permit]
            return

    def within(self) -> None:
        on_record = {p.metadata.name for p in self.world.api.open_permits()}
        assert len(on_record) <= AT_ONCE
        assert self.held.keys() <= on_record

    async def through(self, seconds: float) -> None:
        for _ in range(round(seconds * 2)):
            await self.world.rounds(0.5)
            await self.once()

    async def ends_well(self) -> None:
        """Everybody answers by Redis, what is held is valid everywhere, all can be given back."""
        await self.world.until(AnswerSource.REDIS)
        for defender in self.world.defenders:
            for permit in self.held:
                assert (await defender.check(permit, 0)).allowed
        for permit in list(self.held):
            await self.give_back(permit)
        assert not self.held
        for left in self.world.api.open_permits():  # granted, and the answer was lost on the way
            await self.world.defenders[0].release(left.metadata.name)
        await self._forgets_what_was_never_written()
        last = [
            await self.world.defenders[i % REPLICAS].ask(an_ask(f"n{i}", kind="Test"))
            for i in range(AT_ONCE + 1)
        ]
        assert [v.allowed for v in last] == [True] * AT_ONCE + [False]
        assert last[-1].reason is Reason.CONCURRENCY_LIMIT

    async def _forgets_what_was_never_written(self) -> None:
        """Takes that Redis carried out when nobody waited for its answer any more."""
        leader = next(i for i, fence in enumerate(self.world.fences) if fence.term is not None)
        for _ in range(2):
            await self.world.defenders[leader]._keep()
            self.world.step(seconds=UNCLEAR.total_seconds() + 1)
            await self.world.until(AnswerSource.REDIS)


def restarted(server: RedisServer) -> None:
    server.stop()
    server.start()


def killed(server: RedisServer) -> None:
    server.kill()
    server.start()


def wiped(server: RedisServer) -> None:
    server.do("FLUSHALL")


@pytest.mark.parametrize("fault", [restarted, killed, wiped])
async def test_a_redis_that_lost_or_may_have_lost_something_is_begun_anew(
    world: SharedWorld, server: RedisServer, fault: Callable[[RedisServer], None]
) -> None:
    life = Life(world)
    await life.through(2)
    fault(server)
    assert not (await world.defenders[1].ask(an_ask("n29", kind="Test"))).allowed
    await life.through(12)
    assert life.answers == {True, False}
    await life.ends_well()


async def test_while_redis_is_away_the_holder_of_the_lease_goes_on_alone(
    world: SharedWorld, server: RedisServer
) -> None:
    life = Life(world)
    await life.through(2)
    server.kill()
    await world.until(AnswerSource.PERMITS, 0)
    assert [c.answers() for c in world.charges[1:]] == [AnswerSource.NOTHING] * (REPLICAS - 1)
    life.answers.clear()
    await life.through(5)
    assert life.answers == {True, False}
    server.start()
    await life.through(5)
    await life.ends_well()


async def test_a_redis_that_hangs_is_away_and_its_late_answers_change_nothing(
    world: SharedWorld, server: RedisServer
) -> None:
    life = Life(world)
    await life.through(2)
    server.freeze()
    for _ in range(3):  # what is sent now is carried out when it thaws
        await life.once()
    await life.through(1)
    server.thaw()
    await life.through(12)
    await life.ends_well()


async def test_a_full_redis_is_away_until_it_has_room(
    world: SharedWorld, server: RedisServer
) -> None:
    life = Life(world)
    await life.through(2)
    server.do("CONFIG", "SET", "maxmemory", "1")
    await world.until(AnswerSource.PERMITS, 0)
    life.answers.clear()
    await life.through(3)
    assert life.answers == {True, False}
    server.do("CONFIG", "SET", "maxmemory", "0")
    await life.ends_well()


async def test_a_leader_that_is_lost_with_redis_leaves_nothing_behind(
    world: SharedWorld, server: RedisServer
) -> None:
    life = Life(world)
    await life.through(2)
    server.kill()
    await world.rounds(3)  # the leader has claimed, and goes
    world.replica(0)
    world.leads(1)
    await world.until(AnswerSource.PERMITS, 1)
    assert world.charges[0].answers() is AnswerSource.NOTHING
    await life.through(3)
    server.start()
    await life.ends_well()


async def test_replicas_that_cannot_read_who_answers_stop_before_anybody_answers_alone(
    world: SharedWorld, server: RedisServer
) -> None:
    """Two are cut off from the API server, and still reach the Redis that the leader cannot."""
    cut_off = world.charges[1:]
    for charge in cut_off:
        charge._recorder = Deaf(charge._recorder)  # type: ignore[assignment]
    world.charges[0]._log = Unreachable()  # type: ignore[assignment]
    for _ in range(60):
        await world.rounds(0.5)
        alone = world.charges[0].answers() is AnswerSource.PERMITS
        assert not alone or all(c.answers() is AnswerSource.NOTHING for c in cut_off)
        if alone:
            return
    raise AssertionError("nobody answers")


class Deaf:
    def __init__(self, recorder: object) -> None:
        self._recorder = recorder

    async def read(self) -> None:
        from kubenode.runtime.kube.errors import ServerUnreachable as NoAnswer

        raise NoAnswer("cut off")


class Unreachable:
    async def probe(self, mark: str) -> None:
        from defender.replicas.redis.log import Away

        raise Away("cut off")

    sync = take = put = trim = begin = probe


class Sentinels:
    """A master, its replica, and one Sentinel that needs nobody's consent."""

    def __init__(self, folder: Path) -> None:
        self.master = RedisServer(folder, name="master")
        self.replica = RedisServer(
            folder, "--replicaof", f"127.0.0.1 {self.master.port}", name="replica"
        )
        self.port = free_port()
        self._conf = folder / "sentinel.conf"
        self._conf.write_text(
            f"port {self.port}\nbind 127.0.0.1\n"
            f"sentinel monitor mine 127.0.0.1 {self.master.port} 1\n"
            "sentinel down-after-milliseconds mine 500\n"
            "sentinel failover-timeout mine 2000\n"
        )
        self._sentinel = Daemon(
            "sentinel", ["redis-sentinel", str(self._conf)], folder / "sentinel.log"
        )

    def __enter__(self) -> "Sentinels":
        self.master.start()
        self.replica.start()
        self._sentinel.start()
        self._sentinel.wait_until(self._knows_the_replica, 20)
        return self

    def _knows_the_replica(self) -> bool:
        return "'slaves': 1" in self._info()

    def _info(self) -> str:
        import redis

        client = redis.Redis(port=self.port, socket_timeout=1, decode_responses=True)
        try:
            return str(client.execute_command("INFO", "sentinel"))  # type: ignore[no-untyped-call]
        except (redis.RedisError, OSError):
            return ""
        finally:
            client.close()

    def wait_for_another_master(self) -> None:
        """Until it is one, and Sentinel sends everybody there."""
        self._sentinel.wait_until(
            lambda: (
                f"127.0.0.1:{self.replica.port}" in self._info()
                and self.replica.do("ROLE")[0] == "master"
            ),
            60,
        )

    def __exit__(self, *error: object) -> None:
        for end in (self._sentinel.kill, self.replica.kill, self.master.kill):
            end()

    @property
    def url(self) -> str:
        return f"redis+sentinel://127.0.0.1:{self.port}/mine"


async def test_a_failover_that_loses_writes_breaks_no_limit(tmp_path: Path) -> None:
    """The new master has not seen the last takes: it is a stranger, however alike it looks."""
    with Sentinels(tmp_path) as sentinels:
        world = SharedWorld(sentinels.url, REPLICAS, NODES, [POLICY])
        await world.until(AnswerSource.REDIS)
        life = Life(world)
        await life.through(1)
        sentinels.replica.do("REPLICAOF", "NO", "ONE")  # it hears no more ...
        await life.through(1)
        sentinels.replica.do("REPLICAOF", "127.0.0.1", str(sentinels.master.port))
        sentinels.master.kill()  # ... before it could catch up
        await life.through(20)
        sentinels.wait_for_another_master()
        await life.through(10)
        await life.ends_well()
        await world.close()
