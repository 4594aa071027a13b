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
from remedy.job.moves import LOOK_AGAIN, SETTLES
from remedy.job.permits import ask_again_at, renew_at
from remedy.job.power_record import left_off
from remedy.job.silence import by_our_clock, counts_from
from remedy.job.steps.agent import ANSWER_GRACE
from remedy.job.steps.provider_request import POLLED
from remedy.job.supersession import hand_over_until
from remedy.job.verification import acted_on, proof_takes, verify_until

CORDONS = timedelta(seconds=3)
"""Least time between two reads of the pods while other jobs are about to cordon their nodes:
nothing is evicted then, and reading takes capacity that those jobs need.
"""


def look_again_at(job: Job, seen: JobObservation) -> datetime | None:
    """Return when the job must be reconciled even if nothing changes; None for never."""
    now, status = seen.now, job.status
    if job.phase.closed:
        if status.timeline.closed is None:
            return None
        ends = status.timeline.closed + job.spec.ttl_after_finished
        return ends if ends > now else None
    times = [now + LATE]
    if status.hold is not None and status.hold.look_again_at is not None:
        times.append(status.hold.look_again_at)
    if unbegun(job) and (begins := begins_at(job, seen)) is not None:
        times.append(begins)
    if job.phase is JobPhase.AWAITING_PERMIT:
        heard = seen.heard
        if heard is not None and heard.act is JobAct.ASK_PERMIT:
            times.append(ask_again_at(job, now, heard.verdict))
        elif status.hold is not None:
            times.append(now + LOOK_AGAIN)
    if job.phase is JobPhase.AWAITING_APPROVAL:
        began = min(job.created, now)
        times.extend(_waited_out(seen, began, began + job.spec.approval.expires_after))
    if (
        job.phase in (JobPhase.RUNNING, JobPhase.VERIFYING)
        and status.permit
        and status.permit.expires_at
    ):
        times.append(renew_at(job))
    settles = job.phase in (JobPhase.RUNNING, JobPhase.AWAITING_PERMIT) or unbegun(job)
    if settles and status.evidence_false_since:
        since = status.evidence_false_since
        times.append(by_our_clock(seen, since, since + SETTLES))
    if job.phase is JobPhase.RUNNING:
        times.extend(_step_times(job, seen))
    if job.phase in (JobPhase.VERIFYING, JobPhase.NEEDS_HUMAN):
        if status.evidence_false_since is not None:
            since = status.evidence_false_since
            times.append(by_our_clock(seen, since, since + job.rung.verify.for_))
        times.extend(_waited_out(seen, acted_on(job), verify_until(job), proof_takes(job)))
        for began, end in answers_until(job):
            times.extend(_waited_out(seen, began, end))
        if (again := checks_again_at(job)) is not None:
            times.append(again)
    if job.close_reason is not None and left_off(job):
        times.append(now + 2 * SOON)
    if job.close_reason is CloseReason.SUPERSEDED:
        times.append(hand_over_until(job))
    return max(min((t for t in times if t > now), default=now + SOON), now)


def _waited_out(
    seen: JobObservation, began: datetime, deadline: datetime, report: timedelta = NEXT_REPORT
) -> list[datetime]:
    """Return the deadline for a missing answer, and when it counts if that is later."""
    counts = counts_from(seen, began, deadline, report)
    return [deadline, max(deadline, seen.now + SOON) if counts is None else counts]


def _step_times(job: Job, seen: JobObservation) -> list[datetime]:
    """Return the times at which the current step must be reconciled."""
    record, what, now, pods = job.record, job.step, seen.now, seen.pods
    if record is None or what is None or record.started_at is None or record.expires_at is None:
        return [now + LOOK_AGAIN]
    ends = (
        record.expires_at,
        record.expires_at + ANSWER_GRACE,
        record.started_at + what.body.timeout,
    )
    times = [at for end in ends for at in _waited_out(seen, record.started_at, end)]
    if what.wait is not None:
        times.append(by_our_clock(seen, record.started_at, record.started_at + what.wait.for_))
    if what.migrate is not None:
        # Pods are listed, not watched, so no event reports that a pod has ended.
        waited = now - record.started_at
        least = CORDONS if pods is not None and pods.cordoning else timedelta(seconds=1)
        times.append(now + min(max(waited / 8, least), SOON))
        if pods is not None and pods.at is not None:
            times.append(pods.at)
    if what.name in POLLED and (record.by is not StepBy.AGENT or record.asked_at is None):
        # Providers send no event when a request is done, so they are polled.
        waited = now - record.started_at
        times.append(now + min(max(waited / 8, timedelta(seconds=2)), 3 * SOON))
    return times
