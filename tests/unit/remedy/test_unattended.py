"""A fault that no rule acts on is told to people after an hour (S-10)."""

from datetime import timedelta
from typing import Any

from prometheus_client import CollectorRegistry
from support.clock import T0
from support.remedy_hand import Hands

MINUTE = timedelta(minutes=1)
LONG_AGO = T0 - timedelta(days=2)
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
WORKERS: dict[str, Any] = {
    "selector": {"matchExpressions": [{"key": CONTROL_PLANE, "operator": "DoesNotExist"}]}
}
SICK: dict[str, Any] = {"condition": {"type": "Sick", "status": "True"}}


async def a_cluster(**rule: Any) -> Hands:
    hands = Hands()
    await hands.rule(when=SICK, **rule)
    return hands


def reports(hands: Hands, status: str = "True", **labels: str) -> None:
    hands.node(labels=labels, Ready=("True", LONG_AGO), Sick=(status, LONG_AGO))


async def passes(hands: Hands, minutes: int, **node: str) -> list[str]:
    """What is told to people while the node goes on being reported."""
    for _ in range(minutes // 5):
        reports(hands, **node)
        await hands.later(5 * MINUTE)
    return [reason for reason in hands.events_told() if reason == "FaultUnattended"]


def counted(hands: Hands) -> int:
    return len(hands.operator.decider.unattended)


async def test_a_control_plane_node_whose_fault_every_rule_leaves_out_is_told_once() -> None:
    hands = await a_cluster(nodes=WORKERS)
    assert await passes(hands, 55, **{CONTROL_PLANE: ""}) == []
    assert counted(hands) == 0
    assert await passes(hands, 16 * 60, **{CONTROL_PLANE: ""}) == ["FaultUnattended"]
    assert counted(hands) == 1 and not hands.made()
    await passes(hands, 10, status="False", **{CONTROL_PLANE: ""})
    assert counted(hands) == 0


async def test_it_asks_to_be_looked_at_again_until_people_are_told() -> None:
    hands = await a_cluster(nodes=WORKERS)
    reports(hands, **{CONTROL_PLANE: ""})
    again = await hands.decide()
    assert again is not None and again <= 5 * MINUTE


async def test_a_rule_that_hands_over_to_one_that_leaves_the_node_out_is_told() -> None:
    hands = await a_cluster(nodes=WORKERS)
    await hands.rule("first", when=SICK, unless={"label": {"key": CONTROL_PLANE}})
    assert await passes(hands, 65, **{CONTROL_PLANE: ""}) == ["FaultUnattended"]


async def test_a_fault_that_a_job_is_open_for_is_attended() -> None:
    hands = await a_cluster()
    assert await passes(hands, 120) == []
    assert len(hands.made()) == 1


async def test_a_fault_that_comes_and_goes_or_is_planned_is_not_told() -> None:
    hands = await a_cluster(nodes=WORKERS)
    for _ in range(4):
        assert await passes(hands, 40, **{CONTROL_PLANE: ""}) == []
        assert await passes(hands, 10, status="False", **{CONTROL_PLANE: ""}) == []
    hands.host_event("m1", "Maintenance")
    assert await passes(hands, 120, **{CONTROL_PLANE: ""}) == []


async def test_rules_that_do_not_act_tell_nothing() -> None:
    hands = await a_cluster(nodes=WORKERS, mode="DryRun")
    assert await passes(hands, 120, **{CONTROL_PLANE: ""}) == []


async def test_the_metric_counts_nodes() -> None:
    hands = await a_cluster(nodes=WORKERS)
    await passes(hands, 65, **{CONTROL_PLANE: ""})
    registry = hands.registry
    assert isinstance(registry, CollectorRegistry)
    assert registry.get_sample_value("kubenode_remedy_unattended_nodes") == 1
