"""What a case's recent actions leave behind: the rung that a new decision begins with."""

from typing import Any

import pytest

from kubenode.api.v1alpha1 import JobPhase, NodeRemedier
from kubenode.cli.library import library
from remedy.job.model import CloseReason
from simulation.cases.driver import past_of
from simulation.cases.form import Case


def a_rule(name: str) -> NodeRemedier:
    return next(rule for rule in library() if rule.metadata.name == name)


def a_case(*actions: dict[str, Any]) -> Case:
    return Case.model_validate(
        {
            "id": "past",
            "kind": "condition",
            "stage": "decide",
            "node": "a",
            "now": "2026-01-10T10:00:30Z",
            "signals": [
                {
                    "signal": "condition",
                    "node": "a",
                    "at_s": 0,
                    "type": "RuntimeOffline",
                    "status": "True",
                    "reason": "RuntimeOffline",
                    "message": "",
                    "held_s": 1500,
                }
            ],
            "facts": {"recent_actions": list(actions)},
            "expected": {
                "fault_class": "runtime_unhealthy",
                "repair_class": "cordon_drain_reboot",
                "first_action": "cordon",
            },
            "truth": "C",
            "input_truth": "assembled",
            "source": "test",
        }
    )


def test_a_failed_rung_with_another_above_it_leaves_the_incident_to_that_one() -> None:
    case = a_case({"action": "restart_runtime", "ok": False, "age_s": 640})
    (past,) = past_of(case, a_rule("runtime-offline-ack"))
    assert (past.rung, past.reason, past.acted_at) == (0, CloseReason.SUPERSEDED, None)
    assert not past.blocks(case.now, case.now)


def test_a_failed_last_rung_gave_up_and_blocks_the_incident() -> None:
    case = a_case({"action": "reboot_os", "ok": False, "age_s": 640})
    (past,) = past_of(case, a_rule("runtime-offline-ack"))
    assert (past.rung, past.phase, past.reason) == (1, JobPhase.FAILED, CloseReason.GAVE_UP)
    assert past.acted_at is not None


@pytest.mark.parametrize("action", ["restart_runtime", "reboot_os"])
def test_a_rung_that_helped_is_proven(action: str) -> None:
    case = a_case({"action": action, "ok": True, "age_s": 640})
    (past,) = past_of(case, a_rule("runtime-offline-ack"))
    assert (past.phase, past.reason) == (JobPhase.SUCCEEDED, CloseReason.PROVEN)
    assert past.acted_at is not None


def test_an_action_that_the_rule_does_not_know_leaves_nothing() -> None:
    case = a_case({"action": "gpu_reset", "ok": False, "age_s": 640})
    assert past_of(case, a_rule("runtime-offline-ack")) == ()
