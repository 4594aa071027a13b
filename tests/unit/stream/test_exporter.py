"""The exporter delivers at least once, survives its receiver, and stays within its outbox."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from support.clock import FakeClock
from support.remedy_hand import HandApi, HandFed
from support.stream_objects import CLOSED, RecordingReceiver, a_job_object, a_permit

from kubenode.api.v1alpha1 import Permit, RemedyOperationJob
from kubenode.runtime.kube.objects import Node, structs
from kubenode.runtime.stream.delivery import NotAccepted
from kubenode.runtime.stream.derivation import StreamIdentity
from kubenode.runtime.stream.exporter import StreamExporter
from kubenode.runtime.stream.model import JobOpened


class ExporterWorld:
    """An exporter over caches that the test fills."""

    def __init__(self, most: int = 20_000) -> None:
        self.clock, self.registry = FakeClock(), CollectorRegistry()
        self.jobs: HandFed[RemedyOperationJob] = self._cache(RemedyOperationJob.from_server)
        self.permits: HandFed[Permit] = self._cache(Permit.from_server)
        self.nodes: HandFed[Node] = self._cache(structs(Node))
        self.nodes.current()
        self.receiver = RecordingReceiver()
        self.exporter = self.restarted(most)
        self._task: asyncio.Task[None] | None = None

    def restarted(self, most: int = 20_000) -> StreamExporter:
        self.registry = CollectorRegistry()
        caches = self.jobs, self.permits, self.nodes
        return StreamExporter(
            *caches, self.receiver, StreamIdentity("prod"), self.clock, self.registry, most
        )

    async def run(self, seconds: float) -> None:
        """Run the exporter for simulated seconds."""
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(self.exporter.run())
            for _ in range(int(seconds)):
                await self.clock.advance(timedelta(seconds=1))
            task.cancel()

    def put(self, name: str, status: dict[str, Any] | None = None, version: int = 1) -> None:
        self.jobs.put(a_job_object(status, name, version))

    def count(self, outcome: str) -> float:
        labels = {"outcome": outcome}
        return self.registry.get_sample_value("kubenode_stream_events_total", labels) or 0.0

    @property
    def waiting(self) -> float:
        return self.registry.get_sample_value("kubenode_stream_outbox_events") or 0.0

    def _cache(self, decode: Any) -> HandFed[Any]:
        return HandFed(
            HandApi(self.clock), "/apis/kubenode.io/v1alpha1/x", decode, clock=self.clock
        )


@pytest.fixture
def world() -> ExporterWorld:
    return ExporterWorld()


async def test_objects_of_before_and_later_changes_are_delivered(world: ExporterWorld) -> None:
    world.put("a")
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(world.exporter.run())
        await world.clock.advance(timedelta(seconds=2))
        assert world.receiver.ids == ["uid-of-a/opened"]
        world.put("a", CLOSED, 2)
        world.permits.put(a_permit().to_dict())
        await world.clock.advance(timedelta(seconds=2))
        task.cancel()
    assert "uid-of-a/closed" in world.receiver.ids
    assert "permit-uid/released" in world.receiver.ids
    assert len(set(world.receiver.ids)) == len(world.receiver.ids) == world.count("delivered")


async def test_restart_sends_the_same_events_again(world: ExporterWorld) -> None:
    world.put("a", CLOSED)
    await world.run(2)
    first = list(world.receiver.accepted)
    world.exporter = world.restarted()
    await world.run(2)
    assert world.receiver.accepted == [*first, *first]


async def test_events_wait_for_a_receiver_that_is_down(world: ExporterWorld) -> None:
    world.receiver.down = True
    world.put("a", CLOSED)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(world.exporter.run())
        await world.clock.advance(timedelta(seconds=10))
        assert (world.receiver.ids, world.waiting) == ([], 6)
        world.jobs.remove("a")
        world.receiver.down = False
        for _ in range(70):
            await world.clock.advance(timedelta(seconds=1))
        task.cancel()
    assert "uid-of-a/closed" in world.receiver.ids, "also of an object that is gone meanwhile"
    assert world.waiting == 0


async def test_attempts_become_rarer(world: ExporterWorld) -> None:
    world.receiver.down = True
    world.put("a")
    await world.run(600)
    failures = world.registry.get_sample_value("kubenode_stream_failures_total")
    assert failures is not None
    assert 10 <= failures <= 28, "of 600 attempts without a backoff"


async def test_full_outbox_loses_nothing_of_objects_that_still_exist() -> None:
    world = ExporterWorld(most=10)
    world.receiver.down = True
    for n in range(20):
        world.put(f"job-{n}", CLOSED)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(world.exporter.run())
        await world.clock.advance(timedelta(seconds=3))
        assert world.waiting == 10
        assert world.count("dropped") == 110
        world.receiver.down = False
        for _ in range(120):
            await world.clock.advance(timedelta(seconds=1))
        task.cancel()
    assert len(set(world.receiver.ids)) == 120


async def test_batch_that_is_refused_for_good_holds_up_nothing(world: ExporterWorld) -> None:
    world.receiver.failures = [NotAccepted("answers 400", final=True)]
    world.put("a")
    await world.run(2)
    assert (world.receiver.ids, world.count("rejected")) == ([], 1)
    world.exporter = world.restarted()
    world.put("b")
    await world.run(2)
    assert "uid-of-b/opened" in world.receiver.ids


async def test_resync_of_an_unchanged_object_derives_nothing(world: ExporterWorld) -> None:
    world.put("a")
    await world.run(2)
    world.jobs._store.touch("a")
    assert not world.exporter._changed


async def test_no_event_is_derived_before_the_nodes_are_known(world: ExporterWorld) -> None:
    world.nodes.synced.clear()
    world.put("a")
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(world.exporter.run())
        await world.clock.advance(timedelta(seconds=5))
        assert world.receiver.ids == []
        node = {"name": "n1", "uid": "node-uid-1", "resourceVersion": "1"}
        world.nodes.put({"metadata": node, "status": {"nodeInfo": {"kernelVersion": "6.1"}}})
        world.nodes.current()
        await world.clock.advance(timedelta(seconds=2))
        task.cancel()
    [opened] = [event.data for event in world.receiver.accepted]
    assert isinstance(opened, JobOpened)
    assert opened.node.kernel == "6.1"
