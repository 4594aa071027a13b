"""Metrics of Kube Defender's admission webhook. Labels have values from closed sets, from zero."""

from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Histogram

from defender.webhook.acts import GuardedActKind

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2)


class GuardOutcome(StrEnum):
    """Outcomes of a review, as label of a metric."""

    ALLOWED = "allowed"
    AUDITED = "audited"
    DENIED = "denied"
    OVERRIDDEN = "overridden"
    PASSED = "passed"
    ERROR = "error"


class GuardMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.acts = Counter(
            "kubenode_defender_guard",
            "Acts of others on nodes; audited: Audit let pass what Enforce would refuse; passed:"
            " not judged; error: left to the webhook's failurePolicy.",
            ["act", "outcome"],
            registry=registry,
        )
        self.seconds = Histogram(
            "kubenode_defender_guard_seconds",
            "From the question of the API server to the answer.",
            buckets=SECONDS,
            registry=registry,
        )
        for kind in GuardedActKind:
            for outcome in GuardOutcome:
                self.acts.labels(kind, outcome)
