"""The contract of Ready, Reconciling and Stalled."""

from datetime import UTC, datetime, timedelta

import pytest
from support.readiness_cases import CASES, ReadinessCase, make_condition

from kubenode.api.conditions import find_condition
from kubenode.api.crd import definition
from kubenode.api.meta import ConditionStatus
from kubenode.api.readiness import (
    READY,
    RECONCILING,
    RULES,
    STALLED,
    Progress,
    find_readiness,
    read_progress,
    set_readiness,
)
from kubenode.api.v1alpha1 import KINDS

T0 = datetime(2026, 11, 21, 2, 0, tzinfo=UTC)
LATER = T0 + timedelta(minutes=5)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_progress_follows_from_the_conditions_of_the_kind(case: ReadinessCase) -> None:
    assert find_readiness(case.kind, case.conditions).progress is case.progress


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_reconciling_and_stalled_are_present_only_while_true(case: ReadinessCase) -> None:
    after = set_readiness(case.kind, case.conditions, generation=3, now=LATER)
    ready = find_condition(after, READY)
    if case.kind not in ("MachineClass", "NodeClass") or case.conditions:
        assert ready is not None
        assert (ready.status == "True") is (case.progress is Progress.CURRENT)
    reconciling, stalled = (find_condition(after, type_) for type_ in (RECONCILING, STALLED))
    assert (reconciling is not None) is (case.progress is Progress.IN_PROGRESS)
    assert (stalled is not None) is (case.progress is Progress.FAILED)
    for condition in (reconciling, stalled):
        assert condition is None or condition.status is ConditionStatus.TRUE


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_readiness_set_twice_changes_nothing(case: ReadinessCase) -> None:
    first = set_readiness(case.kind, case.conditions, generation=3, now=T0)
    assert set_readiness(case.kind, first, generation=3, now=LATER) == first


def test_every_rule_decides_in_some_case() -> None:
    """A rule that no case reaches could be wrong unnoticed."""
    for kind, rules in RULES.items():
        for rule in rules:
            deciding = [
                case
                for case in CASES
                if case.kind == kind
                and next((r for r in rules if r.apply(case.conditions) is not None), None) is rule
            ]
            assert deciding, f"{kind}: {rule}"


def test_ready_has_the_reason_and_message_of_the_deciding_condition() -> None:
    bad = make_condition("Valid", "False", "BadSource", "curl is listed twice")
    after = set_readiness("MachineComponent", [bad], generation=3, now=T0)
    for type_ in (READY, STALLED):
        condition = find_condition(after, type_)
        assert condition is not None
        assert (condition.reason, condition.message) == ("BadSource", "curl is listed twice")
        assert condition.observed_generation == 3


def test_generation_that_is_not_observed_is_in_progress_whatever_the_conditions_say() -> None:
    good = [make_condition("Valid", "True", "Valid")]
    assert read_progress("MachineComponent", 2, 2, good).progress is Progress.CURRENT
    assert read_progress("MachineComponent", 2, 1, good).progress is Progress.IN_PROGRESS


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_crd_defaults_the_status_of_kinds_with_a_desired_state_to_unobserved(
    kind: type,
) -> None:
    crd = definition(kind)
    properties = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    default = properties.get("status", {}).get("default")
    assert default == ({"observedGeneration": 0} if kind.__name__ in RULES else None)
