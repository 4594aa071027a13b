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
        up = "Whether the second rule engine answers; without it nothing destructive is done."
        yield GaugeMetricFamily("kubenode_engine_up", up, value=float(not check.trouble))
        yield CounterMetricFamily(
            "kubenode_engine_disagreements",
            "Evaluations on which the two engines differed.",
            value=check.stats.disagreements,
        )
        yield CounterMetricFamily(
            "kubenode_engine_corrupted",
            "Disagreements that a new child did not repeat: its memory was corrupt.",
            value=check.stats.corrupted,
        )
        yield CounterMetricFamily(
            "kubenode_engine_unchecked",
            "Evaluations that the second engine gave no answer to.",
            value=check.stats.unchecked,
        )
        quarantined = "Rules that the engines disagree about and that may not act."
        count = len(check.quarantined)
        yield GaugeMetricFamily("kubenode_engine_quarantined_rules", quarantined, value=count)
        yield self._restarts()

    def _restarts(self) -> Metric:
        durable = self._diagnoser.check.durable
        happened = durable.restarts if durable is not None else {}
        restarts = CounterMetricFamily(
            "kubenode_engine_restarts", "Children of the second engine replaced.", labels=["reason"]
        )
        for reason in RESTART_REASONS:
            restarts.add_metric([reason], happened.get(reason, 0))
        return restarts
