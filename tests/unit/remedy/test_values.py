"""Built-in facts: what they say of a node, its groups and its past."""

import math
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from support.clock import T0

from kubenode.api.v1alpha1 import JobPhase
from kubenode.runtime.kube.objects import Node
from remedy.remedier.fleet import NodeGroups
from remedy.remedier.node_memory import NodeMemory
from remedy.remedier.past import Past
from remedy.remedier.values import GATHERED, OF_THE_FLEET, OF_TIME, values
from rules.builtin import BUILTIN, SAME_FAULT, UNREAD

HOUR = timedelta(hours=1)


def a_node(name: str = "n1", ready: str = "True", **parts: Any) -> Node:
    metadata = {"name": name, "labels": parts.pop("labels", {"topology.kubernetes.io/zone": "a"})}
    metadata |= {"creationTimestamp": (T0 - HOUR).isoformat(), **parts.pop("metadata", {})}
    since = (T0 - timedelta(minutes=5)).isoformat()
    stamps = {"lastTransitionTime": since, "lastHeartbeatTime": T0.isoformat()}
    conditions = [{"type": "Ready", "status": ready, **stamps}]
    data = {"metadata": metadata, "spec": parts, "status": {"conditions": conditions}}
    return msgspec.convert(data, Node)


def facts(
    node: Node, fleet: NodeGroups | None = None, past: list[Past] | None = None
) -> dict[str, Any]:
    kept = NodeMemory.at_first_sight(node, T0)
    ready = kept.conditions.facts().get("Ready")
    return values(node, fleet or NodeGroups(), past or [], None, T0, ready=ready)


def test_what_is_gathered_is_documented_and_nothing_else_is_given() -> None:
    assert set(BUILTIN) >= GATHERED == set(facts(a_node()))
    elsewhere = SAME_FAULT | UNREAD | {"time.inWindow"}  # by the diagnosis, and by the clock
    assert set(BUILTIN) - GATHERED == elsewhere
    assert OF_TIME | OF_THE_FLEET <= GATHERED


def test_ages_are_seconds_and_what_is_not_known_is_none() -> None:
    found = facts(a_node(ready="Unknown"))
    assert found["node.age"] == 3600.0
    assert (found["node.ready"], found["node.notReadyFor"]) == (None, 300.0)
    assert found["node.sinceBoot"] is None and found["node.kernel"] is None


def test_a_group_is_counted_and_nobody_is_not_unhealthy() -> None:
    fleet = NodeGroups()
    nodes = [a_node("a"), a_node("b", "False"), a_node("c", "Unknown", labels={})]
    for node in nodes:
        fleet.changed(None, node)
    found = facts(nodes[0], fleet)
    assert (found["zone.nodes"], found["zone.unhealthy"], found["zone.unhealthyRatio"]) == (
        2,
        1,
        0.5,
    )
    assert found["cluster.unhealthy"] == 2
    assert (found["rack.nodes"], found["rack.unhealthyRatio"]) == (0, 0.0)
    fleet.changed(nodes[1], a_node("b"))
    fleet.changed(nodes[2], None)
    assert facts(nodes[0], fleet)["cluster.unhealthyRatio"] == 0.0


@pytest.mark.parametrize(
    ("parts", "foreign"),
    [
        ({}, False),
        ({"taints": [{"key": "ToBeDeletedByClusterAutoscaler"}]}, True),
        ({"taints": [{"key": "node.kubernetes.io/unreachable"}]}, False),
        ({"metadata": {"deletionTimestamp": T0.isoformat()}}, True),
        ({"metadata": {"annotations": {"weave.works/kured-reboot-in-progress": "{}"}}}, True),
        ({"metadata": {"labels": {"dgxc.nvidia.com/nvsentinel-state": "draining"}}}, True),
        ({"metadata": {"labels": {"nvidia.com/gpu-driver-upgrade-state": "upgrade-done"}}}, False),
        ({"taints": [{"key": "readiness.k8s.io/example.com/network"}]}, False),
    ],
)
def test_f08_knows_when_somebody_else_is_at_work(parts: dict[str, Any], foreign: bool) -> None:
    assert facts(a_node(**parts))["node.foreignOwner"] is foreign


@pytest.mark.parametrize(
    ("until", "active"),
    [
        ((T0 + HOUR).isoformat(), True),
        ((T0 - HOUR).isoformat(), False),
        ("next week", True),
        ("2026-01-01T00:00:00", True),
    ],
)
def test_a_maintenance_whose_end_cannot_be_read_lasts(until: str, active: bool) -> None:
    node = a_node(metadata={"annotations": {"kubenode.io/maintenance-until": until}})
    assert facts(node)["maintenance.active"] is active


def test_cordons_are_told_apart_and_the_past_is_counted() -> None:
    assert facts(a_node(unschedulable=True))["node.cordonedBy"] == "somebody"
    mark = {"annotations": {"kubenode.io/cordoned-by": "n1-1"}}
    assert facts(a_node(unschedulable=True, metadata=mark))["node.cordonedBy"] == "n1-1"
    shared = {"annotations": {"kubenode.io/cordoned-by": "MachineComponentSet/s/u,n1-1"}}
    assert facts(a_node(unschedulable=True, metadata=shared))["node.cordonedBy"] == "n1-1"
    assert facts(a_node())["node.cordonedBy"] == ""
    assert facts(a_node())["node.lastRepairAgo"] == math.inf
    job = Past("j", "u", "r", "f", JobPhase.SUCCEEDED, T0 - HOUR, acted=True, closed=T0 - HOUR / 2)
    found = facts(a_node(), past=[job])
    assert (found["node.attempts24h"], found["node.lastRepairAgo"]) == (1, 1800.0)
