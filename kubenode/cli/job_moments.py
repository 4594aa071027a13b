"""The timeline of a job, from the object, its Events and the audit log. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import RemedyOperationJob
from kubenode.api.v1alpha1.remedyoperationjob import StepBy, StepState, StepStatus
from kubenode.cli.lengths import length

CLOSING = "Closing"
QUIET = frozenset({"AddFinalizer", "RemoveFinalizer", "NoteRequest", "RenewPermit", "AskPermit"})
"""Acts in the audit log that are of no interest to a person."""
COVERED_PREFIXES = ("Step ", "Phase", "Close")
AFTER_STEPS = (6, 0)
AT_ONCE = timedelta(seconds=1)
"""If a step sends its request within this time, the timeline shows only the request."""


@dataclass(frozen=True, slots=True)
class JobMoment:
    """An entry of the timeline.

    what: a sentence.
    why: the reason, shown beside it; "" for none.
    source: object, event or audit.
    """

    at: datetime
    what: str
    why: str = ""
    source: str = "object"
    order: tuple[int, int] = field(default=(0, 0), compare=False)
    """Order among entries of the same instant: kind, then position."""

    def to_json(self) -> dict[str, Any]:
        return {
            "at": format_time(self.at),
            "what": self.what,
            "why": self.why,
            "source": self.source,
        }


@dataclass(frozen=True, slots=True)
class JobEventSummary:
    """A Kubernetes Event of the job, with its first and last occurrence."""

    reason: str
    message: str
    first: datetime
    last: datetime
    count: int = 1


@dataclass(frozen=True, slots=True)
class Beside:
    """Sources about a job beside the object itself.

    audit: audit lines of the job; None if no audit log was given.
    """

    events: Sequence[JobEventSummary] = ()
    audit: Sequence[Mapping[str, Any]] | None = None

    @property
    def sources(self) -> tuple[str, ...]:
        more = (("events", bool(self.events)), ("audit", self.audit is not None))
        return ("object", *(name for name, there in more if there))

    def find_hold_start(self, reason: str) -> datetime | None:
        """Return the start of the current hold, from the audit log or Events; None if neither has
        it.
        """
        lines = [line for line in self.audit or () if line.get("what") in ("Hold", "Phase")]
        if lines and (lines[-1].get("what"), lines[-1].get("after")) == ("Hold", reason):
            return _read(lines[-1].get("at"))
        hold_events = [
            e for e in self.events if e.reason == "JobHeld" and f" {reason}:" in e.message
        ]
        return max((e.first for e in hold_events), default=None)


def moments(job: RemedyOperationJob, beside: Beside) -> list[JobMoment]:
    entries = [*_timeline(job), *_steps(job), *_list_decisions(job), *_ending(job)]
    if beside.audit is not None:
        entries += _audited(beside.audit)
    else:
        entries += [
            JobMoment(e.first, _describe_hold(e), _times(e), "event", AFTER_STEPS)
            for e in beside.events
            if e.reason == "JobHeld"
        ]
    return sorted(entries, key=lambda m: (m.at, m.order))


# -- the object ----------------------------------------------------------------------------------


def _timeline(job: RemedyOperationJob) -> Iterator[JobMoment]:
    line = job.status.timeline
    created = line.job_created or job.metadata.creation_timestamp
    permit = job.status.permit
    named = f" {permit.name}, class {permit.class_}" if permit is not None else ""
    each = (
        (job.spec.trigger.first_true, "the fault is seen", 0),
        (created, "the job is made", 1),
        (line.permit_granted, f"Kube Defender grants a permit{named}", 2),
        (line.acted, "the rung is done; proof is awaited", 7),
        (line.verified, "the fault is proven gone", 8),
        (line.closed, f"the job is over: {job.status.phase}", 10),
    )
    for at, what, order in each:
        if at is not None:
            yield JobMoment(at, what, order=(order, 0))


def _steps(job: RemedyOperationJob) -> Iterator[JobMoment]:
    for place, record in enumerate(job.status.steps):
        name = _named(job, record)
        tries = f", attempt {record.attempts}" if record.attempts > 1 else ""
        began, requested_at = record.started_at, record.asked_at
        if began is not None and (requested_at is None or requested_at - began > AT_ONCE):
            yield JobMoment(began, f"{name} begins{tries}", order=(3, 4 * place))
        if requested_at is not None:
            yield JobMoment(
                requested_at, f"{name}: {_describe_request(record)}", order=(3, 4 * place + 1)
            )
        if (answer := _answer(job, record)) is not None:
            yield replace(answer, order=(3, 4 * place + 2))
        if record.finished_at is not None:
            state = _ENDED.get(record.state, f"ends: {record.state}")
            text = f"{name} {state}"
            yield JobMoment(record.finished_at, text, record.message, order=(3, 4 * place + 3))


_ENDED = {
    StepState.DONE: "is done",
    StepState.FAILED: "fails",
    StepState.SKIPPED: "is skipped",
    StepState.CANCELLED: "is cancelled",
    StepState.WAITING: "gives way, and begins again later",
}


def _named(job: RemedyOperationJob, record: StepStatus) -> str:
    ladder = job.spec.ladder
    if record.rung >= len(ladder):
        return f"rung {record.rung}, {record.name}"
    rung = ladder[record.rung]
    name = record.name
    if record.index < len(rung.steps) and (agent := rung.steps[record.index].agent) is not None:
        name = " ".join(filter(None, (agent.action, agent.unit, agent.check, agent.script)))
    return f"{rung.name}: {name}"


def _describe_request(record: StepStatus) -> str:
    whom = {StepBy.AGENT: "the agent", StepBy.PROVIDER: "the provider"}
    who = whom.get(record.by, "the operator")
    boot = record.boot_id or "unknown"
    until = f", until {record.expires_at:%H:%M:%S}" if record.expires_at is not None else ""
    return f"{who} is asked, request {record.request_id}, boot ID {boot}{until}"


def _answer(job: RemedyOperationJob, record: StepStatus) -> JobMoment | None:
    """Return the agent's final answer to the step's request, None if there is none."""
    agent = job.status.agent
    answer = agent.requests.get(record.request_id) if agent is not None else None
    if answer is None or answer.finished_at is None:
        return None
    code = f", code {answer.code}" if answer.code is not None else ""
    boot = f", boot ID {answer.boot_id}" if answer.boot_id else ""
    what = f"the agent answers {record.request_id}: {answer.state}{code}{boot}"
    return JobMoment(answer.finished_at, what)


def _list_decisions(job: RemedyOperationJob) -> Iterator[JobMoment]:
    for n, word in enumerate(job.spec.approvals):
        if word.at is None:
            continue
        rung = f" (rung {word.rung})" if word.rung is not None else ""
        unheard = "" if n < job.status.words_heard else "; not heard yet"
        text = f"{word.by or 'nobody'} says {word.decision}{rung}{unheard}"
        yield JobMoment(word.at, text, word.note, order=(2, 1))


def _ending(job: RemedyOperationJob) -> Iterator[JobMoment]:
    for condition in job.status.conditions:
        if condition.type == CLOSING:
            what = f"it is decided to end: {condition.reason}"
            yield JobMoment(condition.last_transition_time, what, condition.message, order=(9, 0))


# -- Events and audit lines ----------------------------------------------------------------------


def _describe_hold(event: JobEventSummary) -> str:
    """Return the message of the hold without the name of the node, which begins the Event's
    message.
    """
    return f"held: {event.message.partition(': ')[2] or event.message}"


def _times(event: JobEventSummary) -> str:
    if event.count < 2:
        return ""
    return f"{event.count} times in {length(event.last - event.first)}"


def _audited(lines: Sequence[Mapping[str, Any]]) -> Iterator[JobMoment]:
    for line in lines:
        what, at = str(line.get("what", "")), _read(line.get("at"))
        if at is None or what in QUIET or what.startswith(COVERED_PREFIXES):
            continue
        outcome, who = line.get("outcome", ""), line.get("who", "")
        by, why = line.get("by", ""), str(line.get("why", ""))
        after = f" {line['after']}" if line.get("after") else ""
        if by == "webhook":
            continue  # of an earlier version: a review that anybody may have sent
        if by == "remedy" and not str(who).startswith("kubenode-"):
            continue  # as above
        if what == "Hold":
            text = f"held:{after}"
        elif by == "defender":
            text = f"Kube Defender answers: {outcome}{after}"
        else:
            text = f"{what}{after}: {outcome}"
        yield JobMoment(at, text, why, "audit", AFTER_STEPS)


def _read(text: Any) -> datetime | None:
    try:
        at = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
