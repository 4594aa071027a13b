"""Metrics of calls to providers of instances: count and duration, by a wrapper of each provider."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from kubenode.providers.call_meter import CallMeter
from kubenode.providers.instances import ErrorCode, InstanceError, Instances
from kubenode.providers.request_metrics import BUCKETS
from kubenode.runtime.clock import Clock

OPERATIONS = ("create", "get", "find", "delete", "list", "operate")
OTHER = "CANCELLED"
"""Label for a call that we cancelled, or that an error of our own ended."""


class InstanceMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "kubenode_instance_requests",
            "Number of requests to providers that create machines, by result code",
            ["provider", "operation", "code"],
            registry=registry,
        )
        self.seconds = Histogram(
            "kubenode_instance_request_seconds",
            "Duration in seconds of a request to a provider that creates machines",
            ["provider", "operation"],
            buckets=BUCKETS,
            registry=registry,
        )

    def announce(self, provider: str) -> None:
        """Create every series of the provider with the value zero."""
        for operation in OPERATIONS:
            for code in (OTHER, *ErrorCode):
                self.requests.labels(provider, operation, code)
            self.seconds.labels(provider, operation)


class MeteredInstances:
    """An Instances that counts and times calls of `inner`. Two of one provider share series."""

    def __init__(self, inner: Instances, metrics: InstanceMetrics, clock: Clock) -> None:
        self.name, self.provider, self.operations = inner.name, inner.provider, inner.operations
        self.validate, self.owns, self.close = inner.validate, inner.owns, inner.close
        metrics.announce(inner.provider)
        meter = CallMeter(
            inner.provider,
            clock,
            metrics.requests,
            metrics.seconds,
            ok=ErrorCode.OK,
            result_of=code_of,
        )
        self.create = meter.wrap("create", inner.create)
        self.get = meter.wrap("get", inner.get)
        self.find = meter.wrap("find", inner.find)
        self.delete = meter.wrap("delete", inner.delete)
        self.list = meter.wrap("list", inner.list)
        self.operate = meter.wrap("operate", inner.operate)


def code_of(error: BaseException) -> str:
    """Return the label for a call that ended with this error."""
    return error.code if isinstance(error, InstanceError) else OTHER
