"""The way to the API server and to the provider fails in every manner; the end is the same.

Writes meet conflicts, refusals, errors, and answers that are lost after the write took effect; the
connection falls silent, watches and all; the machine's clock is set an hour forward and back.
"""

import asyncio
import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.control_plane import ControlPlane
from support.fate import FatedKube, JumpingClock, Rough
from support.remedy_cluster import Cluster
from support.remedy_engine import a_diagnoser
from support.remedy_story import Story, as_it_must_end
from support.running import running, until
from support.slow_proxy import slow_proxy

from kubenode.api.v1alpha1 import JobPhase, RemedyOperationJob
from kubenode.providers.registry import Providers
from kubenode.runtime.clock import Clock, SystemClock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.official import connect
from kubenode.runtime.process import serve
from remedy.operator import RemedySettings

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(300),
    # Who dies in the middle of a request closes nothing.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
SECONDS = 200.0
SEEDS = int(os.environ.get("KUBENODE_ROUGH_SEEDS", "1"))
"""How many ways for things to go wrong."""


@asynccontextmanager
async def operated(
    kubeconfig: Path, cluster: Cluster, story: Story, fate: Rough | None, clock: Clock
) -> AsyncIterator[None]:
    """An operator whose way is `fate`, and which reaches the server by `kubeconfig`."""
    kube = FatedKube(connect(str(kubeconfig)), rate=2000, burst=4000, timeout=3.0)
    kube.fate = story.provider.fate = fate
    operator = Cluster(kube, cluster.permits).operator(
        a_diagnoser(),
        settings=RemedySettings(accept_single_engine=True),
        providers=Providers([story.provider]),
        clock=clock,
    )
    try:
        async with running(story.agent()), running(serve(operator.parts, operator.ground)):
            yield
    finally:
        operator.close()
        await kube.close()


async def ended(story: Story) -> RemedyOperationJob:
    await story.cluster.wait(lambda job: job.status.phase.closed, SECONDS)
    job = await story.cluster.wait(lambda job: not job.metadata.finalizers, SECONDS)
    assert await story.end() is not None, "one job, closed"
    return job


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("ladder", ["restart", "everything"])
async def test_whatever_writes_meet_the_end_is_the_same(
    with_crds: ControlPlane, cluster: Cluster, ladder: str, seed: int
) -> None:
    story = Story(cluster, f"w-{ladder}-{seed}", ladder)
    await story.begin()
    fate = Rough(random.Random(seed), times=15, share=0.6)
    async with operated(with_crds.kubeconfig, cluster, story, fate, SystemClock()):
        job = await ended(story)
    assert len(fate.seen) >= 6, fate.seen
    await as_it_must_end(cluster, story, job)


async def test_a_connection_that_falls_silent_again_and_again_only_costs_time(
    with_crds: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    """Nothing arrives for a while: watches hang, writes may or may not have been heard."""
    story = Story(cluster, "w-silent", "restart")
    async with slow_proxy(with_crds.server) as proxy:
        text = with_crds.kubeconfig.read_text()
        through = proxy.url.replace("http://", "https://")
        assert with_crds.server in text
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(text.replace(with_crds.server, through))
        async with operated(kubeconfig, cluster, story, None, SystemClock()):
            await story.begin()
            silences = 0
            async with asyncio.timeout(SECONDS):
                while (job := await story.end()) is None:
                    proxy.silent = silences < 4
                    await asyncio.sleep(4.0 if proxy.silent else 0.1)
                    silences += proxy.silent
                    proxy.silent = False
                    await asyncio.sleep(0.7)
            proxy.silent = False
    assert silences >= 2
    await as_it_must_end(cluster, story, job)


@pytest.mark.parametrize("jump", [1, -1])
async def test_a_clock_that_jumps_by_an_hour_leads_to_no_second_act(
    with_crds: ControlPlane, cluster: Cluster, jump: int
) -> None:
    """No step is late either: whatever is waited for is waited for anew by the clock as it is."""
    story = Story(cluster, f"w-clock{jump + 1}", "restart")
    await story.begin()
    clock = JumpingClock()
    async with operated(with_crds.kubeconfig, cluster, story, None, clock):
        await cluster.wait(lambda job: job.status.owned.cordon, SECONDS)
        clock.jump(hours=jump)
        await asyncio.sleep(2.0)
        clock.jump(hours=-jump)
        await cluster.wait(lambda job: job.status.phase is JobPhase.SUCCEEDED, SECONDS)
        await until(lambda: cluster.permits.held == {}, SECONDS, "no permit is left")
    assert len(story.answered) == 1
    assert len(await cluster.jobs()) == 1
    node = await cluster.kube.get(paths.node(story.name))
    assert not node["spec"].get("unschedulable"), "a cordon is left"
