"""Computes when a job must be reconciled even if nothing changes. Pure."""

from datetime import datetime, timedelta

from kubenode.api.v1alpha1 import JobPhase
from kubenode.api.v1alpha1.remedyoperationjob import StepBy
from kubenode.runtime.patience import LATE, SOON
from kubenode.runtime.term import NEXT_REPORT
from remedy.job.checks import answers_until
from remedy.job.checks import ask_again_at as checks_again_at
from remedy.job.initialwait import begins_at, unbegun
from remedy.job.model import CloseReason, Job, JobAct, JobObservation
from remedy.job.moves import REQUEUE_AFTER, SETTLES
from remedy.job.permits import ask_again_at, renew_at
from remedy.job.power_record import must_switch_on
from remedy.job.silence import by_our_clock, counts_from
from remedy.job.steps.agent import ANSWER_GRACE
from remedy.job.steps.table import STEPS
from remedy.job.supersession import await_successor_until
from remedy.job.verification import acted_on, proof_takes, verify_until

CORDONS = timedelta(seconds=3)
"""Least time between two reads of the pods while other jobs are about to cordon their nodes:
nothing is evicted then, and reading takes capacity that those jobs need.
"""


def requeue_at(job: Job, observation: JobObservation) -> datetime | None:
    """Return when the job must be reconciled even if nothing changes; None for never."""
    now, status = observation.now, job.status
    if job.phase.closed:
        if status.timeline.closed is None:
            return None
        ends = status.timeline.closed + job.spec.ttl_after_finished
        return ends if ends > now else None
    times = [now + LATE]
    if status.hold is not None and status.hold.look_again_at is not None:
        times.append(status.hold.look_again_at)
    if unbegun(job) and (begins := begins_at(job, observation)) is not None:
        times.append(begins)
    if job.phase is JobPhase.AWAITING_PERMIT:
        result = observation.act_result
        if result is not None and result.act is JobAct.ASK_PERMIT:
            times.append(ask_again_at(job, now, result.verdict))
        elif status.hold is not None:
            times.append(now + REQUEUE_AFTER)
    if job.phase is JobPhase.AWAITING_APPROVAL:
        began = min(job.created, now)
        times.extend(_waited_out(observation, began, began + job.spec.approval.expires_after))
    if (
        job.phase in (JobPhase.RUNNING, JobPhase.VERIFYING)
        and status.permit
        and status.permit.expires_at
    ):
        times.append(renew_at(job))
    settles = job.phase in (JobPhase.RUNNING, JobPhase.AWAITING_PERMIT) or unbegun(job)
    if settles and status.evidence_false_since:
        since = status.evidence_false_since
        times.append(by_our_clock(observation, since, since + SETTLES))
    if job.phase is JobPhase.RUNNING:
        times.extend(_step_times(job, observation))
    if job.phase in (JobPhase.VERIFYING, JobPhase.NEEDS_HUMAN):
        if status.evidence_false_since is not None:
            since = status.evidence_false_since
            times.append(by_our_clock(observation, since, since + job.rung.verify.for_))
        times.extend(_waited_out(observation, acted_on(job), verify_until(job), proof_takes(job)))
        for began, end in answers_until(job):
            times.extend(_waited_out(observation, began, end))
        if (again := checks_again_at(job)) is not None:
            times.append(again)
    if job.close_reason is not None and must_switch_on(job):
        times.append(now + 2 * SOON)
    if job.close_reason is CloseReason.SUPERSEDED:
        times.append(await_successor_until(job))
    return max(min((t for t in times if t > now), default=now + SOON), now)


def _waited_out(
    observation: JobObservation,
    began: datetime,
    deadline: datetime,
    report: timedelta = NEXT_REPORT,
) -> list[datetime]:
    """Return the deadline for a missing answer, and when it counts if that is later."""
    counts = counts_from(observation, began, deadline, report)
    return [deadline, max(deadline, observation.now + SOON) if counts is None else counts]


def _step_times(job: Job, observation: JobObservation) -> list[datetime]:
    """Return the times at which the current step must be reconciled."""
    record, what, now, pods = job.record, job.step, observation.now, observation.pods
    if record is None or what is None or record.started_at is None or record.expires_at is None:
        return [now + REQUEUE_AFTER]
    ends = (
        record.expires_at,
        record.expires_at + ANSWER_GRACE,
        record.started_at + what.body.timeout,
    )
    times = [at for end in ends for at in _waited_out(observation, record.started_at, end)]
    if what.wait is not None:
        times.append(
            by_our_clock(observation, record.started_at, record.started_at + what.wait.for_)
        )
    if what.migrate is not None:
        # Pods are listed, not watched, so no event reports that a pod has ended.
        waited = now - record.started_at
        least = CORDONS if pods is not None and pods.cordoning else timedelta(seconds=1)
        times.append(now + min(max(waited / 8, least), SOON))
        if pods is not None and pods.at is not None:
            times.append(pods.at)
    if STEPS[what.name].polled and (record.by is not StepBy.AGENT or record.asked_at is None):
        # Providers send no event when a request is done, so they are polled.
        waited = now - record.started_at
        times.append(now + min(max(waited / 8, timedelta(seconds=2)), 3 * SOON))
    return times
