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
            "Number of requested jobs. existed: an earlier run has created the same job.",
            ["outcome"],
            registry=registry,
        )
        self.relapses = Counter(
            "kubenode_remedy_relapses",
            "Number of jobs for a fault that recurred during the probation of an earlier job.",
            registry=registry,
        )
        self.dry_runs = Counter(
            "kubenode_remedy_dry_runs",
            "Number of repairs that rules in DryRun would have started.",
            registry=registry,
        )
        self.waits = Counter(
            "kubenode_remedy_waits",
            "Number of times that a matching rule created no job or one with an initial"
            " wait, by reason.",
            ["why"],
            registry=registry,
        )
        self.signal_seconds = Histogram(
            "kubenode_remedy_signal_seconds",
            "Time in seconds from the transition time of a node condition until the cache"
            " contains it.",
            buckets=SECONDS,
            registry=registry,
        )
        self.decide_seconds = Histogram(
            "kubenode_remedy_decide_seconds",
            "Time in seconds from the change of a fact in the cache, or from the end of"
            " the last wait of the rule, until the API server has stored the job.",
            buckets=SECONDS,
            registry=registry,
        )
        self.fault_seconds = Histogram(
            "kubenode_remedy_fault_to_job_seconds",
            "Time in seconds from the start of a fault to its job, including waits of the rule.",
            buckets=SECONDS,
            registry=registry,
        )
        self.evaluations = Counter(
            "kubenode_remedy_evaluations",
            "Number of evaluations of nodes by the rule engine.",
            registry=registry,
        )
        self.batch = Histogram(
            "kubenode_remedy_batch_nodes",
            "Number of nodes evaluated in one call of the rule engine.",
            buckets=BATCHES,
            registry=registry,
        )
        self.unattended = Gauge(
            "kubenode_remedy_unattended_nodes",
            "Number of nodes with a fault that has lasted for an hour and that no rule acts on.",
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
            "Number of groups for which a fact inferred from several nodes holds.",
            value=self._facts.wide.holding,
        )
        yield GaugeMetricFamily(
            "kubenode_remedy_unknown_groups",
            "Number of rules with unknown counts and inferred facts because not every"
            " node has been evaluated.",
            value=self._facts.unjudged,
        )
        unreadable = self._facts.unreadable
        yield GaugeMetricFamily(
            "kubenode_remedy_unreadable_nodes",
            "Number of nodes with an object, fact or rule evaluation that fails. All"
            " their facts are unknown.",
            value=len(unreadable),
        )
        yield CounterMetricFamily(
            "kubenode_remedy_unreadable",
            "Number of failures to evaluate an object, fact or rule of a node.",
            value=unreadable.failures,
        )
