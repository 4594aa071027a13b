"""The collector records orphans, tells of them, and deletes none."""

import asyncio
import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from support.clock import FakeClock
from support.fake_instances import FakeInstances

from kubenode.api.v1alpha1 import Machine
from kubenode.providers.instances import (
    MACHINE_TAG,
    ErrorCode,
    Instance,
    InstanceError,
    InstanceProviders,
    InstanceState,
    client_token,
)
from kubenode.runtime.audit import SILENT
from kubenode.runtime.fence import AlwaysLeader
from kubenode.runtime.kube.errors import NotFound, ServerUnreachable
from machine.bootstrap.agentready import Lifesign
from machine.orphans.collector import Orphans
from machine.orphans.records import KEY, NAME
from machine.orphans.sightings import Sightings
from machine.site_settings import Provisioning

EVERY = 900.0
STEP = timedelta(seconds=EVERY)


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
        self.nodes: list[dict[str, Any]] = []
        self.maps: dict[str, dict[str, Any]] = {}
        self.lost = False

    async def get(self, path: str, decode: Any, query: Any = None) -> Any:
        name = path.rsplit("/", 1)[-1]
        if self.lost:
            raise ServerUnreachable("lost", tried="GET")
        if name == "nodes":
            return decode(json.dumps({"metadata": {}, "items": self.nodes}).encode())
        if "/configmaps/" in path:
            if name not in self.maps:
                raise NotFound(404)
            return decode(json.dumps(self.maps[name]).encode())
        if name not in self.machines:
            raise NotFound(404)
        return self.machines[name]

    async def create(self, path: str, body: Any, decode: Any) -> Any:
        return self._put(body["metadata"]["name"], body["data"], 1, decode)

    async def patch(self, path: str, body: Any, decode: Any) -> Any:
        name = path.rsplit("/", 1)[-1]
        before = self.maps[name]
        assert body["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
        version = int(before["metadata"]["resourceVersion"]) + 1
        return self._put(name, {**before["data"], **body["data"]}, version, decode)

    def _put(self, name: str, data: Mapping[str, str], version: int, decode: Any) -> Any:
        meta = {"name": name, "uid": "u", "resourceVersion": str(version)}
        self.maps[name] = {"metadata": meta, "data": dict(data)}
        return decode(json.dumps(self.maps[name]).encode())

    @property
    def records(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.maps[NAME]["data"][KEY])
        return found


class Recorder:
    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []

    async def emit(self, regarding: Mapping[str, str], type: str, reason: str, what: str) -> None:
        self.events.append((regarding["name"], reason, what))


class Signs:
    def __init__(self) -> None:
        self.live: set[str] = set()

    def of(self, name: str) -> Lifesign:
        return Lifesign.FRESH if name in self.live else Lifesign.ABSENT


class Ground:
    def __init__(self) -> None:
        self.kube, self.machines, self.meltdown = Live(), Cache(), Frozen()
        self.registry, self.clock = CollectorRegistry(), FakeClock()
        self.fence, self.audit = AlwaysLeader(), SILENT
        self.recorder, self.lifesigns = Recorder(), Signs()


def a_machine(name: str, uid: str) -> Machine:
    spec = {"origin": "Provision", "classRef": "c"}
    return Machine.model_validate({"metadata": {"name": name, "uid": uid}, "spec": spec})


class Site:
    def __init__(self) -> None:
        self.ground, self.cloud, self.sightings = Ground(), FakeInstances(), Sightings()
        self.orphans = self.start()
        self.run_instance("o")

    def start(self) -> Orphans:
        made = Provisioning(InstanceProviders([self.cloud]), "c")
        self.ground.registry = CollectorRegistry()
        return Orphans(self.ground, made, self.sightings, every=EVERY)  # type: ignore[arg-type]

    def restart(self) -> None:
        self.orphans = self.start()

    def run_instance(self, name: str) -> None:
        provider_id = f"fake:///{name}"
        self.cloud.instances[provider_id] = Instance(
            provider_id,
            client_token(f"uid-{name}", 1),
            "c",
            InstanceState.RUNNING,
            addresses=(f"10.0.0.{len(self.cloud.instances) + 1}",),
            created_at=self.ground.clock.now() - timedelta(hours=1),
            tags={MACHINE_TAG: name},
        )

    async def scan(self, times: int = 1) -> None:
        for _ in range(times):
            await self.orphans.scan()
            await self.ground.clock.advance(STEP)

    @property
    def metric(self) -> float | None:
        return self.ground.registry.get_sample_value("kubenode_machine_orphans")


async def test_an_orphan_is_recorded_and_told_of_and_not_deleted_when_no_machine_claims_it() -> (
    None
):
    site = Site()
    await site.scan(6)
    assert set(site.cloud.instances) == {"fake:///o"} and not site.cloud.deleted
    [record] = site.ground.kube.records
    assert (record["providerID"], record["machine"]) == ("fake:///o", "o")
    assert record["absentSeconds"] == 5 * EVERY
    assert site.metric == 1
    [(name, reason, what)] = site.ground.recorder.events
    assert (name, reason) == ("o", "OrphanFound") and "fake:///o" in what


async def test_machines_made_since_the_backup_live_when_etcd_is_restored() -> None:
    """15 of 100 Machines are lost with six hours of etcd; their instances run and serve."""
    site = Site()
    site.cloud.instances.clear()
    for number in range(100):
        site.run_instance(f"m{number}")
        if number < 85:
            known = a_machine(f"m{number}", f"uid-m{number}")
            site.ground.machines.cache[f"m{number}"] = site.ground.kube.machines[f"m{number}"] = (
                known
            )
        else:
            site.ground.kube.nodes.append({"metadata": {"name": f"m{number}"}})
    await site.scan(12)
    assert len(site.cloud.instances) == 100 and not site.cloud.deleted
    assert site.metric == 15
    assert all("Node m" in record["sighting"] for record in site.ground.kube.records)


async def test_the_time_of_absence_is_kept_when_the_operator_restarts() -> None:
    site = Site()
    await site.scan(3)
    site.restart()
    await site.scan()
    assert site.ground.kube.records[0]["absentSeconds"] == 2 * EVERY
    await site.scan()
    assert site.ground.kube.records[0]["absentSeconds"] == 3 * EVERY
    assert len(site.ground.recorder.events) == 1


@pytest.mark.parametrize("lost", ["nodes", "cloud", "long"])
async def test_the_time_of_absence_stands_still_when_a_look_fails(lost: str) -> None:
    site = Site()
    await site.scan(2)
    if lost == "nodes":
        site.ground.kube.lost = True
    elif lost == "cloud":
        site.cloud.failing = InstanceError("fake", ErrorCode.UNAVAILABLE, "try later")
    else:
        await site.ground.clock.advance(10 * STEP)
    await site.scan(1 if lost != "long" else 0)
    site.ground.kube.lost, site.cloud.failing = False, None
    await site.scan()
    assert site.ground.kube.records[0]["absentSeconds"] == EVERY


async def test_the_time_of_absence_begins_anew_when_a_node_or_an_agent_appears() -> None:
    site = Site()
    await site.scan(3)
    site.ground.kube.nodes.append({"metadata": {"name": "n"}, "spec": {"providerID": "fake:///o"}})
    await site.scan()
    assert site.ground.kube.records[0].get("absentSeconds", 0) == 0
    site.ground.kube.nodes.clear()
    await site.scan()
    assert site.ground.kube.records[0]["absentSeconds"] == EVERY
    site.ground.lifesigns.live.add("o")
    await site.scan()
    assert site.ground.kube.records[0].get("absentSeconds", 0) == 0


async def test_a_machine_that_the_cache_lacks_claims_its_instance_when_it_is_read_live() -> None:
    site = Site()
    site.ground.kube.machines["o"] = a_machine("o", "uid-o")
    await site.scan(3)
    assert NAME not in site.ground.kube.maps and site.metric == 0
    # Another Machine of the same name is not its.
    site.ground.kube.machines["o"] = a_machine("o", "uid-later")
    await site.scan()
    assert site.metric == 1


async def test_a_record_goes_when_its_instance_is_gone() -> None:
    site = Site()
    await site.scan(2)
    site.cloud.instances.clear()
    await site.scan()
    assert site.ground.kube.records == [] and site.metric == 0


async def test_what_a_list_says_is_heard() -> None:
    site = Site()
    told: list[None] = []
    site.sightings.listeners.append(lambda: told.append(None))
    site.cloud.failing = InstanceError("fake", ErrorCode.UNAUTHENTICATED, "no such key")
    await site.scan()
    assert "no such key" in site.sightings.refused("fake") and len(told) == 1
    site.cloud.failing = InstanceError("fake", ErrorCode.UNAVAILABLE, "try later")
    await site.scan()
    assert site.sightings.refused("fake") and not site.ground.meltdown.heard
    site.cloud.failing = None
    await site.scan()
    assert not site.sightings.refused("fake") and len(told) == 2
    assert site.ground.meltdown.heard == [("provider fake", 1, 0)]
