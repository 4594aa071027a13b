"""The metrics of Kube Defender. Labels come from closed sets and start at zero."""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from defender.census import Census, Health
from defender.ledger import Ledger
from kubenode.api.v1alpha1 import Reason
from kubenode.api.v1alpha1.permit import PermitState

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15)
CALLS = ("ask", "check", "renew")
FREED = ("holder", "node", "forgotten")


class Metrics:
    def __init__(
        self, registry: CollectorRegistry, census: Census, ledger: Ledger, ready: Callable[[], bool]
    ) -> None:
        self.verdicts = Counter(
            "kubenode_defender_verdicts",
            "Answers by the call and by their reason.",
            ["call", "reason"],
            registry=registry,
        )
        self.seconds = Histogram(
            "kubenode_defender_ask_seconds",
            "From a question to its answer, the write of the permit included.",
            buckets=SECONDS,
            registry=registry,
        )
        self.unclear = Counter(
            "kubenode_defender_unwritten",
            "Writes of permits that failed or whose outcome was unclear.",
            registry=registry,
        )
        self.freed = Counter(
            "kubenode_defender_freed",
            "Permits that Kube Defender released itself: holder over, node gone, release repeated.",
            ["why"],
            registry=registry,
        )
        for call in CALLS:
            for reason in Reason:
                self.verdicts.labels(call, reason)
        for why in FREED:
            self.freed.labels(why)
        registry.register(_States(census, ledger, ready))


class _States(Collector):
    """Read when the page is asked for."""

    def __init__(self, census: Census, ledger: Ledger, ready: Callable[[], bool]) -> None:
        self._census, self._ledger, self._ready = census, ledger, ready

    def collect(self) -> Iterator[GaugeMetricFamily]:
        permits = dict.fromkeys(PermitState, 0)
        for held in self._ledger:
            permits[held.state] += 1
        yield _family("permits", "Permits on record.", "state", permits)
        yield _family("nodes", "Nodes as limits count them.", "health", self._census.counts())
        ready = GaugeMetricFamily("kubenode_defender_ready", "1 while questions can be answered.")
        ready.add_metric([], float(self._ready()))
        yield ready


def _family(
    what: str, text: str, label: str, counts: dict[PermitState, int] | dict[Health, int]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"kubenode_defender_{what}", text, labels=[label])
    for value, count in counts.items():
        family.add_metric([str(value)], float(count))
    return family
