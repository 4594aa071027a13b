"""Kubernetes Events that a job emits: one for each change of phase, new hold and unfit decision."""

from dataclasses import dataclass

from kubenode.api.v1alpha1 import JobPhase
from remedy.job.decisions import DECISION_ANSWER
from remedy.job.model import Job

WARN = frozenset({JobPhase.NEEDS_HUMAN, JobPhase.FAILED})
"""Phases that are reported with an Event of type Warning."""


@dataclass(frozen=True, slots=True)
class JobEvent:
    type: str
    reason: str
    message: str


def build_event(before: Job, after: Job) -> JobEvent | None:
    """Return the Event for the change from `before` to `after`; None if it needs none."""
    if after.phase is not before.phase:
        kind = "Warning" if after.phase in WARN else "Normal"
        about = f"node {after.spec.node_name}: {after.status.message}".rstrip(": ")
        return JobEvent(kind, f"Job{after.phase}", about)
    if after.status.words_heard > before.status.words_heard:
        answer = after.condition(DECISION_ANSWER)
        if answer is not None and answer is not before.condition(DECISION_ANSWER):
            about = f"node {after.spec.node_name}: {answer.message}"
            return JobEvent("Warning", "JobWordChangesNothing", about)
    old, new = before.status.hold, after.status.hold
    if new is None or (old is not None and (old.reason, old.message) == (new.reason, new.message)):
        return None
    return JobEvent(
        "Normal", "JobHeld", f"node {after.spec.node_name}: {new.reason}: {new.message}"
    )
