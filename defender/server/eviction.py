"""Preview of the evictions of a node's pods: what would block them now."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec
from pydantic import ValidationError

from kubenode.api.meta import LabelSelector
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Decode, Kube, Query
from kubenode.runtime.kube.errors import KubeError
from kubenode.runtime.kube.objects import Pod, PodDisruptionBudget, structs

MOST_PODS = 500
"""Greatest number of pods to read."""
MOST_NAMESPACES = 10
"""Number of namespaces above which the budgets of all namespaces are read at once."""
SECONDS = 3.0
"""Timeout of each request in seconds."""
ENDED_PHASES = ("Succeeded", "Failed")
MIRROR = "kubernetes.io/config.mirror"
L = TypeVar("L")


@dataclass(frozen=True, slots=True)
class PodEvictionPreview:
    """One pod and its PodDisruptionBudget.

    budget: name of the PodDisruptionBudget, "" for none; several if more than one covers the pod.
    allowed: disruptions that the budget allows now, None without exactly one budget.
    blocked: whether the pod cannot be evicted now.
    why: why it is blocked, "" if it is not.
    """

    namespace: str
    name: str
    budget: str
    allowed: int | None
    blocked: bool
    why: str


@dataclass(frozen=True, slots=True)
class EvictionPreview:
    """The pods of a node.

    pods: pods that would move, blocked ones first.
    stay: number of pods of DaemonSets and static pods.
    problem: why there is no preview, "" if there is one.
    """

    pods: tuple[PodEvictionPreview, ...] = ()
    stay: int = 0
    problem: str = ""

    @property
    def blocked(self) -> list[PodEvictionPreview]:
        return [pod for pod in self.pods if pod.blocked]


def preview(pods: Sequence[Pod], budgets: Iterable[PodDisruptionBudget]) -> EvictionPreview:
    """Return the preview. Pure. Pods of DaemonSets and static pods stay; blocked pods come
    first.
    """
    by_namespace: dict[str, list[PodDisruptionBudget]] = defaultdict(list)
    for budget in budgets:
        by_namespace[budget.metadata.namespace].append(budget)
    moving = [pod for pod in pods if _moves(pod)]
    entries = [_pod(pod, by_namespace[pod.metadata.namespace]) for pod in moving]
    entries.sort(key=lambda each: (not each.blocked, each.budget == "", each.namespace, each.name))
    running = [pod for pod in pods if pod.status.phase not in ENDED_PHASES]
    return EvictionPreview(tuple(entries), len(running) - len(moving))


def _moves(pod: Pod) -> bool:
    if pod.status.phase in ENDED_PHASES or MIRROR in pod.metadata.annotations:
        return False
    return not any(o.controller and o.kind == "DaemonSet" for o in pod.metadata.owner_references)


def _pod(pod: Pod, budgets: list[PodDisruptionBudget]) -> PodEvictionPreview:
    namespace, name = pod.metadata.namespace, pod.metadata.name
    mine = [budget for budget in budgets if _covers(budget, pod)]
    if len(mine) > 1:
        names = ", ".join(sorted(budget.metadata.name for budget in mine))
        why = "has more than one PodDisruptionBudget: the API server evicts no such pod"
        return PodEvictionPreview(namespace, name, names, None, True, why)
    if not mine:
        return PodEvictionPreview(namespace, name, "", None, False, "")
    allowed = mine[0].status.disruptions_allowed
    why = "" if allowed else "allows no disruption now"
    return PodEvictionPreview(namespace, name, mine[0].metadata.name, allowed, not allowed, why)


def _covers(budget: PodDisruptionBudget, pod: Pod) -> bool:
    """Return whether the budget covers the pod.

    An unreadable selector counts as covering: a needless warning is better than a missing one.
    """
    selector = budget.spec.selector
    if selector is None:
        return False
    try:
        model = LabelSelector.model_validate(
            {
                "matchLabels": selector.match_labels,
                "matchExpressions": [
                    {"key": e.key, "operator": e.operator, "values": e.values}
                    for e in selector.match_expressions
                ],
            }
        )
    except ValidationError:
        return True
    return model.matches(pod.metadata.labels)


class EvictionPodList(msgspec.Struct):
    items: list[Pod] = []


class BudgetList(msgspec.Struct):
    items: list[PodDisruptionBudget] = []


async def read_preview(kube: Kube, node: str) -> EvictionPreview:
    """Read the node's pods and the budgets of their namespaces, within SECONDS for each request."""
    ours: Query = {"fieldSelector": f"spec.nodeName={node}", "limit": MOST_PODS}
    try:
        pods = (await _get(kube, paths.pods(), ours, structs(EvictionPodList))).items
        spaces = sorted({pod.metadata.namespace for pod in pods if _moves(pod)})
        budgets: list[PodDisruptionBudget] = []
        if len(spaces) > MOST_NAMESPACES:
            budgets = (await _get(kube, paths.pod_disruption_budgets(), {}, _budgets)).items
        else:
            for space in spaces:
                path = paths.pod_disruption_budgets(space)
                budgets += (await _get(kube, path, {}, _budgets)).items
    except KubeError as error:
        return EvictionPreview(problem=f"the API server did not tell: {error.message or error}")
    return preview(pods, budgets)


_budgets = structs(BudgetList)


async def _get(kube: Kube, path: str, query: Query, decode: Decode[L]) -> L:
    return await kube.call("GET", path, query, decode=decode, timeout=SECONDS, attempts=1)
