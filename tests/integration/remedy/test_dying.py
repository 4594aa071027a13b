"""The operator loses its lease after every single act, on a real kube-apiserver; others go on."""

import json
from typing import Any

import pytest
from support.remedy_cluster import Cluster, operating
from support.remedy_engine import two_engines
from support.running import until

from kubenode.api.v1alpha1 import RemedyOperationJob
from kubenode.runtime.fence import LeaseLost
from kubenode.runtime.kube import paths

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]
FAULT = "KubeletUnhealthy"
RUNG: dict[str, Any] = {
    "name": "repair",
    "steps": [
        {"cordon": {}},
        {"migrate": {"timeout": "60s"}},
        {"notify": {"message": "repairing"}},
        {"agent": {"action": "RestartUnit", "unit": "kubelet.service"}},
    ],
    "verify": {"for": "1s", "timeout": "5m"},
}


class LimitedLease:
    """Held for `acts` acts. Four are the least that get on: two may go to a rule's status, and what
    an act brought back (a verdict, an Event told) is lost unless the next act writes it."""

    def __init__(self, acts: int) -> None:
        self.left = acts

    def check(self) -> int:
        if self.left <= 0:
            raise LeaseLost("the lease is gone")
        self.left -= 1
        return 0


@pytest.mark.parametrize("acts", [4, 5, 7])
async def test_every_life_is_a_few_acts_long_and_the_end_is_the_same(
    cluster: Cluster, acts: int
) -> None:
    made = await cluster.node("d1", labels={"dying": "yes"})
    uid = made["metadata"]["uid"]
    await cluster.rule(
        "kubelet",
        mode="Enforce",
        nodes={"selector": {"matchLabels": {"dying": "yes"}}},
        when={"condition": {"type": FAULT, "status": "True"}},
        groupWait="0s",
        startupGrace="0s",
        ladder=[RUNG],
    )
    await cluster.pod("d1", "default", f"pod-{acts}", "web")
    await cluster.say("d1", FAULT, "True")
    answered: list[str] = []
    lives = 0
    while not over(jobs := await jobs_of(cluster, uid)):
        lives += 1
        assert lives < 60, told(jobs)
        lease = LimitedLease(acts)
        try:
            async with operating(cluster.operator(two_engines(), lease)):
                await act_as_agent(cluster, uid, answered)
                await until(lambda lease=lease: lease.left == 0, 2.5)  # type: ignore[misc]
        except* (LeaseLost, AssertionError):
            pass  # it died, or had nothing to do in this life
    jobs = await jobs_of(cluster, uid)
    assert len(jobs) == 1, told(jobs)
    (job,) = jobs
    assert job.status.phase == "Succeeded", job.status.to_dict()
    assert lives > 2
    assert answered == ["r0s3a1"]
    assert cluster.permits.held == {}
    node = await cluster.kube.get(paths.node("d1"))
    assert not node["spec"].get("unschedulable")
    assert "kubenode.io/cordoned-by" not in node["metadata"].get("annotations", {})
    query = {"fieldSelector": "reason=NodeRepair,involvedObject.name=d1"}
    events = await cluster.kube.get(paths.events("default"), query=query)
    mine = [e for e in events["items"] if job.metadata.name in json.dumps(e)]
    assert len(mine) == 1


async def jobs_of(cluster: Cluster, node_uid: str) -> list[RemedyOperationJob]:
    return [job for job in await cluster.jobs() if job.spec.node_uid == node_uid]


def told(jobs: list[RemedyOperationJob]) -> list[object]:
    return [
        (job.metadata.name, job.metadata.creation_timestamp, job.status.to_dict()) for job in jobs
    ]


def over(jobs: list[RemedyOperationJob]) -> bool:
    return bool(jobs) and jobs[0].status.phase.closed and not jobs[0].metadata.finalizers


async def act_as_agent(cluster: Cluster, node_uid: str, answered: list[str]) -> None:
    """The agent lives on its own: what it was asked before the operator died it does once."""
    for job in await jobs_of(cluster, node_uid):
        requests = job.status.agent.requests if job.status.agent is not None else {}
        asked = [s.request_id for s in job.status.steps if s.by == "Agent"]
        if asked and not set(asked) <= set(requests):
            answered.append(await cluster.answer(job))
            await cluster.say("d1", FAULT, "False")
