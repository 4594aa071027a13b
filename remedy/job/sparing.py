"""Whether the rest of a rung is spared a node that the rung has healed. Pure.

A rung that has begun goes on although its evidence has gone, as what it did may need its other
steps. Where it has done nothing of that kind, a step that disrupts is skipped once the fault is
proven gone by reports made since the last act: the operator may have died in between, and a minute
later the first restart has healed the node. Once one was skipped all are, so that nothing follows
without what was to come before it.
"""

from kubenode.api.v1alpha1 import Disruption, Step
from kubenode.api.v1alpha1.ladder import AgentAction
from kubenode.api.v1alpha1.remedyoperationjob import StepState, StepStatus
from remedy.job.model import Job, JobObservation
from remedy.job.records import begun
from rules.truth import Truth

LOOKS = frozenset({"collect", "notify", "label", "annotate", "wait", "waitForApproval", "uncordon"})
"""Steps that do nothing to the host and leave nothing under way, however they ended."""
WHOLE = LOOKS | {"cordon", "migrate", "reboot", "powerCycle", "powerOn"}
"""Steps that are complete in themselves once they are done: the job itself takes off a cordon, and
after a boot all on the host runs anew. The others are not: powerOff, fence and replace leave a
machine dark or gone, rollbackComponent changes what a later restart takes up.
"""
OTHERS = frozenset({"waitForEvent", "approveEvent", "webhook", "createObject"})
"""Steps by which others act on the node: nobody knows what they leave to the rest of the rung."""
WHOLE_ACTIONS = frozenset(
    {
        AgentAction.RUN_CHECK,
        AgentAction.RESTART_UNIT,
        AgentAction.START_UNIT,
        AgentAction.RELOAD_UNIT,
        AgentAction.RESTART_NETWORK,
    }
)
"""Of an agent: after these, what they were about runs, and anew. All others take something away
(StopUnit, KillProcess), or change what a later restart takes up (certificates, modules, packages,
file systems, disks, the clock), or do who knows what (RunScript).
"""
SPARED = "not needed: the fault is gone, proven by reports made since the last act of this rung"


def spared(job: Job, seen: JobObservation) -> bool:
    """Whether the step that disrupts, and has done nothing yet, is left out."""
    step, record = job.step, job.under_way
    if step is None or step.disruption is Disruption.NONE or not begun(job):
        return False
    if record is not None and not _untouched(step, record):
        return False
    if any(r.state is StepState.SKIPPED for r in _records(job)):
        return True
    gone = seen.fresh and seen.fault.gone is Truth.TRUE
    return gone and not job.rung.verify.checks and _complete(job)


def _complete(job: Job) -> bool:
    """Whether nothing that this rung did, or lets others do, waits for another of its steps."""
    steps = job.rung.steps
    return not any(step.name in OTHERS for step in steps) and all(
        _left_nothing(steps[record.index], record) for record in _records(job)
    )


def _left_nothing(step: Step, record: StepStatus) -> bool:
    """A record that waits is of an earlier round of the rung: what it did is done."""
    if record.state is StepState.FAILED:
        return step.name in LOOKS or _only_looks(step)
    return whole(step)


def _untouched(step: Step, record: StepStatus) -> bool:
    """Whether a step under way has asked nobody for anything yet."""
    asks = step.irreversible and step.name != "fence"
    return asks and record.asked_at is None and not record.output


def whole(step: Step) -> bool:
    if step.agent is not None:
        return step.agent.action in WHOLE_ACTIONS
    return step.name in WHOLE


def _only_looks(step: Step) -> bool:
    return step.agent is not None and step.agent.action is AgentAction.RUN_CHECK


def _records(job: Job) -> list[StepStatus]:
    """Of this rung's steps that are over."""
    return [
        r
        for r in job.status.steps
        if r.rung == job.status.rung
        and r.index < len(job.rung.steps)
        and r.state is not StepState.RUNNING
    ]
