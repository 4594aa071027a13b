"""Metrics of the rule engines, read from their counters when the page is requested."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from rules.diagnose import Diagnoser

RESTART_REASONS = ("canary", "died", "disagreement", "protocol", "refused", "timeout")


class EngineCollector(Collector):
    """Collects the engines' metrics. Any increase of disagreements deserves an alert: one engine is
    wrong.
    """

    def __init__(self, diagnoser: Diagnoser) -> None:
        self._diagnoser = diagnoser

    def collect(self) -> Iterator[Metric]:
        check = self._diagnoser.check
        up = (
            "1 if the second rule engine responds, otherwise 0, in which case no"
            " destructive act starts."
        )
        yield GaugeMetricFamily("kubenode_engine_up", up, value=float(not check.trouble))
        yield CounterMetricFamily(
            "kubenode_engine_disagreements",
            "Number of evaluations with different results of the two engines.",
            value=check.stats.disagreements,
        )
        yield CounterMetricFamily(
            "kubenode_engine_corrupted",
            "Number of disagreements that a new child process did not reproduce, so that"
            " memory corruption is the cause.",
            value=check.stats.corrupted,
        )
        yield CounterMetricFamily(
            "kubenode_engine_unchecked",
            "Number of evaluations without a result of the second engine.",
            value=check.stats.unchecked,
        )
        quarantined = "Number of rules that may not act because the engines disagree."
        count = len(check.quarantined)
        yield GaugeMetricFamily("kubenode_engine_quarantined_rules", quarantined, value=count)
        yield self._restarts()

    def _restarts(self) -> Metric:
        durable = self._diagnoser.check.durable
        happened = durable.restarts if durable is not None else {}
        restarts = CounterMetricFamily(
            "kubenode_engine_restarts",
            "Number of restarts of child processes of the second engine, by reason.",
            labels=["reason"],
        )
        for reason in RESTART_REASONS:
            restarts.add_metric([reason], happened.get(reason, 0))
        return restarts
