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
            "Number of acts of other clients on nodes. audited: allowed by mode Audit,"
            " would be denied by Enforce; passed: not evaluated; error: decided by"
            " failurePolicy of the webhook.",
            ["act", "outcome"],
            registry=registry,
        )
        self.seconds = Histogram(
            "kubenode_defender_guard_seconds",
            "Duration in seconds of an admission review.",
            buckets=SECONDS,
            registry=registry,
        )
        for kind in GuardedActKind:
            for outcome in GuardOutcome:
                self.acts.labels(kind, outcome)
