"""Counters of the Machines that sets have created and removed."""

from prometheus_client import CollectorRegistry, Counter

from machine.machineset.members import RemovalReason


class MachineSetMetrics:
    """The counters."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.made = Counter(
            "kubenode_machineset_machines_made",
            "Number of machines that MachineSets created.",
            registry=registry,
        )
        self.removed = Counter(
            "kubenode_machineset_machines_removed",
            "Number of machines that MachineSets removed, by reason.",
            ["reason"],
            registry=registry,
        )
        for reason in RemovalReason:
            self.removed.labels(reason)
