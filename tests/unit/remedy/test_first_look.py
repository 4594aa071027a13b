"""After a start all nodes are looked at: those that changed last come first."""

from datetime import timedelta

from support.clock import T0

from kubenode.runtime.kube.objects import Node, NodeCondition, NodeStatus, ObjectMeta
from remedy.noticing import latest_first


def node(name: str, *minutes_ago: float) -> Node:
    conditions = [
        NodeCondition(type=f"C{n}", last_transition_time=T0 - timedelta(minutes=ago))
        for n, ago in enumerate(minutes_ago)
    ]
    return Node(ObjectMeta(name=name), status=NodeStatus(conditions=conditions))


def test_what_failed_last_is_looked_at_before_what_was_well_for_long() -> None:
    fleet = [node("well", 900, 900), node("failed", 900, 1), node("older", 30), node("silent")]
    assert latest_first(fleet) == ["failed", "older", "well", "silent"]
