"""A leader that is stopped for longer than its Lease: SIGSTOP, another leads, SIGCONT."""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from support.control_plane import ControlPlane
from support.remedy_cluster import Cluster
from support.replicas import Replica, marking_rule, say_of, started, wide_open, written
from support.running import running, until

from kubenode.api.v1alpha1 import JobPhase, RemedyOperationJob
from kubenode.runtime.kube import paths

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]
ILL = [f"frozen-{i}" for i in range(8)]
WELL = [f"frozen-{i}" for i in range(8, 12)]


def acted(job: RemedyOperationJob) -> bool:
    return job.status.phase is JobPhase.VERIFYING


def closed(job: RemedyOperationJob) -> bool:
    return job.status.phase.closed and not job.metadata.finalizers


async def all_are(
    what: Callable[[RemedyOperationJob], bool], cluster: Cluster
) -> list[RemedyOperationJob]:
    async with asyncio.timeout(120):
        while sum(map(what, jobs := await cluster.jobs())) < len(ILL):
            await cluster.kube.clock.sleep(0.2)
    return jobs


async def taken_over(
    plane: ControlPlane, cluster: Cluster, old: Replica, new: Replica
) -> list[RemedyOperationJob]:
    """`old` begins jobs, stands still, and goes on when `new` leads; the jobs at their end."""
    async with running(new.kept()):
        await say_of(cluster, ILL, "True")
        await cluster.wait(lambda job: job.status.owned.cordon, 120)
        old.send(signal.SIGSTOP)
        assert written(plane, old.name) != []
        await until(lambda: written(plane, new.name) != [], 180, new.tail())
        old.send(signal.SIGCONT)
        await until(lambda: old.ended is not None, 120, "the old leader ends")
        # A fault that goes before the act is no repair, and a report from before it proves nothing.
        await all_are(acted, cluster)
        await say_of(cluster, ILL, "False")
        return await all_are(closed, cluster)


async def test_a_leader_stopped_past_its_lease_writes_nothing_when_it_goes_on(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    await wide_open(cluster)
    for name in (*ILL, *WELL):
        await cluster.node(name)
    await marking_rule(cluster)
    old, new = (Replica(user, plane, tmp_path) for user in ("frozen-old", "frozen-new"))
    with started(old):
        await old.said("leading")
        with started(new):
            jobs = await taken_over(plane, cluster, old, new)
    assert old.says("lease lost")
    began = written(plane, new.name)[0][0]
    late = [write for write in written(plane, old.name) if write[0] >= began]
    # No process can ask and send in one: who is stopped in between sends that one, under the
    # version that it has read.
    assert len(late) <= 1, late
    assert sorted(job.spec.node_name for job in jobs) == ILL
    assert {job.status.phase for job in jobs} == {JobPhase.SUCCEEDED}
    nodes = (await cluster.kube.get(paths.nodes()))["items"]
    assert not [n["metadata"]["name"] for n in nodes if n["spec"].get("unschedulable")]
