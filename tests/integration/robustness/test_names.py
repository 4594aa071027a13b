"""The names of servers cannot be resolved for a while."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from support.defender_api import an_ask
from support.fake_kube import FakeKube
from support.running import NODES, following, running, until

from defender.client import DefenderUnreachable, HttpPermits
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.plain import PlainTransport
from kubenode.runtime.lease import LeaderElection, LeaseLost

NAME = "kubernetes.test"


class Names:
    """What the resolver of this machine answers for names under .test."""

    def __init__(self, real: Any) -> None:
        self.real = real
        self.known = True

    def getaddrinfo(self, host: Any, *more: Any, **options: Any) -> Any:
        if not str(host).endswith(".test"):
            return self.real(host, *more, **options)
        if not self.known:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return self.real("127.0.0.1", *more, **options)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Names]:
    found = Names(socket.getaddrinfo)
    monkeypatch.setattr(socket, "getaddrinfo", found.getaddrinfo)
    yield found


async def test_a_cache_whose_server_has_no_name_stays_old_until_it_has_one(names: Names) -> None:
    names.known = False
    async with FakeKube() as server:
        server.objects[NODES] = {}
        server.put(NODES, {"metadata": {"name": "n1"}})
        kube = Kube(PlainTransport(f"http://{NAME}:{server.port}"))
        async with following(kube, synced=False) as informer:
            await until(lambda: informer.stats.errors > 1, 30, "it cannot reach its server")
            assert not informer.synced.is_set() and not informer.fresh()
            names.known = True
            await until(lambda: set(informer.cache) == {"n1"} and informer.fresh(), 30)
        await kube.close()


async def test_a_leader_whose_servers_name_is_lost_stops_before_another_may_lead(
    names: Names,
) -> None:
    async with FakeKube() as server:
        lease = Kube(PlainTransport(f"http://{NAME}:{server.port}"), timeout=0.5, attempts=1)
        election = LeaderElection(lease, "ns", "kubenode", "one", 1.0, 0.6, 0.1)

        async def leads() -> None:
            with pytest.raises(ExceptionGroup) as caught:
                await election.run(forever)
            assert caught.group_contains(LeaseLost)

        async with running(leads()) as over:
            await until(lambda: election.leading, 30)
            names.known = False
            await server.stop()  # its connection ends: the next one asks for the name
            await over
            with pytest.raises(LeaseLost):
                election.check()
        await lease.close()


async def forever() -> None:
    await until(lambda: False, 600)


async def test_a_kube_defender_whose_name_is_lost_means_no(names: Names) -> None:
    names.known = False
    permits = HttpPermits("http://defender.test:8082")
    with pytest.raises(DefenderUnreachable):
        await permits.ask(an_ask())
    with pytest.raises(DefenderUnreachable):
        await permits.check("permit", 60)
    await permits.close()
