"""Properties of kinds of steps, which Kube Defender, the registry of rules and early ends rely on.

The expected names are written by hand.
"""

import pytest

from defender.decision.jobs import HARMLESS
from kubenode.api.v1alpha1 import Step
from kubenode.api.v1alpha1.ladder import STEP_KINDS, Disruption, Remainder, list_steps
from remedy.job.early_end import OTHERS
from remedy.job.observe import ASKS_OTHERS
from remedy.registry.radius import MARKS
from simulation.demo.watches import TELLING

PERMITTED = {
    *("rollbackComponent", "cordon", "migrate", "reboot", "powerOff", "powerOn", "powerCycle"),
    *("fence", "replace"),
}
"""Steps that need a permit, besides actions of the agent."""


def test_each_field_of_a_step_but_the_agents_has_a_kind() -> None:
    assert set(STEP_KINDS) == set(Step.model_fields) - {"agent"}


def test_steps_that_disrupt_need_a_permit() -> None:
    assert list_steps(lambda kind: kind.disruption is not Disruption.NONE) >= PERMITTED
    assert not HARMLESS & PERMITTED


@pytest.mark.parametrize("name", ["label", "annotate", "webhook", "createObject", "approveEvent"])
def test_nodes_of_a_step_that_makes_other_programs_act_are_counted(name: str) -> None:
    assert name in MARKS and name in HARMLESS


@pytest.mark.parametrize("name", ["collect", "notify", "wait", "waitForEvent", "waitForApproval"])
def test_nodes_of_a_step_that_reaches_only_people_or_the_host_are_not_counted(name: str) -> None:
    assert name not in MARKS and name in HARMLESS


def test_steps_that_ask_other_systems_are_checked_as_our_own_acts() -> None:
    assert {"approveEvent", "webhook", "createObject"} <= ASKS_OTHERS
    assert "waitForEvent" in OTHERS - ASKS_OTHERS


def test_no_step_needs_a_permit_and_signals() -> None:
    assert not MARKS & PERMITTED


def test_a_step_that_needs_a_permit_leaves_something() -> None:
    nothing = list_steps(lambda kind: kind.remainder is Remainder.NOTHING)
    assert not nothing & PERMITTED
    assert nothing >= {"collect", "notify", "label", "annotate", "wait", "waitForApproval"}
    assert nothing - {"uncordon"} <= TELLING and "uncordon" not in TELLING
