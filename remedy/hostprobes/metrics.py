"""Metrics of probes."""

from prometheus_client import CollectorRegistry, Counter

from remedy.hostprobes.schedule import Wait

SENT, EXISTED, ANSWERED, FAILED, SILENT = "asked", "existed", "answered", "failed", "unanswered"
OUTCOMES = (SENT, EXISTED, ANSWERED, FAILED, SILENT)


class ProbeMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.probes = Counter(
            "kubenode_remedy_probes",
            "Questions to hosts: asked, and what became of them.",
            ["outcome"],
            registry=registry,
        )
        self.waits = Counter(
            "kubenode_remedy_probe_waits",
            "Times a question that a rule needs was kept back, by why.",
            ["why"],
            registry=registry,
        )
        for outcome in OUTCOMES:
            self.probes.labels(outcome)
        for why in Wait:
            self.waits.labels(why)
