"""A job whose ladder only notifies ends as done, and not as a repair that a person must finish."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from support.clock import T0
from support.remedy_builders import HEALED, RESTART, TELL, a_job, a_record, seen

from kubenode.api.v1alpha1 import JobPhase
from kubenode.api.v1alpha1.ladder import Rung, only_notifies
from remedy.job.metrics import JobMetrics
from remedy.job.model import CloseReason, Job
from remedy.job.step import step
from remedy.remedier.past import Past

SENT = a_record(0, "notify", "Done")
ACTED = {
    "type": "Acted",
    "status": "True",
    "reason": "Rung0",
    "lastTransitionTime": T0.isoformat(),
}
LATE = T0 + timedelta(minutes=3)
"""End of `verify.timeout`."""


def verifying(*rungs: dict[str, Any], record: dict[str, Any] = SENT, **changes: Any) -> Job:
    status = {"phase": "Verifying", "step": 1, "steps": [record], "conditions": [ACTED]}
    return a_job(*rungs, status=status, **changes)


@pytest.mark.parametrize("on_give_up", ["Hold", "Release"])
def test_a_ladder_that_only_notifies_ends_as_notified(on_give_up: str) -> None:
    job, _ = step(verifying(TELL, onGiveUp=on_give_up), seen(now=LATE))
    assert (job.phase, job.close_reason) == (JobPhase.SUCCEEDED, CloseReason.NOTIFIED)
    assert job.status.timeline.verified is None, "nothing was proven"


def test_it_waits_for_the_end_of_the_fault_until_the_timeout() -> None:
    job, _ = step(verifying(TELL), seen(now=LATE - timedelta(seconds=1)))
    assert job.phase is JobPhase.VERIFYING
    since = {**verifying(TELL).status.to_dict(), "evidenceFalseSince": T0.isoformat()}
    proven, _ = step(a_job(TELL, status=since), seen(now=LATE, fault=HEALED))
    assert proven.close_reason is CloseReason.PROVEN


def test_the_next_rung_still_notifies_more_people() -> None:
    job, _ = step(verifying(TELL, {**TELL, "name": "manager"}), seen(now=LATE))
    assert (job.phase, job.status.rung) == (JobPhase.AWAITING_PERMIT, 1)


@pytest.mark.parametrize(
    "job",
    [
        verifying(TELL, record=a_record(0, "notify", "Failed")),
        verifying(TELL, record=a_record(0, "notify", "Skipped")),
        verifying({**TELL, "steps": [*TELL["steps"], {"label": {"key": "a/b", "value": "c"}}]}),
    ],
    ids=["refused", "skipped", "does more"],
)
def test_without_a_sent_notification_or_with_other_steps_a_person_is_needed(job: Job) -> None:
    job, _ = step(job, seen(now=LATE))
    assert job.phase is JobPhase.NEEDS_HUMAN


def test_no_job_of_the_rule_follows_while_the_fault_lasts() -> None:
    past = Past(
        "n1-old", "uid", "tell", "disk", JobPhase.SUCCEEDED, T0, reason=CloseReason.NOTIFIED
    )
    assert past.blocks(T0, LATE + timedelta(days=3))
    ended = replace(past, false_since=LATE)
    assert not ended.blocks(LATE + timedelta(minutes=20), LATE + timedelta(minutes=20))


def test_it_does_not_count_as_a_repair() -> None:
    registry = CollectorRegistry()
    metrics, before = JobMetrics(registry), verifying(TELL)
    after, _ = step(before, seen(now=LATE))
    metrics.changed(before, after)
    labels = {"phase": "Succeeded"}
    assert registry.get_sample_value("kubenode_job_seconds_count", labels) == 0
    assert registry.get_sample_value("kubenode_job_moves_total", labels) == 1


@pytest.mark.parametrize(
    ("steps", "only"),
    [
        ([{"notify": {}}], True),
        ([{"collect": {}}, {"notify": {}}, {"wait": {"for": "5m"}}], True),
        ([{"collect": {}}], False),
        ([{"notify": {}}, {"cordon": {}}], False),
        ([{"notify": {}}, {"webhook": {"receiver": "pager"}}], False),
    ],
)
def test_only_steps_that_change_nothing_count_as_notifying(
    steps: list[dict[str, Any]], only: bool
) -> None:
    rung = Rung.model_validate({"name": "tell", "steps": steps})
    assert only_notifies([rung]) is only
    assert not only_notifies([rung, Rung.model_validate(RESTART)])
