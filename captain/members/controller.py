"""Reconciles MemberClusters: probes each member once per interval and writes what it observed."""

from collections.abc import Iterable
from datetime import timedelta

from captain.members.client import call_member
from captain.members.cluster import MemberUnreachable
from captain.members.connections import KubeconfigSecret, MemberConnections
from captain.members.metrics import MemberMetrics
from captain.members.probe import read_member
from captain.members.status import ProbeOutcome, find_change, seconds_to_probe
from kubenode.api.v1alpha1 import MemberCluster
from kubenode.api.v1alpha1.membercluster import MemberReason
from kubenode.runtime.clock import Clock
from kubenode.runtime.controller.result import DONE, Result
from kubenode.runtime.fence import Fence
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.paths import custom

OF_SECRET = "kubeconfigRef"
"""Index of MemberClusters by the name of their Secret."""
PROBES_AT_ONCE = 64
"""Members that are probed at the same time: 300 that do not answer take 50 s of each minute."""
PROBE_SECONDS = 10.0


class MemberProber:
    """Reconciler of MemberClusters.

    interval: seconds between two probes of a member.
    """

    def __init__(
        self,
        kube: Kube,
        fence: Fence,
        clock: Clock,
        clusters: Informer[MemberCluster],
        connections: MemberConnections,
        metrics: MemberMetrics,
        interval: float,
    ) -> None:
        self._kube, self._fence, self._clock = kube, fence, clock
        self._clusters, self._connections = clusters, connections
        self._metrics, self._interval = metrics, interval

    async def reconcile(self, name: str) -> Result:
        await self._connections.sweep()
        cluster = self._clusters.get(name)
        if cluster is None:
            self._connections.drop(name)
            return DONE
        began = self._clock.monotonic()
        outcome = await self._probe(name)
        reason = (
            outcome.reason if isinstance(outcome, MemberUnreachable) else MemberReason.CONNECTED
        )
        self._metrics.probed(reason, self._clock.monotonic() - began)
        await self._write(cluster, outcome)
        if reason is MemberReason.PAUSED:
            self._connections.drop(name)
            return DONE
        delay = seconds_to_probe(name, self._clock.now().timestamp(), self._interval)
        return Result(timedelta(seconds=delay))

    async def _probe(self, name: str) -> ProbeOutcome:
        try:
            return await call_member(
                name, read_member(self._connections.connect(name)), PROBE_SECONDS
            )
        except MemberUnreachable as error:
            return error

    async def _write(self, cluster: MemberCluster, outcome: ProbeOutcome) -> None:
        expires_at = self._connections.find_expiry(cluster.metadata.name)
        change = find_change(cluster, outcome, self._clock.now(), expires_at)
        if change is None:
            return
        meta = cluster.metadata
        self._fence.check()
        path = custom(MemberCluster.resource.plural, meta.name, "status")
        await self._kube.patch(path, {"metadata": {"uid": meta.uid}, "status": change})


def index_secret(cluster: MemberCluster) -> tuple[str]:
    return (cluster.spec.kubeconfig_ref,)


def select_changed(
    key: str, old: MemberCluster | None, new: MemberCluster | None
) -> tuple[str, ...]:
    """Return the key if the member appeared, vanished or has another spec.

    Our own writes and resyncs cause no probe: that would be one more for each.
    """
    if old is not None and new is not None:
        same = (old.metadata.uid, old.metadata.generation) == (
            new.metadata.uid,
            new.metadata.generation,
        )
        return () if same else (key,)
    return (key,)


class RotatedMembers:
    """Maps a changed Secret to its members."""

    def __init__(self, clusters: Informer[MemberCluster]) -> None:
        self._clusters = clusters

    def __call__(
        self, key: str, old: KubeconfigSecret | None, new: KubeconfigSecret | None
    ) -> Iterable[str]:
        if old is not None and new is not None and old.data == new.data:
            return ()
        name = key.partition("/")[2]
        return [cluster.metadata.name for cluster in self._clusters.by(OF_SECRET, name)]
