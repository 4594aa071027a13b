"""Reads the conditions of a Node, with each stamp on the clock that made it.

The kubelet and the detectors use the host's clock. If a kubelet is silent, the node controller
writes its conditions. The transition time is then of the control plane's clock, and the heartbeat
stays the kubelet's last one.
"""

from kubenode.runtime.hosttime import as_written
from kubenode.runtime.kube.objects import Node, NodeCondition
from rules.condition_clock import ConditionReading

NODE_CONTROLLER_WROTE = "NodeStatusUnknown"
"""Reason that kube-controller-manager sets in the conditions of a silent node."""


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
