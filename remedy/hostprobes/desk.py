"""Answers probes that the operator can answer itself, or gets other nodes to answer.

    ready   the API server's current view of the node
    power   the provider's reading of the machine
    host    whether the agent of the host is silent
    peers   what agents of other nodes report (witnesses.py)

An answer is found at once, or tried again a little later, as long as the probe is open.
"""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from kubenode.api.v1alpha1.hostprobe import HostProbe, ProbeName
from kubenode.providers.errors import ProviderError
from kubenode.providers.port import PowerState, ProviderMachine
from kubenode.providers.registry import Providers
from kubenode.runtime.clock import Clock
from kubenode.runtime.fence import Fence
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import AlreadyExists, NotFound
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import Node
from remedy.hostprobes import witnesses
from remedy.hostprobes.answer_writer import READY_PRODUCED, ready
from remedy.remedier.build import agent_of
from remedy.remedier.fleet import is_ready
from remedy.remedier.leases import AGENT_SILENT, Ages
from rules.facts import Value

WITNESS_INDEX = "for"
LATE = 10.5
"""Age in seconds at which the kubelet's renewal is late, however little."""
PROVIDER_SECONDS = 15.0
"""Timeout of a provider's reading, in seconds."""
WITNESS_TIMEOUT = timedelta(seconds=8)
"""After this the answers of the witnesses so far are enough; a peer tries for three seconds."""
SOON = timedelta(seconds=1)
CLOUD_STATES = {
    PowerState.ON: "running",
    PowerState.OFF: "stopped",
    PowerState.GONE: "absent",
}
"""Values of `power.cloud_state`; every other state is `unknown`."""
PRODUCED: Mapping[str, tuple[str, ...]] = {
    **READY_PRODUCED,
    "power.cloud_state": (*CLOUD_STATES.values(), "unknown"),
    "host.agent": ("dead",),
    "peers.reachable": (),
}
"""Every field that the operator answers, with the values of a text field."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """An answer, or an error."""

    answer: Mapping[str, Value]
    error: str = ""


Finding = ProbeResult | timedelta | None
"""A result, or how long to wait before trying again; None: the operator does not answer
this probe.
"""


@dataclass(frozen=True, slots=True)
class ProbeService:
    """Answers probes.

    leases, agents: time since kubelets and agents renewed their Leases
    providers: None: no provider is configured
    probes: informer with the index WITNESS_INDEX
    """

    kube: Kube
    nodes: Informer[Node]
    probes: Informer[HostProbe]
    leases: Ages
    agents: Ages
    providers: Providers | None
    clock: Clock
    fence: Fence

    async def find(self, probe: HostProbe) -> Finding:
        """Answer the probe. Raises KubeError."""
        match probe.spec.name:
            case ProbeName.READY:
                return await self._ready(probe)
            case ProbeName.POWER:
                return await self._power(probe)
            case ProbeName.HOST:
                return self._host(probe)
            case ProbeName.PEERS if witnesses.FOR not in probe.spec.args:
                return await self._peers(probe)
            case _:
                return None

    async def _ready(self, probe: HostProbe) -> ProbeResult:
        name = probe.spec.node_name
        try:
            node = await self.kube.get(paths.node(name))
            query = {"fieldSelector": f"spec.nodeName={name}"}
            listed = await self.kube.get(paths.pods(), query=query)
        except NotFound:
            return ProbeResult({}, f"node {name}: no such node")
        return ProbeResult(ready(node, listed["items"], self.clock.now()))

    async def _power(self, probe: HostProbe) -> Finding:
        if self.providers is None:
            return None
        node = self.nodes.get(probe.spec.node_name)
        if node is None:
            return ProbeResult({}, f"node {probe.spec.node_name}: no such node")
        machine = ProviderMachine(
            node.spec.provider_id, node.metadata.name, node.metadata.annotations
        )
        provider = self.providers.of(machine)
        if provider is None:
            named = node.spec.provider_id or "no providerID"
            return ProbeResult({}, f"no provider is set up for this machine ({named})")
        try:
            async with asyncio.timeout(PROVIDER_SECONDS):
                power = await provider.power(machine)
        except ProviderError as error:
            return ProbeResult({}, str(error))
        except TimeoutError:
            return ProbeResult({}, f"{provider.name}: no answer within {PROVIDER_SECONDS:g} s")
        return ProbeResult({"cloud_state": CLOUD_STATES.get(power.state, "unknown")})

    def _host(self, probe: HostProbe) -> Finding:
        """Report a silent agent as dead. An agent that never existed is not dead: then the probe
        stays open.
        """
        age = self.agents.age(probe.spec.agent)
        if age is None:
            return SOON
        if age > AGENT_SILENT:
            return ProbeResult({"agent": "dead"})
        return max(timedelta(seconds=AGENT_SILENT - age), SOON)

    async def _peers(self, probe: HostProbe) -> Finding:
        sent = self.probes.by(WITNESS_INDEX, probe.metadata.name)
        if not sent and not self._silent(probe.spec.node_name):
            return SOON  # no witness is asked while the host reports
        if not sent:
            return await self._call_witnesses(probe)
        now = self.clock.now()
        reached = [witnesses.read_reachability(each) for each in sent]
        waits = any(each.status.answered_at is None for each in sent)
        if waits and now < created_at(sent[0], now) + WITNESS_TIMEOUT:
            return SOON
        answer = witnesses.verdict(reached)
        summary = (
            f"{sum(word is not None for word in reached)} of {len(reached)} witnesses were heard"
        )
        return ProbeResult(answer, "" if answer else f"{summary}, and they do not decide it")

    def agent_is_silent(self, agent: str) -> bool:
        """Report whether the agent is known to be silent; an agent without a known age is not."""
        age = self.agents.age(agent)
        return age is not None and age > AGENT_SILENT

    def _silent(self, name: str) -> bool:
        node, age = self.nodes.get(name), self.leases.age(name)
        return (node is not None and not is_ready(node)) or (age is not None and age > LATE)

    async def _call_witnesses(self, probe: HostProbe) -> Finding:
        target = self.nodes.get(probe.spec.node_name)
        if target is None:
            return ProbeResult({}, f"node {probe.spec.node_name}: no such node")
        called = witnesses.choose(target, self._candidates(target))
        bodies = witnesses.questions(probe, target, called)
        if not bodies:
            return ProbeResult(
                {}, f"{len(called)} other nodes have an agent to ask; two are needed"
            )
        for body in bodies:
            self.fence.check()
            try:
                await self.kube.create(paths.custom(HostProbe.resource.plural), body)
            except AlreadyExists:
                continue  # created by an earlier run
        return SOON

    def _candidates(self, target: Node) -> Iterator[witnesses.Witness]:
        """Yield healthy nodes with agents that renew their Leases."""
        for name in witnesses.order(target.metadata.name, self.nodes.cache):
            node = self.nodes.cache[name]
            age = self.agents.age(agent_of(node))
            address = witnesses.address_of(node)
            if age is None or age > AGENT_SILENT or not is_ready(node) or address is None:
                continue
            places = witnesses.places_of(node)
            yield witnesses.Witness(name, agent_of(node), address, places)


def created_at(probe: HostProbe, now: datetime) -> datetime:
    return probe.metadata.creation_timestamp or now
