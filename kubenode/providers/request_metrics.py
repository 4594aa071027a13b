"""Metrics of calls to providers of machines: count and duration, by a wrapper of each provider."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from kubenode.providers.call_meter import CallMeter
from kubenode.providers.errors import (
    Busy,
    Denied,
    NoSuchMachine,
    ProviderError,
    Refused,
    Throttled,
    Unreachable,
    Unsupported,
)
from kubenode.providers.port import Provider
from kubenode.runtime.clock import Clock

OPERATIONS = ("power", "off", "on", "reset", "replace", "approve")
RESULTS: dict[type[ProviderError], str] = {
    Busy: "busy",
    Denied: "denied",
    NoSuchMachine: "no_such_machine",
    Refused: "refused",
    Throttled: "throttled",
    Unreachable: "unreachable",
    Unsupported: "unsupported",
}
OK = "ok"
OTHER = "error"
"""Label for a call that we cancelled, or that an error of our own ended."""
BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 60.0)


class ProviderMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "kubenode_provider_requests",
            "Number of requests to providers, by result",
            ["provider", "operation", "result"],
            registry=registry,
        )
        self.seconds = Histogram(
            "kubenode_provider_request_seconds",
            "Duration in seconds of a request to a provider",
            ["provider", "operation"],
            buckets=BUCKETS,
            registry=registry,
        )

    def announce(self, provider: str) -> None:
        """Create every series of the provider with the value zero."""
        for operation in OPERATIONS:
            for result in (OK, OTHER, *RESULTS.values()):
                self.requests.labels(provider, operation, result)
            self.seconds.labels(provider, operation)


class Metered:
    """A Provider that counts and times calls of `inner`. Two of one provider share series."""

    def __init__(self, inner: Provider, metrics: ProviderMetrics, clock: Clock) -> None:
        self.name, self.can = inner.name, inner.can
        self.owns, self.close = inner.owns, inner.close
        metrics.announce(inner.name)
        meter = CallMeter(
            inner.name, clock, metrics.requests, metrics.seconds, ok=OK, result_of=result_of
        )
        self.power = meter.wrap("power", inner.power)
        self.off = meter.wrap("off", inner.off)
        self.on = meter.wrap("on", inner.on)
        self.reset = meter.wrap("reset", inner.reset)
        self.replace = meter.wrap("replace", inner.replace)
        self.approve = meter.wrap("approve", inner.approve)


def result_of(error: BaseException) -> str:
    """Return the label for a call that ended with this error."""
    return RESULTS.get(type(error), OTHER) if isinstance(error, ProviderError) else OTHER
