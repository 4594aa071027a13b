"""Rules and condition types that a cluster has."""

from dataclasses import dataclass

from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.cli.cluster import require_crds
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube

SOME_NODES = 500
"""Condition types are taken from so many nodes: a detector runs on more than one."""


@dataclass(frozen=True, slots=True)
class FleetRules:
    """`unreadable` are names of rules that this version cannot read, with why."""

    rules: tuple[NodeRemedier, ...]
    conditions: tuple[str, ...]
    unreadable: tuple[tuple[str, str], ...] = ()


async def fleet_rules(kube: Kube) -> FleetRules:
    """Raises Refusal if our kinds are not installed."""
    await require_crds(kube)
    rules, unreadable = [], []
    answer = await kube.get(paths.custom(NodeRemedier.resource.plural))
    for item in answer["items"]:
        try:
            rules.append(NodeRemedier.model_validate(item, extra="ignore"))
        except ValueError as error:
            unreadable.append((item["metadata"]["name"], str(error)))
    nodes = await kube.get(paths.nodes(), query={"limit": str(SOME_NODES)})
    types = {
        condition["type"]
        for node in nodes["items"]
        for condition in (node.get("status") or {}).get("conditions") or ()
    }
    return FleetRules(tuple(rules), tuple(sorted(types)), tuple(unreadable))
