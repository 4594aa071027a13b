"""The runtime's metrics, in a registry that is passed in.

States (ages, depths, sizes) are read when the page is requested; only durations and counts of
requests and reconciles are pushed. Label values come from closed sets and start at zero.
CONTRIBUTING.md has the rules of their names.
"""

from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from kubenode.runtime.controller.controller import OUTCOMES
from kubenode.runtime.controller.queue import WorkQueue
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.lease import LeaderElection
from kubenode.runtime.recorder import EventRecorder

# Without the series that tells when each counter began: it is not used, and doubles their number.
disable_created_metrics()  # type: ignore[no-untyped-call]

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
CODES = ("2xx", "400", "401", "403", "404", "409", "410", "422", "429", "4xx", "5xx", "none")
"""Label values: codes with a meaning of their own, classes of the others, none for no answer."""

REQUEST_BUCKETS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0)
RECONCILE_BUCKETS = (0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0)


def code_label(code: str) -> str:
    """Return the value of the label `code` for an HTTP status or "none"."""
    if code in CODES:
        return code
    by_class = f"{code[:1]}xx"
    return by_class if by_class in CODES else "2xx"


class RuntimeMetrics:
    """Metrics of one process. The program that creates a part registers it here.

    Raises ValueError if two parts of one kind share a name, because their series would be equal.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self._requests = Counter(
            "kubenode_client_requests",
            "Number of requests to the API server",
            ["client", "method", "code"],
            registry=registry,
        )
        self._request_seconds = Histogram(
            "kubenode_client_request_seconds",
            "Time in seconds until the response headers of the API server",
            ["client", "method"],
            buckets=REQUEST_BUCKETS,
            registry=registry,
        )
        self._reconciles = Counter(
            "kubenode_controller_reconciles",
            "Number of reconciles, by outcome",
            ["controller", "outcome"],
            registry=registry,
        )
        self._reconcile_seconds = Histogram(
            "kubenode_controller_reconcile_seconds",
            "Duration in seconds of a reconcile",
            ["controller"],
            buckets=RECONCILE_BUCKETS,
            registry=registry,
        )
        self._states = States()
        registry.register(self._states)

    def client(self, name: str) -> "ClientMeter":
        """Return the `meter` of a Kube. `name`: main, lease."""
        return ClientMeter(self._requests, self._request_seconds, name)

    def controller(self, name: str, queue: WorkQueue[Any]) -> "ControllerMeter":
        """Return the `meter` of a Controller, and register its queue."""
        self._states.add("queue", name, queue)
        return ControllerMeter(self._reconciles, self._reconcile_seconds, name)

    def informer(self, informer: Informer[Any]) -> None:
        self._states.add("informer", informer.name, informer)

    def lease(self, name: str, election: LeaderElection) -> None:
        self._states.add("lease", name, election)

    def recorder(self, recorder: EventRecorder) -> None:
        self._states.add("recorder", recorder.component, recorder)


class ClientMeter:
    def __init__(self, requests: Counter, seconds: Histogram, client: str) -> None:
        self._requests = {
            (method, code): requests.labels(client, method, code)
            for method in METHODS
            for code in CODES
        }
        self._seconds = {method: seconds.labels(client, method) for method in METHODS}

    def request(self, method: str, code: str, seconds: float) -> None:
        self._requests[method, code_label(code)].inc()
        self._seconds[method].observe(seconds)


class ControllerMeter:
    def __init__(self, reconciles: Counter, seconds: Histogram, controller: str) -> None:
        self._outcomes = {outcome: reconciles.labels(controller, outcome) for outcome in OUTCOMES}
        self._seconds = seconds.labels(controller)

    def reconciled(self, outcome: str, seconds: float) -> None:
        self._outcomes[outcome].inc()
        self._seconds.observe(seconds)


class States(Collector):
    """Reads the state of the parts when the page is requested."""

    def __init__(self) -> None:
        self._parts: dict[str, dict[str, Any]] = {}

    def add(self, kind: str, name: str, part: Any) -> None:
        parts = self._parts.setdefault(kind, {})
        if name in parts:
            raise ValueError(f"two parts of kind {kind} are called {name!r}: name one differently")
        parts[name] = part

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        parts = self._parts
        yield from _families("informer", "resource", INFORMER, parts.get("informer", {}))
        yield from _families("queue", "controller", QUEUE, parts.get("queue", {}))
        yield from _families("lease", "lease", LEASE, parts.get("lease", {}))
        yield from _families("recorder", "component", RECORDER, parts.get("recorder", {}))


def _families(
    part: str, label: str, table: "Table", parts: dict[str, Any]
) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
    for what, (family, text, read) in table.items():
        metric = family(f"kubenode_{part}_{what}", text, labels=[label])
        for name, owner in parts.items():
            metric.add_metric([name], float(read(owner)))
        yield metric


Table = dict[str, tuple[Any, str, Any]]

_G, _C = GaugeMetricFamily, CounterMetricFamily

INFORMER: Table = {
    "age_seconds": (
        _G,
        "Time in seconds since the API server last confirmed that the cache is current",
        lambda i: i.age(),
    ),
    "objects": (_G, "Number of objects in the cache", lambda i: len(i.cache)),
    "resource_version": (
        _G,
        "Resource version of the newest change in the cache",
        lambda i: _version(i),
    ),
    "undecodable_objects": (
        _G,
        "Number of objects that do not decode, of which the cache keeps the last valid version",
        lambda i: len(i.broken),
    ),
    "lists": (_C, "Number of full lists", lambda i: i.stats.lists),
    "relists": (_C, "Number of full lists after the first one", lambda i: i.stats.relists),
    "watches": (_C, "Number of opened watches", lambda i: i.stats.watches),
    "events": (_C, "Number of events read from watches", lambda i: i.stats.events),
    "confirmations": (
        _C,
        "Number of idle watches confirmed by a list",
        lambda i: i.stats.confirmed,
    ),
    "errors": (_C, "Number of failed lists and watches", lambda i: i.stats.errors),
    "undecodable": (
        _C,
        "Number of object versions that did not decode",
        lambda i: i.stats.undecodable,
    ),
    "handler_errors": (
        _C,
        "Number of changes with an error in the handler",
        lambda i: i.handler_errors,
    ),
}


def _version(informer: Any) -> float:
    """Return 0 before the first list. Exact up to 2**53."""
    return float(informer.resource_version or 0)


QUEUE: Table = {
    "depth": (_G, "Number of keys that wait for a worker", len),
    "oldest_seconds": (_G, "Longest current wait of a key in seconds", lambda q: q.oldest()),
    "busy": (_G, "Number of keys that workers process", lambda q: q.busy),
    "later": (_G, "Number of keys scheduled for later", lambda q: q.later),
    "retries": (_C, "Number of keys queued again after a failure", lambda q: q.retries),
}

LEASE: Table = {
    "leading": (_G, "1 if this process is the leader, otherwise 0", lambda e: e.leading)
}

RECORDER: Table = {
    "written": (_C, "Number of Events created or updated", lambda r: r.written),
    "dropped": (
        _C,
        "Number of Events that were not written because of the rate limit or an error",
        lambda r: r.dropped,
    ),
}
