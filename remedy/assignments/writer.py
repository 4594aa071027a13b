"""Writes one AgentAssignment for each agent with a Node.

An agent uses its assignment as soon as one exists. So all are created, a few per second, and an
agent without one watches its jobs directly.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta

from kubenode.api.v1alpha1 import AgentAssignment, HostProbe, RemedyOperationJob
from kubenode.api.v1alpha1.agentassignment import AgentAssignmentSpec
from kubenode.runtime.clock import Clock
from kubenode.runtime.controller.controller import Controller
from kubenode.runtime.controller.result import DONE, Result
from kubenode.runtime.fence import Fence
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import AlreadyExists
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import Node
from kubenode.runtime.rate import Spread, TokenBucket
from remedy.assignments.content import due, wanted
from remedy.assignments.owner import owner_reference
from remedy.mappers import JOBS_OF_AGENT
from remedy.remedier.build import agent_of
from remedy.remedier.leases import AGENT_LEASES, Renewal

PLURAL = AgentAssignment.resource.plural
NODES_OF_AGENT = "agent"
"""Index of Nodes."""
PROBES_OF_AGENT = "agent"
"""Index of HostProbes."""
CREATED_PER_SECOND, CREATED_AT_ONCE = 20.0, 50.0
CREATED_WITHIN = 30.0
"""Seconds over which creations above the rate are spread."""


@dataclass(slots=True)
class AssignmentWriter:
    """Reconciles assignments.

    jobs: informer with the index JOBS_OF_AGENT
    leases: Leases of agents: a name without a Lease is no agent
    """

    kube: Kube
    nodes: Informer[Node]
    jobs: Informer[RemedyOperationJob]
    probes: Informer[HostProbe]
    leases: Informer[Renewal]
    assignments: Informer[AgentAssignment]
    clock: Clock
    fence: Fence
    spread: Spread = random.random
    _creations: TokenBucket = field(init=False)
    _differs_since: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.nodes.add_index(NODES_OF_AGENT, lambda node: (agent_of(node),))
        self.probes.add_index(PROBES_OF_AGENT, lambda probe: (probe.spec.agent,))
        self._creations = TokenBucket(CREATED_PER_SECOND, CREATED_AT_ONCE, self.clock)

    # -- which agents a change concerns ---------------------------------------------------------

    def attach(self, controller: Controller) -> None:
        """Let the controller reconcile the agents that a change concerns."""
        controller.watch(self.assignments)
        controller.watch(self.nodes, self.of_node)
        controller.watch(self.leases, self.of_lease)
        controller.watch(self.jobs, self.of_job)
        controller.watch(self.probes, self.of_probe)

    def of_node(self, key: str, old: Node | None, new: Node | None) -> Iterable[str]:
        """Map a Node that is created, deleted or changes its agent to its agents."""
        before, after = (None if n is None else (agent_of(n), n.metadata.uid) for n in (old, new))
        return {each[0] for each in (before, after) if each is not None} if before != after else ()

    def of_lease(self, key: str, old: Renewal | None, new: Renewal | None) -> Iterable[str]:
        """Map a new Lease to its agent. Renewals give no key."""
        return (new.metadata.name,) if old is None and new is not None else ()

    def of_job(
        self, key: str, old: RemedyOperationJob | None, new: RemedyOperationJob | None
    ) -> Iterable[str]:
        return {job.spec.agent for job in (old, new) if job is not None}

    def of_probe(self, key: str, old: HostProbe | None, new: HostProbe | None) -> Iterable[str]:
        """Map a probe to its agent. Deleted probes are removed together with other changes."""
        return () if new is None else (new.spec.agent,)

    # -- one agent ------------------------------------------------------------------------------

    async def reconcile(self, agent: str) -> Result:
        """Bring the agent's assignment up to date."""
        nodes = self.nodes.by(NODES_OF_AGENT, agent)
        have = self.assignments.get(agent)
        if len(nodes) != 1 or not self.assignments.readable(agent):
            return DONE  # the API server deletes it with its Node
        if have is None:
            known = self.leases.get(f"{AGENT_LEASES}/{agent}") is not None
            return await self._create(agent, nodes[0]) if known else DONE
        want = self._wanted(agent, have.spec)
        owned = any(owner.uid == nodes[0].metadata.uid for owner in have.metadata.owner_references)
        wait = due(have.spec, want) if owned else timedelta(0)
        if wait is None:
            self._differs_since.pop(agent, None)
            return DONE
        now = self.clock.monotonic()
        passed = now - self._differs_since.setdefault(agent, now)
        if passed < wait.total_seconds():
            return Result(wait - timedelta(seconds=passed))
        await self._write(have, want, nodes[0])
        self._differs_since.pop(agent, None)
        return DONE

    def _wanted(self, agent: str, have: AgentAssignmentSpec) -> AgentAssignmentSpec:
        jobs = self.jobs.by(JOBS_OF_AGENT, agent)
        probes = self.probes.by(PROBES_OF_AGENT, agent)
        return wanted(jobs, probes, have, self.clock.now())

    async def _create(self, agent: str, node: Node) -> Result:
        """Create an assignment; never urgent, since until then the agent watches its jobs and
        probes.
        """
        if not self._creations.allow():
            return Result(timedelta(seconds=1 + CREATED_WITHIN * self.spread()))
        made = {
            "apiVersion": "kubenode.io/v1alpha1",
            "kind": "AgentAssignment",
            "metadata": {"name": agent, "ownerReferences": [owner_reference(node)]},
            "spec": self._wanted(agent, AgentAssignmentSpec()).to_dict(),
        }
        self.fence.check()
        try:
            written = await self.kube.create(
                paths.custom(PLURAL), made, decode=AgentAssignment.from_server
            )
        except AlreadyExists:
            return Result(timedelta(seconds=1))  # the watch will bring it
        await self.assignments.wait_for(agent, written.metadata.resource_version)
        return Result(timedelta(seconds=1))  # write what changed meanwhile

    async def _write(self, have: AgentAssignment, want: AgentAssignmentSpec, node: Node) -> None:
        agent = have.metadata.name
        body = {
            "metadata": {
                "resourceVersion": have.metadata.resource_version,
                "ownerReferences": [owner_reference(node)],
            },
            "spec": want.to_dict(),
        }
        self.fence.check()
        written = await self.kube.patch(
            paths.custom(PLURAL, agent), body, decode=AgentAssignment.from_server
        )
        await self.assignments.wait_for(agent, written.metadata.resource_version)
