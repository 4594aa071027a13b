"""What the conditions of a Node report, with each stamp on the clock that made it.

Its kubelet and its detectors stamp by the host's clock. When a kubelet falls silent the node
controller writes its conditions in its place: the transition is by the control plane's clock then,
and the heartbeat stays the kubelet's last.
"""

from kubenode.runtime.hosttime import as_written
from kubenode.runtime.kube.objects import Node, NodeCondition
from rules.condition_clock import ConditionReading

NODE_CONTROLLER_WROTE = "NodeStatusUnknown"
"""Reason that kube-controller-manager gives the conditions of a node that fell silent."""


def node_reports(node: Node) -> list[ConditionReading]:
    return [_report(condition) for condition in node.status.conditions]


def _report(condition: NodeCondition) -> ConditionReading:
    turned = condition.last_transition_time
    silent = condition.reason == NODE_CONTROLLER_WROTE and turned is not None
    return ConditionReading(
        condition.type,
        condition.status,
        condition.reason,
        condition.message,
        turned,
        condition.last_heartbeat_time,
        as_written(turned) if silent and turned is not None else None,
    )
