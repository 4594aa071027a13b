"""Reads the rules and condition types of a cluster."""

from dataclasses import dataclass

from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.cli.cluster import require_crds
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube

SOME_NODES = 500
"""Nodes whose condition types are read: a detector runs on more than one node."""


@dataclass(frozen=True, slots=True)
class FleetRules:
    """The rules and condition types of a cluster.

    unreadable: (name, reason) of rules that this version cannot read.
    """

    rules: tuple[NodeRemedier, ...]
    conditions: tuple[str, ...]
    unreadable: tuple[tuple[str, str], ...] = ()


async def fleet_rules(kube: Kube) -> FleetRules:
    """List the rules and condition types. Raises Refusal if our kinds are not installed."""
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
