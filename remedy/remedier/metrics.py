"""The metrics of the remedier. Labels come from closed sets and start at zero."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from remedy.remedier.decide import WaitReason
from remedy.remedier.facts import FactStore

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CREATED, EXISTED = "created", "existed"


class RemedierMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.jobs = Counter(
            "kubenode_remedy_jobs",
            "Jobs asked for; existed: an earlier run had made the same one.",
            ["outcome"],
            registry=registry,
        )
        self.relapses = Counter(
            "kubenode_remedy_relapses",
            "Jobs for a fault that came back while the job that had healed it was on probation.",
            registry=registry,
        )
        self.dry_runs = Counter(
            "kubenode_remedy_dry_runs",
            "Repairs that rules in DryRun would have begun.",
            registry=registry,
        )
        self.waits = Counter(
            "kubenode_remedy_waits",
            "Times a matching rule made no job, or one that waits before it begins, by why.",
            ["why"],
            registry=registry,
        )
        self.signal_seconds = Histogram(
            "kubenode_remedy_signal_seconds",
            "From the turn of a node's condition, as its reporter dates it, to our cache.",
            buckets=SECONDS,
            registry=registry,
        )
        self.decide_seconds = Histogram(
            "kubenode_remedy_decide_seconds",
            "From the change of a fact in our cache, or from the end of the last wait that a rule"
            " asks for, to the job at the API server.",
            buckets=SECONDS,
            registry=registry,
        )
        self.fault_seconds = Histogram(
            "kubenode_remedy_fault_to_job_seconds",
            "From the start of the fault to its job, waits of the rule included.",
            buckets=SECONDS,
            registry=registry,
        )
        self.evaluations = Counter(
            "kubenode_remedy_evaluations", "Nodes judged by the rule engine.", registry=registry
        )
        self.batch = Histogram(
            "kubenode_remedy_batch_nodes",
            "Nodes judged in one call of the rule engine.",
            buckets=BATCHES,
            registry=registry,
        )
        self.unattended = Gauge(
            "kubenode_remedy_unattended_nodes",
            "Nodes with a fault that has lasted for an hour, and that no rule acts on.",
            registry=registry,
        )
        for outcome in (CREATED, EXISTED):
            self.jobs.labels(outcome)
        for why in WaitReason:
            self.waits.labels(why)


class FactCollector(Collector):
    """Collects facts of groups from the store of facts, read when the page is requested."""

    def __init__(self, facts: FactStore) -> None:
        self._facts = facts

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "kubenode_remedy_inferred_facts",
            "Groups for which a fact inferred of more than one node holds.",
            value=self._facts.wide.holding,
        )
        yield GaugeMetricFamily(
            "kubenode_remedy_unknown_groups",
            "Rules whose counts and inferred facts are unknown: not every node was judged yet.",
            value=self._facts.unjudged,
        )
        unreadable = self._facts.unreadable
        yield GaugeMetricFamily(
            "kubenode_remedy_unreadable_nodes",
            "Nodes of which an object, a fact or a rule evaluation fails: all of them is unknown.",
            value=len(unreadable),
        )
        yield CounterMetricFamily(
            "kubenode_remedy_unreadable",
            "Times that an object, a fact or a rule evaluation of a node failed.",
            value=unreadable.failures,
        )
