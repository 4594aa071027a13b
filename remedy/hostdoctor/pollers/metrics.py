"""Metrics of polled sources. Labels come from fixed lists."""

from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge

from kubenode.providers.request_metrics import RESULTS

OK, UNREADABLE, NOT_STORED = "ok", "unreadable", "not_stored"
POLL_RESULTS = (OK, UNREADABLE, NOT_STORED, *RESULTS.values())


class MessageFate(StrEnum):
    """Result of one message of a queue."""

    STORED = "stored"
    IGNORED = "ignored"
    UNREADABLE = "unreadable"
    """It stays in the queue, which moves it to its dead-letter queue."""
    NOT_STORED = "not_stored"
    """It stays in the queue and is read again."""


class PollerMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.polls = Counter(
            "kubenode_hostdoctor_looks",
            "Number of polls of sources of events, by result.",
            ["source", "result"],
            registry=registry,
        )
        self.looked = Gauge(
            "kubenode_hostdoctor_last_look_timestamp_seconds",
            "Unix time at which a source of events was last read completely and stored. 0"
            " means never.",
            ["source"],
            registry=registry,
        )
        self.messages = Counter(
            "kubenode_hostdoctor_messages",
            "Number of messages of queues, by fate.",
            ["source", "fate"],
            registry=registry,
        )
        self.foreign = Counter(
            "kubenode_hostdoctor_foreign",
            "Number of events about machines that are not nodes of this cluster.",
            ["source"],
            registry=registry,
        )

    def announce(self, source: str, *, queue: bool) -> None:
        """Start every series of the source at zero."""
        for result in POLL_RESULTS:
            self.polls.labels(source, result)
        self.looked.labels(source)
        self.foreign.labels(source)
        if queue:
            for fate in MessageFate:
                self.messages.labels(source, fate)
