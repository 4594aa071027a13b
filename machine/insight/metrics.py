"""Metrics of the fleet's components, counted when they are scraped.

Labels are bounded: the components of most machines are shown, states come from the API, and the
most frequent versions are shown, the others together.
"""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from kubenode.api.v1alpha1 import Machine
from machine.insight.fleet import families

MOST_FAMILIES = 256
"""Greatest number of components. One machine has at most 64, but machines may have different ones.
"""
MOST_VERSIONS = 10
OTHER = "other"


class InsightCollector(Collector):
    """Collector of these metrics."""

    def __init__(self, machines: Callable[[], Iterable[Machine]]) -> None:
        self._machines = machines

    def collect(self) -> Iterator[GaugeMetricFamily]:
        states = GaugeMetricFamily(
            "kubenode_component_machines",
            "Number of machines, by component and its state.",
            labels=["component", "state"],
        )
        versions = GaugeMetricFamily(
            "kubenode_component_versions",
            "Number of machines, by component and installed version.",
            labels=["component", "version"],
        )
        lacking = GaugeMetricFamily(
            "kubenode_component_lacking_machines",
            "Number of machines without a component that sets assign to other machines.",
            labels=["component"],
        )
        drifting = GaugeMetricFamily(
            "kubenode_component_drifting_machines",
            "Number of machines with drift of a component.",
            labels=["component"],
        )
        all_families = families(list(self._machines()))
        for family in sorted(all_families, key=lambda entry: (-entry.assigned, entry.name))[
            :MOST_FAMILIES
        ]:
            for state, count in family.states.items():
                states.add_metric([family.name, state.value], count)
            shown = family.versions.most_common(MOST_VERSIONS)
            for version, count in shown:
                versions.add_metric([family.name, version], count)
            if (rest := family.versions.total() - sum(count for _, count in shown)) > 0:
                versions.add_metric([family.name, OTHER], rest)
            lacking.add_metric([family.name], len(family.lacking))
            drifting.add_metric([family.name], len(family.drifting))
        yield from (states, versions, lacking, drifting)
