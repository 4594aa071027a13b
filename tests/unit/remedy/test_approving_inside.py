"""Events that their cloud lets start at a word from inside of the machine, by its agent."""

from typing import Any

import pytest
from support.clock import T0
from support.outside_world import an_event
from support.remedy_builders import (
    CORDONED,
    DRAINED,
    FAULTY,
    OURS,
    a_job,
    a_record,
    an_object,
    running,
    seen,
)
from support.remedy_hand import Hands

from kubenode.api.v1alpha1 import HostEvent, JobPhase, RemedyOperationJob
from kubenode.api.v1alpha1.remedyoperationjob import AgentAnswers, StepBy
from remedy.job.model import Job, JobAct
from remedy.job.step import step
from remedy.mappers import JobMapper
from remedy.plannedevents.access import shared

STEPS: list[dict[str, Any]] = [{"cordon": {}}, {"migrate": {}}, {"approveEvent": {}}]
LADDER = {"name": "evacuate", "steps": STEPS, "verify": {"for": "1m", "timeout": "5m"}}


def approving(answer: dict[str, Any] | None = None, **record: Any) -> Job:
    record = a_record(2, "approveEvent", **record)
    job = a_job(LADDER, status=running(2, CORDONED, DRAINED, record), hostEvents=["e1", "e2"])
    if answer is None:
        return job
    said = {"state": "Done", "bootID": "boot-1", "output": "", **answer}
    agent = AgentAnswers.model_validate({"requests": {"r0s2a1": said}})
    return job.having(agent=agent)


def at(*phases: str, **changes: Any) -> Any:
    events = tuple(
        an_event(f"e{n + 1}", phase, inside=True, **changes) for n, phase in enumerate(phases)
    )
    return seen(node=OURS, events=events, fault=FAULTY)


ASKED: dict[str, Any] = {
    "by": "Agent",
    "askedAt": T0.isoformat(),
    "requestID": "r0s2a1",
    "bootID": "boot-1",
    "expiresAt": T0.isoformat(),
    "attempts": 1,
    "output": {"e1": "Asked", "event": "ext-e1"},
}


def test_the_agent_is_asked_by_the_record_alone_and_no_provider_is() -> None:
    after, act = step(approving(), at("Scheduled", "Scheduled"))
    record = after.record
    assert act is JobAct.NONE and record is not None
    assert (record.by, record.boot_id) == (StepBy.AGENT, OURS.boot_id)
    assert record.output == {"e1": "Asked", "event": "ext-e1"}
    assert after.awaits_agent
    _, act = step(after, at("Scheduled", "Scheduled"))
    assert act is JobAct.NONE, "nobody else is told"


def test_the_next_event_is_a_request_of_its_own() -> None:
    after, _ = step(approving({"state": "Done"}, **ASKED), at("Scheduled", "Scheduled"))
    assert after.record is not None
    assert after.record.output == {"e1": "Approved"}
    after, _ = step(after, at("Scheduled", "Scheduled"))
    assert after.record is not None
    assert after.record.output == {"e1": "Approved", "e2": "Asked", "event": "ext-e2"}
    assert after.record.request_id != "r0s2a1"


def test_once_all_may_start_the_step_is_done() -> None:
    told = ASKED | {"output": {"e1": "Approved", "e2": "Asked", "event": "ext-e2"}}
    after, _ = step(approving({"state": "Done"}, **told), at("Active", "Scheduled"))
    after, _ = step(after, at("Active", "Scheduled"))
    assert after.status.step == 3


@pytest.mark.parametrize("state", ["Failed", "Refused"])
def test_what_the_agent_could_not_say_ends_the_step_with_its_words(state: str) -> None:
    said = {"state": state, "output": "event ext-e1 is not among the scheduled events any more"}
    after, _ = step(approving(said, **ASKED), at("Scheduled", "Scheduled"))
    assert after.phase is JobPhase.NEEDS_HUMAN
    assert "not among the scheduled events" in after.status.message


def test_an_agent_that_does_not_answer_is_not_waited_for_without_end() -> None:
    long_ago = "2026-01-01T11:00:00Z"
    job = approving(**{**ASKED, "askedAt": long_ago, "expiresAt": long_ago})
    after, _ = step(job, at("Scheduled", "Scheduled"))
    assert after.phase is JobPhase.NEEDS_HUMAN
    assert "did not say" in after.status.message


def test_an_event_of_others_too_is_held_until_they_are_empty() -> None:
    why = "the event is of node n2 too, which is not empty yet"
    after, act = step(approving(), at("Scheduled", shared=why))
    assert act is JobAct.NONE and after.status.hold is not None
    assert (after.status.hold.reason, after.status.hold.message) == ("GroupWait", why)
    assert after.record is not None and after.record.output == {}
    for _ in range(2):  # the hold is taken off first
        after, _ = step(after, at("Scheduled"))
    assert after.record is not None and after.record.by is StepBy.AGENT


def test_an_event_that_stays_anothers_too_ends_the_step_with_the_reason() -> None:
    job = approving(expiresAt=T0.isoformat())
    after, _ = step(job, at("Scheduled", shared="the event is of 2 machines"))
    assert after.phase is JobPhase.NEEDS_HUMAN
    assert "of 2 machines" in after.status.message


# -- which machines --------------------------------------------------------------------------------


def an_azure_event(node: str, resources: str = "pool_1,pool_2") -> HostEvent:
    return HostEvent.model_validate(
        {
            "metadata": {"name": f"azure-{node}"},
            "spec": {
                "source": "Azure",
                "externalID": "602d9444",
                "class": "Reboot",
                "node": {"name": node},
                "attributes": {"resources": resources} if resources else {},
            },
        }
    )


def a_job_of(node: str, record: dict[str, Any], phase: str = "Running") -> RemedyOperationJob:
    job = a_job(LADDER, status=running(2, CORDONED, DRAINED, record))
    obj = an_object(LADDER, hostEvents=["azure-" + node], nodeName=node)
    status = job.status.model_copy(update={"phase": JobPhase(phase)})
    return obj.model_copy(update={"status": status})


BOTH = [an_azure_event("n1"), an_azure_event("n2")]
AT_IT, NOT_YET = a_record(2, "approveEvent"), a_record(1, "migrate")


def test_an_event_of_one_machine_is_nobody_elses() -> None:
    assert shared(an_azure_event("n1", ""), [an_azure_event("n1", "")], []) == ""


def test_a_machine_that_we_do_not_know_is_not_rebooted_by_our_word() -> None:
    assert "2 machines, and 1 of them" in shared(BOTH[0], [BOTH[0]], [])


@pytest.mark.parametrize(
    ("others", "waits"),
    [
        ([], True),
        ([a_job_of("n2", NOT_YET)], True),
        ([a_job_of("n2", AT_IT, "Cancelled")], True),
        ([a_job_of("n3", AT_IT)], True),
        ([a_job_of("n2", AT_IT)], False),
    ],
)
def test_every_machine_of_it_must_be_empty(others: list[RemedyOperationJob], waits: bool) -> None:
    assert bool(shared(BOTH[0], BOTH, others)) is waits


def test_names_that_were_cut_off_are_not_all() -> None:
    cut = an_azure_event("n1", "pool_1,poo…")
    assert shared(cut, BOTH, [a_job_of("n2", AT_IT)])


def test_who_waits_for_the_others_looks_again_when_another_is_as_far() -> None:
    hands = Hands()
    before, after = a_job_of("n2", NOT_YET), a_job_of("n2", AT_IT)
    waits = a_job_of("n1", AT_IT).to_dict()
    hold = {"reason": "GroupWait", "message": "n2 is not empty yet", "since": T0.isoformat()}
    waits["metadata"]["name"] = "waits"
    waits["status"]["hold"] = hold
    hands.jobs.put(waits)
    hands.jobs.put({**waits, "metadata": {**waits["metadata"], "name": "b"}, "status": {}})
    wakes = JobMapper(hands.jobs)
    assert set(wakes.job("other", before, after)) == {"other", "waits"}
    assert set(wakes.job("other", after, after)) == {"other"}
    assert set(wakes.job("other", after, None)) == {"other", "waits"}, "it has ended"
