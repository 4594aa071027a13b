"""How a step sends requests to the provider or owner of the machine, at most once where needed.
Pure.

The request is recorded first, with the boot of the host that it is meant for; then it is sent, and
its outcome is recorded. A request for a state (off, on) may be repeated. Any other (reset, replace)
is repeated only if the provider recognizes a request by its ID, or after a clear answer that it was
not taken: once it is unknown whether it was sent, it counts as sent.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from kubenode.api.v1alpha1 import HoldReason, Step
from kubenode.api.v1alpha1.ladder import PowerPath
from kubenode.api.v1alpha1.remedyoperationjob import (
    AgentRequest,
    RequestState,
    StepBy,
    StepState,
    StepStatus,
)
from kubenode.runtime.disruption.request import WITHOUT_PERMIT
from kubenode.runtime.patience import patience
from remedy.job import silence
from remedy.job.model import (
    Act,
    FaultAssessment,
    Job,
    JobAct,
    JobObservation,
    NodeObservation,
    Requested,
)
from remedy.job.moves import Move, due, hold, is_waiting_for, may, stands, wait
from remedy.job.power_record import (
    BACK,
    MACHINE,
    OFF_WORD,
    ON_WORD,
    OUTCOME,
    REQUEST,
    WAS,
    PowerAct,
    switched_off,
)
from remedy.job.records import ask, begun, put, unheard
from remedy.job.request_notes import find_earlier_request, to_note
from remedy.job.silence import by_our_clock
from remedy.power.observation import PowerObservation, RequestOutcome
from rules.truth import Truth

TAKEN, UNCLEAR, LATER, GONE = "taken", "unclear", "later", "gone"
"""Outcomes in the step's output; absent: no outcome yet, so it is unknown whether the request was
sent.
"""
AGAIN = timedelta(minutes=1)
"""Interval after which a requested state that was not reached is requested again."""
REFUSED_AGAIN = timedelta(seconds=30)
"""Interval after which an act that the last check prevented is considered again."""
LATEST = timedelta(minutes=5)
"""Upper bound of the delay that a provider asks for."""
No = Callable[[str], Move]
"""What follows when a step cannot be done: takes the reason as a sentence, returns the move."""


@dataclass(frozen=True, slots=True)
class ProviderRequest:
    """A kind of request.

    word: its value in the step's output
    state: whether it asks for a state, so that it may be repeated
    guarded: whether it passes the guard of destructive acts, which refuses an expired request
    gone_is_known: whether the step goes on when the provider answers that the machine is gone
    """

    word: str
    act: Act
    state: bool
    guarded: bool = False
    gone_is_known: bool = False

    @property
    def is_sent_once(self) -> bool:
        """Report whether a second request would have a second effect on the machine."""
        return self.guarded and not self.state


OFF = ProviderRequest(OFF_WORD, PowerAct.POWER_OFF, state=True, guarded=True, gone_is_known=True)
ON = ProviderRequest(ON_WORD, PowerAct.POWER_ON, state=True)
RESET = ProviderRequest("reset", PowerAct.RESET, state=False, guarded=True)


def get_request_word(record: StepStatus) -> str:
    """Return the word of the recorded request; "" if there is none."""
    open_ = record.by is StepBy.PROVIDER and record.asked_at is not None
    return record.output.get(REQUEST, "") if open_ else ""


def deadline(step: Step, record: StepStatus) -> datetime | None:
    """Return the end of the whole step, whatever was requested in it; None if it has not begun. A
    machine that was switched off in order to boot, and is switched on only afterwards, gets the
    step's time again.
    """
    if record.started_at is None:
        return None
    end = record.started_at + step.body.timeout
    if get_request_word(record) == ON.word and record.expires_at is not None:
        return max(end, record.expires_at)
    return end


def has_step_ended(step: Step, record: StepStatus, observation: JobObservation) -> bool:
    """Report whether the step's time is over."""
    end = deadline(step, record)
    return end is not None and silence.has_passed(observation, record.started_at, end)


def ends_at(step: Step, record: StepStatus, observation: JobObservation) -> datetime:
    """Return the deadline by our clock: a request made now expires then."""
    end = deadline(step, record) or observation.now
    return by_our_clock(observation, record.started_at or observation.now, end)


def never_shown(
    job: Job, observation: JobObservation, step: Step, record: StepStatus, why: str
) -> Move:
    """Fail a step after its timeout, if only others can show its effect; wait while answers may
    still arrive.
    """
    return unheard(job, observation, step, record, deadline(step, record) or observation.now, why)


def proven_dark(job: Job, power: PowerObservation | None) -> bool:
    """Report whether the provider says that the machine is off or gone. A provider that does not
    know a machine proves that it is gone only if it knew it before in this job: it may have been
    asked in the wrong place.
    """
    if power is None:
        return False
    known = any(WAS in record.output for record in job.status.steps)
    return power.dark or (power.outcome is RequestOutcome.GONE and known)


def leave(job: Job, observation: JobObservation, *, evidence: bool) -> Move | None:
    """Return None when guards, evidence and permit allow the request; else the hold, the end, or
    the move that regains the permit.
    """
    return may(job, observation, evidence=evidence) or stands(job, observation)


def write(
    job: Job,
    observation: JobObservation,
    node: NodeObservation,
    step: Step,
    record: StepStatus,
    wish: ProviderRequest,
    **noted: str,
) -> Move:
    """Record the request in the status; the round after that write sends it. A request sent before
    the status was removed is recorded as it was, and is not sent again.
    """
    output = {k: v for k, v in record.output.items() if k not in (OUTCOME, BACK)}
    machine = {MACHINE: node.provider_id} if node.provider_id else {}
    output |= {REQUEST: wish.word, **machine, **noted}
    noted_record = record.model_copy(update={"output": output})
    end = ends_at(step, record, observation)
    if wish is ON and observation.now >= end:
        end = observation.now + step.body.timeout
    if (earlier := find_earlier_request(job, record, wish.word)) is not None:
        return _as_before(job, noted_record, earlier, end), JobAct.NONE
    return ask(job, observation.now, node, noted_record, StepBy.PROVIDER, end), JobAct.NONE


def _as_before(job: Job, record: StepStatus, earlier: Requested, end: datetime) -> Job:
    """Record a request that was sent before the status was removed, with an unclear outcome."""
    boot_id = "" if earlier.boot_id == "-" else earlier.boot_id
    restored = record.model_copy(
        update={
            "by": StepBy.PROVIDER,
            "request_id": earlier.request_id,
            "asked_at": record.started_at,
            "boot_id": boot_id,
            "expires_at": end,
            "output": {**record.output, OUTCOME: UNCLEAR},
        }
    )
    owned = job.status.owned.model_copy(update={"boot_id": boot_id})
    return put(job, restored).having(owned=owned, hold=None)


def go_on(
    job: Job,
    observation: JobObservation,
    record: StepStatus,
    wish: ProviderRequest,
    no: No,
    *,
    check: bool = True,
    evidence: bool | None = None,
    repeatable: bool = False,
) -> Move:
    """Send the recorded request as often as allowed, and record its outcome.

    no: what follows when the provider refuses
    check: whether guards, evidence and permit are checked right before it
    evidence: whether the evidence must be known true; None: unless this rung did something before
    repeatable: whether the provider recognizes a repeated request by its ID
    """
    result = observation.act_result
    repeats = wish.state or repeatable
    if result is not None and result.act is wish.act and result.outcome is not None:
        return _heed(job, observation, record, wish, repeats, no)
    if wish is OFF and (move := _of_another_boot(job, observation, record)) is not None:
        return move
    if _refused_lately(job, observation.now) or not _due(job, observation, record, repeats, wish):
        return wait(job)
    if (move := _of_another_time(job, observation, record, wish)) is not None:
        return move
    if check:
        free = withdrawn(job, record) if observation.unasked else job
        needs = not begun(free) if evidence is None else evidence
        if (stop := leave(free, observation, evidence=needs)) is not None:
            after, act = stop
            return (job, act) if act is not JobAct.NONE else (after, act)
    if wish.is_sent_once and to_note(job) is not None:
        return job, JobAct.NOTE_REQUEST
    return job, wish.act


def _of_another_boot(job: Job, observation: JobObservation, record: StepStatus) -> Move | None:
    """Decide again about a host that has booted since the request to switch it off: only a fault
    that is known true in the current boot lets the request be sent. None: the boot is the recorded
    one.
    """
    boot_id = observation.node.boot_id if observation.node is not None else ""
    if not boot_id or not record.boot_id or boot_id == record.boot_id:
        return None
    decided = put(job, record.model_copy(update={"boot_id": boot_id}))
    return leave(job, observation, evidence=True) or (decided, JobAct.NONE)


def _of_another_time(
    job: Job, observation: JobObservation, record: StepStatus, wish: ProviderRequest
) -> Move | None:
    """Extend a request with a past recorded expiry while its step has more time by
    our clock.
    """
    end, step = record.expires_at, job.step
    if not wish.guarded or step is None or end is None or observation.now < end:
        return None
    later = ends_at(step, record, observation)
    if later <= observation.now:
        return wait(job)
    return put(job, record.model_copy(update={"expires_at": later})), JobAct.NONE


def _refused_lately(job: Job, now: datetime) -> bool:
    return is_waiting_for(job, HoldReason.ACT_REFUSED) and not due(job, now)


def _due(
    job: Job, observation: JobObservation, record: StepStatus, repeats: bool, wish: ProviderRequest
) -> bool:
    """Report whether the recorded request must be sent now."""
    if observation.unasked:
        return True
    match record.output.get(OUTCOME, ""):
        case "taken":
            return wish.state and observation.now >= (record.asked_at or observation.now) + AGAIN
        case "":
            return repeats
        case _:
            return repeats and due(job, observation.now)


def _heed(
    job: Job,
    observation: JobObservation,
    record: StepStatus,
    wish: ProviderRequest,
    repeats: bool,
    no: No,
) -> Move:
    """Record the outcome of the request that the last round sent."""
    result, now = observation.act_result, observation.now
    assert result is not None
    match result.outcome:
        case RequestOutcome.TAKEN:
            at = {"asked_at": now} if wish.state else {}
            return put(job, noted(record, TAKEN, **at)).having(hold=None), JobAct.NONE
        case RequestOutcome.GONE if wish.gone_is_known:
            return put(job, noted(record, GONE)).having(hold=None), JobAct.NONE
        case RequestOutcome.UNCLEAR if not repeats:
            why = f"{result.error}; it may have been taken, and is not asked for again"
            return put(job, noted(record, UNCLEAR, message=why[:1024])).having(
                hold=None
            ), JobAct.NONE
        case RequestOutcome.UNCLEAR:
            return away(put(job, noted(record, UNCLEAR)), observation, record, result.error)
        case RequestOutcome.PREVENTED:
            return _refused(job, observation, record, wish)
        case RequestOutcome.LATER:
            back = put(job, noted(record, LATER)) if wish.state else withdrawn(job, record)
            return away(back, observation, record, result.error, result.after)
        case _:
            return no(result.error)


def _refused(
    job: Job, observation: JobObservation, record: StepStatus, wish: ProviderRequest
) -> Move:
    """Hold after a check that prevented the request. A request that this process recorded and never
    sent is decided again, and its step gets its whole time again: such a refusal leads to no other
    rung. A request that may have been sent stays recorded and is sent again. A reset of a host that
    has booted meanwhile stays too: the boot ends its step.
    """
    result, now, step = observation.act_result, observation.now, job.step
    assert result is not None
    until = now + REFUSED_AGAIN
    if not observation.unasked or (wish is RESET and result.booted) or step is None:
        return hold(job, now, HoldReason.ACT_REFUSED, result.error, until=until)
    times = {"started_at": now, "expires_at": now + step.body.timeout}
    anew = record.model_copy(update=times)
    after = put(job, anew) if wish.state else withdrawn(job, anew)
    return hold(after, now, HoldReason.ACT_REFUSED, result.error, until=until)


def lacks_permit(answer: AgentRequest | None) -> bool:
    """Report whether the agent did nothing because it found no permit that was valid at that
    moment.
    """
    refused = answer is not None and answer.state is RequestState.REFUSED
    return refused and answer is not None and answer.output.startswith(WITHOUT_PERMIT)


def decide_anew(
    job: Job, observation: JobObservation, record: StepStatus, step: Step, why: str
) -> Move:
    """Decide again after an agent's refusal for want of a permit: nothing was done, and the step
    gets its whole time again.
    """
    now = observation.now
    times = {"started_at": now, "expires_at": now + step.body.timeout}
    after = withdrawn(job, record.model_copy(update=times))
    return hold(after, now, HoldReason.ACT_REFUSED, why, until=now + REFUSED_AGAIN)


def noted(record: StepStatus, word: str, **changes: object) -> StepStatus:
    """Return the record with the outcome `word`."""
    return record.model_copy(update={"output": {**record.output, OUTCOME: word}, **changes})


def withdrawn(job: Job, record: StepStatus) -> Job:
    """Remove the request from the record: it was not sent, or not taken. The job is no longer in
    flight.
    """
    output = {k: v for k, v in record.output.items() if k not in (REQUEST, OUTCOME)}
    changes = {"by": StepBy.OPERATOR, "asked_at": None, "output": output}
    return put(job, record.model_copy(update=changes))


def away(
    job: Job,
    observation: JobObservation,
    record: StepStatus,
    why: str,
    after: timedelta | None = None,
) -> Move:
    """Hold for a provider that does not answer, or not now. `after`: the delay that it asks for."""
    waited = observation.now - (record.started_at or observation.now)
    until = observation.now + min(after or patience(waited), LATEST)
    return hold(job, observation.now, HoldReason.PROVIDER_UNREACHABLE, why, until=until)


def waits_for_provider(job: Job, now: datetime) -> bool:
    """Report whether the time to repeat a request that was not taken, or was prevented, has not
    come.
    """
    reasons = (HoldReason.PROVIDER_UNREACHABLE, HoldReason.ACT_REFUSED)
    return is_waiting_for(job, *reasons) and not due(job, now)


def free_to_ask(job: Job, observation: JobObservation, *, evidence: bool) -> Move | None:
    """Return None when the provider or agent may be asked for something new."""
    if waits_for_provider(job, observation.now):
        return wait(job)
    return leave(job, observation, evidence=evidence)


def unread(job: Job, observation: JobObservation, record: StepStatus, no: No) -> Move:
    """Wait, or fail, while there is no reading of the machine's power: nothing is done
    without one.
    """
    power = observation.power
    if power is None:
        return wait(job)
    if power.outcome in (RequestOutcome.REFUSED, RequestOutcome.GONE):
        return no(power.why)
    if waits_for_provider(job, observation.now):
        return wait(job)
    return away(job, observation, record, power.why, power.after)


def force_fault_true(
    job: Job, fault: FaultAssessment, power: PowerObservation | None
) -> FaultAssessment:
    """Return the fault, held true for a machine that this job switched off, whatever the evidence
    says: otherwise the ladder would stop and leave the node cordoned and fenced.
    """
    if power is None or not power.dark or not switched_off(job):
        return fault
    why = "the machine is dark: this job switched it off"
    return replace(fault, evidence=Truth.TRUE, gone=Truth.FALSE, agreed=True, why=fault.why or why)


def next_path(step: Step, record: StepStatus) -> PowerPath | None:
    """Return the first path of a reboot that has not failed; a failed one has its reason in the
    output.
    """
    assert step.reboot is not None
    return next((path for path in step.reboot.via if path not in record.output), None)


def fence_failed(job: Job) -> bool:
    """Report whether the job stopped at a step `fence` that failed."""
    record = job.record
    return record is not None and record.name == "fence" and record.state is StepState.FAILED
