"""Counters of the Machines that sets have created and removed."""

from prometheus_client import CollectorRegistry, Counter

from machine.machineset.members import RemovalReason


class MachineSetMetrics:
    """The counters."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.made = Counter(
            "kubenode_machineset_machines_made",
            "Machines that MachineSets have made.",
            registry=registry,
        )
        self.removed = Counter(
            "kubenode_machineset_machines_removed",
            "Machines that MachineSets have given up, by why.",
            ["reason"],
            registry=registry,
        )
        for reason in RemovalReason:
            self.removed.labels(reason)
