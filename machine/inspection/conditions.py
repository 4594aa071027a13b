"""Inspection of type NodeCondition: all nodes of the batch must have the condition. Pure."""

from collections.abc import Mapping, Sequence

from kubenode.api.v1alpha1.componentsource import ConditionWanted
from kubenode.runtime.kube.objects import Node
from machine.inspection.port import PASSED, InspectionAnswer, InspectionResult

UNKNOWN = "Unknown"


def conditions(
    wanted: ConditionWanted, names: Sequence[str], nodes: Mapping[str, Node | None]
) -> InspectionAnswer:
    """Return the answer. A missing node, and a missing or Unknown condition, are inconclusive."""
    silent = ""
    for name in names:
        status = _status(nodes.get(name), wanted.type)
        if status == wanted.status:
            continue
        why = f"{wanted.type} of node {name} is {status}, not {wanted.status}"
        if status != UNKNOWN:
            return InspectionAnswer(InspectionResult.FAILED, why)
        silent = silent or why
    return InspectionAnswer(InspectionResult.INCONCLUSIVE, silent) if silent else PASSED


def _status(node: Node | None, type_: str) -> str:
    found = node.status.conditions if node is not None else ()
    return next((c.status for c in found if c.type == type_), UNKNOWN)
