"""The rung under way: which step begins, and when all are done. Each step has its own module in
`remedy.job.steps`. Pure.
"""

from collections.abc import Callable
from datetime import datetime

from kubenode.api.v1alpha1 import Disruption, JobPhase, Step
from kubenode.api.v1alpha1.remedyoperationjob import StepBy, StepState, StepStatus
from remedy.job.early_end import SPARED, spared
from remedy.job.marks import protect
from remedy.job.model import (
    ACTED,
    Job,
    JobAct,
    JobObservation,
    NodeObservation,
    binding,
    unsupported_step,
)
from remedy.job.moves import Move, enter, healed, may, reset_false_since, set_condition, stands
from remedy.job.records import ask, begun, ended, failed, put
from remedy.job.steps.agent import agent
from remedy.job.steps.approval import wait_for_approval
from remedy.job.steps.collect import collect
from remedy.job.steps.cordon import cordon
from remedy.job.steps.events import approve_event, wait_for_event
from remedy.job.steps.fence import fence
from remedy.job.steps.handover import create_object, webhook
from remedy.job.steps.migrate import migrate
from remedy.job.steps.power import power_cycle, power_off, power_on
from remedy.job.steps.reboot import reboot
from remedy.job.steps.replace import replace
from remedy.job.steps.rollback import rollback_component
from remedy.job.steps.small import small, wait

Going = Callable[[Job, JobObservation, NodeObservation, Step, StepStatus], Move]
"""How a step that has begun goes on: (job, seen, node, step, its record) -> Move."""

STEPS: dict[str, Going] = {
    "cordon": cordon,
    "uncordon": small,
    "migrate": migrate,
    "agent": agent,
    "collect": collect,
    "wait": wait,
    "notify": small,
    "label": small,
    "annotate": small,
    "reboot": reboot,
    "powerOff": power_off,
    "powerOn": power_on,
    "powerCycle": power_cycle,
    "fence": fence,
    "replace": replace,
    "rollbackComponent": rollback_component,
    "waitForEvent": wait_for_event,
    "waitForApproval": wait_for_approval,
    "approveEvent": approve_event,
    "webhook": webhook,
    "createObject": create_object,
}


GONE = NodeObservation()
"""Passed to steps of a job that replaced its node, for which `seen.node` is None."""


def running(job: Job, observation: JobObservation) -> Move:
    """Continue the current step, begin the next one, or enter Verifying."""
    step, record, node = job.step, job.record, observation.node or GONE
    if (gone := _healed(job, observation) or reset_false_since(job, observation)) is not None:
        return gone
    if (first := protect(job, observation, node)) is not None:
        return first
    if step is None:
        return _steps_done(job, observation)
    if record is None or record.state is not StepState.RUNNING:
        return _begin(job, observation, node, step, record)
    if spared(job, observation):
        return _skipped(job, observation, record, SPARED)
    return STEPS[step.name](job, observation, node, step, record)


def _healed(job: Job, observation: JobObservation) -> Move | None:
    """Close the job before its first irreversible step if the fault has gone: a healthy node need
    not be drained.
    """
    step = job.step
    disrupts = step is not None and step.disruption is not Disruption.NONE
    return healed(job, observation) if disrupts and not job.in_flight and not begun(job) else None


def last_act(job: Job) -> tuple[datetime, datetime] | None:
    """Return when the last step of this rung that changed something began and ended; None: there is
    none. Reports count as proof if they are newer than its end, or if the condition changed since
    its begin.
    """
    times = [
        (r.finished_at, r.started_at or r.finished_at)
        for r in job.status.steps
        if r.rung == job.status.rung
        and r.state is StepState.DONE
        and r.finished_at is not None
        and binding(job, r)
    ]
    if not times:
        return None
    ended, began = max(times)
    return min(began, ended), ended


def _steps_done(job: Job, observation: JobObservation) -> Move:
    timeline = job.status.timeline
    act = last_act(job)
    acted = act[1] if act is not None else timeline.acted or observation.now
    return enter(
        job,
        JobPhase.VERIFYING,
        f"rung {job.rung.name} is done, waiting for the proof",
        timeline=timeline.model_copy(update={"acted": acted}),
        conditions=set_condition(job, observation.now, ACTED, f"Rung{job.status.rung}"),
        verifying_since=observation.now,
        evidence_false_since=None,
    )


def _skipped(job: Job, observation: JobObservation, record: StepStatus, why: str) -> Move:
    skipped = ended(record, observation.now, StepState.SKIPPED, why)
    return put(job, skipped).having(step=job.status.step + 1, hold=None), JobAct.NONE


def _begin(
    job: Job, observation: JobObservation, node: NodeObservation, step: Step, old: StepStatus | None
) -> Move:
    """Begin a step: write its record, unless the step is unsupported, skipped or held back."""
    attempts = (old.attempts if old is not None else 0) + 1
    record = StepStatus(
        rung=job.status.rung,
        index=job.status.step,
        name=step.name,
        state=StepState.RUNNING,
        attempts=attempts,
        started_at=observation.now,
        expires_at=observation.now + step.body.timeout,
        output=old.output if old is not None else {},
    )
    if why := unsupported_step(step):
        return failed(job, observation, step, record, why)
    if observation.node is None:
        return _skipped(job, observation, record, "the node is gone")
    if spared(job, observation):
        return _skipped(job, observation, record, SPARED)
    disrupts = step.disruption is not Disruption.NONE
    if disrupts and (
        stop := may(job, observation, evidence=not begun(job)) or stands(job, observation)
    ):
        return stop
    owned = job.status.owned
    if job.spec.host_events:
        # A planned boot is recognized by the boot ID that the host had when the job began.
        owned = owned.model_copy(update={"boot_id": owned.boot_id or node.boot_id})
        record = record.model_copy(update={"boot_id": owned.boot_id})
    if step.name == "cordon":
        owned = owned.model_copy(update={"cordon": True})
    if step.agent is not None or step.collect is not None:
        until = observation.now + step.body.timeout
        return ask(job, observation.now, node, record, StepBy.AGENT, until), JobAct.NONE
    return put(job, record).having(owned=owned, hold=None), JobAct.NONE
