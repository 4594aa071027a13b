"""Writes inferred facts of groups that must outlive this process into the status of their rule."""

from dataclasses import dataclass

from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.runtime.controller.queue import WorkQueue
from kubenode.runtime.controller.result import DONE, Result
from kubenode.runtime.fence import Fence
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informer import Informer
from remedy.remedier.inference import WideFacts

PLURAL = NodeRemedier.resource.plural
PAUSE_SECONDS = 1.0
"""A rack that fails is many nodes: changes within this time are written once."""


@dataclass(slots=True)
class Keeper:
    """Reconciles the inferred facts in the status of rules."""

    kube: Kube
    remediers: Informer[NodeRemedier]
    facts: WideFacts
    fence: Fence

    def attach(self, queue: WorkQueue[str]) -> None:
        """Requeue a rule whenever its inferred facts change."""
        self.facts.changed = lambda name: queue.add_after(name, PAUSE_SECONDS)

    async def reconcile(self, name: str) -> Result:
        """Write the inferred facts of one rule. Raises Conflict if somebody wrote since it was
        read.
        """
        rule = self.remediers.get(name)
        if rule is None or not self.facts.loaded(name):
            return DONE
        entries = self.facts.entries(name)
        if rule.status.inferred == entries:
            return DONE
        self.fence.check()
        body = {
            "metadata": {"resourceVersion": rule.metadata.resource_version},
            "status": {"inferred": [entry.to_dict() for entry in entries]},
        }
        written = await self.kube.patch(
            paths.custom(PLURAL, name, "status"), body, decode=NodeRemedier.from_server
        )
        await self.remediers.wait_for(name, written.metadata.resource_version)
        return DONE
