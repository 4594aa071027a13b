"""A breaker on a real kube-apiserver: written at once, told, taken up by the next Kube Defender."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from support.control_plane import ControlPlane
from support.defender_world import a_policy, an_ask
from support.defending import rule_by
from support.remedy_cluster import Cluster, connected, install_crds
from support.running import running, until

from defender.decision.breaker.step import PACE
from defender.service import Defender, DefenderSettings
from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import Reason
from kubenode.api.v1alpha1.defenderpolicy import Breaker, Limit, LimitScope, Resume
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.fence import AlwaysLeader
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.process import serve

pytestmark = pytest.mark.integration
POLICIES = paths.custom("defenderpolicies")
NODES, FAILED = 12, 5
SECOND = timedelta(seconds=1)


@pytest.fixture(scope="module")
def with_crds(control_plane: ControlPlane) -> ControlPlane:
    install_crds(control_plane)
    return control_plane


async def empty(kube: Kube) -> None:
    for collection in (paths.custom("permits"), POLICIES, paths.nodes()):
        for obj in (await kube.get(collection))["items"]:
            await kube.delete(f"{collection}/{obj['metadata']['name']}")


@pytest.fixture
async def cluster(with_crds: ControlPlane) -> AsyncIterator[Cluster]:
    async with connected(with_crds) as found:
        await empty(found.kube)
        limits = [
            Limit(scope=LimitScope.CLUSTER, max_concurrent=1),
            Limit(scope=LimitScope.CLUSTER, classes=["Host"], max_concurrent=2),
        ]
        breaker = Breaker(open=2 * SECOND, resume=Resume(every=SECOND))
        await rule_by(found.kube, a_policy(*limits, breaker=breaker))
        for number in range(NODES):
            await found.node(f"n{number}")
        yield found
        await empty(found.kube)


@asynccontextmanager
async def defending(kube: Kube) -> AsyncIterator[Defender]:
    """At such a pace that five minutes of calm last a second."""
    settings = DefenderSettings(round=0.2, pace=PACE.faster(300))
    defender = Defender(kube, AlwaysLeader(), SystemClock(), CollectorRegistry(), settings)
    async with running(serve(defender.parts, defender.ground)):
        await until(lambda: not defender.ready(), 60, "Kube Defender is ready")
        await until(lambda: len(defender.census) == NODES, 60, "all nodes are seen")
        await until(lambda: defender.control.displaced is not None, 60, "displaced pods are known")
        yield defender


async def ready(kube: Kube, name: str, status: str) -> None:
    at = format_time(SystemClock().now())
    condition = {"type": "Ready", "status": status, "reason": "Test", "lastTransitionTime": at}
    await kube.patch(paths.node(name, "status"), {"status": {"conditions": [condition]}})


async def eventually(condition: Callable[[], Awaitable[bool]], seconds: float, what: str) -> None:
    deadline = asyncio.get_running_loop().time() + seconds
    while not await condition():
        assert asyncio.get_running_loop().time() < deadline, f"not within {seconds} s: {what}"
        await asyncio.sleep(0.1)


async def status(kube: Kube) -> Any:
    return (await kube.get(f"{POLICIES}/default")).get("status", {})


async def test_a_storm_is_kept_over_a_restart_and_its_whole_history_is_written(
    cluster: Cluster,
) -> None:
    kube = cluster.kube
    async with defending(kube) as first:
        for number in range(FAILED):
            await ready(kube, f"n{number}", "False")
        await until(lambda: bool(first.control.breakers.opened()), 60, "the breaker opens")

        async def written() -> bool:
            return [b["state"] for b in (await status(kube)).get("breaker", [])] == ["Open"]

        await eventually(written, 60, "the policy says so")

        async def refused() -> bool:
            """It opens at the fourth, and the last may be seen a moment later."""
            no = await first.ask(an_ask("n9"))
            assert no.reason is Reason.BREAKER_OPEN
            return f"{FAILED} of {NODES}" in no.message

        await eventually(refused, 60, "all that failed are counted")
    since = (await status(kube))["breaker"][0]["since"]
    async with defending(kube) as second:
        assert (await second.ask(an_ask("n9"))).reason is Reason.BREAKER_OPEN
        assert (await status(kube))["breaker"][0]["since"] == since
        for number in range(FAILED):
            await ready(kube, f"n{number}", "True")

        async def over() -> bool:
            return not (await status(kube))["breaker"]

        await eventually(over, 60, "the breaker closes")
        history = [entry["state"] for entry in (await status(kube))["breakerHistory"]]
        assert history == ["Open", "HalfOpen", "Closed"]
        assert (await second.ask(an_ask("n9"))).allowed

        async def told() -> bool:
            events = (await kube.get(paths.events("default")))["items"]
            about = [e for e in events if e["involvedObject"]["kind"] == "DefenderPolicy"]
            return {"BreakerOpen", "BreakerHalfOpen", "BreakerClosed"} <= {
                event["reason"] for event in about
            }

        await eventually(told, 60, "people are told by Events")
