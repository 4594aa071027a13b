"""Every status of a kind with a desired state has the conditions that kstatus reads."""

from enum import StrEnum

import pytest
from support.api_objects import GOOD
from support.clock import T0

from kubenode.api.conditions import ConditionUpdate, find_condition
from kubenode.api.meta import Condition
from kubenode.api.readiness import READY, RECONCILING, RULES, STALLED
from kubenode.api.rollouts import RolloutReason
from kubenode.api.v1alpha1 import MachineComponentSet, MachineSet
from kubenode.api.v1alpha1.machinecomponentset import ComponentSetConditionType, RolloutPhase
from kubenode.api.v1alpha1.machineset import MachineSetConditionType
from kubenode.api.v1alpha1.machinestatus import MachineConditionType
from machine.componentset.rollout import ConditionMessage, RolloutPlan, RolloutState
from machine.componentset.status import status_after
from machine.machine.conditions import merged
from machine.machineset.members import Crew
from machine.machineset.status import status as machine_set_status


def _truths(conditions: list[Condition]) -> dict[str, str]:
    types = (READY, RECONCILING, STALLED)
    found = {type_: find_condition(conditions, type_) for type_ in types}
    return {type_: condition.status.value for type_, condition in found.items() if condition}


def test_machine_reports_its_progress() -> None:
    healthy = {MachineConditionType.HEALTHY: ConditionUpdate.of(True, "Healthy")}
    started = merged([], healthy, 2, T0)
    assert _truths(started) == {READY: "False", RECONCILING: "True"}
    whole = {MachineConditionType.COMPONENTS_READY: ConditionUpdate.of(True, "Ready")}
    assert _truths(merged(started, whole, 2, T0)) == {READY: "True"}


@pytest.mark.parametrize(
    ("reason", "truths"),
    [
        ("Unhealthy", {READY: "False", RECONCILING: "True"}),
        ("TooManyUnhealthy", {READY: "False", STALLED: "True"}),
    ],
)
def test_machine_set_reports_its_progress(reason: str, truths: dict[str, str]) -> None:
    raw = next(each for each in GOOD.values() if each["kind"] == "MachineSet")
    updates = {
        MachineSetConditionType.SCALED: ConditionUpdate.of(True, "Scaled"),
        MachineSetConditionType.HEALTHY: ConditionUpdate.of(False, reason),
    }
    after = machine_set_status(MachineSet.model_validate(raw), Crew([]), updates, 0, T0)
    assert _truths(after.conditions) == truths


@pytest.mark.parametrize(
    ("plan", "truths"),
    [
        (
            RolloutPlan(progressing=(False, ConditionMessage(RolloutPhase.COMPLETED))),
            {READY: "True"},
        ),
        (
            RolloutPlan(progressing=(True, ConditionMessage(RolloutPhase.BAKING))),
            {READY: "False", RECONCILING: "True"},
        ),
        (
            RolloutPlan(paused=ConditionMessage(RolloutReason.AUTO_PAUSED, "m1")),
            {READY: "False", STALLED: "True"},
        ),
    ],
    ids=["completed", "baking", "auto-paused"],
)
def test_component_set_reports_its_progress(plan: RolloutPlan, truths: dict[str, str]) -> None:
    raw = next(each for each in GOOD.values() if each["kind"] == "MachineComponentSet")
    set_ = MachineComponentSet.model_validate(raw)
    after = status_after(set_, RolloutState(), plan, [], [], T0)
    assert _truths(after.conditions) == truths


@pytest.mark.parametrize(
    ("kind", "types"),
    [
        ("Machine", MachineConditionType),
        ("MachineSet", MachineSetConditionType),
        ("MachineComponentSet", ComponentSetConditionType),
    ],
)
def test_rules_of_readiness_name_conditions_that_the_kind_has(
    kind: str, types: type[StrEnum]
) -> None:
    assert {rule.type for rule in RULES[kind]} <= set(types)
