"""Lists every metric of our processes from their collectors, created as the programs create them.

Nothing is started and no request is sent. Values that only a configuration names (a provider, a
receiver, a lease) are represented by an example.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

from captain.operator import Captain, CaptainSettings
from defender.service import Defender
from defender.webhook.metrics import GuardMetrics as GuardMetrics
from insight.server.metrics import InsightMetrics
from kubenode.providers.metered_instances import InstanceMetrics
from kubenode.providers.request_metrics import ProviderMetrics
from kubenode.runtime.audit import AuditLog, StandardOutput
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.controller.queue import WorkQueue
from kubenode.runtime.fence import AlwaysLeader
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.plain import PlainTransport
from kubenode.runtime.restore import RestoreWatch
from kubenode.runtime.stream.metrics import StreamMetrics
from kubenode.runtime.telemetry.metrics import RuntimeMetrics as RuntimeMetrics
from machine.operator import MachineOperator
from machine.webhook.metrics import MachineWebhookMetrics as MachineWebhookMetrics
from remedy.hostdoctor.pollers.metrics import PollerMetrics as PollerMetrics
from remedy.notify.metrics import NotificationMetrics as NotifyMetrics
from remedy.operator import RemedyOperator
from remedy.registry.revisions import CONTROLLER
from remedy.webhook.metrics import RuleWebhookMetrics as RuleWebhookMetrics
from remedy.webhook.metrics import SigningMetrics
from rules.diagnose import Diagnoser

EXAMPLE = "example"
PREFIX = "kubenode_"
BOUND = "le"
"""The label of a histogram's buckets."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A registered metric.

    name: as in a query.
    values: label to the values that exist before anything happens.
    buckets: the buckets of a histogram, infinity included; 0 for other types.
    """

    name: str
    type: str
    text: str
    labels: tuple[str, ...]
    values: Mapping[str, frozenset[str]] = field(default_factory=dict)
    buckets: int = 0


def registered() -> list[Metric]:
    """Return the metrics in the order of their names."""
    return asyncio.run(_registered())


async def _registered() -> list[Metric]:
    registry, clock, fence = CollectorRegistry(), SystemClock(), AlwaysLeader()
    runtime = RuntimeMetrics(registry)
    kube = Kube(PlainTransport("http://127.0.0.1:1"), clock=clock, meter=runtime.client("main"))
    runtime.client("lease")
    defender = Defender(kube, fence, clock, registry, runtime=runtime)
    diagnoser = Diagnoser(None)
    remedy = RemedyOperator(kube, defender, diagnoser, fence, clock, registry, runtime=runtime)
    MachineOperator(kube, fence, clock, registry, runtime=runtime, permits=defender)
    Captain(kube, fence, clock, registry, CaptainSettings("kubenode-members"), runtime=runtime)
    RestoreWatch(kube, clock, registry, "all")
    runtime.controller(CONTROLLER, WorkQueue(clock))
    GuardMetrics(registry)
    RuleWebhookMetrics(registry)
    SigningMetrics(registry)
    MachineWebhookMetrics(registry)
    StreamMetrics(registry, lambda: 0)
    InsightMetrics(registry)
    ProviderMetrics(registry).announce(EXAMPLE)
    InstanceMetrics(registry).announce(EXAMPLE)
    PollerMetrics(registry).announce(EXAMPLE, queue=True)
    audit = AuditLog(StandardOutput(), registry, clock.now)
    examples = CollectorRegistry()
    NotifyMetrics(examples, [EXAMPLE])  # the operator registers its own, without receivers
    try:
        names = labels_of((registry, examples))
        by_name = {m.name: m for source in (registry, examples) for m in metrics(source, names)}
        return [by_name[name] for name in sorted(by_name)]
    finally:
        audit.close()
        remedy.close()
        await kube.close()


def labels_of(registries: Iterable[CollectorRegistry]) -> dict[str, tuple[str, ...]]:
    """Return the labels of each metric by name.

    A metric without series shows its labels only in private fields of the client library.
    """
    known: dict[str, tuple[str, ...]] = {}
    for registry in registries:
        collectors: Iterable[Collector] = registry._collector_to_names
        for collector in collectors:
            if (name := getattr(collector, "_name", "")) != "":
                known[name] = tuple(getattr(collector, "_labelnames", ()))
    return known


def metrics(registry: CollectorRegistry, names: Mapping[str, tuple[str, ...]]) -> Iterable[Metric]:
    for family in registry.collect():
        samples = family.samples
        labels = names.get(family.name) or tuple(getattr(family, "_labelnames", ()) or ())
        values = {
            label: frozenset(s.labels[label] for s in samples if label in s.labels)
            for label in labels
        }
        buckets = {s.labels[BOUND] for s in samples if BOUND in s.labels}
        ending = "_total" if family.type == "counter" else ""
        yield Metric(
            family.name + ending,
            family.type,
            family.documentation.rstrip("."),
            labels,
            values,
            len(buckets),
        )
