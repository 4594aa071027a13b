"""Metrics of Insight."""

from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Histogram

from insight.store.event_store import LoadResult

OUTCOMES = ("stored", "known", "expired", "ignored")


class InsightRefusal(StrEnum):
    """Reason for which a request is not answered."""

    UNAUTHORIZED = "Unauthorized"
    MALFORMED = "Malformed"
    TOO_LARGE = "TooLarge"
    TOO_SLOW = "TooSlow"
    UNAVAILABLE = "Unavailable"


class InsightMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._events = Counter(
            "kubenode_insight_events",
            "Number of received events. known: stored before; expired: older than the retention;"
            " ignored: of a type of a later version.",
            ["outcome"],
            registry=registry,
        )
        for outcome in OUTCOMES:
            self._events.labels(outcome)
        self.refusals = Counter(
            "kubenode_insight_refusals",
            "Number of requests that were refused.",
            ["reason"],
            registry=registry,
        )
        for reason in InsightRefusal:
            self.refusals.labels(reason)
        self.seconds = Histogram(
            "kubenode_insight_load_seconds",
            "Time in which a batch of events is stored.",
            registry=registry,
        )
        self.deleted = Counter(
            "kubenode_insight_deleted_events",
            "Number of events that were deleted because of their age.",
            registry=registry,
        )

        self.shortened = Counter(
            "kubenode_insight_shortened_events",
            "Number of received events with a text, such as a label, that was cut.",
            registry=registry,
        )

    def loaded(self, result: LoadResult) -> None:
        self.shortened.inc(result.shortened)
        for outcome in OUTCOMES:
            self._events.labels(outcome).inc(getattr(result, outcome))
