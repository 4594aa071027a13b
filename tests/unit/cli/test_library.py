"""The rules that ship: each is valid, explains itself, and keeps what the library promises."""

import json
from pathlib import Path

import pytest

import rules
from kubenode.api.v1alpha1 import Disruption, Mode, NodeRemedier
from kubenode.api.v1alpha1.leaves import ConditionLeaf, EventLeaf
from kubenode.cli.demo.detectors import CHECKS
from kubenode.cli.library import library

FOLDER = Path(rules.__file__).parent / "library"
NPD = {
    "KubeletUnhealthy", "ContainerRuntimeUnhealthy", "NTPProblem", "KernelDeadlock", "XfsShutdown",
    "ReadonlyFilesystem", "CperHardwareErrorFatal", "DiskBadBlock", "FrequentKubeletRestart",
    "FrequentContainerdRestart",
}  # fmt: skip
KUBERNETES = {"Ready"}
RULES = library()
STEPS = {"cordon", "uncordon", "migrate", "notify", "label", "annotate", "wait", "agent"}


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.metadata.name)
def test_rule_is_named_after_its_file_enforced_and_says_whom_it_means(rule: NodeRemedier) -> None:
    text = (FOLDER / f"{rule.metadata.name}.yaml").read_text()
    assert text.startswith("# ")
    assert rule.spec.mode is Mode.ENFORCE
    assert rule.spec.fault_class != "unknown"


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.metadata.name)
def test_rule_asks_for_conditions_that_a_detector_writes_and_that_have_held(
    rule: NodeRemedier,
) -> None:
    for leaf in rule.spec.when.leaves():
        if isinstance(leaf, ConditionLeaf):
            assert leaf.type in NPD | KUBERNETES
            assert leaf.for_
            assert leaf.max_age
        else:
            assert isinstance(leaf, EventLeaf)
            assert leaf.count >= 5


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.metadata.name)
def test_a_rule_that_acts_steps_aside_for_maintenance_and_other_owners(rule: NodeRemedier) -> None:
    if rule.spec.disruption_class is Disruption.NONE:
        return
    assert rule.spec.unless is not None
    guards = json.dumps(rule.spec.unless.to_dict())
    assert "maintenance.active" in guards
    assert "node.foreignOwner" in guards


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.metadata.name)
def test_a_ladder_begins_mildly_and_uses_only_steps_of_this_version(rule: NodeRemedier) -> None:
    rungs = rule.spec.ladder or []
    weights = [rung.disruption_class.weight for rung in rungs]
    assert weights == sorted(weights)
    for rung in rungs:
        for step in rung.steps:
            assert step.name in STEPS


def test_priorities_differ_where_two_rules_could_act_on_one_node() -> None:
    priorities = [r.spec.priority for r in RULES]
    assert len(set(priorities)) == len(priorities)


def test_every_condition_of_the_demo_has_a_rule() -> None:
    asked = {
        leaf.type for r in RULES for leaf in r.spec.when.leaves() if isinstance(leaf, ConditionLeaf)
    }
    assert {check.type for check in CHECKS} <= asked
