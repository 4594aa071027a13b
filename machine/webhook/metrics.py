"""Metrics of the Machine operator's admission webhook."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from kubenode.runtime.admission.review import AdmissionVerdict
from machine.webhook.judge import KINDS

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
ALLOWED, WARNED, REFUSED = "allowed", "warned", "refused"


class MachineWebhookMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._answers = Counter(
            "kubenode_machine_admissions",
            "Number of admission reviews of Machines, classes, sets and components.",
            ["resource", "outcome"],
            registry=registry,
        )
        self.seconds = Histogram(
            "kubenode_machine_admission_seconds",
            "Duration in seconds of an admission review.",
            buckets=SECONDS,
            registry=registry,
        )
        for resource in KINDS:
            for outcome in (ALLOWED, WARNED, REFUSED):
                self._answers.labels(resource.partition(".")[0], outcome)

    def answered(self, resource: str, verdict: AdmissionVerdict) -> None:
        permitted = WARNED if verdict.warnings else ALLOWED
        outcome = permitted if verdict.allowed else REFUSED
        self._answers.labels(resource.partition(".")[0], outcome).inc()
