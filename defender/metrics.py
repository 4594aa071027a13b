"""Metrics of Kube Defender. Labels have values from closed sets and start at zero.

Counters and histograms are here. Gauges (budgets, breakers, the queue) are read from the risk
control when they are scraped, see `defender.gauges`.
"""

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram

from defender.decision.control import RiskControl
from defender.decision.jobs import ObservedJob
from defender.gauges import Gauges
from kubenode.api.v1alpha1 import Reason
from kubenode.runtime.clock import Clock

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15)
CALLS = ("ask", "check", "renew")
FREED = ("holder", "node", "forgotten", "outside")
REVOKED = ("pause", "breaker")
"""Why a permit was revoked: a person's `pause --now`, or a breaker that opened."""


class DefenderMetrics:
    """Counters and histograms of Kube Defender.

    stores: by name, whether a store besides the Permit objects answers, such as `redis`.
    jobs: returns all known jobs.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        control: RiskControl,
        ready: Callable[[], bool],
        clock: Clock,
        jobs: Callable[[], Iterable[ObservedJob]] = tuple,
    ) -> None:
        self.stores: dict[str, Callable[[], bool]] = {}
        self.verdicts = Counter(
            "kubenode_defender_verdicts",
            "Number of verdicts, by call and reason.",
            ["call", "reason"],
            registry=registry,
        )
        self.seconds = Histogram(
            "kubenode_defender_ask_seconds",
            "Duration in seconds of a request for a permit, including the write of the permit.",
            buckets=SECONDS,
            registry=registry,
        )
        self.unclear = Counter(
            "kubenode_defender_unwritten",
            "Number of writes of permits that failed or have an unknown outcome.",
            registry=registry,
        )
        self.freed = Counter(
            "kubenode_defender_freed",
            "Number of permits that Kube Defender released on its own, by reason: holder"
            " ended, node deleted, release repeated.",
            ["why"],
            registry=registry,
        )
        self.revoked = Counter(
            "kubenode_defender_revoked",
            "Number of permits revoked before an irreversible act, by reason.",
            ["why"],
            registry=registry,
        )
        for call in CALLS:
            for reason in Reason:
                self.verdicts.labels(call, reason)
        for why in FREED:
            self.freed.labels(why)
        for why in REVOKED:
            self.revoked.labels(why)
        registry.register(Gauges(control, ready, clock, self.stores, jobs))
