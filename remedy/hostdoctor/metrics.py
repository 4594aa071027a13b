"""The metrics of Host Doctor. Labels come from fixed lists, never from what was received."""

from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from kubenode.api.v1alpha1.hostevent import HostEventSource


class DeliveryRefusal(StrEnum):
    """Why a delivery was rejected."""

    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    TOO_LARGE = "too_large"
    TOO_SLOW = "too_slow"
    MALFORMED = "malformed"
    TOO_MANY = "too_many"
    BUSY = "busy"
    NOT_READY = "not_ready"
    NOT_STORED = "not_stored"
    BROKEN = "broken"


class DeliveryEndpoint(StrEnum):
    ALERTMANAGER = "alertmanager"
    GRAFANA = "grafana"
    CLOUDEVENTS = "cloudevents"
    ALIBABA = "alibaba"
    HOSTS = "hosts"
    MORE = "more"
    """Routes of others, such as the one for bundles."""


class EventOutcome(StrEnum):
    """Result of one event of a delivery."""

    CHANGED = "changed"
    KNOWN = "known"
    REFUSED = "refused"


class HostDoctorMetrics:
    """Metrics of Host Doctor. `deliveries`: stored ones by endpoint; `refusals`: by endpoint and
    reason.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.deliveries = Counter(
            "kubenode_hostdoctor_deliveries",
            "Number of stored deliveries, by endpoint.",
            ["endpoint"],
            registry=registry,
        )
        self.refusals = Counter(
            "kubenode_hostdoctor_refusals",
            "Number of rejected deliveries, by endpoint and reason.",
            ["endpoint", "why"],
            registry=registry,
        )
        self.events = Counter(
            "kubenode_hostdoctor_events",
            "Number of reported events, by source and by whether a HostEvent changed.",
            ["source", "outcome"],
            registry=registry,
        )
        self.ignored = Counter(
            "kubenode_hostdoctor_ignored",
            "Number of parts of deliveries that were irrelevant or invalid.",
            registry=registry,
        )
        self.unresolved = Gauge(
            "kubenode_hostdoctor_unresolved",
            "Number of open HostEvents without a Node, by reason.",
            ["why"],
            registry=registry,
        )
        self.open = Gauge(
            "kubenode_hostdoctor_open",
            "Number of open HostEvents, by source.",
            ["source"],
            registry=registry,
        )
        self.waiting = Gauge(
            "kubenode_hostdoctor_waiting",
            "Number of received events that are not stored yet.",
            registry=registry,
        )
        self.seconds = Histogram(
            "kubenode_hostdoctor_seconds",
            "Time in seconds from the last byte of a delivery until it is stored.",
            buckets=(0.005, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0, 30.0),
            registry=registry,
        )
        self.watchdog = Gauge(
            "kubenode_hostdoctor_watchdog_heard_timestamp_seconds",
            "Unix time at which the Watchdog, an alert that always fires, was last"
            " received. 0 means never.",
            registry=registry,
        )
        self._begin()

    def _begin(self) -> None:
        """Start every series at zero: a rate misses the first increase of a series that appears
        with it.
        """
        for endpoint in DeliveryEndpoint:
            self.deliveries.labels(endpoint)
            for why in DeliveryRefusal:
                self.refusals.labels(endpoint, why)
        for source in HostEventSource:
            for outcome in EventOutcome:
                self.events.labels(source, outcome)
