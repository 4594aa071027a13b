"""After a start all nodes are looked at: those that changed last come first."""

from datetime import timedelta

from support.clock import T0

from kubenode.runtime.hosttime import host_time
from kubenode.runtime.kube.objects import KubeObjectMeta, Node, NodeCondition, NodeStatus
from remedy.mappers import latest_first


def node(name: str, *minutes_ago: float, off: timedelta = timedelta(0)) -> Node:
    """off  by how much the host's clock is ahead"""
    conditions = [
        NodeCondition(
            type=f"C{n}",
            last_heartbeat_time=host_time(T0 + off),
            last_transition_time=host_time(T0 + off - timedelta(minutes=ago)),
        )
        for n, ago in enumerate(minutes_ago)
    ]
    return Node(KubeObjectMeta(name=name), status=NodeStatus(conditions=conditions))


def test_what_failed_last_is_looked_at_before_what_was_well_for_long() -> None:
    fleet = [node("well", 900, 900), node("failed", 900, 1), node("older", 30), node("silent")]
    assert latest_first(fleet, T0) == ["failed", "older", "well", "silent"]


def test_what_failed_last_is_looked_at_first_when_clocks_are_off() -> None:
    hours = timedelta(hours=2)
    fleet = [node("ahead", 30, off=hours), node("behind", 20, off=-hours), node("right", 25)]
    assert latest_first(fleet, T0) == ["behind", "right", "ahead"]
