"""Step waitForApproval: a person's word for this very step, each heard once."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from support.clock import T0
from support.remedy_builders import TELL, a_job, a_record, running, seen

from kubenode.api.v1alpha1 import JobPhase
from kubenode.api.v1alpha1.remedyoperationjob import StepState
from remedy.job.model import CloseReason, Job, JobAct
from remedy.job.step import step

MINUTE = timedelta(minutes=1)


def said(decision: str, at: datetime | None = T0 + MINUTE, by: str = "ann") -> dict[str, Any]:
    word = {"decision": decision, "by": by, "note": "looked at it"}
    return word if at is None else {**word, "at": at.isoformat()}


def asking(*words: dict[str, Any], heard: int = 0, **body: Any) -> Job:
    wait = {"waitForApproval": {"timeout": "10m", **body}}
    rung = {**TELL, "steps": [wait, *TELL["steps"]]}
    status = running(0, a_record(0, "waitForApproval"), wordsHeard=heard, permit=None)
    return a_job(rung, status=status, approvals=list(words), onGiveUp="Release")


def test_it_waits_for_a_word() -> None:
    job = asking()
    assert step(job, seen(now=T0 + MINUTE)) == (job, JobAct.NONE)


@pytest.mark.parametrize("at", [T0, T0 + MINUTE, None])
def test_an_approval_lets_it_go_on_and_is_heard_once(at: datetime | None) -> None:
    after, act = step(asking(said("Approve", at)), seen(now=T0 + 2 * MINUTE))
    assert act is JobAct.NONE and after.status.step == 1 and after.status.words_heard == 1
    assert after.status.steps[0].state is StepState.DONE
    assert after.status.steps[0].message == "approved by ann: looked at it"


def test_a_denial_ends_the_job_and_outlasts_it() -> None:
    after, _ = step(asking(said("Deny")), seen(now=T0 + 2 * MINUTE))
    assert after.close_reason is CloseReason.DENIED and after.status.words_heard == 1
    assert "ann" in after.status.message and CloseReason.DENIED.outlasts_the_job


def test_what_was_said_before_it_asked_does_not_count() -> None:
    after, _ = step(asking(said("Approve", T0 - MINUTE)), seen(now=T0 + MINUTE))
    assert after.status.words_heard == 1 and after.status.step == 0
    assert "before this step began" in after.status.message


def test_a_word_that_was_heard_already_does_not_count_again() -> None:
    job = asking(said("Approve"), heard=1)
    assert step(job, seen(now=T0 + 2 * MINUTE)) == (job, JobAct.NONE)


@pytest.mark.parametrize("word", [said("Approve", by=""), said("Next"), said("Close")])
def test_a_word_that_makes_no_sense_is_answered_not_obeyed(word: dict[str, Any]) -> None:
    after, _ = step(asking(word), seen(now=T0 + 2 * MINUTE))
    assert after.status.words_heard == 1 and after.status.step == 0
    assert after.phase is JobPhase.RUNNING


@pytest.mark.parametrize(
    ("on_failure", "phase"),
    [("Escalate", JobPhase.FAILED), ("Stop", JobPhase.FAILED), ("Continue", JobPhase.RUNNING)],
)
def test_nobodys_word_in_time_is_a_failure_of_the_step(on_failure: str, phase: JobPhase) -> None:
    after, _ = step(asking(onFailure=on_failure), seen(now=T0 + 11 * MINUTE))
    assert after.phase is phase
    assert after.status.steps[0].message == "nobody approved within 10m"
