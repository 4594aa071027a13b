"""Events of the attach-detach controller count for the Node that their pod is assigned to."""

from typing import Any

import pytest
from support.clock import FakeClock, settle
from support.remedy_hand import NOWHERE, HandFed
from support.running import running

from kubenode.runtime.controller.result import DONE
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import ServerUnreachable
from kubenode.runtime.kube.node_events import node_of
from kubenode.runtime.kube.objects import (
    Event,
    EventSource,
    KubeObjectMeta,
    ObjectReference,
    Pod,
    PodSpec,
    structs,
)
from remedy.remedier.attach_events import MOST_PODS, AttachEvents

KEY = "shop/db-0.1"


class Pods(Kube):
    """Answers lists of pods by name; `error` is raised instead."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(NOWHERE, clock=clock)
        self.pods: dict[str, Pod] = {}
        self.reads = 0
        self.error: Exception | None = None

    def put(self, name: str, uid: str, node: str) -> None:
        meta = KubeObjectMeta(name=name, namespace="shop", uid=uid)
        self.pods[name] = Pod(metadata=meta, spec=PodSpec(node_name=node))

    async def get(self, path: str, decode: Any = None, query: Any = None) -> Any:
        assert path == "/api/v1/namespaces/shop/pods"
        self.reads += 1
        if self.error is not None:
            raise self.error
        found = self.pods.get(query["fieldSelector"].removeprefix("metadata.name="))
        return type("PodList", (), {"items": [found] if found is not None else []})


class World:
    def __init__(self) -> None:
        clock = FakeClock()
        self.kube, self.published = Pods(clock), list[tuple[Event | None, Event | None]]()
        self.events = HandFed(self.kube, paths.events(), structs(Event), clock=clock)
        self.source = AttachEvents(self.kube, self.events, clock)
        self.source.add_handler(lambda key, old, new: self.published.append((old, new)))

    async def reported(
        self, uid: str = "u0", pod: str = "db-0", version: str = "1", host: str = ""
    ) -> None:
        about = ObjectReference(kind="Pod", name=pod, namespace="shop", uid=uid)
        by = EventSource(component="attachdetach-controller", host=host)
        meta = KubeObjectMeta(name="db-0.1", namespace="shop", resource_version=version)
        event = Event(metadata=meta, involved_object=about, source=by, reason="FailedAttachVolume")
        self.events._store.put(KEY, event)
        assert await self.source.reconcile(KEY) == DONE

    @property
    def nodes(self) -> list[str]:
        return [node_of(new) for _, new in self.published if new is not None]


@pytest.fixture
def world() -> World:
    made = World()
    made.kube.put("db-0", "u0", "a")
    return made


@pytest.mark.parametrize("host", ["", "b"])
async def test_an_event_counts_for_the_node_of_its_pod(world: World, host: str) -> None:
    await world.reported(host=host)
    assert world.nodes == ["a"]


@pytest.mark.parametrize(
    ("uid", "pod"), [("u1", "db-0"), ("u0", "db-1"), ("u0", ""), ("", "db-0"), ("u2", "pending")]
)
async def test_an_event_about_an_unknown_pod_is_withheld(world: World, uid: str, pod: str) -> None:
    world.kube.put("pending", "u2", "")
    await world.reported(uid, pod)
    assert world.published == []


async def test_a_pod_is_read_once_and_a_version_published_once(world: World) -> None:
    for version in ("1", "1", "2"):
        await world.reported(version=version)
    assert world.nodes == ["a", "a"]
    assert world.kube.reads == 1


async def test_a_deleted_event_is_published_as_gone(world: World) -> None:
    await world.reported()
    world.events._store.put(KEY, None)
    await world.source.reconcile(KEY)
    assert world.published[-1][1] is None


async def test_a_failed_read_is_an_error_and_the_next_one_publishes(world: World) -> None:
    world.kube.error = ServerUnreachable("timeout")
    with pytest.raises(ServerUnreachable):
        await world.reported()
    world.kube.error = None
    await world.reported()
    assert world.nodes == ["a"]


@pytest.mark.exhaustive
async def test_remembered_pods_are_bounded(world: World) -> None:
    for number in range(MOST_PODS + 1):
        world.kube.put(f"p{number}", f"p{number}", "a")
        await world.reported(f"p{number}", f"p{number}", str(number))
    before = world.kube.reads
    await world.reported(f"p{MOST_PODS}", f"p{MOST_PODS}", "x")
    assert world.kube.reads == before
    await world.reported("p0", "p0", "y")
    assert world.kube.reads == before + 1


async def test_changes_of_the_informer_are_reconciled(world: World) -> None:
    world.events.current()
    meta = KubeObjectMeta(name="db-0.1", namespace="shop", resource_version="1")
    about = ObjectReference(kind="Pod", name="db-0", namespace="shop", uid="u0")
    by = EventSource(component="attachdetach-controller")
    async with running(world.source.controller.run()):
        world.events._store.put(KEY, Event(metadata=meta, involved_object=about, source=by))
        await settle()
    assert world.nodes == ["a"]
