"""Metrics of Machines, rollouts and meltdowns, counted when they are scraped.

Labels are bounded: phases, reasons and states come from the API, and at most MOST_SETS sets are
shown, paused ones first.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from kubenode.api.rollouts import STICKY, RolloutReason
from kubenode.api.v1alpha1 import Machine, MachineComponentSet
from kubenode.api.v1alpha1.machinecomponentset import ComponentSetConditionType, RolloutPhase
from kubenode.api.v1alpha1.machinestatus import MachinePhase

MOST_SETS = 256
PAUSES = (*sorted(STICKY), RolloutReason.USER, RolloutReason.FROZEN, RolloutReason.MELTDOWN)


class RolloutCollector(Collector):
    """Collector of these metrics.

    frozen: returns why a meltdown stops all changes, "" if there is none.
    """

    def __init__(
        self,
        machines: Callable[[], Iterable[Machine]],
        sets: Callable[[], Iterable[MachineComponentSet]],
        frozen: Callable[[], str],
    ) -> None:
        self._machines, self._sets, self._frozen = machines, sets, frozen

    def collect(self) -> Iterator[GaugeMetricFamily]:
        frozen = GaugeMetricFamily(
            "kubenode_machine_frozen",
            "1 during a meltdown, in which no machine is deleted, replaced or changed,"
            " otherwise 0.",
        )
        frozen.add_metric([], bool(self._frozen()))
        machines = GaugeMetricFamily(
            "kubenode_machines", "Number of machines, by phase.", labels=["phase"]
        )
        phases = Counter(m.status.phase or MachinePhase.PENDING for m in list(self._machines()))
        for phase in MachinePhase:
            machines.add_metric([phase.value], phases[phase])
        yield from (frozen, machines, *self._of_sets())

    def _of_sets(self) -> Iterator[GaugeMetricFamily]:
        phases = GaugeMetricFamily(
            "kubenode_component_set_phase",
            "1 for the current phase of a component set.",
            labels=["set", "phase"],
        )
        counts = GaugeMetricFamily(
            "kubenode_component_set_machines",
            "Number of machines of a component set, by state. member: all; failed:"
            " failed in the last batch.",
            labels=["set", "state"],
        )
        paused = GaugeMetricFamily(
            "kubenode_component_set_paused",
            "1 for the reason for which a component set starts no batch.",
            labels=["set", "reason"],
        )
        shown = sorted(self._sets(), key=lambda s: (not paused_by(s), s.metadata.name))
        for set_ in shown[:MOST_SETS]:
            name, status = set_.metadata.name, set_.status
            phases.add_metric([name, status.phase or RolloutPhase.IDLE], 1)
            for state, count in states(set_).items():
                counts.add_metric([name, state], count)
            reason = paused_by(set_)
            for each in PAUSES:
                paused.add_metric([name, each], reason == each)
        yield from (phases, counts, paused)


def states(set_: MachineComponentSet) -> dict[str, int]:
    """Return the numbers of machines by state. A machine may be in several states."""
    counts, batch = set_.status.counts, set_.status.batch
    return {
        "member": counts.machines,
        "updated": counts.updated,
        "healthy": counts.healthy,
        "unavailable": counts.unavailable,
        "held": counts.held,
        "excluded": counts.excluded,
        "failed": len(batch.failed) if batch is not None else 0,
    }


def paused_by(set_: MachineComponentSet) -> str:
    """Return the reason for which the set is paused, "" if it is not."""
    for condition in set_.status.conditions:
        if condition.type == ComponentSetConditionType.PAUSED and condition.status == "True":
            return condition.reason
    return ""
