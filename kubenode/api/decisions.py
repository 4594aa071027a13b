"""Decisions of people that a job accepts in its current state. Pure.

The dashboard, the command line and admission call the same functions, so that they accept the same
decisions. A job is passed as a mapping, as the API server stores it.
"""

from collections.abc import Mapping
from typing import Any, Literal

from kubenode.api.v1alpha1.remedyoperationjob import JobPhase

Decision = Literal["Approve", "Deny", "Next", "Retry", "Close"]
DECISIONS: tuple[Decision, ...] = ("Approve", "Deny", "Next", "Retry", "Close")
LEADING_OUT: tuple[Decision, ...] = ("Next", "Retry", "Close")
"""Decisions that end the phase NeedsHuman."""
MOST_DECISIONS = 16
STARTED_BY = "kubenode.io/started-by"
"""Annotation on a job: user who started it, if no rule did. Set by admission."""
CANCELLED_BY = "kubenode.io/cancelled-by"
"""Annotation on a job: user who set `spec.cancel`. Set by admission."""

ACCEPTED_DECISIONS: Mapping[JobPhase, tuple[Decision, ...]] = {
    JobPhase.AWAITING_APPROVAL: ("Approve", "Deny"),
    JobPhase.AWAITING_PERMIT: ("Deny",),
    JobPhase.NEEDS_HUMAN: LEADING_OUT,
}
WAITS_FOR: Mapping[Decision, str] = {
    "Approve": "waits for approval",
    "Deny": "waits for approval or a permit",
    "Next": "is NeedsHuman",
    "Retry": "is NeedsHuman",
    "Close": "is NeedsHuman",
}


def phase_of(job: Mapping[str, Any]) -> JobPhase:
    """Return the phase. Pending for a job without status and for an unknown phase."""
    try:
        return JobPhase((job.get("status") or {}).get("phase") or JobPhase.PENDING)
    except ValueError:
        return JobPhase.PENDING


def hears(job: Mapping[str, Any]) -> tuple[Decision, ...]:
    """Return the decisions that the job accepts now, in the order in which they are offered."""
    phase = phase_of(job)
    if phase is JobPhase.RUNNING and _step_asks(job):
        return ("Approve", "Deny")
    if phase is JobPhase.AWAITING_PERMIT and _rung_deletes(job):
        return ("Approve", "Deny")
    return ACCEPTED_DECISIONS.get(phase, ())


def unheard(job: Mapping[str, Any], decision: Decision, rung: int | None = None) -> str:
    """Return why the job does not accept `decision`, "" if it does. `rung` applies to Next only."""
    if decision not in hears(job):
        return f"{decision} is for a job that {WAITS_FOR[decision]}; it is {phase_of(job)}"
    if decision != "Next":
        return "" if rung is None else f"rung {rung}: only Next names a rung; {decision} takes none"
    last = len(job["spec"]["ladder"]) - 1
    if rung is not None:
        return "" if 0 <= rung <= last else f"rung {rung}: the ladder has the rungs 0 to {last}"
    follows = (job.get("status") or {}).get("rung", 0) < last
    return "" if follows else "no rung follows: name one (--rung), or close the job"


def _rung_deletes(job: Mapping[str, Any]) -> bool:
    """Return whether the drain of the rung may delete, after approval, pods that PDBs protect."""
    try:
        steps = job["spec"]["ladder"][(job.get("status") or {}).get("rung", 0)]["steps"]
    except (KeyError, IndexError):
        return False
    return any((step.get("migrate") or {}).get("onTimeout") == "Delete" for step in steps)


def _step_asks(job: Mapping[str, Any]) -> bool:
    """Return whether the current step waits for a decision."""
    status = job.get("status") or {}
    try:
        step = job["spec"]["ladder"][status.get("rung", 0)]["steps"][status.get("step", 0)]
    except (KeyError, IndexError):
        return False
    return "waitForApproval" in step or (step.get("migrate") or {}).get("onTimeout") == "Delete"
