"""What a job reads of its Node: never something older than what it has read or written before."""

import json
from datetime import timedelta
from typing import Any

import pytest
from support.clock import FakeClock
from support.defender_world import NODES, MemoryApi
from support.remedy_builders import a_job
from support.remedy_hand import HandFed

from kubenode.runtime.kube.objects import Node, structs
from remedy.job.model import Job
from remedy.job.nodes import LIVE, NodeAccess


class NoAgents:
    def age(self, agent: str) -> float | None:
        return None


class NoBoots:
    def of(self, node: Node, agent: str) -> str:
        return node.status.node_info.boot_id


class Behind:
    """A Node on the server, and a cache that hears of its changes only when told to."""

    def __init__(self, job: Job) -> None:
        self.clock = FakeClock()
        self.api = MemoryApi(self.clock)
        self._name = job.spec.node_name
        self.api.put(NODES, {"metadata": {"name": self._name, "uid": job.spec.node_uid}})
        self.cache: HandFed[Node] = HandFed(self.api, NODES, structs(Node))
        self.catch_up()
        agents: Any = NoAgents()
        boots: Any = NoBoots()
        self.nodes = NodeAccess(self.api, self.cache, agents, boots)

    def catch_up(self) -> None:
        self.cache.put(json.loads(json.dumps(self.api.objects[NODES][self._name])))

    def person_uncordons(self) -> None:
        node = self.api.objects[NODES][self._name]
        self.api.put(NODES, {**node, "spec": {"unschedulable": False}})


@pytest.mark.parametrize("seconds", [0.0, LIVE, 10 * LIVE])
async def test_a_cache_that_is_behind_our_own_cordon_does_not_hide_it(seconds: float) -> None:
    job = a_job()
    world = Behind(job)
    await world.nodes.cordon(job)
    world.clock.step(timedelta(seconds=seconds))
    await world.nodes.read(job, live=True)
    world.clock.step(timedelta(seconds=seconds))
    node = await world.nodes.read(job, live=False)
    assert node is not None and node.unschedulable and node.cordoned_by == job.mark


async def test_a_person_who_uncordons_is_seen_once_the_cache_has_it() -> None:
    job = a_job()
    world = Behind(job)
    await world.nodes.cordon(job)
    world.person_uncordons()
    world.catch_up()
    node = await world.nodes.read(job, live=False)
    assert node is not None and not node.unschedulable


async def test_a_node_that_is_gone_from_the_cache_is_gone() -> None:
    job = a_job()
    world = Behind(job)
    await world.nodes.cordon(job)
    world.cache.remove(job.spec.node_name)
    assert await world.nodes.read(job, live=False) is None
