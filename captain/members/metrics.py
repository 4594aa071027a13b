"""Metrics of members."""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from captain.members.connections import MemberConnections
from kubenode.api.v1alpha1 import MemberCluster
from kubenode.api.v1alpha1.membercluster import MemberPhase, MemberReason


class MemberMetrics:
    """Counts probes by their outcome."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._probes = Counter(
            "kubenode_captain_probes",
            "Probes of member clusters, by the reason of the condition Reachable.",
            ["reason"],
            registry=registry,
        )
        self._seconds = Histogram(
            "kubenode_captain_probe_seconds",
            "Duration of a probe of a member cluster.",
            buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
            registry=registry,
        )
        for reason in MemberReason:
            self._probes.labels(reason)

    def probed(self, reason: str, seconds: float) -> None:
        self._probes.labels(reason).inc()
        self._seconds.observe(seconds)


class MemberCollector(Collector):
    """Reads the numbers of members and of their clients when metrics are requested."""

    def __init__(
        self,
        clusters: Callable[[], Iterable[MemberCluster]],
        connections: MemberConnections,
    ) -> None:
        self._clusters, self._connections = clusters, connections

    def collect(self) -> Iterator[GaugeMetricFamily]:
        tally = Tally(cluster.status.phase or MemberPhase.PENDING for cluster in self._clusters())
        members = GaugeMetricFamily(
            "kubenode_captain_members", "Member clusters by phase.", labels=["phase"]
        )
        for phase in MemberPhase:
            members.add_metric([phase], tally[phase])
        yield members
        ends = (cluster.status.credentials_expire_at for cluster in self._clusters())
        yield GaugeMetricFamily(
            "kubenode_captain_first_expiry_timestamp_seconds",
            "Time at which the first credentials of a member expire; 0 if none are known to.",
            value=min((end.timestamp() for end in ends if end is not None), default=0.0),
        )
        yield GaugeMetricFamily(
            "kubenode_captain_clients",
            "Clients of member clusters in memory.",
            value=len(self._connections),
        )
