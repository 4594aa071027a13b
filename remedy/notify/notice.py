"""Notices about jobs: facts for people, and what they can do next. Pure.

The same change of the same job has the same `id` in every process, so a receiver can recognize a
duplicate.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import JobPhase
from kubenode.api.v1alpha1.noderemedier import Severity
from remedy.job.model import Job

STEP, SUPPRESSED = "Step", "Suppressed"
"""Kinds of notices besides the phases of a job: a step `notify` or `webhook`, and a summary."""


@dataclass(frozen=True, slots=True)
class JobNotice:
    """A notice.

    kind: a phase of the job, STEP or SUPPRESSED
    happened: one sentence
    hold_message: why the job waits, "" if it does not
    commands: commands that a person can use next, exactly as typed
    """

    id: str
    kind: str
    at: datetime
    severity: Severity = Severity.WARNING
    job: str = ""
    job_uid: str = ""
    node: str = ""
    rule: str = ""
    fault_class: str = ""
    mode: str = ""
    phase: str = ""
    rung: str = ""
    happened: str = ""
    hold_message: str = ""
    explanation: str = ""
    deadline: datetime | None = None
    commands: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    """For a summary: how many notices of each kind it replaces."""

    def to_dict(self) -> dict[str, Any]:
        """Return the form for programs: JSON types, camelCase, without empty values."""
        document: dict[str, Any] = {
            "id": self.id,
            "kind": self.kind,
            "at": format_time(self.at),
            "severity": str(self.severity),
            "job": self.job,
            "node": self.node,
            "rule": self.rule,
            "faultClass": self.fault_class,
            "mode": self.mode,
            "phase": self.phase,
            "rung": self.rung,
            "happened": self.happened,
            "held": self.hold_message,
            "explanation": self.explanation,
            "deadline": format_time(self.deadline) if self.deadline is not None else "",
            "commands": list(self.commands),
            "counts": dict(self.counts),
        }
        return {key: value for key, value in document.items() if value not in ("", [], {})}


def level(job: Job) -> str:
    """Return the job's state as one word, which changes only when there is something new to notify
    about.

    Only a person's decision leads a job out of a phase that waits for people, and rungs only
    increase.
    """
    status = job.status
    return f"{status.phase}.{status.rung}.{status.words_heard}"


def of_phase(job: Job, at: datetime) -> JobNotice:
    """Return the notice that the job has entered its phase."""
    return _notice(job, f"{job.uid}.{level(job)}", str(job.phase), at, job.status.message)


def of_step(job: Job, message: str, at: datetime) -> JobNotice:
    """Return the notice of the current step; it is the same when an attempt is repeated."""
    record = job.record
    number = (record.rung, record.index, record.attempts) if record is not None else (0, 0, 0)
    name = ".".join(str(part) for part in (job.uid, STEP, *number))
    return _notice(job, name, STEP, at, message or f"fault {job.spec.fault_class}")


def _notice(job: Job, id_: str, kind: str, at: datetime, happened: str) -> JobNotice:
    spec, status = job.spec, job.status
    return JobNotice(
        id=id_,
        kind=kind,
        at=at,
        severity=spec.severity,
        job=job.name,
        job_uid=job.uid,
        node=spec.node_name,
        rule=spec.remedier.name if spec.remedier is not None else "",
        fault_class=spec.fault_class,
        mode=str(spec.mode),
        phase=str(status.phase),
        rung=job.rung.name,
        happened=happened or str(status.phase),
        hold_message=status.hold.message if status.hold is not None else "",
        explanation=spec.trigger.explanation,
        deadline=spec.deadline,
        commands=commands(job),
    )


def commands(job: Job) -> tuple[str, ...]:
    """Return what a person can type now. The first command explains, the others decide."""
    name = job.name
    explain = f"kubenode explain job {name}"
    match job.phase:
        case JobPhase.AWAITING_APPROVAL:
            return explain, f"kubenode approve {name}", f"kubenode deny {name}"
        case JobPhase.NEEDS_HUMAN:
            following = job.status.rung + 1 < len(job.spec.ladder)
            on = (f"kubenode job next {name}",) if following else ()
            return explain, *on, f"kubenode job retry {name}", f"kubenode job close {name}"
        case JobPhase.RUNNING if _asks(job):
            return explain, f"kubenode approve {name}", f"kubenode deny {name}"
        case phase if phase.closed:
            return (explain,)
        case _:
            return explain, f"kubenode job cancel {name}"


def _asks(job: Job) -> bool:
    """Report whether this rung waits for a person's approval now or in its next step."""
    steps = job.rung.steps[job.status.step : job.status.step + 2]
    return any(step.wait_for_approval is not None for step in steps)


SEVERITIES = (Severity.INFO, Severity.WARNING, Severity.CRITICAL)


def severe(severity: Severity, least: Severity) -> bool:
    return SEVERITIES.index(severity) >= SEVERITIES.index(least)
