"""Inspections of Nodes: all Nodes of the batch must have the condition, and exist. Pure."""

from collections.abc import Mapping, Sequence

from kubenode.api.v1alpha1.componentsource import ConditionWanted
from kubenode.api.v1alpha1.machinecomponentset import InspectionCheck
from kubenode.runtime.kube.objects import Node
from machine.inspection.port import PASSED, InspectionAnswer, InspectionResult
from machine.inspection.promql import NODES

UNKNOWN = "Unknown"


def conditions(
    wanted: ConditionWanted, names: Sequence[str], nodes: Mapping[str, Node | None]
) -> InspectionAnswer:
    """Return the answer.

    A missing node, a missing or Unknown condition, and a batch without nodes are inconclusive.
    """
    if not names:
        return InspectionAnswer(
            InspectionResult.INCONCLUSIVE, "the check asks for nodes, and the batch has none"
        )
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


def require_joined_nodes(
    answer: InspectionAnswer, check: InspectionCheck, unjoined: Sequence[str]
) -> InspectionAnswer:
    """Return the answer for the batch, given the answer for those of its Machines that have Nodes.

    A check of Nodes cannot pass for a Machine whose Node has not joined.
    """
    of_nodes = check.node_condition is not None or (
        check.prom_ql is not None and NODES in check.prom_ql.query
    )
    if not (unjoined and of_nodes and answer.judged is InspectionResult.PASSED):
        return answer
    why = f"Machine {min(unjoined)} expects a Node, and none has joined"
    return InspectionAnswer(InspectionResult.INCONCLUSIVE, why)


def _status(node: Node | None, type_: str) -> str:
    node_conditions = node.status.conditions if node is not None else ()
    return next((c.status for c in node_conditions if c.type == type_), UNKNOWN)
