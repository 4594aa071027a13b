"""Jobs that wait, with and without their cordon on their nodes, as the metrics page shows them."""

from datetime import timedelta

import pytest
from prometheus_client import CollectorRegistry
from support.clock import T0, FakeClock
from support.remedy_builders import an_object

from kubenode.api.v1alpha1 import RemedyOperationJob
from remedy.job.metrics import NO_VERDICT, OTHER, REASONS, HoldCollector

NAME = "kubenode_job_held_oldest_seconds"
WAITING = "kubenode_job_waiting_oldest_seconds"


def held_job(
    name: str, reason: str, seconds: float, *, cordon: bool = True, phase: str = "Running"
) -> RemedyOperationJob:
    """A job that has waited for `seconds` at T0."""
    job = an_object(name=name)
    status = {
        "phase": phase,
        "owned": {"cordon": cordon},
        "hold": {"reason": reason, "since": (T0 - timedelta(seconds=seconds)).isoformat()},
    }
    return job.model_copy(update={"status": type(job.status).model_validate(status)})


def page_of(*jobs: RemedyOperationJob) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(HoldCollector(lambda: jobs, FakeClock()))
    return registry


def test_held_jobs_metric_has_each_reason_at_zero_when_no_job_waits() -> None:
    page = page_of(an_object())
    assert all(page.get_sample_value(NAME, {"reason": r}) == 0 for r in (*REASONS, OTHER))


def test_held_jobs_metric_shows_the_longest_wait_of_each_reason_when_jobs_wait_with_cordons() -> (
    None
):
    page = page_of(
        held_job("a", "GuardTrue", 100),
        held_job("b", "GuardTrue", 3000),
        held_job("c", "PermitLost", 50),
        held_job("d", "ReasonOfAnotherVersion", 7),
        held_job("e", "FaultUnknown", -600),
    )
    assert page.get_sample_value(NAME, {"reason": "GuardTrue"}) == 3000
    assert page.get_sample_value(NAME, {"reason": "PermitLost"}) == 50
    assert page.get_sample_value(NAME, {"reason": OTHER}) == 7
    assert page.get_sample_value(NAME, {"reason": "FaultUnknown"}) == 0


def test_held_jobs_metric_leaves_out_jobs_when_they_have_no_cordon_or_are_closed() -> None:
    page = page_of(
        held_job("a", "GuardTrue", 100, cordon=False),
        held_job("b", "GuardTrue", 100, phase="Cancelled"),
    )
    assert page.get_sample_value(NAME, {"reason": "GuardTrue"}) == 0


def test_waiting_jobs_metric_shows_jobs_that_have_no_cordon_by_reason() -> None:
    page = page_of(
        held_job("a", "GuardTrue", 100, cordon=False, phase="AwaitingPermit"),
        held_job("b", "RateLimit", 3000, cordon=False, phase="AwaitingPermit"),
        held_job("c", "RateLimit", 5000),
    )
    assert page.get_sample_value(WAITING, {"reason": "GuardTrue"}) == 100
    assert page.get_sample_value(WAITING, {"reason": "RateLimit"}) == 3000


def test_waiting_jobs_metric_shows_a_job_that_no_verdict_answered_since_its_creation() -> None:
    job = held_job("a", "GuardTrue", 0, cordon=False, phase="AwaitingPermit")
    unanswered = job.status.model_copy(update={"hold": None})
    created = job.metadata.model_copy(update={"creation_timestamp": T0 - timedelta(seconds=700)})
    job = job.model_copy(update={"status": unanswered, "metadata": created})
    assert page_of(job).get_sample_value(WAITING, {"reason": NO_VERDICT}) == 700


@pytest.mark.parametrize("phase", ["AwaitingApproval", "NeedsHuman", "Succeeded", "Failed"])
def test_waiting_jobs_metric_leaves_out_jobs_that_wait_for_a_person_or_are_closed(
    phase: str,
) -> None:
    page = page_of(held_job("a", "GuardTrue", 100, cordon=False, phase=phase))
    assert page.get_sample_value(WAITING, {"reason": "GuardTrue"}) == 0
