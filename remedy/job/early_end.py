"""Early end of a rung: skips disruptive steps when the rung has already healed the node. Pure.

A rung that has begun continues although its evidence is gone, since its acts may need the remaining
steps. If they do not, a disruptive step is skipped once the fault is proven gone by reports made
since the last act: after a restart of the operator the first step may have healed the node
meanwhile. Once a step is skipped, all later disruptive steps are, so that no step runs without the
one before it.
"""

from kubenode.api.v1alpha1 import Disruption, Step
from kubenode.api.v1alpha1.ladder import AgentAction, Remainder, list_steps
from kubenode.api.v1alpha1.remedyoperationjob import StepState, StepStatus
from remedy.job.model import Job, JobObservation
from remedy.job.records import begun
from rules.truth import Truth

HARMLESS = list_steps(lambda kind: kind.remainder is Remainder.NOTHING)
"""Steps that change nothing on the host and leave nothing under way, however they ended."""
WHOLE = HARMLESS | list_steps(lambda kind: kind.remainder is Remainder.COMPLETE)
"""Steps that need no later step once they are done."""
OTHERS = list_steps(lambda kind: kind.remainder is Remainder.OTHERS)
"""Steps by which other systems act on the node."""
WHOLE_ACTIONS = frozenset(
    {
        AgentAction.RUN_CHECK,
        AgentAction.RESTART_UNIT,
        AgentAction.START_UNIT,
        AgentAction.RELOAD_UNIT,
        AgentAction.RESTART_NETWORK,
    }
)
"""Agent actions that need no later step: they only check, or their unit or network runs with fresh
state afterwards. The others stop something (StopUnit, KillProcess), change what a later restart
loads (certificates, modules, packages, file systems, disks, the clock) or have unknown effects
(RunScript).
"""
SPARED = "not needed: the fault is gone, proven by reports made since the last act of this rung"
"""Message of a skipped step."""


def spared(job: Job, observation: JobObservation) -> bool:
    """Report whether the current step is skipped: it disrupts, and has done nothing yet."""
    step, record = job.step, job.running_record
    if step is None or step.disruption is Disruption.NONE or not begun(job):
        return False
    if record is not None and not _untouched(step, record):
        return False
    if any(r.state is StepState.SKIPPED for r in _records(job)):
        return True
    gone = observation.fresh and observation.fault.gone is Truth.TRUE
    return gone and not job.rung.verify.checks and _complete(job)


def _complete(job: Job) -> bool:
    """Report whether nothing that this rung did, or lets other systems do, needs another of its
    steps.
    """
    steps = job.rung.steps
    return not any(step.name in OTHERS for step in steps) and all(
        _needs_no_more(steps[record.index], record) for record in _records(job)
    )


def _needs_no_more(step: Step, record: StepStatus) -> bool:
    """Report whether the step needs no later step. A waiting record is from an earlier round of the
    rung, and what it did is done.
    """
    if record.state is StepState.FAILED:
        return step.name in HARMLESS or _is_check(step)
    return whole(step)


def _untouched(step: Step, record: StepStatus) -> bool:
    """Report whether a step under way has sent no request yet."""
    asks = step.irreversible and step.name != "fence"
    return asks and record.asked_at is None and not record.output


def whole(step: Step) -> bool:
    """Report whether the step needs no later step once it is done."""
    if step.agent is not None:
        return step.agent.action in WHOLE_ACTIONS
    return step.name in WHOLE


def _is_check(step: Step) -> bool:
    """Report whether the step is an agent's check."""
    return step.agent is not None and step.agent.action is AgentAction.RUN_CHECK


def _records(job: Job) -> list[StepStatus]:
    """Return the records of this rung's steps that are not running."""
    return [
        r
        for r in job.status.steps
        if r.rung == job.status.rung
        and r.index < len(job.rung.steps)
        and r.state is not StepState.RUNNING
    ]
