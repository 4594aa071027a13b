"""A fault that is false for a moment has not gone: the node is neither emptied nor given back.

What the job has on the node stays for SETTLES, nothing is done meanwhile, and only then it ends.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from support.clock import T0
from support.remedy_builders import (
    CORDONED,
    DRAIN,
    FAULTY,
    HEALED,
    OURS,
    PERMIT,
    a_job,
    a_record,
    granted,
    running,
    seen,
)

from kubenode.api.v1alpha1 import HoldReason, JobPhase
from kubenode.api.v1alpha1.noderemedier import OnGiveUp
from remedy.job.migration.acts import PodAct
from remedy.job.model import Act, CloseReason, FaultAssessment, Job, JobAct, Pods
from remedy.job.moves import LONGEST_DOUBT, SETTLES
from remedy.job.step import step
from remedy.job.wake import requeue_at
from rules.truth import Truth

SECOND = timedelta(seconds=1)
LEFT = Pods(2, ("shop/a", "shop/b"))
DOUBT = FaultAssessment(Truth.UNKNOWN, Truth.FALSE, agreed=True, why="it is back")


def draining() -> Job:
    """In the middle of a drain that has hours."""
    rung = {**DRAIN, "steps": [{"cordon": {}}, {"migrate": {"timeout": "4h"}}, DRAIN["steps"][2]]}
    record = a_record(1, "migrate", expiresAt=(T0 + timedelta(hours=4)).isoformat())
    return replace(a_job(rung, status=running(1, CORDONED, record, permit=None)), finalizer=True)


def yielded() -> Job:
    """Waits for a permit with its cordon on."""
    waiting = a_record(0, "cordon", "Waiting")
    status = {"phase": "AwaitingPermit", "steps": [waiting], "owned": {"cordon": True}}
    return replace(a_job(DRAIN, status=status), finalizer=True)


JOBS = {"draining": draining, "yielded": yielded}


def looked(job: Job, seconds: float, fault: FaultAssessment, **more: Any) -> tuple[Job, Act]:
    """Every move of that moment, and the act that it ends with."""
    world = seen(
        now=T0 + seconds * SECOND,
        node=OURS,
        fault=fault,
        pods=LEFT,
        permit=granted(timedelta(hours=9)),
        **more,
    )
    for _ in range(9):
        after, act = step(job, world)
        if after == job:
            again = requeue_at(job, world)
            assert again is not None
            if job.status.evidence_false_since is not None and job.close_reason is None:
                assert again <= job.status.evidence_false_since + SETTLES
            return job, act
        job = after
        if job.close_reason is not None:
            break
    return job, JobAct.NONE


@pytest.mark.parametrize("name", JOBS)
def test_nothing_is_evicted_and_nothing_given_back_while_a_fault_has_just_gone(name: str) -> None:
    job = JOBS[name]()
    for seconds in (0, 1, 29):
        job, act = looked(job, seconds, HEALED)
        assert act is JobAct.NONE and job.close_reason is None
        assert job.status.owned.cordon
        assert job.status.hold is not None and job.status.hold.reason == HoldReason.FAULT_UNKNOWN


@pytest.mark.parametrize("name", JOBS)
def test_a_job_ends_when_its_fault_stays_away(name: str) -> None:
    job, _ = looked(JOBS[name](), 0, HEALED)
    job, _ = looked(job, SETTLES.total_seconds(), HEALED)
    assert job.close_reason is CloseReason.FAULT_GONE


def test_a_drain_goes_on_when_the_detector_only_began_anew() -> None:
    job, act = looked(draining(), 0, FAULTY)
    assert act is PodAct.EVICT
    job, act = looked(job, 10, HEALED)
    assert act is JobAct.NONE and job.close_reason is None
    job, act = looked(job, 12, FAULTY)
    assert act is PodAct.EVICT and job.status.hold is None
    assert job.status.evidence_false_since is None


def test_a_yielded_job_asks_again_when_its_fault_is_back() -> None:
    job, act = looked(yielded(), 10, HEALED)
    assert act is JobAct.NONE
    job, act = looked(job, 12, FAULTY)
    assert act is JobAct.ASK_PERMIT and job.close_reason is None


@pytest.mark.exhaustive
def test_a_flapping_fault_holds_the_drain_and_neither_cancels_nor_begins_it_anew() -> None:
    """True for 235 s, False for 5 s; after each the rule's `for` of two minutes begins anew."""
    job, evicted = draining(), 0
    for second in range(0, 9000, 5):
        in_cycle = second % 240
        fault = HEALED if in_cycle >= 235 else DOUBT if in_cycle < 120 and second > 235 else FAULTY
        job, act = looked(job, second, fault)
        assert job.close_reason is None and job.status.owned.cordon
        assert act in (PodAct.EVICT, JobAct.NONE, JobAct.RENEW_PERMIT), act
        assert fault is FAULTY or act is not PodAct.EVICT
        evicted += act is PodAct.EVICT
    assert evicted > 100, "it goes on in between"


def test_a_job_that_has_nothing_on_the_node_ends_at_once() -> None:
    status = {"phase": "AwaitingPermit", "permit": PERMIT}
    job, _ = looked(a_job(DRAIN, status=status), 0, HEALED)
    assert job.close_reason is CloseReason.FAULT_GONE


# -- doubt is bounded ------------------------------------------------------------------------------


@pytest.mark.parametrize("give_up", ["Hold", "Release"])
@pytest.mark.parametrize("name", JOBS)
def test_a_person_is_called_or_the_node_given_back_when_nobody_knows_for_an_hour(
    name: str, give_up: str
) -> None:
    made = JOBS[name]()
    made = replace(made, spec=made.spec.model_copy(update={"on_give_up": OnGiveUp(give_up)}))
    job, hour = made, LONGEST_DOUBT.total_seconds()
    for seconds in (0.0, 60.0, hour - 1):
        job, act = looked(job, seconds, DOUBT)
        assert act in (JobAct.NONE, JobAct.RENEW_PERMIT) and job.close_reason is None
        assert job.phase is made.phase and job.status.hold is not None
    job, _ = looked(job, hour, DOUBT)
    assert "nobody knows" in job.status.message
    if give_up == "Hold":
        assert job.phase is JobPhase.NEEDS_HUMAN and job.status.owned.cordon
    else:
        assert job.close_reason is CloseReason.GAVE_UP


def test_an_hour_of_doubt_is_one_without_a_break() -> None:
    job, _ = looked(draining(), 0, DOUBT)
    job, act = looked(job, 1800, FAULTY)
    assert act is PodAct.EVICT
    job, _ = looked(job, 1900, DOUBT)
    job, _ = looked(job, 3700, DOUBT)
    assert job.close_reason is None and job.status.hold is not None
    assert job.status.hold.since == T0 + 1900 * SECOND


def test_a_job_that_has_nothing_on_the_node_waits_for_as_long_as_nobody_knows() -> None:
    job = a_job(DRAIN, status={"phase": "AwaitingPermit"})
    for seconds in (0.0, 4000.0, 90_000.0):
        job, act = looked(job, seconds, DOUBT)
        assert act is JobAct.NONE and job.close_reason is None
