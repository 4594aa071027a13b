"""The collector asks the API server itself before it ends an instance, and tells what it saw."""

import asyncio
from datetime import timedelta
from typing import Any

from prometheus_client import CollectorRegistry
from support.clock import FakeClock
from support.fake_instances import FakeInstances

from kubenode.api.v1alpha1 import Machine
from kubenode.providers.instances import (
    MACHINE_TAG,
    Code,
    Instance,
    InstanceError,
    InstanceProviders,
    InstanceState,
)
from kubenode.runtime.audit import SILENT
from kubenode.runtime.fence import AlwaysLeader
from kubenode.runtime.kube.errors import NotFound
from machine.orphans.collector import Orphans
from machine.orphans.sightings import Sightings
from machine.provisioning import Provisioning


class Cache:
    def __init__(self) -> None:
        self.cache: dict[str, Machine] = {}
        self.synced = asyncio.Event()
        self.synced.set()

    def fresh(self) -> bool:
        return True


class Frozen:
    def __init__(self) -> None:
        self.said = ""
        self.heard: list[tuple[str, int, int]] = []

    def frozen(self) -> str:
        return self.said

    def listed(self, source: str, found: int, known: int) -> None:
        self.heard.append((source, found, known))


class Live:
    """The API server: what it answers may be newer than the cache."""

    def __init__(self) -> None:
        self.machines: dict[str, Machine] = {}

    async def get(self, path: str, decode: Any) -> Machine:
        name = path.rsplit("/", 1)[-1]
        if name not in self.machines:
            raise NotFound(404)
        return self.machines[name]


class Ground:
    def __init__(self) -> None:
        self.kube, self.machines, self.meltdown = Live(), Cache(), Frozen()
        self.registry, self.clock = CollectorRegistry(), FakeClock()
        self.fence, self.audit = AlwaysLeader(), SILENT


def a_machine(name: str, uid: str) -> Machine:
    spec = {"origin": "Provision", "classRef": "c"}
    return Machine.model_validate({"metadata": {"name": name, "uid": uid}, "spec": spec})


def collecting() -> tuple[Orphans, Ground, FakeInstances, Sightings]:
    ground, cloud, sightings = Ground(), FakeInstances(), Sightings()
    made = Provisioning(InstanceProviders([cloud]), "c")
    orphans = Orphans(ground, made, sightings, every=900.0)  # type: ignore[arg-type]
    old = ground.clock.now() - timedelta(hours=1)
    cloud.instances["fake:///o"] = Instance(
        "fake:///o",
        "uid-o-1",
        "c",
        InstanceState.RUNNING,
        created_at=old,
        tags={MACHINE_TAG: "o"},
    )
    return orphans, ground, cloud, sightings


async def test_invariant_02_an_orphan_is_ended_in_the_second_scan() -> None:
    orphans, _, cloud, _ = collecting()
    await orphans.scan()
    assert cloud.instances
    await orphans.scan()
    assert not cloud.instances


async def test_invariant_02_a_machine_that_the_cache_lacks_still_claims_its_instance() -> None:
    orphans, ground, cloud, _ = collecting()
    ground.kube.machines["o"] = a_machine("o", "uid-o")
    for _ in range(3):
        await orphans.scan()
    assert cloud.instances
    # Another Machine of the same name is not its.
    ground.kube.machines["o"] = a_machine("o", "uid-later")
    await orphans.scan()
    assert not cloud.instances


async def test_what_a_list_says_is_heard() -> None:
    orphans, ground, cloud, sightings = collecting()
    told: list[None] = []
    sightings.told.append(lambda: told.append(None))
    cloud.failing = InstanceError("fake", Code.UNAUTHENTICATED, "no such key")
    await orphans.scan()
    assert "no such key" in sightings.refused("fake") and len(told) == 1
    cloud.failing = InstanceError("fake", Code.UNAVAILABLE, "try later")
    await orphans.scan()
    assert sightings.refused("fake") and not ground.meltdown.heard
    cloud.failing = None
    await orphans.scan()
    assert not sightings.refused("fake") and len(told) == 2
    assert ground.meltdown.heard == [("provider fake", 1, 0)]
