"""Writes the status of NodeRemediers, at a bounded rate, and only what changed."""

from dataclasses import dataclass

from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.runtime.clock import Clock
from kubenode.runtime.controller.queue import WorkQueue
from kubenode.runtime.controller.result import DONE, Result
from kubenode.runtime.fence import Fence
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informer import Informer
from remedy.job.store import merge_patch
from remedy.noderecord.store import NodeRecords
from remedy.registry.dry_run_status import find_interval, observe_dry_run
from remedy.registry.registry import RuleRegistry
from remedy.registry.status import status_of

PLURAL = NodeRemedier.resource.plural
PAUSE_SECONDS = 1.0
"""A storm changes the counts of a rule a thousand times; its status is written once in
this time.
"""


@dataclass(slots=True)
class RuleStatusReporter:
    """Reconciles the status of rules."""

    kube: Kube
    remediers: Informer[NodeRemedier]
    registry: RuleRegistry
    clock: Clock
    fence: Fence
    records: NodeRecords

    def attach(self, queue: WorkQueue[str]) -> None:
        """Requeue a rule when its state or its evidence in DryRun changed."""

        def requeue(name: str) -> None:
            queue.add_after(name, PAUSE_SECONDS)

        self.registry.on_standing.append(requeue)
        self.records.evidence_changed = requeue

    async def reconcile(self, name: str) -> Result:
        rule = self.remediers.get(name)
        if rule is None or not self.registry.knows(rule):
            return DONE  # the pending load requeues it
        state, now = self.registry.standing(rule), self.clock.now()
        totals = self.records.evidence.add_up(name, rule.metadata.generation)
        dry_run = observe_dry_run(rule, state.phase, totals, now)
        status = status_of(rule, state, now).model_copy(update={"dry_run": dry_run})
        result = DONE if dry_run is None else Result(find_interval(dry_run))
        patch = merge_patch(rule.status.to_dict(), status.to_dict())
        if not patch:
            return result
        self.fence.check()
        body = {"metadata": {"resourceVersion": rule.metadata.resource_version}, "status": patch}
        written = await self.kube.patch(
            paths.custom(PLURAL, name, "status"), body, decode=NodeRemedier.from_server
        )
        await self.remediers.wait_for(name, written.metadata.resource_version)
        return result
