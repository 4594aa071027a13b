"""Carries out one act and returns its result. Each effect is idempotent."""

from collections.abc import Sequence
from typing import Protocol, assert_never

from kubenode.api.v1alpha1 import Ask, Mode, Operation, Verdict
from kubenode.api.v1alpha1.permit import Holder
from kubenode.api.v1alpha1.remedyoperationjob import TriggerFact
from remedy.job.model import (
    Act,
    Job,
    JobAct,
    JobActResult,
    JobObservation,
    Requested,
    StepAct,
)
from remedy.job.moves import needed
from remedy.job.request_notes import to_note
from remedy.job.stepaccess import StepAccess
from remedy.plannedevents.observation import EventObservation, evacuation


class Effects(Protocol):
    """Changes of the outside world that the job controller may make."""

    async def set_finalizer(self, job: Job, on: bool) -> Job: ...
    async def note_request(self, job: Job, request: Requested) -> Job: ...
    async def delete(self, job: Job) -> None: ...
    async def cordon(self, job: Job) -> None: ...
    async def uncordon(self, job: Job) -> None: ...
    async def adopt_cordon(self, job: Job) -> None:
        """Replace the superseded job's mark on the cordon by ours."""
        ...

    async def protect(self, job: Job) -> None: ...
    async def unprotect(self, job: Job) -> None: ...


class PermitClient(Protocol):
    """Kube Defender as a job uses it. Methods return the reason as text instead of raising when
    there is no answer.
    """

    async def ask(self, ask: Ask) -> Verdict | str: ...
    async def renew(self, permit: str, seconds: float) -> Verdict | str:
        """Renew the permit. `seconds`: the least time for which the step needs it."""
        ...

    async def release(self, permit: str) -> str:
        """Release the permit; return why that failed, "" if it did not."""
        ...


async def act(
    job: Job,
    what: Act,
    observation: JobObservation,
    effects: Effects,
    leave: PermitClient,
    steps: StepAccess,
) -> tuple[Job, JobActResult]:
    """Do the act; return its result and the job with the version that our own write produced."""
    if isinstance(what, StepAct):
        return job, await steps.act(job, what, observation)
    result = JobActResult(what)
    match what:
        case JobAct.NONE:
            pass
        case JobAct.ADD_FINALIZER:
            return await effects.set_finalizer(job, True), result
        case JobAct.REMOVE_FINALIZER:
            return await effects.set_finalizer(job, False), result
        case JobAct.NOTE_REQUEST:
            request = to_note(job)
            return (job if request is None else await effects.note_request(job, request)), result
        case JobAct.ASK_PERMIT:
            return job, _to_result(what, await leave.ask(ask_for(job, observation.events)))
        case JobAct.RENEW_PERMIT:
            permit = job.status.permit
            seconds = needed(job.step).total_seconds()
            answer = await leave.renew(permit.name, seconds) if permit else "no permit held"
            return job, _to_result(what, answer)
        case JobAct.RELEASE_PERMIT:
            permit = job.status.permit
            return job, JobActResult(what, error=await leave.release(permit.name) if permit else "")
        case JobAct.CORDON:
            await effects.cordon(job)
        case JobAct.UNCORDON:
            await effects.uncordon(job)
        case JobAct.ADOPT_CORDON:
            await effects.adopt_cordon(job)
        case JobAct.DELETE:
            await effects.delete(job)
        case JobAct.PROTECT:
            await effects.protect(job)
        case JobAct.UNPROTECT:
            await effects.unprotect(job)
        case _:
            assert_never(what)
    return job, result


def _to_result(what: Act, answer: Verdict | str) -> JobActResult:
    return (
        JobActResult(what, error=answer)
        if isinstance(answer, str)
        else JobActResult(what, verdict=answer)
    )


def known(fact: TriggerFact) -> bool:
    """Report whether the fact has a value: an unanswered probe is no evidence from its source."""
    return fact.value is not None


def ask_for(job: Job, events: Sequence[EventObservation] = ()) -> Ask:
    """Build the request for a permit. It is the same for the same job and rung, so asking again
    returns the same permit.

    events: the planned events of the job; an event may have been postponed since the job was made
    """
    planned = evacuation(events)
    return Ask(
        operation=Operation.REPAIR if planned is None else Operation.EVACUATE,
        class_=job.disruption,
        node=job.spec.node_name,
        holder=Holder(kind="RemedyOperationJob", name=job.name, uid=job.uid),
        severity=job.spec.severity,
        fault_class=job.spec.fault_class,
        evidence=sorted({f.source for f in job.spec.trigger.facts if f.source and known(f)})[:64],
        deadline=job.spec.deadline if planned is None else planned.deadline,
        inevitable=planned is not None and planned.inevitable,
        successor_of=job.spec.supersedes,
        dry_run=job.spec.mode is not Mode.ENFORCE and job.spec.mode is not Mode.APPROVE,
    )
