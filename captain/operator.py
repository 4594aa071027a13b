"""Captain: builds its caches and controllers."""

from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry

from captain.members.connections import KubeconfigSecret, MemberConnections, decode_secret
from captain.members.controller import (
    OF_SECRET,
    PROBES_AT_ONCE,
    MemberProber,
    RotatedMembers,
    index_secret,
    select_changed,
)
from captain.members.metrics import MemberCollector, MemberMetrics
from captain.releases.clusters import ReleaseClusters
from captain.releases.events import RecordedReleases
from captain.releases.metrics import ReleaseCollector
from captain.releases.pipeline import PipelineReconciler, read_labels
from captain.releases.reconciler import ReleaseReconciler
from captain.releases.store import ApiReleases
from kubenode.api.v1alpha1 import MemberCluster, Release, ReleasePipeline
from kubenode.api.v1alpha1.membercluster import KUBECONFIG_SECRET_TYPE
from kubenode.runtime.clock import Clock
from kubenode.runtime.controller.controller import WORKERS, Controller, Reconcile
from kubenode.runtime.controller.factory import build_controller
from kubenode.runtime.fence import Fence
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.informers import MakeInformer
from kubenode.runtime.process import Part
from kubenode.runtime.recorder import EventRecorder
from kubenode.runtime.telemetry.metrics import RuntimeMetrics

COMPONENT = "kubenode-captain"
"""Source of our Events."""


@dataclass(frozen=True, slots=True)
class CaptainSettings:
    """Settings of Captain.

    namespace: that of the Secrets with kubeconfigs.
    probe_seconds: interval of the probes of a member.
    """

    namespace: str
    probe_seconds: float = 60.0


class Captain:
    """Member clusters and what is released to them.

    runtime: metrics of informers, queues and clients, None for none.
    """

    def __init__(
        self,
        kube: Kube,
        fence: Fence,
        clock: Clock,
        registry: CollectorRegistry,
        settings: CaptainSettings,
        runtime: RuntimeMetrics | None = None,
        informer: MakeInformer = Informer,
    ) -> None:
        self._kube, self._fence, self._clock, self._runtime = kube, fence, clock, runtime
        self.clusters: Informer[MemberCluster] = informer(
            kube, paths.custom(MemberCluster.resource.plural), MemberCluster.from_server
        )
        self.secrets: Informer[KubeconfigSecret] = informer(
            kube,
            paths.resource("/api/v1", "secrets", namespace=settings.namespace),
            decode_secret,
            field_selector=f"type={KUBECONFIG_SECRET_TYPE}",
            name="kubeconfigs of members",
        )
        self.pipelines: Informer[ReleasePipeline] = informer(
            kube, paths.custom(ReleasePipeline.resource.plural), ReleasePipeline.from_server
        )
        self.releases: Informer[Release] = informer(
            kube, paths.custom(Release.resource.plural), Release.from_server
        )
        self.clusters.add_index(OF_SECRET, index_secret)
        self.members = MemberConnections(
            self.clusters,
            self.secrets,
            settings.namespace,
            clock,
            runtime.client("member") if runtime is not None else None,
        )
        self.recorder = EventRecorder(kube, COMPONENT, clock)
        self._probes = self._build_probes(settings, MemberMetrics(registry))
        self._pipeline_controller = self._build_pipelines()
        self._release_controller = self._build_releases()
        registry.register(MemberCollector(self.clusters.cache.values, self.members))
        registry.register(
            ReleaseCollector(self.releases.cache.values, self.clusters.cache.values, clock)
        )
        if runtime is not None:
            runtime.recorder(self.recorder)
            for each in self._informers:
                runtime.informer(each)

    def _build_probes(self, settings: CaptainSettings, metrics: MemberMetrics) -> Controller:
        prober = MemberProber(
            self._kube,
            self._fence,
            self._clock,
            self.clusters,
            self.members,
            metrics,
            settings.probe_seconds,
        )
        probes = self._controller("memberclusters", prober.reconcile, PROBES_AT_ONCE)
        probes.watch(self.clusters, select_changed)
        probes.watch(self.secrets, RotatedMembers(self.clusters))
        return probes

    def _build_pipelines(self) -> Controller:
        reconciler = PipelineReconciler(
            self._kube, self._fence, self._clock, self.clusters, self.pipelines
        )
        controller = self._controller("pipelines", reconciler.reconcile)
        controller.watch(self.pipelines)
        controller.watch(self.clusters, reconciler.map_cluster)
        return controller

    def _build_releases(self) -> Controller:
        reconciler = ReleaseReconciler(
            RecordedReleases(ApiReleases(self._kube, self._fence), self.recorder),
            ReleaseClusters(self.members, self._fence),
            self._clock,
            lambda: read_labels(self.clusters),
            self.pipelines.get,
        )
        controller = self._controller("releases", reconciler.reconcile)
        controller.watch(self.releases)
        return controller

    def _controller(self, name: str, reconcile: Reconcile, workers: int = WORKERS) -> Controller:
        return build_controller(
            name,
            reconcile,
            clock=self._clock,
            fence=self._fence,
            metrics=self._runtime,
            workers=workers,
        )

    @property
    def _informers(self) -> tuple[Informer[Any], ...]:
        return (self.clusters, self.secrets, self.pipelines, self.releases)

    @property
    def ground(self) -> list[Part]:
        """Parts that run without the lease and end last."""
        return [*self._informers, self.recorder]

    @property
    def parts(self) -> list[Part]:
        """Parts that decide and act, to be started once the lease is held."""
        return [self._probes, self._pipeline_controller, self._release_controller]

    def ready(self) -> bool:
        """Return whether all caches are fresh."""
        return all(informer.fresh() for informer in self._informers)

    async def close(self) -> None:
        """Close the connections to all members."""
        await self.members.close()
