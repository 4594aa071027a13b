"""Informer, Lease and Events against a kube-apiserver and the embedded API server."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import pytest
from support.components import CONTROL_PLANE, require
from support.control_plane import ControlPlane
from support.embedded import EmbeddedPlane
from support.running import following, running, until

from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import AlreadyExists, Conflict, Invalid, KubeError, NotFound
from kubenode.runtime.kube.official import clients
from kubenode.runtime.lease import LeaderElection, LeaseLost
from kubenode.runtime.recorder import EventRecorder


class Server(Protocol):
    """One of the two. Nothing else may use it: it is killed here."""

    @property
    def kubeconfig(self) -> Path: ...

    def kill(self) -> None: ...

    def start(self) -> None: ...


class RealServer:
    """A kube-apiserver without controllers, which would change what we watch."""

    def __init__(self, plane: ControlPlane) -> None:
        self.kubeconfig = plane.kubeconfig
        self._part = plane.part("kube-apiserver")

    def kill(self) -> None:
        self._part.kill()

    def start(self) -> None:
        self._part.start()


@pytest.fixture(scope="module", params=["kube-apiserver", "embedded"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    if request.param == "embedded":
        with EmbeddedPlane() as embedded:
            yield embedded
        return
    require(CONTROL_PLANE)
    with ControlPlane(controllers=False, scheduler=False) as plane:
        yield RealServer(plane)


@pytest.fixture
async def both(server: Server) -> AsyncIterator[tuple[Kube, Kube]]:
    """A client for everything and one for the Lease."""
    main, lease = clients(str(server.kubeconfig))
    yield main, lease
    await main.close()
    await lease.close()


@pytest.fixture
def api(both: tuple[Kube, Kube]) -> Kube:
    return both[0]


@pytest.fixture
def run() -> str:
    """Marks the objects of one test."""
    return uuid4().hex[:8]


def node(name: str, run: str, **labels: str) -> dict[str, Any]:
    meta = {"name": f"{name}-{run}", "labels": {"run": run, **labels}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta}


async def test_follows_what_a_selector_lets_in_and_out(api: Kube, run: str) -> None:
    for i in range(7):
        await api.create(paths.nodes(), node(f"n{i}", run))
    async with following(api, label_selector=f"run={run}", page=3) as informer:
        assert len(informer.cache) == 7
        name = f"n0-{run}"
        ill = [{"type": "GpuDown", "status": "True", "reason": "Xid", "message": "79"}]
        patched = await api.patch(paths.node(name, "status"), {"status": {"conditions": ill}})
        await informer.wait_for(name, patched["metadata"]["resourceVersion"])
        assert [c.type for c in informer.cache[name].status.conditions] == ["GpuDown"]
        left = await api.patch(paths.node(name), {"metadata": {"labels": {"run": None}}})
        await informer.wait_for(name, left["metadata"]["resourceVersion"])
        assert name not in informer.cache
        await api.delete(paths.node(f"n1-{run}"))
        await until(lambda: f"n1-{run}" not in informer.cache)
        assert informer.stats.lists == 1


async def test_a_quiet_resource_stays_fresh(api: Kube, run: str) -> None:
    async with following(api, label_selector=f"run={run}", watch_seconds=2.0) as informer:
        await until(lambda: informer.stats.confirmed >= 1)
        assert informer.age() < 2.5
        assert informer.stats.lists == 1


async def test_a_version_the_server_has_not_reached_leads_to_a_list(api: Kube, run: str) -> None:
    await api.create(paths.nodes(), node("n1", run))
    async with following(api, label_selector=f"run={run}", watch_seconds=2.0) as informer:
        future = 2**62
        informer.resource_version = str(future)
        await until(lambda: informer.stats.lists == 2, seconds=15)
        assert int(informer.resource_version) < future
        written = await api.patch(paths.node(f"n1-{run}"), {"spec": {"unschedulable": True}})
        await informer.wait_for(f"n1-{run}", written["metadata"]["resourceVersion"])


async def test_errors_have_their_classes(api: Kube, run: str) -> None:
    made = await api.create(paths.nodes(), node("n1", run))
    path = paths.node(f"n1-{run}")
    with pytest.raises(AlreadyExists):
        await api.create(paths.nodes(), node("n1", run))
    with pytest.raises(NotFound):
        await api.get(paths.node("no-such-node"))
    await api.patch(path, {"spec": {"unschedulable": True}})
    stale = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}}
    with pytest.raises(Conflict):
        await api.patch(path, {**stale, "spec": {"unschedulable": False}})
    with pytest.raises(Conflict):
        await api.delete(path, uid="00000000-0000-0000-0000-000000000000")
    with pytest.raises(Invalid):
        await api.patch(path, {"metadata": {"labels": {"not a label!": "x"}}})


async def test_events_are_accepted_and_counted(api: Kube, run: str) -> None:
    made = await api.create(paths.nodes(), node("n1", run))
    name, uid = made["metadata"]["name"], made["metadata"]["uid"]
    regarding = {"kind": "Node", "api_version": "v1", "name": name, "uid": uid}
    recorder = EventRecorder(api, "kubenode-remedy")
    async with running(recorder.run()):
        for _ in range(2):
            await recorder.emit(regarding, "Normal", "Cordoned", "cordoned for a test")
        await until(lambda: recorder.written == 2)
    query = {"fieldSelector": f"involvedObject.uid={uid}"}
    listed = await api.get(paths.events("default"), query=query)
    assert [(e["reason"], e["count"]) for e in listed["items"]] == [("Cordoned", 2)]


async def test_the_lease_is_handed_over_and_its_epoch_grows(both: tuple[Kube, Kube]) -> None:
    name = f"lease-{uuid4().hex[:8]}"
    one, two = (
        LeaderElection(kube, "kube-system", name, identity, 3.0, 2.0, 0.2)
        for kube, identity in zip(both, ("one", "two"), strict=True)
    )

    async def lead() -> None:
        await asyncio.Event().wait()

    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(one.run(lead))
        await until(lambda: one.leading)
        epoch = one.check()
        second = tasks.create_task(two.run(lead))
        await asyncio.sleep(0.5)
        assert not two.leading
        first.cancel()
        began = time.monotonic()
        await until(lambda: two.leading)
        assert time.monotonic() - began < 2.5, "less than the 3 s of the lease"
        assert two.check() > epoch
        with pytest.raises(LeaseLost):
            one.check()
        second.cancel()


async def first_success(kube: Kube, path: str) -> dict[str, Any]:
    """A write, as soon as the server takes one."""
    while True:
        try:
            return await kube.patch(path, {"spec": {"unschedulable": True}})
        except KubeError:
            await asyncio.sleep(0.1)


async def ready(kube: Kube) -> None:
    while True:
        try:
            await kube.get("/readyz", bytes)
            return
        except KubeError:
            await asyncio.sleep(0.1)


async def test_a_killed_server_stops_the_leader_and_the_cache_is_current_soon_after_it_is_back(
    server: Server, both: tuple[Kube, Kube], run: str
) -> None:
    main, lease = both
    await main.create(paths.nodes(), node("n1", run))
    election = LeaderElection(lease, "kube-system", f"lease-{run}", "one", 3.0, 2.0, 0.2)
    stopped: list[float] = []

    async def lead() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(time.monotonic())

    async def leader() -> None:
        with pytest.raises(ExceptionGroup) as caught:
            await election.run(lead)
        assert caught.group_contains(LeaseLost)

    selector = f"run={run}"
    async with following(main, label_selector=selector, backoff=(0.5, 10.0)) as informer:
        async with running(leader()):
            await until(lambda: election.leading)
            killed = time.monotonic()
            server.kill()
            await until(lambda: bool(stopped))
            assert stopped[0] - killed < 3.0, "before another may lead"
        server.start()
        written = await first_success(main, paths.node(f"n1-{run}"))
        began = time.monotonic()
        await informer.wait_for(f"n1-{run}", written["metadata"]["resourceVersion"], 20)
        assert time.monotonic() - began < 5.0, "the first success wakes it within 1 s"
    await asyncio.wait_for(ready(main), 60)
