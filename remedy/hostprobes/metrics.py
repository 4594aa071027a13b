"""Metrics of probes."""

from prometheus_client import CollectorRegistry, Counter

from remedy.hostprobes.schedule import Wait

SENT, EXISTED, ANSWERED, FAILED, SILENT = "asked", "existed", "answered", "failed", "unanswered"
OUTCOMES = (SENT, EXISTED, ANSWERED, FAILED, SILENT)


class ProbeMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.probes = Counter(
            "kubenode_remedy_probes",
            "Number of probes of hosts, by outcome. asked: sent.",
            ["outcome"],
            registry=registry,
        )
        self.waits = Counter(
            "kubenode_remedy_probe_waits",
            "Number of probes that a rule needs and that were delayed, by reason.",
            ["why"],
            registry=registry,
        )
        for outcome in OUTCOMES:
            self.probes.labels(outcome)
        for why in Wait:
            self.waits.labels(why)
