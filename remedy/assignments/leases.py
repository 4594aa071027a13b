"""Makes each agent's Node the owner of its Lease, and removes Leases without a Node for long.

The API server deletes an object with its owner. An agent cannot set its Node as owner, because it
does not read Nodes. Leases of earlier versions, whose Node was deleted before they had an owner,
would stay forever.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from kubenode.api.v1alpha1 import Machine
from kubenode.runtime.audit import Audit, AuditLine
from kubenode.runtime.clock import Clock
from kubenode.runtime.controller.controller import Controller
from kubenode.runtime.controller.result import DONE, Result
from kubenode.runtime.fence import Fence
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Conflict, NotFound
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import Node
from kubenode.runtime.rate import TokenBucket
from remedy.assignments.owner import owner_reference
from remedy.assignments.writer import NODES_OF_AGENT
from remedy.remedier.build import agent_of
from remedy.remedier.leases import AGENT_LEASES, LeaseAges, Renewal

log = logging.getLogger(__name__)

REMOVE_AFTER = timedelta(hours=1)
"""A Lease without a Node is removed after this time without a renewal, by our own clock."""
REQUEUE_AFTER = timedelta(minutes=10)
OWNED_PER_SECOND, OWNED_AT_ONCE = 20.0, 50.0
REMOVED_PER_SECOND, REMOVED_AT_ONCE = 1.0, 10.0
BUSY = timedelta(seconds=30)


@dataclass(slots=True)
class AgentLeases:
    """Reconciles Leases of agents.

    nodes: informer with the index NODES_OF_AGENT
    ages: ages of the agents' Leases
    """

    kube: Kube
    nodes: Informer[Node]
    leases: Informer[Renewal]
    ages: LeaseAges
    clock: Clock
    fence: Fence
    audit: Audit
    _owned: TokenBucket = field(init=False)
    _removed: TokenBucket = field(init=False)

    def __post_init__(self) -> None:
        self._owned = TokenBucket(OWNED_PER_SECOND, OWNED_AT_ONCE, self.clock)
        self._removed = TokenBucket(REMOVED_PER_SECOND, REMOVED_AT_ONCE, self.clock)

    def attach(self, controller: Controller) -> None:
        """Let the controller reconcile the agents that a change concerns."""
        controller.watch(self.nodes, self.of_node)
        controller.watch(self.leases, self.of_lease)

    def of_node(self, key: str, old: Node | None, new: Node | None) -> Iterable[str]:
        """Map a Node that is created, deleted or gets another agent to its agents."""
        before, after = (None if n is None else (agent_of(n), n.metadata.uid) for n in (old, new))
        return {each[0] for each in (before, after) if each is not None} if before != after else ()

    def of_lease(self, key: str, old: Renewal | None, new: Renewal | None) -> Iterable[str]:
        """Map a new Lease to its agent. Renewals give no key."""
        return (new.metadata.name,) if old is None and new is not None else ()

    async def reconcile(self, agent: str) -> Result:
        """Set the owner of the agent's Lease, or remove the Lease."""
        lease = self.leases.get(f"{AGENT_LEASES}/{agent}")
        if lease is None or lease.metadata.owner_references:
            return DONE
        nodes = self.nodes.by(NODES_OF_AGENT, agent)
        if len(nodes) == 1:
            return await self._own(agent, nodes[0])
        if nodes or not (self.nodes.fresh() and self.leases.fresh()):
            return Result(REQUEUE_AFTER)
        remaining = REMOVE_AFTER - timedelta(seconds=self.ages.unrenewed(agent) or 0.0)
        if remaining > timedelta(0):
            return Result(max(remaining, REQUEUE_AFTER))
        return await self._remove(agent, lease)

    async def _own(self, agent: str, node: Node) -> Result:
        if not self._owned.allow():
            return Result(BUSY)
        self.fence.check()
        body = {"metadata": {"ownerReferences": [owner_reference(node)]}}
        await self.kube.patch(paths.lease(AGENT_LEASES, agent), body)
        return DONE

    async def _remove(self, agent: str, lease: Renewal) -> Result:
        """Remove the Lease unless the agent has a Machine, whose Lease the Machine operator
        removes.
        """
        if not self._removed.allow():
            return Result(BUSY)
        if await self._has_machine(agent):
            return Result(REMOVE_AFTER)
        self.fence.check()
        version = lease.metadata.resource_version
        try:
            await self.kube.delete(paths.lease(AGENT_LEASES, agent), resource_version=version)
        except NotFound:
            return DONE
        except Conflict:
            return Result(REQUEUE_AFTER)  # renewed a moment ago
        why = f"its Node is gone, and nobody renewed it for {REMOVE_AFTER}"
        log.info("the Lease of an agent is removed", extra={"agent": agent, "why": why})
        what = "DeleteLease"
        line = AuditLine(self.clock.now(), "remedy", "remedy", what, "Done", why, node=agent)
        self.audit.write(line)
        return DONE

    async def _has_machine(self, agent: str) -> bool:
        try:
            machine: Any = await self.kube.get(paths.custom(Machine.resource.plural, agent))
        except NotFound:
            return False
        return machine is not None
