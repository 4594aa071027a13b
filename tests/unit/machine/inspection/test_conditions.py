"""NodeCondition checks, and several checks together."""

import pytest

from kubenode.api.meta import ConditionStatus
from kubenode.api.v1alpha1.componentsource import ConditionWanted
from kubenode.runtime.kube.objects import Node, NodeCondition, NodeStatus, ObjectMeta
from machine.inspection.conditions import conditions
from machine.inspection.port import PASSED, InspectionAnswer, InspectionResult, together

READY = ConditionWanted(type="Ready")


def node(**shown: str) -> Node:
    found = [NodeCondition(type_, status) for type_, status in shown.items()]
    return Node(ObjectMeta(name="n"), status=NodeStatus(conditions=found))


def test_every_node_must_show_the_condition() -> None:
    nodes = {"a": node(Ready="True"), "b": node(Ready="False"), "c": node(Ready="True")}
    assert conditions(READY, ["a", "c"], nodes) == PASSED
    answer = conditions(READY, ["a", "b"], nodes)
    assert answer.judged is InspectionResult.FAILED
    assert answer.message == "Ready of node b is False, not True"


def test_a_condition_may_be_wanted_to_be_false() -> None:
    wanted = ConditionWanted(type="KernelDeadlock", status=ConditionStatus.FALSE)
    assert conditions(wanted, ["a"], {"a": node(KernelDeadlock="False")}) == PASSED
    found = conditions(wanted, ["a"], {"a": node(KernelDeadlock="True")})
    assert found.judged is InspectionResult.FAILED


@pytest.mark.parametrize("silent", [None, node(), node(Ready="Unknown")])
def test_a_node_that_says_nothing_is_no_failure_and_no_success(silent: Node | None) -> None:
    nodes = {"a": silent, "b": node(Ready="True"), "c": node(Ready="False")}
    assert conditions(READY, ["a", "b"], nodes).judged is InspectionResult.INCONCLUSIVE
    assert conditions(READY, ["a", "c"], nodes).judged is InspectionResult.FAILED


def test_of_several_checks_the_worst_decides_and_is_named() -> None:
    answers = {
        InspectionResult.PASSED: PASSED,
        InspectionResult.INCONCLUSIVE: InspectionAnswer(InspectionResult.INCONCLUSIVE, "no answer"),
        InspectionResult.PENDING: InspectionAnswer(InspectionResult.PENDING, "runs"),
        InspectionResult.FAILED: InspectionAnswer(InspectionResult.FAILED, "too slow"),
    }
    seen: list[tuple[str, InspectionAnswer]] = []
    assert together(seen) == PASSED
    for judged, answer in answers.items():
        seen.append((f"check-{judged}", answer))
        assert together(seen).judged is judged
    assert together(seen).message == "check-Failed: too slow"
