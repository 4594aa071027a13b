"""Counter of the calls of the autoscaler."""

from prometheus_client import CollectorRegistry, Counter

from machine.autoscaler.contract import METHODS
from machine.autoscaler.nodegroup import GroupStatus

OK = "OK"


class AutoscalerMetrics:
    """The counter."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.calls = Counter(
            "kubenode_autoscaler_calls",
            "Number of calls of the cluster autoscaler, by method and gRPC status.",
            ["method", "status"],
            registry=registry,
        )
        for method in METHODS:
            for status in (OK, *GroupStatus):
                self.calls.labels(method, status)
