"""NodeCondition checks, and several checks together."""

import pytest

from kubenode.api.meta import ConditionStatus
from kubenode.api.v1alpha1.componentsource import ConditionWanted
from kubenode.api.v1alpha1.machinecomponentset import InspectionCheck
from kubenode.runtime.kube.objects import KubeObjectMeta, Node, NodeCondition, NodeStatus
from machine.inspection.conditions import conditions, require_joined_nodes
from machine.inspection.port import PASSED, InspectionAnswer, InspectionResult, together

READY = ConditionWanted(type="Ready")


def node(**shown: str) -> Node:
    found = [NodeCondition(type_, status) for type_, status in shown.items()]
    return Node(KubeObjectMeta(name="n"), status=NodeStatus(conditions=found))


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


def test_a_batch_without_nodes_is_not_proven_by_a_check_of_nodes() -> None:
    answer = conditions(READY, [], {})
    assert answer.judged is InspectionResult.INCONCLUSIVE
    assert answer.message == "the check asks for nodes, and the batch has none"


OF_NODES = [
    {"type": "NodeCondition", "nodeCondition": {"type": "Ready", "status": "True"}},
    {"type": "PromQL", "promQL": {"query": 'up{node=~"${nodes}"}', "success": "== 1"}},
]
OF_OTHERS = [
    {"type": "PromQL", "promQL": {"query": "up", "success": "== 1"}},
    {"type": "Job", "job": {"configMapRef": "smoke", "timeout": "5m"}},
]


@pytest.mark.parametrize("judged", InspectionResult)
@pytest.mark.parametrize("check", [*OF_NODES, *OF_OTHERS])
def test_a_machine_whose_node_has_not_joined_passes_no_check_of_nodes(
    check: dict[str, object], judged: InspectionResult
) -> None:
    given = InspectionCheck.model_validate({"name": "smoke", **check})
    answer = InspectionAnswer(judged, "as it was")
    assert require_joined_nodes(answer, given, []) == answer
    found = require_joined_nodes(answer, given, ["m1", "m0"])
    if judged is InspectionResult.PASSED and check in OF_NODES:
        assert found.judged is InspectionResult.INCONCLUSIVE
        assert found.message == "Machine m0 expects a Node, and none has joined"
    else:
        assert found == answer


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
