"""Metrics about the certificates of Machines."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from kubenode.api.v1alpha1 import Machine
from kubenode.runtime.clock import Clock
from machine.certificates.case import DenialReason
from machine.certificates.kinds import LONGEST


class CertificateState(StrEnum):
    """State of an agent's certificate."""

    NONE = "none"
    LIVE = "live"
    ENDING = "ending"
    EXPIRED = "expired"


ENDING = LONGEST / 6
"""Time before its end at which a certificate counts as ending.

An agent renews when a third of the life is left, so something is wrong by then.
"""


class MachineMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._approved = Counter(
            "kubenode_machine_certificates_approved",
            "Number of approved certificate requests of hosts.",
            registry=registry,
        )
        self._denied = Counter(
            "kubenode_machine_certificates_denied",
            "Number of denied certificate requests of hosts, by reason.",
            ["reason"],
            registry=registry,
        )
        for reason in DenialReason:
            self._denied.labels(reason)

    def approved(self) -> None:
        self._approved.inc()

    def denied(self, reason: DenialReason) -> None:
        self._denied.labels(reason).inc()


class MachineCollector(Collector):
    """Collector of Machines by the state of their agents' certificates."""

    def __init__(self, machines: Callable[[], Iterable[Machine]], clock: Clock) -> None:
        self._machines, self._clock = machines, clock

    def collect(self) -> Iterator[GaugeMetricFamily]:
        counts = dict.fromkeys(CertificateState, 0)
        now = self._clock.now()
        for machine in self._machines():
            counts[state_of(machine, now)] += 1
        gauge = GaugeMetricFamily(
            "kubenode_machine_certificates",
            "Number of machines, by state of the certificate of the agent.",
            labels=["state"],
        )
        for state, count in counts.items():
            gauge.add_metric([state], count)
        yield gauge


def state_of(machine: Machine, now: datetime) -> CertificateState:
    """Return the state of the agent's certificate."""
    bootstrap = machine.status.bootstrap
    ends = None if bootstrap is None else bootstrap.certificate_expires_at
    if ends is None:
        return CertificateState.NONE
    if ends <= now:
        return CertificateState.EXPIRED
    return CertificateState.ENDING if ends <= now + ENDING else CertificateState.LIVE
