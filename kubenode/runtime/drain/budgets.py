"""Names the PodDisruptionBudgets behind a refused eviction: those that select the pod."""

from collections.abc import Sequence

import msgspec

from kubenode.runtime.drain.observation import Blocked
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import KubeError, TooManyRequests
from kubenode.runtime.kube.objects import Pod, PodDisruptionBudget, Structs

CAUSE = "DisruptionBudget"
"""Cause in a 429 that a budget caused. A 429 without it means that the server is overloaded."""
SCOPE = 317


class _BudgetList(msgspec.Struct):
    items: list[PodDisruptionBudget] = []


_budget_list: Structs[_BudgetList] = Structs(_BudgetList)


def of_budget(error: KubeError) -> bool:
    """Return whether a budget refuses this pod, and not the server any request."""
    if isinstance(error, TooManyRequests):
        return CAUSE in error.causes or "disruption budget" in error.message
    # 500: two budgets select the pod, and the server refuses to choose. 504: too many of the pods
    # were evicted at once for the server to count them.
    return error.status in (500, 504) and "PodDisruptionBudget" in error.message


async def named(kube: Kube, refused: Sequence[tuple[Pod, Blocked]]) -> list[Blocked]:
    """Add the budgets that select each pod, because the server's refusal does not name them."""
    known: dict[str, list[PodDisruptionBudget]] = {}
    for pod, _ in refused:
        namespace = pod.metadata.namespace
        if namespace not in known:
            known[namespace] = await _in_namespace(kube, namespace)
    return [_named(pod, blocked, known[pod.metadata.namespace]) for pod, blocked in refused]


async def _in_namespace(kube: Kube, namespace: str) -> list[PodDisruptionBudget]:
    path = paths.pod_disruption_budgets(namespace)
    try:
        return (await kube.get(path, _budget_list, {"resourceVersion": "0"})).items
    except KubeError:
        return []  # the hold is valid without the names


def _named(pod: Pod, blocked: Blocked, budgets: Sequence[PodDisruptionBudget]) -> Blocked:
    mine = sorted((b for b in budgets if selects(b, pod)), key=lambda b: b.metadata.name)
    if not mine:
        return blocked
    names = ", ".join(f"{pod.metadata.namespace}/{b.metadata.name}" for b in mine)
    message = f"PDB {names}: {blocked.message}"
    if len(mine) == 1:
        message += f" {mine[0].status.current_healthy} pods are healthy,"
        message += f" {mine[0].status.desired_healthy} have to be."
    return Blocked(blocked.pod, f"pdb={names}"[:SCOPE], message, blocked.until)


def selects(budget: PodDisruptionBudget, pod: Pod) -> bool:
    selector = budget.spec.selector
    if selector is None:
        return False
    labels = pod.metadata.labels
    if any(labels.get(k) != v for k, v in selector.match_labels.items()):
        return False
    for e in selector.match_expressions:
        holds = {
            "In": labels.get(e.key) in e.values,
            "NotIn": labels.get(e.key) not in e.values,
            "Exists": e.key in labels,
            "DoesNotExist": e.key not in labels,
        }
        if not holds.get(e.operator, False):
            return False
    return True
