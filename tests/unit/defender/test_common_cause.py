"""Faults that share a kernel, an image or a component revision: found by how much more often."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.breaker_core import Fleet, a_job
from support.clock import T0
from support.defender_core import a_policy, an_ask

from defender.decision.breaker.cause import FailureShare, describe_cause, lift, shared
from defender.decision.conditions import COMMON_CAUSE, conditions
from kubenode.api.meta import ConditionStatus
from kubenode.api.v1alpha1 import Operation, Reason
from kubenode.api.v1alpha1.defenderpolicy import CommonCause

RULE = CommonCause()
QUIET = {"minNodes": 1_000_000}
"""A trip that nothing reaches, so that the breakers stay closed."""


def lenient(**cause: Any) -> Any:
    limits = [{"scope": "Cluster", "maxConcurrent": 1000}]
    breaker = {"trip": QUIET} | ({"commonCause": cause} if cause else {})
    return a_policy(limits=limits, breaker=breaker)


def two_kernels(*, new: int = 30, old: int = 170, **cause: Any) -> Fleet:
    """n0, n1, ... have the new kernel, o0, o1, ... the old one."""
    fleet = Fleet(lenient(**cause))
    for number in range(new):
        fleet.put(f"n{number}", kernel="6.9")
    for number in range(old):
        fleet.put(f"o{number}", kernel="6.1")
    return fleet


@pytest.mark.parametrize(
    ("having", "others", "found"),
    [
        ((4, 20), (0, 980), False),  # fewer than minFaults
        ((5, 20), (3, 980), True),
        ((5, 20), (100, 980), False),  # a quarter against a tenth
        ((5, 98), (0, 2), False),  # two others prove nothing
        ((5, 100), (0, 0), False),  # everybody has it
        ((5, 50), (0, 100), True),
        ((5, 600), (0, 400), False),
    ],
)
def test_what_is_often_enough(having: Any, others: Any, found: bool) -> None:
    assert shared(FailureShare(*having), FailureShare(*others), RULE, known=False) is found


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50), st.integers(1, 500))
def test_more_faults_make_it_likelier_and_more_among_others_less(
    faults: int, nodes: int, others: int, rest: int
) -> None:
    having, other = FailureShare(faults, faults + nodes), FailureShare(others, others + rest)
    assert lift(FailureShare(faults + 1, faults + 1 + nodes), other) >= lift(having, other)
    assert lift(having, FailureShare(others + 1, others + rest + 1)) <= lift(having, other)


def test_the_words_name_value_and_numbers() -> None:
    said = describe_cause("kernel", "6.9", FailureShare(5, 30), FailureShare(1, 170), RULE)
    assert said == "kernel 6.9: 5 of 30 nodes with it failed within 1h, 1 of 170 without it"


def test_repairs_and_rollouts_of_nodes_with_the_cause_are_held_and_no_others() -> None:
    fleet = two_kernels()
    fleet.down("n", 4)
    assert fleet.judge(an_ask("n0")).allowed
    fleet.down("n", 1, first=4)
    held = fleet.judge(an_ask("n0"))
    assert (held.reason, held.scope) == (Reason.COMMON_CAUSE, "kernel=6.9")
    assert "5 of 30 nodes with it failed within 1h" in held.message
    assert held.look_again_at is not None and held.look_again_at > fleet.now
    assert fleet.judge(an_ask("n20", operation=Operation.ROLLOUT)).reason is Reason.COMMON_CAUSE
    assert fleet.judge(an_ask("n20", operation=Operation.SCALE_IN)).allowed
    evacuation = an_ask("n20", operation=Operation.EVACUATE, inevitable=True)
    assert fleet.judge(evacuation).allowed
    fleet.down("o", 1)
    assert fleet.judge(an_ask("o0")).allowed


@pytest.mark.parametrize("cause", ["revision", "job"])
def test_component_revisions_are_read_from_nodes_and_jobs_are_faults_too(cause: str) -> None:
    fleet = Fleet(lenient())
    for number in range(100):
        fleet.put(f"n{number}", revision="kubelet-7" if number < 20 else "kubelet-6")
    for number in range(5):
        if cause == "job":
            fleet.job(a_job(f"n{number}"))
        else:
            fleet.put(f"n{number}", "Unknown")
    assert fleet.judge(an_ask("n9")).scope == "componentRevision=kubelet-7"
    assert fleet.judge(an_ask("n50")).allowed


def test_only_what_the_policy_groups_by() -> None:
    fleet = two_kernels(groupBy=["image"])
    fleet.down("n", 10)
    assert fleet.judge(an_ask("n0")).allowed


def test_it_is_over_when_the_faults_are_old_or_everybody_fails() -> None:
    fleet = two_kernels()
    fleet.down("n", 8)
    assert fleet.judge(an_ask("n0")).reason is Reason.COMMON_CAUSE
    fleet.step(minutes=59)
    assert fleet.judge(an_ask("n0")).reason is Reason.COMMON_CAUSE
    fleet.step(minutes=2)
    assert fleet.judge(an_ask("n0")).allowed
    fleet = two_kernels()
    fleet.down("n", 8)
    fleet.judge(an_ask("n0"))
    fleet.down("o", 40)
    assert fleet.judge(an_ask("n0")).allowed


def test_once_found_it_is_not_over_with_the_next_fault_elsewhere() -> None:
    fleet = two_kernels(new=60, old=140)
    fleet.down("n", 5)
    assert fleet.judge(an_ask("n0")).reason is Reason.COMMON_CAUSE
    why = fleet.control.breakers.causes("default")
    fleet.down("o", 2)
    assert fleet.judge(an_ask("n0")).reason is Reason.COMMON_CAUSE
    assert fleet.control.breakers.causes("default") == why  # the words do not tick
    assert not shared(FailureShare(5, 60), FailureShare(2, 140), RULE, known=False)


def test_a_node_that_gets_another_kernel_is_held_no_more() -> None:
    fleet = two_kernels()
    fleet.down("n", 10)
    assert fleet.judge(an_ask("n0")).reason is Reason.COMMON_CAUSE
    fleet.put("n0", "True", kernel="6.1")
    assert fleet.judge(an_ask("n0")).allowed


def test_another_fault_with_independent_evidence_is_repaired_all_the_same() -> None:
    fleet = two_kernels()
    for number in range(10):
        fleet.job(a_job(f"n{number}", fault_class="kernel_deadlock"))
    fleet.job(a_job("n20", fault_class="gpu_missing"))
    assert fleet.judge(an_ask("n20", fault_class="gpu_missing")).reason is Reason.COMMON_CAUSE
    proven = an_ask("n20", fault_class="gpu_missing", evidence=["HostEvent"])
    assert fleet.judge(proven).allowed


def test_the_policys_condition_tells_who_can_pause_a_rollout() -> None:
    fleet = two_kernels()
    policy = fleet.policies[0]
    assert [c.type for c in conditions(policy, {}, T0)] == ["NotEnforced", "Ready"]
    fleet.down("n", 5)
    fleet.states()
    found = conditions(policy, fleet.control.breakers.causes("default"), T0)
    told = next(c for c in found if c.type == COMMON_CAUSE)
    assert (told.status, told.reason) == (ConditionStatus.TRUE, "Kernel")
    assert told.message.startswith("kernel 6.9: 5 of 30")
    status = policy.status.model_copy(update={"conditions": found})
    later = conditions(type(policy)(policy.metadata, policy.spec, status), {}, T0 + timedelta(1))
    over = next(c for c in later if c.type == COMMON_CAUSE)
    assert over.status is ConditionStatus.FALSE
    assert over.last_transition_time == T0 + timedelta(1)


def test_a_change_of_causes_is_written_at_once() -> None:
    fleet = two_kernels()
    before = fleet.control.breakers.version
    fleet.down("n", 5)
    fleet.states()
    assert fleet.control.breakers.version > before
