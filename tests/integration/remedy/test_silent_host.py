"""A host falls silent on a served cluster: its Leases, its peers and its provider tell, and one job
follows. Nobody is asked about the others.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from support.embedded import EmbeddedPlane
from support.remedy_cluster import Cluster, connected, now, operating
from support.remedy_engine import two_engines
from support.running import running, until

from agent.heartbeat import micro_time
from kubenode.providers.port import Can, Power, PowerState, ProviderMachine
from kubenode.providers.registry import Providers
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import STRATEGIC_PATCH
from kubenode.runtime.kube.errors import AlreadyExists

pytestmark = pytest.mark.integration

NAMES = ("s1", "s2", "s3", "s4")
SPACES = ("kube-node-lease", "kubenode-agents")
NOTICED = timedelta(seconds=40)
"""A busy machine is slow; an idle one takes 19 seconds, and 25 are promised."""
PROBES = paths.custom("hostprobes")
HUNG: dict[str, Any] = {
    "all": [
        {"fact": {"name": "node.leaseAge", "above": 5}},
        {"probe": {"name": "host.agent", "equals": "dead"}},
        {"probe": {"name": "peers.reachable", "is": False}},
        {"probe": {"name": "power.cloud_state", "equals": "running"}},
    ]
}


class AlwaysOn:
    """A provider whose machines are all on."""

    name = "bare"
    can = Can()

    def owns(self, machine: ProviderMachine) -> bool:
        return machine.provider_id.startswith("bare://")

    async def power(self, machine: ProviderMachine) -> Power:
        return Power(PowerState.ON, "on", now())


class Fleet:
    """Kubelets and agents of the nodes: they renew their Leases and answer as witnesses."""

    def __init__(self, cluster: Cluster) -> None:
        self._kube = cluster.kube
        self.silent: set[str] = set()
        self.last: dict[str, Any] = {}

    async def made(self) -> None:
        for space in SPACES:
            with suppress(AlreadyExists):
                await self._kube.create(paths.namespaces(), {"metadata": {"name": space}})
            for name in NAMES:
                body = {"metadata": {"name": name, "namespace": space}, "spec": self._spec(name)}
                await self._kube.create(paths.leases(space), body)

    def _spec(self, name: str) -> dict[str, Any]:
        self.last[name] = now()
        return {
            "holderIdentity": name,
            "leaseDurationSeconds": 40,
            "renewTime": micro_time(self.last[name]),
        }

    async def run(self) -> None:
        while True:
            for name in NAMES:
                if name not in self.silent:
                    spec = self._spec(name)
                    for space in SPACES:
                        await self._kube.patch(paths.lease(space, name), {"spec": spec})
            await self._answer()
            await SystemClock().sleep(1)

    async def _answer(self) -> None:
        """As the agents of the hosts that live: none of them reaches a silent one."""
        listed = await self._kube.get(PROBES)
        for probe in listed["items"]:
            args, answered = probe["spec"].get("args", {}), "answeredAt" in probe.get("status", {})
            if "address" in args and not answered and probe["spec"]["agent"] not in self.silent:
                answer = {"reached": False, "control": True}
                status = {"answer": answer, "answeredAt": now().isoformat(), "error": ""}
                name = probe["metadata"]["name"]
                await self._kube.patch(
                    paths.custom("hostprobes", name, "status"), {"status": status}
                )


@pytest.fixture
async def cluster(plane: EmbeddedPlane) -> AsyncIterator[Cluster]:
    async with connected(plane) as found:
        for number, name in enumerate(NAMES, start=1):
            await found.node(name)
            addresses = [{"type": "InternalIP", "address": f"10.9.0.{number}"}]
            status = {"status": {"addresses": addresses}}
            await found.kube.patch(paths.node(name, "status"), status, STRATEGIC_PATCH)
            spec = {"spec": {"providerID": f"bare://{name}"}}
            await found.kube.patch(paths.node(name), spec)
        yield found


async def test_a_silent_host_is_noticed_by_four_witnesses(
    cluster: Cluster, record_testsuite_property: Callable[[str, object], None]
) -> None:
    fleet = Fleet(cluster)
    await fleet.made()
    tell = {"name": "tell", "steps": [{"notify": {"message": "it hangs"}}]}
    waits = {"groupWait": "0s", "startupGrace": "0s"}
    nodes = {"nodes": {"all": True}, "mode": "Enforce", "faultClass": "host_hung"}
    await cluster.rule("hung", when=HUNG, ladder=[tell], **nodes, **waits)
    operator = cluster.operator(two_engines(), providers=Providers([AlwaysOn()]))  # type: ignore[list-item]
    async with running(fleet.run()), operating(operator):
        ages = operator.hosts.node_ages
        await until(
            lambda: all((ages.age(name) or 9) < 5 for name in NAMES), 60, "all Leases are followed"
        )
        fleet.silent = {"s1"}
        silent_since = fleet.last["s1"]
        await until(lambda: len(operator.informers.jobs.cache) > 0, 60, "a job")
        (job,) = operator.informers.jobs.cache.values()
        took = (job.metadata.creation_timestamp or now()) - silent_since
        assert job.spec.node_name == "s1"
        assert {fact.value for fact in job.spec.trigger.facts} == {True}
        record_testsuite_property("silent_host_noticed_seconds", took.total_seconds())
        assert took < NOTICED, took
        about = {p.spec.node_name for p in operator.informers.probes.cache.values()}
        assert about == {"s1", ""}, "nobody is asked about those that are heard"
        assert len(operator.informers.probes.cache) == 3 + 3
