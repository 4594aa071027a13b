"""A person's sign on a Node that its cordon stays when ours ends."""

import json
from typing import Any

import pytest
from support.clock import FakeClock
from support.defender_world import NODES, MemoryApi
from support.remedy_builders import a_job

from kubenode.api.cordon import CORDONED_BY, KEEP_CORDONED
from kubenode.cli.explain_node import _of_node
from kubenode.runtime.kube.objects import Node, structs
from remedy.job.model import Job
from remedy.job.nodes import NodeAccess

NOBODY: Any = None


def a_world(job: Job, **annotations: str) -> tuple[MemoryApi, NodeAccess]:
    """Its node is cordoned by the job."""
    clock = FakeClock()
    api = MemoryApi(clock)
    marks = {CORDONED_BY: job.mark} | annotations
    meta = {"name": job.spec.node_name, "uid": job.spec.node_uid, "annotations": marks}
    api.put(NODES, {"metadata": meta, "spec": {"unschedulable": True}})
    return api, NodeAccess(api, NOBODY, NOBODY, NOBODY)


@pytest.mark.parametrize(
    ("annotations", "stays"),
    [
        ({}, False),
        ({KEEP_CORDONED: "the disk is swapped on Monday"}, True),
        ({KEEP_CORDONED: ""}, True),
        ({KEEP_CORDONED: "False"}, False),
    ],
)
async def test_a_job_leaves_the_cordon_when_a_person_asked_to_keep_it(
    annotations: dict[str, str], stays: bool
) -> None:
    job = a_job()
    api, nodes = a_world(job, **annotations)
    await nodes.uncordon(job)
    node = api.objects[NODES][job.spec.node_name]
    assert node["spec"].get("unschedulable", False) is stays
    assert CORDONED_BY not in node["metadata"]["annotations"]


def test_explain_says_that_the_cordon_stays() -> None:
    job = a_job()
    api, _ = a_world(job, **{KEEP_CORDONED: "yes"})
    raw = json.dumps(api.objects[NODES][job.spec.node_name]).encode()
    node: Node = structs(Node)(raw)
    assert _of_node(node)[0].endswith("the cordon stays after it (kubenode.io/keep-cordoned)")
