"""A job shares the cordon of its node with the Machine operator; neither undoes the other's."""

import json
from typing import Any

import pytest
from support.clock import FakeClock
from support.defender_world import NODES, MemoryApi
from support.remedy_builders import a_job
from support.remedy_hand import HandFed

from kubenode.api.cordon import CORDONED_BY
from kubenode.runtime.kube.objects import Node, structs
from remedy.job.model import Job
from remedy.job.nodes import NodeAccess

SET = "MachineComponentSet/containerd/u1"


class NoSources:
    """Agents and boots of which nothing is known."""

    def age(self, agent: str) -> float | None:
        return None

    def of(self, node: Node, agent: str) -> str:
        return ""


def a_world(job: Job, mark: str, *, unschedulable: bool = True) -> tuple[MemoryApi, NodeAccess]:
    """Return a server and access to its node, which has this mark; "" for none."""
    api = MemoryApi(FakeClock())
    annotations = {CORDONED_BY: mark} if mark else {}
    meta = {"name": job.spec.node_name, "uid": job.spec.node_uid, "annotations": annotations}
    api.put(NODES, {"metadata": meta, "spec": {"unschedulable": unschedulable}})
    cache: HandFed[Node] = HandFed(api, NODES, structs(Node))
    cache.put(json.loads(json.dumps(api.objects[NODES][job.spec.node_name])))
    sources: Any = NoSources()
    return api, NodeAccess(api, cache, sources, sources)


def cordon_of(api: MemoryApi, job: Job) -> tuple[str, bool]:
    """Return the annotation, "" for none, and whether the node is unschedulable."""
    node = api.objects[NODES][job.spec.node_name]
    mark = node["metadata"].get("annotations", {}).get(CORDONED_BY, "")
    return mark, bool(node["spec"].get("unschedulable"))


async def test_job_joins_the_cordon_of_a_set_and_observes_it_as_its_own() -> None:
    job = a_job()
    api, nodes = a_world(job, SET)
    await nodes.cordon(job)
    assert cordon_of(api, job) == (f"{SET},{job.mark}", True)
    node = await nodes.read(job, live=True)
    assert node is not None and node.unschedulable and node.cordoned_by == job.mark


async def test_job_joins_no_cordon_of_a_person() -> None:
    job = a_job()
    api, nodes = a_world(job, "")
    await nodes.cordon(job)
    assert cordon_of(api, job) == ("", True)


@pytest.mark.parametrize("order", ["{job},{set}", "{set},{job}"])
async def test_end_of_the_job_leaves_the_cordon_to_the_set(order: str) -> None:
    job = a_job()
    api, nodes = a_world(job, order.format(job=job.mark, set=SET))
    await nodes.uncordon(job)
    assert cordon_of(api, job) == (SET, True)
    node = await nodes.read(job, live=True)
    assert node is not None and node.cordoned_by == SET
    await nodes.uncordon(job)
    assert cordon_of(api, job) == (SET, True)


async def test_mark_that_an_earlier_version_wrote_is_the_jobs_own_and_is_removed() -> None:
    job = a_job()
    api, nodes = a_world(job, "")
    await nodes.uncordon(job)
    assert cordon_of(api, job) == ("", True)
    api, nodes = a_world(job, job.name)
    node = await nodes.read(job, live=False)
    assert node is not None and node.cordoned_by == job.mark
    await nodes.uncordon(job)
    assert cordon_of(api, job) == ("", False)


async def test_cordon_of_a_job_alone_is_written_as_earlier_versions_read_it() -> None:
    job = a_job()
    api, nodes = a_world(job, "", unschedulable=False)
    await nodes.cordon(job)
    assert cordon_of(api, job) == (job.name, True)


async def test_successor_takes_the_place_of_the_superseded_job_alone() -> None:
    job = a_job(supersedes="n1-before")
    for mark, expected in (
        ("n1-before", job.mark),
        (f"{SET},n1-before", f"{SET},{job.mark}"),
        (f"{SET},n1-other", f"{SET},n1-other"),
    ):
        api, nodes = a_world(job, mark)
        await nodes.adopt_cordon(job)
        assert cordon_of(api, job) == (expected, True)


async def test_superseded_job_is_observed_in_a_shared_cordon() -> None:
    job = a_job(supersedes="n1-before")
    _, nodes = a_world(job, f"{SET},n1-before")
    node = await nodes.read(job, live=True)
    assert node is not None and node.cordoned_by == "n1-before"
