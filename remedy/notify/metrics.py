"""Metrics of notifications. Receivers come from the settings, so their labels are bounded."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge

SENT, FAILED, SUPPRESSED = "sent", "failed", "suppressed"
OUTCOMES = (SENT, FAILED, SUPPRESSED)


class NotificationMetrics:
    """Outcomes: `sent` was accepted by the receiver; `failed` was given up; `suppressed` was above
    the rate or the queue was full, and is in a summary.
    """

    def __init__(self, registry: CollectorRegistry, receivers: Iterable[str]) -> None:
        self.notifications = Counter(
            "kubenode_notifications",
            "Number of notifications, by receiver and outcome.",
            ["receiver", "outcome"],
            registry=registry,
        )
        self.tries = Counter(
            "kubenode_notification_retries",
            "Number of failed deliveries that are retried.",
            ["receiver"],
            registry=registry,
        )
        self.waiting = Gauge(
            "kubenode_notifications_waiting",
            "Number of notifications that are not delivered yet.",
            ["receiver"],
            registry=registry,
        )
        for name in receivers:
            self.tries.labels(name)
            self.waiting.labels(name)
            for outcome in OUTCOMES:
                self.notifications.labels(name, outcome)
