"""The operator dies at every single act, before or after it took effect; the end is the same.

On a real kube-apiserver. Each life ends at the first act that no life before it has died at, so a
job of N acts takes N + 1 lives, and every one of its acts is interrupted once.
"""

from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.fate import FatedKube, FatedPermits, Once
from support.remedy_cluster import POLL_SECONDS, Cluster
from support.remedy_engine import a_diagnoser
from support.remedy_story import LADDERS, Story, as_it_must_end
from support.running import running

from kubenode.api.v1alpha1 import JobPhase, RemedyOperationJob
from kubenode.providers.registry import Providers
from kubenode.runtime.kube import paths
from kubenode.runtime.process import serve
from remedy.operator import RemedySettings

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(300),
    # Who dies in the middle of a request closes nothing.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
MOST_LIVES = 120


@pytest.fixture
def cluster(cluster: Cluster) -> Cluster:
    cluster.permits = FatedPermits()
    return cluster


@asynccontextmanager
async def life(cluster: Cluster, story: Story, fate: Once) -> AsyncIterator[None]:
    """One process: its client is its own, so that what it leaves unanswered dies with it."""
    assert isinstance(cluster.permits, FatedPermits)
    kube = FatedKube(cluster.kube.transport, rate=2000, burst=4000)
    kube.fate = cluster.permits.fate = story.provider.fate = fate
    operator = Cluster(kube, cluster.permits).operator(
        a_diagnoser(),
        settings=RemedySettings(accept_single_engine=True),
        providers=Providers([story.provider]),
    )
    try:
        async with running(serve(operator.parts, operator.ground)):
            try:
                yield
            finally:
                fate.dead.set()
                fate.buried.set()
    finally:
        operator.close()


async def lived(
    cluster: Cluster, story: Story, fate: Once, beside: Coroutine[Any, Any, None]
) -> RemedyOperationJob:
    """Life after life until the job is over, while `beside` goes on."""
    async with running(beside):
        for _ in range(MOST_LIVES):
            fate.reborn()
            async with life(cluster, story, fate):
                over = None
                while over is None and not fate.dead.is_set():
                    over = await story.end()
                    await fate.dead_within(POLL_SECONDS)
            if over is not None:
                return over
    raise AssertionError(f"{MOST_LIVES} lives and no end: died at {fate.died_at}")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("ladder", LADDERS)
async def test_an_operator_that_dies_at_every_act_does_none_twice(
    cluster: Cluster, ladder: str, after: bool
) -> None:
    story = Story(cluster, f"e-{ladder}-{after}".lower(), ladder)
    await story.begin()
    fate = Once(after)
    job = await lived(cluster, story, fate, story.agent())
    assert len(fate.died_at) >= 15, fate.died_at
    await as_it_must_end(cluster, story, job)


async def test_a_job_that_is_cancelled_while_its_operator_dies_undoes_all(cluster: Cluster) -> None:
    story = Story(cluster, "e-cancelled", "restart")
    await story.begin()
    fate = Once(after=True)

    async def person() -> None:
        job = await cluster.wait(lambda job: job.status.owned.cordon)
        path = paths.custom("remedyoperationjobs", job.metadata.name)
        await cluster.kube.patch(path, {"spec": {"cancel": True}})

    job = await lived(cluster, story, fate, person())
    assert job.status.phase is JobPhase.CANCELLED
    assert story.answered == []
    node = await cluster.kube.get(paths.node(story.name))
    assert not node["spec"].get("unschedulable") and cluster.permits.held == {}
