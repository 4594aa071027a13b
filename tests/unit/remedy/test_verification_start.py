"""When a rung's verification began: recorded in the status, and read from what older versions
stored.
"""

from datetime import timedelta
from typing import Any

import pytest
from support.clock import T0
from support.remedy_builders import FAULTY, OURS, RESTART, a_job, running, seen

from kubenode.api.meta import ConditionStatus
from kubenode.api.v1alpha1 import JobPhase
from remedy.job.model import ACTED, CLOSING, Job
from remedy.job.moves import set_condition
from remedy.job.step import step
from remedy.job.verification import acted_on, verify_until

MINUTE = timedelta(minutes=1)
LATER = T0 + 30 * MINUTE
STEPS = 99
"""An index behind the last step of every rung."""


def acted(rung: int) -> dict[str, Any]:
    return {
        "type": ACTED,
        "status": "True",
        "reason": f"Rung{rung}",
        "lastTransitionTime": T0.isoformat(),
    }


def on_rung(rung: int, phase: str, **changes: Any) -> Job:
    status = running(STEPS) | {"phase": phase, "rung": rung, "step": STEPS, "steps": []}
    return a_job(RESTART, RESTART, status={**status, **changes})


def test_end_of_the_steps_records_when_verification_begins() -> None:
    job, _ = step(on_rung(0, "Running"), seen(now=LATER, node=OURS, fault=FAULTY))
    assert job.phase is JobPhase.VERIFYING
    assert job.status.verifying_since == LATER
    assert acted_on(job) == LATER
    assert verify_until(job) == LATER + job.rung.verify.timeout


def test_second_rung_has_its_own_time_in_a_job_that_an_older_version_began() -> None:
    """The older version left condition Acted of the first rung, and no time of its own."""
    before = on_rung(1, "Running", conditions=[acted(0)])
    job, _ = step(before, seen(now=LATER, node=OURS, fault=FAULTY))
    assert job.phase is JobPhase.VERIFYING
    assert acted_on(job) == LATER
    condition = job.condition(ACTED)
    assert condition is not None and condition.reason == "Rung1"
    assert condition.last_transition_time == T0, "the status of the condition did not change"


@pytest.mark.parametrize("rung", [0, 1])
def test_verification_that_an_older_version_began_keeps_its_time(rung: int) -> None:
    job = on_rung(rung, "Verifying", conditions=[acted(rung)])
    assert job.status.verifying_since is None
    assert acted_on(job) == T0


def test_escalation_ends_the_condition_of_the_rung_before() -> None:
    """So an older version, which reads its transition time, has the time of the new rung too."""
    job = on_rung(0, "Verifying", conditions=[acted(0)], verifyingSince=T0.isoformat())
    escalated, _ = step(job, seen(now=T0 + 10 * job.rung.verify.timeout, node=OURS, fault=FAULTY))
    assert (escalated.phase, escalated.status.rung) == (JobPhase.AWAITING_PERMIT, 1)
    assert escalated.condition(ACTED) is None
    assert escalated.status.verifying_since is None
    again = escalated.having(phase=JobPhase.RUNNING, step=STEPS)
    verifying, _ = step(again, seen(now=LATER, node=OURS, fault=FAULTY))
    condition = verifying.condition(ACTED)
    assert condition is not None
    assert condition.last_transition_time == verifying.status.verifying_since == LATER


def test_job_that_never_acted_counts_from_its_creation() -> None:
    job = on_rung(0, "NeedsHuman")
    assert acted_on(job) == job.created


def test_condition_of_a_job_moves_with_its_status_and_names_the_generation() -> None:
    job = a_job()
    for now, reason, status, since in (
        (T0, "GaveUp", True, T0),
        (LATER, "Proven", True, T0),
        (LATER, "Proven", False, LATER),
    ):
        job = job.having(conditions=set_condition(job, now, CLOSING, reason, status=status))
        condition = job.condition(CLOSING)
        assert condition is not None
        assert condition.last_transition_time == since
        assert condition.observed_generation == job.generation
        assert (condition.status is ConditionStatus.TRUE) is status
