"""Audit lines of jobs: every act, refusal and change of phase, each once.

Decisions of people are logged from the stored job when they are handled, as admission signed them.
A repeated refusal is logged when it begins and when its reason changes, as the job's hold. A line
holds our own names and sentences, never what a host printed or an object contains.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kubenode.api.names import list_first
from kubenode.api.v1alpha1.remedyoperationjob import StepState, StepStatus
from kubenode.runtime.audit import SILENT, Audit, AuditLine
from kubenode.runtime.clock import Clock, SystemClock
from kubenode.runtime.kube.errors import KubeError, ServerUnreachable
from remedy.job.model import CLOSING, Act, CloseReason, Job, JobActResult

PART, WHO = "remedy", "kubenode-remedy"
DONE, FAILED, REFUSED, GRANTED = "Done", "Failed", "Refused", "Granted"
BEGUN, UNKNOWN = "Begun", "Unknown"
PODS_NAMED = 20
"""Most evicted pods that a line names."""
OUTPUT_PREFIX = 8
"""Number of first characters by which a host's output is recognized in a sentence; shorter output
is not treated as secret.
"""
UNSIGNED = "nobody"
"""Name of the person where admission does not sign who cancels a job."""
REDACTED = "(what the host printed)"
"""Replaces the output of a host in a sentence."""
_OF_STATE = {
    StepState.RUNNING: BEGUN,
    StepState.DONE: DONE,
    StepState.FAILED: FAILED,
    StepState.SKIPPED: DONE,
    StepState.CANCELLED: DONE,
    StepState.WAITING: BEGUN,
}


@dataclass(slots=True)
class Acting:
    """Result of an act; the caller that does the act sets `result`."""

    result: JobActResult | None = None


@dataclass(frozen=True, slots=True)
class JobAudit:
    """Writes audit lines for jobs."""

    audit: Audit = SILENT
    clock: Clock = field(default_factory=SystemClock)

    def saved(self, before: Job, after: Job) -> None:
        """Log the written change from `before` to `after`."""
        if self.audit is SILENT:
            return
        for line in self._changes(before, after):
            self.audit.write(line)

    @contextmanager
    def acting(self, job: Job, what: Act) -> Iterator[Acting]:
        """Log one act and its outcome. An exception is logged and raised again."""
        acting = Acting()
        try:
            yield acting
        except KubeError as error:
            outcome = UNKNOWN if isinstance(error, ServerUnreachable) else FAILED
            self._write(job, what, outcome, str(error))
            raise
        except BaseException as error:
            self._write(job, what, UNKNOWN, f"{type(error).__name__}: it may have happened")
            raise
        outcome, why, after = _came_of(acting.result)
        if outcome != REFUSED:
            self._write(job, what, outcome, why, after=after)

    # -- lines ---------------------------------------------------------------------------------

    def _changes(self, before: Job, after: Job) -> Iterator[AuditLine]:
        if before.status.timeline.job_created is None and after.started_by:
            yield self._line(after, "Start", DONE, who=after.started_by)
        for n in range(before.status.words_heard, after.status.words_heard):
            word = after.spec.approvals[n] if n < len(after.spec.approvals) else None
            if word is not None:
                yield self._line(after, word.decision, DONE, word.note, who=word.by)
        yield from self._steps(before, after)
        old, new = before.status.hold, after.status.hold
        if new is not None and (old is None or (old.reason, old.scope) != (new.reason, new.scope)):
            was = old.reason if old is not None else ""
            yield self._line(after, "Hold", REFUSED, new.message, was, new.reason)
        if before.close_reason is None and after.close_reason is not None:
            ending = after.condition(CLOSING)
            why = ending.message if ending is not None else ""
            if after.close_reason is CloseReason.PERSON_CANCELLED:
                yield self._line(after, "Cancel", DONE, who=after.cancelled_by or UNSIGNED)
            yield self._line(after, "Close", DONE, why, after=after.close_reason)
        if before.phase is not after.phase:
            why = after.status.message
            yield self._line(after, "Phase", DONE, why, str(before.phase), str(after.phase))

    def _steps(self, before: Job, after: Job) -> Iterator[AuditLine]:
        if before.status.steps is after.status.steps:
            return
        old = {(r.rung, r.index): r for r in before.status.steps}
        for record in after.status.steps:
            was = old.get((record.rung, record.index))
            if was is None or (was.state, was.attempts) != (record.state, record.attempts):
                yield self._step(after, record, was)

    def _step(self, job: Job, record: StepStatus, was: StepStatus | None) -> AuditLine:
        before = str(was.state) if was is not None else ""
        what = f"Step {record.rung}.{record.index} {record.name}"
        outcome = _OF_STATE[record.state]
        return self._line(
            job, what, outcome, record.message, before, str(record.state), record.request_id
        )

    def _write(self, job: Job, what: Act, outcome: str, why: str, *, after: str = "") -> None:
        if self.audit is SILENT:
            return
        request = job.record.request_id if job.record is not None else ""
        self.audit.write(self._line(job, what, outcome, why, "", after, request))

    def _line(
        self,
        job: Job,
        what: str,
        outcome: str,
        why: str = "",
        before: str = "",
        after: str = "",
        request_id: str = "",
        who: str = WHO,
    ) -> AuditLine:
        return AuditLine(
            at=self.clock.now(),
            by=PART,
            who=who,
            what=str(what),
            outcome=outcome,
            why=without_output(job, why),
            job=job.name,
            node=job.spec.node_name,
            request_id=request_id,
            before=before,
            after=str(after),
        )


def without_output(job: Job, text: str) -> str:
    """Return `text` up to the output of a host, which may hold a secret."""
    agent = job.status.agent
    for answer in agent.requests.values() if agent is not None else ():
        printed = answer.output[:OUTPUT_PREFIX]
        if len(printed) == OUTPUT_PREFIX and printed in text:
            text = f"{text.partition(printed)[0]}{REDACTED}"
    return text


def _came_of(result: JobActResult | None) -> tuple[str, str, str]:
    """Return the outcome, the reason and the new state, such as the permit's name."""
    if result is None:
        return DONE, "", ""
    if result.error:
        return FAILED, result.error, ""
    if result.verdict is not None:
        if result.verdict.allowed:
            return GRANTED, "", result.verdict.permit
        return REFUSED, result.verdict.message, str(result.verdict.reason)
    if result.evicted:
        return DONE, "", list_first(result.evicted, PODS_NAMED)
    if result.blocked is not None:
        return REFUSED, result.blocked.message, result.blocked.pod
    return DONE, "", ""
