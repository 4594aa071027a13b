"""The settings of `kubenode run all`: those of its parts."""

from dataclasses import dataclass

from kubenode.cli.defender_settings import ApiFlags
from kubenode.cli.machine_settings import MachineMakingFlags, PrometheusFlags
from kubenode.cli.remedy_settings import WebhookFlags


@dataclass(frozen=True)
class EverythingFlags(MachineMakingFlags, PrometheusFlags, ApiFlags, WebhookFlags):
    """Settings of `kubenode run all`."""
