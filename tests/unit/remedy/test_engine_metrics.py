from prometheus_client import CollectorRegistry

from remedy.registry.metrics import EngineCollector
from rules.diagnose import Diagnoser


def test_engine_that_is_away_is_seen_and_every_reason_starts_at_zero() -> None:
    registry = CollectorRegistry()
    diagnoser = Diagnoser()
    registry.register(EngineCollector(diagnoser))
    assert registry.get_sample_value("kubenode_engine_up") == 0
    diagnoser.check.trouble = ""
    diagnoser.check.stats.disagreements = 2
    assert registry.get_sample_value("kubenode_engine_up") == 1
    assert registry.get_sample_value("kubenode_engine_disagreements_total") == 2
    restarts = registry.get_sample_value("kubenode_engine_restarts_total", {"reason": "timeout"})
    assert restarts == 0
