"""Metrics of the stream."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge

DELIVERED, DROPPED, REJECTED = "delivered", "dropped", "rejected"


class StreamMetrics:
    def __init__(self, registry: CollectorRegistry, waiting: Callable[[], int]) -> None:
        self.events = Counter(
            "kubenode_stream_events",
            "Number of events of the stream. dropped: left the full outbox, and is derived again"
            " if its object still exists; rejected: the receiver refused its batch for good.",
            ["outcome"],
            registry=registry,
        )
        for outcome in (DELIVERED, DROPPED, REJECTED):
            self.events.labels(outcome)
        self.failures = Counter(
            "kubenode_stream_failures",
            "Number of requests that the receiver of the stream did not accept.",
            registry=registry,
        )
        outbox = Gauge(
            "kubenode_stream_outbox_events",
            "Number of events that wait for the receiver of the stream.",
            registry=registry,
        )
        outbox.set_function(lambda: float(waiting()))
