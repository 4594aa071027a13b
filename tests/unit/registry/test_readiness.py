"""A rule's status has the conditions that kstatus reads, in every mode."""

import pytest
from support.clock import T0
from support.remedy_hand import RULE

from kubenode.api.conditions import find_condition
from kubenode.api.v1alpha1 import Mode, NodeRemedier
from kubenode.api.v1alpha1.noderemedier import RemedierPhase
from remedy.registry.status import RuleState, status_of

LOADED = RuleState(RemedierPhase.ACTIVE, would_reach=1, fleet=1)


@pytest.mark.parametrize(
    ("mode", "state", "ready", "stalled"),
    [
        (Mode.ENFORCE, LOADED, "True", False),
        (Mode.ENFORCE, RuleState(RemedierPhase.REJECTED, why="no such fact"), "False", True),
        (
            Mode.ENFORCE,
            RuleState(RemedierPhase.QUARANTINED, quarantined="engines differ"),
            "False",
            True,
        ),
        (Mode.OFF, LOADED, "True", False),
    ],
    ids=["loaded", "rejected", "quarantined", "off"],
)
def test_rule_reports_whether_it_is_in_force(
    mode: Mode, state: RuleState, ready: str, stalled: bool
) -> None:
    rule = NodeRemedier.from_user(
        {"metadata": {"name": "r", "generation": 2}, "spec": {**RULE, "mode": mode.value}}
    )
    conditions = status_of(rule, state, T0).conditions
    condition = find_condition(conditions, "Ready")
    assert condition is not None
    assert (condition.status, condition.observed_generation) == (ready, 2)
    assert (find_condition(conditions, "Stalled") is not None) is stalled
