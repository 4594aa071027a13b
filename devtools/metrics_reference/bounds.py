"""The largest number of values of each label, and what bounds it.

A label is closed if all of its values exist before anything happens, because they come from an enum
or from the program. Every other label must be in OPEN with its bound and the source of the bound.
A label that is neither would grow with the fleet, and `bound_of` rejects it.
"""

from dataclasses import dataclass
from math import prod

from captain.releases.metrics import MOST_RELEASES
from defender.decision.limits.table import DISPLAYED
from defender.gauges import MANY, MOST_CLUSTERS, MOST_GROUPS, MOST_POLICIES
from devtools.metrics_reference.registry import EXAMPLE, Metric
from kubenode.api.v1alpha1.machinecomponentset import RolloutPhase
from kubenode.api.v1alpha1.machinestatus import ComponentState
from kubenode.api.v1alpha1.release import ClusterPhase, ReleaseReason
from machine.insight.metrics import MOST_FAMILIES, MOST_VERSIONS
from machine.insight.rollouts import MOST_SETS, PAUSES

LIMITS = 32
"""Limits of one DefenderPolicy, bounded by its schema."""
RECEIVERS = 64
"""Receivers of the receivers file, bounded by its schema."""
PROVIDERS = 16
"""Kinds of providers: five that act on machines, some that make them, and those of tests."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The bound of a label.

    most: the largest number of values.
    values: all values of a closed label, sorted; empty for an open one.
    by: what bounds an open label; "" for a closed one.
    """

    most: int
    values: tuple[str, ...] = ()
    by: str = ""


DEFENDER, COMPONENT = "kubenode_defender_", "kubenode_component_"
RELEASE = "kubenode_captain_release_"
OPEN: dict[tuple[str, str], Bound] = {
    (DEFENDER, "policy"): Bound(MOST_POLICIES, by="policies that are shown, the first by name"),
    (DEFENDER, "limit"): Bound(LIMITS, by="limits that a policy may have, by their index"),
    (f"{DEFENDER}budget", "scope"): Bound(
        MANY, by="values of a limit's label that are shown one by one; of more the tightest alone"
    ),
    (f"{DEFENDER}budget", "kind"): Bound(
        len(DISPLAYED), by="kinds of limits: " + ", ".join(each.name for each in DISPLAYED)
    ),
    (f"{DEFENDER}breaker", "scope"): Bound(
        3 * MANY * 8, by="scopes of each of a policy's breakers; of many those that are not closed"
    ),
    (f"{DEFENDER}breaker", "state"): Bound(3, by="Closed, Open and HalfOpen"),
    (f"{DEFENDER}fleet", "group"): Bound(MOST_GROUPS, by="groups of clusters that share limits"),
    (f"{DEFENDER}fleet", "cluster"): Bound(
        MOST_CLUSTERS, by="silent clusters of a group that are shown, the first by name"
    ),
    (f"{DEFENDER}store", "store"): Bound(3, by="the Permit objects and Redis, where it is used"),
    (f"{COMPONENT}set_", "set"): Bound(MOST_SETS, by="sets that are shown, paused ones first"),
    (f"{COMPONENT}set_phase", "phase"): Bound(len(RolloutPhase), by="phases of a rollout"),
    (f"{COMPONENT}set_machines", "state"): Bound(7, by="what is counted of a set's machines"),
    (f"{COMPONENT}set_paused", "reason"): Bound(len(PAUSES), by="why a set may be paused"),
    (COMPONENT, "component"): Bound(
        MOST_FAMILIES, by="components that are shown, those of most machines first"
    ),
    (f"{COMPONENT}machines", "state"): Bound(len(ComponentState), by="states of a component"),
    (f"{COMPONENT}versions", "version"): Bound(
        MOST_VERSIONS + 1, by="versions on most machines; the rest is `other`"
    ),
    (RELEASE, "release"): Bound(
        MOST_RELEASES, by="releases that have not ended and are shown, paused ones first"
    ),
    (RELEASE, "phase"): Bound(len(ClusterPhase), by="phases of a cluster"),
    (RELEASE, "reason"): Bound(len(ReleaseReason), by="why a release waits or is paused"),
    ("kubenode_notification", "receiver"): Bound(
        RECEIVERS, by="receivers of `--receivers-file`, by its schema"
    ),
    ("kubenode_provider_", "provider"): Bound(PROVIDERS, by="kinds of providers"),
    ("kubenode_instance_", "provider"): Bound(PROVIDERS, by="kinds of providers"),
    ("kubenode_hostdoctor_l", "source"): Bound(PROVIDERS, by="kinds of sources of events"),
    ("kubenode_hostdoctor_messages", "source"): Bound(PROVIDERS, by="kinds of sources of events"),
    ("kubenode_hostdoctor_foreign", "source"): Bound(PROVIDERS, by="kinds of sources of events"),
    ("kubenode_lease_", "lease"): Bound(1, by="the program: remedy, defender, machine or all"),
}
"""Bounds of open labels, by the beginning of the metric's name and the label.

The longest beginning that fits counts.
"""


def bound_of(metric: Metric, label: str) -> Bound:
    """Return the bound of a label. Raises ValueError if nothing bounds it."""
    fits = [
        name
        for name, bounded_label in OPEN
        if bounded_label == label and metric.name.startswith(name)
    ]
    if fits:
        return OPEN[max(fits, key=len), label]
    values = tuple(sorted(metric.values.get(label, ())))
    if not values or EXAMPLE in values:
        raise ValueError(
            f"{metric.name}: nothing bounds its label {label}: let its series begin at zero, or"
            " name its bound in devtools/metrics_reference/bounds.py"
        )
    return Bound(len(values), values)


def most_series(metric: Metric) -> int:
    """Return the largest number of series of one process; for a histogram with buckets, sum and
    count.
    """
    each = metric.buckets + 2 if metric.type == "histogram" else 1
    return each * prod(bound_of(metric, label).most for label in metric.labels)
