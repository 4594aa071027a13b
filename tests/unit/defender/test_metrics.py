"""Every figure is there, at zero, before anything happened: a rate over a birth is no rate."""

from prometheus_client import CollectorRegistry, generate_latest

from defender.census import Census
from defender.ledger import Ledger
from defender.metrics import Metrics
from kubenode.api.v1alpha1 import Reason
from kubenode.api.v1alpha1.permit import PermitState


def test_all_series_start_at_zero() -> None:
    registry = CollectorRegistry()
    Metrics(registry, Census(), Ledger(), lambda: False)
    page = generate_latest(registry).decode()
    for reason in Reason:
        assert f'kubenode_defender_verdicts_total{{call="ask",reason="{reason}"}} 0.0' in page
    for state in PermitState:
        assert f'kubenode_defender_permits{{state="{state}"}} 0.0' in page
    assert 'kubenode_defender_nodes{health="Healthy"} 0.0' in page
    assert "kubenode_defender_ready 0.0" in page
