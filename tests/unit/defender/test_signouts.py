"""Who has signed out at one replica of the dashboard has signed out at all."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from support.clock import FakeClock
from support.fake_kube import FakeKube

from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.configmaps import ConfigMapStore
from kubenode.runtime.kube.errors import ServerUnreachable
from kubenode.runtime.kube.plain import PlainTransport
from kubenode.runtime.site.signouts import MOST, NAME, SignOuts

MAPS = "/api/v1/namespaces/kubenode-system/configmaps"
EIGHT_HOURS = timedelta(hours=8)


class Replicas:
    """Two dashboards over one API server."""

    def __init__(self, server: FakeKube, kube: Kube) -> None:
        self.server, self.clock = server, FakeClock()
        self.store = ConfigMapStore(kube, NAME)
        self.one, self.other = (SignOuts(self.store, self.clock) for _ in range(2))

    def ends(self, session: str, at: SignOuts) -> None:
        at.add(session, self.clock.now() + EIGHT_HOURS)


@pytest.fixture
async def replicas() -> AsyncIterator[Replicas]:
    async with FakeKube() as server:
        server.objects[MAPS] = {}
        kube = Kube(PlainTransport(server.url), attempts=1)
        yield Replicas(server, kube)
        await kube.close()


async def test_a_session_that_ended_at_one_replica_ends_at_the_other(replicas: Replicas) -> None:
    replicas.ends("a", replicas.one)
    assert "a" in replicas.one and "a" not in replicas.other
    await replicas.one.exchange()
    await replicas.other.exchange()
    assert "a" in replicas.other and "b" not in replicas.other
    stored = (await replicas.store.read()).data
    assert "a" not in stored, "only hashes are stored"


async def test_two_that_write_at_once_lose_nothing(replicas: Replicas) -> None:
    replicas.ends("a", replicas.one)
    replicas.ends("b", replicas.other)
    for each in (replicas.one, replicas.other, replicas.one):
        await each.exchange()
    assert all(s in each for s in "ab" for each in (replicas.one, replicas.other))


async def test_what_could_not_be_written_is_written_later(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    replicas.ends("a", replicas.one)
    with monkeypatch.context() as away:

        async def refuse(*given: object, **named: object) -> None:
            raise ServerUnreachable("the API server is away")

        away.setattr(replicas.store, "write", refuse)
        await replicas.one.exchange()
    assert "a" in replicas.one
    await replicas.one.exchange()
    await replicas.other.exchange()
    assert "a" in replicas.other


async def test_a_session_is_forgotten_with_its_cookie(replicas: Replicas) -> None:
    replicas.ends("a", replicas.one)
    await replicas.one.exchange()
    replicas.clock.step(EIGHT_HOURS)
    replicas.ends("b", replicas.one)
    await replicas.one.exchange()
    assert "a" not in replicas.one
    assert len((await replicas.store.read()).data) == 1


async def test_what_a_person_wrote_there_is_passed_over(replicas: Replicas) -> None:
    await replicas.store.write({"x": "soon", "y": "2026-01-01"}, await replicas.store.read())
    await replicas.one.exchange()
    replicas.ends("a", replicas.one)
    await replicas.one.exchange()
    assert "a" in replicas.one


async def test_many_sessions_have_a_bound(replicas: Replicas) -> None:
    alone = SignOuts(None, replicas.clock)
    for number in range(MOST + 10):
        alone.add(f"s{number}", replicas.clock.now() + EIGHT_HOURS + timedelta(seconds=number))
    assert "s0" not in alone and f"s{MOST + 9}" in alone
