"""Reconciles ReleasePipelines: counts their clusters and says whether releases can use them."""

from typing import Any

from captain.releases.model import Labels
from captain.releases.stages import count_clusters, find_problem
from kubenode.api.conditions import ConditionUpdate, set_condition
from kubenode.api.readiness import set_readiness
from kubenode.api.v1alpha1 import MemberCluster, ReleasePipeline
from kubenode.api.v1alpha1.releasepipeline import PIPELINE_VALID, PipelineReason
from kubenode.runtime.clock import Clock
from kubenode.runtime.controller.result import DONE, Result
from kubenode.runtime.fence import Fence
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.paths import custom


class PipelineReconciler:
    """Reconciler of ReleasePipelines."""

    def __init__(
        self,
        kube: Kube,
        fence: Fence,
        clock: Clock,
        clusters: Informer[MemberCluster],
        pipelines: Informer[ReleasePipeline],
    ) -> None:
        self._kube, self._fence, self._clock = kube, fence, clock
        self._clusters, self._pipelines = clusters, pipelines

    async def reconcile(self, name: str) -> Result:
        pipeline = self._pipelines.get(name)
        if pipeline is None:
            return DONE
        status = self._build_status(pipeline, read_labels(self._clusters))
        before = pipeline.status.to_dict()
        if change := {key: value for key, value in status.items() if before.get(key) != value}:
            self._fence.check()
            path = custom(ReleasePipeline.resource.plural, name, "status")
            body = {"metadata": {"uid": pipeline.metadata.uid}, "status": change}
            await self._kube.patch(path, body)
        return DONE

    def _build_status(self, pipeline: ReleasePipeline, labels: Labels) -> dict[str, Any]:
        reason, message = find_problem(pipeline, labels)
        update = ConditionUpdate.of(reason is PipelineReason.VALID, reason, message)
        generation, now = pipeline.metadata.generation, self._clock.now()
        conditions = set_condition(
            pipeline.status.conditions, PIPELINE_VALID, update, generation=generation, now=now
        )
        conditions = set_readiness(
            ReleasePipeline.__name__, conditions, generation=generation, now=now
        )
        return {
            "observedGeneration": generation,
            "clusters": count_clusters(pipeline, labels),
            "conditions": [condition.to_dict() for condition in conditions],
        }

    def map_cluster(
        self, key: str, old: MemberCluster | None, new: MemberCluster | None
    ) -> list[str]:
        """Return all pipelines if a cluster appeared, vanished or has other labels."""
        if old is not None and new is not None and old.metadata.labels == new.metadata.labels:
            return []
        return list(self._pipelines.cache)


def read_labels(clusters: Informer[MemberCluster]) -> Labels:
    """Return the labels of all MemberClusters by name."""
    return {name: cluster.metadata.labels for name, cluster in clusters.cache.items()}
